"""`relaybox bench waiting`: from a batch's publication to the handler of a consumer that waits, and what it costs while nothing comes.

Once with each library of Postgres that is installed, and beside a consumer that polls. One hop without Airflow: each message is a batch of
its own. With a delay the time is that from when a message is due, to the handler.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.consumer import Message
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.latency_report import percentiles
from relaybox.local.bench.libraries import LIBRARIES, consuming, installed_libraries, lacking_libraries
from relaybox.local.bench.report import write_json
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.local.processes import process_cpu_seconds, tree_cpu_seconds
from relaybox.routes import Hop

TARGET_P50_SECONDS = 0.020
MEAN_PAUSE_SECONDS = 0.3
DEADLINE_SECONDS = 60.0
POLLS, POLLING_LIBRARY = "polls each second", "psycopg2"
"""The consumer that does not listen, and its library."""


@dataclass(frozen=True)
class WaitingFigures:
    """Of one kind of consumer.

    Attributes:
        seconds: from publication, or from when it was due, to handler, of each message.
        idle_cpu: CPU seconds per second of the consumer and its store together, while nothing comes.
    """

    seconds: tuple[float, ...]
    idle_cpu: float


@dataclass(frozen=True)
class WaitingReport:
    """Raw values, and in what circumstances they were measured; `load_average` is the machine's, at the start and at the end.

    `delay_seconds`: how long each message was delayed; None: not at all.
    """

    idle_seconds: float
    delay_seconds: float | None
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

    @property
    def begin(self) -> str:
        """What the time is measured from."""
        return "publication" if self.delay_seconds is None else "due"

    def targets(self) -> dict[str, bool]:
        """Whether each target was met."""
        waiting = [figures for kind, figures in self.kinds.items() if kind != POLLS]
        return {
            f"from {self.begin} to handler, each library: p50 <= {TARGET_P50_SECONDS * 1000:g} ms": all(
                percentiles(figures.seconds)["p50"] <= TARGET_P50_SECONDS for figures in waiting
            ),
            "less CPU than polling while nothing comes": all(
                figures.idle_cpu < self.kinds[POLLS].idle_cpu for figures in waiting
            ),
        }


def run_bench_waiting(
    *,
    samples: int,
    idle_seconds: float,
    delay_seconds: float | None = None,
    libraries: Sequence[str] | None = None,
    json_path: Path | None = None,
    console: Console | None = None,
) -> WaitingReport:
    """Makes clusters, measures, prints, writes JSON, and removes everything.

    Args:
        samples: messages to each consumer.
        idle_seconds: how long the CPU is measured while nothing comes.
        delay_seconds: how long each message is delayed; None: not at all.
        libraries: of relaybox.local.bench.libraries; by default those that are installed. A polling consumer is always measured.
        json_path: gets every raw value.
        console: for the report.

    Raises:
        ConfigurationError: there is no such library, or it is not installed.
        StackFailed: a message was not handled in time.
    """
    console = console or Console()
    chosen = _choose(libraries, console)
    load_average = os.getloadavg()[0]
    with bench_directory(console) as directory, open_bench_stores(directory, {}) as stores:
        kinds = {}
        for number, (kind, library) in enumerate(chosen.items(), start=1):
            hop = stores.new_route(topic=f"topic{number}")
            with _consumer(stores, hop, library, f"bench-{number}", listens=kind != POLLS) as handled:
                seconds = tuple(_measure(stores, hop, handled, samples, delay_seconds))
                idle_cpu = _measure_idle(stores, idle_seconds)
            kinds[kind] = WaitingFigures(seconds, idle_cpu)
            console.print(f"a consumer that {kind}: measured" if kind == POLLS else f"a consumer that waits, {kind}: measured")
        report = WaitingReport(
            idle_seconds=idle_seconds,
            delay_seconds=delay_seconds,
            environment=describe_environment(stores),
            load_average=(load_average, os.getloadavg()[0]),
            kinds=kinds,
        )
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


@contextmanager
def _consumer(stores: BenchStores, hop: Hop, library: str, subscription: str, *, listens: bool) -> Iterator[dict[int, float]]:
    """Runs a consumer; yields when each log position was handled, as seconds since 1970."""
    handled: dict[int, float] = {}
    stores.query(DESTINATION, "select relaybox.subscribe(%s, %s)", subscription, hop.route)

    def handle(message: Message) -> None:
        handled[message.log_position] = time.time()

    with consuming(library, DESTINATION, subscription, handle, listen=listens):
        yield handled


def _choose(libraries: Sequence[str] | None, console: Console) -> dict[str, str]:
    """The library of each consumer, by its name in the table."""
    for name in libraries or []:
        if name not in LIBRARIES:
            raise errors.ConfigurationError(
                f"bench waiting: no library {name!r}.", next_step=f"Give one of: {'; '.join(LIBRARIES)}."
            )
        if not LIBRARIES[name].is_installed():
            raise errors.ConfigurationError(
                f"bench waiting: {name} is not installed.", next_step=f"Run: pip install 'relaybox[{LIBRARIES[name].extra}]'"
            )
    if libraries is None:
        for sentence in lacking_libraries():
            console.print(sentence, markup=False)
    return {name: name for name in libraries or installed_libraries()} | {POLLS: POLLING_LIBRARY}


def _measure(
    stores: BenchStores, hop: Hop, handled: Mapping[int, float], samples: int, delay_seconds: float | None
) -> Iterator[float]:
    for log_position in range(1, samples + 2):
        stores.query(SOURCE, _SEND, hop.topics[0], delay_seconds, delay_seconds)
        transfer_hop(hop, ThreadRunner(1), recorded_by="bench waiting")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while log_position not in handled:
            if time.monotonic() > deadline:
                raise errors.StackFailed(f"message {log_position} was not handled within {DEADLINE_SECONDS:g} s.")
            time.sleep(0.001)
        [(begin,)] = stores.query(DESTINATION, _BEGIN, hop.name)
        if log_position > 1:  # the first one pays for what is loaded once
            yield handled[log_position] - float(begin)
        time.sleep(min(random.expovariate(1 / MEAN_PAUSE_SECONDS), 1))


_SEND = """
insert into relaybox.outbox (topic, sender, payload, headers)
select %s, 'bench', 'one', case when %s::float is not null then
    jsonb_build_object('relaybox-deliver-after', extract(epoch from clock_timestamp()) + %s::float) end
"""
_BEGIN = """
select coalesce((m.headers ->> 'relaybox-deliver-after')::numeric, extract(epoch from a.published_at))
from relaybox_internal.hop_in i
join relaybox_internal.arrival a on a.log_id = i.log_id
join relaybox_internal.log m on m.log_id = i.log_id and m.log_position = a.last_position
where i.hop = %s order by a.batch desc limit 1
"""


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
        "a consumer that waits, by its\nlibrary, and one that polls", "messages", "p50", "p90", "p99", "max", "idle CPU",
        title=f"milliseconds from {report.begin} to handler",
        caption=f"Lower is better. Idle CPU: of consumer and store,\nin % of a core, measured for {report.idle_seconds:g} s.",
    )  # fmt: skip
    for kind, figures in report.kinds.items():
        values = percentiles(figures.seconds).values()
        table.add_row(kind, str(len(figures.seconds)), *(f"{1000 * value:.0f}" for value in values), f"{figures.idle_cpu:.2%}")
    console.print(table)
    for target, met in report.targets().items():
        console.print(f"{'met' if met else 'MISSED'}: {target}")
