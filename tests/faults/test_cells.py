"""Faults at every step: nothing is lost, doubled, reordered or confirmed too early (G2, G3, G4, G5, G7).

At each step the driver is killed, and one more fault is injected after it in the same site; over all steps each fault has its turn.
Every fault at every step, each in a site of its own: `make test-faults`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.cell_run import Injection, run_cell
from tests.faults.cells import Cell, all_cells
from tests.faults.faults import FAULTS
from tests.faults.sites import Clusters


def cells_by_site() -> list[list[Cell]]:
    """Each fault at one step at least, and two faults or more at each step that knows two: the kill of the driver is one of them.

    A step has a site of its own; all steps of a kind of hop that only some routes have share one.
    """

    def step(cell: Cell) -> tuple[str, str]:
        return cell.failpoint, cell.kind

    cells = sorted(all_cells(), key=str)
    chances, turns = Counter(cell.fault for cell in cells), Counter[str]()
    chosen: dict[tuple[str, str], list[Cell]] = {step(cell): [] for cell in cells}

    def take(cell: Cell) -> None:
        chosen[step(cell)].append(cell)
        turns[cell.fault] += 1

    for cell in cells:
        if cell.fault == "kill_driver":
            take(cell)
    for fault in sorted(chances.keys() - turns.keys(), key=lambda fault: (chances[fault], fault)):
        take(min((cell for cell in cells if cell.fault == fault), key=lambda cell: len(chosen[step(cell)])))
    for key, arrival_seq in chosen.items():
        left = [cell for cell in cells if step(cell) == key and cell not in arrival_seq]
        if left and len(arrival_seq) < 2:
            take(min(left, key=lambda cell: turns[cell.fault]))
    sites: dict[tuple[str, str], list[Cell]] = {}
    for (failpoint, kind), arrival_seq in chosen.items():
        sites.setdefault((failpoint if kind in {"outbox", "log", "adopted"} else "all", kind), []).extend(arrival_seq)
    return list(sites.values())


def site_of(cells: Sequence[Cell]) -> str:
    """The name of a test."""
    failpoints = {cell.failpoint for cell in cells}
    return f"{failpoints.pop() if len(failpoints) == 1 else 'all'}-{cells[0].kind}"


def test_each_fault_has_its_turn() -> None:
    """However failpoints come and go."""
    assert {cell.fault for cells in cells_by_site() for cell in cells} == set(FAULTS)


ADOPTED_IN_THE_SUITE = ("adopt_batch.committing", "adopt_switch.committing", "unadopt.committing", "plan.committing")
"""Steps at which the default suite strikes while the producers write into adopted tables; test_adopt_steps.py kills at each of adoption."""


def marked(cells: list[Cell]) -> object:
    """All steps of a derivation have one site, and so one test: a minute. test_derivation_steps.py kills at each of them."""
    is_thorough = cells[0].kind == "derived" or (cells[0].kind == "adopted" and cells[0].failpoint not in ADOPTED_IN_THE_SUITE)
    return pytest.param(cells, marks=[pytest.mark.thorough] if is_thorough else [])


@pytest.mark.parametrize("cells", [marked(cells) for cells in cells_by_site()], ids=[site_of(cells) for cells in cells_by_site()])
def test_faults_at(cells: Sequence[Cell], sides: Clusters, cell_directory: Path) -> None:
    """The failpoint is reached each time, the fault is injected, another driver recovers, and the checker finds nothing."""
    name = ", ".join(map(str, cells))
    injections = [Injection(cell.failpoint, cell.fault) for cell in cells]
    result = run_cell(name, injections, sides, cell_directory, kind=cells[0].kind)
    assert result.is_good, [name, *result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == len(cells), name
