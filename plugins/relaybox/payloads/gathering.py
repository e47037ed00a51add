"""What the messages of all stores say of the files of a place, store after store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox.payloads.references import parse_time, written_at

if TYPE_CHECKING:
    from relaybox.payloads.listing import PlaceListing
    from relaybox.payloads.place_stores import StoreIdentity
    from relaybox.payloads.store_references import StoreReference

SHOWN_MISSING = 20
"""This many references to missing files are named."""

_TOLD_EACH = 10_000
"""Progress is told after this many references."""

Progress = Callable[[str, int], None]
"""Is told what is done now, and how many files or references it has done."""


def tell_nobody(doing: str, count: int) -> None:
    """Of a caller that shows nothing."""


@dataclass(frozen=True)
class MissingPayload:
    """A message whose file is not there, or differs.

    Attributes:
        store: that has the message.
        held_in, position: as of StoreReference.
        ref: the file.
        problem: missing, in the trash, or what differs.
    """

    store: str
    held_in: str
    position: int
    ref: str
    problem: str


@dataclass(frozen=True)
class PlaceReferences:
    """What the messages of all stores say of a place.

    Attributes:
        refs: the files to which a message refers.
        reference_count: how many messages refer to a file of the place.
        tails: files of which only the name without its day is known: those of rows that can't be messages.
        samples: a message for each ref that is not in the listing, at most SHOWN_MISSING.
        missing_count: how many files are missing.
        cutoff: nobody commits a reference to a file any more that is older, and that nobody refers to.
        held_by: the transaction that holds back the cutoff; None: the time does.
        stores: that were asked.
        other_places: ids by which messages refer to files that are here: the mark of the place was another one.
    """

    refs: Collection[str]
    reference_count: int
    tails: Collection[str]
    samples: tuple[MissingPayload, ...]
    missing_count: int
    cutoff: datetime
    held_by: str | None
    stores: tuple[StoreIdentity, ...]
    other_places: tuple[str, ...] = ()

    def has(self, ref: str) -> bool:
        """Whether a message refers to the file."""
        return ref in self.refs or ref.partition("/")[2] in self.tails


class ReferenceGatherer:
    """Takes the references of one store after the other; remembers those of one place."""

    def __init__(self, place_id: str, listing: PlaceListing) -> None:
        """Takes the id of the place, and what is in it: a file that is neither listed nor in the trash is a missing one."""
        self._place_id, self._files = place_id, listing.files
        self._trashed = {one.ref for one in listing.trash}
        self._reference_count = 0
        self._refs: set[str] = set()
        self._tails: set[str] = set()
        self._other_places: set[str] = set()
        self._missing: dict[str, MissingPayload] = {}

    def add(self, store: str, references: Iterable[StoreReference], tell: Progress) -> None:
        """Takes those of one store."""
        doing = f"references read, those of {store} now"
        for number, one in enumerate(references):
            if number % _TOLD_EACH == 0:
                tell(doing, self._reference_count)
            if one.ref is None:
                continue
            if one.place is None:
                if parse_time(one.ref.partition("-")[0]):
                    self._tails.add(one.ref)
                continue
            # no two files have the same name: one that is here is meant, also if the mark was lost and made anew
            self._refs.add(one.ref)
            if one.place == self._place_id:
                self._reference_count += 1
                if not (one.ref in self._files or one.ref in self._trashed or one.ref in self._missing):
                    self._missing[one.ref] = MissingPayload(store, one.held_in, one.position, one.ref, "missing")
            elif one.ref in self._files:
                self._other_places.add(one.place)

    def result(self, cutoff: datetime, held_by: str | None, stores: tuple[StoreIdentity, ...]) -> PlaceReferences:
        """What was gathered. A file that was written after the listing is no missing one."""
        missing = [one for one in self._missing.values() if (at := written_at(one.ref)) is not None and at < cutoff]
        return PlaceReferences(
            refs=self._refs,
            reference_count=self._reference_count,
            tails=self._tails,
            samples=tuple(missing[:SHOWN_MISSING]),
            missing_count=len(missing),
            cutoff=cutoff,
            held_by=held_by,
            stores=stores,
            other_places=tuple(sorted(self._other_places)),
        )
