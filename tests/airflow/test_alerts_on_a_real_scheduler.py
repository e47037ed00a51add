"""A real Airflow calls what a team gave to build_dags(): for a run that failed, one that is overdue, a hop that is late."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from relaybox.local.clusters import Cluster
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

ROUTE = {
    "runner": "threads",
    "limits": {"target_lag_seconds": 1},
    "retries": {"attempts": 2, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1},
}
TEAM = """\
import json, os


def _say(what, **fields):
    with open(os.environ["TEAM_FILE"], "a") as file:
        file.write(json.dumps({"what": what, **fields}) + "\\\\n")


def failed(context):
    _say("failed", dag_id=context["dag"].dag_id, run_id=context["run_id"])


def late(context):
    _say("late", hop=context["late_hop"].name, waiting_count=context["late_hop"].waiting_count, dag_id=context["dag"].dag_id)


def overdue(context):
    _say("overdue", dag_id=context["dag_run"]["dag_id"])
""".replace("\\\\n", "\\n")
DAG_FILE = """\
import team
from airflow.sdk.definitions.callback import SyncCallback

from relaybox.airflow.dags import build_dags

globals().update(
    build_dags(on_failure_callback=team.failed, on_late_callback=team.late, deadline_callback=SyncCallback(team.overdue))
)
"""


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DAG file of a team, the module of its callbacks, and what these said."""
    directory = tmp_path_factory.mktemp("team")
    (directory / "modules").mkdir()
    (directory / "modules" / "team.py").write_text(TEAM)
    (directory / "dags").mkdir()
    (directory / "dags" / "relaybox_dags.py").write_text(DAG_FILE)
    return directory


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], team: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    environment = {"PYTHONPATH": str(team / "modules"), "TEAM_FILE": str(team / "said.jsonl")}
    directory = tmp_path_factory.mktemp("alerts")
    with running_system(
        clusters, directory, route=ROUTE, pauses=("slice.piping",), environment=environment, dags=team / "dags"
    ) as system:
        yield system


def said(team: Path, what: str) -> list[dict[str, Any]]:
    try:
        lines = (team / "said.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [line for line in map(json.loads, lines) if line["what"] == what]


def test_a_team_is_told_of_late_hops_failed_runs_and_missed_deadlines(system: System, team: Path) -> None:
    """A transfer that hangs: its hop is late, and when a person fails it the run has failed. Then all goes on."""
    dag_id = "relaybox_transfer__flights_1"
    with system.held("slice.piping"):
        system.world.send_many(5)
        running: list[dict[str, Any]] = []

        def is_running() -> bool:
            running[:] = [task for task in system.task_instances(dag_id) if task["state"] == "running"]
            return bool(running)

        wait_until(is_running, "the transfer runs", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5)
        age = "select extract(epoch from clock_timestamp() - min(sent_at)) from relaybox.outbox"
        wait_until(lambda: system.world.value("airline", age) > 1, "the messages are late")
        run = system.client.trigger_dag("relaybox_watch")
        assert system.client.wait_for_run("relaybox_watch", run, deadline_seconds=patience(ARRIVE_SECONDS)) == "success"
        assert said(team, "late")[-1] == {"what": "late", "hop": "flights/1", "waiting_count": 5, "dag_id": "relaybox_watch"}
        assert "relaybox/flights/1/late" in {event["name"] for event in system.asset_events()}
        run_id = running[0]["dag_run_id"]
        path = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/transfer"
        system.client.patch(path, {"new_state": "failed"})
        expected = {"what": "failed", "dag_id": dag_id, "run_id": run_id}
        wait_until(
            lambda: expected in said(team, "failed"), "the team is told", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5
        )
    system.wait_until_settled(5)
    # a task takes longer than a second to start: each confirmation misses this target
    overdue = {"what": "overdue", "dag_id": "relaybox_confirm__flights_1"}
    wait_until(
        lambda: overdue in said(team, "overdue"), "a deadline is missed", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5
    )
    assert dag_id not in {one["dag_id"] for one in said(team, "overdue")}, "a transfer may take as long as its attempt"
