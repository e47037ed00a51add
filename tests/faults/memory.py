"""Where clusters of short tests live: in memory, if the machine lets them."""

from __future__ import annotations

import os
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108  private directories are made in it


def fast_directory() -> Path | None:
    """A parent for temporary directories; None for the usual one. Not for tests of what a disk keeps."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None
