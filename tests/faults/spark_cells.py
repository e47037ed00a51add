"""Faults that only Spark's real executors can have: `python -m tests.faults.spark_cells --help`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg2
import yaml

from relaybox.errors import RelayboxError, Transient
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.copying import SliceCopied, SliceJob
from relaybox.hops.runners import SliceRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.processes import is_alive
from relaybox.local.scratch import scratch_directory
from relaybox.spark.runner import SparkRunner
from relaybox.spark.tasks import ContextSession
from tests.faults.checker import check, read_stores, reliability
from tests.faults.drivers import drive
from tests.faults.history import read_history
from tests.faults.sites import Clusters, Site, fresh_site, running_clusters
from tests.faults.workload import Manners, Workload
from tests.support.patience import Deadline
from tests.support.spark_session import START_SECONDS, Pause, parent, spark_application, spark_session
from tests.support.world import wait_until

if TYPE_CHECKING:
    from pyspark import SparkContext

    from relaybox.hops.batches import Slice

HOP = "flights/1"
SLICES_PER_BATCH, BATCHES_PER_ROUND = 8, 2
LIVENESS_SECONDS = 120.0
SLICE_STEPS = (
    "slice.begin",
    "slice.connected",
    "slice.piping",
    "slice.copied",
    "slice.accepted",
    "slice.committing",
    "slice.committed",
)
DRIVER_STEPS = (
    *("plan.locked", "plan.recorded", "plan.committing", "plan.committed", "log_segments.committed"),
    *SLICE_STEPS,
    *("publish.begin", "publish.published", "publish.committing", "publish.committed"),
    *("confirm.begin", "confirm.recorded", "confirm.committing", "confirm.committed"),
)
FROZEN_STEPS = ("plan.committed", "slice.accepted", "publish.begin", "publish.published", "publish.committed", "confirm.recorded")


@dataclass(frozen=True)
class SparkCell:
    """What is struck, and at which failpoints, one after the other."""

    fault: str
    failpoints: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.fault}-{self.failpoints[0]}" if len(self.failpoints) == 1 else self.fault


CELLS = (
    SparkCell("kill_worker", ("slice.piping",)),
    SparkCell("kill_executor", ("slice.piping",)),
    SparkCell("crash_source", ("slice.piping",)),
    SparkCell("crash_destination", ("slice.piping",)),
    SparkCell("race", ("slice.begin",)),
    SparkCell("freeze_worker", ("slice.accepted",)),
    SparkCell("freeze_application", ("publish.begin",)),
    SparkCell("kill_application", ("plan.committed", "slice.copied", "publish.begin", "publish.committed")),
)
ALL_CELLS = (
    *(
        SparkCell(fault, (step,))
        for fault in ("kill_worker", "kill_executor", "crash_source", "crash_destination", "race", "freeze_worker")
        for step in SLICE_STEPS
    ),
    *(SparkCell("freeze_application", (step,)) for step in FROZEN_STEPS),
    SparkCell("kill_application", DRIVER_STEPS),
)


@dataclass
class SparkResult:
    """What became of a cell: a hit for each of its failpoints, and nothing violated, when all is well."""

    cell: SparkCell
    hit: int = 0
    messages: int = 0
    seconds: float = 0.0
    violations: list[str] = field(default_factory=list)


def run_cell(cell: SparkCell, context: SparkContext, sides: Clusters, directory: Path, *, messages: int) -> SparkResult:
    """Injects a fault into a hop that moves two batches of eight slices, moves two more, and runs the checker on both hops.

    Args:
        cell: what happens.
        context: its environment is changed; its executors and workers may be killed.
        sides: the clusters; running again afterwards.
        directory: for histories and failpoints, of this cell alone.
        messages: of the whole cell, about.
    """
    started = time.monotonic()
    result = SparkResult(cell)
    with fresh_site(sides, "outbox", directory, batch_rows=messages // 2 // BATCHES_PER_ROUND) as site:
        _cut_slices(site)
        _Run(cell, context, site, messages, result).through()
    result.seconds = time.monotonic() - started
    return result


def _cut_slices(site: Site) -> None:
    content = yaml.safe_load(site.routes_file.read_text(encoding="utf-8"))
    limits = content["routes"]["flights"]["limits"]
    limits["slice_rows"] = limits["batch_rows"] // SLICES_PER_BATCH
    site.routes_file.write_text(yaml.safe_dump(content), encoding="utf-8")


@dataclass
class _Run:
    cell: SparkCell
    context: SparkContext
    site: Site
    messages: int
    result: SparkResult

    def through(self) -> None:
        history = self.site.directory / "history"
        manners = Manners(messages_at_most=max(6, self.messages // 300))
        with Workload(history, self.site.route.hops, manners=manners) as workload:
            self._send_half(workload)
            pauses = [Pause(step, self.site.directory / f"pause_{n}") for n, step in enumerate(self.cell.failpoints)]
            for pause in pauses:
                self._inject(pause)
            self._send_half(workload)
            workload.stop_producers()
            for name in (HOP, "flights/2", HOP):
                self._move(name)
            for hop in self.site.route.hops:
                last = self._published(hop.name)
                wait_until(
                    partial(_has_seen, workload, hop.name, last), f"consumers of {hop.name} see {last}", deadline_seconds=60
                )
        for pause in pauses:
            pause.end_processes()
        self._judge(history)

    def _send_half(self, workload: Workload) -> None:
        wanted = workload.acknowledged_count + self._transactions()
        workload.send(-(-self._transactions() // len(workload.senders) * 5 // 4))  # some are rolled back
        wait_until(lambda: workload.is_idle, "half of the messages are sent", deadline_seconds=LIVENESS_SECONDS)
        assert workload.acknowledged_count >= wanted

    def _transactions(self) -> int:
        """So many have half of the messages, since a transaction has half of its most in the mean."""
        return self.messages // max(6, self.messages // 300)

    def _inject(self, pause: Pause) -> None:
        inject = {"kill_application": self._kill_application, "freeze_application": self._freeze_application}
        self.result.hit += inject.get(self.cell.fault, self._inject_session)(pause)

    def _inject_session(self, pause: Pause) -> bool:
        """A driver in this process, slices on the executors."""
        self.context.environment.update(pause.environment(), PGSERVICEFILE=str(self.site.services_file))
        runner = (
            RacingRunner(ContextSession(self.context)) if self.cell.fault == "race" else SparkRunner(ContextSession(self.context))
        )
        with ThreadPoolExecutor(1) as pool:
            driver = pool.submit(self._drive, HOP, runner)
            try:
                hit = _wait_for_hit(pause, driver.done)
                if hit:
                    FAULTS[self.cell.fault](Scene(self.site, pause, driver))
            finally:
                pause.release()
            if error := driver.result(LIVENESS_SECONDS):
                assert isinstance(error, Transient), f"the driver gave up for good: {error}"
        return hit

    def _kill_application(self, pause: Pause) -> bool:
        """SIGKILL of the whole driver, JVM and Python; its executors are left to themselves and must end, too."""
        with self._application(pause) as application:
            application.kill()
            wait_until(lambda: not pause.processes(), "no process of the killed application is left", deadline_seconds=60)
        return True

    def _freeze_application(self, pause: Pause) -> bool:
        """All of an application is frozen, a newer one finishes everything; then it continues, and writes nothing."""
        with self._application(pause) as application:
            frozen = pause.processes()
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            pause.release()
            self._move(HOP)
            before = read_stores(self.site.routes.hops)
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
            application.wait(LIVENESS_SECONDS)
        if read_stores(self.site.routes.hops) != before:
            self.result.violations.append("an application that woke after a newer one had finished has written")
        return True

    @contextmanager
    def _application(self, pause: Pause) -> Iterator[subprocess.Popen[bytes]]:
        """spark-submit of the hop, waiting at the failpoint."""
        environment = {"PGSERVICEFILE": str(self.site.services_file), "RELAYBOX_CONFIG": str(self.site.routes_file)}
        log = pause.directory.with_suffix(".log")
        with spark_application(["--hop", HOP], environment={**pause.environment(), **environment}, log=log) as application:
            hit = _wait_for_hit(pause, lambda: application.poll() is not None)
            assert hit, log.read_text(encoding="utf-8", errors="replace")[-3000:]
            yield application

    def _drive(self, hop_name: str, runner: SliceRunner) -> RelayboxError | None:
        """One try of the orchestrator's."""
        hop = self.site.routes.hop(hop_name)
        try:
            transfer_hop(hop, runner, recorded_by="spark cell")
            settle_hop(self.site.route, hop, recorded_by="spark cell")
        except RelayboxError as error:
            return error
        return None

    def _move(self, hop_name: str) -> None:
        """Tries until an attempt succeeds."""
        self.context.environment["PGSERVICEFILE"] = str(self.site.services_file)
        deadline = Deadline(LIVENESS_SECONDS)
        while error := self._drive(hop_name, SparkRunner(ContextSession(self.context))):
            assert isinstance(error, Transient), f"a driver without a fault gave up for good: {error}"
            assert not deadline.is_over(), f"not within {deadline}: {error}"

    def _published(self, hop_name: str) -> int:
        destination = self.site.routes.hop(hop_name).destination.service
        return _ask(destination, "select published_position from relaybox_internal.hop_in where hop = %s", hop_name)

    def _judge(self, history: Path) -> None:
        stores = read_stores(self.site.routes.hops)
        self.result.violations += [str(violation) for violation in check(read_history(history), stores)]
        for one in reliability(stores):
            self.result.messages = one.sent
            if (one.r, one.ur) != (1.0, 1.0):
                self.result.violations.append(f"R of {one.hop} is {one.r}, UR is {one.ur}")
        staged = "select count(*) from relaybox_internal.log l join relaybox_internal.hop_in i using (log_id) where l.log_position > i.published_position"
        for hop in self.site.route.hops:
            if count := _ask(hop.destination.service, staged):
                self.result.violations.append(f"{count} staged rows are left at {hop.destination.name}")


