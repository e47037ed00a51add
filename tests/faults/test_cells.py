"""Every fault at every step: nothing is lost, doubled, reordered or confirmed too early (G2, G3, G4, G5, G7).

All faults of one step strike one after another, in one place: `python -m tests.faults` gives each cell a place of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from tests.faults.cell_run import Strike, run_cell
from tests.faults.cells import Cell, all_cells
from tests.faults.places import Clusters


def cells_by_step() -> list[list[Cell]]:
    def step(cell: Cell) -> tuple[str, str]:
        return cell.failpoint, cell.kind

    return [list(cells) for _, cells in groupby(sorted(all_cells(), key=step), key=step)]


@pytest.mark.parametrize("cells", cells_by_step(), ids=lambda cells: f"{cells[0].failpoint}-{cells[0].kind}")
def test_every_fault_at(cells: Sequence[Cell], sides: Clusters, cell_directory: Path) -> None:
    """The failpoint is reached each time, the fault strikes, another driver recovers, and the checker finds nothing."""
    name = ", ".join(map(str, cells))
    strikes = [Strike(cell.failpoint, cell.fault) for cell in cells]
    result = run_cell(name, strikes, sides, cell_directory, kind=cells[0].kind)
    assert result.is_good, [name, *result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == len(cells), name
