"""A real scheduler derives messages with real Spark: started by the messages themselves, and once, whatever is killed or cleared.

And it tries a next version, which a person rejects or promotes.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest

from relaybox.local.clusters import Cluster
from tests.airflow.open_questions import answer, wait_until_asked
from tests.airflow.system import ARRIVE_SECONDS, System, driver_jvms, running_system
from tests.support.derivations import ROUTE, STORE, derived_route
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

DAG_ID = "relaybox_derive__delays"
PROMOTE_DAG_ID = "relaybox_promote__delays"
HELD = "derive.inserted"
FUNCTION = """
from pyspark.sql import functions as f


def late(flights):
    return flights.select("stream_position", f.concat(f.lit("late "), "payload").alias("payload"))


def later(flights):
    return flights.select("stream_position", f.concat(f.lit("later "), "payload").alias("payload"))
"""
ROUTE_OF_FLIGHTS = {"runner": "threads"}
NEXT = {"with": "delays_of_airlines:later", "version": 2}
RETRIES = {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1}


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    functions = tmp_path_factory.mktemp("functions")
    (functions / "delays_of_airlines.py").write_text(FUNCTION, encoding="utf-8")
    delays = {**derived_route(**{"with": "delays_of_airlines:late", "next": NEXT}), "runner": "threads", "retries": RETRIES}
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


def state_of_try(system: System, run: str) -> str | None:
    (state,) = (task["state"] for task in system.task_instances(PROMOTE_DAG_ID, run) if task["task_id"] == "try")
    return str(state)


def test_a_rejected_trial_is_dropped_and_an_approved_one_promoted(system: System) -> None:
    """Each by an answer under Required Actions. A cleared `try` of the rejected run fails. What is sent then is derived by version 2."""
    system.wait_until_quiet()
    if not arrived(system):
        send_and_wait(system, 10)
    before = arrived(system)
    for option, ended, skipped in (("Reject", "dropped", "promote"), ("Approve", "promoted", "drop_rejected")):
        run = system.client.trigger_dag(PROMOTE_DAG_ID, {"start": "2", "through": "5", "reason": "later is better"})
        attempt = wait_until_asked(system, PROMOTE_DAG_ID, run)
        assert attempt, system.account_of(PROMOTE_DAG_ID, run)
        while attempt:  # Airflow asks again when it loses the task, or the machine that it runs on
            answer(system, PROMOTE_DAG_ID, run, option)
            attempt = wait_until_asked(system, PROMOTE_DAG_ID, run, after=attempt)
        state = system.client.wait_for_run(PROMOTE_DAG_ID, run, deadline_seconds=patience(ARRIVE_SECONDS))
        assert state == "success", system.account_of(PROMOTE_DAG_ID, run)
        tasks = {task["task_id"]: task["state"] for task in system.task_instances(PROMOTE_DAG_ID, run)}
        assert tasks == {**dict.fromkeys(tasks, "success"), skipped: "skipped"}
        query = "select state from relaybox_internal.derivation_trial order by trial_id desc limit 1"
        assert system.world.value(STORE, query) == ended
        if option == "Reject":
            system.client.post(
                f"dags/{PROMOTE_DAG_ID}/clearTaskInstances",
                {"dag_run_id": run, "dry_run": False, "only_failed": False, "task_ids": ["try"]},
            )
            wait_until(
                lambda run=run: state_of_try(system, run) == "failed", "the cleared task fails", deadline_seconds=ARRIVE_SECONDS
            )
            assert "a run begins one trial" in system.account_of(PROMOTE_DAG_ID, run)
    assert system.world.value(STORE, "select count(*) from relaybox_internal.derivation_trial_message") == 0
    assert arrived(system) == before
    send_and_wait(system, 10)
    assert [payload.split(" ")[0] for payload in arrived(system)[len(before) :]] == ["later"] * 10
