"""Runs a pair: two faults or settings as a cell of the matrix, others in the life of a route whose file and stores may change."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.faults.cell_run import BATCH_ROWS, CellResult, Injection, run_cell
from tests.faults.change_cells import MESSAGES, ChangeCell, driver_at, inject_with_change, machine_in, make_ready, move
from tests.faults.change_jobs import run_life
from tests.faults.change_machine import ChangeMachine
from tests.faults.changes import BOTH
from tests.faults.drivers import Mission, Outcome, drive
from tests.faults.faults import Scene
from tests.faults.pairs import Pair
from tests.faults.restores import Databases
from tests.faults.setting_cells import SettingCell, inject_midway, preset
from tests.faults.sites import Clusters, Site
from tests.support.world import World, wait_until


def run_pair(pair: Pair, sides: Clusters, directory: Path, *, batch_rows: int = BATCH_ROWS) -> CellResult:
    """Runs a pair in fresh stores.

    Args:
        pair: what happens.
        sides: the clusters; all faults on them are healed afterwards.
        directory: for files; must not hold anything of another pair.
        batch_rows: messages of a batch at most, where both parts are faults or settings.
    """
    if any(isinstance(part, SettingCell) for part in pair.parts):
        preset(sides)
    parts = [inject_midway(part) if isinstance(part, SettingCell) else part for part in pair.parts]
    injections = [part for part in parts if isinstance(part, Injection)]
    if len(injections) == len(parts):
        return run_cell(str(pair), injections, sides, directory, kind="outbox", batch_rows=batch_rows, seed=pair.seed)
    return run_life(CellResult(str(pair), pair.seed), partial(_live_through, parts), sides, directory)


def _live_through(
    parts: list[Injection | ChangeCell], world: World, databases: Databases, site: Site, result: CellResult
) -> None:
    with machine_in(world, databases) as machine:
        is_clean = True
        for number, part in enumerate(parts, 1):
            files, cell = site.directory / f"driver_{number}", part if isinstance(part, ChangeCell) else None
            make_ready(machine, part.failpoint, cell, is_first=is_clean)
            if isinstance(part, Injection):
                _inject(part, machine, site, files)
            else:
                inject_with_change(part, machine, files)
            result.hits += 1
            is_clean = cell is not None and bool(cell.stores)  # the repair has moved everything
        machine.send(MESSAGES, BOTH, True)
        move(machine)
        result.messages = len(machine.account.sent)


def _inject(part: Injection, machine: ChangeMachine, site: Site, directory: Path) -> None:
    fault = part.what
    services = site.proxied_services_file
    with driver_at(machine, part.failpoint, fault.action, directory, services) as (target, mission):
        take_over = partial(_take_over, Mission(mission.routes, site.services_file, mission.hop))
        fault.inject(Scene(site, target, part.failpoint, take_over))


def _take_over(mission: Mission) -> Outcome:
    """What the orchestrator does: starts attempts until one succeeds."""
    outcomes: list[Outcome] = []

    def succeeds() -> bool:
        outcomes.append(drive(mission))
        assert outcomes[-1].may_be_retried, outcomes[-1].error
        return not outcomes[-1].error

    wait_until(succeeds, f"a driver of {mission.hop} succeeds", deadline_seconds=60.0)
    return outcomes[-1]
