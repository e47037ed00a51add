"""Every Airflow action in every state of a transfer leaves the stores right, and the DAGs go on by themselves. Run: make test-airflow-actions."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from relaybox.errors import StackFailed
from relaybox.local.clusters import Cluster
from relaybox.verification.reliability import PERFECT
from relaybox.verification.route_verification import verify_route
from tests.airflow.action_cells import CELLS
from tests.airflow.replay_world import live_traffic
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.world import wait_until

DAG_ID = "relaybox_transfer__flights_1"
HOLDS = {"planning": "plan.begin", "copying": "slice.piping", "confirming": "confirm.begin"}
"""Where a state's driver is held."""
LINGER_SECONDS = 3
"""As long as Airflow lets a transfer linger without a message."""

ROUTE = {
    "runner": "threads",
    "limits": {"batch_rows": 500, "slice_rows": 100},
    "retries": {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1},
}
MESSAGES = 400


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One Airflow for all cells."""
    directory = tmp_path_factory.mktemp("actions")
    with running_system(clusters, directory, route=ROUTE, pauses=tuple(HOLDS.values())) as system:
        system.world.send("the first")
        _settle(system)
        yield system


@dataclass(frozen=True)
class Target:
    """A transfer in the state of a cell."""

    system: System
    task: Mapping[str, Any]

    @property
    def path(self) -> str:
        return f"dags/{DAG_ID}/dagRuns/{quote(self.task['dag_run_id'], safe='')}"

    def clear(self) -> None:
        body = {"dry_run": False, "only_failed": False, "dag_run_id": self.task["dag_run_id"], "task_ids": ["transfer"]}
        self.system.client.post(f"dags/{DAG_ID}/clearTaskInstances", body)

    def retry(self) -> None:
        os.kill(self.task["pid"], signal.SIGKILL)

    def mark_failed(self) -> None:
        self._mark("failed")

    def mark_success(self) -> None:
        self._mark("success")

    def _mark(self, state: str) -> None:
        refused = pytest.raises(StackFailed, match="409") if self.task["state"] == state else nullcontext()
        with refused:
            self.system.client.patch(f"{self.path}/taskInstances/transfer", {"new_state": state})

    def delete_run(self) -> None:
        """Airflow deletes no run that runs: people fail it first."""
        self.system.client.patch(self.path, {"state": "failed"})
        self.system.client.delete(self.path)

    def pause(self) -> None:
        """Unpaused at the end of the cell."""
        self.system.client.patch(f"dags/{DAG_ID}", {"is_paused": True})

    def backfill(self) -> None:
        body = {"dag_id": DAG_ID, "from_date": "2026-07-01T00:00:00Z", "to_date": "2026-07-02T00:00:00Z"}
        with pytest.raises(StackFailed, match="422"):
            self.system.client.post("backfills", body)

    def two_runs(self) -> None:
        for _ in range(2):
            self.system.client.trigger_dag(DAG_ID)

    def kill_scheduler(self) -> None:
        self.system.kill_scheduler()


@pytest.mark.parametrize(("action", "state"), CELLS)
def test_g3_the_stores_are_right_whatever_is_done_in_airflow(system: System, action: str, state: str) -> None:
    """The batch arrives once, every message in its order; what is sent afterwards arrives without a click."""
    with ExitStack() as holding:
        target = _bring_about(system, state, holding)
        batch = _newest_batch(system)
        getattr(target, action)()
        if state in HOLDS and action in ("clear", "retry"):
            _wait_for_next_try(target)
    system.world.send(f"after {action} {state}")
    system.client.patch(f"dags/{DAG_ID}", {"is_paused": False})
    _settle(system)

    assert system.world.query("hub", "select batch from relaybox_internal.arrival group by batch having count(*) > 1") == []
    assert _newest_batch(system) >= batch
    assert system.world.payloads("flights/2") == system.world.sent()
    assert system.world.log_positions("flights/2") == list(range(1, len(system.world.sent()) + 1))
    verification = verify_route(system.world.route)
    assert [leg.delivery for leg in (*verification.hops, verification.end_to_end)] == [PERFECT] * 3
    assert verification.outcome == "delivered"


def _bring_about(system: System, state: str, holding: ExitStack) -> Target:
    """A transfer of the first hop in this state, held there until `holding` is closed."""
    before = {task["dag_run_id"] for task in _tasks(system)}
    if state in HOLDS:
        holding.enter_context(system.held(HOLDS[state]))
        system.world.send_many(MESSAGES, prefix=state)
        _wait_until_held(system, HOLDS[state])
        return Target(system, _task(system, before, "running"))
    if state == "failed":
        with system.held(HOLDS["copying"]):
            system.world.send_many(MESSAGES, prefix=state)
            _wait_until_held(system, HOLDS["copying"])
            target = Target(system, _task(system, before, "running"))
            target.mark_failed()
            return Target(system, _task(system, before, "failed"))
    if state == "lingering":
        system.client.trigger_dag(DAG_ID, {"linger_seconds": LINGER_SECONDS})
    system.world.send_many(MESSAGES, prefix=state)
    received = "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = 'flights/1' and state = 'received'"
    wait_until(
        lambda: system.world.value("airline", received) == len(system.world.sent()), "received", deadline_seconds=ARRIVE_SECONDS
    )
    if state == "lingering":
        # begun now: no two producers at once, whose messages have no order; a driver without messages would end in seconds
        holding.enter_context(live_traffic(system.world))
        moved = len(system.world.sent())
        wait_until(lambda: system.world.value("airline", received) > moved, "live messages move", deadline_seconds=ARRIVE_SECONDS)
        return Target(system, _task(system, before, "running"))
    return Target(system, _task(system, before - {_mover(system)}, "success"))


def _mover(system: System) -> str:
    """The run that moved the newest batch: it may have been waiting before anything was sent."""
    recorded_by = system.world.value(
        "airline",
        "select recorded_by from relaybox_internal.attempt where hop = 'flights/1' order by batch desc, attempt desc limit 1",
    )
    return str(recorded_by).partition(" ")[2]


def _wait_until_held(system: System, failpoint: str) -> None:
    """A task of the first hop that runs now has reached the failpoint."""
    wait_until(lambda: _is_held(system, failpoint), f"held at {failpoint}", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.3)


def _is_held(system: System, failpoint: str) -> bool:
    try:
        lines = (system.failpoints / "hits.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    pids = [hit["pid"] for hit in map(json.loads, lines) if hit["failpoint"] == failpoint]
    return bool(pids) and any(task["pid"] in pids for task in _running_tasks(system))


def _running_tasks(system: System) -> list[dict[str, Any]]:
    return [task for task in _tasks(system) if task["state"] == "running"]


def _tasks(system: System) -> list[dict[str, Any]]:
    """The newest tasks of the first hop; a page of Airflow's API ends after a hundred."""
    path = f"dags/{DAG_ID}/dagRuns/~/taskInstances"
    return list(system.client.get(path, limit=20, order_by="-start_date")["task_instances"])


def _task(system: System, before: set[str], state: str) -> dict[str, Any]:
    """The newest task in that state, of a run that this cell brought about."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        found[:] = [
            task for task in _tasks(system) if task["state"] == state and (task["dag_run_id"] not in before or state == "running")
        ]
        return bool(found)

    wait_until(is_there, f"a task is {state}", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.3)
    return max(found, key=lambda task: task["start_date"] or "")


def _wait_for_next_try(target: Target) -> None:
    """The next attempt has begun: it is another process."""

    def is_another() -> bool:
        return any(task["pid"] not in (None, target.task["pid"]) for task in _running_tasks(target.system))

    wait_until(is_another, "another attempt runs", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.3)


def _newest_batch(system: System) -> int:
    return int(
        system.world.value("airline", "select coalesce(max(batch), 0) from relaybox_internal.batch where hop = 'flights/1'")
    )


def _settle(system: System) -> None:
    """All that was sent is settled at the origin, without a click, and nothing runs any more."""
    system.wait_until_settled(len(system.world.sent()))
    system.wait_until_quiet()
