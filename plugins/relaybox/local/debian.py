"""Programs that only tests need, from Debian's packages: found on this machine, or installed as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from relaybox.errors import ConfigurationError

_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where servers are installed; the PATH of a user who is not root often lacks them."""


@dataclass(frozen=True)
class Program:
    """A program, and the Debian package that brings it.

    Attributes:
        names: those that it may have; the first one found is taken.
        package: of Debian.
        needed_by: who needs it, as in "the browser tests need a Chromium".
    """

    names: tuple[str, ...]
    package: str
    needed_by: str

    def find(self) -> Path | None:
        """The first of its names on PATH, or among the system's programs."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_DIRECTORIES])
        found = (shutil.which(name, path=path) for name in self.names)
        return next((Path(program) for program in found if program), None)

    def require(self) -> Path:
        """Finds it.

        Raises:
            ConfigurationError: it is not installed.
        """
        if found := self.find():
            return found
        raise ConfigurationError(
            f"{self.needed_by}: none of {', '.join(self.names)} is on PATH.",
            next_step=f"Install it, for example: sudo apt-get install {self.package}",
        )

    def provide(self) -> Path:
        """Finds it; as root on Debian, installs it.

        Raises:
            ConfigurationError: it is not installed, and can't be installed from here.
        """
        if self.find() is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
            _run("apt-get", "update", "-qq")
            _run("apt-get", "install", "--yes", "-qq", "--no-install-recommends", self.package)
        return self.require()

    def provide_and_print(self, title: str) -> int:
        """The command of a make target: provides the program and prints its title and path; answers the exit code."""
        try:
            print(f"{title}: {self.provide()}")
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            return 2
        return 0


def _run(*command: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    answer = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ConfigurationError(
            f"`{' '.join(command)}` failed with code {answer.returncode}: {answer.stderr.strip()[-500:]}",
            next_step=f"Install {command[-1]} by hand." if "install" in command else "Correct the package sources of apt.",
        )
