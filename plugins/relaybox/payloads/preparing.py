"""Makes a place of payloads, and records which stores refer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from relaybox.errors import CollectionRefused
from relaybox.log_events import emit
from relaybox.payloads.place_stores import (
    forget_store,
    read_clock,
    read_identity,
    read_neighbours,
    read_place_stores,
    read_store_id,
    record_stores,
)
from relaybox.payloads.references import HEADER, written_at
from relaybox.payloads.store import MARK, PayloadStore
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.payloads.place_stores import StoreIdentity
    from relaybox.routes import PayloadPlace, Store


@dataclass(frozen=True)
class PlacePrepared:
    """A place that is ready.

    Attributes:
        place, location: as of PayloadPlace.
        place_id: which references have.
        recorded: stores that were new to the place, or that have moved to other clusters.
        stores: all that it remembers now.
    """

    place: str
    location: str
    place_id: str
    recorded: tuple[str, ...]
    stores: tuple[str, ...]


def prepare_place(place: PayloadPlace, stores: Sequence[Store], *, recorded_by: str) -> PlacePrepared:
    """Makes a place if there is none, and lets it remember the stores of relaybox.yaml. Again, or twice at once: no change.

    Raises:
        PayloadsUnavailable: the place can't be reached or written.
        CollectionRefused: there are files of payloads, and the mark is lost; or a service leads to another store.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing was recorded.
    """
    identities, earliest = _ask(stores)
    payloads = PayloadStore(place.location)
    _refuse_lost_mark(payloads)
    place_id = payloads.prepare()
    recorded = record_stores(payloads.files, read_place_stores(payloads.files), identities, at=earliest, recorded_by=recorded_by)
    remembered = tuple(one.identity.store for one in read_place_stores(payloads.files) if one.must_be_asked)
    emit("payloads_prepared", place=place.name, recorded=", ".join(recorded) or "none")
    return PlacePrepared(place.name, place.location, place_id, recorded, remembered)


def remember_new_stores(place: PayloadPlace, stores: Sequence[Store], *, recorded_by: str) -> tuple[str, ...]:
    """Lets a place remember stores that are new to it, and returns their names.

    `init` does it: later a store may be restored to a time before it had the hop that leads to a new store, and then only the place
    knows the new one. A place that remembers no store yet is left alone: that no other stores refer to it, a person has to say
    (prepare_place).

    Raises:
        PayloadsUnavailable, ConfigurationError: the place can't be reached or written from here, or is not prepared.
        CollectionRefused: what it remembers is damaged, or a service leads to another store.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing was recorded.
    """
    payloads = PayloadStore(place.location)
    payloads.read_place("recording stores")
    remembered = read_place_stores(payloads.files)
    if not any(one.must_be_asked for one in remembered):
        return ()
    known = {one.identity.store_id for one in remembered}  # in another cluster than before it may be a copy: prepare_place
    identities, earliest = _ask(stores)
    new = [identity for identity in identities if identity.store_id not in known]
    return record_stores(payloads.files, remembered, new, at=earliest, recorded_by=recorded_by)


def _refuse_lost_mark(payloads: PayloadStore) -> None:
    """Messages refer to files by the id of the mark: with a new one consumers would refuse all of them."""
    if payloads.has_mark("preparing it"):
        return
    payloads.files.prepare()
    found = next((file.name for file in payloads.files.list_files() if written_at(file.name)), None)
    if found is not None:
        raise CollectionRefused(
            f"payloads in {payloads.files.where}: it has files of payloads, such as {found}, and no {MARK}. Nothing was changed.",
            next_step=f"Restore this file. It is an object with one member, place: the id that the header {HEADER} of the messages has.",
        )


def _ask(stores: Sequence[Store]) -> tuple[list[StoreIdentity], datetime]:
    """Which databases they are; and the earliest of their clocks and that of this machine."""
    identities, clocks = [], [datetime.now(UTC)]
    for store in stores:
        with store_session(store, "asking which database it is", application_name="relaybox payloads") as session:
            identities.append(read_identity(session))
            clocks.append(read_clock(session))
    return identities, min(clocks)


def _store_id(store: Store) -> str:
    with store_session(store, "asking which database it is", application_name="relaybox payloads") as session:
        return read_store_id(session)


def _neighbours(store: Store) -> list[str]:
    with store_session(store, "asking which stores its hops connect", application_name="relaybox payloads") as session:
        return [one.neighbour for one in read_neighbours(session)]


def _refuse_store_in_use(payloads: PayloadStore, stores: Sequence[Store], identity: StoreIdentity) -> None:
    """A collection asks each store of relaybox.yaml, and would record it again. An earlier database of the same name may be forgotten."""
    for store in stores:
        if store.name == identity.store and _store_id(store) == identity.store_id:
            raise CollectionRefused(
                f"payloads in {payloads.files.where}: relaybox.yaml still has store {store.name}: the next collection would record it "
                "again. Nothing was changed.",
                next_step="Take it out of relaybox.yaml, with its routes, then run this again.",
            )


def forget_place_store(
    place: PayloadPlace, stores: Sequence[Store], name: str, *, reason: str, recorded_by: str
) -> StoreIdentity:
    """Lets a place forget a store: nobody asks it any more, and what only its messages refer to is collected.

    Args:
        place: of relaybox.yaml.
        stores: all of relaybox.yaml. If the place does not remember the store, all are asked: a hop may connect it with them. Else
            only one of the same name.
        name: of the store, or its id.
        reason: why.
        recorded_by: who does it.

    Raises:
        CollectionRefused: relaybox.yaml still has the store; or the place remembers no such store, or several of this name.
        PayloadsUnavailable: the place can't be reached or written.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing was changed.
    """
    payloads = PayloadStore(place.location)
    payloads.read_place("forgetting a store")
    remembered = read_place_stores(payloads.files)
    found = [one.identity for one in remembered if one.must_be_asked and one.is_named(name)]
    if len(found) == 1:
        _refuse_store_in_use(payloads, stores, found[0])
    neighbours = set() if found else {neighbour for store in stores for neighbour in _neighbours(store)}
    forgotten = forget_store(payloads.files, remembered, name, neighbours, reason=reason, recorded_by=recorded_by)
    emit("payloads_store_forgotten", place=place.name, store=forgotten.store, reason=reason)
    return forgotten
