"""The whole way of one message: outbox, and at every hop its batch, slice, position, arrival and confirmations. Reads only.

Positions are recomputed from the ledgers, and the row that stands there is checked against the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from relaybox import errors
from relaybox.monitoring.trace_rows import CauseRow, DeliveryRow, DerivedRow, HopArrival, HopReading, OutboxBegin, SentRow
from relaybox.stores.opening import opened_store

if TYPE_CHECKING:
    from relaybox.routes import Hop, Route, Store
    from relaybox.stores.sessions.store_session import StoreSession

Row = TypeVar("Row")


class HopStage(StrEnum):
    """How far a message is on a hop."""

    UNROUTED = "unrouted"  # the hop has not its topic: it is kept, and moves when the topic comes to the hop
    RETIRED = "retired"  # given up on record
    ADOPTED = "adopted"  # delivered before its source lost the ledger of it
    WAITING = "not_planned"
    PLANNED = "planned"  # not copied
    COPIED = "copied"  # not published
    ARRIVED = "arrived"
    RECEIVED = "received"  # the source knows that it arrived
    SETTLED = "settled"
    DROPPED = "dropped"  # it arrived, and retention dropped it there
    DETACHED = "detached"  # it arrived, and is in files there: only a stopped consumer needs it
    MISSING = "missing"  # the destination does not have it where the ledgers put it


@dataclass(frozen=True)
class SentTrace:
    """A message in its outbox. `committed_at` is None where the server does not track commit times."""

    store: str
    seq: int
    transaction: int
    topic: str
    sender: str
    epoch: int
    index: int | None
    sent_at: datetime
    committed_at: datetime | None


class DeliveryState(StrEnum):
    """What a store decided about a message in its log."""

    DELIVERED = "delivered"
    DUPLICATE = "duplicate"
    SET_ASIDE = "set_aside"
    HELD = "held"  # what goes before it has not come
    STALLED = "stalled"  # its sender has stalled: it waits in the log, not looked at yet
    UNDECIDED = "undecided"
    DROPPED = "dropped"  # retention has removed what was decided, with the message
    LOST = "lost"  # no stream position, and no reason for it: relaybox verify


@dataclass(frozen=True)
class MissingIndexes:
    """Indexes of a sender, both ends included, that must be delivered first."""

    sender: str
    epoch: int
    first_index: int
    last_index: int


@dataclass(frozen=True)
class CauseTrace:
    """Messages of a stream of the origin, both ends included, of which an attempt of the derivation made this one.

    Attributes:
        message_id: of its single cause, if it has one and that is still kept.
    """

    stream: str
    first_stream_position: int
    last_stream_position: int
    message_id: UUID | None
    version: int
    attempt: int


@dataclass(frozen=True)
class DerivedTrace:
    """What an attempt of a derivation made of this message and of others.

    Attributes:
        derived_count: messages that the attempt sent, of all its causes.
        message_ids: of those that this message alone caused, as far as the outbox has them; at most 20.
    """

    route: str
    version: int
    attempt: int
    derived_at: datetime
    derived_count: int
    message_ids: tuple[UUID, ...]


@dataclass(frozen=True)
class DelayTrace:
    """A subscription that waits until a delayed message is due, as its newest fetch found."""

    subscription: str
    due_at: datetime


@dataclass(frozen=True)
class DeliveryTrace:
    """A message in the stream of the store where a hop arrives.

    Attributes:
        stream position: where consumers read it, when it is delivered.
        duplicate_of: position of the message that it repeats; None when that one is no longer kept.
        reason: of being set aside, or of its sender's stalling.
        decided_at: None while nothing is decided.
        waits_for: of a held message.
        derived: what derivations of this store made of it.
        not_due: the subscriptions that wait until it is due.
    """

    stream: str
    delivery_order: str
    delivery_state: DeliveryState
    stream_position: int | None
    duplicate_of: int | None
    reason: str | None
    decided_at: datetime | None
    waits_for: tuple[MissingIndexes, ...]
    derived: tuple[DerivedTrace, ...] = ()
    not_due: tuple[DelayTrace, ...] = ()


@dataclass(frozen=True)
class HopTrace:
    """A message on one hop; what has not happened yet is None.

    `delivered` is None while it is not published at the destination. `moved_by` made the newest attempt at its batch, as the Spark
    application `application`, or with threads.
    `received_at`, `processed_at` and `settled_at` are when the source recorded it; what is confirmed had happened before.
    """

    hop: str
    source: str
    destination: str
    stage: HopStage
    batch: int | None = None
    slice: int | None = None
    log_position: int | None = None
    planned_at: datetime | None = None
    moved_by: str | None = None
    application: str | None = None
    copied_at: datetime | None = None
    published_at: datetime | None = None
    received_at: datetime | None = None
    received_by: str | None = None
    processed_at: datetime | None = None
    processed_by: str | None = None
    settled_at: datetime | None = None
    settled_by: str | None = None
    found_instead: UUID | None = None
    delivered: DeliveryTrace | None = None


@dataclass(frozen=True)
class Trace:
    """One message on one route. A producer that gave an id to two messages gets two traces.

    `derived_from` is None if an application sent it.
    """

    message_id: UUID
    route: str
    sent: SentTrace
    hops: tuple[HopTrace, ...]
    derived_from: CauseTrace | None = None


def trace_message(
    routes: Sequence[Route], message_id: UUID, *, unanswered: dict[str, errors.RelayboxError] | None = None
) -> tuple[Trace, ...]:
    """Follows a message along each of the routes that start where it was sent and carry its topic.

    Args:
        routes: the routes to follow.
        message_id: the message.
        unanswered: receives, by store, the errors of first stores that do not answer while another one has
            the message. Without it such an error is raised.

    Raises:
        UnknownMessage: no committed message with this id in any of the routes' first stores.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: a store on the way can't be asked.
    """
    with ExitStack() as stack:
        stores = _Stores(stack)
        silent: dict[str, errors.RelayboxError] = {}
        found = [(route, sent) for route in routes for sent in _find_if_answered(stores, route.path[0], message_id, silent)]
        if silent and (not found or unanswered is None):
            raise next(iter(silent.values()))
        if unanswered is not None:
            unanswered.update(silent)
        carried = [(route, sent) for route, sent in found if sent.topic in route.topics] or found
        if not carried:
            raise _unknown(stores, message_id, routes)
        return tuple(
            Trace(
                message_id,
                route.name,
                sent,
                hops=tuple(_follow(stores, route, sent, message_id)),
                derived_from=_trace_cause(stores, route.path[0], sent),
            )
            for route, sent in carried
        )


def _unknown(stores: _Stores, message_id: UUID, routes: Sequence[Route]) -> errors.UnknownMessage:
    origins = list(dict.fromkeys(route.path[0] for route in routes))
    begins = {store.name: _begins(stores, store) for store in origins}
    dropped = [f"{name} keeps messages from seq {seq:,} on, older ones were dropped." for name, seq in begins.items() if seq > 1]
    return errors.UnknownMessage(
        " ".join([f"message {message_id}: no committed message has this id in the outbox of {', '.join(begins)}.", *dropped]),
        next_step=(
            "Check the id. A message is visible once its transaction has committed; one that was rolled back was never sent. "
            "Look for open transactions with: select pid, xact_start, state from pg_stat_activity where xact_start is not null"
        ),
    )


def _begins(stores: _Stores, store: Store) -> int:
    (begins,) = stores.rows(
        OutboxBegin, store, "reading where the outbox begins", "select first_kept_seq from relaybox_internal.store"
    )
    return begins.first_kept_seq


class _Stores:
    """Sessions, opened as they are needed: a message that has not left its outbox asks one store only."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._open: dict[str, StoreSession] = {}

    def rows(self, of: type[Row], store: Store, activity: str, query: str, *arguments: object) -> list[Row]:
        """Rows of one statement, in a short transaction of its own."""
        session = self._session(store).doing(activity)
        rows = session.rows(of, query, *arguments)
        session.rollback()
        return rows

    def _session(self, store: Store) -> StoreSession:
        if store.name not in self._open:
            self._open[store.name] = self._stack.enter_context(opened_store(store, application_name="relaybox where"))
        return self._open[store.name]


