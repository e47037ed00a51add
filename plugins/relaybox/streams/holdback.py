"""What streams hold back: who waits for what, since when; and giving up a gap that will never be filled.

A message is held at each store by itself, so each store is asked, and each store is told.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from relaybox import errors
from relaybox.log_events import emit
from relaybox.stores.schema import open_store, store_session
from relaybox.streams.skip_plans import LAST_INDEX, SenderGap, plan_skip

if TYPE_CHECKING:
    from relaybox.routes import Route, Routes, Store
    from relaybox.stores.sessions import StoreSession


FARTHEST_INDEX = 1_000_000
"""An index is at most so far ahead of its position in the log."""


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
    """What one store holds back of a stream; `error`: it could not be asked."""

    route: str
    stream: str
    order: str
    store: str
    senders: tuple[HeldSender, ...]
    error: errors.RelayboxError | None = None


@dataclass(frozen=True)
class SkipResult:
    """What a skip did at one store.

    Attributes:
        gap: None where there was no such gap; `why_not` says what is there instead.
        error: the store failed; this is the last result then, and what is before it is done.
    """

    store: str
    epoch: int | None = None
    gap: Gap | None = None
    released: int = 0
    why_not: str = ""
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


class _SkippedGap(NamedTuple):
    epoch: int
    first_index: int
    last_index: int
    released: int


def read_holdback(routes: Routes, chosen: Iterable[Route]) -> list[StoreHoldback]:
    """Asks every store of these routes, a stream shared by several of them once per store. Reads only."""
    found: dict[tuple[str, str], StoreHoldback] = {}
    for route in chosen:
        for store in _stores(route):
            if (route.stream, store.name) not in found:
                found[route.stream, store.name] = _read_store(routes, route, store)
    return list(found.values())


def read_store_holdback(routes: Routes, store: Store) -> list[StoreHoldback]:
    """The same of one store, of every stream that is delivered there.

    Raises:
        RelayboxError: what the store said instead of answering.
    """
    streams = {route.stream: route for route in reversed(list(routes.routes.values())) if store in _stores(route)}
    found = [_read_store(routes, route, store) for route in streams.values()]
    for here in found:
        if here.error is not None:
            raise here.error
    return found


def _stores(route: Route) -> list[Store]:
    """Where the route's stream is delivered, in the order of its way."""
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
    """The route that brings this origin's messages of the stream to the store."""
    others = (one for one in routes.routes.values() if one.stream == route.stream and one.path[0].name == origin)
    return next((one.name for one in (route, *others) if one.path[0].name == origin and store in _stores(one)), route.name)


def skip_gap(
    route: Route,
    sender: str,
    *,
    reason: str,
    recorded_by: str,
    through: int | None = None,
    held: bool = False,
    only: Store | None = None,
) -> list[SkipResult]:
    """Gives up the first gap of a sender at every store of a route that has it, store by store. Commits each; idempotent.

    A store that lags behind an earlier one of the route gives up only what the earlier one misses or gave up: all else is on
    its way. What the earlier one gave up, it gives up before anything waits for it.

    Args:
        route: brings the sender's messages.
        sender: whose newest epoch has the gap.
        reason: is recorded.
        recorded_by: is recorded.
        through: the last index to give up; by default the one before the first that is held.
        held: `through` is the sender's next message, which is here and waits for what its clock names: it is set aside.
        only: not at the other stores.

    Returns:
        The results of the stores, in the order of the route. If a store fails after another one has a result, the last one has
        the error: what was given up is always told.

    Raises:
        ConfigurationError: no reason, an index that no message can have, or a store that is not the route's.
        NoSuchGap: `through` reaches over messages that are there, or no store has heard of the sender.
        UnknownHop: the stream is not registered.
        StoreUnreachable, StoreBusy: nothing was given up.
    """
    order = _Order(route, sender, through, held, reason, recorded_by)
    _check(order, only)
    done: list[SkipResult] = []
    states: list[tuple[str, SenderGap | None]] = []
    for store in _stores(route):
        try:
            with closing(open_store(store, application_name="relaybox skip")) as session:
                if only in (None, store):
                    done.append(_skip_at(session, order, states))
                states.append((store.name, _read_gap(session, order)))
        except errors.RelayboxError as error:
            if not done:
                raise
            return [*done, SkipResult(store.name, error=error)]  # the next ones give up only what this one misses
        if store == only:
            break
    if all(state is None for _, state in states):
        raise errors.NoSuchGap(
            f"route {route.name}: nothing with an index of its own has come from sender {sender}.",
            next_step=f"See: relaybox holdback {route.name}",
        )
    return done


@dataclass(frozen=True)
class _Order:
    """What was asked for."""

    route: Route
    sender: str
    through: int | None
    held: bool
    reason: str
    recorded_by: str


def _check(order: _Order, only: Store | None) -> None:
    """Raises ConfigurationError for an order that no store can carry out."""
    if not order.reason.strip():
        raise errors.ConfigurationError("a gap is given up with a reason.", next_step='Add: --reason "..."')
    if order.through is not None and order.through > LAST_INDEX:
        raise errors.ConfigurationError(
            f"index {order.through} is beyond {LAST_INDEX}, the last one that a message can have.",
            next_step=f"See: relaybox holdback {order.route.name}",
        )
    if order.held and order.through is None:
        raise errors.ConfigurationError(
            f"which held message of sender {order.sender} is to be set aside is not said.",
            next_step=f"Add its index: --through N --held. See: relaybox holdback {order.route.name}",
        )
    if only is not None and only not in _stores(order.route):
        names = ", ".join(store.name for store in _stores(order.route))
        raise errors.ConfigurationError(f"route {order.route.name} is not delivered in store {only.name}; it is in {names}.")


def _read_gap(session: StoreSession, order: _Order) -> SenderGap | None:
    session = session.doing(f"reading how far sender {order.sender} is")
    return session.row_if_any(SenderGap, "select * from relaybox_internal.sender_gap(%s, %s)", order.route.stream, order.sender)


def _skip_at(session: StoreSession, order: _Order, earlier: Sequence[tuple[str, SenderGap | None]]) -> SkipResult:
    state = _read_gap(session, order)
    session.rollback()
    planned = plan_skip(state, earlier, sender=order.sender, origin=order.route.path[0].name, through=order.through)
    if isinstance(planned, str):
        return SkipResult(session.store, why_not=planned)
    try:
        return _skip_through(session, order, planned)
    except errors.NoSuchGap as error:
        session.rollback()
        if state is None:  # not even its declaration has come
            return SkipResult(session.store, why_not=str(error))
        raise


def _skip_through(session: StoreSession, order: _Order, last_index: int) -> SkipResult:
    session = session.doing(f"skipping a gap of sender {order.sender}")
    gap = session.row(
        _SkippedGap,
        "select * from relaybox_internal.skip_gap(%s, %s, %s, %s, %s, %s)",
        *(order.route.stream, order.sender, last_index, order.reason, order.recorded_by, order.held),
    )
    session.commit_durably("skip")
    emit(
        "gap_skipped",
        route=order.route.name,
        store=session.store,
        sender=order.sender,
        epoch=gap.epoch,
        first_index=gap.first_index,
        last_index=gap.last_index,
        released=gap.released,
    )
    return SkipResult(session.store, gap.epoch, Gap(gap.first_index, gap.last_index), gap.released)
