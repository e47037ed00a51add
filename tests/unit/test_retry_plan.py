"""How many attempts give which reliability (A0.21)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.errors import ConfigurationError
from relaybox.monitoring.retry_plan import Delay, MeasuredFailures, RetryPlan, plan_retries, reliability_of
from relaybox.routes import Retries
from tests.support.cli import invoke

RETRIES = Retries(attempts=5, delay_seconds=10, backoff=2.0, max_delay_seconds=60)


def plan(failure_rate: str, target: str, outage_seconds: float = 0.0) -> RetryPlan:
    return plan_retries(
        failure_rate=Fraction(failure_rate), target=Fraction(target), outage_seconds=outage_seconds, retries=RETRIES
    )


def test_a_half_becomes_three_quarters_and_seven_eighths() -> None:
    """R1 = R + (1 - R)R, and so on."""
    assert [reliability_of(Fraction(1, 2), attempts) for attempts in (1, 2, 3)] == [
        Fraction(1, 2),
        Fraction(3, 4),
        Fraction(7, 8),
    ]


@pytest.mark.parametrize(
    ("failure_rate", "target", "attempts"),
    [
        ("0.1", "0.99999", 5),
        ("0.1", "0.999991", 6),
        ("0.5", "0.875", 3),
        ("0", "0.999999999999", 1),
        ("0.3", "0.7", 1),
        ("0.9", "0.99", 44),
    ],
)
def test_the_fewest_attempts_that_meet_the_target(failure_rate: str, target: str, attempts: int) -> None:
    """Exactly: 0.1^5 leaves 0.99999, and nothing above it."""
    assert plan(failure_rate, target).attempts == attempts


@given(failure=st.fractions(0, Fraction(9, 10)), target=st.fractions(0, Fraction(999, 1000)))
def test_one_attempt_less_is_too_few(failure: Fraction, target: Fraction) -> None:
    """Whatever is asked for."""
    found = plan_retries(failure_rate=failure, target=target, outage_seconds=0, retries=RETRIES)
    assert found.reliability >= target
    assert found.attempts == 1 or reliability_of(failure, found.attempts - 1) < target


def test_delays_grow_and_are_spread_and_capped() -> None:
    """As Airflow draws them: between the delay and twice the delay, never above the longest."""
    assert plan("0.1", "0.99999").delays == (Delay(10, 20), Delay(20, 40), Delay(40, 60), Delay(60, 60))
    assert plan("0.1", "0.99999").waits_at_least_seconds == 130


def test_an_outage_is_outlasted_even_where_fewer_attempts_would_do() -> None:
    """In an outage attempts fail together, so only the waiting counts."""
    assert plan("0.01", "0.99").attempts == 1
    assert plan("0.01", "0.99", 130).attempts == 5
    assert plan("0.01", "0.99", 131).attempts == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("1", "0.9"), "the failure rate is 1, it must be from 0 to below 1"),
        (("-0.1", "0.9"), "the failure rate is -0.1"),
        (("0.1", "1"), "retries come near to 1 and never reach it"),
        (("0.99", "0.99999"), "100 attempts give 0.633968"),
        (("0.1", "0.9", 1e9), "asked for were 0.9 and 1e.09 s"),
    ],
    ids=str,
)
def test_what_no_number_of_attempts_gives_is_refused(arguments: tuple[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        plan(*arguments)


def test_no_failure_measured_is_not_no_failure() -> None:
    """Of 300 attempts none failed: at most one in a hundred does, with 95 % certainty."""
    assert MeasuredFailures(300, 0).failure_rate == Fraction(1, 100)
    assert MeasuredFailures(2, 0).failure_rate == Fraction(1, 2)
    assert MeasuredFailures(300, 30).failure_rate == Fraction(1, 10)


def test_the_command_tells_attempts_delays_and_what_to_write() -> None:
    shown = invoke("plan-retries", "--failure-rate", "10%", "--target", "0.99999").stdout
    assert "5 attempts, the first included, give 0.999990000000000" in shown
    assert "before attempt 2: 10 to 20 s" in shown
    assert "retries: {attempts: 5, delay_seconds: 10, backoff: 2, max_delay_seconds: 300}" in shown
    document = invoke("plan-retries", "--failure-rate", "1/10", "--target", "0.99999", "--json").document
    assert (document["attempts"], document["reliability"], document["measured"]) == (5, "0.999990000000000", None)
    assert document["delays"][0] == {"at_least_seconds": 10, "at_most_seconds": 20}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "0.9"], "Give --failure-rate, or a ROUTE whose failure rate is measured."),
        (["--target", "much", "--failure-rate", "0.1"], "--target is 'much'; it must be a number"),
        (["--target", "0.9", "--failure-rate", "1/0"], "--failure-rate is '1/0'"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_wrong_arguments_are_told(arguments: list[str], said: str) -> None:
    wrong = invoke("plan-retries", *arguments)
    assert wrong.exit_code == 2
    assert said in wrong.stderr