def _find(stores: _Stores, store: Store, message_id: UUID) -> Iterator[SentTrace]:
    for row in stores.rows(
        SentRow, store, "looking for a message", "select * from relaybox_internal.trace_sent(%s)", str(message_id)
    ):
        yield SentTrace(
            store.name, row.seq, int(row.xid), row.topic, row.sender, row.epoch, row.index, row.sent_at, row.committed_at
        )


def _find_if_answered(
    stores: _Stores, store: Store, message_id: UUID, silent: dict[str, errors.RelayboxError]
) -> Sequence[SentTrace]:
    """As _find; a store that can't be asked is asked once, and its error kept."""
    if store.name in silent:
        return ()
    try:
        return tuple(_find(stores, store, message_id))
    except errors.RelayboxError as error:
        silent[store.name] = error
        return ()


def _follow(stores: _Stores, route: Route, sent: SentTrace, message_id: UUID) -> Iterator[HopTrace]:
    """Hop by hop, until one has not got it. The position in a hop's log is what the next hop reads."""
    reads: int | None = sent.seq
    for hop in route.hops:
        if reads is None:
            yield HopTrace(hop.name, hop.source.name, hop.destination.name, HopStage.WAITING)
            continue
        trace = _trace_hop(stores, hop, reads, message_id)
        yield trace
        is_there = trace.stage in {HopStage.DROPPED, HopStage.DETACHED} or (
            trace.published_at is not None and trace.found_instead is None
        )
        reads = trace.log_position if is_there else None


