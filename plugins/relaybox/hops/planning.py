"""Step 1 of a hop: plan the next batch in the source's ledger, or find the one to resume.

One short READ COMMITTED transaction on the source's primary. No message row is read for copying before its COMMIT
came back without a warning: that flush makes every row of the batch durable first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from psycopg2.extras import Json

from relaybox import errors
from relaybox.hops.batch_rows import BatchRow, as_batch, read_batch
from relaybox.hops.batches import Batch, Bucket, Cut, bucket_seqs, cut_batch, cut_log
from relaybox.hops.continuity import lost_batches, lost_generation, lost_log, lost_plan

if TYPE_CHECKING:
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession

SKIP_EMPTY_PAIR_TRANSACTIONS = 10_000
"""An empty pair wider than this is recorded as read, so that polls of a busy outbox stay cheap; and one after which fewer segments
are looked at."""


@dataclass(frozen=True)
class DestinationState:
    """What the destination has published of a hop: its newest batch (0: none) and that batch's last position and plan.

    Attributes:
        copied_plan_ids: the plans of slices that were copied of the batch after that; one, unless the source lost history.
        store_id: of the destination.
        source_id: of the store that the hop came from until now; None: not recorded yet.
    """

    log_id: int
    generation: int
    batch: int
    log_position: int
    plan_id: UUID | None
    copied_plan_ids: tuple[UUID, ...]
    store_id: str
    source_id: str | None


@dataclass(frozen=True)
class AttemptOwner:
    """Who runs a hop: a user, or a DAG and its run; and as which Spark application, None: as threads."""

    recorded_by: str
    application: str | None = None


@dataclass(frozen=True)
class CountedRest:
    """What a capped batch left of its pair, counted already. A pair never changes, so this does not change either."""

    lower: str
    upper: str
    topics: tuple[str, ...]
    reads_after: int
    bucket_seqs: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class Planned:
    """A batch to copy.

    Attributes:
        attempt: supersedes every lower one.
        resumed: an earlier call planned the batch.
        rest: what the batch left of its pair, for the next call.
        leaves_more: the hop has more messages to move than this batch, and has them for certain.
    """

    batch: Batch
    attempt: int
    resumed: bool
    rest: CountedRest | None = None
    leaves_more: bool = False


@dataclass(frozen=True)
class _Pair:
    """Where the next batch reads: messages of some topics between two snapshots, from a seq on.

    The first piece of the hop's backlog, or a new pair up to this moment: then `backlog_id` and `seqs` are None.
    """

    lower: str
    upper: str
    topics: tuple[str, ...]
    reads_after: int = 0
    last_seq: int | None = None  # None: not counted yet
    backlog_id: int | None = None
    seqs: str | None = None


class _Head(NamedTuple):
    """Where a hop stands at its source (lock_hop.sql): its newest batch, and from where the next one reads."""

    reads_log: int | None
    topics: list[str]
    batch: int
    log_position: int
    lower: str
    received_batch: int
    generation: int
    anchor_seq: int
    resend_through: int
    system_identifier: int
    timeline: int
    next_xid: str


class _Log(NamedTuple):
    """The log that a hop reads, and how far it has read it; `ahead_from` and `ahead_to` are ranges that it has read beyond."""

    published_position: int
    reads_after: int
    ahead_from: list[int]
    ahead_to: list[int]


class _Piece(NamedTuple):
    """A piece of a hop's backlog."""

    lower: str
    upper: str
    topics: list[str]
    reads_after: int
    last_seq: int
    backlog_id: int
    seqs: str


def plan_batch(
    source: StoreSession, hop: Hop, arrived: DestinationState, *, driver: AttemptOwner, rest: CountedRest | None = None
) -> Planned | None:
    """Plans the hop's next batch, or resumes the first planned one that has not arrived.

    Commits, also when it returns None: pieces without rows are gone then, and an empty pair is passed.

    Args:
        source: a connection to the source's primary, outside any transaction.
        hop: the hop, with its limits.
        arrived: what the destination had published when it was asked, before this call.
        driver: who will copy the batch; written down with the attempt.
        rest: what this caller's last batch left counted; spares counting a long backlog again for every batch.

    Returns:
        The batch to copy, or None when there is nothing to move.

    Raises:
        HistoryLost: G11; the ledgers of the two stores contradict each other.
        NotDurable: COMMIT returned with a warning; nothing of the batch may be read.
        PlanRefused, StoreBusy, StoreUnreachable: a retry may help.
    """
    source = source.doing(f"planning a batch of hop {hop.name}")
    try:
        planned = _plan(source, hop, arrived, driver, rest)
        source.commit_durably("plan")
    except BaseException:
        if not source.closed:
            source.rollback()
        raise
    return planned


