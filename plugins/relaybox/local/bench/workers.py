"""`relaybox bench workers`: a hop on two workers of Spark with one core each, against one of them.

The stores of a benchmark are on the machine of the workers, and take its cores. So what the stores send is simulated: each session of a
worker gets it at a bounded rate, as from a store that is far away. All else is real: a standalone master, two workers, their executors.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.contestants import timed_with_cpu
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.report import show_seconds, spread, write_json
from relaybox.local.bench.rounds import WARM_UP, shown_turns, take_turns
from relaybox.local.bench.slow_link import SlowLink
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.local.clusters import find_free_port, write_service_file
from relaybox.local.processes import send_signal, spawn, wait_until_gone

if TYPE_CHECKING:
    from pyspark import SparkContext

    from relaybox.hops.runners import SliceRunner

WORKERS = (1, 2)
SLICES = 16
"""So many that the last ones of two workers end at about the same time."""

START_SECONDS = 120.0


@dataclass(frozen=True)
class WorkersMeasurement:
    """All messages, moved once by this many workers."""

    workers: int
    round: int
    seconds: float
    copy_seconds: float
    cpu: Mapping[str, float]


@dataclass(frozen=True)
class WorkersReport:
    """All measurements of one run."""

    messages: int
    megabytes_per_second: float
    environment: Mapping[str, Any]
    measurements: tuple[WorkersMeasurement, ...]

    def seconds(self, workers: int, field: str = "seconds") -> list[float]:
        """By round: `seconds` of the whole hop, or `copy_seconds`."""
        return [getattr(m, field) for m in self.measurements if m.workers == workers]

    def speedups(self, field: str = "seconds") -> list[float]:
        """How many times as fast two workers are, by round."""
        one, two = (self.seconds(workers, field) for workers in WORKERS)
        return [alone / both for alone, both in zip(one, two, strict=True)]

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "speedup": spread(self.speedups()),
            "speedup_of_copying": spread(self.speedups("copy_seconds")),
        }


def run_bench_workers(
    *,
    messages: int,
    rounds: int,
    megabytes_per_second: float,
    json_path: Path | None = None,
    console: Console | None = None,
) -> WorkersReport:
    """Makes two clusters, a master and two workers, measures, prints, writes JSON, and removes all of it.

    Args:
        messages: rows of the hop, moved in each round by one worker and by two.
        rounds: how often.
        megabytes_per_second: what each session of a worker gets from a store.
        json_path: gets every raw value.
        console: prints progress and results there.
    """
    if messages < SLICES or rounds < 1 or megabytes_per_second <= 0:
        raise errors.ConfigurationError(
            f"bench workers: messages is {messages}, it must be {SLICES} or more; rounds is {rounds}, it must be 1 or more; "
            f"mb-per-second is {megabytes_per_second:g}, it must be above 0.",
            next_step="Run: relaybox bench workers --help",
        )
    console = console or Console()
    limits = {"batch_rows": messages, "slice_rows": messages // SLICES}
    with bench_directory(console) as directory, open_bench_stores(directory, limits) as stores:
        stores.new_route()
        stores.fill(messages, rollback_every=0, filled=lambda _: None)
        services = _services_of_workers(directory, stores, megabytes_per_second * 1e6)
        with services as path, _standalone(directory, service_file=path) as master:
            report = WorkersReport(
                messages,
                megabytes_per_second,
                describe_environment(stores),
                tuple(_take_turns(stores, master, messages, rounds, console)),
            )
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def _take_turns(stores: BenchStores, master: str, messages: int, rounds: int, console: Console) -> Iterator[WorkersMeasurement]:
    with shown_turns(take_turns(WORKERS, rounds), console, title=lambda _: "measuring") as turns:
        for round_, workers in turns:
            with _spark(master, workers) as runner:
                measurement = _measure(stores, runner, messages, workers, round_)
            console.print(f"round {round_}, {workers} of {len(WORKERS)} workers: {measurement.seconds:.2f} s")
            if round_ != WARM_UP:
                yield measurement


def _measure(stores: BenchStores, runner: SliceRunner, messages: int, workers: int, round_: int) -> WorkersMeasurement:
    planned_at = copied_at = 0.0

    def note(progress: Any) -> None:
        nonlocal planned_at, copied_at
        if not progress.copied:
            planned_at = time.monotonic()
        elif progress.copied == progress.row_count and not progress.published:
            copied_at = time.monotonic()

    with stores.empty_log() as log:
        stores.settle()
        with timed_with_cpu(stores) as timer:
            transfer_hop(log.hop, runner, recorded_by="benchmark", progress=note)
        stores.require_rows(DESTINATION, log.table, messages)
    return WorkersMeasurement(workers, round_, timer.seconds, copied_at - planned_at, timer.cpu)


@contextmanager
def _services_of_workers(directory: Path, stores: BenchStores, bytes_per_second: float) -> Iterator[Path]:
    """A service file whose stores answer over slow links."""
    path = directory / "services-of-workers.conf"
    with ExitStack() as stack:
        services = {}
        for store in (SOURCE, DESTINATION):
            cluster = stores.clusters[store]
            link = stack.enter_context(SlowLink(cluster.host, cluster.port, bytes_per_second=bytes_per_second))
            services[store] = {**cluster.parameters("postgres"), "port": str(link.port)}
        write_service_file(path, services)
        yield path


@contextmanager
def _standalone(directory: Path, *, service_file: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each, whose tasks read this service file."""
    port, log = find_free_port(), directory / "master.log"
    master = f"spark://127.0.0.1:{port}"
    address = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        stack.enter_context(_daemon("master.Master", *address, "--port", str(port), log=log, service_file=service_file))
        _wait_for(log, "I have been elected leader", 1)
        for number in WORKERS:
            work = ("--cores", "1", "--memory", "600m", "--work-dir", str(directory / f"work{number}"), master)
            stack.enter_context(
                _daemon("worker.Worker", *address, *work, log=directory / f"worker{number}.log", service_file=service_file)
            )
        _wait_for(log, "Registering worker", len(WORKERS))
        yield master


