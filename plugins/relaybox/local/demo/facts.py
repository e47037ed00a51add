"""What the demo measured, read from the stores: batches, times, order. The outcome is `relaybox.verification.route_verification`'s."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from psycopg2 import sql

from relaybox.stores.binary_copy.pipe import pipe_sessions
from relaybox.stores.opening import connect_store
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Hop, Route, Store

PIPE_SECONDS = 60.0


@dataclass(frozen=True)
class BatchTimes:
    """One batch of a hop: planned at its source, published at its destination, by the clock of each."""

    batch: int
    row_count: int
    last_position: int
    planned_at: datetime
    published_at: datetime


@dataclass(frozen=True)
class HopTimes:
    """The published batches of a hop, in order."""

    hop: str
    batches: Sequence[BatchTimes]

    @property
    def row_count(self) -> int:
        return sum(batch.row_count for batch in self.batches)

    @property
    def rows_per_second(self) -> float:
        """While a batch was on its way; waiting for messages does not count."""
        seconds = sum((batch.published_at - batch.planned_at).total_seconds() for batch in self.batches)
        return self.row_count / seconds if seconds else 0.0

    @property
    def largest(self) -> BatchTimes:
        return max(self.batches, key=lambda batch: batch.row_count)

    def within(self, begin: datetime, end: datetime) -> list[BatchTimes]:
        """Batches that were planned and published between two moments."""
        return [batch for batch in self.batches if begin < batch.planned_at and batch.published_at < end]


@dataclass(frozen=True)
class LogFacts:
    """What a consumer of a hop's log reads, by sender; `disordered` are those with a flight before an earlier one."""

    hop: str
    store: str
    received: Counter[str]
    unique: Counter[str]
    disordered: tuple[str, ...]


@dataclass(frozen=True)
class Latency:
    """From a message's commit to its arrival at the last store."""

    message_count: int
    p50_seconds: float
    p99_seconds: float


@dataclass(frozen=True)
class CascadeStep:
    """One thing that happened to a batch, where, when, and who recorded it."""

    happened_at: datetime
    store: str
    what: str
    recorded_by: str


@dataclass(frozen=True)
class DemoFacts:
    """All of it. `steady` is over the messages that were committed once the last hop had begun to deliver, None without any."""

    hops: tuple[HopTimes, ...]
    logs: tuple[LogFacts, ...]
    first_committed_at: datetime
    last_arrived_at: datetime
    latency: Latency
    steady: Latency | None
    cascade_of: BatchTimes
    cascade: tuple[CascadeStep, ...]


def read_facts(route: Route) -> DemoFacts:
    """Reads everything from a route whose messages have all arrived. Servers must track commit timestamps."""
    sessions = {store.name: connect_store(store, application_name="relaybox demo") for store in route.path}
    try:
        return _Reader(route, sessions).read()
    finally:
        for session in sessions.values():
            session.close()


class _Arrival(NamedTuple):
    batch: int
    published_at: datetime


class _Planned(NamedTuple):
    batch: int
    row_count: int
    last_position: int
    planned_at: datetime


class _SenderFacts(NamedTuple):
    sender: str
    received: int
    unique: int
    disordered: bool


class _Latencies(NamedTuple):
    """Percentiles are the 50th and the 99th, in seconds."""

    message_count: int
    percentiles: tuple[float, float]
    steady_count: int
    steady_percentiles: tuple[float, float] | None


class _Plan(NamedTuple):
    batch: int
    planned_at: datetime


class _Confirmation(NamedTuple):
    state: str
    happened_at: datetime
    recorded_at: datetime
    recorded_by: str