def _plan(
    source: StoreSession, hop: Hop, arrived: DestinationState, driver: AttemptOwner, counted: CountedRest | None
) -> Planned | None:
    source.reach("plan.begin")
    head = source.row(_Head, "select * from relaybox_internal.lock_hop(%s)", hop.name)
    source.reach("plan.locked")
    _require_common_history(hop, head, arrived)
    if head.resend_through and arrived.batch >= head.resend_through:
        source.call("relaybox_internal.end_resending", hop.name)
    if head.batch > arrived.batch:  # planned before, and not published at the destination: copy it again
        batch = read_batch(source, hop.name, arrived.batch + 1)
        return Planned(batch, _begin_attempt(source, batch, driver), resumed=True)
    if head.batch > head.received_batch:
        raise errors.PlanRefused(f"hop {hop.name}: batch {head.batch} has arrived but is not confirmed yet.")
    plan = _plan_log(source, hop, head) if head.reads_log is not None else _plan_outbox(source, hop, head, counted)
    if plan is None:
        return None
    pair, cut, rest, leaves_more = plan
    source.reach("plan.counted")
    batch = _record(source, hop, pair, cut, head)
    source.reach("plan.recorded")
    return Planned(batch, _begin_attempt(source, batch, driver), resumed=False, rest=rest, leaves_more=leaves_more)


def _require_common_history(hop: Hop, head: _Head, arrived: DestinationState) -> None:
    if arrived.generation > head.generation:
        gap = lost_generation(hop, head.generation, arrived.generation)
    elif arrived.batch > head.batch:
        gap = lost_plan(hop, head.batch, arrived.batch)
    elif arrived.batch < head.received_batch and arrived.batch >= head.resend_through:
        gap = lost_batches(hop, head.received_batch, arrived.batch)
    else:
        return
    raise gap.as_error(hop, "Nothing was moved.")


def _begin_attempt(source: StoreSession, batch: Batch, driver: AttemptOwner) -> int:
    attempt = source.value(
        "select relaybox_internal.record_attempt(%s, %s, relaybox_internal.begin_attempt(%s), %s, %s)",
        *(batch.hop, batch.batch, batch.hop, driver.recorded_by, driver.application),
    )
    return int(attempt)


def _plan_log(source: StoreSession, hop: Hop, head: _Head) -> tuple[None, Cut, None, bool] | None:
    log = source.row(
        _Log,
        """
        select i.published_position, relaybox_internal.log_read_through(h.hop) as reads_after,
            array(select lower(a) from unnest(h.read_ahead) a) as ahead_from,
            array(select upper(a) - 1 from unnest(h.read_ahead) a) as ahead_to
        from relaybox_internal.hop_out h
        join relaybox_internal.hop_in i on i.log_id = h.reads_log
        where h.hop = %s
        """,
        hop.name,
    )
    if log.published_position < log.reads_after:
        raise lost_log(hop, log.reads_after, log.published_position).as_error(hop, "Nothing was moved.")
    cut = cut_log(
        reads_after=log.reads_after,
        published_position=log.published_position,
        first_position=head.log_position + 1,
        batch_rows=hop.limits.batch_rows,
        slice_rows=hop.limits.slice_rows,
        read_ahead=list(zip(log.ahead_from, log.ahead_to, strict=True)),
    )
    return None if cut is None else (None, cut, None, log.published_position > cut.reads_through)


def _plan_outbox(
    source: StoreSession, hop: Hop, head: _Head, counted: CountedRest | None
) -> tuple[_Pair, Cut, CountedRest | None, bool] | None:
    """Plans from the first piece of the backlog that has rows, else from a new pair up to now.

    Pieces without rows are removed.
    """
    while piece := _first_piece(source, hop):
        if plan := _cut_pair(source, hop, head, piece, counted):
            return plan
        source.call("relaybox_internal.end_backlog_piece", hop.name, piece.backlog_id)
    # its own statement, after the lock: in the locking statement the snapshot could be older than the last one
    now = source.value("select pg_current_snapshot()::text as now")
    pair = _Pair(head.lower, now, tuple(head.topics))
    plan = _cut_pair(source, hop, head, pair, None)
    if plan is None:
        _skip_if_wide(source, hop.name, pair)
    return plan


