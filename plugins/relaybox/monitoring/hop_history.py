"""A hop over time, as its two ledgers tell it: how much was planned and published when, how late, and each batch's cascade.

Reads only. Times are of the clock of the store that wrote them: planned, received, processed and settled at the source, copied and
published at the destination.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Hop, Store
    from relaybox.stores.sessions.store_session import StoreSession

Answer = TypeVar("Answer")

NEWEST_BATCHES = 5_000
"""So many of a hop's newest batches, and confirmations, are looked at: ledgers have no index on times, and need none."""

INTERVALS = 60
SHOWN_BATCHES = 40


@dataclass(frozen=True)
class Interval:
    """What happened in [starts_at, starts_at + interval_seconds).

    Attributes:
        planned_rows: messages of batches that were planned.
        published_rows: messages of batches that were published.
        worst_delay_seconds: from the sending of a batch's first message to its arrival here, of the worst batch; None: no arrival.
    """

    starts_at: datetime
    planned_rows: int
    published_rows: int
    worst_delay_seconds: float | None


@dataclass(frozen=True)
class BatchTimes:
    """The cascade of one batch; what has not happened, or is not known, is None.

    `copied_at` has one time per slice that has its receipt, in order. `moved_by` is who made the newest attempt at it: a DAG and its
    run, or a user; `application` is Spark's id of what copied it then, None: threads.
    """

    batch: int
    row_count: int
    slice_count: int
    planned_at: datetime
    copied_at: tuple[datetime, ...]
    published_at: datetime | None
    received_at: datetime | None
    processed_at: datetime | None
    settled_at: datetime | None
    moved_by: str | None
    application: str | None


@dataclass(frozen=True)
class HopFlow:
    """A hop in the window that ends at `measured_at`.

    Attributes:
        intervals: 60 of equal length, oldest first, those in which nothing happened included.
        batches: the newest ones, newest first; of one run, if asked so.
        errors: what a store said instead of answering.
    """

    hop: Hop
    measured_at: datetime
    interval_seconds: float
    intervals: tuple[Interval, ...]
    batches: tuple[BatchTimes, ...]
    errors: tuple[errors.RelayboxError, ...]

    @property
    def moving_rows_per_second(self) -> float | None:
        """How fast messages move while they move: rows of the published batches shown, by the time from plan to arrival."""
        moved = [(batch.row_count, batch.published_at - batch.planned_at) for batch in self.batches if batch.published_at]
        seconds = sum(duration.total_seconds() for _, duration in moved)
        return sum(rows for rows, _ in moved) / seconds if seconds > 0 else None


