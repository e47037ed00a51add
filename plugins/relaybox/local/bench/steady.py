"""`relaybox bench steady`: messages at a fixed rate for hours, with a driver, confirmations, retention and a consumer.

Everything runs as it does in production but for Airflow: the commands `transfer`, `confirm` and `retention` as processes of their own.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.report import write_json
from relaybox.local.bench.steady_report import SteadyReport, Window, print_report, print_window
from relaybox.local.bench.stores import DESTINATION, SOURCE, TOPIC, BenchStores, bench_directory, open_bench_stores
from relaybox.local.processes import descendants, process_cpu_seconds, spawn, tree_cpu_seconds

ROUTE = "steady"
PRODUCERS = 2
TRANSACTION_ROWS = 25
FETCH_ROWS = 1000
IDLE_SECONDS = 0.02
"""The consumer's pause after an empty fetch."""

CLEANING_SECONDS = 60.0
"""Between two runs of `confirm` and `retention`."""

SEGMENT_SECONDS = 60
"""So much of the messages fills a segment."""

LINGER_SECONDS = 600
DRAIN_SECONDS = 300.0
HISTOGRAM_STEP = 1.05
"""Latencies are counted in steps of 5 %."""

_SETTINGS = {"log_autovacuum_min_duration": "0", "max_wal_size": "1GB", "checkpoint_timeout": "5min"}
"""Autovacuum tells its CPU time; checkpoints as Postgres has them by default, not as the other benchmarks put them off."""

_SEND = """
insert into relaybox.outbox (topic, sender, payload)
select %(topic)s, %(sender)s, clock_timestamp()::text || ' ' || repeat('x', 200) from generate_series(1, %(rows)s)
"""
_FETCH = """
select f.stream_position, f.token, extract(epoch from clock_timestamp() - split_part(f.payload::text, ' x', 1)::timestamptz)
from relaybox.fetch(%s, %s, %s, %s, worker => 'bench') f
"""
_BYTES = "select pg_database_size(current_database()), (select sum(size)::bigint from pg_ls_waldir())"
_LEDGERS = """
select c.relname, pg_total_relation_size(c.oid) from pg_class c
where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind = 'r' and not c.relispartition
"""
_VACUUM_CPU = re.compile(r"system usage: CPU: user: ([\d.]+) s, system: ([\d.]+) s")


def run_bench_steady(
    *,
    rate: int = 5000,
    hours: float = 6.0,
    window_seconds: float = 600.0,
    json_path: Path | None = None,
    console: Console | None = None,
) -> SteadyReport:
    """Makes clusters, sends at a rate for hours, prints a line for each window and what grew, and removes the clusters.

    The JSON file is written anew after each window: an interrupted run keeps what it measured.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: the consumer did not read each message once, in the order of stream positions.
        StackFailed: the driver, `confirm` or `retention` ended with an error, or not all messages were read in time.
        Terminal, Transient: a store failed.
    """
    if rate < TRANSACTION_ROWS or hours <= 0 or window_seconds < 1:
        raise errors.ConfigurationError(
            f"bench steady: rate must be {TRANSACTION_ROWS} or more, hours above 0, window-seconds 1 or more.",
            next_step="Run: relaybox bench steady --help",
        )
    console = console or Console()
    with bench_directory(console) as directory, open_bench_stores(directory, {}) as stores:
        stores.write_routes(
            {ROUTE: {"topics": [TOPIC], "retention": {"replay_window_seconds": SEGMENT_SECONDS}}},
            segment_rows=rate * SEGMENT_SECONDS,
        )
        stores.query(DESTINATION, "select relaybox.subscribe(%s, %s)", ROUTE, ROUTE)
        environment = describe_environment(stores)
        windows: list[Window] = []

        def report() -> SteadyReport:
            return SteadyReport(rate, hours, window_seconds, environment, tuple(windows))

        for window in _Run(stores, directory, rate).windows(hours * 3600, window_seconds):
            windows.append(window)
            print_window(window, console)
            write_json(report().as_json(), json_path)
    print_report(report(), console)
    return report()


