"""`relaybox bench consume`: fetch and ack against a plain select of the same rows, and against a table queue of the usual kind.

One reader and no work of its own; once beside 20,000 lanes of other subscriptions. All of them read the same messages of one log,
into the same number of columns, in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.environment import core_count, describe_environment
from relaybox.local.bench.loops import Loop, measure_loops, print_loops, ratios_as_json
from relaybox.local.bench.report import show_seconds, spread, write_json
from relaybox.local.bench.rounds import WARM_UP, show_progress, shown_turns, take_turns
from relaybox.local.bench.singles import FETCH as FETCH_ONE
from relaybox.local.bench.singles import Single, measure_singles, print_singles
from relaybox.local.bench.singles import ratios as single_ratios
from relaybox.local.bench.stores import DESTINATION, BenchStores, bench_directory, open_bench_stores
from relaybox.local.processes import process_cpu_seconds

_COLUMNS = "message_id, topic, sender, epoch, index, key, payload, payload_bytes, headers, clock, sent_at"
_FETCHED = "1, '1-0000000000000000', false, 1, 'bench1/1'"  # lane, token, replayed, attempt, hop
_SELECT = f"select log_position, {_FETCHED}, log_position, {_COLUMNS} from relaybox_internal.log where log_id = %s order by log_position"  # noqa: S608  # the columns are above
_FETCH = "select * from relaybox.fetch('bench', %s, %s, %s, null, 'bench')"
_PREPARE = (
    "prepare fetched (integer, bigint, text) as select * from relaybox.fetch('bench', $1, $2, $3, null, 'bench')",
    "execute fetched (%s, %s, %s)",
)
_QUEUE = f"""
    delete from public.queue where id in (select id from public.queue order by id for update skip locked limit 100)
    returning id, {_FETCHED}, id, {_COLUMNS}
"""  # noqa: S608  # the columns are above
_REFILL = f"""
    create table public.queue as
    select log_position as id, {_COLUMNS} from relaybox_internal.log where log_id = %s order by log_position
"""  # noqa: S608  # the columns are above
_PIECE = 10_000
"""Rows that a plain select hands over at once, through a cursor of the server: like a fetch of 10,000, it never holds all."""

SINGLES = 3_000
"""Messages that each contestant reads one by one."""

LOOPS = 100_000
"""Messages that the consumer of each library gets."""

OTHER_SUBSCRIPTIONS = 313
OTHER_LANES = OTHER_SUBSCRIPTIONS * 64
_SUBSCRIBE_OTHERS = """
    select relaybox.subscribe('other-' || n, (select stream from relaybox_internal.stream), lanes => 64) from generate_series(1, %s) n
"""
_UNSUBSCRIBE_OTHERS = (
    "select relaybox.unsubscribe(subscription) from relaybox_internal.subscription "
    "where subscription like 'other-%' and ended_at is null"
)


@dataclass(frozen=True)
class Reading:
    """One contestant has read all messages once; cpu_seconds are those of its session's server process and of this process."""

    contestant: str
    round: int
    seconds: float
    cpu_seconds: float
    row_count: int


def _read_select(connection: Connection, log_id: int) -> Iterator[int]:
    with connection.cursor("plain") as cursor:
        cursor.itersize = _PIECE
        cursor.execute(_SELECT, (log_id,))
        while rows := cursor.fetchmany(_PIECE):
            yield len(rows)
    connection.commit()


def _read_fetches(size: int, *, prepared: bool = False) -> Callable[[Connection, int], Iterator[int]]:
    def read(connection: Connection, _log_id: int) -> Iterator[int]:
        connection.autocommit = True  # one round trip: acknowledge, fetch and commit
        acked = (None, None)
        with connection.cursor() as cursor:
            if prepared:
                cursor.execute(_PREPARE[0])
            while True:
                cursor.execute(_PREPARE[1] if prepared else _FETCH, (size, *acked))
                rows = cursor.fetchall()
                if not rows:
                    return
                acked = (rows[-1][0], rows[-1][2])
                yield len(rows)

    return read


def _read_queue(connection: Connection, _log_id: int) -> Iterator[int]:
    connection.autocommit = True
    with connection.cursor() as cursor:
        while True:
            cursor.execute(_QUEUE)
            rows = cursor.fetchall()
            if not rows:
                return
            yield len(rows)


@dataclass(frozen=True)
class _Contestant:
    title: str
    read: Callable[[Connection, int], Iterator[int]]
    synchronous: bool = False
    crowded: bool = False
    """Beside the lanes of other subscriptions."""


