"""The two ledgers of a hop, batch by batch: what the source planned and what the destination published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID

from psycopg2.extras import NamedTupleCursor

from relaybox.hops.batches import Slice


@dataclass(frozen=True)
class PlannedBatch:
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

    def read_at(self, position: int) -> int | None:
        """The position of the log from which a position at the destination was read; None: of an adopted batch it is not known."""
        return next(
            (s.first_read + position - s.first_position for s in self.slices if s.first_position <= position <= s.last_position),
            None,
        )


@dataclass(frozen=True)
class PublishedBatch:
    """A batch as its destination published it."""

    batch: int
    plan_id: UUID
    first_position: int
    last_position: int
    slice_count: int
    receipt_count: int


@dataclass(frozen=True)
class Destination:
    """What the destination of a hop holds: published batches, and the highest position with a row (0: none).

    Below `first_kept_position` retention has dropped the messages; the ledger begins after batch `compacted_batch`, which ended at
    `compacted_position`.
    """

    log_id: int
    published_position: int
    published: tuple[PublishedBatch, ...]
    highest_position: int
    first_kept_position: int = 1
    compacted_batch: int = 0
    compacted_position: int = 0


@dataclass(frozen=True)
class Source:
    """What the source of a hop planned. `reads_log` is None for an outbox.

    Below `first_kept_read`, a seq of the outbox or a position of the log, retention has dropped the messages; the ledger begins
    after batch `compacted_batch`, which ended at `compacted_position` and had read a log through `compacted_read`.
    """

    reads_log: int | None
    planned_position: int
    planned: tuple[PlannedBatch, ...]
    waiting_count: int
    first_kept_read: int = 1
    compacted_batch: int = 0
    compacted_position: int = 0
    compacted_read: int = 0


def read_destination(connection: Any, hop: str) -> Destination | None:
    """Reads the destination's ledger, in the caller's transaction; None when the hop does not arrive there."""
    with connection.cursor(cursor_factory=NamedTupleCursor) as cursor:
        cursor.execute(
            """
            select i.hop_id, i.published_position, i.first_kept_position, i.compacted_batch, i.compacted_position,
                (select coalesce(max(l.position), 0) from relaybox.log l where l.hop_id = i.hop_id) highest_position
            from relaybox.hop_in i where i.hop = %s
            """,
            (hop,),
        )
        head = cursor.fetchone()
        if head is None:
            return None
        cursor.execute(
            """
            select a.batch, a.plan_id, a.first_position, a.last_position, a.slice_count,
                (select count(*) from relaybox.receipt r where r.hop_id = a.hop_id and r.batch = a.batch and r.plan_id = a.plan_id)
            from relaybox.arrival a where a.hop_id = %s order by a.batch
            """,
            (head.hop_id,),
        )
        published = tuple(PublishedBatch(row[0], UUID(str(row[1])), *row[2:]) for row in cursor.fetchall())
    return Destination(
        log_id=head.hop_id,
        published_position=head.published_position,
        published=published,
        highest_position=head.highest_position,
        first_kept_position=head.first_kept_position,
        compacted_batch=head.compacted_batch,
        compacted_position=head.compacted_position,
    )


def read_source(connection: Any, hop: str) -> Source | None:
    """Reads the source's ledger, in the caller's transaction; None when the hop does not leave it."""
    with connection.cursor(cursor_factory=NamedTupleCursor) as cursor:
        cursor.execute(
            """
            select h.reads_log, s.planned_position, s.waiting_count, h.compacted_batch, h.compacted_position, h.compacted_read,
                relaybox.first_kept_read(h.hop) first_kept_read
            from relaybox.hop_out h
            cross join relaybox.sending_state(h.hop) s
            where h.hop = %s
            """,
            (hop,),
        )
        head = cursor.fetchone()
        if head is None:
            return None
        cursor.execute("select * from relaybox.batch where hop = %s order by batch", (hop,))
        planned = tuple(_planned(row) for row in cursor.fetchall())
    return Source(
        reads_log=head.reads_log,
        planned_position=head.planned_position,
        planned=planned,
        waiting_count=head.waiting_count,
        first_kept_read=head.first_kept_read,
        compacted_batch=head.compacted_batch,
        compacted_position=head.compacted_position,
        compacted_read=head.compacted_read,
    )


def _planned(row: Any) -> PlannedBatch:
    return PlannedBatch(
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
    )


def contradictions(source: Source, destination: Destination) -> Iterator[str]:
    """What is wrong in the ledgers themselves, or between them. The destination was read first: it may know less, never more."""
    yield from _gaps("ledger of the source", source.planned, source)
    yield from _gaps("ledger of the destination", destination.published, destination)
    yield from _reading_gaps(source)
    planned = {batch.batch: batch for batch in source.planned}
    for published in destination.published:
        if published.batch > source.compacted_batch:
            yield from _batch_contradictions(planned, published)
    last_published = destination.published[-1].last_position if destination.published else destination.compacted_position
    if destination.published_position != last_published:
        yield f"published through position {destination.published_position}, but the newest arrival ends at {last_published}"


def _gaps(where: str, batches: Sequence[PlannedBatch | PublishedBatch], compacted: Source | Destination) -> Iterator[str]:
    batch_wanted, position_wanted = compacted.compacted_batch + 1, compacted.compacted_position + 1
    if batches and (batches[0].batch, batches[0].first_position) != (batch_wanted, position_wanted):
        yield (
            f"{where}: begins with batch {batches[0].batch} at position {batches[0].first_position}, "
            f"expected batch {batch_wanted} at position {position_wanted}"
        )
    for before, batch in pairwise(batches):
        if batch.batch != before.batch + 1:
            yield f"{where}: batch {before.batch} is followed by batch {batch.batch}"
        elif batch.first_position != before.last_position + 1:
            yield (
                f"{where}: batch {before.batch} ends at position {before.last_position}, "
                f"batch {batch.batch} begins at {batch.first_position}"
            )


def _reading_gaps(source: Source) -> Iterator[str]:
    """A hop that reads a log must read every position of it once, wherever it puts it."""
    if source.reads_log is None:
        return
    read_through = source.compacted_read
    for batch in source.planned:
        if batch.reads_after != read_through:
            yield f"ledger of the source: batch {batch.batch} reads after position {batch.reads_after}, expected {read_through}"
        read_through = batch.reads_through
    slices = sorted((slice_.first_read, slice_.last_read) for batch in source.planned for slice_ in batch.slices)
    next_read = source.compacted_read + 1
    for first, last in slices:
        if first < next_read:
            yield f"ledger of the source: positions {first} to {min(last, next_read - 1)} of the log are read twice"
        elif next_read < first and next_read <= read_through:
            yield f"ledger of the source: positions {next_read} to {min(first - 1, read_through)} of the log are read by no batch"
        next_read = max(next_read, last + 1)
    if next_read <= read_through:
        yield f"ledger of the source: positions {next_read} to {read_through} of the log are read by no batch"


def _batch_contradictions(planned: Mapping[int, PlannedBatch], published: PublishedBatch) -> Iterator[str]:
    plan = planned.get(published.batch)
    if plan is None:
        yield f"batch {published.batch} is published but not in the ledger of the source: the source lost history"
        return
    if plan.plan_id != published.plan_id:
        yield f"batch {published.batch} is published with plan {published.plan_id}, the source has plan {plan.plan_id}"
    if (plan.first_position, plan.last_position) != (published.first_position, published.last_position):
        yield (
            f"batch {published.batch} is published at positions {published.first_position} to {published.last_position}, "
            f"planned were {plan.first_position} to {plan.last_position}"
        )
    if published.receipt_count != len(plan.slices) and not plan.adopted:
        yield f"batch {published.batch} is published with {published.receipt_count} receipts of {len(plan.slices)} slices"
