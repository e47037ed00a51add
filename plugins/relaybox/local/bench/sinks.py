"""`relaybox bench sinks`: how many messages a webhook and a sink of Kafka deliver in a second, and how soon they deliver one.

The endpoints are on this machine: a receiver of Python's standard library in a process of its own, and the mock brokers of librdkafka. So
the figures are those of Relaybox and of this machine; an endpoint far away adds the time of its answer to each message of a lane.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.latency_report import percentiles
from relaybox.local.bench.report import write_json
from relaybox.local.bench.stores import DESTINATION, SOURCE, TOPIC, BenchStores, bench_directory, open_bench_stores
from relaybox.local.mock_kafka import mock_brokers
from relaybox.routes import Hop, Sink
from relaybox.sinks.running import SinkRunner

DEADLINE_SECONDS = 60.0
MEAN_PAUSE_SECONDS = 0.1
LANES = (1, 4)
WEBHOOK, KAFKA = "webhook", "Kafka"
_SECRET = f"whsec_{b64encode(b'a secret of a benchmark, 32 bytes').decode()}"
_SENDERS = 64
_KAFKA_TOPIC, _PARTITIONS = "bench", 4
_FILL = """
insert into relaybox.outbox (topic, sender, payload)
select %s, 's' || n %% %s, '{"flight": ' || n || ', "dest": "IAH", "carrier": "UA"}' from generate_series(1, %s) n
"""
_PUBLISHED = """
select extract(epoch from max(a.published_at)) from relaybox_internal.arrival a
join relaybox_internal.hop_in i on i.log_id = a.log_id where i.hop = %s
"""


@dataclass(frozen=True)
class SinkFigures:
    """Of one kind of endpoint, with one number of lanes.

    Attributes:
        messages: that were delivered and acknowledged.
        seconds: that it took, from the start of the run to its end.
        latencies: seconds from publication to the endpoint, of single messages while the sink waits.
    """

    kind: str
    lanes: int
    messages: int
    seconds: float
    latencies: tuple[float, ...]


@dataclass(frozen=True)
class SinksReport:
    """Raw values, and in what circumstances they were measured; `load_average` is the machine's, at the start and at the end."""

    environment: Mapping[str, Any]
    load_average: tuple[float, float]
    figures: tuple[SinkFigures, ...]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        return {
            **asdict(self),
            "per_second": {f"{one.kind}, lanes {one.lanes}": one.messages / one.seconds for one in self.figures},
            "percentiles": {f"{one.kind}, lanes {one.lanes}": percentiles(one.latencies) for one in self.figures},
        }


def run_bench_sinks(
    *,
    messages: int,
    samples: int,
    lanes: Sequence[int] | None = None,
    json_path: Path | None = None,
    console: Console | None = None,
) -> SinksReport:
    """Makes clusters and endpoints, measures, prints, writes JSON, and removes everything.

    Args:
        messages: that wait when a webhook begins; ten times as many for Kafka.
        samples: single messages to a sink that waits.
        lanes: of the sinks, each measured on its own; by default LANES.
        json_path: gets every raw value.
        console: for the report.

    Raises:
        ConfigurationError: the libraries of webhooks or of Kafka are not installed.
        StackFailed: a message was not delivered in time, or an endpoint failed.
    """
    console = console or Console()
    load_average = os.getloadavg()[0]
    with bench_directory(console) as directory, open_bench_stores(directory, {}) as stores:
        figures = []
        for number, lane_count in enumerate(lanes or LANES, start=1):
            with _receiver() as (url, arrivals):
                section = {"url": url, "secrets": ["env:BENCH"], "plain_http": True}
                turn = _Turn(WEBHOOK, f"webhook{number}", lane_count, section, messages, arrivals)
                figures.append(_measure(stores, turn, samples))
            console.print(f"webhook with {amount(lane_count, 'lane')}: measured")
            with mock_brokers() as brokers, _record_reader(brokers) as arrivals:
                section = {"bootstrap_servers": brokers[0], "to_topic": _KAFKA_TOPIC}
                turn = _Turn(KAFKA, f"kafka{number}", lane_count, section, 10 * messages, arrivals)
                figures.append(_measure(stores, turn, samples))
            console.print(f"Kafka with {amount(lane_count, 'lane')}: measured")
        report = SinksReport(describe_environment(stores), (load_average, os.getloadavg()[0]), tuple(figures))
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


@dataclass(frozen=True)
class _Turn:
    """One sink. `section`: what only its kind has in relaybox.yaml; `arrivals`: when the endpoint got each stream position."""

    kind: str
    name: str
    lanes: int
    section: Mapping[str, object]
    messages: int
    arrivals: Mapping[int, float]


