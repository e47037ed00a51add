"""Which segments a store keeps and who needs them, and dropping the others: whole segments, never rows.

A segment of an outbox or of a log goes when every hop that reads it has settled it, every subscription acknowledged it, nothing
in it is held, undecided or an open dead letter, and it is older than the replay window. The newest one stays. SQL decides it
(`relaybox_internal.drop_oldest_segment`), here it is asked and repeated. Of a log that a reader of relaybox.yaml awaits
(relaybox.stores.readers.awaited_logs) nothing goes: no store knows that reader.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import psycopg2

from relaybox.hops.sealing import seal_segments
from relaybox.log_events import emit
from relaybox.stores.opening import store_session
from relaybox.stores.readers.awaited_logs import AwaitedLog, first_by_log, list_awaited_logs
from relaybox.streams.delivering import deliver_undriven

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession

PATIENCE_SECONDS = 30.0
"""So long a table that sessions hold is tried again; then retention leaves it for its next run."""

PAUSE_SECONDS = 0.5
"""Between two attempts: producers and consumers wait at most 0.2 s for each."""

HOLDER_KINDS = (
    *("hop", "subscription", "awaited", "dead letter", "delayed message", "held", "stalled"),
    *("undecided", "window", "deduplication", "unrouted", "newest"),
)
"""Of Holder. drop_oldest_segment.sql gives kind and name in one text."""


@dataclass(frozen=True)
class Holder:
    """Who needs a table from where on.

    Attributes:
        kind: one of HOLDER_KINDS.
        name: of the hop, subscription, sender ...
        needs_from: the first seq or position that it needs; 0: all of it.
        since: since when that waits; None where nothing waits.
        stopped_consumer: what its route says about a consumer that stops: keep, alarm or detach; None for all that is no consumer.
        detachable: it has stopped, and what only it needs may be detached.
        what: of a reader that is awaited: that it is, and from where on; None of others.
        next_step: how a reader subscribes that is awaited, or is awaited no longer; None of others.
    """

    kind: str
    name: str
    needs_from: int
    since: datetime | None
    stopped_consumer: str | None
    detachable: bool = False
    what: str | None = None
    next_step: str | None = None


@dataclass(frozen=True)
class Segment:
    """Seqs or positions first to last, both included."""

    name: str
    first: int
    last: int
    size_bytes: int


@dataclass(frozen=True)
class TableRetention:
    """The outbox of a store (`hop` None), or the log of a hop that arrives in it; segments oldest first, holders by what they need."""

    hop: str | None
    segments: tuple[Segment, ...]
    holders: tuple[Holder, ...]

    @property
    def name(self) -> str:
        return "outbox" if self.hop is None else f"log of {self.hop}"

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def droppable(self) -> tuple[Segment, ...]:
        """The segments that no hop and no subscription needs."""
        kept_from = min((holder.needs_from for holder in self.holders), default=0)
        return tuple(segment for segment in self.segments if segment.last < kept_from)

    @property
    def detachable(self) -> tuple[Segment, ...]:
        """The segments after these that only consumers need that have stopped (stopped_consumer: detach)."""
        kept_from = min((holder.needs_from for holder in self.holders if not holder.detachable), default=0)
        return tuple(segment for segment in self.segments if segment.last < kept_from)[len(self.droppable) :]

    @property
    def detachable_for(self) -> tuple[str, ...]:
        """The subscriptions for which they would be detached."""
        last = max((segment.last for segment in self.detachable), default=-1)
        return tuple(sorted({holder.name for holder in self.holders if holder.detachable and holder.needs_from <= last}))


@dataclass(frozen=True)
class StoreRetention:
    """What a store keeps."""

    store: str
    tables: tuple[TableRetention, ...]


@dataclass(frozen=True)
class TableRetained:
    """What one run did with a table.

    Attributes:
        hop: whose log it is; None: the outbox.
        dropped_count, dropped_bytes: of segments.
        outcome: why it went no further: kept (the oldest segment is needed), busy (sessions held the table), none (no segment).
        holder: who that was: kind and name of a Holder, or a sentence.
        needs_from: the first seq or position that it needs; None where holder is a sentence.
        awaited: as of Holder.what, of the first reader that is awaited there, also where another holder comes first; None: none is.
        next_step: of that reader, as of Holder, and how many others are.
    """

    hop: str | None
    dropped_count: int
    dropped_bytes: int
    outcome: Literal["kept", "busy", "none"]
    holder: str | None
    needs_from: int | None
    awaited: str | None = None
    next_step: str | None = None

    @property
    def name(self) -> str:
        return "outbox" if self.hop is None else f"log of {self.hop}"

    @property
    def holder_kind(self) -> str | None:
        """One of HOLDER_KINDS; None where holder is a sentence, and where there is none."""
        return None if self.holder is None or self.needs_from is None else _split_holder(self.holder)[0]

    @property
    def holder_name(self) -> str | None:
        """Of the hop, subscription, sender ...; None as holder_kind."""
        return None if self.holder is None or self.needs_from is None else _split_holder(self.holder)[1]


def _split_holder(holder: str) -> tuple[str, str]:
    """Kind and name."""
    kind = next(kind for kind in HOLDER_KINDS if holder.startswith(f"{kind} "))
    return kind, holder.removeprefix(f"{kind} ")


@dataclass(frozen=True)
class StoreRetained:
    """What one run did in a store.

    Attributes:
        compacted_count: batches whose ledger rows were removed: of each of them no message is kept here.
        compacted_attempt_count: attempts of derivations whose records were removed: the same.
        released_count: detached segments that no consumer needs any more: their files may be removed.
    """

    store: str
    tables: tuple[TableRetained, ...]
    compacted_count: int
    compacted_attempt_count: int
    released_count: int

    @property
    def dropped_bytes(self) -> int:
        return sum(table.dropped_bytes for table in self.tables)


def read_retention(store: Store, routes: Routes | None = None) -> StoreRetention:
    """Asks a store what it keeps and for whom, in one snapshot. Changes nothing.

    Args:
        store: the store.
        routes: of relaybox.yaml, for the readers that the store does not know; None: there are none.

    Raises:
        StoreUnreachable, StoreUnusable, StoreNotInitialised: see relaybox.errors.
    """
    with store_session(store, "asking what is kept, and for whom", application_name="relaybox retention") as session:
        session.execute("set transaction isolation level repeatable read read only")
        awaited = list_awaited_logs(session, store, routes)
        tables = _read_tables(session, awaited)
    return StoreRetention(store.name, tables)


class _Table(NamedTuple):
    """The outbox (both None), or the log of a hop that arrives in the store."""

    log_id: int | None
    hop: str | None


_OUTBOX = _Table(None, None)


def _read_tables(session: StoreSession, awaited: Sequence[AwaitedLog]) -> tuple[TableRetention, ...]:
    """All tables of a store, their segments and their holders, in as many statements for many logs as for one."""
    logs = session.rows(_Table, "select log_id, hop from relaybox_internal.hop_in order by hop")
    segments = session.groups_by(Segment, "log_id", _SEGMENTS)
    holders = session.groups_by(Holder, "log_id", _HOLDERS)
    waiting: dict[int, list[Holder]] = {}
    for one in awaited:
        holder = Holder("awaited", one.reader, one.needs_from, None, None, what=one.what, next_step=one.next_step)
        waiting.setdefault(one.log_id, []).append(holder)
    tables = []
    for log_id, hop in (_OUTBOX, *logs):
        needing = (*(() if log_id is None else waiting.get(log_id, ())), *holders.get(log_id, ()))
        needing = tuple(sorted(needing, key=lambda holder: holder.needs_from))
        tables.append(TableRetention(hop, tuple(segments.get(log_id, ())), needing))
    return (_with_unrouted(session, tables[0]), *tables[1:])


_SEGMENTS = """
    select s.log_id, s.segment::text as name, s.first, s.last, pg_total_relation_size(s.segment) as size_bytes
    from relaybox_internal.segments() s order by s.log_id nulls first, s.first
