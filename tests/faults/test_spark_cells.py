"""Killed workers, executors, applications and clusters, racing and frozen tasks: with real executors nothing is lost or doubled.

SPARK_CELL_MESSAGES sets the size of a cell; `python -m tests.faults.spark_cells` runs the full set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.sites import Clusters
from tests.faults.spark_cells import CELLS, SparkCell, run_cell
from tests.support.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark import SparkContext

pytestmark = pytest.mark.thorough

MESSAGES = int(os.environ.get("SPARK_CELL_MESSAGES", "1600"))


@pytest.fixture(scope="module")
def context() -> Iterator[SparkContext]:
    """One session for all cells."""
    with spark_session() as context:
        yield context


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_g3_spark_cell(cell: SparkCell, context: SparkContext, sides: Clusters, tmp_path: Path) -> None:
    """Every failpoint of the cell is hit, and the checker finds the logs complete, unique, dense and in order."""
    result = run_cell(cell, context, sides, tmp_path / "cell", messages=MESSAGES)
    assert result.violations == []
    assert result.hit == len(cell.failpoints)
    assert result.messages > MESSAGES / 2
