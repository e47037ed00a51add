"""Held messages of streams: which messages each sender waits for, and for how long. Each store is read."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from relaybox import errors
from relaybox.stores.schema import store_session

if TYPE_CHECKING:
    from relaybox.routes import Route, Routes, Store


FARTHEST_INDEX = 1_000_000
"""The largest distance of an index from its log position."""


@dataclass(frozen=True)
class Gap:
    """Indexes of a sender, both ends included."""

    first_index: int
    last_index: int


@dataclass(frozen=True)
class Cause:
    """What clocks of held messages ask of another sender, and what has not been delivered.

    Attributes:
        first_index, last_index: the lowest and the highest one that is asked for.
        waiting_count: held messages that ask.
        delivered_through: None: nothing of this sender has come.
        origin: the store that declared it; None: no store of the stream has declared it so far.
        first_waiting_index: of the first held message that asks.
    """

    sender: str
    epoch: int
    first_index: int
    last_index: int
    waiting_count: int
    delivered_through: int | None
    origin: str | None
    first_waiting_index: int


@dataclass(frozen=True)
class HeldSender:
    """A sender whose messages wait at a store.

    Attributes:
        delivered_through: every index up to it was delivered, set aside or given up.
        missing: own indexes that have not come and that held messages wait for.
        held_since: when the first of the held messages came; None when nothing is held.
        stalled_after: since it stalled, its messages beyond this position of the log wait there unlisted.
        stalled_reason: holdback_full or set_full.
        waiting_count: how many wait so.
        repairs: commands that let go on what waits, once it is known that what is missing never comes.
    """

    sender: str
    epoch: int
    origin: str
    delivered_through: int
    missing: tuple[Gap, ...]
    held_count: int
    first_held_index: int | None
    held_since: datetime | None
    stalled_after: int | None
    stalled_reason: str | None
    waiting_count: int
    causes: tuple[Cause, ...]
    repairs: tuple[str, ...]


@dataclass(frozen=True)
class StoreHoldback:
    """The held messages of a stream at one store; `error`: the store could not be read."""

    route: str
    stream: str
    order: str
    store: str
    senders: tuple[HeldSender, ...]
    error: errors.RelayboxError | None = None


class _CauseFields(TypedDict):
    """A Cause as JSON."""

    sender: str
    epoch: int
    first_index: int
    last_index: int
    waiting_count: int
    delivered_through: int | None
    origin: str | None
    first_waiting_index: int


class _HeldSenderRow(NamedTuple):
    """A HeldSender as held_senders.sql gives it: `missing` are pairs of a first and a last index."""

    sender: str
    epoch: int
    origin: str
    delivered_through: int
    missing: list[tuple[int, int]]
    held_count: int
    first_held_index: int | None
    held_since: datetime | None
    stalled_after: int | None
    stalled_reason: str | None
    waiting_count: int
    causes: list[_CauseFields]


def read_holdback(routes: Routes, chosen: Iterable[Route]) -> list[StoreHoldback]:
    """Reads every store of these routes, a shared stream once per store. Changes nothing."""
    found: dict[tuple[str, str], StoreHoldback] = {}
    for route in chosen:
        for store in delivery_stores(route):
            if (route.stream, store.name) not in found:
                found[route.stream, store.name] = _read_store(routes, route, store)
    return list(found.values())


def read_store_holdback(routes: Routes, store: Store) -> list[StoreHoldback]:
    """The same of one store, of every stream that is delivered there.

    Raises:
        RelayboxError: what the store said instead of answering.
    """
    streams = {route.stream: route for route in reversed(list(routes.routes.values())) if store in delivery_stores(route)}
    found = [_read_store(routes, route, store) for route in streams.values()]
    for here in found:
        if here.error is not None:
            raise here.error
    return found


def delivery_stores(route: Route) -> list[Store]:
    """Returns the stores that deliver the stream of the route, in the order of its path."""
    return list(dict.fromkeys(hop.destination for hop in route.hops))


def _read_store(routes: Routes, route: Route, store: Store) -> StoreHoldback:
    try:
        with store_session(
            store, f"reading what stream {route.stream} holds back", application_name="relaybox holdback"
        ) as session:
            rows = session.rows(_HeldSenderRow, "select * from relaybox_internal.held_senders(%s)", route.stream)
    except errors.RelayboxError as error:
        return StoreHoldback(route.name, route.stream, route.order, store.name, (), error)  # the other stores are shown
    waiting = {row.sender for row in rows if row.missing}
    senders = tuple(_held_sender(row, tuple(_repairs(routes, route, store, row, waiting))) for row in rows)
    return StoreHoldback(route.name, route.stream, route.order, store.name, senders)


def _held_sender(row: _HeldSenderRow, repairs: tuple[str, ...]) -> HeldSender:
    return HeldSender(
        **{
            **row._asdict(),
            "missing": tuple(Gap(*ends) for ends in row.missing),
            "causes": tuple(Cause(**cause) for cause in row.causes),
            "repairs": repairs,
        }
    )


def _repairs(routes: Routes, route: Route, store: Store, row: _HeldSenderRow, waiting: set[str]) -> Iterator[str]:
    if row.missing:
        yield _skip_command(_route_from(routes, route, store, row.origin), row.sender)
    if row.stalled_reason == "set_full":
        yield f"raise limits.fragments of route {route.name}, then: relaybox init"
    for cause in row.causes:
        if _may_come(cause, cause["last_index"]) and cause["sender"] not in waiting:
            yield _skip_command(
                _route_from(routes, route, store, cause["origin"]), cause["sender"], through=int(cause["last_index"])
            )
    if not row.missing and any(_waits_in_vain(cause, row.first_held_index) for cause in row.causes):
        sent_by = _route_from(routes, route, store, row.origin)
        yield _skip_command(sent_by, row.sender, through=row.first_held_index, held=True)


def _may_come(cause: _CauseFields, index: int) -> bool:
    """Whether a sender is declared, and not farther behind an index than one may jump."""
    return cause["origin"] is not None and index - (cause["delivered_through"] or 0) <= FARTHEST_INDEX


def _waits_in_vain(cause: _CauseFields, first_held_index: int | None) -> bool:
    """Whether the clock of a sender's first held message names a message that probably no sender sends."""
    return cause["first_waiting_index"] == first_held_index and not _may_come(cause, cause["first_index"])


def _skip_command(route: str, sender: str, *, through: int | None = None, held: bool = False) -> str:
    limit = "" if through is None else f" --through {through}"
    return f'relaybox skip {route} {shlex.quote(sender)}{limit}{" --held" * held} --reason "..."'


def _route_from(routes: Routes, route: Route, store: Store, origin: str | None) -> str:
    """Returns the route that moves messages of this origin in the stream to the store."""
    others = (one for one in routes.routes.values() if one.stream == route.stream and one.path[0].name == origin)
    return next(
        (one.name for one in (route, *others) if one.path[0].name == origin and store in delivery_stores(one)), route.name
    )
