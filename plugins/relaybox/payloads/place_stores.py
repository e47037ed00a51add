"""Which stores refer to a place, as the place itself remembers: one small file for each, `.stores/ID.json`.

A collection asks the stores of one relaybox.yaml. A store that is missing there may still have messages: the file is an older one, or
another installation uses the same place. So a collection refuses to work unless it has asked each store that the place remembers, and
each store with which a hop connects these since then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from relaybox import errors
from relaybox.stores.sessions.fingerprints import read_fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from relaybox.payloads.files import PlaceFiles
    from relaybox.stores.sessions.store_session import StoreSession

STORES = ".stores"
"""The folder of these files."""

_SUFFIX = ".json"


class StoreIdentity(NamedTuple):
    """Which database a store is.

    Attributes:
        store: its name.
        store_id: of its first init; a copy of the database has it too.
        system_identifier: of its cluster; 0: the provider does not tell.
    """

    store: str
    store_id: str
    system_identifier: int


@dataclass(frozen=True)
class PlaceStore:
    """What a place remembers of a store.

    Attributes:
        identity: which database it was when it was asked last.
        recorded_at: when it was recorded, in UTC.
        recorded_by: who did.
        forgotten_reason: why nobody has to ask it any more; None: a collection has to.
    """

    identity: StoreIdentity
    recorded_at: datetime
    recorded_by: str
    forgotten_reason: str | None = None

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{STORES}/{self.identity.store_id}{_SUFFIX}"

    @property
    def must_be_asked(self) -> bool:
        """Whether a collection has to ask it: it is not forgotten."""
        return self.forgotten_reason is None

    def is_named(self, name: str) -> bool:
        """Whether a person means it by this name or id."""
        return name in {self.identity.store, self.identity.store_id}


def read_identity(session: StoreSession) -> StoreIdentity:
    """Which database the session leads to, in its transaction.

    Raises:
        CollectionRefused: it is not the store that relaybox.yaml says.
    """
    return StoreIdentity(session.store, read_store_id(session), read_fingerprint(session).system_identifier)


def read_store_id(session: StoreSession) -> str:
    """The id of the database to which the session leads, in its transaction: all that a viewer may ask of it. As read_identity()."""
    store, store_id = session.row(_Named, "select s.store, s.store_id::text as store_id from relaybox_internal.store s")
    if store != session.store:
        raise errors.CollectionRefused(
            f"store {session.store}: its service leads to the database of store {store}. Nothing was removed.",
            next_step="Correct the service file, or the name in relaybox.yaml.",
        )
    return store_id


def read_clock(session: StoreSession) -> datetime:
    """The time of the store, in the session's transaction."""
    now: datetime = session.value("select clock_timestamp()")
    return now


class _Named(NamedTuple):
    store: str
    store_id: str


class Neighbour(NamedTuple):
    """A store that a hop connects with one that was asked.

    Attributes:
        store: the one that was asked.
        hop: from it or to it.
        neighbour: the name of the other one.
        registered_at: when init has made the hop in the store.
    """

    store: str
    hop: str
    neighbour: str
    registered_at: datetime


def read_neighbours(session: StoreSession) -> list[Neighbour]:
    """With which stores this one is connected, also by retired hops, in its transaction."""
    return session.rows(Neighbour, _NEIGHBOURS)


_NEIGHBOURS = """
select s.store, h.hop, h.neighbour, h.registered_at
from (
    select i.hop, i.source as neighbour, i.registered_at from relaybox_internal.hop_in i
    union all
    select o.hop, o.destination, o.registered_at from relaybox_internal.hop_out o
) h
cross join relaybox_internal.store s
order by h.registered_at, h.hop
"""


