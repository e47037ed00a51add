"""The DAG that runs an init after an approval: what was shown is done, once, and nothing else."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.dags.init import build_init_dag
from relaybox.errors import CredentialsUnavailable
from tests.support.world import STORES, World

APPROVED = {"chosen_options": ["Approve"], "responded_by_user": {"id": "2", "name": "grace"}}


@pytest.fixture
def owned(connected: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The stores have connections of their owners."""
    for store in STORES:
        monkeypatch.setenv(f"AIRFLOW_CONN_RELAYBOX_{store.upper()}_OWNER", os.environ[f"AIRFLOW_CONN_RELAYBOX_{store.upper()}"])
    return connected


def edit(world: World, **keys: object) -> None:
    """Other keys of the store airline in relaybox.yaml."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["airline"] = {**(document["stores"]["airline"] or {}), **keys}
    world.path.write_text(yaml.safe_dump(document))


def run(world: World, task_id: str, *, shown: Any = None, answer: Any = APPROVED, store: str = "every store") -> Any:
    pulled = {"show": shown, "approve": answer}
    ti = SimpleNamespace(dag_id="relaybox_init", run_id="r1", try_number=1, xcom_pull=lambda *, task_ids: pulled[task_ids])
    return build_init_dag(world.routes)["relaybox_init"].get_task(task_id).execute({"ti": ti, "params": {"store": store}})


def binds(world: World) -> bool:
    return bool(world.value("airline", "select relrowsecurity from pg_class where oid = 'relaybox.outbox'::regclass"))


def test_stores_that_are_up_to_date_ask_nothing(owned: World) -> None:
    with pytest.raises(AirflowSkipException, match="airline, analytics, hub: up to date"):
        run(owned, "show")


def test_what_is_shown_is_done_once(owned: World) -> None:
    """Showing changes nothing. A task that is cleared after its end finds nothing to do."""
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    assert plan["changes"] == {"airline": {"sender_binding": "switched on"} | plan["changes"]["airline"]}
    assert "| airline | sender binding | switched on |" in plan["table"]
    assert not binds(owned)
    assert run(owned, "init", shown=plan) == {"changed": ["airline"], "approved_by": "grace"}
    assert binds(owned)
    assert run(owned, "init", shown=plan)["changed"] == []


@pytest.mark.parametrize("answer", [None, {"chosen_options": ["Reject"]}])
def test_without_an_answer_nothing_is_done(owned: World, answer: Any) -> None:
    """Marking the approval as a success approves nothing."""
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    with pytest.raises(AirflowFailException, match="This run has no approval"):
        run(owned, "init", shown=plan, answer=answer)
    assert not binds(owned)


def test_a_store_that_changed_since_is_refused(owned: World) -> None:
    """The init would now also repair a function: that was not approved."""
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    owned.query("airline", "drop function relaybox.next_index(text)")
    with pytest.raises(AirflowFailException, match=r"not those that were approved: store airline: .*Trigger a new run"):
        run(owned, "init", shown=plan)
    assert not binds(owned)
    assert run(owned, "init", shown=run(owned, "show"))["changed"] == ["airline"]


def test_another_file_is_refused(owned: World) -> None:
    """Its plan may read the same and mean something else."""
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    edit(owned, bind_senders=True, bind_topics=True)
    with pytest.raises(AirflowFailException, match="is not the one whose plan was approved"):
        run(owned, "init", shown=plan)
    assert not binds(owned)


@pytest.mark.parametrize("step", ["init.checked", "init.committing", "init.committed", "outbox_segments.committed"])
def test_a_task_that_is_killed_goes_on_with_its_plan(owned: World, tmp_path: Path, step: str) -> None:
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    child = os.fork()
    if child == 0:
        os.environ |= {
            "RELAYBOX_FAILPOINTS": f"{step}=kill",
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(tmp_path),
            "RELAYBOX_ENVIRONMENT": "test",
        }
        try:
            run(owned, "init", shown=plan)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert run(owned, "init", shown=plan)["changed"] in ([], ["airline"])
    assert binds(owned)
    with pytest.raises(AirflowSkipException):
        run(owned, "show")


def test_without_the_owners_connection_nothing_can_be_done(connected: World) -> None:
    with pytest.raises(CredentialsUnavailable, match="relaybox_airline_owner"):
        run(connected, "show", store="airline")
