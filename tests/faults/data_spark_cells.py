"""Derivations, DataFrames into an outbox, streaming queries and exports, whose executors and drivers are killed: `--help`.

Each cell runs an application with real executors (data_application.py). A fault strikes it at a failpoint; then runs without a fault
follow until one succeeds. What is in the stores and in the lake decides.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from relaybox.local.processes import is_alive
from relaybox.local.scratch import scratch_directory
from relaybox.spark.lake.verifying import verify_lake
from tests.faults import derived
from tests.faults.checker import check, read_stores
from tests.faults.data_application import EXPORT, FRAME_SENDER, QUERY_BATCH_MESSAGES, QUERY_SENDER, SUBSCRIPTION, frame_payloads
from tests.faults.drivers import drive
from tests.faults.history import read_history
from tests.faults.sites import Clusters, Site, fresh_site, running_clusters
from tests.faults.workload import Workload
from tests.support.lake import InProcess, Lake
from tests.support.patience import Deadline, patience
from tests.support.spark_session import START_SECONDS, Pause, parent
from tests.support.world import World, wait_until

REPOSITORY = Path(__file__).parents[2]
LIVENESS_SECONDS = 300.0
TRANSACTIONS = 30
"""Of each of the three senders."""


@dataclass(frozen=True)
class DataCell:
    """Which work is struck, how, and at which failpoint."""

    work: str
    fault: str
    failpoint: str

    def __str__(self) -> str:
        return f"{self.work}-{self.fault}-{self.failpoint}"


CELLS = (
    DataCell("derive", "kill_executor", "derive.inserted"),
    DataCell("derive", "kill_driver", "derive.committing"),
    DataCell("frame", "kill_executor", "frame.committing"),
    DataCell("frame", "kill_driver", "frame.committed"),
    DataCell("query", "kill_executor", "frame.committed"),
    DataCell("query", "kill_driver", "query_ack.committing"),
    DataCell("export", "kill_executor", "lake.written"),
    DataCell("export", "kill_driver", "lake.collected"),
)
"""Each work, at its executors and at its driver."""

_STEPS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "derive": (
        ("derive.begin", "derive.copied", "derive.inserted", "derive.committing", "derive.committed"),
        ("derive_version.committing", "derive_version.committed", "derive_attempt.committing", "derive_attempt.committed"),
    ),
    "frame": (("frame.begin", "frame.copied", "frame.committing", "frame.committed"), ()),
    "query": (
        ("frame.begin", "frame.copied", "frame.committing", "frame.committed"),
        ("query_subscription.committing", "query_subscription.committed", "query_ack.committing", "query_ack.committed"),
    ),
    "export": (
        ("lake.opened", "lake.written"),
        (
            "lake_subscription.committed",
            "lake.created",
            "lake.collected",
            "lake.committed",
            "lake_ack.committing",
            "lake.cleaned",
        ),
    ),
}
"""Failpoints that executors of a work reach, and those that its driver reaches."""

ALL_CELLS = (
    *(
        DataCell(work, fault, step)
        for work, (steps, _) in _STEPS.items()
        for fault in ("kill_executor", "kill_driver")
        for step in steps
    ),
    *(DataCell(work, "kill_driver", step) for work, (_, steps) in _STEPS.items() for step in steps),
)


@dataclass
class DataResult:
    """What became of a cell: its failpoint was reached, and no problem, when all is well."""

    cell: DataCell
    hit: bool = False
    messages: int = 0
    problems: list[str] = field(default_factory=list)


def run_cell(cell: DataCell, sides: Clusters, directory: Path) -> DataResult:
    """Brings messages to the store, lets the work run into the fault, and runs it to its end.

    Args:
        cell: what happens.
        sides: the clusters.
        directory: for files of this cell alone.
    """
    result = DataResult(cell)
    with fresh_site(sides, "derived" if cell.work == "derive" else "outbox", directory, batch_rows=100) as site:
        _Run(cell, site, result).through()
    return result


@dataclass
class _Run:
    cell: DataCell
    site: Site
    result: DataResult

    def through(self) -> None:
        history = self.site.directory / "history"
        if self.cell.work == "export":
            self._configure_export()
        with Workload(history, self.site.hops) as workload:
            workload.send(TRANSACTIONS)
            wait_until(lambda: workload.is_idle, "all messages are sent", deadline_seconds=LIVENESS_SECONDS)
            workload.stop_producers()
            self._move(*(hop.name for hop in self.site.route.hops))
            self._strike()
            self._finish()
            self._move(*(hop.name for hop in self.site.hops))
        self._judge(history)

    def _configure_export(self) -> None:
        content = yaml.safe_load(self.site.routes_file.read_text(encoding="utf-8"))
        path = str(self.site.directory / "lake" / "flights")
        content["exports"] = {
            EXPORT: {
                "stream": "flights",
                "store": "hub",
                "to": "parquet",
                "path": path,
                "batch_messages": 100,
                "file_messages": 40,
            }
        }
        self.site.routes_file.write_text(yaml.safe_dump(content), encoding="utf-8")

    def _strike(self) -> None:
        pause = Pause(self.cell.failpoint, self.site.directory / "pause")
        try:
            with self._application(pause.environment()) as application:
                wait_until(
                    lambda: bool(pause.waiting()) or application.poll() is not None,
                    f"{self.cell.failpoint} is reached",
                    deadline_seconds=START_SECONDS,
                )
                self.result.hit = bool(pause.waiting())
                if self.result.hit:
                    FAULTS[self.cell.fault](pause, application)
        finally:
            pause.end_processes()

    def _finish(self) -> None:
        """As the orchestrator does it: runs until one succeeds."""
        deadline = Deadline(LIVENESS_SECONDS)
        while True:
            with self._application({}) as application:
                if application.wait(patience(LIVENESS_SECONDS)) == 0:
                    return
            assert not deadline.is_over(), f"not within {deadline}: {self._log()}"

    @contextmanager
    def _application(self, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "tests.faults.data_application", self.cell.work, str(self.site.directory)]
        variables = {**os.environ, "PGSERVICEFILE": str(self.site.services_file), **variables}
        with self._log_file.open("ab") as output:
            process = subprocess.Popen(command, cwd=REPOSITORY, env=variables, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @property
    def _log_file(self) -> Path:
        return self.site.directory / "application.log"

    def _log(self) -> str:
        return self._log_file.read_text(encoding="utf-8", errors="replace")[-3000:]

    def _move(self, *hops: str) -> None:
        for hop in hops:
            outcome = drive(self.site.mission(hop))
            assert not outcome.error, outcome.error

    def _judge(self, history: Path) -> None:
        if not self.result.hit:
            self.result.problems.append(f"{self.cell.failpoint} was never reached: {self._log()}")
        derivations = [self.site.routes.route(derived.ROUTE)] if self.site.derives else []
        stores = read_stores(self.site.hops, derivations)
        sent_by_applications = self.cell.work != "frame"  # whose messages no client of the history sent
        invariants = (
            None if sent_by_applications else ["lost", "orphaned_hops", "doubled", "altered", "dense_positions", "stream"]
        )
        self.result.problems += map(str, check(read_history(history), stores, invariants=invariants))
        self.result.messages = len(stores.hop("flights/1").log)
        self.result.problems += _OUTCOMES[self.cell.work](self.site)


def _same(found: Sequence[str], expected: Sequence[str], what: str) -> Iterator[str]:
    """Whether these texts are there, each once and in this order."""
    if list(found) != list(expected):
        missing, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        told = f"{missing.total()} of {len(expected)} are missing, {more.total()} are there too often"
        yield f"{what}: {told if missing or more else 'they stand in another order'}"


def _sent(world: World, store: str, sender: str) -> list[str]:
    return [
        payload for (payload,) in world.query(store, "select payload from relaybox.outbox where sender = %s order by seq", sender)
    ]


def _stream(world: World) -> list[str]:
    rows = world.query("hub", "select payload from relaybox.read_stream('flights', 0, 1000000) order by stream_position")
    return [payload for (payload,) in rows]


def derive_outcome(_: Site) -> Iterator[str]:
    """The checker has the rules of derived messages."""
    return iter(())


def frame_outcome(site: Site) -> Iterator[str]:
    """Partitions are sent once and in their order, and a hop brings them so."""
    world, expected = World(site.routes_file), frame_payloads()
    yield from _same(_sent(world, "airline", FRAME_SENDER), expected, "messages of the frame in the outbox")
    delivered = {*expected}
    yield from _same([one for one in _stream(world) if one in delivered], expected, "messages of the frame in the stream")


def query_outcome(site: Site) -> Iterator[str]:
    """Each message of the stream is sent on once, in the order of the stream; all but the last micro-batch is acknowledged."""
    world = World(site.routes_file)
    stream = _stream(world)
    yield from _same(_sent(world, "hub", QUERY_SENDER), stream, "messages of the query in the outbox")
    done = world.value("hub", "select done_stream_position from relaybox.lag(%s)", SUBSCRIPTION)
    if not len(stream) - QUERY_BATCH_MESSAGES <= done <= len(stream):
        yield f"subscription {SUBSCRIPTION} is acknowledged through {done}, the stream ends at {len(stream)}"


def export_outcome(site: Site) -> Iterator[str]:
    """In each version of the table the stream positions are dense and distinct, and the newest one equals the stream."""
    lake = Lake(World(site.routes_file), site.routes.export(EXPORT).path, "parquet")
    for version, positions in enumerate(lake.positions_of_versions()):
        if positions != list(range(1, len(positions) + 1)):
            yield f"version {version} of the table has not each of its {len(positions)} stream positions once"
    if [tuple(row.values()) for row in lake.rows()] != lake.stream():
        yield f"the table has {len(lake.rows())} rows, the stream {len(lake.stream())}, or they differ"
    if not verify_lake(lake.export, InProcess()).is_equal:
        yield "verify-lake finds a difference"
    if (done := lake.done()) != len(lake.stream()):
        yield f"the export is acknowledged through {done} of {len(lake.stream())}"


_OUTCOMES: Mapping[str, Callable[[Site], Iterator[str]]] = {
    "derive": derive_outcome,
    "frame": frame_outcome,
    "query": query_outcome,
    "export": export_outcome,
}


def kill_executor(pause: Pause, application: subprocess.Popen[bytes]) -> None:
    """The JVM above the worker that waits. Spark starts another one and runs its task again; the application ends by itself."""
    worker = pause.waiting()[0]
    os.kill(parent(parent(worker)), signal.SIGKILL)
    wait_until(lambda: not is_alive(worker), "the worker has ended with its executor", deadline_seconds=60)
    pause.release()
    application.wait(patience(LIVENESS_SECONDS))


def kill_driver(pause: Pause, application: subprocess.Popen[bytes]) -> None:
    """SIGKILL of the driver; its JVM and its executors are left to themselves and must end, too.

    The process that plans a streaming query outlives its JVM while it waits at the failpoint. Then it goes on alone, and ends.
    """
    application.kill()
    wait_until(
        lambda: {*pause.processes()} <= {*pause.waiting()},
        "all processes of the killed application have ended, but for those that wait",
        deadline_seconds=120,
    )
    pause.release()
    wait_until(lambda: not pause.processes(), "no process of the killed application is left", deadline_seconds=120)


FAULTS: Mapping[str, Callable[[Pause, subprocess.Popen[bytes]], None]] = {
    "kill_executor": kill_executor,
    "kill_driver": kill_driver,
}


def main() -> int:
    """Runs the cells one after another; 0 if every failpoint was reached and nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.data_spark_cells", description=__doc__.partition(":")[0])
    parser.add_argument("--few", action="store_true", help="the cells of the default suite only")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--json", type=Path, help="where the result goes")
    options = parser.parse_args()
    cells = [cell for cell in (CELLS if options.few else ALL_CELLS) if options.only in str(cell)]
    results = []
    with scratch_directory("data-cells") as directory, running_clusters(directory, segment_rows=1000) as sides:
        for number, cell in enumerate(cells, 1):
            started = time.monotonic()
            result = run_cell(cell, sides, directory / f"cell_{number}")
            outcome = "; ".join(result.problems) or "ok"
            seconds = time.monotonic() - started
            print(f"{number}/{len(cells)} {cell}: {outcome}, {result.messages} messages, {seconds:.0f} s", flush=True)
            results.append(result)
    summary = {
        "cells": len(results),
        "hit": sum(result.hit for result in results),
        "messages": sum(result.messages for result in results),
        "problems": [f"{result.cell}: {problem}" for result in results for problem in result.problems],
    }
    print(json.dumps(summary, indent=1))
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return 0 if summary["cells"] == summary["hit"] and not summary["problems"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
