"""What the stores hold once everything is quiet, read whole, with queries of our own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2

from tests.faults.workload import ACKNOWLEDGED

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Hop, Route


@dataclass(frozen=True)
class Message:
    """What must arrive byte by byte; values as Postgres prints them."""

    message_id: str
    topic: str
    sender: str
    epoch: int
    key: str | None
    headers: str | None
    payload: str | None
    payload_bytes: str | None
    clock: str | None
    sent_at: str


@dataclass(frozen=True)
class OutboxRow:
    seq: int
    xid: int
    index: int | None
    message: Message


@dataclass(frozen=True)
class LogRow:
    log_position: int
    index: int
    message: Message


@dataclass(frozen=True)
class BatchRow:
    """One row of the source's ledger; `slices` as (slice, first read, last read, first position, row count)."""

    batch: int
    plan_id: str
    topics: tuple[str, ...]
    lower: str | None
    upper: str | None
    pair_exhausted: bool
    reads_after: int
    reads_through: int
    first_position: int
    last_position: int
    row_count: int
    slices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ReceiptRow:
    batch: int
    slice: int
    plan_id: str
    row_count: int


@dataclass(frozen=True)
class ArrivalRow:
    batch: int
    plan_id: str
    first_position: int
    last_position: int
    row_count: int


@dataclass(frozen=True)
class ConfirmationRow:
    """A confirmation of a hop, in the ledger of `store`: the hop's source, or a store further up that was told."""

    store: str
    state: str
    through_position: int
    through_batch: int


@dataclass(frozen=True)
class HopState:
    """A hop: what its source planned and was told, and what its destination holds.

    `decided`: batches that the destination's stream has decided on; `stream_positions`: its stream, as (stream position, position).
    `processed_by`: subscriptions that the policy names; `acknowledged`: through which stream position all of them have.
    """

    name: str
    source: str
    destination: str
    upstream: str | None
    downstream: str | None
    policy: str
    topics: tuple[str, ...]
    published: int
    log: tuple[LogRow, ...]
    batches: tuple[BatchRow, ...]
    receipts: tuple[ReceiptRow, ...]
    arrivals: tuple[ArrivalRow, ...]
    confirmations: tuple[ConfirmationRow, ...]
    decided: tuple[int, ...]
    stream_positions: tuple[tuple[int, int], ...]
    processed_by: tuple[str, ...] = ()
    acknowledged: int = 0


@dataclass(frozen=True)
class AttemptRow:
    """An attempt to derive messages: of which version, in which state, from which stream positions, and what it says it has sent."""

    version: int
    attempt: int
    state: str
    stream_positions: tuple[int, ...]
    derived_count: int | None
    first_seq: int | None
    last_seq: int | None


@dataclass(frozen=True)
class DerivationState:
    """A derivation, in its one store.

    Attributes:
        route: of its messages; it is also their sender and their topic.
        store: that has the stream, the attempts and the outbox.
        stream: the name of the stream.
        of_hop: the hop that brings the stream's messages.
        acknowledged: through which stream position the newest version has derived.
        attempts: of all versions, in their order.
    """

    route: str
    store: str
    stream: str
    of_hop: str
    acknowledged: int
    attempts: tuple[AttemptRow, ...]


@dataclass(frozen=True)
class Stores:
    """The outbox of every store that a first hop reads, all hops, each route's in its order, and all derivations."""

    outboxes: dict[str, tuple[OutboxRow, ...]]
    hops: tuple[HopState, ...]
    derivations: tuple[DerivationState, ...] = ()

    def hop(self, name: str) -> HopState:
        return next(hop for hop in self.hops if hop.name == name)


def read_stores(hops: Sequence[Hop], derivations: Sequence[Route] = ()) -> Stores:
    """Dumps what the checker needs of all stores of these hops. Call it when nothing moves.

    Args:
        hops: whole routes, such as `routes.hops`.
        derivations: those of these routes whose messages are derived.
    """
    services = {store.name: store.service for hop in hops for store in (hop.source, hop.destination)}
    sessions = {name: psycopg2.connect(service=service, options=UNDISTURBED) for name, service in services.items()}
    try:
        origins = {hop.source.name for hop in hops if hop.upstream is None}
        return Stores(
            {store: tuple(_outbox(sessions[store])) for store in sorted(origins)},
            tuple(_hop(sessions, hop) for hop in hops),
            tuple(_derivation(sessions[route.path[0].name], route, hops) for route in derivations),
        )
    finally:
        for session in sessions.values():
            with closing(session):
                session.rollback()


UNDISTURBED = (
    "-c timezone=UTC -c bytea_output=hex -c client_encoding=UTF8 -c restrict_nonsystem_relation_kind= "
    "-c default_transaction_read_only=off -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0 "
    "-c transaction_timeout=0 -c statement_timeout=0 -c lock_timeout=0 -c default_transaction_isolation=read\\ committed"
)
"""Sessions of the checker: values are compared as Postgres prints them, whatever a database has set, and nobody hurries."""

