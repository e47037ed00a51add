"""A Chromium for the tests that look at the Airflow UI. `python -m relaybox.local.chromium` finds or installs one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from relaybox.errors import ConfigurationError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_INSTALL = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "--yes", "-qq", "--no-install-recommends", "chromium"),
)


def find_chromium() -> Path | None:
    """The first Chromium on PATH."""
    found = (shutil.which(name) for name in _NAMES)
    return next((Path(program) for program in found if program), None)


def launch_arguments() -> list[str]:
    """Arguments that a headless Chromium needs here: as root it refuses to start with its sandbox."""
    return ["--no-sandbox"] if os.geteuid() == 0 else []


def provide_chromium() -> Path:
    """Finds a Chromium; as root on Debian, installs one.

    Raises:
        ConfigurationError: there is none, and none can be installed from here.
    """
    if found := find_chromium():
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ConfigurationError(
            f"the browser tests need a Chromium: none of {', '.join(_NAMES)} is on PATH.",
            next_step="Install one, for example: sudo apt-get install chromium",
        )
    for command in _INSTALL:
        _run(command)
    return _require_chromium()


def _run(command: tuple[str, ...]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    answer = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ConfigurationError(
            f"`{' '.join(command)}` failed with code {answer.returncode}: {answer.stderr.strip()[-500:]}",
            next_step="Install a Chromium by hand.",
        )


def _require_chromium() -> Path:
    if found := find_chromium():
        return found
    raise ConfigurationError(
        f"the package chromium was installed, yet none of {', '.join(_NAMES)} is on PATH.",
        next_step="Install a Chromium by hand.",
    )


def main() -> int:
    """Prints where Chromium is."""
    try:
        print(f"Chromium: {provide_chromium()}")
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
