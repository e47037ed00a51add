"""Two faults in a row, at random places: the second strikes the driver that recovers from the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cell_run import run_cell
from tests.faults.pairs import Pair, draw_pair
from tests.faults.places import Clusters


@pytest.mark.parametrize("pair", [draw_pair(seed) for seed in range(1, 9)], ids=str)
def test_pair(pair: Pair, sides: Clusters, cell_directory: Path) -> None:
    """Both failpoints are reached, and the checker finds nothing."""
    result = run_cell(str(pair), [pair.first, pair.second], sides, cell_directory, kind="outbox", seed=pair.seed)
    assert result.is_good, [*result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == 2


def test_a_seed_is_a_pair() -> None:
    """A seed names one pair, and two hundred seeds name many."""
    assert draw_pair(7) == draw_pair(7)
    assert len({(draw_pair(seed).first, draw_pair(seed).second) for seed in range(200)}) > 190
