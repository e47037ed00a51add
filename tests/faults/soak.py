"""`python -m tests.faults.soak --minutes 20`: constant load, a random fault each minute, and what that costs; then changes and restores.

The fault-free rate is measured first. Then a driver process runs all the while and gets a fault once a minute at a random
failpoint; the rate, the recovery after each fault, and the sizes of everything that could grow are written down. In the second
half the file and settings change, stores are restored and rows are dropped at random, under load (change_soak.py).
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import psycopg2
import typer

from relaybox.local.scratch import scratch_directory
from tests.faults.cells import Cell, all_cells, killed_before, repair
from tests.faults.change_soak import ChangeSoak, soak_changes
from tests.faults.checker import check, read_stores, reliability
from tests.faults.drivers import Mission, Outcome, drive, driver
from tests.faults.faults import FAULTS, Scene
from tests.faults.history import read_history
from tests.faults.sites import LAYOUTS, STORES, Site, fresh_site, running_clusters
from tests.faults.stores import UNDISTURBED
from tests.faults.workload import Manners, Workload
from tests.support.patience import Deadline
from tests.support.world import World, wait_until

BATCH_ROWS = 1000
LOAD = Manners(pause_seconds=0.02, rereads=False)
"""Three senders; some hundred messages a second. What consumers saw is read again once, at the end: histories stay small."""

CHANGING_SEGMENT_ROWS = 500
"""Of the stores whose rows are dropped all the while."""

RECOVERY_SECONDS = 30.0
RATE_KEPT = 0.6
FAULT_EVERY_SECONDS = 60.0
ROUND_SECONDS = 1.0
KEPT_BUSY = 1_000_000
"""Transactions of each sender: more than any soak will see."""


@dataclass(frozen=True)
class Target:
    """One fault: where, and how long until the hop had moved everything that had been sent by then."""

    cell: str
    at_second: float
    recovery_seconds: float


@dataclass(frozen=True)
class Sizes:
    """What could grow: rows of the ledgers for each batch, sessions and locks of drivers, staged rows, memory here."""

    at_second: float
    batches: int
    ledger_rows_per_batch: float
    driver_sessions: int
    driver_locks: int
    resident_megabytes: float


@dataclass
class Soak:
    """What was measured."""

    minutes: float
    seed: int
    rate_without_faults: float = 0.0
    rate_with_faults: float = 0.0
    r: float = 0.0
    ur: float = 0.0
    messages: int = 0
    faults: list[Target] = field(default_factory=list)
    sizes: list[Sizes] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    changes: ChangeSoak = field(default_factory=ChangeSoak)

    def shortcomings(self) -> Iterator[str]:
        """What missed its aim."""
        yield from self.violations
        yield from self.changes.breaches
        if (self.r, self.ur) != (1.0, 1.0):
            yield f"R is {self.r}, UR is {self.ur}"
        if self.rate_with_faults < RATE_KEPT * self.rate_without_faults:
            yield f"{self.rate_with_faults:.0f} messages a second with faults, {self.rate_without_faults:.0f} without"
        for target in self.faults:
            if target.recovery_seconds > RECOVERY_SECONDS:
                yield f"{target.cell} took {target.recovery_seconds:.1f} s to recover"
        if self.sizes[-1].ledger_rows_per_batch > 1.1 * self.sizes[0].ledger_rows_per_batch:
            yield f"ledgers grew from {self.sizes[0].ledger_rows_per_batch:.1f} to {self.sizes[-1].ledger_rows_per_batch:.1f} rows a batch"
        if self.sizes[-1].driver_sessions or self.sizes[-1].driver_locks:
            yield f"left over: {self.sizes[-1].driver_sessions} sessions, {self.sizes[-1].driver_locks} locks"


def soak(minutes: float, *, seed: int, directory: Path, fault_every_seconds: float = FAULT_EVERY_SECONDS) -> Soak:
    """Runs the load without faults for a fifth of the time (a minute at most), then with faults; then all is checked."""
    result, chance = Soak(minutes, seed), random.Random(seed)
    cells = [
        cell for cell in all_cells() if cell.kind == "outbox" and not repair(cell.failpoint) and not killed_before(cell.failpoint)
    ]
    with (
        running_clusters(directory, segment_rows=100_000) as sides,
        fresh_site(sides, "outbox", directory / "soak", batch_rows=BATCH_ROWS) as site,
    ):
        history = site.directory / "history"
        with Workload(history, site.route.hops, seed=seed, manners=LOAD) as workload:
            workload.send(KEPT_BUSY)
            started = time.monotonic()
            quiet = min(60.0, minutes * 60 / 5)
            result.rate_without_faults = _rate(site, lambda: _keep_moving(site, quiet))
            result.sizes.append(_sizes(site, started))
            inject_all = partial(
                _inject_all,
                site,
                cells,
                chance,
                started=started,
                deadline=started + minutes * 60,
                every_seconds=fault_every_seconds,
            )
            result.rate_with_faults = _rate(site, partial(inject_all, result=result))
            workload.stop_producers()
            _move_to_the_end(site)
            for hop in site.route.hops:
                last = _count(
                    hop.destination.name, "select published_position from relaybox_internal.hop_in where hop = %s", hop.name
                )
                wait_until(
                    lambda name=hop.name, last=last: workload.seen_through(name) == last, f"consumers of {hop.name} see {last}"
                )
        result.sizes.append(_sizes(site, started))
        stores = read_stores(site.routes.hops)
        result.violations = [str(violation) for violation in check(read_history(history), stores)]
        measured = {one.hop: one for one in reliability(stores)}["flights"]
        result.r, result.ur, result.messages = measured.r, measured.ur, measured.sent
    return result


def _soak_changes(directory: Path, *, seconds: float, seed: int) -> ChangeSoak:
    with (
        running_clusters(directory, segment_rows=CHANGING_SEGMENT_ROWS) as sides,
        fresh_site(sides, "outbox", directory / "soak", batch_rows=BATCH_ROWS) as site,
    ):
        databases = {store: (sides.clusters[side], site.databases[store]) for store, side in LAYOUTS["outbox"].items()}
        return soak_changes(World(site.routes_file, UNDISTURBED), databases, seconds=seconds, seed=seed)


def _rate(site: Site, work: Callable[[], None]) -> float:
    """Messages a second that arrived at the end of the route while `work` went on."""
    last = site.route.hops[-1]
    question = "select published_position from relaybox_internal.hop_in where hop = %s"
    before, started = _count(last.destination.name, question, last.name), time.monotonic()
    work()
    for hop in site.route.hops:
        _recover(site, hop.name)
    return (_count(last.destination.name, question, last.name) - before) / (time.monotonic() - started)


def _keep_moving(site: Site, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        for hop in site.route.hops:
            _recover(site, hop.name)


def _inject_all(
    site: Site, cells: list[Cell], chance: random.Random, *, started: float, deadline: float, every_seconds: float, result: Soak
) -> None:
    """Strikes in the middle of each interval and moves messages the rest of it."""
    for number in range(1, 1_000_000):
        if time.monotonic() >= deadline:
            return
        interval_ends = min(deadline, time.monotonic() + every_seconds)
        cell = chance.choice(cells)
        at = time.monotonic()
        if _inject(site, cell, number):
            _recover(site, site.hop.name)
            result.faults.append(Target(str(cell), round(at - started, 1), round(time.monotonic() - at, 2)))
        else:
            result.violations.append(f"{cell} was never reached")
        _keep_moving(site, interval_ends - time.monotonic())
        result.sizes.append(_sizes(site, started))


def _inject(site: Site, cell: Cell, number: int) -> bool:
    fault, files = FAULTS[cell.fault], site.directory / f"driver_{number}"
    with driver(_mission(site, site.hop.name, proxied=True), f"{cell.failpoint}={fault.action}", files) as target:
        if not target.wait_for_hit():
            return False
        fault.inject(Scene(site, target, cell.failpoint, lambda: _recover(site, site.hop.name)))
        target.outcome()
    return True


def _recover(site: Site, hop: str) -> Outcome:
    """Tries until an attempt succeeds."""
    deadline = Deadline(2 * RECOVERY_SECONDS)
    while True:
        outcome = drive(_mission(site, hop))
        if not outcome.error:
            return outcome
        assert outcome.is_transient and not deadline.is_over(), outcome.error  # noqa: PT018


def _move_to_the_end(site: Site) -> None:
    """Nobody sends any more; the second time settles what the last hop has confirmed."""
    for hop in (*site.route.hops, *site.route.hops):
        outcome = drive(site.mission(hop.name))
        assert not outcome.error, outcome.error


def _mission(site: Site, hop: str, *, proxied: bool = False) -> Mission:
    """Under a load that never ends, a driver ends by the clock."""
    return replace(site.mission(hop, proxied=proxied), at_most_seconds=ROUND_SECONDS)


def _sizes(site: Site, started: float) -> Sizes:
    hop = site.hop
    batches = _count(hop.source.name, "select count(*) from relaybox_internal.batch where hop = %s", hop.name)
    rows = _count(
        hop.source.name, "select count(*) from relaybox_internal.confirmation where hop = %s and state = 'received'", hop.name
    )
    rows += _count(
        hop.destination.name,
        "select count(*) from relaybox_internal.arrival a join relaybox_internal.hop_in i using (log_id) where hop = %s",
        hop.name,
    )
    sessions = "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'relaybox %%'"
    locks = f"select count(*) from pg_locks where pid in ({sessions.replace('count(*)', 'pid')})"
    return Sizes(
        at_second=round(time.monotonic() - started, 1),
        batches=batches,
        ledger_rows_per_batch=rows / max(1, batches),
        driver_sessions=sum(_count(store, sessions) for store in STORES),
        driver_locks=sum(_count(store, locks) for store in STORES),
        resident_megabytes=_resident_megabytes(),
    )


def _resident_megabytes() -> float:
    line = next(line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def _count(store: str, query: str, *arguments: object) -> int:
    with closing(psycopg2.connect(service=store)) as connection, connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return int(cursor.fetchone()[0])


def _lines(result: Soak) -> Iterator[str]:
    shortcomings = list(result.shortcomings())
    yield "# Soak report"
    yield ""
    yield f"Made by `python -m tests.faults.soak --minutes {result.minutes:g} --seed {result.seed}`. Do not edit; run the command."
    yield ""
    yield "| messages | R | UR | rate without faults | rate with faults | faults | slowest recovery |"
    yield "|--:|--:|--:|--:|--:|--:|--:|"
    slowest = max((target.recovery_seconds for target in result.faults), default=0.0)
    yield (
        f"| {result.messages:,} | {result.r:g} | {result.ur:g} | {result.rate_without_faults:.0f}/s | {result.rate_with_faults:.0f}/s "
        f"| {len(result.faults)} | {slowest:.1f} s |"
    )
    yield ""
    yield "Every target was met." if not shortcomings else "Missed: " + "; ".join(shortcomings)
    yield ""
    yield from _change_lines(result.changes)
    yield "| second | fault | recovery s |"
    yield "|--:|---|--:|"
    yield from (f"| {target.at_second} | {target.cell} | {target.recovery_seconds} |" for target in result.faults)
    yield ""
    yield "| second | batches | ledger rows per batch | sessions | locks | resident MB |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for one in result.sizes:
        yield (
            f"| {one.at_second} | {one.batches} | {one.ledger_rows_per_batch:.2f} | {one.driver_sessions} | {one.driver_locks} "
            f"| {one.resident_megabytes:.0f} |"
        )


def _change_lines(changes: ChangeSoak) -> Iterator[str]:
    yield f"Then {changes.seconds / 60:.1f} minutes in which relaybox.yaml and settings changed, stores were restored and rows were dropped, at random:"
    yield ""
    yield "| messages | dropped | lost, doubled or out of order |"
    yield "|--:|--:|--:|"
    yield f"| {changes.messages:,} | {changes.dropped:,} | {len(changes.breaches)} |"
    yield ""
    yield "| action | times |"
    yield "|---|--:|"
    yield from (f"| {name} | {count} |" for name, count in changes.actions.items())
    yield ""


def run(
    *,
    minutes: Annotated[float, typer.Option(help="How long, all in all.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of the faults and of the producers.")] = 1,
    fault_every: Annotated[float, typer.Option(help="Seconds from one fault to the next.")] = FAULT_EVERY_SECONDS,
    report: Annotated[Path, typer.Option(help="Where the report goes; its JSON beside it.")] = Path("docs/soak-report.md"),
) -> None:
    """Keeps a route under load, injects a fault once a minute, and reports what that costs. Exit code 1 when an aim is missed."""
    with scratch_directory("soak") as directory:
        directory.chmod(0o711)  # the servers' account passes through
        result = soak(minutes / 2, seed=seed, directory=directory / "faults", fault_every_seconds=fault_every)
        result.minutes, result.changes = minutes, _soak_changes(directory / "changes", seconds=minutes * 30, seed=seed)
    report.write_text("\n".join(_lines(result)) + "\n", encoding="utf-8")
    report.with_suffix(".json").write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")
    shortcomings = list(result.shortcomings())
    for shortcoming in shortcomings:
        typer.echo(shortcoming, err=True)
    typer.echo(f"{result.messages} messages, {len(result.faults)} faults, report in {report}")
    raise typer.Exit(1 if shortcomings else 0)


if __name__ == "__main__":
    typer.run(run)
