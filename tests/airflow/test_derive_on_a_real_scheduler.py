"""A real scheduler derives messages with real Spark: started by the messages themselves, and once, whatever is killed or cleared."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest

from relaybox.local.clusters import Cluster
from tests.airflow.system import ARRIVE_SECONDS, System, driver_jvms, running_system
from tests.support.derivations import ROUTE, STORE, derived_route
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

DAG_ID = "relaybox_derive__delays"
HELD = "derive.inserted"
FUNCTION = """
from pyspark.sql import functions as f


def late(flights):
    return flights.select("stream_position", f.concat(f.lit("late "), "payload").alias("payload"))
"""
ROUTE_OF_FLIGHTS = {"runner": "threads"}
RETRIES = {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1}


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    functions = tmp_path_factory.mktemp("functions")
    (functions / "delays_of_airlines.py").write_text(FUNCTION, encoding="utf-8")
    delays = {**derived_route(**{"with": "delays_of_airlines:late"}), "runner": "threads", "retries": RETRIES}
    with running_system(
        clusters,
        tmp_path_factory.mktemp("system"),
        route=ROUTE_OF_FLIGHTS,
        more_routes={ROUTE: delays},
        pauses=(HELD,),
        environment={"PYTHONPATH": str(functions)},
    ) as system:
        yield system


def arrived(system: System) -> list[str]:
    query = "select payload from relaybox.read_stream('delays', 0, 1000000) order by stream_position"
    return [payload for (payload,) in system.world.query("analytics", query)]


def states(system: System) -> list[str]:
    return [
        state for (state,) in system.world.query(STORE, "select state from relaybox_internal.derivation_attempt order by attempt")
    ]


def send_and_wait(system: System, count: int) -> None:
    """Sends so many more messages, and waits until what is derived from them has arrived."""
    expected = len(arrived(system)) + count
    system.world.send_many(count, prefix=f"m{expected}-")
    wait_until(
        lambda: len(arrived(system)) >= expected,
        f"{expected} derived messages arrived",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.5,
        progress=lambda: (len(arrived(system)), states(system)),
    )


def all_sent(system: System) -> list[str]:
    query = "select 'late ' || payload from relaybox.read_stream('flights', 0, 1000000) order by stream_position"
    return [payload for (payload,) in system.world.query(STORE, query)]


def test_messages_start_the_derivation_and_its_messages_arrive(system: System) -> None:
    """An insert at the first store is all that an application does."""
    send_and_wait(system, 3000)
    assert arrived(system) == all_sent(system)
    send_and_wait(system, 10)
    assert arrived(system) == all_sent(system)


def test_g3_a_driver_that_is_killed_before_its_commit_derives_nothing_twice(system: System) -> None:
    """All its processes, by SIGKILL: the next try of the task derives from the same messages."""
    system.wait_until_quiet()
    before = len(states(system))
    with system.held(HELD):
        system.world.send_many(500, prefix="killed-")
        driver = system.wait_for_driver(ROUTE)
        for pid in driver.processes:
            os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: len(arrived(system)) >= len(all_sent(system)) > 3010,
        "what the killed driver had begun arrived",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.5,
        progress=lambda: (len(arrived(system)), states(system)),
    )
    assert arrived(system) == all_sent(system)
    assert "superseded" in states(system)[before:]
    assert driver_jvms(ROUTE) == []


def test_g3_a_cleared_task_derives_nothing_twice(system: System) -> None:
    system.wait_until_quiet()
    before = arrived(system)
    run = next(run["dag_run_id"] for run in reversed(system.runs(DAG_ID)) if run["state"] == "success")
    system.client.post(f"dags/{DAG_ID}/clearTaskInstances", {"dag_run_id": run, "dry_run": False, "only_failed": False})
    wait_until(
        lambda: system.client.get(f"dags/{DAG_ID}/dagRuns/{quote(run, safe='')}")["state"] == "success",
        "the cleared run has ended",
        deadline_seconds=patience(ARRIVE_SECONDS),
        poll_seconds=0.5,
    )
    assert arrived(system) == before
