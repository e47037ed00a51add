"""The questions of a run that a person answers under Required Actions, in a running Airflow."""

from __future__ import annotations

from urllib.parse import quote

from tests.airflow.system import ARRIVE_SECONDS, System
from tests.support.world import wait_until


def wait_until_asked(system: System, dag_id: str, run: str, *, after: int = 0) -> int:
    """Waits for a question of a later attempt than `after`, or for the end of the run; returns the attempt, 0 at the end."""
    asked: list[int] = []

    def is_asked() -> bool:
        tasks = {task["task_id"]: task for task in system.task_instances(dag_id, run)}
        approve = tasks.get("approve", {})
        if approve.get("state") == "awaiting_input" and approve["try_number"] > after:
            asked.append(approve["try_number"])
        state = system.client.get(f"dags/{dag_id}/dagRuns/{quote(run, safe='')}")["state"]
        return bool(asked) or state in ("success", "failed")

    wait_until(is_asked, "an approval is asked for", deadline_seconds=ARRIVE_SECONDS)
    return asked[0] if asked else 0


def answer(system: System, dag_id: str, run: str, option: str = "Approve") -> None:
    """Answers the open question of a run."""
    question = f"dags/{dag_id}/dagRuns/{quote(run, safe='')}/taskInstances/approve/-1/hitlDetails"
    system.client.patch(question, {"chosen_options": [option], "params_input": {}})
