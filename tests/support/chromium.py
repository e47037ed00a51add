"""A Chromium for the tests that look at the Airflow UI. `python -m tests.support.chromium` finds or installs one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from relaybox.local.debian import Program

CHROMIUM = Program(("chromium", "chromium-browser", "google-chrome", "chrome"), "chromium", "the browser tests need a Chromium")


def find_chromium() -> Path | None:
    """The first Chromium on PATH."""
    return CHROMIUM.find()


def launch_arguments() -> list[str]:
    """Arguments that a headless Chromium needs here: as root it refuses to start with its sandbox."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


if __name__ == "__main__":
    sys.exit(CHROMIUM.provide_and_print("Chromium"))
