"""Derivations, frames, queries and exports on real executors: killed at an executor and at the driver, nothing is lost or doubled.

`python -m tests.faults.data_spark_cells` runs the full set.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.data_application import WORKS
from tests.faults.data_spark_cells import ALL_CELLS, CELLS, FAULTS, DataCell, run_cell
from tests.faults.sites import Clusters

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_g3_data_cell(cell: DataCell, sides: Clusters, tmp_path: Path) -> None:
    """The failpoint is reached, and the runs that follow leave each message once and in its order, in the store or in the lake."""
    result = run_cell(cell, sides, tmp_path / "cell")
    assert result.problems == []
    assert result.messages > 100


def test_each_work_is_killed_at_its_executors_and_at_its_driver() -> None:
    assert {(cell.work, cell.fault) for cell in CELLS} == {(work, fault) for work in WORKS for fault in FAULTS}
    assert {*CELLS} <= {*ALL_CELLS}
