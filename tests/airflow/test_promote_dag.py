"""The DAG relaybox_promote__ROUTE, task by task with a real store: it tries, shows, asks, and promotes or drops what was shown."""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from relaybox.airflow.dags.promote import build_promote_dags
from tests.airflow.answers import APPROVED, Questions, answered
from tests.support.derivations import HERE, DerivedWorld
from tests.support.streams import deliver
from tests.support.trials import TWO, derive_all, late, trials, tried, try_all, versions, with_next
from tests.support.world import World

DAG_ID = "relaybox_promote__delays"
ROOT = Path(__file__).parents[2]
REJECTED = {**APPROVED, "chosen_options": ["Reject"]}
UNANSWERED = {**REJECTED, "responded_by_user": None}
BEFORE = {"start": "", "through": "", "republish": False, "reason": "better"}


@pytest.fixture
def delays(connected: World) -> DerivedWorld:
    """Version 1 has derived from six messages. Version 2 is tried: it makes something else of the third."""
    delays = with_next(connected)
    deliver(connected, 6)
    derive_all(delays)
    return delays


def try_version(delays: DerivedWorld) -> None:
    try_all(delays, lambda position: [{"key": "k0", "payload": "later m3"}] if position == 3 else late(position))


def dag(delays: DerivedWorld) -> DAG:
    return build_promote_dags(delays.world.routes)[DAG_ID]


def context(pulled: dict[str, Any], run_id: str = "r1", **params: object) -> dict[str, Any]:
    """Of a task in a run that ada started."""
    run = SimpleNamespace(dag_id=DAG_ID, run_id=run_id, clear_number=0, triggering_user_name="ada")
    ti = SimpleNamespace(
        dag_id=DAG_ID, run_id=run_id, try_number=1, id=uuid.uuid4(), xcom_pull=lambda task_ids: answered(pulled).get(task_ids)
    )
    return {"params": {**BEFORE, **params}, "dag_run": run, "ti": ti, "task_instance": ti}


def run_task(delays: DerivedWorld, task_id: str, pulled: dict[str, Any] | None = None, **params: object) -> Any:
    return dag(delays).get_task(task_id).execute(context(pulled or {}, **params))


def shown(delays: DerivedWorld, **params: object) -> dict[str, Any]:
    found: dict[str, Any] = run_task(delays, "show", **params)
    return found


def test_what_is_shown_has_counts_and_says_what_each_answer_does(delays: DerivedWorld) -> None:
    """No payload, and no key."""
    try_version(delays)
    found = shown(delays)
    assert (found["trial_id"], found["republish"]) == (1, False)
    assert "Version 2 is to begin after what version 1 has done." in found["table"]
    assert "Keys with differences: 1." in found["table"]
    assert "| delays | 5 | 1 | 0 | 0 |" in found["table"]
    assert "Reject: the trial is dropped, and its messages are deleted." in found["table"]
    assert "m3" not in found["table"]
    assert "to begin at stream position 1, again" in shown(delays, republish=True)["table"]


