"""A task of a running Airflow, held in a known state, and what people and accidents do to it."""

from __future__ import annotations

import json
import os
import signal
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from relaybox.errors import StackFailed
from tests.airflow.system import ARRIVE_SECONDS, System
from tests.support.world import wait_until


@dataclass(frozen=True)
class TaskOfDag:
    """The task of a DAG that a test acts on, in any run."""

    system: System
    dag_id: str
    task_id: str

    def attempts(self, *states: str) -> list[dict[str, Any]]:
        """The newest task instances in these states; a page of Airflow's API ends after a hundred."""
        path = f"dags/{self.dag_id}/dagRuns/~/taskInstances"
        newest = self.system.client.get(path, limit=20, order_by="-start_date")["task_instances"]
        return [one for one in newest if one["task_id"] == self.task_id and (not states or one["state"] in states)]

    def wait_until_held(self, failpoint: str) -> None:
        """A task instance that runs now has reached the failpoint."""
        wait_until(lambda: self._is_held(failpoint), f"held at {failpoint}", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.3)

    def _is_held(self, failpoint: str) -> bool:
        try:
            lines = (self.system.failpoints / "hits.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        pids = [hit["pid"] for hit in map(json.loads, lines) if hit["failpoint"] == failpoint]
        return bool(pids) and any(task["pid"] in pids for task in self.attempts("running"))

    def wait_for(self, state: str, *, but_runs: frozenset[str] = frozenset()) -> Target:
        """The newest task instance in that state, of a run that is none of these; one that runs is of any run."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [one for one in self.attempts(state) if one["dag_run_id"] not in but_runs or state == "running"]
            return bool(found)

        wait_until(is_there, f"a task is {state}", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.3)
        newest = max(found, key=lambda one: one["start_date"] or "")
        return Target(self, newest["dag_run_id"], newest["pid"], newest["state"])


@dataclass(frozen=True)
class Target:
    """A task instance in the state of a cell. Its methods are the rows of docs/airflow-actions.md."""

    of: TaskOfDag
    run_id: str
    pid: int
    state: str

    @property
    def system(self) -> System:
        return self.of.system

    @property
    def path(self) -> str:
        return f"dags/{self.of.dag_id}/dagRuns/{quote(self.run_id, safe='')}"

    def clear(self) -> None:
        body = {"dry_run": False, "only_failed": False, "dag_run_id": self.run_id, "task_ids": [self.of.task_id]}
        self.system.client.post(f"dags/{self.of.dag_id}/clearTaskInstances", body)

    def retry(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def mark_failed(self) -> None:
        self._mark("failed")

    def mark_success(self) -> None:
        self._mark("success")

    def _mark(self, state: str) -> None:
        refused = pytest.raises(StackFailed, match="409") if self.state == state else nullcontext()
        with refused:
            self.system.client.patch(f"{self.path}/taskInstances/{self.of.task_id}", {"new_state": state})

    def delete_run(self) -> None:
        """Airflow deletes no run that runs: people fail it first."""
        self.system.client.patch(self.path, {"state": "failed"})
        self.system.client.delete(self.path)

    def pause(self) -> None:
        """Unpaused at the end of the cell."""
        self.system.client.patch(f"dags/{self.of.dag_id}", {"is_paused": True})

    def backfill(self) -> None:
        body = {"dag_id": self.of.dag_id, "from_date": "2026-07-01T00:00:00Z", "to_date": "2026-07-02T00:00:00Z"}
        with pytest.raises(StackFailed, match="422"):
            self.system.client.post("backfills", body)

    def two_runs(self) -> None:
        for _ in range(2):
            self.system.client.trigger_dag(self.of.dag_id)

    def kill_scheduler(self) -> None:
        self.system.kill_scheduler()

    def wait_for_next_attempt(self) -> None:
        """Another process runs the task."""

        def is_another() -> bool:
            return any(one["pid"] not in (None, self.pid) for one in self.of.attempts("running"))

        wait_until(is_another, "another attempt runs", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.3)
