"""Files of a lake: where they are, and what an error of theirs means."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow import fs  # type: ignore[import-untyped]

from relaybox.errors import LakeFailed, LakeRefused


def open_lake(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a directory or URI, and the path in it.

    Raises:
        LakeRefused: no file system has URIs of that kind.
        LakeFailed: it can't be reached.
    """
    with lake_errors(path, "opening it"):
        try:
            system, inner = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
        except ValueError as error:  # pyarrow's ArrowInvalid is one
            raise LakeRefused(f"lake {path}: {error}", next_step="Correct path of the export in relaybox.yaml.") from error
    return system, inner


def list_directories(path: str) -> list[str]:
    """Names of the directories in a directory; none if it does not exist."""
    system, inner = open_lake(path)
    with lake_errors(path, "listing it"):
        found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
        return sorted(entry.base_name for entry in found if entry.type == fs.FileType.Directory)


def list_files(path: str) -> dict[str, int]:
    """The files in a directory, by name, with their size in bytes; none if it does not exist."""
    system, inner = open_lake(path)
    with lake_errors(path, "listing it"):
        found = system.get_file_info(fs.FileSelector(inner, allow_not_found=True))
        return {entry.base_name: entry.size for entry in found if entry.type == fs.FileType.File}


def list_names(path: str) -> list[str]:
    """Names in a directory; none if it does not exist."""
    system, inner = open_lake(path)
    with lake_errors(path, "listing it"):
        return sorted(entry.base_name for entry in system.get_file_info(fs.FileSelector(inner, allow_not_found=True)))


def remove_directory(path: str) -> None:
    """Removes a directory with all that is in it; it may be gone already."""
    system, inner = open_lake(path)
    with lake_errors(path, "removing it"):
        if system.get_file_info(inner).type == fs.FileType.Directory:
            system.delete_dir(inner)


def remove_files(path: str, names: Sequence[str]) -> None:
    """Removes files from a directory; they may be gone already."""
    system, inner = open_lake(path)
    with lake_errors(path, "removing its files"):
        for name in names:
            with suppress(FileNotFoundError):
                system.delete_file(f"{inner}/{name}")


def flush(*paths: str) -> None:
    """Makes files or directories of this machine durable. A lake elsewhere has what it has confirmed.

    Raises:
        LakeFailed: the disk failed.
    """
    for path in paths:
        system, inner = open_lake(path)
        if not isinstance(system, fs.LocalFileSystem):
            return
        with lake_errors(path, "flushing it"):
            descriptor = os.open(inner, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def flush_new_directory(path: str) -> None:
    """Makes a directory of this machine durable with its names, and the names of those above that may be new."""
    system, inner = open_lake(path)
    if isinstance(system, fs.LocalFileSystem):
        flush(inner, *(str(above) for above in list(Path(inner).parents)[:2]))


@contextmanager
def lake_errors(path: str, doing: str) -> Iterator[None]:
    """Turns what a file system raises within the block into ours.

    Raises:
        LakeRefused: it does not let this login.
        LakeFailed: all else: it can't be reached, or its disk is full.
    """
    try:
        yield
    except PermissionError as error:
        raise LakeRefused(
            f"lake {path}: while {doing}: {error}.",
            next_step="Let the login of Spark and of the task read and write the path of the export.",
        ) from error
    except OSError as error:
        step = (
            "Free space, or make the disk larger"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Correct what the error says"
        )
        raise LakeFailed(
            f"lake {path}: while {doing}: {error}.",
            next_step=f"{step}; the next run of the export goes on where the table ends.",
        ) from error
