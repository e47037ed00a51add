"""`relaybox bench spark`: DataFrames that read a stream and write into an outbox, against Spark's JDBC and a hop.

One Spark session and as many partitions for each. The readers decode all columns and write them nowhere (format noop). The writers
write the same rows, in one transaction for each partition: into an outbox, and by JDBC into a plain table of the same store.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.local.bench.consume import fill_log
from relaybox.local.bench.contestants import measure_hop
from relaybox.local.bench.hop import WARM_UP, bench_spark, describe_environment, show_progress
from relaybox.local.bench.report import show_seconds, spread, write_json
from relaybox.local.bench.stores import DESTINATION, BenchStores, bench_directory, open_bench_stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FRAME, JDBC, HOP, WRITE, APPEND = "frame", "jdbc", "hop", "write", "append"
TITLES = {
    FRAME: "spark.read, format relaybox",
    JDBC: "spark.read, format jdbc",
    HOP: "a hop that copies them",
    WRITE: "df.write, format relaybox",
    APPEND: "df.write, format jdbc",
}
_PAIRS = ((FRAME, JDBC), (FRAME, HOP), (WRITE, APPEND))
"""Whose rate is compared with whose."""
_JARS = (Path("/usr/share/java/postgresql.jar"),)
_PACKAGE = "libpostgresql-jdbc-java"
_PARTITION_MESSAGES = 100_000


@dataclass(frozen=True)
class Turn:
    """One contestant has read or moved all messages once. CPU seconds are those of all processes of the machine."""

    contestant: str
    round: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class FrameReport:
    """All turns of one run, and in what circumstances they were made."""

    messages: int
    rounds: int
    environment: Mapping[str, Any]
    turns: tuple[Turn, ...]

    def values(self, contestant: str, name: str) -> list[float]:
        return [getattr(turn, name) for turn in self.turns if turn.contestant == contestant]

    def rates(self, contestant: str, baseline: str, name: str = "seconds") -> list[float]:
        """By round: how many messages a contestant reads or writes in the time in which its baseline does one."""
        own, theirs = self.values(contestant, name), self.values(baseline, name)
        return [baseline_value / value for value, baseline_value in zip(own, theirs, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        return {
            **asdict(self),
            "seconds": {name: spread(self.values(name, "seconds")) for name in TITLES},
            "cpu_seconds": {name: spread(self.values(name, "cpu_seconds")) for name in TITLES},
            "rates": {f"{one}/{other}": spread(self.rates(one, other)) for one, other in _PAIRS},
            "rates_per_core": {f"{one}/{other}": spread(self.rates(one, other, "cpu_seconds")) for one, other in _PAIRS},
        }


def run_bench_spark(
    *, messages: int, rounds: int = 3, json_path: Path | None = None, console: Console | None = None
) -> FrameReport:
    """Makes clusters, moves the messages by a hop, measures, prints, writes JSON, and removes the clusters.

    Raises:
        ConfigurationError: an argument is out of range, or there is no JDBC driver.
        Terminal, Transient: a store failed.
    """
    if messages < 1 or rounds < 1:
        raise errors.ConfigurationError(
            "bench spark: messages and rounds must be 1 or more.", next_step="Run: relaybox bench spark --help"
        )
    jar = next((jar for jar in _JARS if jar.exists()), None)
    if jar is None:
        raise errors.ConfigurationError(
            f"bench spark: there is no JDBC driver of Postgres at {_JARS[0]}.", next_step=f"Run: sudo apt-get install {_PACKAGE}"
        )
    console = console or Console()
    with (
        bench_directory(console) as directory,
        open_bench_stores(directory, {"slice_rows": _PARTITION_MESSAGES}) as stores,
    ):
        log_id = fill_log(stores, messages, console)
        with bench_spark({"spark.driver.extraClassPath": str(jar)}) as context:
            from pyspark.sql import SparkSession

            from relaybox.spark.frames import register
            from relaybox.spark.runner import SparkRunner
            from relaybox.spark.tasks import ContextSession

            session = SparkSession(context)
            register(session)
            runner = SparkRunner(ContextSession(context))
            contestants: dict[str, Callable[[], object]] = {
                FRAME: lambda: _drain(_frame(session, stores, log_id)),
                JDBC: lambda: _drain(_jdbc(session, stores, log_id, messages)),
                HOP: lambda: measure_hop(stores, runner, messages=messages, round_=0),
                WRITE: lambda: _write(_rows(session, messages)),
                APPEND: lambda: _append(_rows(session, messages), stores),
            }
            turns = tuple(_take_turns(stores, contestants, rounds, console))
        report = FrameReport(messages, rounds, describe_environment(stores), turns)
    _print(report, console)
    write_json(report.as_json(), json_path)
    return report


def _take_turns(
    stores: BenchStores, contestants: Mapping[str, Callable[[], object]], rounds: int, console: Console
) -> Iterator[Turn]:
    names = list(contestants)
    turns = [(name, WARM_UP) for name in names]
    turns += [(name, number) for number in range(1, rounds + 1) for name in (*names[number % 5 :], *names[: number % 5])]
    with show_progress(console) as progress:
        task = progress.add_task("measuring", total=len(turns))
        for name, number in turns:
            progress.update(task, description=TITLES[name])
            stores.settle()
            cpu, begun = _machine_cpu_seconds(), time.monotonic()
            measured = contestants[name]()
            seconds = getattr(measured, "seconds", time.monotonic() - begun)
            turn = Turn(name, number, seconds, _machine_cpu_seconds() - cpu)
            progress.advance(task)
            if number != WARM_UP:
                yield turn


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _frame(session: SparkSession, stores: BenchStores, log_id: int) -> DataFrame:
    query = "select s.stream from relaybox_internal.stream s join relaybox_internal.stream_log l using (stream_id) where l.log_id = %s"
    ((stream,),) = stores.query(DESTINATION, query, log_id)
    options = {"store": DESTINATION, "stream": stream, "partition_messages": str(_PARTITION_MESSAGES)}
    return session.read.format("relaybox").options(**options).load()


def _jdbc(session: SparkSession, stores: BenchStores, log_id: int, messages: int) -> DataFrame:
    columns = (
        "log_position as stream_position, topic, sender, key, payload, payload_bytes, headers::text, sent_at, message_id::text, "
        "epoch, index, clock::text, log_position"
    )
    options = {
        **_jdbc_login(stores),
        "dbtable": f"(select {columns} from relaybox_internal.log where log_id = {log_id}) messages",  # noqa: S608  a number
        "fetchsize": "10000",
        "partitionColumn": "log_position",
        "lowerBound": "1",
        "upperBound": str(messages + 1),
        "numPartitions": str(-(-messages // _PARTITION_MESSAGES)),
    }
    return session.read.format("jdbc").options(**options).load()


def _jdbc_login(stores: BenchStores) -> dict[str, str]:
    parameters = stores.clusters[DESTINATION].parameters("postgres")
    return {
        "url": f"jdbc:postgresql://{parameters['host']}:{parameters['port']}/{parameters['dbname']}",
        "user": parameters["user"],
        "password": parameters.get("password", ""),
        "driver": "org.postgresql.Driver",
    }


def _rows(session: SparkSession, messages: int) -> DataFrame:
    """Payloads of 300 bytes, made where they are written."""
    numbers = session.range(0, messages, 1, -(-messages // _PARTITION_MESSAGES))
    return numbers.selectExpr("rpad(concat('message ', id, ' '), 300, 'x') as payload", "concat('key ', id % 1000) as key")


def _write(frame: DataFrame) -> None:
    """Each time another write."""
    options = {"store": DESTINATION, "sender": "bench", "topic": "written", "write_id": uuid.uuid4().hex}
    frame.write.format("relaybox").options(**options).mode("append").save()


def _append(frame: DataFrame, stores: BenchStores) -> None:
    """Into a table with the columns that an outbox adds by itself, and its key, but none of its checks."""
    stores.query(
        DESTINATION,
        "create table if not exists public.plain (seq bigint generated always as identity primary key, message_id uuid not null "
        "default gen_random_uuid(), sent_at timestamptz not null default clock_timestamp(), key text, payload text)",
    )
    options = {**_jdbc_login(stores), "dbtable": "public.plain", "batchsize": "10000", "reWriteBatchedInserts": "true"}
    frame.write.format("jdbc").options(**options).mode("append").save()


def _machine_cpu_seconds() -> float:
    """Of all processes since the machine began: those of a store and of Spark belong to no common parent."""
    fields = [int(field) for field in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _print(report: FrameReport, console: Console) -> None:
    table = Table(
        "who reads or writes all messages once",
        "seconds: median\n(min to max)",
        "messages\nper second",
        "CPU seconds",
        title=f"{report.messages:,} messages, {report.rounds} rounds",
        caption="Fewer seconds are better. CPU seconds are those of the whole machine.",
    )
    for name, title in TITLES.items():
        seconds = report.values(name, "seconds")
        cpu_seconds = f"{median(report.values(name, 'cpu_seconds')):.1f}"
        table.add_row(title, show_seconds(seconds), f"{report.messages / median(seconds):,.0f}", cpu_seconds)
    ratios = Table(
        "rate of / rate of",
        "median (min to max)",
        "per CPU second",
        caption="Good: the frame reads at twice the rate of JDBC, and per CPU second at 0.7 of that of a hop.",
    )
    for one, other in _PAIRS:
        ratios.add_row(
            f"{TITLES[one]} / {TITLES[other]}",
            show_seconds(report.rates(one, other)),
            show_seconds(report.rates(one, other, "cpu_seconds")),
        )
    console.print(table, ratios)