SELECT = "select"
CONTESTANTS: Mapping[str, _Contestant] = {
    SELECT: _Contestant("plain select", _read_select),
    "fetch-10000": _Contestant("fetch and ack, batches of 10,000", _read_fetches(10_000)),
    "fetch-100": _Contestant("fetch and ack, batches of 100", _read_fetches(100)),
    "fetch-100-prepared": _Contestant("the same, prepared once, as most libraries do", _read_fetches(100, prepared=True)),
    "fetch-100-crowded": _Contestant(
        f"fetch and ack, 100, beside {OTHER_LANES:,} lanes of others", _read_fetches(100), crowded=True
    ),
    "queue-100": _Contestant("table queue, batches of 100", _read_queue),
    "fetch-100-synchronous": _Contestant("fetch and ack, 100, each commit flushed", _read_fetches(100), synchronous=True),
    "queue-100-synchronous": _Contestant("table queue, 100, each commit flushed", _read_queue, synchronous=True),
}


@dataclass(frozen=True)
class ConsumeReport:
    """All readings of one run, and in what circumstances they were made."""

    messages: int
    rounds: int
    environment: Mapping[str, Any]
    readings: tuple[Reading, ...]
    singles: tuple[Single, ...]
    """One message at a time."""
    loops: tuple[Loop, ...]
    """The consumer of each library."""

    def seconds(self, contestant: str) -> list[float]:
        return [reading.seconds for reading in sorted(self.readings, key=lambda r: r.round) if reading.contestant == contestant]

    def ratios(self, contestant: str, baseline: str) -> list[float]:
        """Seconds over the baseline's, by round."""
        return [a / b for a, b in zip(self.seconds(contestant), self.seconds(baseline), strict=True)]

    def cpu_ratios(self, contestant: str, baseline: str) -> list[float]:
        """CPU seconds over the baseline's, by round."""
        cpu = {(one.contestant, one.round): one.cpu_seconds for one in self.readings}
        return [cpu[contestant, round_] / cpu[baseline, round_] for round_ in range(1, self.rounds + 1)]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        return {
            **asdict(self),
            "cpu_ratios": {f"{name}/{SELECT}": spread(self.cpu_ratios(name, SELECT)) for name in CONTESTANTS if name != SELECT},
            "single_ratios": {
                f"{name}/{FETCH_ONE}": spread(single_ratios(list(self.singles), name, FETCH_ONE))
                for name in sorted({one.contestant for one in self.singles} - {FETCH_ONE})
            },
            "loop_ratios": {name: spread(ratios) for name, ratios in ratios_as_json(self.loops).items()},
            "seconds": {contestant: spread(self.seconds(contestant)) for contestant in CONTESTANTS},
            "ratios": {f"{name}/{SELECT}": spread(self.ratios(name, SELECT)) for name in CONTESTANTS if name != SELECT}
            | {
                f"queue-100/fetch-100{how}": spread(self.ratios(f"queue-100{how}", f"fetch-100{how}"))
                for how in ("", "-synchronous")
            }
            | {"fetch-100-crowded/fetch-100": spread(self.ratios("fetch-100-crowded", "fetch-100"))},
        }


def run_bench_consume(
    *, messages: int, rounds: int = 3, json_path: Path | None = None, console: Console | None = None
) -> ConsumeReport:
    """Makes clusters, moves the messages by a hop, measures, prints, writes JSON, and removes the clusters.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: a contestant read another number of rows than there are.
        Terminal, Transient: a store failed.
    """
    if messages < 1 or rounds < 1:
        raise errors.ConfigurationError(
            "bench consume: messages and rounds must be 1 or more.", next_step="Run: relaybox bench consume --help"
        )
    console = console or Console()
    with (
        bench_directory(console) as directory,
        open_bench_stores(directory, {}) as stores,
    ):
        log_id = fill_log(stores, messages, console)
        report = ConsumeReport(
            messages,
            rounds,
            describe_environment(stores),
            tuple(_take_turns(stores, log_id, messages, rounds, console)),
            tuple(measure_singles(stores, log_id, min(messages, SINGLES), rounds, console)),
            tuple(measure_loops(stores, min(messages, LOOPS), rounds, console)),
        )
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def fill_log(stores: BenchStores, messages: int, console: Console) -> int:
    """Sends the messages and moves them; the destination's log, its visibility and statistics as autovacuum leaves them."""
    hop = stores.new_route()
    with show_progress(console) as progress:
        task = progress.add_task("filling the outbox", total=messages)
        stores.fill(messages, rollback_every=0, filled=lambda count: progress.advance(task, count))
    transfer_hop(hop, ThreadRunner(core_count()), recorded_by="relaybox bench consume")
    stores.query(DESTINATION, "vacuum (analyze) relaybox_internal.log")
    ((log_id,),) = stores.query(DESTINATION, "select log_id from relaybox_internal.hop_in where hop = %s", hop.name)
    stores.query(DESTINATION, "select relaybox.subscribe('bench', %s)", hop.route)
    return int(log_id)