def read_place_stores(files: PlaceFiles) -> list[PlaceStore]:
    """What the place remembers, by name of the store.

    Raises:
        CollectionRefused: one of them is damaged.
        PayloadsUnavailable: see PlaceFiles.
    """
    found = []
    for name in [one.name for one in files.list_files(STORES) if one.name.endswith(_SUFFIX)]:
        try:
            found.append(_parse(json.loads(files.read(name, f"reading {name}"))))
        except FileNotFoundError:
            raise errors.CollectionRefused(
                f"payloads in {files.where}: {name} is gone since the place was listed. Nothing was removed.",
                next_step="Try again.",
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise errors.CollectionRefused(
                f"payloads in {files.where}: {name} is damaged: {error!r}. Nothing was removed.",
                next_step="Restore this file from a backup of the place.",
            ) from error
    return sorted(found, key=lambda one: one.identity.store)


def require_all_asked(files: PlaceFiles, place: str, remembered: Iterable[PlaceStore], asked: Iterable[StoreIdentity]) -> None:
    """Refuses a collection that has not asked each store that the place remembers, or whose stores are other databases now.

    Args:
        files: of the place.
        place: its name in relaybox.yaml.
        remembered: by the place.
        asked: by this collection.

    Raises:
        CollectionRefused: names the stores, and what to do.
    """
    kept = [one for one in remembered if one.must_be_asked]
    by_id = {one.store_id: one for one in asked}
    if not kept:
        names = ", ".join(sorted(one.store for one in by_id.values()))
        raise errors.CollectionRefused(
            f"payloads in {files.where}: it is not recorded which stores refer to this place. Nothing was removed.",
            next_step=f"If messages of no other stores than {names} refer to it: relaybox payloads prepare {place}",
        )
    missing = [one for one in kept if one.identity.store_id not in by_id]
    if missing:
        first = missing[0].identity
        is_alone = sum(one.identity.store == first.store for one in kept) == 1  # a store that was made anew has the name too
        names = ", ".join(
            f"{one.identity.store} (id {one.identity.store_id}, since {one.recorded_at:%Y-%m-%dT%H:%M:%SZ})" for one in missing
        )
        raise errors.CollectionRefused(
            f"payloads in {files.where}: messages of stores that relaybox.yaml does not have may need it: {names}. Nothing was removed.",
            next_step="Is relaybox.yaml an older one, or that of another installation? Add the store, or if its messages are given up: "
            f'relaybox payloads forget {place} {first.store if is_alone else first.store_id} --reason "..."',
        )
    moved = [one.identity for one in kept if is_other_cluster(one.identity, by_id[one.identity.store_id])]
    if moved:
        names = ", ".join(f"{one.store} (was in cluster {one.system_identifier})" for one in moved)
        raise errors.CollectionRefused(
            f"payloads in {files.where}: these stores are in other clusters than before: {names}. A copy of a store does not have the "
            "newest messages of the store itself. Nothing was removed.",
            next_step=f"If it has replaced the store: relaybox payloads prepare {place}",
        )


def require_neighbours_known(
    files: PlaceFiles,
    place: str,
    remembered: Iterable[PlaceStore],
    asked: Iterable[StoreIdentity],
    neighbours: Iterable[Neighbour],
) -> None:
    """Refuses a collection if a store is not asked that was connected with one of the others after the place was prepared.

    The place does not remember a store that no collection has asked yet. An older relaybox.yaml does not have it either.

    Args:
        files: of the place.
        place: its name in relaybox.yaml.
        remembered: by the place.
        asked: by this collection.
        neighbours: of the stores that were asked.

    Raises:
        CollectionRefused: names the first such store, and what to do.
    """
    oldest_first = sorted(remembered, key=lambda one: one.recorded_at)
    names = {one.store for one in asked}
    prepared_at = oldest_first[0].recorded_at if oldest_first else None
    # the newest time of a name counts: under one name a store can have been made anew, or forgotten by its name alone
    forgotten = {one.identity.store: one.recorded_at for one in oldest_first if not one.must_be_asked}
    for one in neighbours:
        if one.neighbour in names or prepared_at is None or one.registered_at < prepared_at:
            continue  # what was there before, prepare has said no
        if one.neighbour in forgotten and one.registered_at <= forgotten[one.neighbour]:
            continue
        raise errors.CollectionRefused(
            f"payloads in {files.where}: relaybox.yaml does not have store {one.neighbour}, whose messages may need it: hop {one.hop} "
            f"connects it with store {one.store} since {one.registered_at:%Y-%m-%dT%H:%M:%SZ}. Nothing was removed.",
            next_step="Is relaybox.yaml an older one, or that of another installation? Add the store, or if its messages are given up: "
            f'relaybox payloads forget {place} {one.neighbour} --reason "..."',
        )


def is_other_cluster(before: StoreIdentity, now: StoreIdentity) -> bool:
    """Whether a store is in another cluster, as far as both are known."""
    return bool(before.system_identifier and now.system_identifier) and before.system_identifier != now.system_identifier


def record_stores(
    files: PlaceFiles, remembered: Iterable[PlaceStore], asked: Iterable[StoreIdentity], *, at: datetime, recorded_by: str
) -> tuple[str, ...]:
    """Lets the place remember stores; again: no change. Returns the names of those that were new, forgotten or in other clusters.

    Args:
        files: of the place.
        remembered: by the place.
        asked: the stores.
        at: the earliest of the clocks of this machine and the stores: by one that is ahead a hop of later would look older than the record.
        recorded_by: who does it.
    """
    known = {one.identity.store_id: one for one in remembered}
    recorded = []
    for identity in asked:
        before = known.get(identity.store_id)
        if before is not None and before.must_be_asked and before.identity == identity:
            continue
        _write(files, PlaceStore(identity, at, recorded_by))
        recorded.append(identity.store)
    return tuple(sorted(recorded))


def forget_store(
    files: PlaceFiles, remembered: Iterable[PlaceStore], name: str, neighbours: Collection[str], *, reason: str, recorded_by: str
) -> StoreIdentity:
    """Records that a store of the place need not be asked any more.

    Args:
        files: of the place.
        remembered: by the place.
        name: of the store, or its id.
        neighbours: names of stores that no collection has asked yet. Nobody knows their ids: the name is recorded instead.
        reason: why.
        recorded_by: who does it.

    Raises:
        CollectionRefused: the place remembers no such store, or several of this name.
    """
    kept = [one for one in remembered if one.must_be_asked]
    found = [one for one in kept if one.is_named(name)]
    if not found and name in neighbours:
        found = [PlaceStore(StoreIdentity(name, name, 0), datetime.now(UTC), recorded_by)]
    if len(found) != 1:
        known = ", ".join(f"{one.identity.store} ({one.identity.store_id})" for one in kept)
        count = f"it remembers {len(found)} stores" if found else "it remembers no store"
        raise errors.CollectionRefused(
            f"payloads in {files.where}: {count} with the name or id {name!r}.",
            next_step=f"It remembers: {known or 'none'}. Nothing was changed.",
        )
    _write(files, PlaceStore(found[0].identity, datetime.now(UTC), recorded_by, reason))
    return found[0].identity


def _write(files: PlaceFiles, store: PlaceStore) -> None:
    content = {
        **store.identity._asdict(),
        "recorded_at": store.recorded_at.isoformat(timespec="milliseconds"),
        "recorded_by": store.recorded_by,
        "forgotten_reason": store.forgotten_reason,
    }
    text = json.dumps(content, indent=1).encode()
    doing = f"recording store {store.identity.store}"
    if not files.create(store.name, text, doing):
        files.replace(store.name, text, doing)


def _parse(content: Mapping[str, Any]) -> PlaceStore:
    identity = StoreIdentity(str(content["store"]), str(content["store_id"]), int(content["system_identifier"]))
    recorded_at, reason = datetime.fromisoformat(content["recorded_at"]), content["forgotten_reason"]
    if recorded_at.tzinfo is None:
        raise ValueError("recorded_at has no time zone")
    return PlaceStore(identity, recorded_at.astimezone(UTC), str(content["recorded_by"]), None if reason is None else str(reason))
