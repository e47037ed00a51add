"""A relaybox.yaml that changes, or stores that are restored, while a driver is at a failpoint: before its step took effect, or after.

`paused`: the driver waits there, and goes on with the file that it had read. `killed`: it is gone, and another one recovers.
The cells turn over the failpoints, so that each has every moment, and over all of them each change and each restore has its turn.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relaybox.failpoints import FAILPOINTS
from tests.faults.cells import killed_before, repair
from tests.faults.change_machine import ChangeMachine
from tests.faults.changes import BOTH, CHANGES, STORES
from tests.faults.drivers import Mission, driver
from tests.faults.restores import Databases
from tests.patience import patience
from tests.world import World, wait_until

BATCH_ROWS = 5
MESSAGES = 12
OPPOSITES = {"path_extended": "path_cut", "topic_added": "topic_removed"}
"""Changes that another one goes before. A route that is brought back has no driver at a failpoint: it goes while one is there."""

RESTORES = (("airline",), ("hub",), ("analytics",), ("airline", "hub"), ("airline", "analytics"), ("hub", "analytics"), STORES)
"""One, two and all stores of the route."""

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

    def __str__(self) -> str:
        return f"{self.failpoint}-{self.what}-{self.moment}"


def change_cells() -> tuple[ChangeCell, ...]:
    """Each failpoint of a transfer, paused and killed, with three changes each in turn."""
    turns = itertools.cycle(change for change in CHANGES if change != "route_brought_back")
    return tuple(
        ChangeCell(failpoint, next(turns), moment)
        for failpoint in _failpoints()
        for moment in ("paused", "killed")
        for _ in range(3)
    )


def restore_cells() -> tuple[ChangeCell, ...]:
    """Each failpoint of a transfer, with two sets of stores in turn."""
    turns = itertools.cycle(RESTORES)
    return tuple(
        ChangeCell(failpoint, f"restored_{'_'.join(stores)}", "killed", stores)
        for failpoint in _failpoints()
        for stores in (next(turns), next(turns))
    )


def _failpoints() -> Iterator[str]:
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
        if cell.what in OPPOSITES:
            machine.send(MESSAGES, BOTH, True)
            _move(machine)
            machine.change(OPPOSITES[cell.what], 0)
        machine.send(MESSAGES, BOTH, True)
        _move(machine)
        if cell.stores:
            machine.back_up()
        machine.send(MESSAGES, BOTH, True)
        _strike(cell, machine, directory)
        machine.send(MESSAGES, BOTH, True)
        _move(machine)
    return next(machine.numbers) - 1


@contextmanager
def machine_in(world: World, databases: Databases, *, batch_rows: int = BATCH_ROWS, both: bool = True) -> Iterator[ChangeMachine]:
    """A life whose steps are chosen; at its end everything must have arrived."""

    class Machine(ChangeMachine):
        pass

    Machine.make_world = staticmethod(lambda: nullcontext((world, databases)))
    machine = Machine()
    machine.build(batch_rows=batch_rows, both=both)
    try:
        yield machine
        found = machine.account.look()
        assert not found, found
    except BaseException:
        machine.stack.close()
        raise
    machine.teardown()


def _move(machine: ChangeMachine) -> None:
    for number in (0, 1):
        machine.transfer(number, 0)
    machine.settle(0)
    machine.retention(0)


def _strike(cell: ChangeCell, machine: ChangeMachine, directory: Path) -> None:
    files = directory / "driver"
    machine.world.query("airline", "select relaybox.declare_sender('new', 'gapless')")  # news to carry
    known = directory / "started.yaml"  # a driver goes on with the file that it was started with
    machine.files[0].write(known)
    mission = Mission(known, Path(os.environ["PGSERVICEFILE"]), "flights/1")
    action = "pause" if cell.moment == "paused" else "kill"
    with driver(mission, f"{cell.failpoint}={action}", files) as struck:
        assert struck.wait_for_hit(), f"{cell.failpoint} was never reached"
        if cell.moment == "killed":
            struck.outcome()
        if cell.stores:
            machine.restore(cell.stores, MESSAGES)
        elif cell.moment == "killed":
            machine.change(cell.what, 0)
        else:
            _change_beside(cell, machine, lambda: struck.release(cell.failpoint))
        outcome = struck.outcome()
    assert outcome is None or outcome.may_be_retried, outcome


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
