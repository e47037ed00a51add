"""Brings back what collections have removed from a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox.log_events import emit
from relaybox.payloads.checking import ask_stores
from relaybox.payloads.gathering import Progress, tell_nobody
from relaybox.payloads.listing import FileTotal, list_place
from relaybox.payloads.store import PayloadStore

if TYPE_CHECKING:
    from relaybox.routes import PayloadPlace, Store


@dataclass(frozen=True)
class PlaceRestored:
    """What came back.

    Attributes:
        place, location: as of PayloadPlace.
        restored: files that are back.
        in_trash: files that stay in the trash: no message refers to them.
    """

    place: str
    location: str
    restored: FileTotal
    in_trash: FileTotal


def restore_files(
    place: PayloadPlace, stores: Sequence[Store], *, everything: bool = False, progress: Progress | None = None
) -> PlaceRestored:
    """Brings files back from the trash of a place: those to which a message refers, or all. May be killed and repeated.

    Args:
        place: of relaybox.yaml.
        stores: all of relaybox.yaml.
        everything: brings all back, and asks no store.
        progress: is told how far it is.

    Raises:
        PayloadsUnavailable: the place can't be reached or written.
        StoreUnreachable, StoreUnusable, StoreNotInitialised, StoreBusy: a store does not say what its messages refer to. Nothing came back.
    """
    tell = progress or tell_nobody
    payloads = PayloadStore(place.location)
    place_id = payloads.read_place("restoring files")
    if everything:
        wanted = None
    else:
        said = ask_stores(place_id, stores, tell)
        for error in said.errors.values():
            raise error
        wanted = said.counts.keys()
    listing = list_place(payloads.files)
    restored, left = [], []
    for number, one in enumerate(listing.trash):
        tell("files looked at", number)
        if one.ref in listing.files or (wanted is not None and one.ref not in wanted):
            left.append(one)
        elif payloads.files.move(one.name, one.ref):  # else another restore or collection was first
            restored.append(one)
    for folder in sorted({one.name.removesuffix(f"/{one.ref}") for one in restored}):
        payloads.files.remove_empty_folders(folder)
    done = PlaceRestored(place.name, place.location, FileTotal.of(restored), FileTotal.of(left))
    emit("payloads_restored", place=place.name, files=done.restored.count, megabytes=done.restored.bytes / 1e6)
    return done
