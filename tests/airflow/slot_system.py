"""A real scheduler with four slots, many hops that linger, and subscriptions to replay."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import pytest

from relaybox.consumer import Consumer
from relaybox.errors import StackFailed
from relaybox.local.clusters import Cluster
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.services import add_route
from tests.support.world import World, wait_until

HOPS, REPLAYS = (int(number) for number in os.environ.get("RELAYBOX_SLOTS_SIZE", "5,4").split(","))
SLOTS = 4
START_SECONDS = 5.0
STORE = "hub"
ROUTE = {
    "runner": "threads",
    "limits": {"linger_seconds": 3600},
    "retries": {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1},
}
SETTINGS = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
}
"""A busy machine reads a DAG file slowly, and has better things to do than to read it again."""

WATCHES = (
    "select count(*) from pg_stat_activity where application_name = 'relaybox replay watch' and datname = current_database()"
)


def topic(number: int) -> str:
    return f"r{number}"


def prepare(world: World) -> None:
    """Routes of one hop that linger for an hour, if nobody stops them; a subscription of each that has read three messages."""
    for number in range(1, HOPS + 1):
        add_route(world.path, topic(number), topics=[topic(number)], path=["airline", STORE], **ROUTE)
    world.initialise()
    for number in range(1, HOPS + 1):
        world.send("a", "b", "c", topic=topic(number))
        world.transfer(world.routes.hop(f"{topic(number)}/1"))
    for number in range(1, REPLAYS + 1):
        world.query(STORE, "select relaybox.subscribe(%s, %s, start => 'earliest')", f"s{number}", topic(number))
        with Consumer(STORE, f"s{number}", until_empty=True) as consumer:
            consumer.run(lambda *_: None)


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    directory = tmp_path_factory.mktemp("slots")
    with running_system(clusters, directory, route=ROUTE, pauses=(), prepare=prepare, environment=SETTINGS) as system:
        wait_until(
            lambda: count_dags(system) >= 5 * HOPS + 7,
            "Airflow has all DAGs",
            deadline_seconds=ARRIVE_SECONDS,
            poll_seconds=0.5,
            progress=lambda: count_dags(system),
        )
        start_seconds(system, "flights")  # the first task of a worker imports everything
        wait_until_slots_are_free(system)
        yield system


def count_dags(system: System) -> int:
    """Those that Airflow has read; 0 while its API server, which has just started on a busy machine, answers with an error."""
    try:
        return int(system.client.get("dags", limit=1, tags="relaybox")["total_entries"])
    except StackFailed:
        return 0


def start_seconds(system: System, of: str) -> float:
    """Sends a message; the seconds from its commit until a task of the hop began. If a task took it that ran already: until it arrived."""
    dag_id, arrived = f"relaybox_transfer__{of}_1", "select published_position from relaybox_internal.hop_in where hop = %s"
    before, sent_at = system.world.value(STORE, arrived, f"{of}/1"), time.time()
    system.world.send("new", topic=of)
    started: list[float] = []

    def has_started() -> bool:
        tasks = system.client.get(f"dags/{dag_id}/dagRuns/~/taskInstances", limit=5, order_by="-start_date")["task_instances"]
        starts = [datetime.fromisoformat(task["start_date"]).timestamp() for task in tasks if task["start_date"]]
        started[:] = [start for start in starts if start > sent_at]
        if not started and system.world.value(STORE, arrived, f"{of}/1") > before:
            started.append(time.time())
        return bool(started)

    wait_until(has_started, f"a task of {of} starts", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.1)
    return min(started) - sent_at


def measured(*seconds: float) -> float:
    """The longest; printed, for the decision that names it."""
    print(f"started after {', '.join(f'{each:.2f}' for each in seconds)} s")
    return max(seconds)


def tasks_in(system: System, state: str, dag_id: str = "~") -> list[dict[str, Any]]:
    return list(system.client.get(f"dags/{dag_id}/dagRuns/~/taskInstances", limit=100, state=state)["task_instances"])


def wait_until_slots_are_free(system: System) -> None:
    wait_until(
        lambda: not any(tasks_in(system, state) for state in ("running", "queued", "scheduled")),
        "no task has or wants a slot",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.3,
    )
