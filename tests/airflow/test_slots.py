"""A real scheduler with four slots: hops that linger and replays that are read hold none, so new work starts at once.

RELAYBOX_SLOTS_SIZE=200,50 (hops, replays) makes it the size of a large deployment: make test-slots.
"""

from __future__ import annotations

from contextlib import ExitStack
from urllib.parse import quote

import pytest

from relaybox.consumer import Consumer
from tests.airflow.slot_system import (
    HOPS,
    REPLAYS,
    START_SECONDS,
    STORE,
    WATCHES,
    measured,
    start_seconds,
    system,
    tasks_in,
    topic,
    wait_until_slots_are_free,
)
from tests.airflow.system import ARRIVE_SECONDS, System
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

__all__ = ["system"]


def test_hops_that_linger_hold_no_slot(system: System) -> None:
    """All have moved messages and would wait for more for an hour. New work starts within five seconds."""
    for number in range(1, HOPS + 1):
        system.world.send("d", topic=topic(number))
    settled = "select count(distinct hop) from relaybox_internal.confirmation where starts_with(hop, 'r') and state = 'settled' and through_position >= 4"
    wait_until(
        lambda: system.world.value("airline", settled) == HOPS,
        "all hops have moved and settled their messages",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.3,
        progress=lambda: system.world.value("airline", settled),
    )
    system.wait_until_quiet()  # a run may be queued before its task is
    wait_until_slots_are_free(system)
    assert measured(start_seconds(system, "flights")) <= patience(START_SECONDS)


def test_replays_wait_in_the_triggerer_whatever_becomes_of_it(system: System) -> None:
    """Nobody reads the second cursors yet. One session looks for all; clear, marks and a kill of the triggerer leave the others waiting."""
    runs = {
        number: system.client.trigger_dag(
            f"relaybox_replay__{topic(number)}",
            {"store": STORE, "subscription": f"s{number}", "start": "1", "through": "3", "reason": "a test"},
        )
        for number in range(1, REPLAYS + 1)
    }
    wait_until_deferred(system, REPLAYS)
    wait_until_slots_are_free(system)
    assert system.world.value(STORE, WATCHES) == 1
    assert measured(start_seconds(system, "flights")) <= patience(START_SECONDS)

    _mark(system, 1, runs[1], "success")
    _mark(system, 2, runs[2], "failed")
    _clear(system, 3, runs[3])
    wait_until_deferred(system, REPLAYS - 2)
    start_triggerer = system.kill_triggerer()
    wait_until(lambda: system.world.value(STORE, WATCHES) == 0, "the session of the triggerer ended")
    with ExitStack() as reading:
        for number in range(1, REPLAYS + 1):
            reading.enter_context(Consumer(STORE, f"s{number}.replay", until_empty=True)).run(lambda *_: None)
    assert len(tasks_in(system, "deferred")) == REPLAYS - 2
    start_triggerer()
    ended = {1: "success", 2: "failed", **dict.fromkeys(range(3, REPLAYS + 1), "success")}
    for number, run in runs.items():
        dag_id = f"relaybox_replay__{topic(number)}"
        state = system.client.wait_for_run(dag_id, run, deadline_seconds=patience(ARRIVE_SECONDS))
        assert state == ended[number], system.account_of(dag_id, run)
    wait_until(lambda: system.world.value(STORE, WATCHES) == 0, "nobody watches replays any more")


def wait_until_deferred(system: System, count: int) -> None:
    wait_until(
        lambda: len(tasks_in(system, "deferred")) == count,
        f"{count} replays wait in the triggerer",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.3,
        progress=lambda: len(tasks_in(system, "deferred")),
    )


def _mark(system: System, number: int, run: str, state: str) -> None:
    path = f"dags/relaybox_replay__{topic(number)}/dagRuns/{quote(run, safe='')}/taskInstances/replay"
    system.client.patch(path, {"new_state": state})


def _clear(system: System, number: int, run: str) -> None:
    body = {"dry_run": False, "only_failed": False, "dag_run_id": run, "task_ids": ["replay"]}
    system.client.post(f"dags/relaybox_replay__{topic(number)}/clearTaskInstances", body)
