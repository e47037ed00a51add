"""What `relaybox bench growth` measures at each size: operations of drivers, pollers, consumers, people and retention."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg2

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.contestants import timed
from relaybox.local.bench.cpu_times import read_parts, since
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores
from relaybox.monitoring.message_trace import trace_message
from relaybox.monitoring.metrics import read_store_metrics
from relaybox.monitoring.status import read_status
from relaybox.retention.segments import read_retention, retain_store
from relaybox.routes import load_routes
from relaybox.stores.opening import opened_store

if TYPE_CHECKING:
    from relaybox.routes import Hop, Routes

ROUTE, HOP, CONSUMER = "growth", "growth/1", "reader"
SMALL_ROWS = 100
"""Messages of a small batch."""

SEND = "insert into relaybox.outbox (topic, sender, payload) select %s, 's' || n %% 16, 'm' from generate_series(1, %s) n"
"""Messages of a topic, by 16 senders."""

_FETCH_AND_ACK = (
    "select relaybox.ack(%s, max(stream_position)), count(*) from relaybox.fetch(%s, max_count => %s, worker => 'bench growth')"
)
_ONE_HOP = f"select relaybox_internal.hop_has_work('{HOP}')"
_ALL_HOPS = "select count(*) filter (where has_work) from relaybox_internal.hops_with_work()"
_PAGES = "select blks_hit + blks_read from pg_stat_database where datname = current_database()"
_OTHERS = "select count(*) from pg_stat_activity where backend_type in ('client backend', 'parallel worker') and pid <> pg_backend_pid()"
_TOP = """
    select left(regexp_replace(query, '\\s+', ' ', 'g'), 300), calls, shared_blks_hit + shared_blks_read, total_exec_time
    from pg_stat_statements where shared_blks_hit + shared_blks_read > 100 or total_exec_time > 1
    order by shared_blks_hit + shared_blks_read desc limit 12
