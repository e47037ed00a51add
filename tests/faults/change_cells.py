"""A relaybox.yaml that changes, or stores that are restored, while a driver is at a failpoint: before its step took effect, or after.

`paused`: the driver waits there, and goes on with the file that it had read. `killed`: it is gone, and another one recovers.
The cells turn over the failpoints, so that each has every moment, and over all of them each change and each restore has its turn.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from relaybox.failpoints import FAILPOINTS
from relaybox.hops.confirmations import settle_hop
from tests.faults.cells import FORGET_STORE_IDS, is_first_meeting, killed_before, repair
from tests.faults.change_machine import ChangeMachine
from tests.faults.changes import BOTH, CHANGES
from tests.faults.drivers import AttemptOwner, Mission, driver
from tests.faults.lives import in_lives
from tests.faults.restores import RESTORES, Databases
from tests.support.patience import patience
from tests.support.world import STORES, World, wait_until

BATCH_ROWS = 5
MESSAGES = 12
OPPOSITES = {"path_extended": "path_cut", "topic_added": "topic_removed"}
"""Changes that another one goes before."""

STRUCK_CHANGES = tuple(change for change in CHANGES if change != "route_brought_back")
"""A route that is brought back has no driver at a failpoint: it goes while one is there."""

WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'relaybox init' and wait_event_type = 'Lock'
    """


@dataclass(frozen=True)
class ChangeCell:
    """A change of the file, or a restore of some stores, while a driver of the first hop is at a failpoint."""

    failpoint: str
    what: str
    moment: Literal["paused", "killed"]
    stores: tuple[str, ...] = ()
    same_timeline: bool = False

    def __str__(self) -> str:
        return f"{self.failpoint}-{self.what}-{self.moment}"


def change_cells() -> tuple[ChangeCell, ...]:
    """Each failpoint of a transfer, paused and killed, with three changes each in turn; a path that is cut has no later hop to hear of."""
    turns = itertools.cycle(STRUCK_CHANGES)
    cells = (
        ChangeCell(failpoint, next(turns), moment)
        for failpoint in struck_failpoints()
        for moment in ("paused", "killed")
        for _ in range(3)
    )
    return tuple(cell for cell in cells if not (cell.failpoint.startswith("downstream.") and cell.what == "path_extended"))


def restore_cells() -> tuple[ChangeCell, ...]:
    """Each failpoint of a transfer, with two sets of stores in turn: one restored into another cluster, one by a storage snapshot."""
    turns = itertools.cycle(RESTORES)
    return tuple(
        restore_cell(failpoint, next(turns), same_timeline=same_timeline)
        for failpoint in struck_failpoints()
        for same_timeline in (False, True)
    )


def restore_cell(failpoint: str, stores: tuple[str, ...], *, same_timeline: bool) -> ChangeCell:
    """Stores that are restored when a driver was killed at a failpoint."""
    how = "snapshot" if same_timeline else "restored"
    return ChangeCell(failpoint, f"{how}_{'_'.join(stores)}", "killed", stores, same_timeline)


def struck_failpoints() -> Iterator[str]:
    return (failpoint for failpoint in FAILPOINTS if not repair(failpoint) and not killed_before(failpoint))


def run_change_cell(cell: ChangeCell, world: World, databases: Databases, directory: Path) -> int:
    """Returns how many messages were sent; fails when one is lost, doubled, or out of order within its topic.

    Args:
        cell: what happens.
        world: three stores without messages, with small segments.
        databases: where they are, for restores.
        directory: for the driver's files.
    """
    with machine_in(world, databases) as machine:
        make_ready(machine, cell.failpoint, cell)
        inject_with_change(cell, machine, directory)
        machine.send(MESSAGES, BOTH, True)
        move(machine)
    return next(machine.numbers) - 1


Machine = TypeVar("Machine", bound=ChangeMachine)


def machine_in(
    world: World, databases: Databases, *, batch_rows: int = BATCH_ROWS, both: bool = True
) -> AbstractContextManager[ChangeMachine]:
    """A life whose steps are chosen; at its end everything must have arrived."""
    return life_of(ChangeMachine, world, databases, batch_rows=batch_rows, both=both)


