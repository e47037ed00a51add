"""Held messages of streams: which messages each sender waits for, and for how long. Each store is read."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Route, Routes, Store


FARTHEST_INDEX = 1_000_000
"""The largest distance of an index from its log position."""

MOST_REPAIRS = 20
"""Commands that are named for one sender; when they are done, the next ones are."""


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
        repairs: commands that let go on what waits, once it is known that what is missing never comes. A sender that waits for held
            messages of another has the commands of that one: only what has not come can be skipped. At most MOST_REPAIRS.
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

    @property
    def own_gap(self) -> Gap | None:
        """Own indexes that must come next. None: its first held message waits for other senders, or nothing is held."""
        gap = self.missing[0] if self.missing else None
        return gap if gap and self.first_held_index and gap.first_index < self.first_held_index else None


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
    repairs = _Repairs(routes, route, store, rows)
    senders = tuple(_held_sender(row, tuple(islice(repairs.of(row), MOST_REPAIRS))) for row in rows)
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


class _Repairs:
    """The commands that help the held senders of a stream at a store."""

    def __init__(self, routes: Routes, route: Route, store: Store, rows: Sequence[_HeldSenderRow]) -> None:
        self._routes, self._route, self._store = routes, route, store
        self._held: Mapping[str, list[_HeldSenderRow]] = defaultdict(list)
        for row in rows:
            self._held[row.sender].append(row)

    def of(self, row: _HeldSenderRow) -> Iterator[str]:
        """Those of the sender, then those of the held senders that it waits for, each once."""
        asked, waiting, named = {row.sender}, [row], set[str]()
        for one in waiting:  # grows while it is read
            for command in self._own(one):
                if command not in named:
                    named.add(command)
                    yield command
            if _has_own_gap(one):
                continue  # what its clocks name does not hold it back yet
            for cause in one.causes:
                if cause["sender"] in self._held and cause["sender"] not in asked:
                    asked.add(cause["sender"])
                    waiting += self._held[cause["sender"]]

    def _own(self, row: _HeldSenderRow) -> Iterator[str]:
        if _has_own_gap(row):
            yield self._skip(row.origin, row.sender)
        if row.stalled_reason == "set_full":
            yield f"raise limits.fragments of route {self._route.name}, then: relaybox init"
        for cause in row.causes:
            if _may_come(cause, cause["last_index"]) and cause["sender"] not in self._held:
                yield self._skip(cause["origin"], cause["sender"], through=int(cause["last_index"]))
        if not row.missing and any(_waits_in_vain(cause, row.first_held_index) for cause in row.causes):
            yield self._skip(row.origin, row.sender, through=row.first_held_index, held=True)

    def _skip(self, origin: str | None, sender: str, *, through: int | None = None, held: bool = False) -> str:
        route = _route_from(self._routes, self._route, self._store, origin)
        limit = "" if through is None else f" --through {through}"
        options = f'{limit}{" --held" * held} --reason "..."'
        if sender.startswith("-"):
            return f"relaybox skip {route}{options} -- {shlex.quote(sender)}"
        return f"relaybox skip {route} {shlex.quote(sender)}{options}"


def _has_own_gap(row: _HeldSenderRow) -> bool:
    """As HeldSender.own_gap."""
    return bool(row.missing and row.first_held_index and row.missing[0][0] < row.first_held_index)


def _may_come(cause: _CauseFields, index: int) -> bool:
    """Whether a sender is declared, and not farther behind an index than one may jump."""
    return cause["origin"] is not None and index - (cause["delivered_through"] or 0) <= FARTHEST_INDEX


def _waits_in_vain(cause: _CauseFields, first_held_index: int | None) -> bool:
    """Whether the clock of a sender's first held message names a message that probably no sender sends."""
    return cause["first_waiting_index"] == first_held_index and not _may_come(cause, cause["first_index"])


def _route_from(routes: Routes, route: Route, store: Store, origin: str | None) -> str:
    """Returns the route that moves messages of this origin in the stream to the store."""
    others = (one for one in routes.routes.values() if one.stream == route.stream and one.path[0].name == origin)
    return next(
        (one.name for one in (route, *others) if one.path[0].name == origin and store in delivery_stores(one)), route.name
    )