"""
_QUIET_SECONDS = 60.0
_POLL_SECONDS = 0.01


@dataclass(frozen=True)
class Reading:
    """An operation that was done several times: of one time the median seconds, the mean CPU seconds and the mean pages of both stores.

    Attributes:
        pages: of shared buffers, hit or read; those of the catalogs among them.
        top_statements: those of both stores that touched most pages: text, calls, pages, milliseconds; nested ones are counted again.
    """

    operation: str
    times: int
    seconds: float
    cpu_seconds: float
    pages: float
    top_statements: Mapping[str, list[tuple[Any, ...]]]


class Meter:
    """Measures operations between two stores that nobody else uses."""

    def __init__(self, stores: BenchStores, sessions: Mapping[str, Any]) -> None:
        self._stores, self._sessions = stores, sessions

    def measure(self, operation: str, do: Callable[[], object], *, times: int) -> Reading:
        """Does it once uncounted, then `times` times."""
        do()
        self._pages()  # waits until the sessions of what was done have ended
        self._each("select pg_stat_statements_reset()")
        before, seconds, cpu = self._pages(), [], read_parts(self._stores.clusters)
        for _ in range(times):
            with timed() as timer:
                do()
            seconds.append(timer.seconds)
        pages = self._pages()
        used = since(cpu, read_parts(self._stores.clusters))
        return Reading(
            operation,
            times,
            median(seconds),
            sum(used.values()) / times,
            (pages - before) / times,
            self._each(_TOP),
        )

    def _pages(self) -> int:
        """Of both stores until now, sessions included that are open and idle."""
        deadline = time.monotonic() + _QUIET_SECONDS
        for store in self._sessions:
            while self._one(store, _OTHERS):
                if time.monotonic() > deadline:
                    raise errors.StoreBusy(f"{store} still has sessions of others after {_QUIET_SECONDS:g} s.")
                time.sleep(_POLL_SECONDS)
        return sum(int(self._one(store, _PAGES)) for store in self._sessions)

    def _one(self, store: str, query: str) -> Any:
        with self._sessions[store].cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchone()[0]

    def _each(self, query: str) -> dict[str, list[tuple[Any, ...]]]:
        found = {}
        for store, session in self._sessions.items():
            with session.cursor() as cursor:
                cursor.execute(query)
                found[store] = list(cursor.fetchall())
        return found


def measure_operations(stores: BenchStores, config: Path, *, times: int) -> Iterator[Reading]:
    """Measures each operation; drops the oldest segment of the outbox and of the log."""
    routes = load_routes(config)
    hop = routes.hop(HOP)
    with ExitStack() as stack:
        sessions = {store: stack.enter_context(closing(psycopg2.connect(service=store))) for store in (SOURCE, DESTINATION)}
        for session in sessions.values():
            session.autocommit = True
        meter = Meter(stores, sessions)
        for operation, do in _operations(stores, routes, hop).items():
            yield meter.measure(operation, do, times=times)
        yield from _measure_drops(stores, meter)


def _operations(stores: BenchStores, routes: Routes, hop: Hop) -> dict[str, Callable[[], object]]:
    (oldest,), (middle,), (newest,) = (
        stores.query(
            SOURCE,
            "select message_id from relaybox.outbox where seq = (select (q.last_value * %s)::bigint from relaybox.outbox_seq q)",
            share,
        )[0]
        for share in (0.1, 0.5, 0.999)
    )

    def send() -> None:
        stores.query(SOURCE, SEND, ROUTE, SMALL_ROWS)

    def transfer() -> None:
        send()
        transfer_hop(hop, ThreadRunner(1), recorded_by="relaybox bench growth")

    return {
        "send 100 messages": send,
        "transfer of 100 messages": transfer,
        "confirm": lambda: settle_hop(routes.route(ROUTE), hop, recorded_by="relaybox bench growth"),
        "poll of one hop, first of a session": _polling(hop, _ONE_HOP, 1),
        "poll of one hop, 20 in a session": _polling(hop, _ONE_HOP, 20),
        "poll of all hops of the store": _polling(hop, _ALL_HOPS, 1),
        "fetch and ack of 100, first of a session": _fetching(100, 1),
        "fetch and ack of 100, 20 in a session": _fetching(100, 20),
        "fetch and ack of 1,000, 5 in a session": _fetching(1_000, 5),
        "status": lambda: read_status(routes),
        "where, an old message": _tracing(routes, oldest),
        "where, from the middle": _tracing(routes, middle),
        "where, a new message": _tracing(routes, newest),
        "metrics": lambda: read_store_metrics(routes),
        "retention --dry-run": lambda: [read_retention(store) for store in routes.stores.values()],
        "retention, nothing to drop": lambda: [
            retain_store(store, recorded_by="relaybox bench growth") for store in routes.stores.values()
        ],
    }


def _polling(hop: Hop, question: str, calls: int) -> Callable[[], None]:
    def poll() -> None:
        with opened_store(hop.source, application_name="relaybox bench growth") as session:
            for _ in range(calls):
                session.value(question)

    return poll


def _fetching(count: int, calls: int) -> Callable[[], None]:
    def read() -> None:
        with closing(psycopg2.connect(service=DESTINATION)) as session, session.cursor() as cursor:
            session.autocommit = True
            for _ in range(calls):
                cursor.execute(_FETCH_AND_ACK, (CONSUMER, CONSUMER, count))
                ((_, found),) = cursor.fetchall()
                if found != count:
                    raise errors.ContentDiffers(f"a fetch of {count} messages returned {found}.")

    return read


def _tracing(routes: Routes, message_id: str) -> Callable[[], None]:
    def trace() -> None:
        found = trace_message([routes.route(ROUTE)], UUID(str(message_id)))
        if not any(one.hops for one in found):
            raise errors.ContentDiffers(f"message {message_id} was sent, and where does not find it.")

    return trace


def _measure_drops(stores: BenchStores, meter: Meter) -> Iterator[Reading]:
    """Retention, one segment each, as retain_store drops them."""
    stores.query(SOURCE, "update relaybox_internal.hop_out set replay_window_seconds = 0 where hop = %s", HOP)
    stores.query(DESTINATION, "update relaybox_internal.hop_in set replay_window_seconds = 0 where hop = %s", HOP)
    ((log_id,),) = stores.query(DESTINATION, "select log_id from relaybox_internal.hop_in where hop = %s", HOP)

    def drop(store: str, log: int | None) -> Callable[[], None]:
        def one() -> None:
            ((outcome, holder),) = stores.query(
                store, "select outcome, holder from relaybox_internal.drop_oldest_segment(%s, 'relaybox bench growth')", log
            )
            if outcome != "dropped":
                raise errors.ContentDiffers(f"the oldest segment was not dropped: {outcome}, {holder}.")

        return one

    yield meter.measure("drop of a segment of the outbox", drop(SOURCE, None), times=1)
    yield meter.measure("drop of a segment of the log", drop(DESTINATION, log_id), times=1)
    month = 30 * 86_400
    stores.query(SOURCE, "update relaybox_internal.hop_out set replay_window_seconds = %s where hop = %s", month, HOP)
    stores.query(DESTINATION, "update relaybox_internal.hop_in set replay_window_seconds = %s where hop = %s", month, HOP)
