"""A real scheduler delivers a stream to a webhook: started by the messages themselves, whatever is killed, and while the endpoint is down."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping

import pytest

from relaybox.local.clusters import Cluster
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.endpoint import Endpoint, answer, endpoint
from tests.support.sinks import SECRET
from tests.support.streams import STORE
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

DAG = "relaybox_webhook__billing"
HELD = "sink.delivered"
RETRIES = {"attempts": 2, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1}


@pytest.fixture(scope="module")
def here() -> Iterator[Endpoint]:
    with endpoint() as one:
        yield one


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory, here: Endpoint) -> Iterator[System]:
    billing = {
        "stream": "flights",
        "store": STORE,
        "url": here.url,
        "plain_http": True,
        "secrets": ["connection:billing_secret"],
        "max_pause_seconds": 1,
        "open_after_failures": 2,
        "retries": RETRIES,
    }
    secret = {"AIRFLOW_CONN_BILLING_SECRET": json.dumps({"conn_type": "generic", "password": SECRET})}
    with running_system(
        clusters,
        tmp_path_factory.mktemp("system"),
        route={"runner": "threads"},
        webhooks={"billing": billing},
        pauses=(HELD,),
        environment=secret,
    ) as running:
        yield running


def payloads(here: Endpoint) -> list[str]:
    return [json.loads(request.body)["data"] for request in here.requests]


def wait_until_delivered(system: System, here: Endpoint, *expected: str) -> None:
    query = "select coalesce(max(stream_positions_behind), -1) from relaybox.subscriptions where subscription = 'webhook.billing'"
    wait_until(
        lambda: set(expected) <= set(payloads(here)) and system.world.value(STORE, query) == 0,
        f"{expected} are delivered and acknowledged",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.5,
        progress=lambda: len(here.requests),
    )


def test_messages_start_the_webhook(system: System, here: Endpoint) -> None:
    """An insert at the first store is all that an application does; the first run subscribes."""
    system.world.send("one", "two")
    wait_until_delivered(system, here, "one", "two")
    system.world.send("three")
    wait_until_delivered(system, here, "three")
    system.wait_until_quiet()
    assert payloads(here) == ["one", "two", "three"]


def test_a_task_that_is_killed_is_gone_on_with(system: System, here: Endpoint) -> None:
    """After the endpoint has confirmed the message, before that is acknowledged: it arrives twice, with one id."""
    system.wait_until_quiet()
    with system.held(HELD):
        system.world.send("killed")
        wait_until(lambda: "killed" in payloads(here), "it has arrived", deadline_seconds=ARRIVE_SECONDS)
        held = [json.loads(line)["pid"] for line in (system.failpoints / "hits.jsonl").read_text(encoding="utf-8").splitlines()]
        os.kill(held[-1], signal.SIGKILL)
    system.world.query(STORE, "update relaybox_internal.cursor set leased_until = now() where worker is not null")
    wait_until(lambda: payloads(here).count("killed") == 2, "it arrives again", deadline_seconds=ARRIVE_SECONDS)
    wait_until_delivered(system, here, "killed")
    ids = {one.headers["webhook-id"] for one in here.requests if json.loads(one.body)["data"] == "killed"}
    assert len(ids) == 1


def test_while_the_endpoint_is_down_runs_fail_and_messages_wait(system: System, here: Endpoint) -> None:
    """The task fails with its retries, so that the alerts of Airflow tell; when the endpoint is up, everything arrives."""
    system.wait_until_quiet()
    here.always = answer(503)
    system.world.send("late", "later")
    wait_until(
        lambda: any(run["state"] == "failed" for run in system.runs(DAG)),
        "a run fails",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.5,
    )
    assert system.world.query(STORE, "select 1 from relaybox.dead_letters") == []
    here.always = answer(204)
    wait_until_delivered(system, here, "late", "later")
    shown = json.dumps([system.task_log(task, task["try_number"]) for task in system.task_instances(DAG)])
    assert SECRET not in shown
