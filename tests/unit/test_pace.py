"""How fast a lingering driver looks for messages and plans batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.hops.pace import (
    BATCHES_PER_SECOND,
    BURST_BATCHES,
    LONGEST_POLL_SECONDS,
    SHORTEST_POLL_SECONDS,
    BatchPace,
    poll_pause,
)


@given(gaps=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=200))
def test_in_no_span_are_there_more_batches_than_a_burst_and_the_rate(gaps: list[float]) -> None:
    """However messages come: what each batch writes into the ledgers grows no faster."""
    pace, now, planned = BatchPace(), 1000.0, []
    for gap in gaps:
        now += gap
        planned.append(now)
        now += pace.pause_after_batch(now)
    for first, begin in enumerate(planned):
        for last in range(first, len(planned)):
            allowed = BURST_BATCHES + BATCHES_PER_SECOND * (planned[last] - begin)
            assert last - first <= allowed + 1e-6


@given(gaps=st.lists(st.floats(1 / BATCHES_PER_SECOND, 10.0), min_size=1, max_size=100))
def test_batches_that_come_no_faster_than_the_rate_never_wait(gaps: list[float]) -> None:
    pace, now = BatchPace(), 5.0
    for gap in gaps:
        assert pace.pause_after_batch(now) == 0.0
        now += gap


def test_a_stream_without_end_gets_the_rate() -> None:
    """Batches of 10 ms, one directly after the other, for a minute."""
    pace, now, batches = BatchPace(), 0.0, 0
    while now < 60.0:
        now += 0.01
        batches += 1
        now += pace.pause_after_batch(now)
    assert 60 * BATCHES_PER_SECOND < batches <= BURST_BATCHES + 60 * BATCHES_PER_SECOND + 1


def test_after_a_burst_messages_gather_for_as_long_as_one_batch_may_take() -> None:
    pace = BatchPace()
    assert [pace.pause_after_batch(7.0) for _ in range(int(BURST_BATCHES))] == [0.0] * int(BURST_BATCHES)
    assert pace.pause_after_batch(7.0) == pytest.approx(1 / BATCHES_PER_SECOND)


@given(quiet=st.floats(0.0, 10_000.0))
def test_a_look_comes_soon_after_traffic_and_never_late(quiet: float) -> None:
    """A message waits for the look a tenth of the quiet time at most, or the shortest pause, and never longer than the longest."""
    assert SHORTEST_POLL_SECONDS <= poll_pause(quiet) <= LONGEST_POLL_SECONDS
    assert poll_pause(quiet) <= max(SHORTEST_POLL_SECONDS, quiet / 10)


def test_a_quiet_second_has_no_more_than_a_few_looks() -> None:
    """Idle drivers cost the stores no more than before: five looks a second."""
    assert 1 / poll_pause(3.0) < 5
