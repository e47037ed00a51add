"""`relaybox bench growth`: what operations cost with few kept messages, one hop and one consumer, and with many of each.

Fills the stores by real hops; their driver is a process of its own, whose memory is measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg2
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from relaybox import errors
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.growth_driver import Driven, GrowthDriver, growth_driver
from relaybox.local.bench.growth_operations import CONSUMER, HOP, ROUTE, SEND, Reading, measure_operations
from relaybox.local.bench.report import write_json
from relaybox.local.bench.rounds import show_progress
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.routes import load_routes

AIM = 1.2
_FILL_BIG = "insert into relaybox.outbox (topic, sender, payload) values (%s, 's1', repeat('0123456789abcdef', 1048576))"
_MAKE_SEGMENTS = """
    with made as materialized (select relaybox_internal.ensure_outbox_segments(%s))
    select relaybox_internal.outbox_covered() >= q.last_value + %s from made, relaybox.outbox_seq q
"""
_SEGMENTS_SECONDS, _PAUSE_SECONDS = 60.0, 0.1
_TRANSACTION_ROWS = 10_000
_PRODUCERS = 2
_SPARK_SHARE = 0.1
_REPLAY_WINDOW_SECONDS = 30 * 86_400
_LANES_PER_SUBSCRIPTION = 64
_SUBSCRIBE_OTHERS = """
    select relaybox.subscribe('other-' || n, %s, 'latest', lanes => least(%s - (n - 1) * 64, 64)::integer)
    from generate_series(1, %s) n
"""


@dataclass(frozen=True)
class Size:
    """What the stores hold when operations are measured."""

    messages: int
    segments: int
    batches: int
    hops: int
    lanes: int


@dataclass(frozen=True)
class GrowthReport:
    """All readings of one run, and in what circumstances they were made.

    Attributes:
        sizes, readings: by the moment: `before` and `after`.
        memory: of drivers, by runner and what they moved.
    """

    asked: Size
    big_messages: int
    environment: Mapping[str, Any]
    sizes: Mapping[str, Size]
    readings: Mapping[str, tuple[Reading, ...]]
    memory: Mapping[str, Driven] = field(default_factory=dict)

    def ratios(self, operation: str) -> dict[str, float]:
        """What it costs afterwards over what it cost before."""
        before, after = ({one.operation: one for one in self.readings[when]}[operation] for when in ("before", "after"))
        return {
            "seconds": after.seconds / before.seconds,
            "cpu_seconds": after.cpu_seconds / before.cpu_seconds if before.cpu_seconds else 1.0,
            "pages": after.pages / before.pages if before.pages else 1.0,
        }

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the ratios."""
        return {**asdict(self), "ratios": {one.operation: self.ratios(one.operation) for one in self.readings["before"]}}


def run_bench_growth(
    *,
    messages: int,
    segments: int = 1_000,
    batches: int = 10_000,
    hops: int = 300,
    lanes: int = 20_000,
    big_messages: int = 24,
    times: int = 10,
    with_spark: bool = True,
    json_path: Path | None = None,
    console: Console | None = None,
) -> GrowthReport:
    """Makes clusters, measures, fills, measures again, prints, writes JSON, and removes the clusters.

    Args:
        messages: kept in the outbox and in the log when the last operations are measured; a hundredth of them before, and 50,000 at least.
        segments: of the outbox and of the log.
        batches: of the large hop.
        hops: between the two stores.
        lanes: of all subscriptions.
        big_messages: of 16 MiB each, among those of each measurement of memory.
        times: how often each operation is done.
        with_spark: whether a part is moved with Spark.
        json_path: gets every raw value.
        console: prints progress and results there.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: an operation did not find what is there.
        Terminal, Transient: a store failed.
    """
    asked = Size(messages, segments, batches, hops, lanes)
    if messages < 100 * segments or messages < batches or messages < 1_000_000 or min(segments, batches, hops, lanes, times) < 1:
        raise errors.ConfigurationError(
            "bench growth: messages must be at least 1,000,000, 100 times the segments, and as many as the batches; the others 1 or more.",
            next_step="Run: relaybox bench growth --help",
        )
    console = console or Console()
    settings = {
        "max_wal_size": "2GB",
        "wal_level": "replica",
        "max_locks_per_transaction": str(max(64, segments)),
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.track": "all",
    }
    with (
        bench_directory(console) as directory,
        open_bench_stores(directory, {}, settings=settings) as stores,
    ):
        report = _Growth(stores, directory / "relaybox.yaml", asked, big_messages=big_messages, times=times, console=console).run(
            with_spark=with_spark
        )
    _print(report, console)
    write_json(report.as_json(), json_path)
    return report


