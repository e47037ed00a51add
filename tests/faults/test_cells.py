"""Every fault at every step: nothing is lost, doubled, reordered or confirmed too early (G2, G3, G4, G5, G7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cell_run import Strike, run_cell
from tests.faults.cells import Cell, all_cells
from tests.faults.places import Clusters


@pytest.mark.parametrize("cell", all_cells(), ids=str)
def test_cell(cell: Cell, sides: Clusters, cell_directory: Path) -> None:
    """The failpoint is reached, the fault strikes, another driver recovers, and the checker finds nothing."""
    result = run_cell(str(cell), [Strike(cell.failpoint, cell.fault)], sides, cell_directory, kind=cell.kind)
    assert result.is_good, [*result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == 1
