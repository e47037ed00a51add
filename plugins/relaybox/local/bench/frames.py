"""`relaybox bench spark`: what Spark does with a stream and an outbox, against Spark's JDBC, a hop, a plain COPY and plain pyarrow.

One Spark session and as many partitions for each, with the JVM's defaults, as a user's session has them. JDBC reads the view
relaybox.inbox, as a consumer may: in parts, with 10,000 rows per fetch. The readers decode all columns and write them nowhere (format
noop), or sum the lengths of the payloads, or count; the frame is told the column by a schema, which JDBC does not need. The writers
write the same rows, in one transaction for each partition: into an outbox, and by JDBC into a plain table of the same store; COPY fills
that table in one transaction, without Spark. A derivation makes one message of each, and an export writes all into a Delta table; pyarrow
reads the same messages in one process and writes them into one Parquet file.
"""

from __future__ import annotations

import io
import itertools
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.local.bench.consume import fill_log
from relaybox.local.bench.contestants import measure_hop
from relaybox.local.bench.cpu_times import CpuTimes
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.report import show_seconds, spread, write_json
from relaybox.local.bench.rounds import WARM_UP, in_turn, shown_turns
from relaybox.local.bench.runners import bench_spark
from relaybox.local.bench.stores import DESTINATION, SOURCE, TOPIC, BenchStores, bench_directory, open_bench_stores
from relaybox.routes import load_routes
from relaybox.spark.driver_options import logging_java_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relaybox.routes import Export, Route, Routes
    from relaybox.spark.tasks import TaskSession

FRAME, JDBC, HOP, WRITE, APPEND, COPY = "frame", "jdbc", "hop", "write", "append", "copy"
FRAME_SUM, JDBC_SUM, FRAME_COUNT, JDBC_COUNT = "frame_sum", "jdbc_sum", "frame_count", "jdbc_count"
DERIVE, EXPORT, PARQUET = "derive", "export", "parquet"
TITLES = {
    FRAME: "spark.read, format relaybox",
    JDBC: "spark.read, format jdbc",
    FRAME_SUM: "relaybox, lengths of payloads",
    JDBC_SUM: "jdbc, lengths of payloads",
    FRAME_COUNT: "relaybox, count",
    JDBC_COUNT: "jdbc, count",
    HOP: "a hop that copies them",
    WRITE: "df.write, format relaybox",
    APPEND: "df.write, format jdbc",
    COPY: "COPY of the same rows, without Spark",
    DERIVE: "a derivation, one message of each",
    EXPORT: "an export into a Delta table",
    PARQUET: "pyarrow into Parquet, without Spark",
}
_PAIRS = (
    (FRAME, JDBC),
    (FRAME_SUM, JDBC_SUM),
    (FRAME_COUNT, JDBC_COUNT),
    (FRAME, HOP),
    (WRITE, APPEND),
    (WRITE, COPY),
    (DERIVE, HOP),
    (EXPORT, PARQUET),
)
"""Whose rate is compared with whose."""
_JARS = (Path("/usr/share/java/postgresql.jar"),)
_PACKAGE = "libpostgresql-jdbc-java"
_PARTITION_MESSAGES = 100_000
_PLAIN_TABLE = (
    "create table if not exists public.plain (seq bigint generated always as identity primary key, message_id uuid not null "
    "default gen_random_uuid(), sent_at timestamptz not null default clock_timestamp(), key text, payload text)"
)
"""With the columns that an outbox adds by itself, and its key, but none of its checks."""


@dataclass(frozen=True)
class Turn:
    """One contestant has read or moved all messages once.

    Attributes:
        stores_cpu_seconds, jvm_cpu_seconds, python_cpu_seconds: of the stores, of the JVM, and of this process and Spark's workers.
    """

    contestant: str
    round: int
    seconds: float
    stores_cpu_seconds: float
    jvm_cpu_seconds: float
    python_cpu_seconds: float

    @property
    def cpu_seconds(self) -> float:
        return self.stores_cpu_seconds + self.jvm_cpu_seconds + self.python_cpu_seconds


