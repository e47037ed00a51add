"""A Chromium for the tests that look at the Airflow UI. `python -m relaybox.local.chromium` finds or installs one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.local.debian import Program

CHROMIUM = Program(("chromium", "chromium-browser", "google-chrome", "chrome"), "chromium", "the browser tests need a Chromium")


def find_chromium() -> Path | None:
    """The first Chromium on PATH."""
    return CHROMIUM.find()


def launch_arguments() -> list[str]:
    """Arguments that a headless Chromium needs here: as root it refuses to start with its sandbox."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def main() -> int:
    """Prints where Chromium is."""
    try:
        print(f"Chromium: {CHROMIUM.provide()}")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
