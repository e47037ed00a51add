"""The ledgers of a hop, batch by batch: what the source planned, what it has confirmed, and what the destination published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from relaybox.hops.batches import Slice

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession

Cluster = tuple[int, int]
"""System identifier and timeline: where a batch was planned."""


@dataclass(frozen=True)
class LedgerBatch:
    """A batch as its source planned it, with all that is needed to read its slices again.

    `adopted`: the source lost its plan; where it stands at the destination is known, and, of a log, the slices that the source has.
    """

    batch: int
    plan_id: UUID
    topics: tuple[str, ...] | None
    lower: str | None
    upper: str | None
    reads_after: int
    reads_through: int
    first_position: int
    last_position: int
    slices: tuple[Slice, ...]
    adopted: bool = False
    cluster: Cluster | None = None

    def read_at(self, log_position: int) -> int | None:
        """The position of the log from which a position at the destination was read; None: of an adopted batch it is not known."""
        return next(
            (
                s.first_read + log_position - s.first_position
                for s in self.slices
                if s.first_position <= log_position <= s.last_position
            ),
            None,
        )


@dataclass(frozen=True)
class LedgerArrival:
    """A batch as its destination published it."""

    batch: int
    plan_id: UUID
    first_position: int
    last_position: int
    slice_count: int
    receipt_count: int
    receipt_rows: int
    cluster: Cluster | None = None


@dataclass(frozen=True)
class Destination:
    """What the destination of a hop holds: published batches, and the highest position with a row (0: none). `topics` are its stream's.

    Below `first_kept_position` retention has dropped the messages; the ledger begins after batch `compacted_batch`, which ended at
    `compacted_position`.
    """

    log_id: int
    source: str
    topics: tuple[str, ...]
    published_position: int
    published: tuple[LedgerArrival, ...]
    highest_position: int
    first_kept_position: int = 1
    compacted_batch: int = 0
    compacted_position: int = 0
    generation: int = 1
    contradictions: tuple[str, ...] = ()

    @property
    def published_batch(self) -> int:
        return self.published[-1].batch if self.published else self.compacted_batch


@dataclass(frozen=True)
class LedgerConfirmation:
    """How far a store knows a hop to be received: it is told so after the destination has it, and it is never taken back.

    `resend_through`: of a hop that leaves the store: batches up to this one were lost at the destination, on record, and are sent again.
    """

    batch: int = 0
    log_position: int = 0
    resend_through: int = 0


@dataclass(frozen=True)
class HopRegistration:
    """What `relaybox init` wrote about a hop into its source. A hop that reads a log has no topics."""

    destination: str
    policy: str
    topics: tuple[str, ...]
    processed_by: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """What the source of a hop planned. `reads_log` is None for an outbox.

    Below `first_kept_read`, a seq of the outbox or a position of the log, retention has dropped the messages; the ledger begins
    after batch `compacted_batch`, which ended at `compacted_position` and had read a log through `compacted_read`.
    """

    registered: HopRegistration
    reads_log: int | None
    planned_position: int
    planned: tuple[LedgerBatch, ...]
    waiting_count: int
    first_kept_read: int = 1
    compacted_batch: int = 0
    compacted_position: int = 0
    compacted_read: int = 0
    generation: int = 1
    resend_through: int = 0
    contradictions: tuple[str, ...] = ()


class _DestinationHead(NamedTuple):
    log_id: int
    published_position: int
    first_kept_position: int
    compacted_batch: int
    compacted_position: int
    generation: int
    source: str
    topics: list[str]
    contradictions: list[str]
    highest_position: int


class _SourceHead(NamedTuple):
    reads_log: int | None
    planned_position: int
    waiting_count: int
    compacted_batch: int
    compacted_position: int
    compacted_read: int
    generation: int
    resend_through: int
    destination: str
    policy: str
    topics: list[str] | None
    processed_by: list[str] | None
    first_kept_read: int
    contradictions: list[str]


def read_destination(session: StoreSession, hop: str) -> Destination | None:
    """Reads the destination's ledger in one snapshot, that of a new transaction; None when the hop does not arrive there."""
    session.execute("set transaction isolation level repeatable read")
    head = session.row_if_any(
        _DestinationHead,
        """
        select i.log_id, i.published_position, i.first_kept_position, i.compacted_batch, i.compacted_position, i.generation, i.source,
            array(
                select t.topic from relaybox_internal.stream_log l join relaybox_internal.known_topics t on t.stream_id = l.stream_id
                where l.log_id = i.log_id and t.carried_by <> 'nobody'
            ) topics,
            array(select relaybox_internal.destination_contradictions(i.hop)) contradictions,
            (select coalesce(max(l.log_position), 0) from relaybox_internal.log l where l.log_id = i.log_id) highest_position
        from relaybox_internal.hop_in i where i.hop = %s
        """,
        hop,
    )
    if head is None:
        return None
    published = session.rows(
        _PublishedRow,
        """
        select a.batch, a.plan_id, a.first_position, a.last_position, a.slice_count, r.receipt_count, r.receipt_rows,
            a.source_system_identifier, a.source_timeline
        from relaybox_internal.arrival a
        cross join lateral (
            select count(*) receipt_count, coalesce(sum(c.row_count), 0)::bigint receipt_rows
            from relaybox_internal.receipt c where c.log_id = a.log_id and c.batch = a.batch and c.plan_id = a.plan_id
        ) r
        where a.log_id = %s order by a.batch
        """,
        head.log_id,
    )
    return Destination(
        log_id=head.log_id,
        source=head.source,
        topics=tuple(head.topics),
        published_position=head.published_position,
        published=tuple(map(_published, published)),
        highest_position=head.highest_position,
        first_kept_position=head.first_kept_position,
        compacted_batch=head.compacted_batch,
        compacted_position=head.compacted_position,
        generation=head.generation,
        contradictions=tuple(head.contradictions),
    )


