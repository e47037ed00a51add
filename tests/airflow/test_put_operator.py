"""The task that puts rows: once per task instance, whatever is retried, cleared, mapped or killed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from relaybox.airflow.operators.put import RelayboxPutOperator
from relaybox.errors import CredentialsUnavailable, StoreUnreachable
from relaybox.failpoints import PUT_FAILPOINTS
from tests.airflow.connections import change_connection
from tests.support.killed_child import kill_at
from tests.support.world import World

ROWS = ["a", {"flight": "UA1", "delay": 7}, ["x"]]
SENT = "select payload from relaybox.outbox order by seq"


def instance(**changes: object) -> Any:
    return SimpleNamespace(
        **{"dag_id": "d", "task_id": "put", "map_index": -1, "run_id": "manual__1", "try_number": 1, **changes}
    )


def operator(**changes: Any) -> RelayboxPutOperator:
    given = {"relaybox_conn_id": "relaybox_airline", "topic": "flights", "sender": "UA", "rows": ROWS, **changes}
    return RelayboxPutOperator(task_id="put", **given)


def execute(ti: Any = None, **changes: Any) -> Any:
    return operator(**changes).execute({"ti": ti or instance()})


def test_g3_a_task_instance_that_runs_again_sends_nothing(connected: World) -> None:
    """A retry and a clear have the same key; another run, task, mapped instance or DAG has another."""
    first = execute()
    assert first == {"message_count": 3, "put_key": "d/put/-1/manual__1", "sent_now": True}
    assert execute(instance(try_number=2)) == {**first, "sent_now": False}
    assert connected.query("airline", SENT) == [("a",), ('{"flight": "UA1", "delay": 7}',), ('["x"]',)]
    for other in ({"run_id": "manual__2"}, {"task_id": "put2"}, {"map_index": 0}, {"dag_id": "e"}):
        assert execute(instance(**other))["sent_now"]
    assert connected.value("airline", "select count(distinct message_id) from relaybox.outbox") == 15


def test_other_rows_in_the_same_task_instance_fail_at_once_and_say_what_to_do(connected: World) -> None:
    execute()
    with pytest.raises(AirflowFailException, match=r"sent 3 messages at .*Send the new messages under another put_key"):
        execute(rows=["b"])
    assert execute(rows=["b"], put_key="corrected")["sent_now"]
    assert connected.value("airline", "select count(*) from relaybox.outbox") == 4


def test_a_put_that_is_told_to_end_before_its_commit_sends_nothing(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow sends SIGTERM when a task is cleared or marked, and when its worker shuts down. The next attempt sends."""
    put = operator()

    def told(failpoint: str, _: object) -> None:
        if failpoint == "put.committing":
            put.on_kill()

    with monkeypatch.context() as ending:
        ending.setattr("relaybox.airflow.operators.put.reach", told)
        with pytest.raises(AirflowException, match="told to end before its COMMIT") as ended:
            put.execute({"ti": instance()})  # type: ignore[typeddict-item]
    assert not isinstance(ended.value, AirflowFailException), "a retry sends"
    assert connected.query("airline", SENT) == []
    assert execute(instance(try_number=2))["sent_now"]


def test_all_rows_are_sent_or_none(connected: World) -> None:
    """The store refuses the last row; the corrected rows are then the first ones of the key."""
    with pytest.raises(AirflowFailException, match="key_at_most_200_characters"):
        execute(rows=[{"k": "1"}, {"k": "x" * 201}], key_field="k")
    assert connected.query("airline", SENT) == []
    execute(rows=[{"k": "1"}, {"k": 2}], key_field="k", headers={"from": "test"})
    assert connected.query("airline", "select key, headers from relaybox.outbox order by seq") == [
        ("1", {"from": "test"}),
        ("2", {"from": "test"}),
    ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rows": "not json"}, "rows is a text that is not JSON.*tojson"),
        ({"rows": '"a"'}, "rows is of type str: give a list"),
        ({"rows": {"a": 1}}, "rows is of type dict: give a list"),
        ({"rows": None}, "rows is of type NoneType"),
        ({"rows": ["a", 5]}, r"rows\[1\] is of type int"),
        ({"rows": [{"k": 1}, {"l": 1}], "key_field": "k"}, r"rows\[1\] has no member k"),
        ({"topic": "No topic!"}, "topic_is_a_plain_name"),
    ],
)
def test_what_makes_no_sense_fails_at_once(connected: World, given: Mapping[str, object], says: str) -> None:
    with pytest.raises(AirflowFailException, match=says):
        execute(**given)
    assert connected.query("airline", SENT) == []


def test_a_missing_connection_is_worth_a_retry(connected: World) -> None:
    with pytest.raises(CredentialsUnavailable, match=r"nowhere.* Add the connection in Airflow"):
        execute(relaybox_conn_id="nowhere")


def test_a_store_that_is_down_is_worth_a_retry(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    change_connection(monkeypatch, "RELAYBOX_AIRLINE", port=1)
    with pytest.raises(StoreUnreachable):
        execute()


def test_rows_of_a_template_and_of_another_task_arrive_as_they_are(connected: World) -> None:
    """A template that gives JSON is read; what comes by XCom is never rendered: messages of others may have braces."""
    with DAG("d", schedule=None):
        rendered = operator(rows="{{ params.rows | tojson }}", sender="{{ params.sender }}")
        rendered.render_template_fields({"params": {"rows": ["{{ 7 * 7 }}"], "sender": "DL"}, "ti": instance()})  # type: ignore[arg-type]
        assert (rendered.rows, rendered.sender) == ('["{{ 7 * 7 }}"]', "DL")
        rendered.execute({"ti": instance()})  # type: ignore[typeddict-item]

        @task
        def made() -> list[str]:
            return ["{{ 8 * 8 }}"]

        piped = RelayboxPutOperator(
            task_id="piped", relaybox_conn_id="relaybox_airline", topic="flights", sender="UA", rows=made()
        )
    assert piped.upstream_task_ids == {"made"}
    ti = instance(task_id="piped", xcom_pull=lambda **_: ["{{ 8 * 8 }}"])
    piped.rows = ["{{ 8 * 8 }}"]
    piped.execute({"ti": ti})  # type: ignore[typeddict-item]
    assert connected.query("airline", SENT) == [("{{ 7 * 7 }}",), ("{{ 8 * 8 }}",)]


def test_a_producer_needs_no_other_right(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The login of the connection has relaybox_producer and nothing else."""
    connected.query("airline", "create role tests_author login password 'p' in role relaybox_producer")
    change_connection(monkeypatch, "RELAYBOX_AIRLINE", login="tests_author", password="p")
    try:
        assert execute()["sent_now"]
        assert not execute()["sent_now"]
    finally:
        connected.query("airline", "drop owned by tests_author; drop role tests_author")


@pytest.mark.parametrize("step", PUT_FAILPOINTS)
def test_g3_a_put_that_is_killed_at_any_step_sends_its_rows_once(connected: World, tmp_path: Path, step: str) -> None:
    """SIGKILL of the task's process; then the retry, and then a clear."""
    kill_at(step, tmp_path, execute)
    assert execute(instance(try_number=2))["sent_now"] == (step != "put.committed")
    assert not execute(instance(try_number=3))["sent_now"]
    assert connected.value("airline", "select count(*) from relaybox.outbox") == len(ROWS)
    connected.transfer_all()
    assert len(connected.payloads("flights/2")) == len(ROWS)