@dataclass
class _Counts:
    """Messages that were sent and read since the start; latencies of those read in this window, by step."""

    sent: int = 0
    read: int = 0
    latencies: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add_latencies(self, seconds: Sequence[float]) -> None:
        with self.lock:
            for each in seconds:
                step = math.ceil(math.log(max(each, 0.001) / 0.001, HISTOGRAM_STEP))
                self.latencies[step] = self.latencies.get(step, 0) + 1
            self.read += len(seconds)

    def take_percentiles(self, *shares: float) -> list[float]:
        """Of the latencies since the last call, in seconds."""
        with self.lock:
            latencies, self.latencies = sorted(self.latencies.items()), {}
        total, found = sum(count for _, count in latencies), []
        for share in shares:
            passed = 0
            for step, count in latencies:
                passed += count
                if passed >= share * total:
                    found.append(0.001 * HISTOGRAM_STEP**step)
                    break
            else:
                found.append(0.0)
        return found


class _Run:
    """Producers, a driver, a cleaner and a consumer, each in a thread of this process; the driver and the cleaner start commands."""

    def __init__(self, stores: BenchStores, directory: Path, rate: int) -> None:
        self._stores, self._directory, self._rate = stores, directory, rate
        self._counts = _Counts()
        self._stop_sending, self._stop = threading.Event(), threading.Event()
        self._jobs: list[Future[None]] = []
        self._driver: subprocess.Popen[bytes] | None = None
        self._driver_seconds, self._ended_drivers_seconds = 0.0, 0.0
        self._read_logs = dict.fromkeys((SOURCE, DESTINATION), 0)

    def windows(self, seconds: float, window_seconds: float) -> Iterator[Window]:
        """Measures until the time is over, then waits until all messages are read."""
        for store in (SOURCE, DESTINATION):
            for name, value in _SETTINGS.items():
                self._stores.query(store, f"alter system set {name} = '{value}'")
            self._stores.query(store, "select pg_reload_conf()")
        with self._actors():
            end = time.monotonic() + seconds
            number, before = 0, self._reading()
            while time.monotonic() < end:
                begun = time.monotonic()
                self._wait(min(begun + window_seconds, end))
                number += 1
                now = self._reading()
                yield self._window(number, time.monotonic() - begun, before, now)
                before = now
            self._stop_sending.set()
            self._drain()

    @contextmanager
    def _actors(self) -> Iterator[None]:
        with ThreadPoolExecutor(PRODUCERS + 3, thread_name_prefix="relaybox-bench-steady") as pool:
            self._jobs = [
                *(pool.submit(self._produce, number) for number in range(PRODUCERS)),
                *(pool.submit(job) for job in (self._drive, self._clean, self._consume)),
            ]
            try:
                yield
            finally:
                self._stop_sending.set()
                self._stop.set()
        self._raise_failure()

    def _raise_failure(self) -> None:
        for job in self._jobs:
            if job.done():
                job.result()

    def _wait(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            self._raise_failure()
            self._stop.wait(min(left, 1.0))

    def _produce(self, number: int) -> None:
        """Transactions at even distances; one that comes late is followed by the next at once, until the rate is reached again."""
        with closing(psycopg2.connect(service=SOURCE)) as session, session.cursor() as cursor:
            pause = TRANSACTION_ROWS * PRODUCERS / self._rate
            next_at = time.monotonic() + pause * number / PRODUCERS
            while not self._stop_sending.wait(max(0.0, next_at - time.monotonic())):
                cursor.execute(_SEND, {"topic": TOPIC, "sender": f"shop-{number}", "rows": TRANSACTION_ROWS})
                session.commit()
                with self._counts.lock:
                    self._counts.sent += TRANSACTION_ROWS
                next_at += pause

    def _drive(self) -> None:
        """Like Airflow: a driver that ends is followed by the next one."""
        while not self._stop.is_set():
            self._driver = self._start("transfer", f"{ROUTE}/1", "--linger-seconds", str(LINGER_SECONDS))
            while self._driver.poll() is None:
                self._driver_seconds = process_cpu_seconds(self._driver.pid)
                if self._stop.wait(0.2):
                    self._driver.terminate()
                    self._driver.wait()
                    return
            self._require_success(self._driver)
            self._ended_drivers_seconds, self._driver_seconds = self._ended_drivers_seconds + self._driver_seconds, 0.0

    def _clean(self) -> None:
        while not self._stop.wait(CLEANING_SECONDS):
            for command in (("confirm", ROUTE), ("retention",)):
                process = self._start(*command)
                process.wait()
                self._require_success(process)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        return spawn(
            [Path(sys.executable).parent / "relaybox", "--config", str(self._directory / "relaybox.yaml"), *command],
            env=os.environ,
            log=self._directory / f"{command[0]}.log",
        )

    def _require_success(self, process: subprocess.Popen[bytes]) -> None:
        if process.returncode:
            name = str(process.args[3])  # type: ignore[index]
            said = (self._directory / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
            raise errors.StackFailed(f"bench steady: relaybox {name} ended with {process.returncode}:\n" + "\n".join(said))

    def _consume(self) -> None:
        """Each fetch acknowledges the one before. Stream positions must follow each other: none is missing, none comes twice."""
        with closing(psycopg2.connect(service=DESTINATION)) as session, session.cursor() as cursor:
            session.autocommit = True
            last, verification = 0, (None, None)
            while not self._stop.is_set():
                cursor.execute(_FETCH, (ROUTE, FETCH_ROWS, *verification))
                rows = cursor.fetchall()
                if not rows:
                    verification = (None, None)  # acknowledged by this fetch
                    self._stop.wait(IDLE_SECONDS)
                    continue
                positions = [position for position, _, _ in rows]
                if positions != list(range(last + 1, last + len(rows) + 1)):
                    raise errors.ContentDiffers(f"stream positions {positions[0]} to {positions[-1]} came after {last}.")
                last, verification = positions[-1], rows[-1][:2]
                self._counts.add_latencies([float(seconds) for _, _, seconds in rows])

    def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._counts.read < self._counts.sent:
            if time.monotonic() > deadline:
                raise errors.StackFailed(
                    f"bench steady: {self._counts.read:,} of {self._counts.sent:,} messages were read in time."
                )
            self._wait(time.monotonic() + 0.2)
        if self._counts.read != self._counts.sent:
            raise errors.ContentDiffers(f"{self._counts.sent:,} messages were sent, {self._counts.read:,} were read.")

    def _reading(self) -> dict[str, Any]:
        servers = [self._stores.clusters[store].pid or 0 for store in (SOURCE, DESTINATION)]
        driver = self._driver.pid if self._driver else 0
        return {
            "sent": self._counts.sent,
            "read": self._counts.read,
            "cpu": {
                "stores": sum(map(tree_cpu_seconds, servers)),
                "driver": self._ended_drivers_seconds + self._driver_seconds,
                "clients": process_cpu_seconds(os.getpid()),
            },
            "autovacuum": sum(self._vacuum_seconds(store) for store in (SOURCE, DESTINATION)),
            "driver": _private_bytes(driver),
            "consumer": _private_bytes(os.getpid()),
            "sessions": sum(_private_bytes(pid) for server in servers for pid in descendants(server)),
        }

    def _vacuum_seconds(self, store: str) -> float:
        """CPU seconds of autovacuum since the last call, as the store logs them."""
        with self._stores.clusters[store].log_file.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._read_logs[store])
            said = log.read()
            self._read_logs[store] = log.tell()
        return sum(float(user) + float(system) for user, system in _VACUUM_CPU.findall(said))

    def _window(self, number: int, seconds: float, before: Mapping[str, Any], now: Mapping[str, Any]) -> Window:
        p50, p99 = self._counts.take_percentiles(0.5, 0.99)
        ((source_bytes, source_wal),) = self._stores.query(SOURCE, _BYTES)
        ((destination_bytes, destination_wal),) = self._stores.query(DESTINATION, _BYTES)
        return Window(
            number=number,
            seconds=seconds,
            sent=now["sent"] - before["sent"],
            read=now["read"] - before["read"],
            p50_seconds=p50,
            p99_seconds=p99,
            source_bytes=source_bytes,
            destination_bytes=destination_bytes,
            wal_bytes=source_wal + destination_wal,
            ledger_bytes={
                f"{store}.{name}": size for store in (SOURCE, DESTINATION) for name, size in self._stores.query(store, _LEDGERS)
            },
            driver_bytes=now["driver"],
            consumer_bytes=now["consumer"],
            session_bytes=now["sessions"],
            cpu_seconds={part: now["cpu"][part] - before["cpu"][part] for part in now["cpu"]},
            autovacuum_seconds=now["autovacuum"],
            load_average=os.getloadavg()[0],
        )


def _private_bytes(pid: int) -> int:
    """Memory of a process that is shared with no file and no other process; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
