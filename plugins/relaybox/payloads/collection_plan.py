"""What a collection is to do with each file of a place: a decision without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox.payloads.listing import PlaceListing, StoredFile, TrashedFile

if TYPE_CHECKING:
    from relaybox.payloads.gathering import PlaceReferences


@dataclass(frozen=True)
class CollectionPlan:
    """What a collection is to do with the files of a place.

    Attributes:
        referenced: stay, since a message refers to them.
        young: stay, since an open transaction may still refer to them, or keep_seconds have not passed.
        to_trash: nobody refers to them.
        to_put_back: are in the trash, and a message refers to them.
        to_remove: were in the trash for long enough.
        in_trash: stay there.
        partials: names of what killed writers left.
    """

    referenced: Sequence[StoredFile]
    young: Sequence[StoredFile]
    to_trash: Sequence[StoredFile]
    to_put_back: Sequence[TrashedFile]
    to_remove: Sequence[TrashedFile]
    in_trash: Sequence[TrashedFile]
    partials: Sequence[str]


def plan_collection(
    listing: PlaceListing, references: PlaceReferences, *, keep_before: datetime, trash_before: datetime
) -> CollectionPlan:
    """Decides. Touches nothing.

    Args:
        listing: of the place, from before the references were read.
        references: of all stores.
        keep_before: files that are younger stay.
        trash_before: what was removed earlier goes for good.
    """
    before = min(references.cutoff, keep_before)
    referenced: list[StoredFile] = []
    young: list[StoredFile] = []
    to_trash: list[StoredFile] = []
    for file in listing.files.values():
        kind = referenced if references.has(file.ref) else (to_trash if file.since < before else young)
        kind.append(file)
    put_back, remove, stay = [], [], []
    for one in listing.trash:
        if references.has(one.ref) and one.ref not in listing.files:
            put_back.append(one)
        elif one.trashed_at < trash_before:
            remove.append(one)
        else:
            stay.append(one)
    partials = [one.name for one in listing.partials if one.modified_at < references.cutoff]
    return CollectionPlan(referenced, young, to_trash, put_back, remove, stay, partials)