class RacingRunner(SparkRunner):
    """Has every slice copied by two tasks at once, as speculation on two hosts would. The later one may end the earlier one."""

    def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        return super().copy_slices(order, [*slices, *slices])


@dataclass(frozen=True)
class Scene:
    """What a fault finds: Python workers that wait at the failpoint, and the driver that waits for them."""

    site: Site
    pause: Pause
    driver: Future[RelayboxError | None]

    @property
    def worker(self) -> int:
        return self.pause.waiting()[0]


def kill_worker(scene: Scene) -> None:
    """Spark starts another one and runs its task again."""
    os.kill(scene.worker, signal.SIGKILL)


def kill_executor(scene: Scene) -> None:
    """The JVM above the worker; the worker ends with it."""
    worker = scene.worker
    os.kill(parent(parent(worker)), signal.SIGKILL)
    wait_until(lambda: not is_alive(worker), "the worker has ended with its executor")


def crash_cluster(side: str, scene: Scene) -> None:
    """All of a cluster is killed and started again."""
    scene.site.sides.clusters[side].kill()
    scene.site.sides.clusters[side].start()


def race(scene: Scene) -> None:
    """Two workers wait in the same slice: the first two tasks of a RacingRunner copy the first one."""
    wait_until(lambda: len(scene.pause.waiting()) == 2, "two workers wait", deadline_seconds=START_SECONDS)


