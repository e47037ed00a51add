"""How long the triggerer waits between two looks at a store, and which scheduled looks a sleeping store is spared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.airflow.dags.factory import LOOK_CRON
from relaybox.airflow.operators.look import LOOK_SECONDS, is_look_due
from relaybox.airflow.poll_pace import PollPace
from relaybox.routes import Watch

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def test_pauses_grow_while_nothing_happens_and_stay_at_the_limit() -> None:
    pace = PollPace(1, 10, 2.0)
    assert [pace.pause(has_work=False) for _ in range(6)] == [1, 2, 4, 8, 10, 10]


def test_work_brings_the_shortest_pause_back() -> None:
    pace = PollPace(1, 10, 3.0)
    assert [pace.pause(has_work=False) for _ in range(3)] == [1, 3, 9]
    assert [pace.pause(has_work=True) for _ in range(2)] == [1, 1]
    assert [pace.pause(has_work=False) for _ in range(2)] == [1, 3]


def test_a_pace_without_limit_above_never_changes() -> None:
    pace = PollPace(5, 5, 10.0)
    assert {pace.pause(has_work=has_work) for has_work in (False, True) * 5} == {5}


def test_a_reset_begins_anew() -> None:
    pace = PollPace(1, 8, 2.0)
    for _ in range(5):
        pace.pause(has_work=False)
    pace.reset()
    assert pace.pause(has_work=False) == 1


def test_the_runs_of_the_watch_dag_are_as_far_apart_as_the_look_believes() -> None:
    assert f"*/{LOOK_SECONDS // 60} * * * *" == LOOK_CRON


@pytest.mark.parametrize(
    ("watch", "looks_per_hour"),
    [
        (Watch(), 12),
        (Watch(1, 300, listen=False), 12),
        (Watch(1, 3600), 12),  # its session is open all the time: a look wakes nothing
        (Watch(1, 900, listen=False), 4),
        (Watch(1, 1000, listen=False), 4),
        (Watch(1, 3600, listen=False), 1),
    ],
)
def test_a_sleeping_store_is_spared_looks_and_never_all(watch: Watch, looks_per_hour: int) -> None:
    """In each of its intervals there is one, so that what no event started waits no longer."""
    hour = [MIDNIGHT + timedelta(seconds=LOOK_SECONDS) * number for number in range(12)]
    assert len(looks_of(hour, watch)) == looks_per_hour
    days = [MIDNIGHT + timedelta(seconds=LOOK_SECONDS) * number for number in range(2 * 288)]
    longest = max(later - earlier for earlier, later in pairwise(looks_of(days, watch)))
    assert longest <= timedelta(seconds=max(watch.max_interval_seconds, 300) + LOOK_SECONDS)


@given(st.lists(st.booleans(), min_size=50, max_size=50), st.integers(301, 7200))
def test_a_run_that_airflow_missed_is_made_up_by_the_next_one(runs: list[bool], max_interval_seconds: int) -> None:
    """So two looks are never further apart than the interval and the gap between the runs around it."""
    watch = Watch(1, max_interval_seconds, listen=False)
    kept = [MIDNIGHT + timedelta(seconds=LOOK_SECONDS) * number for number, runs_now in enumerate(runs) if runs_now]
    looks = looks_of(kept, watch)
    for run in kept:
        looked_at = max((look for look in looks if look <= run), default=None)
        assert looked_at is not None
        assert run - looked_at < timedelta(seconds=max_interval_seconds)


def looks_of(runs: Sequence[datetime], watch: Watch) -> list[datetime]:
    """The runs that open a session, each of which succeeds."""
    looks: list[datetime] = []
    for run in runs:
        if is_look_due(run, looks[-1] if looks else None, watch):
            looks.append(run)
    return looks