@contextmanager
def life_of(kind: type[Machine], world: World, databases: Databases, *, batch_rows: int, both: bool) -> Iterator[Machine]:
    """The same of a machine of this kind."""
    machine = in_lives(kind, lambda: nullcontext((world, databases)))()
    machine.build(batch_rows=batch_rows, both=both)
    try:
        yield machine
        machine.require_nothing_lost()
    except BaseException:
        machine.stack.close()
        raise
    machine.teardown()


def make_ready(machine: ChangeMachine, failpoint: str, cell: ChangeCell | None, *, is_first: bool = True) -> None:
    """Everything is moved, but the newest messages; the driver of the first hop will find those, and something to settle.

    Args:
        machine: the route.
        failpoint: it has to be reached.
        cell: the change or the restore that comes then.
        is_first: otherwise what an earlier driver has left is left to the next one.
    """
    if not machine.files[0].is_there:
        machine.change("route_brought_back", 0)
    if failpoint.startswith("downstream.") and machine.files[0].path != STORES:
        machine.change("path_extended", 0)
    if is_first:
        machine.send(MESSAGES, BOTH, True)
        move(machine)
    if cell is not None and cell.what in OPPOSITES:
        machine.change(OPPOSITES[cell.what], 0)
    if cell is not None and cell.stores:
        machine.back_up()
    if is_first:
        machine.send(MESSAGES, BOTH, True)
        machine.transfer(0, 0)
    _settle_last_hop(machine)
    machine.send(MESSAGES, BOTH, True)
    if is_first_meeting(failpoint):
        for store in STORES:
            machine.world.query(store, FORGET_STORE_IDS)
    sender = f"sender-{next(machine.moments)}"  # whose declaration is news to carry
    machine.world.query("airline", "select relaybox.declare_sender(%s, 'gapless')", sender)


def move(machine: ChangeMachine) -> None:
    """All there is, to the end of the route; then retention."""
    for number in (0, 1):
        machine.transfer(number, 0)
    machine.settle(0)
    machine.retention(0)


def _settle_last_hop(machine: ChangeMachine) -> None:
    """The first hop has something to settle then."""
    if hop := machine.hop_of(1, 0):
        machine.transfer(1, 0)
        settle_hop(machine.world.route, hop, recorded_by="test")


@contextmanager
def driver_at(
    machine: ChangeMachine, failpoint: str, action: str, directory: Path, services: Path | None = None
) -> Iterator[tuple[AttemptOwner, Mission]]:
    """A driver of the first hop that has reached the failpoint. In the end it has moved everything, or may be followed."""
    directory.mkdir(parents=True, exist_ok=True)
    known = directory / "started.yaml"  # a driver goes on with the file that it was started with
    machine.files[0].write(known)
    mission = Mission(known, services or Path(os.environ["PGSERVICEFILE"]), "flights/1")
    with driver(mission, f"{failpoint}={action}", directory) as target:
        assert target.wait_for_hit(), f"{failpoint} was never reached"
        yield target, mission
        outcome = target.outcome()
    assert outcome is None or outcome.may_be_retried, outcome


def inject_with_change(cell: ChangeCell, machine: ChangeMachine, directory: Path) -> None:
    """Changes the file, or restores stores, at the moment of the cell."""
    is_killed = cell.moment == "killed"
    with driver_at(machine, cell.failpoint, "kill" if is_killed else "pause", directory) as (target, _):
        if is_killed:
            target.outcome()
        if cell.stores:
            machine.restore(cell.stores, MESSAGES, same_timeline=cell.same_timeline)
        elif is_killed:
            machine.change(cell.what, 0)
        else:
            _change_beside(cell, machine, lambda: target.release(cell.failpoint))


def _change_beside(cell: ChangeCell, machine: ChangeMachine, release: Callable[[], None]) -> None:
    """Init runs until it is done or waits for a row that the driver holds; then the driver goes on."""
    failed: list[BaseException] = []

    def change() -> None:
        try:
            machine.change(cell.what, 0)
        except BaseException as error:  # noqa: BLE001, raised again below
            failed.append(error)

    init = threading.Thread(target=change)
    init.start()
    wait_until(lambda: not init.is_alive() or any(machine.world.value(store, WAITING) for store in STORES), "init ends, or waits")
    release()
    init.join(patience(60.0))
    assert not init.is_alive()
    if failed:
        raise failed[0]
