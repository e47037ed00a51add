"""`relaybox bench latency`: how long a message takes from its producer's commit to its arrival, and what idle hops cost.

A real Airflow runs the DAGs of this checkout over clusters of their own. Nothing is simulated but the producer.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
from rich.console import Console

from relaybox import errors
from relaybox.amounts import amount
from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.latency_report import HopCountFigures, LatencyReport, print_report
from relaybox.local.bench.report import write_json
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.local.checkout import find_checkout
from relaybox.local.clusters import Cluster, create_cluster
from relaybox.local.processes import tree_cpu_seconds
from relaybox.routes import Hop
from relaybox.routes.route_rules import RUNNERS

LINGER_SECONDS = 5
MEAN_PAUSE_SECONDS = 0.3
"""Between two messages of a busy hop; random, so that they keep step with nothing."""

LOOK_SECONDS = 0.005
DEADLINE_SECONDS = 300.0

_AIRFLOW_DEFAULTS = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "300",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
}
"""Here development settings would be measured instead."""


def run_bench_latency(
    *,
    hop_counts: Sequence[int],
    samples: int,
    lingering_samples: int,
    idle_seconds: float,
    runner: str = "auto",
    json_path: Path | None = None,
    console: Console | None = None,
) -> LatencyReport:
    """Makes clusters and an Airflow, measures, prints, writes JSON, and removes everything. Takes minutes.

    Args:
        hop_counts: how many hops relaybox.yaml has, one measurement after the other.
        samples: first messages of idle hops, for each count.
        lingering_samples: messages to a busy hop.
        idle_seconds: how long the CPU of idle hops is measured, for each count.
        runner: of the routes, as in relaybox.yaml.
        json_path: gets every raw value.
        console: prints progress and results there.

    Raises:
        ConfigurationError: an argument is out of range.
        StackFailed: Airflow did not start, or a message did not arrive in time.
    """
    _check(hop_counts, samples, lingering_samples, idle_seconds, runner)
    console = console or Console()
    with bench_directory(console) as directory, ExitStack() as stack:
        stores = stack.enter_context(open_bench_stores(directory, {"linger_seconds": LINGER_SECONDS}))
        bench = _Bench(stores, _start_metadata(directory, stack), directory, runner, console)
        report = bench.run(stack, hop_counts, samples, lingering_samples, idle_seconds)
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def _check(hop_counts: Sequence[int], samples: int, lingering_samples: int, idle_seconds: float, runner: str) -> None:
    problems = {
        f"hops is {list(hop_counts)}, it must be counts from 1 to 1000, each larger than the one before": not hop_counts
        or sorted(set(hop_counts)) != list(hop_counts)
        or not 1 <= hop_counts[0] <= hop_counts[-1] <= 1000,
        f"samples is {samples}, it must be 1 or more": samples < 1,
        f"lingering-samples is {lingering_samples}, it must be 1 or more": lingering_samples < 1,
        f"idle-seconds is {idle_seconds:g}, it must be 1 or more": idle_seconds < 1,
        f"runner is {runner}, it must be one of {', '.join(RUNNERS)}": runner not in RUNNERS,
    }
    found = [problem for problem, holds in problems.items() if holds]
    if found:
        raise errors.ConfigurationError(f"bench latency: {'; '.join(found)}.", next_step="Run: relaybox bench latency --help")


def _start_metadata(directory: Path, stack: ExitStack) -> Cluster:
    cluster = create_cluster("airflow", directory / "metadata", settings={"fsync": "off", "shared_buffers": "64MB"})
    stack.callback(cluster.remove)
    cluster.start()
    return cluster


@dataclass
class _Bench:
    """One run."""

    stores: BenchStores
    metadata: Cluster
    directory: Path
    runner: str
    console: Console

    def run(
        self, stack: ExitStack, hop_counts: Sequence[int], samples: int, lingering_samples: int, idle_seconds: float
    ) -> LatencyReport:
        load_average = os.getloadavg()[0]
        hops = self._make_hops(hop_counts[0])
        airflow = stack.enter_context(self._airflow())
        airflow.wait_until_healthy(deadline_seconds=DEADLINE_SECONDS)
        self.console.print("Airflow is healthy")
        counts = []
        for count in hop_counts:
            hops = self._make_hops(count)
            self._wait_until_watched(airflow, hops)
            counts.append(self._measure_count(airflow, hops, samples, idle_seconds))
        lingering = tuple(measure_lingering(self.stores, hops[0], lingering_samples))
        return LatencyReport(
            runner=self.runner,
            idle_seconds=idle_seconds,
            linger_seconds=LINGER_SECONDS,
            environment=describe_environment(self.stores),
            load_average=(load_average, os.getloadavg()[0]),
            counts=tuple(counts),
            lingering_seconds=lingering,
        )

    def _measure_count(
        self, airflow: AirflowStandalone, hops: Sequence[Hop], samples: int, idle_seconds: float
    ) -> HopCountFigures:
        idle_cores = self._measure_idle(airflow, idle_seconds)
        self.console.print(f"{amount(len(hops), 'hop')}, idle: {sum(idle_cores.values()):.2f} cores")
        first = []
        for number in range(samples):
            first.append(measure_first(self.stores, hops[number % len(hops)]))
            self.console.print(f"{amount(len(hops), 'hop')}, first message of an idle hop: {first[-1]:.2f} s")
        return HopCountFigures(len(hops), tuple(first), idle_cores)

    def _make_hops(self, count: int) -> tuple[Hop, ...]:
        names = [f"r{number}" for number in range(1, count + 1)]
        return self.stores.write_routes({name: {"topics": [name], "runner": self.runner} for name in names}).hops

    def _airflow(self) -> AirflowStandalone:
        home, metadata = find_checkout(), self.metadata.parameters()
        connections = {
            f"relaybox_{store}": {
                "conn_type": "postgres",
                "host": parameters["host"],
                "port": int(parameters["port"]),
                "schema": parameters["dbname"],
                "login": parameters["user"],
                "password": parameters["password"],
            }
            for store in (SOURCE, DESTINATION)
            for parameters in (self.stores.clusters[store].parameters(),)
        }
        return AirflowStandalone(
            home=self.directory / "airflow",
            metadata_url="postgresql+psycopg2://{user}:{password}@{host}:{port}/{dbname}".format(**metadata),
            dags=home / "dags",
            plugins=home / "plugins",
            connections={
                "spark_default": json.dumps({"conn_type": "spark", "host": "local[2]"}),
                **{connection: json.dumps(fields) for connection, fields in connections.items()},
            },
            environment={**_AIRFLOW_DEFAULTS, "RELAYBOX_CONFIG": str(self.directory / "relaybox.yaml")},
        )

    def _wait_until_watched(self, airflow: AirflowStandalone, hops: Sequence[Hop]) -> None:
        """A new hop is watched once the DAG files were read again; its first message also pays what every first run pays."""
        expected = 2 * len(hops) + 1
        _wait(
            lambda: airflow.client.get("dags", limit=1, tags="relaybox")["total_entries"] >= expected,
            f"Airflow has {expected} DAGs",
        )
        measure_first(self.stores, hops[-1])
        for hop in hops:
            _wait_until_idle(self.stores, hop)
        _wait(
            lambda: (
                not any(
                    airflow.client.get("dags/~/dagRuns", limit=1, state=state)["total_entries"] for state in ("running", "queued")
                )
            ),
            "no run is left",
        )

    def _measure_idle(self, airflow: AirflowStandalone, seconds: float) -> dict[str, float]:
        roots = {
            "Airflow": [airflow.pid],
            "its database": [self.metadata.pid],
            "the stores": [self.stores.clusters[store].pid for store in (SOURCE, DESTINATION)],
        }
        before = {part: _cpu(pids) for part, pids in roots.items()}
        started = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - started
        return {part: (_cpu(pids) - before[part]) / passed for part, pids in roots.items()}


def _cpu(pids: Sequence[int | None]) -> float:
    return sum(tree_cpu_seconds(pid) for pid in pids if pid is not None)


def measure_first(stores: BenchStores, hop: Hop) -> float:
    """Seconds from a commit to the arrival, of a message to a hop without a driver."""
    _wait_until_idle(stores, hop)
    time.sleep(random.uniform(0, 1))  # noqa: S311  out of step with polls of every second
    with closing(_session(SOURCE)) as source, closing(_session(DESTINATION)) as destination:
        before = _arrived(destination, hop)
        committed = _send(source, hop)
        _wait(lambda: _arrived(destination, hop) > before, f"a message of hop {hop.name} arrives")
        return time.monotonic() - committed


def measure_lingering(stores: BenchStores, hop: Hop, count: int) -> Iterator[float]:
    """Seconds from commit to arrival of `count` messages to a hop that is driven and waits for them.

    One sender in one session: the positions of its messages are in the order of their commits.
    """
    measure_first(stores, hop)
    with closing(_session(SOURCE)) as source, closing(_session(DESTINATION)) as destination:
        arrived = first = _arrived(destination, hop)
        committed: list[float] = []
        next_at, deadline = time.monotonic(), time.monotonic() + DEADLINE_SECONDS + count * MEAN_PAUSE_SECONDS
        while arrived < first + count:
            now = time.monotonic()
            if now >= next_at and len(committed) < count:
                committed.append(_send(source, hop))
                next_at = now + min(random.expovariate(1 / MEAN_PAUSE_SECONDS), LINGER_SECONDS / 2)
            log_position, seen = _arrived(destination, hop), time.monotonic()
            yield from (seen - committed[each - first] for each in range(arrived, log_position))
            arrived = log_position
            if now > deadline:
                raise errors.StackFailed(f"{arrived - first} of {count} messages of hop {hop.name} arrived in time.")
            time.sleep(LOOK_SECONDS)


def _session(store: str) -> Any:
    session = psycopg2.connect(service=store)
    session.autocommit = True
    return session


def _send(source: Any, hop: Hop) -> float:
    """Commits one message; returns when that was, by the monotonic clock."""
    with source.cursor() as cursor:
        cursor.execute("insert into relaybox.outbox (topic, sender, payload) values (%s, 'bench', 'one')", (hop.topics[0],))
    return time.monotonic()


def _arrived(destination: Any, hop: Hop) -> int:
    """The last position that consumers may read."""
    with destination.cursor() as cursor:
        cursor.execute("select published_position from relaybox_internal.hop_in where hop = %s", (hop.name,))
        return int(cursor.fetchone()[0])


def _wait_until_idle(stores: BenchStores, hop: Hop) -> None:
    question = "select relaybox_internal.hop_is_driven(%s) or relaybox_internal.hop_has_work(%s)"
    _wait(lambda: not stores.query(SOURCE, question, hop.name, hop.name)[0][0], f"hop {hop.name} is idle")


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise errors.StackFailed(f"not within {DEADLINE_SECONDS:g} s: {what}.")
        time.sleep(LOOK_SECONDS)