class _Growth:
    """One run."""

    def __init__(
        self, stores: BenchStores, config: Path, asked: Size, *, big_messages: int, times: int, console: Console
    ) -> None:
        self._stores, self._config, self._asked = stores, config, asked
        self._big_messages, self._times, self._console = big_messages, times, console
        self._memory: dict[str, Driven] = {}

    def run(self, *, with_spark: bool) -> GrowthReport:
        # enough for the fetches behind the segments that are dropped
        small = max(self._asked.messages // 100, self._rows_to_read() + 5 * self._segment_rows)
        self._write_routes(hops=1)
        for store in (SOURCE, DESTINATION):
            self._stores.query(store, "create extension pg_stat_statements")
        self._subscribe_reader()
        sizes, readings = {}, {}
        with show_progress(self._console) as progress:
            self._move_as_one_backlog("threads", small, progress)
            sizes["before"], readings["before"] = self._measure("before")
            self._add_hops(progress)
            if with_spark:
                self._move_as_one_backlog("spark", small, progress)
                self._move_as_one_backlog("spark", int(self._asked.messages * _SPARK_SHARE), progress)
            self._move_as_one_backlog("threads", self._asked.messages // 2, progress)
            self._move_in_batches(progress)
            self._add_lanes()
            sizes["after"], readings["after"] = self._measure("after")
        return GrowthReport(self._asked, self._big_messages, describe_environment(self._stores), sizes, readings, self._memory)

    def _write_routes(self, *, hops: int) -> None:
        window = {"retention": {"replay_window_seconds": _REPLAY_WINDOW_SECONDS}}
        routes = {name: {"topics": [name], **window} for name in self._routes(hops)}
        self._stores.write_routes(routes, segment_rows=self._segment_rows)

    @property
    def _segment_rows(self) -> int:
        return self._asked.messages // self._asked.segments

    @staticmethod
    def _routes(hops: int) -> list[str]:
        return [ROUTE, *(f"other{number}" for number in range(1, hops))]

    def _subscribe_reader(self) -> None:
        self._stores.query(DESTINATION, "select relaybox.subscribe(%s, %s)", CONSUMER, ROUTE)

    def _fill(self, rows: int, progress: Progress) -> None:
        """Real inserts by two producers, in transactions of 10,000 messages."""
        task = progress.add_task(f"inserting {rows:,}", total=rows)

        def produce(share: int) -> None:
            with closing(psycopg2.connect(service=SOURCE)) as connection, connection.cursor() as cursor:
                cursor.execute("set synchronous_commit = off")
                for first in range(0, share, _TRANSACTION_ROWS):
                    count = min(_TRANSACTION_ROWS, share - first)
                    cursor.execute(SEND, (ROUTE, count))
                    connection.commit()
                    progress.advance(task, count)

        self._make_segments_for(rows)
        shares = [rows // _PRODUCERS] * (_PRODUCERS - 1)
        with ThreadPoolExecutor(_PRODUCERS) as pool:
            list(pool.map(produce, (*shares, rows - sum(shares))))
        progress.remove_task(task)

    def _make_segments_for(self, rows: int) -> None:
        """A driver may be making some: then the call makes none, and a statement of many rows would run into a segment made meanwhile."""
        deadline = time.monotonic() + _SEGMENTS_SECONDS
        ahead = rows // self._segment_rows + 2
        while not self._stores.query(SOURCE, _MAKE_SEGMENTS, ahead, rows)[0][0]:
            if time.monotonic() > deadline:
                raise errors.StoreBusy(f"{SOURCE} made no segments for {rows:,} messages within {_SEGMENTS_SECONDS:g} s.")
            time.sleep(_PAUSE_SECONDS)

    def _move_as_one_backlog(self, runner: str, rows: int, progress: Progress) -> None:
        """Fills, then moves all of it by one driver with a route's limits; messages of 16 MiB lie between the others."""
        for _ in range(self._big_messages):
            self._fill(rows // (self._big_messages + 1), progress)
            self._stores.query(SOURCE, _FILL_BIG, ROUTE)
        self._fill(rows - rows // (self._big_messages + 1) * self._big_messages, progress)
        with self._driver(runner, 2_000_000) as driver:
            self._record(f"{runner}, {rows:,} messages in one backlog", driver.move(), rows + self._big_messages)

    def _move_in_batches(self, progress: Progress) -> None:
        """The rest, in turns: one driver for all of them makes the batches that are still to be made, while the next turn is inserted."""
        kept = self._size()  # what arrived: the sequence of the outbox has holes
        rows, wanted = max(1, self._asked.messages - kept.messages), max(1, self._asked.batches - kept.batches)
        batch_rows = max(1, -(-rows // wanted))
        turn = max(batch_rows, rows // 100 // batch_rows * batch_rows)
        task = progress.add_task("moving in batches", total=rows)
        answers: list[Driven] = []
        moved, inserted = 0, min(turn, rows)
        self._fill(inserted, progress)
        with self._driver("threads", batch_rows) as driver:
            while moved < rows:
                driver.begin()
                more = min(turn, rows - inserted)
                if more:
                    self._fill(more, progress)
                inserted += more
                answers.append(driver.finish())
                moved += answers[-1].rows
                progress.update(task, completed=moved)
        progress.remove_task(task)
        batches, seconds = sum(one.batches for one in answers), sum(one.seconds for one in answers)
        whole = replace(answers[-1], rows=moved, batches=batches, seconds=seconds)
        self._record(f"threads, {rows:,} messages in small batches", whole, rows)

    def _driver(self, runner: str, batch_rows: int) -> AbstractContextManager[GrowthDriver]:
        return growth_driver(HOP, config=self._config, runner=runner, batch_rows=batch_rows)

    def _record(self, what: str, driven: Driven, expected: int) -> None:
        if driven.rows != expected:
            raise errors.ContentDiffers(f"{what}: {driven.rows} messages were moved, {expected} were sent.")
        self._memory[what] = driven
        self._console.print(
            f"{what}: {driven.batches} batches, {driven.seconds:.1f} s; peak memory in MB: driver {driven.driver_mb:.0f}, "
            f"JVM {driven.jvm_mb:.0f}, largest worker {driven.worker_mb:.0f}"
        )

    def _add_hops(self, progress: Progress) -> None:
        """Each moves a batch."""
        self._write_routes(hops=self._asked.hops)
        routes = load_routes(self._config)
        others = [hop for hop in routes.hops if hop.name != HOP]
        task = progress.add_task("moving a batch over each other hop", total=len(others))
        for hop in others:
            self._stores.query(SOURCE, SEND, hop.route, 10)
            transfer_hop(hop, ThreadRunner(1), recorded_by="relaybox bench growth")
            progress.advance(task)
        progress.remove_task(task)

    def _add_lanes(self) -> None:
        others = -(-(self._asked.lanes - 1) // _LANES_PER_SUBSCRIPTION)
        self._stores.query(DESTINATION, _SUBSCRIBE_OTHERS, ROUTE, self._asked.lanes - 1, others)

    def _measure(self, when: str) -> tuple[Size, tuple[Reading, ...]]:
        """Statistics as autovacuum leaves them, and no autovacuum meanwhile."""
        for store in (SOURCE, DESTINATION):
            self._stores.query(store, "alter system set autovacuum = off")
            self._stores.query(store, "select pg_reload_conf()")
            self._stores.query(store, "vacuum (analyze)")
            self._stores.query(store, "checkpoint")
        size = self._size()
        self._console.print(f"{when}: {size}")
        # far from the start: the first segments go
        self._stores.query(DESTINATION, "select relaybox.unsubscribe(%s)", CONSUMER)
        self._stores.query(
            DESTINATION, "select relaybox.subscribe(%s, %s, %s)", CONSUMER, ROUTE, str(size.messages - self._rows_to_read())
        )
        readings = []
        for reading in measure_operations(self._stores, self._config, times=self._times):
            readings.append(reading)
            self._console.print(
                f"{when}: {reading.operation}: {reading.seconds * 1e3:.1f} ms, CPU {reading.cpu_seconds * 1e3:.1f} ms, "
                f"{reading.pages:,.0f} pages"
            )
        for store in (SOURCE, DESTINATION):
            self._stores.query(store, "alter system reset autovacuum")
            self._stores.query(store, "select pg_reload_conf()")
        return size, tuple(readings)

    def _rows_to_read(self) -> int:
        """What the measured fetches read, with those that are not counted."""
        return (self._times + 1) * (100 + 20 * 100 + 5 * 1_000)

    def _size(self) -> Size:
        ((log_id, messages, batches),) = self._stores.query(
            DESTINATION,
            "select log_id, published_position, published_batch from relaybox_internal.hop_in where hop = %s",
            HOP,
        )
        ((segments,),) = self._stores.query(
            DESTINATION, "select count(*) from relaybox_internal.segments() s where s.log_id = %s", log_id
        )
        ((hops,),) = self._stores.query(SOURCE, "select count(*) from relaybox_internal.hop_out")
        ((lanes,),) = self._stores.query(
            DESTINATION, "select coalesce(sum(lanes), 0) from relaybox_internal.subscription where ended_at is null"
        )
        return Size(messages, segments, batches, hops, int(lanes))


def _print(report: GrowthReport, console: Console) -> None:
    before, after = report.sizes["before"], report.sizes["after"]
    table = Table(
        "operation",
        "ms: before, after",
        "ratio",
        "CPU ms: before, after",
        "ratio",
        "pages: before, after",
        "ratio",
        title="\n".join(
            f"{when}: {size.messages:,} messages, {size.segments:,} segments, "
            f"{size.batches:,} batches, {size.hops} hops, {size.lanes:,} lanes"
            for when, size in (("before", before), ("after", after))
        ),
        caption=f"Of one time; CPU of both stores and the client, pages of both stores. Good: a ratio of at most {AIM}.",
    )
    grown = {one.operation: one for one in report.readings["after"]}
    for one in report.readings["before"]:
        other, ratios = grown[one.operation], report.ratios(one.operation)
        table.add_row(
            one.operation,
            f"{one.seconds * 1e3:.1f}, {other.seconds * 1e3:.1f}",
            f"{ratios['seconds']:.2f}",
            f"{one.cpu_seconds * 1e3:.1f}, {other.cpu_seconds * 1e3:.1f}",
            f"{ratios['cpu_seconds']:.2f}",
            f"{one.pages:,.0f}, {other.pages:,.0f}",
            f"{ratios['pages']:.2f}",
        )
    console.print(table)
    memory = Table(
        "driver", "rows", "batches", "its memory, MB", "JVM, MB", "largest worker, MB", caption="Good: it does not grow."
    )
    for what, driven in report.memory.items():
        memory.add_row(
            what,
            f"{driven.rows:,}",
            f"{driven.batches:,}",
            *(f"{mb:.0f}" for mb in (driven.driver_mb, driven.jvm_mb, driven.worker_mb)),
        )
    console.print(memory)