class MadeOfStream:
    """Derivations and exports of a stream, each new to the store: so each begins with the first message.

    Args:
        stream: of the destination.
        directory: for the tables of exports.
    """

    def __init__(self, stream: str, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "made.yaml"
        self._stream = stream
        self._numbers = itertools.count(1)

    def new_route(self) -> Route:
        """Its messages stay in the outbox of the destination: nothing moves them."""
        name = f"made{next(self._numbers)}"
        sql = f"select stream_position, key, payload from {self._stream}"  # noqa: S608  a name of ours
        derive = {"from": self._stream, "sql": sql, "version": 1}
        return self._load({name: {"topics": [name], "path": [DESTINATION, SOURCE], "derive": derive}}, {}).route(name)

    def new_export(self) -> Export:
        name = f"made{next(self._numbers)}"
        keys = {"stream": self._stream, "store": DESTINATION, "to": "delta", "path": str(self._directory / name)}
        return self._load({}, {name: keys | {"file_messages": _PARTITION_MESSAGES}}).export(name)

    def _load(self, routes: Mapping[str, object], exports: Mapping[str, object]) -> Routes:
        moving = {self._stream: {"topics": [TOPIC], "path": [SOURCE, DESTINATION]}}
        document = {"stores": {SOURCE: {}, DESTINATION: {}}, "routes": {**moving, **routes}, "exports": exports}
        self._file.write_text(yaml.safe_dump(document), encoding="utf-8")
        return load_routes(self._file)


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
            "turns": [{**asdict(turn), "cpu_seconds": turn.cpu_seconds} for turn in self.turns],
            "seconds": self._spreads("seconds"),
            **{f"{part}cpu_seconds": self._spreads(f"{part}cpu_seconds") for part in ("", "stores_", "jvm_", "python_")},
            "rates": {f"{one}/{other}": spread(self.rates(one, other)) for one, other in _PAIRS},
            "rates_per_core": {f"{one}/{other}": spread(self.rates(one, other, "cpu_seconds")) for one, other in _PAIRS},
        }

    def _spreads(self, name: str) -> dict[str, Any]:
        return {contestant: spread(self.values(contestant, name)) for contestant in TITLES}


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
        with bench_spark(_settings(jar)) as context:
            from pyspark.sql import SparkSession

            from relaybox.spark.frames import register
            from relaybox.spark.runner import SparkRunner
            from relaybox.spark.tasks import ContextSession

            session = SparkSession(context)
            register(session)
            stream = _stream_of(stores, log_id)
            made = MadeOfStream(stream, directory)
            runner = SparkRunner(ContextSession(context))
            contestants: dict[str, Callable[[], object]] = {
                FRAME: lambda: _drain(_frame(session, stream)),
                JDBC: lambda: _drain(_jdbc(session, stores, log_id, messages)),
                FRAME_SUM: lambda: _sum_lengths(_frame(session, stream, "payload string")),
                JDBC_SUM: lambda: _sum_lengths(_jdbc(session, stores, log_id, messages)),
                FRAME_COUNT: lambda: _frame(session, stream, "stream_position bigint").count(),
                JDBC_COUNT: lambda: _jdbc(session, stores, log_id, messages).count(),
                HOP: lambda: measure_hop(stores, runner, messages=messages, round_=0),
                WRITE: lambda: _write(_rows(session, messages)),
                APPEND: lambda: _append(_rows(session, messages), stores),
                COPY: lambda: _copy(stores, messages),
                DERIVE: lambda: _derive(made.new_route(), ContextSession(context)),
                EXPORT: lambda: _export(made.new_export(), ContextSession(context)),
                PARQUET: lambda: _write_parquet(stream, directory / f"{uuid.uuid4().hex}.parquet"),
            }
            turns = tuple(_take_turns(stores, contestants, rounds, console))
        report = FrameReport(messages, rounds, describe_environment(stores), turns)
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def _settings(jar: Path) -> dict[str, str]:
    """Of a user's session that reads DataFrames: bench_spark() has those of a session that moves no row in the JVM."""
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.driver.extraJavaOptions": logging_java_option(),
        "spark.python.daemon.module": "relaybox.spark.frames.daemon",
    }


def _take_turns(
    stores: BenchStores, contestants: Mapping[str, Callable[[], object]], rounds: int, console: Console
) -> Iterator[Turn]:
    names = list(contestants)
    order = ((number, name) for number in range(WARM_UP, rounds + 1) for name in in_turn(names, 2 * number))  # in pairs
    with shown_turns(order, console, title=TITLES.__getitem__) as turns:
        for number, name in turns:
            stores.settle()
            before, begun = CpuTimes.read(), time.monotonic()
            measured = contestants[name]()
            seconds = getattr(measured, "seconds", time.monotonic() - begun)
            looked_at = time.process_time()  # to look through /proc is no work of the contestant
            used = CpuTimes.read().since(before)
            looking = time.process_time() - looked_at
            turn = Turn(name, number, seconds, used.stores, used.jvm, max(0.0, used.python - looking))  # /proc counts in ticks
            if number != WARM_UP:
                yield turn


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _stream_of(stores: BenchStores, log_id: int) -> str:
    query = "select s.stream from relaybox_internal.stream s join relaybox_internal.stream_log l using (stream_id) where l.log_id = %s"
    ((stream,),) = stores.query(DESTINATION, query, log_id)
    return str(stream)


