"""Runs one cell: five batches with applications at work, the fault at the third, then quiet and the checker's outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg2

from relaybox.routes import Hop
from tests.faults import adopted, derived
from tests.faults.cells import FORGET_STORE_IDS, is_first_meeting, killed_before, repair
from tests.faults.checker import INVARIANTS, Violation, check, read_stores, reliability, unsettled
from tests.faults.drivers import Outcome, drive, driver
from tests.faults.faults import FAULTS, Fault, Scene
from tests.faults.history import read_history
from tests.faults.sites import STORES, Clusters, SetUp, Site, fresh_site
from tests.faults.stores import UNDISTURBED
from tests.faults.workload import ACKNOWLEDGED, Workload
from tests.support.patience import Deadline
from tests.support.world import wait_until

BATCH_ROWS = 24
MESSAGES_PER_TRANSACTION = 3.2
"""What a producer sends in the mean; its transactions have 1 to 6 messages, and some are rolled back."""

LIVENESS_SECONDS = 60.0
"""With the fault healed, everything has arrived and is settled before this."""


OF_ONE_GENERATION = ("batch_chain", "one_batch_each", "batch_content")
"""Invariants of snapshots that follow each other; a reanchored hop begins anew, above an anchor in seq."""

_HALF_MOVED = "adopt_batch.committed"
"""Where a command of adoption rests while a hop is under test: the first messages of the backlog are moved."""

_ANOTHER_FINGERPRINT = "update relaybox_internal.hop_out set timeline = timeline + 1 returning timeline"
"""As after a promotion or an upgrade: the cluster is not the one that the ledger was written by."""


@dataclass(frozen=True)
class Injection:
    """A fault at a failpoint: one of the matrix by its name, or another one."""

    failpoint: str
    fault: str | Fault

    @property
    def what(self) -> Fault:
        return self.fault if isinstance(self.fault, Fault) else FAULTS[self.fault]


@dataclass
class CellResult:
    """What a cell did and found. A cell is good when every injection hit and nothing was violated."""

    name: str
    seed: int
    hits: int = 0
    seconds: float = 0.0
    recovery_seconds: list[float] = field(default_factory=list)
    batches: int = 0
    resumed: int = 0
    messages: int = 0
    errors: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.problems


def run_cell(
    name: str,
    injections: Sequence[Injection],
    sides: Clusters,
    directory: Path,
    *,
    kind: str,
    batch_rows: int = BATCH_ROWS,
    seed: int = 1,
    set_up: SetUp | None = None,
    examine: Callable[[Site], Iterable[str]] = lambda _: (),
) -> CellResult:
    """Runs a workload through the faults, one after another, each at a driver that finds what the last one left.

    Args:
        name: of the cell, for the report.
        injections: what happens; the first one at the third batch.
        sides: the clusters; all faults on them are healed afterwards.
        directory: for the histories and the drivers' files; must not hold anything of another cell.
        kind: of the hop under test; see Cell.
        batch_rows: messages of a batch at most.
        seed: of the producers.
        set_up: what is done to the databases before `relaybox init`, and after it.
        examine: finds problems in what is there in the end, beside the checker.
    """
    started = time.monotonic()
    result = CellResult(name, seed)
    with fresh_site(sides, kind, directory, batch_rows=batch_rows, set_up=set_up) as site:
        _Run(site, batch_rows, result).through(injections)
        result.problems += examine(site)
    result.seconds = time.monotonic() - started
    return result


@dataclass
class _Run:
    site: Site
    batch_rows: int
    result: CellResult
    has_generations: bool = False

    def through(self, injections: Sequence[Injection]) -> None:
        history, hop = self.site.directory / "history", self.site.hop
        begins_later = injections[0].failpoint.startswith("derive_version.")
        targets = adopted.TARGETS if self.site.adopts else {}
        with Workload(history, self.site.hops, seed=self.result.seed, targets=targets) as workload:
            self._send(workload, batches=2)
            wait_until(lambda: workload.is_idle, "the first two batches are sent")
            self._move_everything(derive=not begins_later)
            for number, injection in enumerate(injections, 1):
                if number > 1 and hop.downstream:
                    self._take_over(hop.downstream)  # or there would be nothing new to settle
                if self.site.adopts:
                    self._prepare_adoption(injection.failpoint, number, workload)
                self._send(workload, batches=2 if number == len(injections) else 1)
                with self._half_moved_backlog(injection, number):
                    self._inject(injection, number, workload)
                if self.site.adopts:
                    self._finish_adoption(injection.failpoint, workload)
            self._recover()
            self._send(workload, batches=1)
            wait_until(lambda: workload.is_idle, "the last batch is sent")
            workload.stop_producers()
            self._move_everything()
            self._settle_everything(workload)
            self._wait_for_consumers(workload)
        self._judge(history)

    def _send(self, workload: Workload, *, batches: int, but: str = "") -> None:
        """Asks for this number of batches, of all senders but one, and returns when there is something to move."""
        before = workload.acknowledged_count
        workload.send(max(1, round(batches * self.batch_rows / len(workload.senders) / MESSAGES_PER_TRANSACTION)), but=but)
        wait_until(lambda: workload.acknowledged_count > before, "the first of the transactions is committed")

    def _inject(self, injection: Injection, number: int, workload: Workload) -> None:
        fault, hop, to_repair = injection.what, self.site.hop, repair(injection.failpoint)
        if hop.upstream:
            self._take_over(hop.upstream)
        if self.site.derives:
            self._take_over(hop.name)
        if self.site.kind == "processed":
            self._acknowledge_less_than_there_is(workload)
        if killed := killed_before(injection.failpoint):
            self._kill_driver_at(killed, number)
        if to_repair:
            _ask(hop.source.name, _ANOTHER_FINGERPRINT)
            self.has_generations = to_repair == "reanchor"
        self._give_news(injection.failpoint, number)
        fails_first = injection.failpoint.startswith("derive_failure.")
        work = adopted.command_of(injection.failpoint) or self.site.work
        if work == "unadopt":
            self._leave_backlog(number, workload)
        mission = self.site.mission(work, proxied=True, repair=to_repair, fails_first=fails_first)
        files = self.site.directory / f"driver_{number}"
        with driver(mission, f"{injection.failpoint}={fault.action}", files) as target:
            if target.wait_for_hit():
                self.result.hits += 1
                take_over = partial(self._take_over, work, repairing=to_repair)
                fault.inject(Scene(self.site, target, injection.failpoint, take_over))
            else:
                self.result.problems.append(f"{injection.failpoint} was never reached")
            self._note(target.outcome(), killed=fault.action == "kill", may_stop=fault.may_stop)
        if to_repair:
            self._take_over(hop.name, repairing=to_repair)
        if self.site.kind == "processed":
            looks = workload.look_count
            wait_until(lambda: workload.look_count > looks + 1, "the watcher looks at what the fault left")

    def _give_news(self, failpoint: str, number: int) -> None:
        """What a step needs that is taken only when there is news."""
        hop = self.site.hop
        if failpoint.startswith("senders."):
            _ask(hop.source.name, "select relaybox.declare_sender(%s, 'gapless')", f"declared-{number}")  # news to carry
        if failpoint.startswith("derive_version.") and number > 1:
            self.site.raise_version()
        if failpoint.startswith("topics."):
            _ask(hop.destination.name, "select relaybox.subscribe(%s, %s)", f"subscriber-{number}", f"topic-{number}")
        if is_first_meeting(failpoint):
            for store in (hop.source, hop.destination):
                _ask(store.name, FORGET_STORE_IDS)

    def _prepare_adoption(self, failpoint: str, number: int, workload: Workload) -> None:
        """Rows of app.late are not adopted, and rows of app.odd are unmapped, if that is what the step needs."""
        if number > 1:
            wait_until(lambda: workload.is_idle, "nobody writes into app.late")
            self._take_over("unadopt")
            _change("airline", "truncate app.late")
        if adopted.command_of(failpoint) == "send_unmapped":
            store = self.site.routes.stores["airline"]
            adopted.adopt_odd(store, is_right=False)
            workload.note_rows("airline", [f"odd {number}.{row}" for row in range(5)], adopted.INSERT_ODD)
            adopted.adopt_odd(store, is_right=True)

    @contextmanager
    def _half_moved_backlog(self, injection: Injection, number: int) -> Iterator[None]:
        """Where a hop is under test: the backlog of app.late is half moved, and its command goes on after the fault."""
        if not self.site.adopts or adopted.command_of(injection.failpoint):
            yield
            return
        mission = self.site.mission("adopt", proxied=True)
        with driver(mission, f"{_HALF_MOVED}=pause", self.site.directory / f"adoption_{number}") as adoption:
            assert adoption.wait_for_hit(), f"{_HALF_MOVED} was never reached"
            yield
            adoption.release(_HALF_MOVED)
            self._note(adoption.outcome(), killed=False, may_stop=False)

    def _leave_backlog(self, number: int, workload: Workload) -> None:
        """A command was killed before it moved the backlog of app.late; nobody writes there any more, but into other tables."""
        wait_until(lambda: workload.is_idle, "nobody writes into app.late")
        with driver(self.site.mission("adopt"), "adopt.committed=kill", self.site.directory / f"adoption_{number}") as killed:
            assert killed.wait_for_hit(), "adopt.committed was never reached"
            killed.outcome()
        self._send(workload, batches=1, but=adopted.WAITING_SENDER)

    def _finish_adoption(self, failpoint: str, workload: Workload) -> None:
        """What the command under test began is done, and app.late is adopted."""
        command = adopted.command_of(failpoint)
        if command:
            self._take_over(command)
        if command == "unadopt":
            _change("airline", "truncate app.late")
        self._take_over("adopt")

    def _acknowledge_less_than_there_is(self, workload: Workload) -> None:
        """What there was is acknowledged and not settled; then more is published. The last COMMIT is one that nobody waited for."""
        there_was = self._published(self.site.hop)
        self._take_over(self.site.hop.name)
        self._acknowledge(workload, there_was)

    def _acknowledge(self, workload: Workload, through: int) -> None:
        hop = self.site.hop
        workload.acknowledge(through)
        wait_until(
            lambda: _ask(hop.destination.name, ACKNOWLEDGED, list(hop.processed_by))[0] >= through,
            f"{', '.join(hop.processed_by)} have acknowledged through {through}",
        )

    def _kill_driver_at(self, failpoint: str, number: int) -> None:
        files = self.site.directory / f"driver_before_{number}"
        with driver(self.site.mission(self.site.hop.name), f"{failpoint}=kill", files) as killed:
            assert killed.wait_for_hit(), f"{failpoint} was never reached"
            killed.outcome()

    def _note(self, outcome: Outcome | None, *, killed: bool, may_stop: bool) -> None:
        """A driver with a fault may fail, but only with an error that the orchestrator answers with another attempt."""
        if outcome is None:
            if not killed:
                self.result.problems.append("the driver died of an error that is none of ours")
        elif outcome.error:
            self.result.errors.append(outcome.error)
            if not outcome.is_transient and not may_stop:
                self.result.problems.append(f"the driver gave up for good: {outcome.error}")

    def _recover(self) -> None:
        healed = time.monotonic()
        self._take_over(self.site.work)
        self.result.recovery_seconds.append(time.monotonic() - healed)

    def _take_over(self, work: str, *, repairing: str = "") -> Outcome:
        """What the orchestrator does: starts attempts until one succeeds."""
        deadline = Deadline(LIVENESS_SECONDS)
        while True:
            outcome = drive(self.site.mission(work, repair=repairing))
            self.result.resumed += outcome.resumed_count
            if not outcome.error:
                return outcome
            assert outcome.is_transient, f"a driver without a fault gave up for good: {outcome.error}"
            assert not deadline.is_over(), f"not within {deadline}: {work} moves; {outcome.error}"

    def _move_everything(self, *, derive: bool = True) -> None:
        for hop in self.site.route.hops:
            self._take_over(hop.name)
        if self.site.derives and derive:
            for work in (self.site.work, *(hop.name for hop in self.site.hops[len(self.site.route.hops) :])):
                self._take_over(work)

    def _settle_everything(self, workload: Workload) -> None:
        if self.site.kind == "processed":
            self._acknowledge(workload, self._published(self.site.hop))
            self._take_over(self.site.hop.name)
        self._take_over("flights/1")

    def _lost_topics(self) -> set[str]:
        """Topics that the stream behind the first hop has, and that the hop does not know of."""
        hop = self.site.route.hops[0]
        (wanted,) = _ask(
            hop.destination.name,
            "select array_agg(distinct topic) from relaybox_internal.known_topics where carried_by <> 'nobody'",
        )
        (carried,) = _ask(hop.source.name, "select topics from relaybox_internal.hop_out where hop = %s", hop.name)
        return {*wanted} - {*carried}

    def _published(self, hop: Hop) -> int:
        return _ask(hop.destination.name, "select published_position from relaybox_internal.hop_in where hop = %s", hop.name)[0]

    def _wait_for_consumers(self, workload: Workload) -> None:
        for hop in self.site.hops:
            published = self._published(hop)
            wait_until(
                lambda name=hop.name, published=published: workload.seen_through(name) == published,
                f"consumers of {hop.name} see position {published}",
            )

    def _judge(self, history: Path) -> None:
        derivations = [self.site.routes.route(derived.ROUTE)] if self.site.derives else []
        stores, result = read_stores(self.site.hops, derivations), self.result
        invariants = [name for name in INVARIANTS if not self.has_generations or name not in OF_ONE_GENERATION]
        result.violations = check(read_history(history), stores, invariants=invariants)
        measured = {one.hop: one for one in reliability(stores)}["flights"]
        result.messages = measured.sent
        result.batches = len(stores.hop(self.site.hop.name).batches)
        for derivation in stores.derivations:
            result.batches = sum(attempt.state == "published" for attempt in derivation.attempts)
        if (measured.r, measured.ur) != (1.0, 1.0):
            result.problems.append(f"R is {measured.r}, UR is {measured.ur}")
        result.problems += unsettled(stores)
        if lost := self._lost_topics():
            result.problems.append(f"topics {', '.join(sorted(lost))} were subscribed to and are not carried")
        if result.batches < 5:
            result.problems.append(f"only {result.batches} batches")
        result.problems += [leftover for store in STORES for leftover in _leftovers(store)]
        if self.site.adopts:
            result.problems += adopted.leftovers(self.site.routes.stores["airline"])


def _leftovers(store: str) -> list[str]:
    """Sessions of drivers that nobody ended, and rows that nobody will publish."""
    sessions = "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'relaybox %%'"
    wait_until(lambda: _ask(store, sessions) == (0,), f"the sessions of all drivers at {store} have ended")
    staged = (
        "select count(*) from relaybox_internal.log l join relaybox_internal.hop_in i using (log_id) "
        "where l.log_position > i.published_position"
    )
    (count,) = _ask(store, staged)
    return [f"{count} staged rows are left at {store}"] if count else []


def _change(store: str, statement: str) -> None:
    with closing(psycopg2.connect(service=store, options=UNDISTURBED)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement)


def _ask(store: str, query: str, *arguments: object) -> tuple[Any, ...]:
    with closing(psycopg2.connect(service=store, options=UNDISTURBED)) as connection, connection.cursor() as cursor:
        cursor.execute(query, arguments)
        row = cursor.fetchall()[0]
        connection.commit()
    return row