def test_an_approved_trial_is_promoted_and_not_dropped(delays: DerivedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real question: its answer has the digest of what was shown. A task that is run again changes nothing."""
    try_version(delays)
    pulled = {"show": shown(delays)}
    questions = Questions(monkeypatch)
    approve = dag(delays).get_task("approve")
    approve.render_template_fields(context(pulled))
    waiting = questions.ask(approve, context(pulled))
    assert "Reject: the trial is dropped" in questions.first.body
    pulled["approve"] = questions.approve(approve, context(pulled), waiting, datetime.now(UTC))
    for _ in range(2):
        assert run_task(delays, "promote", pulled) == {"version": 2, "first_stream_position": 7}
    with pytest.raises(AirflowSkipException, match="was approved"):
        run_task(delays, "drop_rejected", pulled)
    assert (versions(delays), trials(delays), tried(delays)) == ([1, 2], [(2, "promoted", "better")], [])
    by = delays.world.value("hub", "select ended_by from relaybox_internal.derivation_trial")
    assert by == "ada, approved by grace"


@pytest.mark.parametrize("by", [APPROVED["responded_by_user"], None])
def test_a_real_rejection_is_known_to_the_task_that_drops(
    delays: DerivedWorld, monkeypatch: pytest.MonkeyPatch, by: object
) -> None:
    """Airflow's operator ends without a result: the answer is kept all the same. None: nobody answered in time."""
    try_version(delays)
    pulled = {"show": shown(delays)}
    questions, asked = Questions(monkeypatch), context(pulled)
    approve = dag(delays).get_task("approve")
    approve.render_template_fields(asked)
    waiting = questions.ask(approve, asked)
    asked["ti"].map_index = -1
    asked["ti"].xcom_push = lambda key, value: pulled.update({"approve" if key == "return_value" else key: value})
    asked["task"] = approve
    assert questions.reject(approve, asked, waiting, datetime.now(UTC), by) == ["promote"]
    if by is None:
        with pytest.raises(AirflowFailException, match="Nobody answered in time: trial 1"):
            run_task(delays, "drop_rejected", pulled)
    else:
        assert run_task(delays, "drop_rejected", pulled) == {"trial_id": 1, "dropped": True}


def test_a_rejected_trial_is_dropped(delays: DerivedWorld) -> None:
    """With its messages, once, by whom. It is not promoted, and the present version goes on."""
    try_version(delays)
    pulled = {"show": shown(delays), "approve": REJECTED}
    with pytest.raises(AirflowFailException, match="This run has no approval"):
        run_task(delays, "promote", pulled)
    assert run_task(delays, "drop_rejected", pulled) == {"trial_id": 1, "dropped": True}
    assert (versions(delays), tried(delays)) == ([1], [])
    assert trials(delays) == [(2, "dropped", "rejected; ada had asked for it: better")]
    assert delays.world.value("hub", "select ended_by from relaybox_internal.derivation_trial") == "grace"
    assert run_task(delays, "drop_rejected", pulled) == {"trial_id": 1, "dropped": False}


def test_a_rejection_by_a_user_without_a_name_is_a_rejection(delays: DerivedWorld) -> None:
    try_version(delays)
    answer = {**REJECTED, "responded_by_user": {"id": "2", "name": ""}}
    assert run_task(delays, "drop_rejected", {"show": shown(delays), "approve": answer})["dropped"]
    assert delays.world.value("hub", "select ended_by from relaybox_internal.derivation_trial") == "unknown user"


def test_a_rejection_drops_no_other_trial(delays: DerivedWorld) -> None:
    """Not one that began after the question, nor what was shown after it."""
    try_version(delays)
    pulled = {"show": shown(delays), "approve": REJECTED}
    assert run_task(delays, "drop_rejected", pulled)["dropped"]
    try_version(delays)
    assert run_task(delays, "drop_rejected", pulled) == {"trial_id": 1, "dropped": False}
    assert [state for _, state, _ in trials(delays)] == ["dropped", "open"]
    asked = {**REJECTED, "digest": "of something else"}
    with pytest.raises(AirflowFailException, match="was not rejected"):
        run_task(delays, "drop_rejected", {"show": shown(delays), "approve": asked})
    assert [state for _, state, _ in trials(delays)] == ["dropped", "open"]


def test_a_trial_that_nobody_answered_for_stays_open_and_the_run_fails(delays: DerivedWorld) -> None:
    """With the commands. Also where the approval was marked as skipped or as a success."""
    try_version(delays)
    with pytest.raises(
        AirflowFailException, match=r"trial 1 of route delays stays open.*relaybox trials drop delays --reason WHY"
    ):
        run_task(delays, "drop_rejected", {"show": shown(delays), "approve": UNANSWERED})
    with pytest.raises(AirflowFailException, match="was not rejected: its approve task was marked"):
        run_task(delays, "drop_rejected", {"show": shown(delays)})
    assert (trials(delays), len(tried(delays))) == ([(2, "open", None)], 6)


def test_what_changed_since_the_question_is_not_promoted(delays: DerivedWorld) -> None:
    """The comparison that was cleared and shows something else; or the function."""
    try_version(delays)
    pulled = {"show": shown(delays), "approve": {**APPROVED, "digest": "of something else"}}
    with pytest.raises(AirflowFailException, match="is not what was approved"):
        run_task(delays, "promote", pulled)
    pulled["approve"] = APPROVED
    delays.configure(**{"with": f"{HERE}:copies", "next": {**TWO, "with": f"{HERE}:odd_ones"}})
    with pytest.raises(AirflowFailException, match=r"relaybox trials drop delays --reason WHY"):
        run_task(delays, "promote", pulled)
    assert versions(delays) == [1]


def test_a_worker_without_the_module_is_told_where_it_has_to_be(delays: DerivedWorld) -> None:
    """Where a driver in cluster mode had it from spark.submit.pyFiles. The trial stays open."""
    try_version(delays)
    pulled = {"show": shown(delays), "approve": APPROVED}
    delays.configure(**{"with": f"{HERE}:copies", "next": {**TWO, "with": "no_such_delays:twos"}})
    with pytest.raises(
        AirflowFailException, match=r"derive\.next\.with: no_such_delays:twos: the import .* who promotes a trial"
    ):
        run_task(delays, "promote", pulled)
    assert (versions(delays), trials(delays)) == ([1], [(2, "open", None)])


@pytest.mark.thorough
def test_the_module_may_come_with_the_application_in_an_archive(
    delays: DerivedWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By spark.submit.pyFiles in the settings of the route. A worker that has the file promotes it: it has the same digest."""
    text = """
from pyspark.sql import functions as f


def shout(payload):
    return payload.upper()


def loud(flights):
    return flights.select("stream_position", f.udf(shout)("payload").alias("payload"))
"""
    (tmp_path / "loud_in_archive.py").write_text(text, encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "loud.zip", "w") as archive:
        archive.writestr("loud_in_archive.py", text)
    delays.configure(**{"with": f"{HERE}:copies", "next": {"with": "loud_in_archive:loud", "version": 2}})
    document = yaml.safe_load(delays.world.path.read_text())
    document["routes"]["delays"]["spark"] = {"conf": {"spark.submit.pyFiles": str(tmp_path / "loud.zip")}}
    delays.world.path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    task = dag(delays).get_task("try")
    task.render_template_fields({**context({}), "dag": task.dag, "run_id": "r1"})
    task.execute(context({}))
    assert tried(delays) == [f"M{number}" for number in range(1, 7)]
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run_task(delays, "promote", {"show": shown(delays), "approve": APPROVED})["version"] == 2


@pytest.mark.thorough
def test_try_runs_spark_and_a_cleared_try_after_a_drop_begins_no_other_trial(
    delays: DerivedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By spark-submit. Another run of the DAG begins another one."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT / "plugins"), str(ROOT))))

    def attempt(run_id: str) -> None:
        task = dag(delays).get_task("try")
        asked = context({}, run_id, start="2", through="5")
        task.render_template_fields({**asked, "dag": task.dag, "run_id": run_id})
        task.execute(asked)

    attempt("r1")
    assert [(version, state) for version, state, _ in trials(delays)] == [(2, "open")]
    assert tried(delays) == [f"m{number}{part}" for number in range(2, 6) for part in "ab"]
    found = shown(delays)
    assert run_task(delays, "drop_rejected", {"show": found, "approve": REJECTED})["dropped"]
    with pytest.raises(AirflowException, match=r"relaybox trials run delays"):
        attempt("r1")
    assert len(trials(delays)) == 1
    attempt("r2")
    assert [state for _, state, _ in trials(delays)] == ["dropped", "open"]
