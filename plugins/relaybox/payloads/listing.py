"""What is in a place of payloads: files of payloads, what collections removed, and what killed writers left."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox.payloads.place_stores import STORES
from relaybox.payloads.references import PARTIAL, parse_time, show_time, written_at
from relaybox.payloads.store import MARK, TRASH

if TYPE_CHECKING:
    from relaybox.payloads.files import FoundFile, PlaceFiles

_TRASHED = re.compile(rf"{re.escape(TRASH)}/([0-9]{{8}}T[0-9]{{6}}Z)/(.*)")


@dataclass(frozen=True)
class FileTotal:
    """How many files, and their length together."""

    count: int
    bytes: int

    @classmethod
    def of(cls, files: Iterable[StoredFile | TrashedFile | FoundFile]) -> FileTotal:
        sizes = [one.bytes for one in files]
        return cls(len(sizes), sum(sizes))


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A payload.

    Attributes:
        ref: its name, as references have it.
        bytes: its length.
        since: the later one of the time of its write and that of its last change: a disk that was restored gives it a new one.
    """

    ref: str
    bytes: int
    since: datetime


@dataclass(frozen=True, slots=True)
class TrashedFile:
    """A payload that a collection has removed, and that can be brought back.

    Attributes:
        ref: its name before.
        name: its name now.
        bytes: its length.
        trashed_at: when the collection began.
    """

    ref: str
    name: str
    bytes: int
    trashed_at: datetime


@dataclass(frozen=True)
class PlaceListing:
    """All files of a place, but its mark and what it remembers of stores.

    Attributes:
        files: payloads, by ref.
        trash: what collections removed.
        partials: what was being written, or was left by a killed writer.
        unknown: names of files that are not of Relaybox. Nothing touches them.
    """

    files: dict[str, StoredFile] = field(default_factory=dict)
    trash: list[TrashedFile] = field(default_factory=list)
    partials: list[FoundFile] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def list_place(files: PlaceFiles) -> PlaceListing:
    """Lists a place.

    Raises:
        PayloadsUnavailable: see PlaceFiles.
    """
    listing = PlaceListing()
    for found in files.list_files():
        _sort_in(listing, found)
    return listing


def _sort_in(listing: PlaceListing, found: FoundFile) -> None:
    written = written_at(found.name)
    if written is not None:
        listing.files[found.name] = StoredFile(found.name, found.bytes, max(written, found.modified_at))
    elif (trashed := _TRASHED.fullmatch(found.name)) and (at := parse_time(trashed[1])) and written_at(trashed[2]):
        listing.trash.append(TrashedFile(trashed[2], found.name, found.bytes, at))
    elif found.name.endswith(PARTIAL) and _is_ours(found.name.removesuffix(PARTIAL)):
        listing.partials.append(found)
    elif found.name != MARK and not found.name.startswith(f"{STORES}/"):
        listing.unknown.append(found.name)


def _is_ours(name: str) -> bool:
    return written_at(name) is not None or name.startswith((f"{MARK}.", f"{STORES}/", ".probe-"))


def trash_name(ref: str, at: datetime) -> str:
    """The name of a file that a collection removes which began at this time."""
    return f"{TRASH}/{show_time(at)}/{ref}"
