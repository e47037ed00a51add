"""The task of a webhook: what it returns, with what it fails, and whether a retry follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from relaybox import errors
from relaybox.airflow.operators import sink as operators
from relaybox.airflow.operators.sink import SinkOperator
from relaybox.airflow.sink_secrets import find_in_airflow
from tests.airflow.task_time import TaskTime
from tests.support.endpoint import Endpoint, answer, endpoint
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.sinks import SECRET, WHERE, webhook
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def here() -> Iterator[Endpoint]:
    with endpoint() as one:
        yield one


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in each of the two places."""
    monkeypatch.setenv("AIRFLOW_CONN_BILLING_SECRET", f'{{"conn_type": "generic", "password": "{SECRET}"}}')
    monkeypatch.setenv(WHERE, SECRET)


@pytest.fixture
def world(connected: World) -> World:
    """Its stores have their connections in Airflow."""
    return connected


def execute(sink: Any) -> dict[str, int]:
    context = {"ti": SimpleNamespace(dag_id="d", task_id="deliver", map_index=-1, run_id="r", try_number=1)}
    return SinkOperator(task_id="deliver", sink=sink).execute(context)  # type: ignore[arg-type]


def test_a_task_delivers_what_waits_and_ends(world: World, here: Endpoint) -> None:
    """With the secret of an Airflow connection; cleared, it sends nothing again."""
    deliver(world, 3)
    sink = webhook(world, here.url, secrets=["connection:billing_secret"])
    assert execute(sink) == {"delivered": 3, "refused": 0, "dead_letters": 0, "unread_lanes": 0}
    assert execute(sink)["delivered"] == 0
    assert len(here.requests) == 3


def test_a_task_whose_endpoint_fails_is_retried(world: World, here: Endpoint) -> None:
    """An error that Airflow retries, not one that fails at once: and no message is refused."""
    deliver(world, 1)
    here.answers.extend([answer(503)] * 2)
    sink = webhook(world, here.url)
    with pytest.raises(errors.EndpointUnavailable, match=r"Repair it\. Then run: relaybox webhook retry billing"):
        execute(sink)
    world.query(STORE, "select relaybox.clear_endpoint_failure('webhook.billing')")
    assert execute(sink)["delivered"] == 1
    assert world.query(STORE, "select 1 from relaybox.dead_letters") == []


def test_a_task_with_dead_letters_fails_at_its_end_and_without_a_retry(world: World, here: Endpoint) -> None:
    deliver(world, 3)
    here.answers.extend([answer(422)] * 2)
    with pytest.raises(
        AirflowFailException,
        match=r"1 message became a dead letter.*2 were delivered.*relaybox dead-letters list hub --subscription webhook\.billing\. .*"
        r"relaybox dead-letters redrive webhook\.billing",
    ):
        execute(webhook(world, here.url))


def test_a_task_that_is_told_to_end_is_no_success(world: World, here: Endpoint) -> None:
    """What it has delivered stays acknowledged; the next attempt goes on."""
    deliver(world, 5)
    sink = webhook(world, here.url)
    operator = SinkOperator(task_id="deliver", sink=sink)

    def ending(handler: Any) -> None:
        operator.on_kill()
        answer(204)(handler)

    here.answers.append(ending)
    with pytest.raises(AirflowException, match="told to end after 1 message"):
        operator.execute({})  # type: ignore[typeddict-item]
    assert execute(sink)["delivered"] == 4


def test_a_task_ends_after_its_time(world: World, here: Endpoint) -> None:
    """As a success, with the message that it sends then: the next run goes on."""
    deliver(world, 3)
    sink = webhook(world, here.url)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(operators, "RUN_SECONDS", 0.2)
        task_time = TaskTime(operators, patched)

        def slow(handler: Any) -> None:
            task_time.begin()
            assert task_time.is_over.wait(patience(30))
            answer(204)(handler)

        here.answers.append(slow)
        assert execute(sink)["delivered"] == 1
    assert execute(sink)["delivered"] == 2


def test_a_task_that_is_killed_is_gone_on_with(world: World, here: Endpoint, tmp_path: Path) -> None:
    deliver(world, 3)
    sink = webhook(world, here.url)
    kill_at("sink.delivered", tmp_path, lambda: execute(sink))
    world.query(STORE, "update relaybox_internal.cursor set leased_until = now() where worker is not null")
    assert execute(sink)["delivered"] == 3
    assert len(here.ids) == 4
    assert len(set(here.ids)) == 3


def test_a_secret_that_is_missing_fails_at_once(world: World, here: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(world, 1)
    with pytest.raises(AirflowFailException, match=f"environment variable {WHERE} is not set"):
        monkeypatch.delenv(WHERE)
        sink = webhook(world, here.url)
        monkeypatch.delenv(WHERE)  # webhook() sets it for tests that say nothing of it
        execute(sink)
    with pytest.raises(AirflowFailException, match="Airflow has no connection no_such_secret"):
        execute(webhook(world, here.url, secrets=["connection:no_such_secret"]))
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY_SECRET", '{"conn_type": "generic"}')
    with pytest.raises(errors.ConfigurationError, match="the Airflow connection has no password"):
        find_in_airflow("connection:empty_secret")
