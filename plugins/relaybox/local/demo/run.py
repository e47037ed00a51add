"""`make demo`: a year of flights from New York is moved over two hops by Airflow and Spark, and confirmed back.

Meanwhile a derivation makes delays of the flights, and an export writes them into a table of a lake.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress

from relaybox.errors import StackFailed
from relaybox.local.demo.airline import LateTransaction, OpenTime, Tally
from relaybox.local.demo.display import Bar, Bars, DemoDisplay, open_console
from relaybox.local.demo.facts import read_facts
from relaybox.local.demo.flights import FLIGHT_COUNT, read_flights
from relaybox.local.demo.producers import LATE_CARRIER, Producers, jobs
from relaybox.local.demo.progress import ProgressReader, RouteProgress
from relaybox.local.demo.report import Report, show_report
from relaybox.local.demo.spark_facts import DerivedFacts, LakeFacts, SparkProgress, SparkProgressReader, read_lake
from relaybox.local.demo.stack import APPLICATION, DemoStack, run_stack
from relaybox.local.interrupts import signals_interrupt
from relaybox.routes import Hop
from relaybox.verification.route_verification import verify_route

YEAR_SECONDS = 60.0
"""How long the year 2013 takes: both hops' Spark applications run for a while before it ends."""
SEED = 2013
STALLED_SECONDS = 180.0
HEALTHY_SECONDS = 240.0
REFRESH_SECONDS = 0.3
INTERRUPTED = 130


def run_demo() -> int:
    """Runs the demo in this process; every process that it starts has ended when it returns.

    It ends after `verify` if DEMO_EXIT says so, else stays up until Ctrl-C or SIGTERM.

    Returns:
        The exit code: 0 if everything was delivered, 1 if not, 130 if it was interrupted before that was known.
    """
    exit_when_done = os.environ.get("DEMO_EXIT", "0") not in ("", "0")
    display = DemoDisplay(open_console())
    code = INTERRUPTED
    with suppress(KeyboardInterrupt), signals_interrupt(), run_stack(display.say) as stack:
        try:
            code = _move_the_year(stack, display)
            if not exit_when_done:
                _stay_up(stack, display)
        finally:
            display.say("stopping everything")
    display.say("all processes have ended")
    return code


def _stay_up(stack: DemoStack, display: DemoDisplay) -> None:
    display.say(f"everything stays up: {stack.airflow.url} (no login). Ctrl-C stops it.")
    while True:
        signal.pause()


def _move_the_year(stack: DemoStack, display: DemoDisplay) -> int:
    tally, late = _produce(stack, display)
    display.say(f"all {tally.committed_count:,} committed messages are at the last store and settled at the first")
    with display.bars() as bars:
        verification = verify_route(stack.route, progress=lambda at: bars.show({"verified": Bar(at.row_count, at.of_count)}))
    display.say("verify has compared the stores, message by message")
    facts = read_facts(stack.route)
    lake, derived = _watch_spark(stack, display, tally.committed_count)
    report = Report(tally, late, verification, facts, derived, lake)
    show_report(report, display.console, airflow_url=stack.airflow.url)
    return 1 if report.faults else 0


def _produce(stack: DemoStack, display: DemoDisplay) -> tuple[Tally, OpenTime]:
    """Lets the year happen while Airflow and Spark move it; returns when everything is settled."""
    with (
        Producers(jobs(APPLICATION, seconds=YEAR_SECONDS, seed=SEED)) as producers,
        LateTransaction(APPLICATION, read_flights([LATE_CARRIER])) as late,
        closing(ProgressReader(stack.route)) as reader,
    ):
        with display.waiting("Airflow starts ..."):
            stack.airflow.wait_until_healthy(deadline_seconds=HEALTHY_SECONDS)
        display.say(f"Airflow runs: {stack.airflow.url} (no login)")
        while not producers.ready:
            producers.read_reports(timeout_seconds=REFRESH_SECONDS)
        producers.begin()
        display.say(f"{FLIGHT_COUNT:,} flights of 2013 happen within {YEAR_SECONDS:.0f} s")
        with display.bars() as bars:
            return _Year(stack, producers, late, reader, bars).watch()


