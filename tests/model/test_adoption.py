"""Every reachable state of one adopted table: its rules hold G1, G3 and G5, and each of them is needed."""

from __future__ import annotations

import pytest

from tests.model.adoption import SWITCHES, explore


def test_an_adoption_loses_doubles_and_turns_round_no_row() -> None:
    """With two writers, and a command that is killed twice."""
    states, violation, trace = explore()
    assert violation is None, (violation, trace)
    assert states > 1_000  # else the bounds shut out what they are to show


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_rule_of_adoption_that_is_broken_is_caught(switch: str) -> None:
    states, violation, trace = explore(frozenset({switch}))
    print(states, violation, *trace, sep="\n")
    assert violation is not None
