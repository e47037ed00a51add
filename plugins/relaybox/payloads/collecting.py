"""Collects large payloads: what no message of any store refers to goes into the trash of its place, and later for good.

1. The files are listed. What is written later is not looked at.
2. Every store is kept still: no segment is dropped (store_references). So a message that moves on meanwhile is found.
3. Each store says since when transactions are open, and then which files its messages refer to.
4. Files that nobody refers to, and that are older than the oldest open transaction and the grace, go into the trash.
5. What is in the trash and is referred to (a restored store, another collection) comes back. What is there for long is removed for good.

Each step may fail, be repeated, and run twice at once. Why this is safe: docs/decisions/0061-collected-payloads.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from relaybox import failpoints
from relaybox.errors import CollectionRefused
from relaybox.log_events import emit, warn
from relaybox.payloads.collection_plan import CollectionPlan, plan_collection
from relaybox.payloads.gathering import MissingPayload, PlaceReferences, Progress, ReferenceGatherer, tell_nobody
from relaybox.payloads.listing import FileTotal, PlaceListing, list_place, trash_name
from relaybox.payloads.place_stores import (
    read_identity,
    read_neighbours,
    read_place_stores,
    record_stores,
    require_all_asked,
    require_neighbours_known,
)
from relaybox.payloads.store import PayloadStore
from relaybox.payloads.store_references import PATIENCE_SECONDS, OpenSince, read_open_since, read_references, stores_kept_still

if TYPE_CHECKING:
    from relaybox.payloads.files import PlaceFiles
    from relaybox.routes import PayloadPlace, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class PlaceCollected:
    """What a collection did with a place, or would do.

    Attributes:
        place: its name in relaybox.yaml.
        location: the directory, or the URI of an object store.
        dry_run: nothing was changed.
        referenced: files to which messages refer.
        young: files to which no message refers, and that are not old enough.
        trashed: moved into the trash.
        put_back: brought back from the trash, since messages refer to them.
        removed: removed from the trash for good.
        in_trash: what is in the trash now.
        partial_count: what killed writers had left, removed.
        unknown_count: files of the place that are not of Relaybox; nothing touches them.
        cutoff: only files that are older were looked at.
        held_by: the open transaction that holds back the cutoff; None: none does.
        missing: messages whose file is missing, the first ones.
        missing_count: how many files are missing.
        recorded: stores that the place did not know before.
        other_places: ids of other places by which messages refer to files that are here: these stay.
    """

    place: str
    location: str
    dry_run: bool
    referenced: FileTotal
    young: FileTotal
    trashed: FileTotal
    put_back: FileTotal
    removed: FileTotal
    in_trash: FileTotal
    partial_count: int
    unknown_count: int
    cutoff: datetime
    held_by: str | None
    missing: tuple[MissingPayload, ...]
    missing_count: int
    recorded: tuple[str, ...] = ()
    other_places: tuple[str, ...] = ()


def collect_place(
    place: PayloadPlace,
    stores: Sequence[Store],
    *,
    recorded_by: str,
    dry_run: bool = False,
    progress: Progress | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> PlaceCollected:
    """Collects a place. May be killed, repeated, and run twice at once.

    Args:
        place: of relaybox.yaml.
        stores: all of relaybox.yaml. One that no route uses may still have messages of earlier routes.
        recorded_by: who does it.
        dry_run: decides, and changes nothing.
        progress: is told how far it is.
        patience_seconds: how long a transaction is waited for whose beginning is not known.

    Raises:
        CollectionRefused: it is not certain who refers to the files.
        PayloadsUnavailable: the place can't be reached or written.
        StoreUnreachable, StoreUnusable, StoreNotInitialised, StoreBusy: a store does not say what its messages refer to.
    """
    tell = progress or tell_nobody
    payloads = PayloadStore(place.location)
    place_id = payloads.read_place("collecting it")
    listing = list_place(payloads.files)
    tell("files listed", len(listing.files))
    failpoints.reach("payloads.listed", None)
    with stores_kept_still(stores) as sessions:
        gathered = ReferenceGatherer(place_id, listing)
        references, open_since = _read_kept_still(
            place, payloads.files, sessions, gathered, tell=tell, patience_seconds=patience_seconds
        )
        plan = _plan(place, listing, references)
        recorded: tuple[str, ...] = ()
        if not dry_run:
            remembered = read_place_stores(payloads.files)
            at = min([datetime.now(UTC), *(one.asked_at for one in open_since)])
            recorded = record_stores(payloads.files, remembered, references.stores, at=at, recorded_by=recorded_by)
            for session in sessions.values():
                _record_collection(session, place, place_id, plan, recorded_by)
    failpoints.reach("payloads.decided", None)
    if payloads.read_place("collecting it") != place_id:
        raise CollectionRefused(
            f"payloads in {place.location}: another place was mounted there since it was listed. Nothing was removed.",
            next_step="Try again.",
        )
    if dry_run:
        return _summary(place, listing, references, plan)
    carried_out = _carry_out(payloads.files, plan, read_newest_clock(open_since), tell)
    done = replace(_summary(place, listing, references, carried_out), dry_run=False, recorded=recorded)
    _emit(done)
    return done


def _plan(place: PayloadPlace, listing: PlaceListing, references: PlaceReferences) -> CollectionPlan:
    now = references.cutoff + timedelta(seconds=place.grace_seconds)  # of the earliest clock
    keep_before, trash_before = (now - timedelta(seconds=seconds) for seconds in (place.keep_seconds, place.trash_seconds))
    return plan_collection(listing, references, keep_before=keep_before, trash_before=trash_before)


def _summary(place: PayloadPlace, listing: PlaceListing, references: PlaceReferences, plan: CollectionPlan) -> PlaceCollected:
    return PlaceCollected(
        place=place.name,
        location=place.location,
        dry_run=True,
        referenced=FileTotal.of(plan.referenced),
        young=FileTotal.of(plan.young),
        trashed=FileTotal.of(plan.to_trash),
        put_back=FileTotal.of(plan.to_put_back),
        removed=FileTotal.of(plan.to_remove),
        in_trash=FileTotal.of([*plan.in_trash, *plan.to_trash]),
        partial_count=len(plan.partials),
        unknown_count=len(listing.unknown),
        cutoff=references.cutoff,
        held_by=references.held_by,
        missing=references.samples,
        missing_count=references.missing_count,
        other_places=references.other_places,
    )


def _read_kept_still(
    place: PayloadPlace,
    files: PlaceFiles,
    sessions: Mapping[Store, StoreSession],
    gathered: ReferenceGatherer,
    *,
    tell: Progress,
    patience_seconds: float,
) -> tuple[PlaceReferences, list[OpenSince]]:
    """The references of all stores while none drops anything, and what each said before of its clock and its transactions."""
    identities = tuple(read_identity(session) for session in sessions.values())
    remembered = read_place_stores(files)
    require_all_asked(files, place.name, remembered, identities)
    neighbours = [one for session in sessions.values() for one in read_neighbours(session)]
    require_neighbours_known(files, place.name, remembered, identities, neighbours)
    failpoints.reach("payloads.still", None)
    open_since = []
    for store, session in sessions.items():
        open_since.append(read_open_since(session, patience_seconds=patience_seconds))
        session.reach("payloads.asked")
        gathered.add(store.name, read_references(session), tell)
        session.reach("payloads.read")
    require_all_asked(files, place.name, read_place_stores(files), identities)  # another installation may have come meanwhile
    cutoff, held_by = find_cutoff(open_since, place.grace_seconds)
    return gathered.result(cutoff, held_by, identities), open_since


def find_cutoff(open_since: Iterable[OpenSince], grace_seconds: int) -> tuple[datetime, str | None]:
    """Before which time a file was written to which nobody can commit a first reference any more; and who holds it back.

    A transaction begins at most `grace_seconds` after the write of the file. So one that is open since T refers to no file that is older
    than T less the grace. Of the clocks of the stores and of this machine the earliest counts.
    """
    ages: list[tuple[datetime, str | None]] = [(datetime.now(UTC), None), *((one.at, one.who) for one in open_since)]
    at, held_by = min(ages, key=lambda one: one[0])
    return at - timedelta(seconds=grace_seconds), held_by


def read_newest_clock(open_since: Iterable[OpenSince]) -> datetime:
    """Of the clocks of the stores and of this machine the newest one, now.

    It names the folder of the trash: by a clock that is behind, a later collection would remove the files too early, and for good.
    """
    return max([datetime.now(UTC), *(one.store_now() for one in open_since)])


def _carry_out(files: PlaceFiles, plan: CollectionPlan, began_at: datetime, tell: Progress) -> CollectionPlan:
    """What was done of it from this time on: what another collection did first is left out."""
    put_back = []
    for one in plan.to_put_back:
        if files.move(one.name, one.ref):
            put_back.append(one)
            failpoints.reach("payloads.put_back", None)
    trashed = []
    for number, file in enumerate(plan.to_trash, start=1):
        if files.move(file.ref, trash_name(file.ref, began_at)):
            trashed.append(file)
            failpoints.reach("payloads.trashed", None)
        tell("files moved into the trash", number)
    removed = []
    for number, one in enumerate(plan.to_remove, start=1):
        if files.remove(one.name):
            removed.append(one)
            failpoints.reach("payloads.removed", None)
        tell("files removed from the trash", number)
    partials = [name for name in plan.partials if files.remove(name)]
    folders = {name.partition("/")[0] for name in (*(file.ref for file in plan.to_trash), *partials) if "/" in name}
    folders |= {one.name.removesuffix(f"/{one.ref}") for one in (*plan.to_remove, *plan.to_put_back)}
    for folder in sorted(folders):
        files.remove_empty_folders(folder)
    return CollectionPlan(plan.referenced, plan.young, trashed, put_back, removed, plan.in_trash, partials)


def _record_collection(session: StoreSession, place: PayloadPlace, place_id: str, plan: CollectionPlan, recorded_by: str) -> None:
    """For `relaybox doctor`. Commits, which ends that the store is kept still: a session that was lost meanwhile fails here."""
    trash_bytes = FileTotal.of([*plan.in_trash, *plan.to_trash]).bytes
    referenced, young = FileTotal.of(plan.referenced), FileTotal.of(plan.young)
    numbers = (referenced.count, referenced.bytes, young.count, young.bytes, trash_bytes)
    session.execute(_RECORD, place_id, place.name, place.location, recorded_by, *numbers)
    session.commit("payload_collection")


_RECORD = """
insert into relaybox_internal.payload_collection as c
    (place, name, location, collected_by, referenced_count, referenced_bytes, unreferenced_count, unreferenced_bytes, trash_bytes)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (place) do update set
    name = excluded.name, location = excluded.location, collected_at = excluded.collected_at, collected_by = excluded.collected_by,
    referenced_count = excluded.referenced_count, referenced_bytes = excluded.referenced_bytes,
    unreferenced_count = excluded.unreferenced_count, unreferenced_bytes = excluded.unreferenced_bytes,
    trash_bytes = excluded.trash_bytes
"""


def _emit(done: PlaceCollected) -> None:
    emit(
        "payloads_collected",
        place=done.place,
        referenced=done.referenced.count,
        trashed=done.trashed.count,
        removed=done.removed.count,
        young=done.young.count,
        megabytes=(done.trashed.bytes + done.removed.bytes) / 1e6,
    )
    if done.put_back.count:
        warn("payloads_put_back", place=done.place, files=done.put_back.count)
    if done.missing_count:
        warn("payloads_missing", place=done.place, files=done.missing_count, first=done.missing[0].ref)
