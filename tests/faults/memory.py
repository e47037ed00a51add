"""Where clusters of short tests live: in memory, if the machine lets them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108  private directories are made in it


def fast_directory() -> Path | None:
    """A parent for temporary directories; None for the usual one. Not for tests of what a disk keeps."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


@contextmanager
def fast_temporary_directory(prefix: str) -> Iterator[Path]:
    """A directory that the account which runs servers can pass through; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=fast_directory()) as name:
        directory = Path(name)
        directory.chmod(0o711)
        yield directory