_UNPLANNED = {
    "adopted": HopStage.ADOPTED,
    "waiting": HopStage.WAITING,
    "unrouted": HopStage.UNROUTED,
    "retired": HopStage.RETIRED,
}


def _trace_hop(stores: _Stores, hop: Hop, reads: int, message_id: UUID) -> HopTrace:
    (reading,) = stores.rows(
        HopReading,
        hop.source,
        f"reading the ledger of hop {hop.name}",
        "select * from relaybox_internal.trace_reading(%s, %s)",
        hop.name,
        reads,
    )
    if reading.state != "planned":
        stage = _UNPLANNED[reading.state]
        return HopTrace(hop.name, hop.source.name, hop.destination.name, stage)
    arrivals = stores.rows(
        HopArrival,
        hop.destination,
        f"looking into the log of hop {hop.name}",
        "select * from relaybox_internal.trace_arrival(%s, %s, %s, %s)",
        *(hop.name, reading.batch, reading.slice, reading.log_position),
    )
    if not arrivals:
        raise errors.UnknownHop(
            f"hop {hop.name} does not arrive in store {hop.destination.name}.", next_step="Run: relaybox init"
        )
    arrival = arrivals[0]
    found = None if arrival.message_id is None else UUID(arrival.message_id)
    return HopTrace(
        hop=hop.name,
        source=hop.source.name,
        destination=hop.destination.name,
        stage=_stage(reading, arrival, found=found == message_id),
        batch=reading.batch,
        slice=reading.slice,
        log_position=reading.log_position,
        planned_at=reading.planned_at,
        moved_by=reading.moved_by,
        application=reading.application,
        copied_at=arrival.copied_at,
        published_at=arrival.published_at,
        received_at=reading.received_at,
        received_by=reading.received_by,
        processed_at=reading.processed_at,
        processed_by=reading.processed_by,
        settled_at=reading.settled_at,
        settled_by=reading.settled_by,
        found_instead=found if arrival.is_kept and found != message_id else None,
        delivered=_trace_delivery(stores, hop, reading.log_position) if arrival.published_at and found == message_id else None,
    )


def _trace_delivery(stores: _Stores, hop: Hop, log_position: int) -> DeliveryTrace | None:
    rows = stores.rows(
        DeliveryRow,
        hop.destination,
        f"asking what stream {hop.stream} made of a message",
        "select * from relaybox_internal.trace_delivery(%s, %s)",
        *(hop.name, log_position),
    )
    if not rows:
        return None
    row = rows[0]
    awaited = tuple(MissingIndexes(**one) for one in row.waits_for or ())
    derived = () if row.stream_position is None else _trace_derived(stores, hop.destination, row.stream, row.stream_position)
    state = DeliveryState(row.delivery_state)
    not_due = tuple(DelayTrace(one["subscription"], datetime.fromisoformat(one["due_at"])) for one in row.not_due or ())
    return DeliveryTrace(
        **{**row._asdict(), "delivery_state": state, "waits_for": awaited, "derived": derived, "not_due": not_due}
    )


def _trace_cause(stores: _Stores, store: Store, sent: SentTrace) -> CauseTrace | None:
    activity = "asking what a message was derived from"
    rows = stores.rows(CauseRow, store, activity, "select * from relaybox_internal.trace_cause(%s)", sent.seq)
    for row in rows:
        return CauseTrace(**{**row._asdict(), "message_id": None if row.message_id is None else UUID(str(row.message_id))})
    return None


def _trace_derived(stores: _Stores, store: Store, stream: str, stream_position: int) -> tuple[DerivedTrace, ...]:
    activity = "asking what was derived from a message"
    query = "select * from relaybox_internal.trace_derived(%s, %s)"
    rows = stores.rows(DerivedRow, store, activity, query, stream, stream_position)
    return tuple(DerivedTrace(**{**row._asdict(), "message_ids": tuple(map(UUID, row.message_ids))}) for row in rows)


def _stage(reading: HopReading, arrival: HopArrival, *, found: bool) -> HopStage:
    if not arrival.is_kept:
        return HopStage.DETACHED if arrival.is_detached else HopStage.DROPPED
    if arrival.published_at is None and arrival.copied_at is None:
        return HopStage.PLANNED
    if not found:
        return HopStage.MISSING
    if arrival.published_at is None:
        return HopStage.COPIED
    if reading.settled_at is not None:
        return HopStage.SETTLED
    return HopStage.RECEIVED if reading.received_at is not None else HopStage.ARRIVED