def _take_turns(stores: BenchStores, log_id: int, messages: int, rounds: int, console: Console) -> Iterator[Reading]:
    with shown_turns(take_turns(list(CONTESTANTS), rounds), console, title=lambda name: CONTESTANTS[name].title) as turns:
        for round_, name in turns:
            _prepare(stores, name, log_id)
            reading = _measure(name, round_, log_id, messages)
            if round_ != WARM_UP:
                yield reading


def _prepare(stores: BenchStores, name: str, log_id: int) -> None:
    """A full queue, or a cursor at the start; earlier changes are flushed first."""
    if name.startswith("queue"):
        stores.query(DESTINATION, "drop table if exists public.queue")
        stores.query(DESTINATION, _REFILL, log_id)
        stores.query(DESTINATION, "alter table public.queue add primary key (id)")
        stores.query(DESTINATION, "vacuum (analyze) public.queue")
    if name.startswith("fetch"):
        stores.query(DESTINATION, "select relaybox.unsubscribe('bench')")
        stores.query(DESTINATION, "select relaybox.subscribe('bench', (select stream from relaybox_internal.stream))")
        _crowd(stores, crowded=CONTESTANTS[name].crowded)
    stores.settle()


def _crowd(stores: BenchStores, *, crowded: bool) -> None:
    """Makes the other subscriptions, or ends them; statistics as autovacuum leaves them."""
    stores.query(DESTINATION, _UNSUBSCRIBE_OTHERS)
    if crowded:
        stores.query(DESTINATION, _SUBSCRIBE_OTHERS, OTHER_SUBSCRIPTIONS)
    for table in ("subscription", "lane", "cursor"):
        stores.query(DESTINATION, f"vacuum (analyze) relaybox_internal.{table}")


def _measure(name: str, round_: int, log_id: int, messages: int) -> Reading:
    contestant = CONTESTANTS[name]
    with closing(psycopg2.connect(service=DESTINATION)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("select set_config('synchronous_commit', %s, false)", ("on" if contestant.synchronous else "off",))
        connection.commit()
        pid = connection.info.backend_pid
        begun, before = time.perf_counter(), process_cpu_seconds(pid) + time.process_time()
        row_count = sum(contestant.read(connection, log_id))
        seconds, cpu_seconds = time.perf_counter() - begun, process_cpu_seconds(pid) + time.process_time() - before
    if row_count != messages:
        raise errors.ContentDiffers(f"{contestant.title} read {row_count} rows, there are {messages}.")
    return Reading(name, round_, seconds, cpu_seconds, row_count)


def print_report(report: ConsumeReport, console: Console) -> None:
    """Prints all times and ratios, then the comparison beside the lanes of others."""
    title = f"{amount(report.messages, 'message')}, {amount(report.rounds, 'round')}"
    table = Table(
        "who reads all messages once",
        "seconds: median\n(min to max)",
        "messages\nper second",
        "seconds / those\nof plain select",
        "CPU seconds / those\nof plain select",
        "table queue's seconds\n/ those of this fetch",
        title=title,
        caption=(
            "Good: a fetch of 10,000 takes at most as long as a plain select, one of 100 at most 1.25 times, "
            "and a table queue at least 1.5 times as long as the fetch of 100."
        ),
    )
    for name, contestant in CONTESTANTS.items():
        seconds = report.seconds(name)
        queue = name.replace("fetch", "queue")
        table.add_row(
            contestant.title,
            show_seconds(seconds),
            f"{report.messages / median(seconds):,.0f}",
            f"{median(report.ratios(name, SELECT)):.2f}",
            f"{median(report.cpu_ratios(name, SELECT)):.2f}",
            f"{median(report.ratios(queue, name)):.2f}" if name.startswith("fetch") and queue in CONTESTANTS else "",
        )
    console.print(table)
    print_singles(list(report.singles), console)
    print_loops(report.loops, console)
    crowded = median(report.ratios("fetch-100-crowded", "fetch-100"))
    console.print(
        f"Batches of 100 beside {OTHER_LANES:,} lanes of others take {crowded:.2f} times as long as without them (good: at most 1.1)."
    )
