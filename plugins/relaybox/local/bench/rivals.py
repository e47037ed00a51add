"""Other queues in Postgres, as SQL from their packages, for benchmarks: `python -m relaybox.local.bench.rivals` gets them.

Nothing else needs them, so they are in no lock file: their versions and digests are here. They are installed into databases of the
benchmark's own clusters. PgQ is its variant without C functions, which runs on every version of Postgres: PgQ's own insert_event() in
C, which Debian builds for one version of Postgres only, is faster.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from relaybox.errors import ConfigurationError


@dataclass(frozen=True)
class Rival:
    """A queue: its version, and the digest of the SQL that makes it."""

    name: str
    version: str
    sha256: str
    get: Callable[[Path], Path]

    @property
    def path(self) -> Path:
        """Where the SQL is kept, in this virtual environment."""
        return Path(sys.prefix) / "rivals" / f"{self.name}-{self.version}.sql"

    def read(self) -> str | None:
        """The SQL; None: it was not got.

        Raises:
            ConfigurationError: it is another text than that of this version.
        """
        if not self.path.is_file():
            return None
        content = self.path.read_bytes()
        if (digest := hashlib.sha256(content).hexdigest()) != self.sha256:
            raise ConfigurationError(
                f"{self.path}: its SHA-256 is {digest}, that of {self.name} {self.version} is {self.sha256}.",
                next_step=f"Remove the file and run `make rivals`. A newer {self.name} needs a new digest in {__file__}.",
            )
        return content.decode()


def _get_pgmq(directory: Path) -> Path:
    """The wheel of its Python client has the SQL of its extension."""
    wheel = "4d9e7aa517295669d46a11d3d13106efbdc738d0e127d84c567b6d4c936e7d1d"
    wanted = directory / "pgmq.txt"
    wanted.write_text(f"pgmq==1.1.4 --hash=sha256:{wheel}\n", encoding="utf-8")
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes")
    _run(directory, sys.executable, "-m", "pip", "download", *options, "--dest", str(directory), "--requirement", str(wanted))
    with zipfile.ZipFile(next(directory.glob("pgmq-*.whl"))) as archive:
        return Path(archive.extract("pgmq/sql/pgmq.sql", directory))


def _get_pgq(directory: Path) -> Path:
    _run(directory, "apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "postgresql-15-pgq3")
    _run(directory, "dpkg-deb", "--extract", str(next(directory.glob("postgresql-15-pgq3_*.deb"))), str(directory))
    return directory / "usr/share/postgresql/15/contrib/pgq_pl_only.sql"


PGMQ = Rival("pgmq", "1.13.0", "bf7e66c75ed771df0c5f7cb2b9f0123ca77992daacd56e3911d1894a3efa99de", _get_pgmq)
PGQ = Rival("pgq", "3.5", "65d843765c0011eb262ff207a1d974673c885b89e8e23e8bd04d2bb193216666", _get_pgq)
RIVALS = (PGMQ, PGQ)


def provide(rival: Rival) -> Path:
    """Gets the SQL, unless it is here.

    Raises:
        ConfigurationError: its package can't be had here, or has another SQL.
    """
    if rival.read() is None:
        with tempfile.TemporaryDirectory() as directory:
            content = rival.get(Path(directory)).read_bytes()
        rival.path.parent.mkdir(exist_ok=True)
        rival.path.write_bytes(content)
        rival.read()
    return rival.path


def _run(directory: Path, *command: str) -> None:
    try:
        answer = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ConfigurationError(f"{command[0]} is not on PATH.", next_step="Get the package by hand.") from error
    if answer.returncode != 0:
        raise ConfigurationError(
            f"`{' '.join(command)}` failed with code {answer.returncode}: {answer.stderr.strip()[-500:]}",
            next_step="Without the package the benchmarks leave this contestant out, and say so.",
        )


def main() -> int:
    """The command of `make rivals`: the exit code."""
    failures = 0
    for rival in RIVALS:
        try:
            print(f"{rival.name} {rival.version}: {provide(rival)}")
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            failures += 1
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
