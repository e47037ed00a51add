"""Random pairs of faults: the second one strikes the driver that has to clean up after the first."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.faults.cell_run import Strike
from tests.faults.cells import all_cells, killed_before, repair


@dataclass(frozen=True)
class Pair:
    """Two strikes, drawn from a seed; the seed is also the producers'."""

    seed: int
    first: Strike
    second: Strike

    def __str__(self) -> str:
        return f"{self.first.failpoint}-{self.first.fault}+{self.second.failpoint}-{self.second.fault}-seed{self.seed}"


def draw_pair(seed: int) -> Pair:
    """The same seed gives the same pair, as long as the matrix is the same."""
    chosen = random.Random(seed).sample(_STRIKES, 2)
    return Pair(seed, *chosen)


def _combines(failpoint: str) -> bool:
    """Repairs and what needs an earlier victim bring a fault of their own: they are pairs already."""
    return not repair(failpoint) and not killed_before(failpoint)


_STRIKES = [Strike(cell.failpoint, cell.fault) for cell in all_cells() if cell.kind == "outbox" and _combines(cell.failpoint)]
