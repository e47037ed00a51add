"""When a hop's pending work is worth an asset event."""

from __future__ import annotations

from relaybox.airflow.run_triggers import REPEAT_SECONDS, HopPoll, RunTriggers

PENDING = HopPoll(has_work=True, is_driven=False)
DRIVEN = HopPoll(has_work=True, is_driven=True)
EMPTY = HopPoll(has_work=False, is_driven=False)


def test_work_that_nobody_drives_gives_one_event() -> None:
    """However often it is seen before a driver comes."""
    run_triggers = RunTriggers()
    assert [run_triggers.due(PENDING, float(second)) for second in range(50)] == [True] + [False] * 49


def test_an_event_that_nobody_followed_is_repeated() -> None:
    """Airflow drops events of a DAG whose run is queued; a minute later there is another."""
    run_triggers = RunTriggers()
    assert run_triggers.due(PENDING, 0.0)
    assert not run_triggers.due(PENDING, REPEAT_SECONDS - 0.1)
    assert run_triggers.due(PENDING, REPEAT_SECONDS)


def test_a_driven_or_empty_hop_needs_no_event() -> None:
    """A driver drains the hop by itself."""
    run_triggers = RunTriggers()
    assert not run_triggers.due(EMPTY, 0.0)
    assert not run_triggers.due(DRIVEN, 1.0)


def test_work_after_a_driver_left_gives_a_new_event_at_once() -> None:
    """Messages that came when the driver had just looked do not wait for the repeat."""
    run_triggers = RunTriggers()
    assert run_triggers.due(PENDING, 0.0)
    assert not run_triggers.due(DRIVEN, 10.0)
    assert run_triggers.due(PENDING, 11.0)


def test_patience_lets_others_trigger_the_hop_first() -> None:
    """The first event comes only after the work has lain for so long; being driven meanwhile starts the wait anew."""
    run_triggers = RunTriggers(patience_seconds=20.0)
    assert not run_triggers.due(PENDING, 0.0)
    assert not run_triggers.due(DRIVEN, 19.0)
    assert not run_triggers.due(PENDING, 21.0)
    assert not run_triggers.due(PENDING, 40.0)
    assert run_triggers.due(PENDING, 41.0)