def freeze_worker(scene: Scene) -> None:
    """A worker is frozen, another driver finishes everything; then it continues and finds that it is too late."""
    worker = scene.worker
    os.kill(worker, signal.SIGSTOP)
    scene.pause.release()
    try:
        deadline = Deadline(LIVENESS_SECONDS)
        while (outcome := drive(scene.site.mission(HOP))).error:
            assert outcome.is_transient, outcome.error
            assert not deadline.is_over(), outcome.error
    finally:
        os.kill(worker, signal.SIGCONT)


FAULTS: dict[str, Callable[[Scene], None]] = {
    "kill_worker": kill_worker,
    "kill_executor": kill_executor,
    "crash_source": partial(crash_cluster, "source"),
    "crash_destination": partial(crash_cluster, "destination"),
    "race": race,
    "freeze_worker": freeze_worker,
}


def _wait_for_hit(pause: Pause, has_ended: Callable[[], bool]) -> bool:
    wait_until(lambda: bool(pause.waiting()) or has_ended(), f"{pause.failpoint} is reached", deadline_seconds=START_SECONDS)
    return bool(pause.waiting())


def _has_seen(workload: Workload, hop: str, log_position: int) -> bool:
    return workload.seen_through(hop) == log_position


def _ask(service: str, query: str, *arguments: object) -> int:
    with closing(psycopg2.connect(service=service)) as connection, connection.cursor() as cursor:
        cursor.execute(query, arguments or None)
        return int(cursor.fetchall()[0][0])


def main() -> int:
    """Runs the cells one after another; 0 if every failpoint was hit and nothing was violated."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.spark_cells", description="Kills Spark's parts while they move a hop."
    )
    parser.add_argument("--messages", type=int, default=100_000, help="of each cell, about (default: 100000)")
    parser.add_argument("--few", action="store_true", help="the cells of the default suite only")
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--json", type=Path, help="where the result goes")
    options = parser.parse_args()
    cells = [cell for cell in (CELLS if options.few else ALL_CELLS) if options.only in str(cell)]
    results = []
    with (
        scratch_directory("spark-cells") as directory,
        running_clusters(directory, segment_rows=10_000) as sides,
        spark_session() as context,
    ):
        for number, cell in enumerate(cells, 1):
            result = run_cell(cell, context, sides, directory / f"cell_{number}", messages=options.messages)
            print(
                f"{number}/{len(cells)} {cell}: {_outcome(result)}, {result.messages} messages, {result.seconds:.0f} s",
                flush=True,
            )
            results.append(result)
    summary = _summary(results)
    print(json.dumps(summary, indent=1))
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1), encoding="utf-8")
    return 0 if summary["cells"] == summary["hit"] and not summary["violations"] else 1


def _outcome(result: SparkResult) -> str:
    if result.hit < len(result.cell.failpoints):
        return "missed"
    return f"{len(result.violations)} violations" if result.violations else "ok"


def _summary(results: Sequence[SparkResult]) -> dict[str, object]:
    return {
        "cells": sum(len(result.cell.failpoints) for result in results),
        "hit": sum(result.hit for result in results),
        "messages": sum(result.messages for result in results),
        "violations": [f"{result.cell}: {violation}" for result in results for violation in result.violations],
    }


if __name__ == "__main__":
    raise SystemExit(main())
