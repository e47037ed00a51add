"""Where the clusters of tests live: in memory, if the machine has enough of it.

A test makes databases of five hundred files each and drops them. An ext4 without a journal avoids inodes that were deleted in the last
minutes, and looks at each of them for every new file: three databases then take 0.7 s instead of 0.06 s, nearly all of it in the kernel.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relaybox.local.processes import server_account
from relaybox.local.scratch import make_scratch, remove_abandoned, remove_scratch

_MEMORY = Path("/dev/shm")  # noqa: S108  private directories are made in it


_ENOUGH_BYTES = 6 * 2**30  # WAL above all; containers often have 64 MiB


def _fast_directory() -> Path | None:
    """A parent for temporary directories; None for the usual one. Not for tests of what a disk keeps."""
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ENOUGH_BYTES:
        return None
    return _MEMORY


def remove_left_directories() -> None:
    """What earlier runs left that were killed, in memory and on disk; says so."""
    remove_abandoned(print)
    if _MEMORY.is_dir():
        remove_abandoned(print, _MEMORY)


@contextmanager
def fast_temporary_directory(name: str) -> Iterator[Path]:
    """A directory of the account that runs servers, which everybody may pass through; gone afterwards.

    Not by scratch_directory(): at the end of a package's fixture this would remove what a session's fixture made meanwhile.
    """
    directory = make_scratch(name, _fast_directory())
    try:
        directory.chmod(0o711)
        if account := server_account():
            os.chown(directory, account.uid, account.gid)
        yield directory
    finally:
        remove_scratch(directory)
