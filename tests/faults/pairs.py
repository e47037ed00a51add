"""Random pairs: the second part hits the driver that has to clean up after the first.

A part is a fault of the matrix, a setting, a change of relaybox.yaml, or a restore of stores. Every second pair is two faults,
the others take turns over all other combinations.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.faults.cell_run import Injection
from tests.faults.cells import all_cells, killed_before, repair
from tests.faults.change_cells import STRUCK_CHANGES, ChangeCell, restore_cell, struck_failpoints
from tests.faults.restores import RESTORES
from tests.faults.setting_cells import FAILPOINTS, SettingCell
from tests.faults.settings import DECISIVE

Part = Injection | SettingCell | ChangeCell


@dataclass(frozen=True)
class Pair:
    """Two parts, drawn from a seed; the seed is also the producers'."""

    seed: int
    first: Part
    second: Part

    @property
    def parts(self) -> tuple[Part, Part]:
        return self.first, self.second

    def __str__(self) -> str:
        return f"{_name(self.first)}+{_name(self.second)}-seed{self.seed}"


def draw_pair(seed: int) -> Pair:
    """The same seed gives the same pair, as long as the matrix is the same."""
    chance, (number, is_mixed) = random.Random(seed), divmod(seed, 2)
    kinds = _MIXED[number % len(_MIXED)] if is_mixed else ("fault", "fault")
    while True:
        first, second = (_DRAWS[kind](chance) for kind in kinds)
        if first != second:
            return Pair(seed, first, second)


def _combines(failpoint: str) -> bool:
    """Repairs and what needs an earlier victim bring a fault of their own: they are pairs already."""
    return not repair(failpoint) and not killed_before(failpoint)


_STRIKES = [Injection(cell.failpoint, cell.fault) for cell in all_cells() if cell.kind == "outbox" and _combines(cell.failpoint)]


def _draw_change(chance: random.Random) -> ChangeCell:
    failpoint, moment = chance.choice([*struck_failpoints()]), chance.choice(("paused", "killed"))
    is_downstream = failpoint.startswith("downstream.")
    changes = [change for change in STRUCK_CHANGES if not is_downstream or change != "path_extended"]
    return ChangeCell(failpoint, chance.choice(changes), moment)


def _draw_restore(chance: random.Random) -> ChangeCell:
    stores = chance.choice(RESTORES)
    return restore_cell(chance.choice([*struck_failpoints()]), stores, same_timeline=chance.choice([False, True]))


def _draw_setting(chance: random.Random) -> SettingCell:
    return SettingCell(chance.choice(DECISIVE), "midway", chance.choice(FAILPOINTS["outbox"]))


_DRAWS: Mapping[str, Callable[[random.Random], Part]] = {
    "fault": lambda chance: chance.choice(_STRIKES),
    "change": _draw_change,
    "restore": _draw_restore,
    "setting": _draw_setting,
}

_FIRST = (("fault", "change"), ("change", "restore"), ("setting", "fault"), ("restore", "fault"))
_MIXED = (*_FIRST, *(kinds for kinds in itertools.product(_DRAWS, repeat=2) if kinds not in {*_FIRST, ("fault", "fault")}))
"""All kinds of pairs but two faults; those that the suite has come first."""


def _name(part: Part) -> str:
    match part:
        case Injection():
            return f"{part.failpoint}-{part.fault}"
        case SettingCell():
            return f"{part.failpoint}-{part.setting}"
        case ChangeCell():
            return str(part)
