"""The files of a place of payloads: what listing, collecting and PayloadStore need of a directory or of an object store."""

from __future__ import annotations

import errno
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from relaybox.errors import PayloadsUnavailable
from relaybox.payloads.references import PARTIAL


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a place.

    Attributes:
        name: below the place, with slashes.
        bytes: its length.
        modified_at: by the clock of the disk or of the object store.
    """

    name: str
    bytes: int
    modified_at: datetime


class PlaceFiles(Protocol):
    """The files of a place. Every call may be repeated. Names are below the place, with slashes.

    Raises:
        PayloadsUnavailable: the place can't be reached, read or written; a retry may help.
    """

    @property
    def where(self) -> str:
        """The directory or URI, for errors."""

    def list_files(self, below: str = "") -> Iterator[FoundFile]:
        """Every file, in no order; or those below a folder, which may be missing. A file that goes meanwhile may be left out."""

    def read(self, name: str, doing: str, at_most: int | None = None) -> bytes:
        """The content of a file, or its first `at_most` bytes. FileNotFoundError: no file has this name, though the place is there."""

    def prepare(self) -> None:
        """Makes the place itself; again: no change."""

    def write_new(self, name: str, content: bytes, doing: str) -> None:
        """Writes a file whose name nobody else uses, whole and durable with its name."""

    def create(self, name: str, content: bytes, doing: str) -> bool:
        """The same of a name that others use: of two callers at once one creates it. False: it is there, and stays as it is."""

    def replace(self, name: str, content: bytes, doing: str) -> None:
        """Writes a file in place of the one of this name, if there is one: a reader gets the one or the other, whole."""

    def move(self, name: str, to: str) -> bool:
        """Gives a file another name. False: it is not there (any more)."""

    def remove(self, name: str) -> bool:
        """Removes a file for good. False: it is not there (any more)."""

    def remove_empty_folders(self, above: str) -> None:
        """Removes empty folders below the folder `above`; a place without folders does nothing."""


class DirectoryFiles:
    """A directory of a disk or of a network file system; see PlaceFiles."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    @property
    def where(self) -> str:
        return str(self.directory)

    def prepare(self) -> None:
        with self._reaching("preparing it"):
            self.directory.mkdir(parents=True, exist_ok=True)
            _flush_directory(self.directory.parent)

    def list_files(self, below: str = "") -> Iterator[FoundFile]:
        with self._reaching("listing it"):
            if not below:
                yield from self._below(self.directory, "")
            elif (self.directory / below).is_dir():
                yield from self._below(self.directory / below, f"{below}/")

    def _below(self, directory: Path, prefix: str) -> Iterator[FoundFile]:
        """No link is followed: what it leads to is not of this place. In place of the trash none may be."""
        with os.scandir(directory) as entries:
            for entry in entries:
                name = f"{prefix}{entry.name}"
                if entry.is_symlink() and _FOLDERS.fullmatch(name):
                    raise NotADirectoryError(
                        errno.ENOTDIR, "a link is in place of a folder: make a folder, and move the files back", name
                    )
                if entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError):  # a folder that another collection has emptied and removed
                        yield from self._below(directory / entry.name, f"{name}/")
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # moved or removed since the directory was read: the next listing has it where it is
                yield FoundFile(name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def read(self, name: str, doing: str, at_most: int | None = None) -> bytes:
        """What has the name and is no file, as a folder or a named pipe, is not read: a pipe would never end."""
        try:
            content = _read_file(self.directory / name, at_most)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(str(error)) from error
        except OSError as error:
            raise self._unavailable(doing, error) from error
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no file, but something else has this name", name)
        return content

    def write_new(self, name: str, content: bytes, doing: str) -> None:
        """Needs no hard links, unlike create()."""
        path = self.directory / name
        with self._reaching(doing):
            partial = self._write_partial(path.with_name(path.name + PARTIAL), content)
            partial.rename(path)
            _flush_directory(path.parent)

    def create(self, name: str, content: bytes, doing: str) -> bool:
        path = self.directory / name
        with self._reaching(doing):
            partial = self._write_partial(path.with_name(f"{path.name}.{uuid.uuid4().hex}{PARTIAL}"), content)
            try:
                path.hardlink_to(partial)  # unlike a rename, it replaces none
            except FileExistsError:
                return False
            finally:
                partial.unlink()
            _flush_directory(path.parent)
        return True

    def replace(self, name: str, content: bytes, doing: str) -> None:
        path = self.directory / name
        with self._reaching(doing):
            partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}{PARTIAL}")
            _write_flushed(partial, content)
            partial.replace(path)
            _flush_directory(path.parent)

    def move(self, name: str, to: str) -> bool:
        target = self.directory / to
        with self._reaching(f"moving {name}"):
            for _ in range(_ATTEMPTS):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    (self.directory / name).rename(target)
                except FileNotFoundError:
                    if (self.directory / name).exists():
                        continue  # another collection has removed the folder that was empty until now
                    return False
                return True
            raise OSError(errno.ENOENT, "the folder is removed again and again", str(target.parent))

    def remove(self, name: str) -> bool:
        with self._reaching(f"removing {name}"):
            try:
                (self.directory / name).unlink()
            except FileNotFoundError:
                return False
            return True

    def remove_empty_folders(self, above: str) -> None:
        with self._reaching("removing empty folders"):
            for folder, _, _ in os.walk(self.directory / above, topdown=False):
                with suppress(OSError):  # it is not empty, or another collection has removed it: both are fine
                    Path(folder).rmdir()

    def _write_partial(self, partial: Path, content: bytes) -> Path:
        """Returns the file, written and flushed, in a folder that it makes. From here on the folder is not empty."""
        for _ in range(_ATTEMPTS):
            self._make_folder(partial.parent)
            try:
                _write_flushed(partial, content)
            except FileNotFoundError:
                continue  # a collection has removed the folder that was empty until now
            return partial
        raise OSError(errno.ENOENT, "the folder is removed again and again", str(partial.parent))

    def _make_folder(self, folder: Path) -> None:
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            _flush_directory(folder.parent)

    @contextmanager
    def _reaching(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unavailable(doing, error) from error

    def _unavailable(self, doing: str, error: OSError) -> PayloadsUnavailable:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        step = "Free space, or make the disk larger." if is_full else "Correct what the error says, and try again."
        return PayloadsUnavailable(f"payloads in {self.where}: while {doing}: {error}.", next_step=step)


_FOLDERS = re.compile(r"\.stores|\.trash(/[^/]+){0,2}")
"""Folders of a place. Moves would follow a link there, and no listing would find the files again."""

_ATTEMPTS = 10
"""A collection that removes empty folders does it once per run."""


def _read_file(path: Path, at_most: int | None) -> bytes | None:
    """None: what has this name is no file. The open of a pipe does not wait for its writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(-1 if at_most is None else at_most)
    finally:
        os.close(descriptor)


def _write_flushed(path: Path, content: bytes) -> None:
    new = path.open("xb")
    try:
        with new as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # the disk is full: the beginning of the file would keep it full
        with suppress(OSError):
            path.unlink()
        raise


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