_MESSAGE = "message_id::text, topic, sender, epoch, key, headers::text, payload, payload_bytes::text, clock::text, sent_at::text"


def _outbox(session: Connection) -> Iterable[OutboxRow]:
    query = f"select seq, xid::text::bigint, index, {_MESSAGE} from relaybox.outbox order by seq"
    return (OutboxRow(seq, xid, index, Message(*message)) for seq, xid, index, *message in _rows(session, query))


def _hop(sessions: dict[str, Connection], hop: Hop) -> HopState:
    source, destination = sessions[hop.source.name], sessions[hop.destination.name]
    log_id, published = _rows(
        destination, "select log_id, published_position from relaybox_internal.hop_in where hop = %s", hop.name
    )[0]
    return HopState(
        name=hop.name,
        source=hop.source.name,
        destination=hop.destination.name,
        upstream=hop.upstream,
        downstream=hop.downstream,
        policy=hop.policy,
        topics=hop.topics,
        published=published,
        log=tuple(_log(destination, log_id, published)),
        batches=tuple(_batches(source, hop.name)),
        receipts=_typed(ReceiptRow, destination, "receipt", "batch, slice, plan_id::text, row_count", log_id),
        arrivals=_typed(
            ArrivalRow, destination, "arrival", "batch, plan_id::text, first_position, last_position, row_count", log_id
        ),
        confirmations=tuple(
            ConfirmationRow(store, *row)
            for store, session in sessions.items()
            for row in _rows(
                session,
                "select state, through_position, through_batch from relaybox_internal.confirmation where hop = %s order by 1, 2",
                hop.name,
            )
        ),
        decided=tuple(
            batch for (batch,) in _rows(destination, "select batch from relaybox_internal.decision where log_id = %s", log_id)
        ),
        stream_positions=tuple(_stream_positions(destination, log_id)),
        processed_by=hop.processed_by,
        acknowledged=_rows(destination, ACKNOWLEDGED, list(hop.processed_by))[0][0],
    )


_ATTEMPTS = """
    select d.version, a.attempt, a.state, array(
        select p from unnest(a.stream_positions) r, generate_series(lower(r), upper(r) - 1) p order by p
    ), a.derived_count, a.first_seq, a.last_seq
    from relaybox_internal.derivation_attempt a join relaybox_internal.derivation d using (derivation_id)
    where d.route = %s order by d.version, a.attempt
"""
_ACKNOWLEDGED = """
    select max(c.done_stream_position) from relaybox_internal.lane_cursors c
    join relaybox_internal.derivation d using (subscription_id)
    where d.route = %s and d.version = (select max(n.version) from relaybox_internal.derivation n where n.route = d.route)
"""


def _derivation(session: Connection, route: Route, hops: Sequence[Hop]) -> DerivationState:
    stream, store = route.require_derivation().stream, route.path[0].name
    return DerivationState(
        route=route.name,
        store=store,
        stream=stream,
        of_hop=next(hop.name for hop in hops if hop.route == stream and hop.destination.name == store),
        acknowledged=_rows(session, _ACKNOWLEDGED, route.name)[0][0] or 0,
        attempts=tuple(
            AttemptRow(version, attempt, state, tuple(stream_positions), *counts)
            for version, attempt, state, stream_positions, *counts in _rows(session, _ATTEMPTS, route.name)
        ),
    )


def _stream_positions(session: Connection, log_id: int) -> Iterable[tuple[int, int]]:
    query = """
        select first_stream_position, last_stream_position, first_position, log_positions from relaybox_internal.delivery where log_id = %s
        order by first_stream_position, last_stream_position
        """
    for first_stream_position, last_stream_position, first_position, log_positions in _rows(session, query, log_id):
        run = log_positions or range(first_position, first_position + last_stream_position - first_stream_position + 1)
        yield from zip(range(first_stream_position, last_stream_position + 1), run, strict=True)


def _log(session: Connection, log_id: int, published: int) -> Iterable[LogRow]:
    """The published part: what is staged above it is nobody's business yet."""
    query = f"select log_position, index, {_MESSAGE} from relaybox_internal.log where log_id = %s and log_position <= %s order by log_position"
    return (
        LogRow(log_position, index, Message(*message))
        for log_position, index, *message in _rows(session, query, log_id, published)
    )


def _batches(session: Connection, hop: str) -> Iterable[BatchRow]:
    query = """
        select batch, plan_id::text, topics, lower::text, upper::text, pair_exhausted, reads_after, reads_through,
            first_position, last_position, row_count, slices
        from relaybox_internal.batch where hop = %s order by batch
        """
    for batch, plan_id, topics, *columns, slices in _rows(session, query, hop):
        yield BatchRow(batch, plan_id, tuple(topics or ()), *columns, tuple(tuple(numbers) for numbers in slices))


def _typed(kind: type, session: Connection, table: str, columns: str, log_id: int) -> tuple[Any, ...]:
    rows = _rows(session, f"select {columns} from relaybox_internal.{table} where log_id = %s order by 1, 2", log_id)
    return tuple(kind(*row) for row in rows)


def _rows(session: Connection, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    with session.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchall()