def _first_piece(source: StoreSession, hop: Hop) -> _Pair | None:
    piece = source.row_if_any(
        _Piece,
        """
        select lower, upper, topics, lower(seqs) - 1 as reads_after, upper(seqs) - 1 as last_seq, backlog_id, seqs
        from relaybox_internal.backlog where hop = %s and state = 'routed' order by backlog_id limit 1
        """,
        hop.name,
    )
    return piece and _Pair(**{**piece._asdict(), "topics": tuple(piece.topics)})


def _cut_pair(
    source: StoreSession, hop: Hop, head: _Head, pair: _Pair, counted: CountedRest | None
) -> tuple[_Pair, Cut, CountedRest | None, bool] | None:
    width = bucket_seqs(hop.limits.batch_rows, hop.limits.slice_rows)
    wanted = (pair.lower, pair.upper, pair.topics, pair.reads_after, width)
    if counted and wanted == (counted.lower, counted.upper, counted.topics, counted.reads_after, counted.bucket_seqs):
        buckets, whole = list(counted.buckets), True
    else:
        buckets, whole = _count_rows(source, hop, head, pair, width), pair.backlog_id is None
    cut = cut_batch(
        buckets,
        reads_after=pair.reads_after,
        first_position=head.log_position + 1,
        batch_rows=hop.limits.batch_rows,
        slice_rows=hop.limits.slice_rows,
    )
    if cut is None:
        return None
    left = tuple(bucket for bucket in buckets if bucket.first_seq > cut.reads_through)
    rest = CountedRest(pair.lower, pair.upper, pair.topics, cut.reads_through, width, left) if whole and left else None
    return replace(pair, last_seq=pair.last_seq or buckets[-1].last_seq), cut, rest, not cut.pair_exhausted


def _count_rows(source: StoreSession, hop: Hop, head: _Head, pair: _Pair, width: int) -> list[Bucket]:
    if pair.backlog_id is None:
        # rows of an outbox are only added, so statistics that are late never make a small pair look like most of a segment
        source.set_local({"enable_seqscan": "on"})
        buckets = source.rows(
            Bucket,
            "select * from relaybox_internal.outbox_buckets(%s, %s, %s, %s, %s)",
            *(pair.lower, pair.upper, list(pair.topics), width, head.anchor_seq),
        )
        source.set_local({"enable_seqscan": "off"})
        return buckets
    return source.rows(
        Bucket,
        "select * from relaybox_internal.backlog_buckets(%s, %s, %s, %s, %s, %s)",
        *(pair.lower, pair.upper, list(pair.topics), pair.seqs, width, hop.limits.batch_rows + 1),
    )


def _skip_if_wide(source: StoreSession, hop: str, pair: _Pair) -> None:
    source.execute(
        (
            "select relaybox_internal.skip_empty_pair(%s, %s) "
            "where pg_snapshot_xmax(%s)::text::numeric - pg_snapshot_xmin(%s)::text::numeric > %s "
            "or relaybox_internal.sealed_through(%s) > relaybox_internal.sealed_through(%s)"
        ),
        *(hop, pair.upper, pair.upper, pair.lower, SKIP_EMPTY_PAIR_TRANSACTIONS, pair.upper, pair.lower),
    )


def _record(source: StoreSession, hop: Hop, pair: _Pair | None, cut: Cut, head: _Head) -> Batch:
    slices = [[s.slice, s.first_read, s.last_read, s.first_position, s.row_count] for s in cut.slices]
    lower, upper, topics = (pair.lower, pair.upper, list(pair.topics)) if pair else (None, None, None)
    digests = None
    if hop.integrity == "checksum":
        # read before COMMIT, but never without it: the digests are durable with the rows, or neither is
        digests = source.call("relaybox_internal.slice_digests", head.reads_log, lower, upper, topics, Json(slices))
    recorded = source.row(
        BatchRow,
        "select * from relaybox_internal.record_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        hop.name,
        pair and pair.backlog_id,
        lower,
        upper,
        pair and pair.last_seq,
        cut.pair_exhausted,
        cut.reads_after,
        cut.reads_through,
        cut.row_count,
        Json(slices),
        digests,
        head.system_identifier,
        head.timeline,
        head.next_xid,
    )
    return as_batch(recorded)