class _Reader:
    """A session to each store, in autocommit."""

    def __init__(self, route: Route, sessions: dict[str, StoreSession]) -> None:
        self._route, self._sessions = route, sessions
        for session in sessions.values():
            session.connection.autocommit = True
            session.execute("set enable_seqscan = on; set work_mem = '64MB'")  # whole logs are read

    def read(self) -> DemoFacts:
        hops = tuple(self._hop_times(hop) for hop in self._route.hops)
        with ThreadPoolExecutor() as pool:  # each log is in another store
            logs = pool.map(self._log_facts, self._route.hops)
        first_committed_at = self._copy_commit_times()
        latency, steady = self._latencies(steady_since=hops[-1].batches[0].published_at)
        largest = hops[0].largest
        return DemoFacts(
            hops=hops,
            logs=tuple(logs),
            first_committed_at=first_committed_at,
            last_arrived_at=hops[-1].batches[-1].published_at,
            latency=latency,
            steady=steady,
            cascade_of=largest,
            cascade=tuple(sorted(self._cascade(largest.last_position), key=lambda step: step.happened_at)),
        )

    def _at(self, store: Store, activity: str) -> StoreSession:
        return self._sessions[store.name].doing(activity)

    def _hop_times(self, hop: Hop) -> HopTimes:
        activity = f"reading the ledger of hop {hop.name}"
        arrivals = self._at(hop.destination, activity).rows(
            _Arrival,
            """
            select a.batch, a.published_at
            from relaybox_internal.hop_in i join relaybox_internal.arrival a on a.log_id = i.log_id where i.hop = %s
            """,
            hop.name,
        )
        published = dict(arrivals)
        planned = self._at(hop.source, activity).rows(
            _Planned,
            "select batch, row_count, last_position, planned_at from relaybox_internal.batch where hop = %s order by batch",
            hop.name,
        )
        times = (BatchTimes(*one, published[one.batch]) for one in planned if one.batch in published)
        return HopTimes(hop.name, tuple(times))

    def _log_facts(self, hop: Hop) -> LogFacts:
        rows = self._at(hop.destination, f"reading the log of hop {hop.name}").rows(
            _SenderFacts,
            """
            select
                sender, count(*) received, count(distinct message_id) as unique,
                coalesce(bool_or((scheduled_at, flight_id) < (scheduled_before, flight_before)), false) disordered
            from (
                select
                    i.sender, i.message_id, f.scheduled_at, f.flight_id,
                    lag(f.scheduled_at) over way scheduled_before, lag(f.flight_id) over way flight_before
                from relaybox.inbox i
                cross join lateral jsonb_to_record(i.payload::jsonb) f (scheduled_at timestamptz, flight_id integer)
                where i.hop = %s
                window way as (partition by i.sender order by i.log_position)
            ) flights
            group by sender
            """,
            hop.name,
        )
        return LogFacts(
            hop=hop.name,
            store=hop.destination.name,
            received=Counter({row.sender: row.received for row in rows}),
            unique=Counter({row.sender: row.unique for row in rows}),
            disordered=tuple(sorted(row.sender for row in rows if row.disordered)),
        )

    def _copy_commit_times(self) -> datetime:
        """Brings the commit time of every message to the last store; returns the first one."""
        first, last = self._route.path[0], self._route.path[-1]
        destination = self._at(last, "copying commit times")
        destination.execute("create temporary table committed (message_id uuid, committed_at timestamptz)")
        pipe_sessions(
            self._at(first, "reading commit times"),
            sql.SQL(
                "copy (select message_id, pg_xact_commit_timestamp(xid::xid) from relaybox.outbox) to stdout (format binary)"
            ),
            destination,
            sql.SQL("copy pg_temp.committed from stdin (format binary)"),
            timeout_seconds=PIPE_SECONDS,
        )
        destination.execute("analyze pg_temp.committed")
        first_committed_at: datetime = destination.value("select min(committed_at) from pg_temp.committed")
        return first_committed_at

    def _latencies(self, *, steady_since: datetime) -> tuple[Latency, Latency | None]:
        """Over all messages, and over those that were committed after `steady_since`."""
        row = self._at(self._route.path[-1], "measuring the time from commit to arrival").row(
            _Latencies,
            """
            select
                count(*) message_count, percentile_cont(array[0.5, 0.99]) within group (order by seconds) percentiles,
                count(*) filter (where steady) steady_count,
                percentile_cont(array[0.5, 0.99]) within group (order by seconds) filter (where steady) steady_percentiles
            from (
                select extract(epoch from a.published_at - c.committed_at)::float8 seconds, c.committed_at > %s steady
                from relaybox.inbox l
                join pg_temp.committed c using (message_id)
                cross join lateral (
                    select a.published_at from relaybox_internal.arrival a join relaybox_internal.hop_in i using (log_id)
                    where i.hop = l.hop and a.last_position >= l.log_position
                    order by a.last_position limit 1
                ) a
                where l.hop = %s
            ) latencies
            """,
            steady_since,
            self._route.hops[-1].name,
        )
        steady = Latency(row.steady_count, *row.steady_percentiles) if row.steady_percentiles else None
        return Latency(row.message_count, *row.percentiles), steady

    def _cascade(self, log_position: int) -> Iterator[CascadeStep]:
        """What happened to the batch that ends at a position: hops keep positions, so it is the same message at all of them."""
        for hop in self._route.hops:
            yield from self._planned(hop, log_position)
            yield from self._confirmed(hop, log_position)

    def _planned(self, hop: Hop, log_position: int) -> Iterator[CascadeStep]:
        rows = self._at(hop.source, "reading the plan of a batch").rows(
            _Plan,
            "select batch, planned_at from relaybox_internal.batch where hop = %s and last_position >= %s order by last_position limit 1",
            hop.name,
            log_position,
        )
        for row in rows:
            yield CascadeStep(row.planned_at, hop.source.name, f"planned as batch {row.batch} of {hop.name}", "")

    def _confirmed(self, hop: Hop, log_position: int) -> Iterator[CascadeStep]:
        rows = self._at(hop.source, "reading the confirmations of a batch").rows(
            _Confirmation,
            """
            select distinct on (state) state, happened_at, recorded_at, recorded_by
            from relaybox_internal.confirmation where hop = %s and through_position >= %s
            order by state, through_position
            """,
            hop.name,
            log_position,
        )
        for row in rows:
            if row.state == "received":
                yield CascadeStep(row.happened_at, hop.destination.name, f"arrived, {hop.name}", "")
            yield CascadeStep(row.recorded_at, hop.source.name, f"{row.state}, {hop.name}", row.recorded_by)
