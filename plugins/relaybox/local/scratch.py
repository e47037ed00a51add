"""Temporary directories that belong to a running process; what a killed one left is found by the next start, and removed.

The owner holds a lock on the directory itself. The kernel releases it however the owner ends, so no process id is written down that
another process may get later.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from relaybox.local.processes import processes_in, server_account, wait_until_gone

PREFIX = "relaybox-scratch-"

_OLDER_NAME = re.compile("relaybox-(bench|source|destination|metadata|airline|hub|analytics)-[a-z0-9_]{8}")
"""What older versions called a directory of a bench or of a cluster; the end is tempfile's."""

_END_SECONDS = 10.0
"""So long an interrupted initdb may need to end."""

_locks: dict[Path, int] = {}
"""Open descriptors of the directories that this process owns."""


@dataclass(frozen=True)
class AbandonedScratch:
    """A directory that was removed: its owner had been killed."""

    directory: Path
    byte_count: int

    def __str__(self) -> str:
        return f"removed {self.directory}, {self.byte_count / 1e6:,.0f} MB that a killed process of Relaybox left"


def make_scratch(name: str, parent: Path | None = None) -> Path:
    """A new directory that this process owns until it ends or calls remove_scratch(); below the usual one for temporary files."""
    while True:
        directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-", dir=parent))
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue  # another process took it for abandoned before it was open
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink and directory.exists():
            _locks[directory] = descriptor
            return directory
        os.close(descriptor)  # another process took it for abandoned before it was locked


def remove_scratch(directory: Path) -> None:
    """Deletes a directory, and releases it if this process owns it. One that is gone is fine."""
    shutil.rmtree(directory, ignore_errors=not directory.exists())
    if directory in _locks:
        os.close(_locks.pop(directory))


@contextmanager
def scratch_removed() -> Iterator[None]:
    """At the end of the block this process's directories that were made in it are gone, also after an interruption."""
    before = set(_locks)
    try:
        yield
    finally:
        for directory in [one for one in _locks if one not in before]:
            wait_until_gone(processes_in(directory), deadline_seconds=_END_SECONDS)
            remove_scratch(directory)


@contextmanager
def scratch_directory(name: str, parent: Path | None = None) -> Iterator[Path]:
    """A directory of make_scratch() for a block; others that are made in the block end with it."""
    with scratch_removed():
        yield make_scratch(name, parent)


def remove_abandoned(say: Callable[[str], object], parent: Path | None = None) -> list[AbandonedScratch]:
    """Removes directories of make_scratch() that no process owns and no process works in, and says which.

    Two callers may do this at once, also while others make directories.
    """
    found = [one for path in sorted((parent or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")) if (one := _remove_unowned(path))]
    for one in found:
        say(str(one))
    return found


def tell_of_older(say: Callable[[str], object], parent: Path | None = None) -> list[Path]:
    """Names directories that versions before make_scratch() may have left, and removes none: nothing in them says whose they are."""
    found = [path for path in sorted((parent or Path(tempfile.gettempdir())).iterdir()) if _looks_older(path)]
    for path in found:
        say(
            f"{path}, {bytes_below(path) / 1e6:,.0f} MB, looks like what a bench or demo of an older Relaybox left; "
            f"no process works in it. If none of that version runs, remove it: rm -r {path}"
        )
    return found


def _looks_older(path: Path) -> bool:
    try:
        owner, is_directory = path.lstat().st_uid, path.is_dir() and not path.is_symlink()
    except FileNotFoundError:
        return False  # removed meanwhile
    return bool(_OLDER_NAME.fullmatch(path.name)) and is_directory and owner in _our_accounts() and not processes_in(path)


def _remove_unowned(directory: Path) -> AbandonedScratch | None:
    try:
        if directory.lstat().st_uid not in _our_accounts():
            return None
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None  # removed meanwhile, or none of ours
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if processes_in(directory):
            return None  # a server that its owner left, and that still ends
        abandoned = AbandonedScratch(directory, bytes_below(directory))
        shutil.rmtree(directory)
    except (BlockingIOError, FileNotFoundError):
        return None  # it has an owner, or its files are being removed
    finally:
        os.close(descriptor)
    return abandoned


def _our_accounts() -> set[int]:
    account = server_account()
    return {os.geteuid(), *([account.uid] if account else [])}


def bytes_below(directory: Path) -> int:
    """Of all files below a directory."""
    return sum(path.lstat().st_size for path in directory.rglob("*"))