"""

_HOLDERS = """
    select t.log_id, h.kind, h.holder as name, h.needs_from, h.since, h.policy as stopped_consumer, h.detachable
    from (select null::integer as log_id union all select i.log_id from relaybox_internal.hop_in i) t
    cross join lateral relaybox_internal.holders(t.log_id) h
    order by h.needs_from, h.kind, h.holder
"""


class _Unmoved(NamedTuple):
    """A message of a topic that no hop reads."""

    seq: int
    topic: str


def _with_unrouted(session: StoreSession, outbox: TableRetention) -> TableRetention:
    """The same, with the topics that no hop reads as holders of what nobody else needs."""
    if not outbox.droppable:
        return outbox
    unmoved = session.rows(
        _Unmoved,
        "select q.seq, o.topic from relaybox_internal.unmoved_seq(%s, %s) q (seq) join relaybox_internal.sent_rows o on o.seq = q.seq",
        *(outbox.droppable[0].first - 1, outbox.droppable[-1].last),
    )
    unrouted = (Holder("unrouted", f"topic {one.topic}", one.seq, None, None) for one in unmoved)
    return TableRetention(None, outbox.segments, (*unrouted, *outbox.holders))


def retain_store(
    store: Store,
    *,
    recorded_by: str,
    routes: Routes | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> StoreRetained:
    """Drops every segment of a store that no hop and no subscription needs, and its rows in the ledgers.

    Commits each drop; may be killed, repeated, and run twice at once. It seals full segments of the outbox too.

    Producers and consumers wait at most 0.2 s at a time. A table that one of them holds is tried again for a while, then left.
    First it delivers what no driver would deliver (deliver_undriven): no consumer has that, so retention must keep it.

    Args:
        store: the store.
        recorded_by: who does it, for the ledger of dropped segments.
        routes: of relaybox.yaml, for the readers that the store does not know; None: there are none.
        patience_seconds: how long a table that is held is tried again.

    Raises:
        StoreUnreachable, StoreUnusable, StoreNotInitialised: what was dropped stays so; run it again.
    """
    with store_session(store, "delivering what no driver delivers", application_name="relaybox retention") as session:
        deliver_undriven(session)
    with store_session(store, "dropping segments", application_name="relaybox retention") as session:
        # each drop is one statement and its COMMIT: no session waits for this process
        session.connection.autocommit = True
        noted = seal_segments(session)
        # One that subscribes after this look is a subscription then. One of processed_by that is ended after it is seen by the next run.
        awaited = first_by_log(list_awaited_logs(session, store, routes))
        retained = [_drop_of(session, _OUTBOX, recorded_by, patience_seconds)]
        for log in session.rows(_OldestSegment, "select * from relaybox_internal.oldest_log_segments()"):
            if log.log_id in awaited:
                retained.append(_retained_for(log, awaited[log.log_id]))
            elif log.segment is None:
                retained.append(TableRetained(log.hop, 0, 0, "none", None, None))
            elif log.holder is not None:
                retained.append(TableRetained(log.hop, 0, 0, "kept", log.holder, log.needs_from))
            else:
                retained.append(_drop_of(session, _Table(log.log_id, log.hop), recorded_by, patience_seconds))
        if noted.is_waiting:
            seal_segments(session, noted)
        compacted_count, released_count = _compact_ledgers(session, recorded_by, awaited)
        compacted_attempt_count = _compact_derivations(session)
    done = StoreRetained(store.name, tuple(retained), compacted_count, compacted_attempt_count, released_count)
    for table in done.tables:
        emit(
            "table_retained",
            store=store.name,
            table=table.name,
            dropped=table.dropped_count,
            megabytes=table.dropped_bytes / 1e6,
            outcome=table.outcome,
            holder=table.holder or "none",
        )
    return done


class _OldestSegment(NamedTuple):
    """Of a log, and who needs a row of it (oldest_log_segments.sql); `segment` None: it has none; `holder` None: nobody."""

    log_id: int
    hop: str
    segment: str | None
    holder: str | None
    needs_from: int | None


class DropAnswer(NamedTuple):
    """What drop_oldest_segment.sql did with the oldest segment of a table: dropped, detached, or why not.

    Attributes:
        outcome: dropped, detached, superseded, kept, busy or none.
        bytes: of a dropped segment.
        holder, needs_from: as of TableRetained.
    """

    outcome: str
    holder: str | None
    bytes: int
    needs_from: int | None


def _retained_for(log: _OldestSegment, awaited: AwaitedLog) -> TableRetained:
    """Nothing was dropped: the store itself would not keep it for a reader that it does not know.

    Who needs an earlier row comes first, as in read_retention(): without a replay window everything is kept.
    """
    holder, needs_from = f"awaited {awaited.reader}", awaited.needs_from
    if log.needs_from is not None and log.needs_from < awaited.needs_from:
        holder, needs_from = str(log.holder), log.needs_from
    return TableRetained(log.hop, 0, 0, "kept", holder, needs_from, awaited=awaited.what, next_step=awaited.next_step)


def _drop_of(session: StoreSession, table: _Table, recorded_by: str, patience_seconds: float) -> TableRetained:
    *gone, last = _drop_segments(session, table.log_id, recorded_by, patience_seconds)
    outcome = cast("Literal['kept', 'busy', 'none']", last.outcome)
    return TableRetained(table.hop, len(gone), sum(one.bytes for one in gone), outcome, last.holder, last.needs_from)


def _drop_segments(session: StoreSession, log_id: int | None, recorded_by: str, patience_seconds: float) -> Iterator[DropAnswer]:
    """The answers of relaybox_internal.drop_oldest_segment: those that dropped one, and the last."""
    deadline = time.monotonic() + patience_seconds
    while True:
        session.reach("retention.begin")
        answer = session.row(DropAnswer, "select * from relaybox_internal.drop_oldest_segment(%s, %s)", log_id, recorded_by)
        if answer.outcome == "dropped":
            session.reach("retention.dropped")
            deadline = time.monotonic() + patience_seconds
            yield answer
        elif answer.outcome == "busy" and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        else:
            yield answer
            return


def _compact_ledgers(session: StoreSession, recorded_by: str, awaited: Collection[int]) -> tuple[int, int]:
    """How many batches were forgotten, and how many detached segments let go; none of logs whose reader is awaited.

    It asks once which hops and logs have something to remove, and then works hop by hop.
    """
    batches = released = 0
    # before the ledgers: what is let go no longer needs them
    for log_id in session.values(_DETACHED_LOGS):
        if log_id not in awaited:
            released += _count(session, "select relaybox_internal.release_detached(%s, %s)", log_id, recorded_by)
    for hop, log_id in session.rows(_Ledger, "select * from relaybox_internal.ledgers_to_compact()"):
        if hop is not None:
            batches += _count(session, "select relaybox_internal.compact_hop_ledgers(%s)", hop)
        else:
            batches += _count(session, "select relaybox_internal.compact_log_ledgers(%s)", log_id)
        session.reach("retention.compacted")
    return batches, released


_DETACHED_LOGS = """
    select distinct d.log_id from relaybox_internal.detached_segment d where d.state in ('detaching', 'detached') order by d.log_id
"""


class _Ledger(NamedTuple):
    """Of a hop that leaves the store, or of a log."""

    hop: str | None
    log_id: int | None


def _compact_derivations(session: StoreSession) -> int:
    """How many attempts were forgotten."""
    attempts = 0
    for derivation_id in session.values("select derivation_id from relaybox_internal.derivation order by derivation_id"):
        attempts += _count(session, "select relaybox_internal.compact_derivation(%s)", derivation_id)
        session.reach("retention.compacted")
    return attempts


def _count(session: StoreSession, call: str, *arguments: object) -> int:
    """What the call counted; 0 where the hop or the derivation is busy: it is left for the next run, and nothing depends on it."""
    with session.cursor() as cursor:
        try:
            cursor.execute(call, arguments)
        except psycopg2.errors.LockNotAvailable:
            return 0
        ((count,),) = cursor.fetchall()
    return int(count)