@contextmanager
def _daemon(name: str, *arguments: str, log: Path, service_file: Path) -> Iterator[None]:
    import pyspark

    from relaybox.local.java import find_spark_programs

    find_spark_programs()
    home = Path(pyspark.__file__).parent
    conf = log.with_suffix(".conf")
    conf.mkdir()
    (conf / "log4j2.properties").write_text(_LOGS)
    environment = {
        **os.environ,
        "PGSERVICEFILE": str(service_file),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    process = spawn([home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments], env=environment, log=log)
    try:
        yield
    finally:
        import signal

        send_signal(process.pid, signal.SIGTERM)
        if wait_until_gone([process.pid], deadline_seconds=10):
            send_signal(process.pid, signal.SIGKILL)
        process.wait()


_LOGS = """
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""


def _wait_for(log: Path, text: str, times: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while log.read_text(encoding="utf-8", errors="replace").count(text) < times:
        if time.monotonic() > deadline:
            raise errors.StackFailed(
                f"Spark's master did not say {text!r} {times} times within {START_SECONDS:g} s.", next_step=f"Its log: {log}"
            )
        time.sleep(0.1)


@contextmanager
def _spark(master: str, workers: int) -> Iterator[SliceRunner]:
    """A session with one executor on each of so many workers, their Python started."""
    from pyspark import SparkContext

    from relaybox.local.java import find_spark_programs
    from relaybox.spark.application import spark_conf
    from relaybox.spark.driver_options import driver_java_options
    from relaybox.spark.runner import SparkRunner
    from relaybox.spark.tasks import ContextSession

    find_spark_programs()
    conf = spark_conf("relaybox bench workers").setMaster(master).set("spark.ui.enabled", "false")
    conf.set("spark.cores.max", str(workers)).set("spark.executor.cores", "1").set("spark.executor.memory", "512m")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.extraJavaOptions", driver_java_options())
    context = SparkContext(conf=conf)
    try:
        _await_executors(context, workers)
        yield SparkRunner(ContextSession(context))
    finally:
        context.stop()


def _await_executors(context: SparkContext, workers: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while context.defaultParallelism < workers or _hosts(context) < workers:
        if time.monotonic() > deadline:
            raise errors.StackFailed(f"fewer than {workers} executors have started within {START_SECONDS:g} s.")
        time.sleep(0.1)
    context.parallelize(range(workers * 4), workers * 4).count()  # their Python workers start


def _hosts(context: SparkContext) -> int:
    """Executors that have registered; the driver is one of the entries."""
    jvm: Any = context._jsc.sc()  # noqa: SLF001  nothing else tells
    return int(jvm.getExecutorMemoryStatus().size()) - 1


def print_report(report: WorkersReport, console: Console) -> None:
    """Prints the times of one and of two workers."""
    table = Table(
        "workers with one core each",
        "seconds of the hop:\nmedian (min to max)",
        "seconds of copying",
        "times as fast",
        "times as fast at copying",
        title=f"{amount(report.messages, 'message')}; each session of a worker gets {report.megabytes_per_second:g} MB/s (simulated)",
        caption="More times as fast is better.",
    )
    for workers in WORKERS:
        speedups = ("", "")
        if workers > 1:
            speedups = (f"{median(report.speedups()):.2f}", f"{median(report.speedups('copy_seconds')):.2f}")
        table.add_row(
            str(workers), show_seconds(report.seconds(workers)), show_seconds(report.seconds(workers, "copy_seconds")), *speedups
        )
    console.print(table)
