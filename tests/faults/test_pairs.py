"""Two faults, changes, restores or settings in a row, at random sites: the second hits the driver that recovers from the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.pair_run import run_pair
from tests.faults.pairs import Pair, Part, draw_pair
from tests.faults.sites import Clusters

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("pair", [draw_pair(seed) for seed in range(1, 9)], ids=str)
def test_pair(pair: Pair, sides: Clusters, cell_directory: Path) -> None:
    """Both failpoints are reached, and the checker finds nothing."""
    result = run_pair(pair, sides, cell_directory)
    assert result.is_good, [*result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == 2


def test_a_seed_is_a_pair() -> None:
    """A seed names one pair, and two hundred seeds name many."""
    assert draw_pair(7) == draw_pair(7)
    pairs = [draw_pair(seed) for seed in range(200)]
    assert len({pair.parts for pair in pairs}) > 190
    assert len({tuple(map(kind_of, pair.parts)) for pair in pairs}) == 4 * 4


def kind_of(part: Part) -> tuple[type, bool]:
    """A fault, a setting, a change or a restore."""
    return type(part), bool(getattr(part, "stores", ()))
