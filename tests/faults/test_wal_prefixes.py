"""G11 and G2 under power loss and lossy failover: any prefix of a store's WAL goes on, or stops loudly and is repaired.

`python -m tests.faults.wal_prefix` does the same for hundreds of prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.prefixes import Outcome
from tests.faults.recorded_run import Recording
from tests.faults.wal_prefix import SIDES, recorded, summarise, try_prefixes

pytestmark = pytest.mark.thorough

SEED = 7


@pytest.fixture(scope="module")
def run() -> Iterator[tuple[Recording, Path]]:
    with recorded(seed=SEED, rounds=3) as run:
        yield run


@pytest.mark.parametrize("side", SIDES)
def test_g11_every_prefix_goes_on_or_stops_and_is_repaired(run: tuple[Recording, Path], side: str) -> None:
    """Six prefixes: three of a power loss, three below what was acknowledged; two end on a new timeline."""
    recording, directory = run
    outcomes = list(try_prefixes(recording, directory, side, first=0, count=6, seed=SEED))
    print(*outcomes, sep="\n")
    assert [violation for outcome in outcomes for violation in outcome.violations] == []
    found = summarise([outcome.document for outcome in outcomes])
    assert (found["prefixes"], found["below_acknowledged"], found["promoted"]) == (6, 3, 2)
    assert all(not outcome.stopped for outcome in outcomes if _is_power_loss(outcome))
    assert found["stopped"] >= 1
    assert any(outcome.lost_acknowledged for outcome in outcomes)


def _is_power_loss(outcome: Outcome) -> bool:
    return not outcome.prefix.below and not outcome.prefix.promote