def _watch_spark(stack: DemoStack, display: DemoDisplay, message_count: int) -> tuple[LakeFacts, DerivedFacts]:
    """Compares the table when the export is done, and reads the derived messages when all of them are at the last store."""
    with closing(SparkProgressReader(stack.derived_route, stack.export)) as reader:

        def wait(is_done: Callable[[SparkProgress], bool]) -> None:
            changed_at, before = time.monotonic(), None
            with display.bars() as bars:
                while not is_done(progress := reader.read()):
                    if progress != before:
                        changed_at, before = time.monotonic(), progress
                    elif time.monotonic() - changed_at > STALLED_SECONDS:
                        raise _stalled(stack, f"{message_count:,} messages in the stream, {progress}")
                    derived = Bar(progress.message_count, message_count, f"{progress.derived_count:,} messages of delays")
                    bars.show({"in the lake": Bar(progress.exported_count, message_count), "derived from": derived})
                    time.sleep(REFRESH_SECONDS)

        wait(lambda progress: progress.exported_count == message_count)
        lake = read_lake(stack.export)
        display.say("verify-lake has compared the table of the lake with its stream, row by row")
        wait(lambda progress: progress.has_derived(message_count))
        display.say("delays are derived from all messages, and are at the last store")
        return lake, reader.read_derived()


def _stalled(stack: DemoStack, where: str) -> StackFailed:
    airflow = stack.airflow
    return StackFailed(
        f"nothing has moved for {STALLED_SECONDS:.0f} s: {where}.",
        next_step=f"Read {airflow.log_file}, and the logs of tasks in {airflow.home / 'logs'}.",
    )


class _Year:
    """Watches producers and stores until all that was committed is settled."""

    def __init__(self, stack: DemoStack, producers: Producers, late: LateTransaction, reader: ProgressReader, bars: Bars) -> None:
        self._stack, self._producers, self._late, self._reader, self._bars = stack, producers, late, reader, bars
        self._tally = Tally()
        self._open_time: OpenTime | None = None
        self._progress = reader.read()
        self._changed_at = time.monotonic()

    def watch(self) -> tuple[Tally, OpenTime]:
        while self._open_time is None or self._progress.settled < self._tally.committed_count:
            self._producers.read_reports(timeout_seconds=REFRESH_SECONDS)
            self._look(self._reader.read())
            self._commit_late()
            self._bars.show(self._bars_now())
        return self._tally, self._open_time

    def _look(self, progress: RouteProgress) -> None:
        tally = self._producers.tally + (self._late.tally if self._open_time else Tally())
        if (progress, tally) != (self._progress, self._tally):
            self._changed_at = time.monotonic()
        elif time.monotonic() - self._changed_at > STALLED_SECONDS:
            raise _stalled(self._stack, f"{tally.committed_count:,} committed, {progress}")
        self._progress, self._tally = progress, tally

    def _commit_late(self) -> None:
        """Commits the late transaction when all others have ended, and at least one batch arrived while it was open."""
        first_hop = self._progress.hops[self._stack.route.hops[0].name]
        if self._open_time is None and self._producers.done and first_hop.batch > 0:
            self._open_time = self._late.commit()
            self._tally += self._late.tally

    def _bars_now(self) -> dict[str, Bar]:
        due = FLIGHT_COUNT - self._tally.rolled_back
        return {
            "produced": Bar(self._tally.committed_count, due, f"{self._tally.rolled_back:,} rolled back"),
            **{f"at {hop.destination.name}": self._hop_bar(hop, due) for hop in self._stack.route.hops},
            "settled": Bar(self._progress.settled, due),
        }

    def _hop_bar(self, hop: Hop, due: int) -> Bar:
        at = self._progress.hops[hop.name]
        return Bar(at.received, due, f"batch {at.batch}, {'Spark runs' if at.driven else 'no Spark'}")
