"""`relaybox bench waiting`: from a batch's publication to the handler of a consumer that waits, and what it costs while nothing comes.

The same beside a consumer that polls. One hop without Airflow: each message is a batch of its own.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.consumer import Consumer
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.hop import describe_environment
from relaybox.local.bench.latency_report import percentiles
from relaybox.local.bench.report import write_json
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.local.processes import process_cpu_seconds, tree_cpu_seconds
from relaybox.routes import Hop

TARGET_P50_SECONDS = 0.020
MEAN_PAUSE_SECONDS = 0.3
DEADLINE_SECONDS = 60.0
KINDS = {"waits": True, "polls each second": False}
"""Whether the consumer of that name listens."""


@dataclass(frozen=True)
class WaitingFigures:
    """Of one kind of consumer.

    Attributes:
        seconds: from publication to handler, of each message.
        idle_cpu: CPU seconds per second of the consumer and its store together, while nothing comes.
    """

    seconds: tuple[float, ...]
    idle_cpu: float


@dataclass(frozen=True)
class WaitingReport:
    """Raw values, and in what circumstances they were measured; `load_average` is the machine's, at the start and at the end."""

    idle_seconds: float
    environment: Mapping[str, Any]
    load_average: tuple[float, float]
    kinds: Mapping[str, WaitingFigures]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        return {
            **asdict(self),
            "percentiles": {kind: percentiles(figures.seconds) for kind, figures in self.kinds.items()},
            "targets": self.targets(),
        }

    def targets(self) -> dict[str, bool]:
        """Whether each target was met."""
        waits, polls = (self.kinds[kind] for kind in KINDS)
        return {
            f"from publication to handler: p50 <= {TARGET_P50_SECONDS * 1000:g} ms": percentiles(waits.seconds)["p50"]
            <= TARGET_P50_SECONDS,
            "less CPU than polling while nothing comes": waits.idle_cpu < polls.idle_cpu,
        }


def run_bench_waiting(
    *, samples: int, idle_seconds: float, json_path: Path | None = None, console: Console | None = None
) -> WaitingReport:
    """Makes clusters, measures, prints, writes JSON, and removes everything.

    Raises:
        StackFailed: a message was not handled in time.
    """
    console = console or Console()
    load_average = os.getloadavg()[0]
    with bench_directory(console) as directory, open_bench_stores(directory, {}) as stores:
        kinds = {}
        for kind, listens in KINDS.items():
            hop = stores.new_route(topic=kind.split()[0])
            with _consumer(stores, hop, listens=listens) as handled:
                seconds = tuple(_measure(stores, hop, handled, samples))
                idle_cpu = _measure_idle(stores, idle_seconds)
            kinds[kind] = WaitingFigures(seconds, idle_cpu)
            console.print(f"a consumer that {kind}: measured")
        report = WaitingReport(
            idle_seconds=idle_seconds,
            environment=describe_environment(stores),
            load_average=(load_average, os.getloadavg()[0]),
            kinds=kinds,
        )
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


@contextmanager
def _consumer(stores: BenchStores, hop: Hop, *, listens: bool) -> Iterator[dict[int, float]]:
    """Runs a consumer; yields when each log position was handled, as seconds since 1970."""
    handled: dict[int, float] = {}
    stores.query(DESTINATION, "select relaybox.subscribe(%s, %s)", f"bench-{listens}".lower(), hop.route)
    consumer = Consumer(DESTINATION, f"bench-{listens}".lower(), listen=listens)

    def consume() -> None:
        with consumer:
            for message in consumer:
                handled[message.log_position] = time.time()

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield handled
    finally:
        consumer.stop()
        thread.join()


def _measure(stores: BenchStores, hop: Hop, handled: Mapping[int, float], samples: int) -> Iterator[float]:
    for log_position in range(1, samples + 2):
        stores.query(SOURCE, "insert into relaybox.outbox (topic, sender, payload) values (%s, 'bench', 'one')", hop.topics[0])
        transfer_hop(hop, ThreadRunner(1), recorded_by="bench waiting")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while log_position not in handled:
            if time.monotonic() > deadline:
                raise errors.StackFailed(f"message {log_position} was not handled within {DEADLINE_SECONDS:g} s.")
            time.sleep(0.001)
        [(published,)] = stores.query(
            DESTINATION,
            "select extract(epoch from max(a.published_at)) from relaybox_internal.arrival a "
            "join relaybox_internal.hop_in i on i.log_id = a.log_id where i.hop = %s",
            hop.name,
        )
        if log_position > 1:  # the first one pays for what is loaded once
            yield handled[log_position] - float(published)
        time.sleep(min(random.expovariate(1 / MEAN_PAUSE_SECONDS), 1))


def _measure_idle(stores: BenchStores, seconds: float) -> float:
    def used() -> float:
        return process_cpu_seconds(os.getpid()) + tree_cpu_seconds(stores.clusters[DESTINATION].pid or 0)

    time.sleep(1)
    before, started = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - started)


def print_report(report: WaitingReport, console: Console) -> None:
    """Latencies with idle CPU, and targets."""
    table = Table(
        "a consumer that", "messages", "p50", "p90", "p99", "max", "idle CPU",
        title="milliseconds from publication to handler",
        caption=f"Lower is better. Idle CPU: of consumer and store,\nin % of a core, measured for {report.idle_seconds:g} s.",
    )  # fmt: skip
    for kind, figures in report.kinds.items():
        values = percentiles(figures.seconds).values()
        table.add_row(kind, str(len(figures.seconds)), *(f"{1000 * value:.0f}" for value in values), f"{figures.idle_cpu:.2%}")
    console.print(table)
    for target, met in report.targets().items():
        console.print(f"{'met' if met else 'MISSED'}: {target}")
