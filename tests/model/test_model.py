"""Every reachable state of a small world: the protocol holds its guarantees in all of them, broken ones do not."""

from __future__ import annotations

import pytest

from tests.model.explore import explore
from tests.model.protocol import Protocol
from tests.model.rules import Bounds
from tests.model.state import HUB, SHOP
from tests.model.variants import CALM, HUB_CRASHES, REDUNDANT, VARIANTS, Variant

WORLDS = [
    Bounds(hops=1, messages=(1, 1), drivers=2, crashes=1),
    Bounds(hops=1, messages=(1, 2), drivers=1, crashes=1, batch_rows=2, fragile=(SHOP,)),
    Bounds(hops=1, messages=(1, 1), drivers=1, crashes=1, failovers=1, fragile=(SHOP, HUB)),
    Bounds(hops=1, messages=(1, 1), drivers=2, crashes=0, passes=True),
    Bounds(hops=1, messages=(1, 1), drivers=1, crashes=1, failovers=1, fragile=(SHOP,), passes=True),
    Bounds(hops=1, messages=(1, 1), drivers=1, crashes=0, topics="a", sends=("a", "b"), changes=2, retention=True, passes=True),
    Bounds(hops=2, messages=(1, 1), drivers=1, crashes=1),
    Bounds(hops=2, messages=(0, 1), drivers=2, crashes=2),
    Bounds(hops=2, messages=(0, 1), drivers=2, crashes=0, failovers=1),
    Bounds(hops=2, messages=(0, 2), drivers=1, crashes=1, processed=True),
    Bounds(hops=1, messages=(1, 1), drivers=1, crashes=0, topics="ab", sends=("a", "b"), changes=2, retention=True),
    Bounds(hops=1, messages=(1, 0), drivers=2, crashes=1, topics="a", sends=("b", "a"), changes=2, retention=True),
    Bounds(hops=1, messages=(1, 1), drivers=1, crashes=0, topics="a", sends=("b", "a"), changes=2, retires=True, retention=True),
    Bounds(
        hops=1,
        messages=(0, 1),
        drivers=1,
        crashes=0,
        failovers=1,
        fragile=(SHOP,),
        topics="a",
        sends=("a", "b"),
        changes=2,
        retires=True,
        retention=True,
    ),
    Bounds(
        hops=1,
        messages=(0, 1),
        drivers=1,
        crashes=0,
        failovers=2,
        fragile=(SHOP, HUB),
        topics="ab",
        sends=("a", "b"),
        changes=1,
        retention=True,
        reloads=True,
    ),
]
SMALLEST_STATES = 1_000


@pytest.mark.parametrize("bounds", WORLDS, ids=str)
def test_the_protocol_holds(bounds: Bounds) -> None:
    """G1-G5, G7, G8, G11, G12 and liveness in every state that two senders, zombies, crashes and failovers can bring about."""
    result = explore(Protocol(bounds))
    print(result)
    assert result.violation is None, str(result)
    assert result.exhausted
    assert result.states > SMALLEST_STATES  # else the bounds shut out what they are to show


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_a_broken_protocol_is_caught(variant: Variant) -> None:
    """With a rule switched off there is a way to break its guarantee, and the shortest is told step by step."""
    result = explore(Protocol(variant.bounds, variant.switches), only=variant.guarantee)
    assert result.violation is not None
    assert result.violation.startswith(variant.guarantee)
    assert len(result.trace) == result.depth
    print(result)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_rule_is_what_holds(variant: Variant) -> None:
    """In the same bounds and with the rule in force, the first 5,000 states hold: the switch is what breaks the others."""
    result = explore(Protocol(variant.bounds), only=variant.guarantee, at_most=5_000)
    assert result.violation is None, str(result)


@pytest.mark.parametrize("rule", REDUNDANT, ids=REDUNDANT)
@pytest.mark.parametrize("bounds", [CALM, HUB_CRASHES], ids=["calm", "crashes"])
def test_a_second_rule_covers_for_it(rule: str, bounds: Bounds) -> None:
    """Rules that another one makes good for: nothing is violated as long as only this one is missing."""
    result = explore(Protocol(bounds, frozenset({rule})))
    assert result.violation is None, str(result)
    assert result.exhausted