def read_flow(hop: Hop, *, window: timedelta, moved_by: str | None = None) -> HopFlow:
    """Asks both stores of a hop. Raises nothing for a store that does not answer: see `HopFlow.errors`.

    Args:
        hop: the hop.
        window: how far back the intervals go.
        moved_by: shows only the batches that this one moved (`BatchTimes.moved_by`).
    """
    now = datetime.now(UTC)
    step = window / INTERVALS
    first = datetime.fromtimestamp((now.timestamp() // step.total_seconds() + 1) * step.total_seconds(), UTC) - window
    asked: dict[str, object] = {"hop": hop.name, "newest": NEWEST_BATCHES, "shown": SHOWN_BATCHES, "moved_by": moved_by}
    asked |= {"first": first, "step": step.total_seconds()}
    failed: list[errors.RelayboxError] = []
    sending = _ask(hop, hop.source, lambda source: _read_sending(source, asked), _Sending([], []), failed)
    asked["batches"] = [row.batch for row in sending.batches]
    receiving = _ask(
        hop, hop.destination, lambda destination: _read_receiving(destination, asked), _Receiving([], [], []), failed
    )
    return HopFlow(
        hop=hop,
        measured_at=now,
        interval_seconds=step.total_seconds(),
        intervals=_intervals(first, step, sending.intervals, receiving.intervals),
        batches=tuple(_batches(sending.batches, receiving.arrivals, receiving.receipts)),
        errors=tuple(failed),
    )


_PLANNED = """
    select floor(extract(epoch from b.planned_at - %(first)s) / %(step)s)::integer as number, sum(b.row_count)::bigint as row_count
    from relaybox_internal.hop_out h
    join relaybox_internal.batch b on b.hop = h.hop and b.batch > h.batch - %(newest)s
    where h.hop = %(hop)s and b.planned_at >= %(first)s
    group by 1
"""

_PUBLISHED = """
    select
        floor(extract(epoch from a.published_at - %(first)s) / %(step)s)::integer as number, sum(a.row_count)::bigint as row_count,
        max(extract(epoch from a.published_at - l.sent_at))::double precision as delay_seconds
    from relaybox_internal.hop_in i
    join relaybox_internal.arrival a on a.log_id = i.log_id and a.batch > i.published_batch - %(newest)s
    left join relaybox_internal.log l on l.log_id = i.log_id and l.log_position = a.first_position
    where i.hop = %(hop)s and a.published_at >= %(first)s
    group by 1
"""

_BATCHES = """
    select
        b.batch, b.row_count, jsonb_array_length(b.slices) as slice_count, b.planned_at,
        received.recorded_at as received_at, processed.recorded_at as processed_at, settled.recorded_at as settled_at,
        coalesce(newest.recorded_by, received.recorded_by) as moved_by, newest.application
    from relaybox_internal.hop_out h
    join relaybox_internal.batch b on b.hop = h.hop and b.batch > h.batch - %(newest)s
    left join lateral (
        select a.recorded_by, a.application from relaybox_internal.attempt a
        where a.hop = h.hop and a.batch = b.batch order by a.attempt desc limit 1
    ) newest on true
    left join lateral relaybox_internal.confirmation_of(h.hop, 'received', b.last_position) received on true
    left join lateral relaybox_internal.confirmation_of(h.hop, 'processed', b.last_position) processed on true
    left join lateral relaybox_internal.confirmation_of(h.hop, 'settled', b.last_position) settled on true
    where h.hop = %(hop)s and (%(moved_by)s::text is null or coalesce(newest.recorded_by, received.recorded_by) = %(moved_by)s)
    order by b.batch desc
    limit %(shown)s
"""

_ARRIVALS = """
    select a.batch, a.published_at
    from relaybox_internal.hop_in i
    join relaybox_internal.arrival a on a.log_id = i.log_id and a.batch = any(%(batches)s::bigint[])
    where i.hop = %(hop)s
"""

_RECEIPTS = """
    select r.batch, array_agg(r.copied_at order by r.copied_at) as copied_at
    from relaybox_internal.hop_in i
    join relaybox_internal.receipt r on r.log_id = i.log_id and r.batch = any(%(batches)s::bigint[])
    where i.hop = %(hop)s
    group by r.batch
"""


class _PlannedInterval(NamedTuple):
    """Interval number `number`, and what was planned in it."""

    number: int
    row_count: int


class _PublishedInterval(NamedTuple):
    number: int
    row_count: int
    delay_seconds: float | None


class _PlannedBatch(NamedTuple):
    """A batch as its source knows it."""

    batch: int
    row_count: int
    slice_count: int
    planned_at: datetime
    received_at: datetime | None
    processed_at: datetime | None
    settled_at: datetime | None
    moved_by: str | None
    application: str | None


class _Arrival(NamedTuple):
    batch: int
    published_at: datetime


class _Receipts(NamedTuple):
    """When the slices of a batch were copied, in order."""

    batch: int
    copied_at: list[datetime]


class _Sending(NamedTuple):
    """What the source of a hop answered."""

    intervals: list[_PlannedInterval]
    batches: list[_PlannedBatch]


class _Receiving(NamedTuple):
    """What the destination of a hop answered."""

    intervals: list[_PublishedInterval]
    arrivals: list[_Arrival]
    receipts: list[_Receipts]


def _read_sending(source: StoreSession, asked: Mapping[str, object]) -> _Sending:
    return _Sending(source.rows(_PlannedInterval, _PLANNED, asked), source.rows(_PlannedBatch, _BATCHES, asked))


def _read_receiving(destination: StoreSession, asked: Mapping[str, object]) -> _Receiving:
    return _Receiving(
        destination.rows(_PublishedInterval, _PUBLISHED, asked),
        destination.rows(_Arrival, _ARRIVALS, asked),
        destination.rows(_Receipts, _RECEIPTS, asked),
    )


def _ask(
    hop: Hop, store: Store, read: Callable[[StoreSession], Answer], otherwise: Answer, failed: list[errors.RelayboxError]
) -> Answer:
    """What the store answers; `otherwise`, and its error added to `failed`, if it does not."""
    try:
        with store_session(store, f"reading the ledger of hop {hop.name}", application_name="relaybox flow") as session:
            return read(session)
    except errors.RelayboxError as error:
        failed.append(error)
        return otherwise


def _intervals(
    first: datetime, step: timedelta, planned: Sequence[_PlannedInterval], published: Sequence[_PublishedInterval]
) -> tuple[Interval, ...]:
    plans = {row.number: row.row_count for row in planned}
    arrivals = {row.number: row for row in published}
    return tuple(
        Interval(
            starts_at=first + number * step,
            planned_rows=plans.get(number, 0),
            published_rows=arrivals[number].row_count if number in arrivals else 0,
            worst_delay_seconds=arrivals[number].delay_seconds if number in arrivals else None,
        )
        for number in range(INTERVALS)
    )


def _batches(planned: Sequence[_PlannedBatch], arrivals: Sequence[_Arrival], receipts: Sequence[_Receipts]) -> list[BatchTimes]:
    published = {row.batch: row.published_at for row in arrivals}
    copied = {row.batch: tuple(row.copied_at) for row in receipts}
    return [
        BatchTimes(
            batch=row.batch,
            row_count=row.row_count,
            slice_count=row.slice_count,
            planned_at=row.planned_at,
            copied_at=copied.get(row.batch, ()),
            published_at=published.get(row.batch),
            received_at=row.received_at,
            processed_at=row.processed_at,
            settled_at=row.settled_at,
            moved_by=row.moved_by,
            application=row.application,
        )
        for row in planned
    ]
