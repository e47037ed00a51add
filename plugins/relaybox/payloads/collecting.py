"""Collects large payloads: what no message of any store refers to goes into the trash of its place, and later for good.

1. The files are listed. What is written later is not looked at.
2. Every store is kept still: no segment is dropped (store_references). So a message that moves on meanwhile is found.
3. Each store says since when transactions are open, and then which files its messages refer to.
4. Files that nobody refers to, and that are older than the oldest open transaction and the grace, go into the trash.
5. What is in the trash and is referred to (a restored store, another collection) comes back. What is there for long is removed for good.

Each step may fail, be repeated, and run twice at once. Why this is safe: docs/decisions/0061-collected-payloads.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from relaybox import failpoints
from relaybox.errors import CollectionRefused
from relaybox.log_events import emit, warn
from relaybox.payloads.listing import FileTotal, PlaceListing, StoredFile, TrashedFile, list_place, trash_name
from relaybox.payloads.place_stores import (
    StoreIdentity,
    read_identity,
    read_neighbours,
    read_place_stores,
    record_stores,
    require_all_asked,
    require_neighbours_known,
)
from relaybox.payloads.references import parse_time, written_at
from relaybox.payloads.store import PayloadStore
from relaybox.payloads.store_references import (
    PATIENCE_SECONDS,
    OpenSince,
    StoreReference,
    read_open_since,
    read_references,
    stores_kept_still,
)

if TYPE_CHECKING:
    from relaybox.payloads.files import PlaceFiles
    from relaybox.routes import PayloadPlace, Store
    from relaybox.stores.sessions import StoreSession

SHOWN_MISSING = 20
"""This many references to missing files are named."""

_TOLD_EACH = 10_000

Progress = Callable[[str, int], None]
"""Is told what is done now, and how many files or references it has done."""


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
        other_places: as of ReferenceGatherer.
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

    referenced: Sequence[StoredFile] = ()
    young: Sequence[StoredFile] = ()
    to_trash: Sequence[StoredFile] = ()
    to_put_back: Sequence[TrashedFile] = ()
    to_remove: Sequence[TrashedFile] = ()
    in_trash: Sequence[TrashedFile] = ()
    partials: Sequence[str] = ()


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
        references = _read_kept_still(place, payloads.files, sessions, gathered, tell=tell, patience_seconds=patience_seconds)
        plan = _plan(place, listing, references)
        recorded: tuple[str, ...] = ()
        if not dry_run:
            remembered = read_place_stores(payloads.files)
            recorded = record_stores(payloads.files, remembered, references.stores, recorded_by=recorded_by)
            for session in sessions.values():
                _record_collection(session, place, place_id, plan, recorded_by)
    failpoints.reach("payloads.decided", None)
    if payloads.read_place("collecting it") != place_id:
        raise CollectionRefused(
            f"payloads in {place.location}: another place was mounted there since it was listed. Nothing was removed.",
            next_step="Try again.",
        )
    done = _summary(place, listing, references, plan if dry_run else _carry_out(payloads.files, plan, tell))
    if not dry_run:
        done = replace(done, dry_run=False, recorded=recorded)
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
) -> PlaceReferences:
    """The references of all stores while none drops anything."""
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
    return gathered.result(cutoff, held_by, identities)


def find_cutoff(open_since: Iterable[OpenSince], grace_seconds: int) -> tuple[datetime, str | None]:
    """Before which time a file was written to which nobody can commit a first reference any more; and who holds it back.

    A transaction begins at most `grace_seconds` after the write of the file. So one that is open since T refers to no file that is older
    than T less the grace. Of the clocks of the stores and of this machine the earliest counts.
    """
    now = OpenSince(datetime.now(UTC), None)
    oldest = min((now, *open_since), key=lambda one: one.at)
    return oldest.at - timedelta(seconds=grace_seconds), oldest.who


@dataclass
class ReferenceGatherer:
    """Takes the references of one store after the other; remembers those of one place.

    Attributes:
        place_id: of the place.
        listing: what is there: refs of other files are counted as missing.
        reference_count: messages so far that refer to a file of the place.
        other_places: ids by which messages refer to files that are here: the mark of the place was another one.
    """

    place_id: str
    listing: PlaceListing
    reference_count: int = 0
    other_places: set[str] = field(default_factory=set)
    _refs: set[str] = field(default_factory=set)
    _tails: set[str] = field(default_factory=set)
    _missing: dict[str, MissingPayload] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._trashed = {one.ref for one in self.listing.trash}

    def add(self, store: str, references: Iterable[StoreReference], tell: Progress) -> None:
        """Takes those of one store."""
        doing = f"references read, those of {store} now"
        for number, one in enumerate(references):
            if number % _TOLD_EACH == 0:
                tell(doing, self.reference_count)
            if one.place is None and one.ref is not None and parse_time(one.ref.partition("-")[0]):
                self._tails.add(one.ref)
            if one.ref is None or one.place is None:
                continue
            # no two files have the same name: one that is here is meant, also if the mark was lost and made anew
            self._refs.add(one.ref)
            if one.place != self.place_id:
                self.other_places |= {one.place} if one.ref in self.listing.files else set()
                continue
            self.reference_count += 1
            if one.ref not in self.listing.files and one.ref not in self._missing:
                problem = "in the trash" if one.ref in self._trashed else "missing"
                self._missing[one.ref] = MissingPayload(store, one.held_in, one.position, one.ref, problem)

    def result(self, cutoff: datetime, held_by: str | None, stores: tuple[StoreIdentity, ...]) -> PlaceReferences:
        """What was gathered. A file that was written after the listing is no missing one."""
        missing = [one for one in self._missing.values() if one.problem == "missing" and _is_older(one.ref, cutoff)]
        return PlaceReferences(
            self._refs,
            self.reference_count,
            self._tails,
            tuple(missing[:SHOWN_MISSING]),
            len(missing),
            cutoff,
            held_by,
            stores,
            tuple(sorted(self.other_places)),
        )


def _is_older(ref: str, cutoff: datetime) -> bool:
    at = written_at(ref)
    return at is not None and at < cutoff


def _carry_out(files: PlaceFiles, plan: CollectionPlan, tell: Progress) -> CollectionPlan:
    """What was done of it: what another collection did first is left out."""
    put_back = []
    for one in plan.to_put_back:
        if files.move(one.name, one.ref):
            put_back.append(one)
            failpoints.reach("payloads.put_back", None)
    began_at = datetime.now(UTC)
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
    folders = {file.ref.partition("/")[0] for file in plan.to_trash} | {
        name.partition("/")[0] for name in partials if "/" in name
    }
    for folder in sorted(folders):
        files.remove_empty_folders(folder)
    for folder in sorted({one.name.removesuffix(f"/{one.ref}") for one in (*plan.to_remove, *plan.to_put_back)}):
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


def tell_nobody(doing: str, count: int) -> None:
    """Of a caller that shows nothing."""