def read_source(session: StoreSession, hop: str) -> Source | None:
    """Reads the source's ledger in one snapshot, that of a new transaction; None when the hop does not leave it."""
    session.execute("set transaction isolation level repeatable read")
    head = session.row_if_any(
        _SourceHead,
        """
        select h.reads_log, s.planned_position, s.waiting_count, h.compacted_batch, h.compacted_position, h.compacted_read,
            h.generation, h.resend_through, h.destination, h.policy, h.topics, h.processed_by,
            relaybox_internal.first_kept_read(h.hop) first_kept_read,
            array(select relaybox_internal.source_contradictions(h.hop))
                || case when h.reads_log is null then array(select relaybox_internal.outbox_contradictions()) end contradictions
        from relaybox_internal.hop_out h
        cross join relaybox_internal.sending_states(array[h.hop]) s
        where h.hop = %s
        """,
        hop,
    )
    if head is None:
        return None
    planned = session.rows(_PlannedRow, "select * from relaybox_internal.batch where hop = %s order by batch", hop)
    return Source(
        registered=HopRegistration(head.destination, head.policy, tuple(head.topics or ()), tuple(head.processed_by or ())),
        reads_log=head.reads_log,
        planned_position=head.planned_position,
        planned=tuple(map(_planned, planned)),
        waiting_count=head.waiting_count,
        first_kept_read=head.first_kept_read,
        compacted_batch=head.compacted_batch,
        compacted_position=head.compacted_position,
        compacted_read=head.compacted_read,
        generation=head.generation,
        resend_through=head.resend_through,
        contradictions=tuple(head.contradictions),
    )


class _ConfirmedHop(NamedTuple):
    hop: str
    batch: int
    log_position: int
    resend_through: int


def read_confirmed(session: StoreSession, hops: Sequence[str]) -> Mapping[str, LedgerConfirmation]:
    """What a store knows of these hops, those that leave it or come after them, in one snapshot; none of which it knows nothing."""
    found = session.rows(
        _ConfirmedHop,
        """
        select n.hop, c.through_batch as batch, c.through_position as log_position, coalesce(h.resend_through, 0) as resend_through
        from unnest(%s::text[]) n (hop)
        cross join lateral relaybox_internal.newest_confirmation(n.hop, 'received') c
        left join relaybox_internal.hop_out h on h.hop = n.hop
        """,
        list(hops),
    )
    return {one.hop: LedgerConfirmation(one.batch, one.log_position, one.resend_through) for one in found}


class _PublishedRow(NamedTuple):
    """A row of relaybox_internal.arrival, and what receipts say of its batch."""

    batch: int
    plan_id: str
    first_position: int
    last_position: int
    slice_count: int
    receipt_count: int
    receipt_rows: int
    source_system_identifier: int
    source_timeline: int


def _published(row: _PublishedRow) -> LedgerArrival:
    return LedgerArrival(
        batch=row.batch,
        plan_id=UUID(str(row.plan_id)),
        first_position=row.first_position,
        last_position=row.last_position,
        slice_count=row.slice_count,
        receipt_count=row.receipt_count,
        receipt_rows=row.receipt_rows,
        cluster=(row.source_system_identifier, row.source_timeline),
    )


class _PlannedRow(NamedTuple):
    """What a verification reads of a row of relaybox_internal.batch."""

    batch: int
    plan_id: str
    topics: list[str] | None
    lower: str | None
    upper: str | None
    reads_after: int
    reads_through: int
    first_position: int
    last_position: int
    slices: list[list[int]]
    adopted: bool
    system_identifier: int
    timeline: int


def _planned(row: _PlannedRow) -> LedgerBatch:
    return LedgerBatch(
        batch=row.batch,
        plan_id=UUID(str(row.plan_id)),
        topics=None if row.topics is None else tuple(row.topics),
        lower=row.lower,
        upper=row.upper,
        reads_after=row.reads_after,
        reads_through=row.reads_through,
        first_position=row.first_position,
        last_position=row.last_position,
        slices=tuple(Slice(*slice_) for slice_ in row.slices),
        adopted=row.adopted,
        cluster=(row.system_identifier, row.timeline),
    )
