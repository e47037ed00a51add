"""How long the triggerer waits between two looks at a store, and which scheduled looks a sleeping store is spared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

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
        (Watch(1, 1000, listen=False), 3),
        (Watch(1, 3600, listen=False), 1),
    ],
)
def test_a_sleeping_store_is_spared_looks_and_never_all(watch: Watch, looks_per_hour: int) -> None:
    """In each of its intervals there is one, so that what no event started waits no longer."""
    runs = [MIDNIGHT + timedelta(seconds=LOOK_SECONDS) * number for number in range(12)]
    due = [run for run in runs if is_look_due(run, watch)]
    assert len(due) == looks_per_hour
    day = [MIDNIGHT + timedelta(seconds=LOOK_SECONDS) * number for number in range(2 * 288)]
    looks = [run for run in day if is_look_due(run, watch)]
    longest = max(later - earlier for earlier, later in pairwise(looks))
    assert longest <= timedelta(seconds=max(watch.max_interval_seconds, 300) + LOOK_SECONDS)
