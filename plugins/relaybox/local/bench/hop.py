"""`relaybox bench hop`: this hop against a pipe of two psql, and against logical replication's initial sync.

All three move the same messages between the same two clusters and take turns in one run, so that a round's ratios
compare what the same machine did within the same minutes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from relaybox import errors
from relaybox.local.bench.contestants import measure_hop, measure_pipe, measure_steps
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.replication import measure_sync
from relaybox.local.bench.report import HOP, PIPES, SYNCS, TITLES, BenchReport, Measurement, print_report, write_json
from relaybox.local.bench.rounds import WARM_UP, show_progress, shown_turns, take_turns
from relaybox.local.bench.runners import RUNNERS
from relaybox.local.bench.stores import BenchStores, bench_directory, open_bench_stores

if TYPE_CHECKING:
    from relaybox.hops.runners import SliceRunner


def run_bench(
    *,
    messages: int,
    rounds: int = 3,
    json_path: Path | None = None,
    runner: str = "spark",
    rollback_every: int = 0,
    limits: Mapping[str, int] | None = None,
    console: Console | None = None,
) -> BenchReport:
    """Makes two clusters, measures, prints, writes JSON, and removes the clusters.

    Args:
        messages: rows that each contestant moves in each round.
        rounds: how often each contestant is measured; the order changes with the round.
        json_path: gets every raw value, the settings and the versions.
        runner: who copies the hop's slices: `spark` (a session started before the clock) or `threads`.
        rollback_every: after this many of the producer's transactions one is rolled back and leaves a gap in the outbox's
            numbers, which keeps a slice from being read the fast way; 0: none is.
        limits: of the hop, as in relaybox.yaml; its defaults are what a new route has.
        console: prints progress and results there.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: a contestant lost or doubled rows, which makes its time worthless.
        Terminal, Transient: a store failed.
    """
    _check(messages, rounds, runner, rollback_every)
    console = console or Console()
    with (
        bench_directory(console) as directory,
        open_bench_stores(directory, limits or {}) as stores,
        RUNNERS[runner]() as slice_runner,
    ):
        report = _Bench(stores, slice_runner, messages, rounds, console).run(runner, rollback_every)
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


def _check(messages: int, rounds: int, runner: str, rollback_every: int) -> None:
    problems = {
        f"messages is {messages}, it must be 1 or more": messages < 1,
        f"rounds is {rounds}, it must be 1 or more": rounds < 1,
        f"rollback_every is {rollback_every}, it must be 0 or more": rollback_every < 0,
        f"runner is {runner}, it must be one of {', '.join(RUNNERS)}": runner not in RUNNERS,
    }
    found = [problem for problem, holds in problems.items() if holds]
    if found:
        raise errors.ConfigurationError(f"bench hop: {'; '.join(found)}.", next_step="Run: relaybox bench hop --help")


class _Bench:
    """One run: fills the outbox, then lets the contestants take turns."""

    def __init__(self, stores: BenchStores, runner: SliceRunner, messages: int, rounds: int, console: Console) -> None:
        self._stores, self._runner = stores, runner
        self._messages, self._rounds, self._console = messages, rounds, console

    def run(self, runner: str, rollback_every: int) -> BenchReport:
        hop = self._stores.new_route()
        self._fill(rollback_every)
        return BenchReport(
            messages=self._messages,
            rounds=self._rounds,
            runner=runner,
            rollback_every=rollback_every,
            limits=asdict(hop.limits),
            environment=describe_environment(self._stores),
            measurements=tuple(self._take_turns()),
            step_cpu=measure_steps(self._stores, self._runner),
        )

    def _fill(self, rollback_every: int) -> None:
        with show_progress(self._console) as progress:
            task = progress.add_task("filling the outbox", total=self._messages)
            advance = functools.partial(progress.advance, task)
            self._stores.fill(self._messages, rollback_every=rollback_every, filled=advance)

    def _take_turns(self) -> Iterator[Measurement]:
        with shown_turns(take_turns(list(TITLES), self._rounds), self._console, title=TITLES.__getitem__) as turns:
            for round_, contestant in turns:
                measurement = self._measure(contestant, round_)
                self._console.print(_line(measurement))
                if round_ != WARM_UP:
                    yield measurement

    def _measure(self, contestant: str, round_: int) -> Measurement:
        if contestant == HOP:
            return measure_hop(self._stores, self._runner, messages=self._messages, round_=round_)
        measures = {name: (measure_pipe, format_) for format_, name in PIPES.items()}
        measures |= {name: (measure_sync, format_) for format_, name in SYNCS.items()}
        measure, format_ = measures[contestant]
        return measure(self._stores, messages=self._messages, round_=round_, format_=format_)


def _line(measurement: Measurement) -> str:
    rate = measurement.row_count / measurement.seconds
    round_ = "warm-up" if measurement.round == WARM_UP else f"round {measurement.round}"
    return f"{round_}: {TITLES[measurement.contestant]}: {measurement.seconds:.2f} s, {rate:,.0f} rows/s"
