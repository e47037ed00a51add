"""R, UR and delivery modes: the formulas A0.1 to A0.14 of docs/requirements.md."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.verification.reliability import (
    PERFECT,
    Delivery,
    DeliveryMode,
    compose,
    delivery_mode,
    is_no_reading,
    measure_delivery,
    show_ratio,
)

UNRELIABLE, AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE = DeliveryMode

deliveries = st.builds(
    lambda lost, unique, copies: measure_delivery(sent=lost + unique, unique_received=unique, received=unique + copies),
    lost=st.integers(0, 5),
    unique=st.integers(1, 1_000_000),
    copies=st.integers(0, 5),
)


def test_reliability_is_unique_received_by_sent_and_uniqueness_is_unique_by_all_received() -> None:
    """A0.1 to A0.4."""
    delivery = measure_delivery(sent=100, unique_received=75, received=150)
    assert delivery == Delivery(Fraction(3, 4), Fraction(1, 2))
    assert delivery.duplication == 2


def test_nothing_due_is_nothing_lost() -> None:
    assert measure_delivery(sent=0, unique_received=0, received=0) == PERFECT


def test_perfect_rates_of_nothing_are_no_reading() -> None:
    """Nothing has arrived and nothing is missing; whatever arrived, or is missing, is a reading. None: nobody counted."""
    assert is_no_reading(PERFECT, 0)
    assert not is_no_reading(PERFECT, 1)
    assert not is_no_reading(PERFECT, None)
    assert not is_no_reading(measure_delivery(sent=1, unique_received=0, received=0), 0)


def test_strangers_alone_have_no_duplication_rate() -> None:
    assert measure_delivery(sent=1, unique_received=0, received=3).duplication is None


@pytest.mark.parametrize(
    ("sent", "unique_received", "received"),
    [(9, 10, 10), (10, 10, 9), (10, -1, 10)],
    ids=["more arrived than were sent", "more unique ones than ones", "less than none"],
)
def test_a_rate_above_one_or_below_zero_is_refused(sent: int, unique_received: int, received: int) -> None:
    """A0.1: R is never above 1."""
    with pytest.raises(ValueError, match="unique messages of"):
        measure_delivery(sent=sent, unique_received=unique_received, received=received)


@pytest.mark.parametrize(
    ("reliability", "uniqueness", "mode"),
    [
        (Fraction(9, 10), Fraction(9, 10), UNRELIABLE),
        (Fraction(9, 10), Fraction(1), AT_MOST_ONCE),
        (Fraction(1), Fraction(9, 10), AT_LEAST_ONCE),
        (Fraction(1), Fraction(1), EXACTLY_ONCE),
    ],
)
def test_the_mode_follows_from_the_pair(reliability: Fraction, uniqueness: Fraction, mode: DeliveryMode) -> None:
    """A0.5 to A0.8."""
    assert Delivery(reliability, uniqueness).mode is mode


def test_one_message_lost_of_a_billion_is_not_exactly_once() -> None:
    delivery = measure_delivery(sent=10**18, unique_received=10**18 - 1, received=10**18 - 1)
    assert delivery.mode is AT_MOST_ONCE
    assert show_ratio(delivery.reliability) == "0.999999"


def test_a_route_multiplies_its_hops() -> None:
    """A0.9, A0.10."""
    half, quarter = Delivery(Fraction(1, 2), Fraction(1, 4)), Delivery(Fraction(1, 4), Fraction(1))
    assert compose([half, quarter]) == Delivery(Fraction(1, 8), Fraction(1, 4))


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        pytest.param(AT_MOST_ONCE, AT_LEAST_ONCE, UNRELIABLE, id="A0.11"),
        pytest.param(EXACTLY_ONCE, AT_LEAST_ONCE, AT_LEAST_ONCE, id="A0.12"),
        pytest.param(EXACTLY_ONCE, AT_MOST_ONCE, AT_MOST_ONCE, id="A0.13"),
        *(pytest.param(UNRELIABLE, other, UNRELIABLE, id=f"A0.14 {other}") for other in DeliveryMode),
    ],
)
def test_modes_compose(first: DeliveryMode, second: DeliveryMode, whole: DeliveryMode) -> None:
    assert first.then(second) is whole
    assert second.then(first) is whole


@given(st.lists(deliveries, max_size=5))
def test_the_mode_of_the_product_is_the_composition_of_the_modes(hops: list[Delivery]) -> None:
    composed = EXACTLY_ONCE
    for hop in hops:
        composed = composed.then(hop.mode)
    assert compose(hops).mode is composed


@given(st.booleans(), st.booleans())
def test_a_mode_is_what_it_loses_and_doubles(loses: bool, doubles: bool) -> None:
    mode = delivery_mode(loses=loses, doubles=doubles)
    assert (mode.loses, mode.doubles) == (loses, doubles)


@given(deliveries)
def test_only_one_is_shown_as_one(delivery: Delivery) -> None:
    assert (show_ratio(delivery.reliability) == "1") == (delivery.reliability == 1)
