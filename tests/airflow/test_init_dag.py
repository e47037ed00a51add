"""The DAG that runs an init after an approval: what was shown is done, once, and nothing else."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.approvals import digest_shown
from relaybox.airflow.dags.init import build_init_dag
from relaybox.errors import CredentialsUnavailable
from tests.airflow.answers import APPROVED, Questions, answered
from tests.support.killed_child import kill_at
from tests.support.world import STORES, World


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
    return task(world, task_id).execute(context_of(shown, answer, store=store))


def task(world: World, task_id: str) -> Any:
    return build_init_dag(world.routes)["relaybox_init"].get_task(task_id)


def context_of(shown: Any, answer: Any = None, *, store: str = "every store") -> dict[str, Any]:
    pulled = answered({"show": shown, "approve": answer})
    ti = SimpleNamespace(
        dag_id="relaybox_init", run_id="r1", try_number=1, id=uuid4(), xcom_pull=lambda *, task_ids: pulled[task_ids]
    )
    return {"ti": ti, "task_instance": ti, "params": {"store": store}}


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


def test_an_approval_is_of_the_plan_that_its_question_showed(owned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is edited and `show` is cleared: under the open question, then after the run has ended. Nothing that nobody saw is done."""
    edit(owned, bind_senders=True, bind_topics=False)
    plan, questions, approve = run(owned, "show"), Questions(monkeypatch), task(owned, "approve")
    waiting = questions.ask(approve, context_of(plan))
    assert "| airline | sender binding | switched on |" in questions.first.body
    edit(owned, bind_senders=True, bind_topics=True)
    unseen = run(owned, "show")
    answer = questions.approve(task(owned, "approve"), context_of(unseen), waiting, datetime.now(UTC))
    with pytest.raises(AirflowFailException, match="What the task show has found is not what was approved"):
        run(owned, "init", shown=unseen, answer=answer)
    assert not binds(owned)
    edit(owned, bind_senders=True, bind_topics=False)
    assert run(owned, "init", shown=run(owned, "show"), answer=answer)["changed"] == ["airline"], "a plan that is the same"
    edit(owned, bind_senders=False, bind_topics=False)
    with pytest.raises(AirflowFailException, match="What the task show has found is not what was approved"):
        run(owned, "init", shown=run(owned, "show"), answer=answer)
    assert binds(owned)


def test_a_plan_that_is_gone_is_refused(owned: World) -> None:
    """`show` was cleared under the open question and found nothing to do, or was marked as a success: it has no result."""
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    answer = {**APPROVED, "digest": digest_shown(plan)}
    for task_id in ("init", "approve"):
        with pytest.raises(AirflowFailException, match=r"The task show has no result: .* Nothing was done\. Trigger a new run"):
            run(owned, task_id, shown=None, answer=answer)
    assert not binds(owned)


def test_a_question_that_is_asked_again_with_its_first_text_is_refused(owned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is lost asks the same again. After another plan Airflow would still show the first one."""
    edit(owned, bind_senders=True)
    plan, questions = run(owned, "show"), Questions(monkeypatch)
    assert (
        questions.ask(task(owned, "approve"), context_of(plan)).kwargs
        == questions.ask(task(owned, "approve"), context_of(plan)).kwargs
    )
    edit(owned, bind_senders=True, bind_topics=True)
    unseen = run(owned, "show")
    with pytest.raises(AirflowFailException, match=r"Nobody was asked\. Trigger a new run"):
        task(owned, "approve").execute(context_of(unseen))


@pytest.mark.parametrize("step", ["init.checked", "init.committing", "init.committed", "outbox_segments.committed"])
def test_a_task_that_is_killed_goes_on_with_its_plan(owned: World, tmp_path: Path, step: str) -> None:
    edit(owned, bind_senders=True)
    plan = run(owned, "show")
    kill_at(step, tmp_path, lambda: run(owned, "init", shown=plan))
    assert run(owned, "init", shown=plan)["changed"] in ([], ["airline"])
    assert binds(owned)
    with pytest.raises(AirflowSkipException):
        run(owned, "show")


def test_without_the_owners_connection_nothing_can_be_done(connected: World) -> None:
    with pytest.raises(CredentialsUnavailable, match=r"relaybox_airline_owner.*docs/daily.md, Init in Airflow"):
        run(connected, "show", store="airline")