def _sum_lengths(frame: DataFrame) -> None:
    frame.selectExpr("sum(length(payload))").collect()


def _frame(session: SparkSession, stream: str, columns: str | None = None) -> DataFrame:
    options = {"store": DESTINATION, "stream": stream, "partition_messages": str(_PARTITION_MESSAGES)}
    reader = session.read.format("relaybox").options(**options)
    return (reader if columns is None else reader.schema(columns)).load()


def _jdbc(session: SparkSession, stores: BenchStores, log_id: int, messages: int) -> DataFrame:
    columns = (
        "log_position as stream_position, topic, sender, key, payload, payload_bytes, headers::text, sent_at, message_id::text, "
        "epoch, index, clock::text, hop, log_position"
    )
    ((hop,),) = stores.query(DESTINATION, "select hop from relaybox_internal.hop_in where log_id = %s", log_id)
    options = {
        **_jdbc_login(stores),
        "dbtable": f"(select {columns} from relaybox.inbox where hop = '{hop}') messages",  # noqa: S608  a name of ours
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
    """Into the plain table."""
    stores.query(DESTINATION, _PLAIN_TABLE)
    options = {**_jdbc_login(stores), "dbtable": "public.plain", "batchsize": "10000", "reWriteBatchedInserts": "true"}
    frame.write.format("jdbc").options(**options).mode("append").save()


def _copy(stores: BenchStores, messages: int) -> None:
    """The rows of _rows() into the plain table, by one session."""
    stores.query(DESTINATION, _PLAIN_TABLE)
    with stores.session(DESTINATION) as connection, connection.cursor() as cursor:
        cursor.copy_expert("copy public.plain (payload, key) from stdin", _CopyText(messages), size=1 << 16)
        connection.commit()


class _CopyText(io.RawIOBase):
    """The rows of _rows() as COPY reads them, made while it does."""

    def __init__(self, messages: int) -> None:
        self._lines = (f"{f'message {n} '.ljust(300, 'x')}\tkey {n % 1000}\n".encode() for n in range(messages))

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        line_count = max(1, size // 400)
        return b"".join(itertools.islice(self._lines, line_count))


def _derive(route: Route, session: TaskSession) -> None:
    from relaybox.spark.derivations.deriving import derive

    derive(route, route.require_derivation(), session, recorded_by="relaybox bench spark")


def _export(export: Export, session: TaskSession) -> None:
    from relaybox.spark.lake.exporting import export_stream

    export_stream(export, session)
    shutil.rmtree(export.path)


def _write_parquet(stream: str, path: Path) -> None:
    """By ADBC and pyarrow, with the compression of an export."""
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    from relaybox.spark.frames.batch_reader import read_partition
    from relaybox.spark.frames.columns import SCHEMA
    from relaybox.spark.frames.options import ReadOptions
    from relaybox.spark.frames.ranges import cut_range, pin_range
    from relaybox.spark.lake.columns import MESSAGE_SCHEMA

    pinned = pin_range(DESTINATION, stream, "earliest", None)
    ranges = cut_range(pinned.store_id, pinned.first_stream_position, pinned.newest_stream_position, _PARTITION_MESSAGES)
    with pq.ParquetWriter(path, MESSAGE_SCHEMA, compression="zstd") as writer:
        for part in ranges:
            for batch in read_partition(ReadOptions(DESTINATION, stream), part, columns=SCHEMA):
                writer.write_batch(batch)
    path.unlink()


def print_report(report: FrameReport, console: Console) -> None:
    """Prints times and CPU seconds, then the ratios."""
    title = f"{amount(report.messages, 'message')}, {amount(report.rounds, 'round')}"
    times = Table(
        "who reads or writes all messages once",
        "seconds: median\n(min to max)",
        "messages\nper second",
        title=title,
        caption="Fewer seconds are better.",
    )
    cpu = Table(
        "CPU seconds, medians",
        "stores",
        "JVM",
        "Python",
        "all",
        caption="Fewer are better. Python: this process and the workers of Spark.",
    )
    for name, title in TITLES.items():
        seconds = report.values(name, "seconds")
        times.add_row(title, show_seconds(seconds), f"{report.messages / median(seconds):,.0f}")
        parts = ("stores_cpu_seconds", "jvm_cpu_seconds", "python_cpu_seconds", "cpu_seconds")
        cpu.add_row(title, *(f"{median(report.values(name, part)):.1f}" for part in parts))
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
    console.print(times, cpu, ratios, sep="\n")