def _measure(stores: BenchStores, turn: _Turn, samples: int) -> SinkFigures:
    """Delivers what waits, then single messages to the sink that waits."""
    hop, sink = _write_sink(stores, turn)
    stores.query(SOURCE, _FILL, hop.topics[0], _SENDERS, turn.messages)
    with ThreadRunner(1) as runner:
        transfer_hop(hop, runner, recorded_by="bench sinks")
    stores.settle()
    begun = time.perf_counter()
    ended = SinkRunner(sink, _find_secret, until_empty=True).run()
    seconds = time.perf_counter() - begun
    if ended.delivered_count != turn.messages:
        raise errors.StackFailed(f"{turn.name} delivered {ended.delivered_count} of {turn.messages} messages.")
    with _running(sink):
        latencies = tuple(_measure_singles(stores, hop, turn, samples))
    return SinkFigures(turn.kind, turn.lanes, turn.messages, seconds, latencies)


def _write_sink(stores: BenchStores, turn: _Turn) -> tuple[Hop, Sink]:
    """A route of its own, and the sink of its stream."""
    values = {"store": DESTINATION, "stream": turn.name, "lanes": turn.lanes, **turn.section}
    routes = stores.write_routes(
        {turn.name: {"topics": [f"{TOPIC}.{turn.name}"], "order": "none"}},
        sinks={"webhooks" if turn.kind == WEBHOOK else "kafka": {turn.name: values}},
    )
    sink: Sink = routes.webhook(turn.name) if turn.kind == WEBHOOK else routes.kafka_sink(turn.name)
    return routes.hop(f"{turn.name}/1"), sink


def _find_secret(_where: str) -> str:
    return _SECRET


@contextmanager
def _running(sink: Sink) -> Iterator[None]:
    """A run of the sink that waits for messages, in a thread."""
    runner = SinkRunner(sink, _find_secret, until_empty=False)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(runner.run)
        try:
            yield
        finally:
            runner.stop()
    if failure := running.exception():
        raise errors.StackFailed(f"{sink.kind} {sink.name} failed: {failure}") from failure


def _measure_singles(stores: BenchStores, hop: Hop, turn: _Turn, samples: int) -> Iterator[float]:
    for number in range(samples + 1):
        stores.query(SOURCE, _FILL, hop.topics[0], 1, 1)
        with ThreadRunner(1) as runner:
            transfer_hop(hop, runner, recorded_by="bench sinks")
        stream_position, deadline = turn.messages + number + 1, time.monotonic() + DEADLINE_SECONDS
        while stream_position not in turn.arrivals:
            if time.monotonic() > deadline:
                raise errors.StackFailed(f"{turn.name}: message {stream_position} was not delivered in {DEADLINE_SECONDS:g} s.")
            time.sleep(0.001)
        [(published,)] = stores.query(DESTINATION, _PUBLISHED, hop.name)
        if number:  # the first one pays for what is loaded once
            yield turn.arrivals[stream_position] - float(published)
        time.sleep(min(random.expovariate(1 / MEAN_PAUSE_SECONDS), 1))


@contextmanager
def _receiver() -> Iterator[tuple[str, Mapping[int, float]]]:
    """A receiver of webhooks: its URL, and when it got each stream position."""
    arrivals: dict[int, float] = {}
    process = subprocess.Popen(
        [sys.executable, "-m", "relaybox.local.bench.receiver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    lines = process.stdout
    port = lines.readline().strip()

    def read() -> None:
        for line in lines:
            stream_position, at = line.split()
            arrivals.setdefault(int(stream_position), float(at))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield f"http://127.0.0.1:{port}/", arrivals
    finally:
        process.stdin.close()
        process.wait()
        reader.join()
        lines.close()


@contextmanager
def _record_reader(brokers: tuple[str, Any, int]) -> Iterator[Mapping[int, float]]:
    """Makes the topic, and reads its records as they come; when each stream position was read."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    servers, library, cluster = brokers
    if library.rd_kafka_mock_topic_create(cluster, _KAFKA_TOPIC.encode(), _PARTITIONS, 1):
        raise errors.StackFailed(f"the mock brokers made no topic {_KAFKA_TOPIC}.")
    arrivals: dict[int, float] = {}
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": "false", "fetch.wait.max.ms": "5"}
    )
    consumer.assign([TopicPartition(_KAFKA_TOPIC, partition, OFFSET_BEGINNING) for partition in range(_PARTITIONS)])
    ends = threading.Event()

    def read() -> None:
        while not ends.is_set():
            for record in consumer.consume(500, timeout=0.01):
                headers: dict[str, Any] = dict(record.headers() or [])
                arrivals.setdefault(int(headers["relaybox-stream-position"]), time.time())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield arrivals
    finally:
        ends.set()
        reader.join()
        consumer.close()


def print_report(report: SinksReport, console: Console) -> None:
    """One row for each kind of endpoint and number of lanes."""
    table = Table(
        "sink", "lanes", "messages", "messages\nper second", "one message:\np50, ms", "p99, ms",
        title="what sinks deliver, to endpoints on this machine",
        caption="Per second: higher is better. One message: from publication to the\nendpoint, while the sink waits; lower is better.",
    )  # fmt: skip
    for one in report.figures:
        spread = percentiles(one.latencies)
        table.add_row(
            one.kind,
            str(one.lanes),
            f"{one.messages:,}",
            f"{one.messages / one.seconds:,.0f}",
            f"{1000 * spread['p50']:.0f}",
            f"{1000 * spread['p99']:.0f}",
        )
    console.print(table)
