"""Compilers of other languages, for the tests of docs/examples: `python -m tests.support.languages` finds or installs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.local.debian import Program

JAVA = Program(("java",), "default-jdk-headless", "the tests of Java need a JDK")
JAVAC = Program(("javac",), "default-jdk-headless", "the tests of Java need a JDK")
GO = Program(("go",), "golang-go", "the tests of Go need its compiler")

JDBC = Path("/usr/share/java/postgresql.jar")
GO_PACKAGES = Path("/usr/share/gocode")
_LIBRARIES = {JDBC: "libpostgresql-jdbc-java", GO_PACKAGES / "src/github.com/lib/pq": "golang-github-lib-pq-dev"}


def go_environment() -> dict[str, str]:
    """Of a compiler that takes packages from Debian's, and none from elsewhere."""
    return {**os.environ, "GO111MODULE": "off", "GOPATH": str(GO_PACKAGES), "GOFLAGS": ""}


def provide() -> None:
    """Finds them; as root on Debian, installs what is missing.

    Raises:
        ConfigurationError: one is not installed, and can't be installed from here.
    """
    for program in (JAVA, JAVAC, GO):
        program.provide()
    missing = [package for path, package in _LIBRARIES.items() if not path.exists()]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "--yes", "-qq", "--no-install-recommends", *missing], check=True)
    elif missing:
        raise ConfigurationError(
            f"the tests of Java and Go need Debian packages: {', '.join(missing)}.",
            next_step=f"Install them: sudo apt-get install {' '.join(missing)}",
        )


if __name__ == "__main__":
    provide()
