"""When a backlog will be gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.monitoring.forecasts import forecast_drain


def test_a_backlog_drains_by_what_is_moved_less_what_arrives() -> None:
    """1,000 messages of the last 100 s arrive at 10 per second; moved at 60, they are gone after 20 s."""
    forecast = forecast_drain(backlog=1000, oldest_seconds=100.0, moving_per_second=60.0)
    assert forecast.arriving_per_second == pytest.approx(10.0)
    assert forecast.seconds_to_empty == pytest.approx(20.0)


@pytest.mark.parametrize("moving", [None, 5.0, 10.0])
def test_what_arrives_as_fast_as_it_is_moved_never_drains(moving: float | None) -> None:
    assert forecast_drain(backlog=1000, oldest_seconds=100.0, moving_per_second=moving).seconds_to_empty is None


def test_no_backlog_is_empty_now() -> None:
    assert forecast_drain(backlog=0, oldest_seconds=None, moving_per_second=None).seconds_to_empty == 0


@pytest.mark.parametrize(
    ("oldest", "moving", "missed"), [(50.0, 100.0, False), (70.0, 100.0, True), (50.0, 10.0, True), (50.0, None, True)]
)
def test_a_target_is_missed_by_the_oldest_message_or_by_the_newest(oldest: float, moving: float | None, missed: bool) -> None:
    """1,000 messages and a target of 60 s: the oldest is too old, or moving them takes too long, or nothing moves."""
    assert forecast_drain(backlog=1000, oldest_seconds=oldest, moving_per_second=moving).misses(60.0) is missed


@given(st.integers(1, 10**9), st.floats(0.001, 10**6), st.floats(0.001, 10**9))
def test_at_the_forecast_time_all_that_was_there_and_came_is_moved(backlog: int, oldest: float, moving: float) -> None:
    forecast = forecast_drain(backlog=backlog, oldest_seconds=oldest, moving_per_second=moving)
    if forecast.seconds_to_empty is not None:
        moved = moving * forecast.seconds_to_empty
        assert moved == pytest.approx(backlog + forecast.arriving_per_second * forecast.seconds_to_empty, rel=1e-3)
