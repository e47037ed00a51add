"""Every action on a run of relaybox_init: what was approved is done, once, and nothing else. Run: make test-airflow-actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from relaybox.airflow.naming import APPROVE_TASK_ID, INIT_DAG_ID, INIT_TASK_ID, SHOW_TASK_ID
from relaybox.local.clusters import Cluster
from tests.airflow.action_cells import INIT_EFFECTS
from tests.airflow.action_target import Target, TaskOfDag
from tests.airflow.open_questions import answer, wait_until_asked
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.patience import patience
from tests.support.world import wait_until

HOLDS = {"open": "init.committing", "committed": "init.committed"}
MARKS = ("mark_failed", "mark_success")
INIT_CELLS = [(action, state) for action, effects in INIT_EFFECTS.items() for state in effects if state in HOLDS]
BINDS = "select relrowsecurity from pg_class where oid = 'relaybox.outbox'::regclass"


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One Airflow for all cells, which knows the owners of the stores."""
    directory = tmp_path_factory.mktemp("inits")
    with running_system(clusters, directory, pauses=tuple(HOLDS.values()), owners=True) as system:
        wait_until(
            lambda: any(dag["dag_id"] == INIT_DAG_ID for dag in system.client.get("dags", limit=100)["dags"]),
            "Airflow has the DAG",
            deadline_seconds=ARRIVE_SECONDS,
            poll_seconds=0.5,
        )
        yield system


@pytest.mark.parametrize("action", [action for action, effects in INIT_EFFECTS.items() if "asked" in effects])
def test_what_nobody_approved_is_not_done(system: System, action: str) -> None:
    before = _binds(system)
    run = _ask(system)
    asked = wait_until_asked(system, INIT_DAG_ID, run)
    approve, show = (Target(TaskOfDag(system, INIT_DAG_ID, one), run, 0, "") for one in (APPROVE_TASK_ID, SHOW_TASK_ID))
    if action.startswith("edit"):
        _edit(system, bind_topics=not _bind_topics(system))
    if action.endswith("clear_show"):
        show.clear()
        _wait_for_task(system, run, SHOW_TASK_ID, "success", tries=2)
        asked = wait_until_asked(system, INIT_DAG_ID, run, after=asked - 1)
    if action in MARKS:
        getattr(approve, action)()
    else:
        answer(system, INIT_DAG_ID, run, "Reject" if action == "reject" else "Approve")
    ended = system.client.wait_for_run(INIT_DAG_ID, run, deadline_seconds=patience(ARRIVE_SECONDS))
    is_done = action == "clear_show"
    assert _binds(system) == (before != is_done), system.account_of(INIT_DAG_ID, run)
    assert ended == ("success" if is_done or action == "reject" else "failed")
    reasons = {"mark_success": "This run has no approval", "edit": "is not the one whose plan was approved"}
    if action in reasons:
        assert reasons[action] in system.account_of(INIT_DAG_ID, run)
    if action == "edit_and_clear_show":
        assert "is not what was approved" in system.account_of(INIT_DAG_ID, run)


@pytest.mark.parametrize(("action", "state"), INIT_CELLS)
def test_what_was_approved_is_done_once(system: System, action: str, state: str) -> None:
    before, init = _binds(system), TaskOfDag(system, INIT_DAG_ID, INIT_TASK_ID)
    run = _ask(system)
    with system.held(HOLDS[state]):
        _approve(system, run)
        init.wait_until_held(HOLDS[state])
        target = init.wait_for("running")
        assert target.run_id == run
        getattr(target, action)()
        if action in MARKS:
            wait_until(lambda: not Path(f"/proc/{target.pid}").exists(), "init has ended", deadline_seconds=ARRIVE_SECONDS)
        else:
            init.wait_for_next_attempt()
    ended = system.client.wait_for_run(INIT_DAG_ID, run, deadline_seconds=patience(ARRIVE_SECONDS))
    assert ended == ("failed" if action == "mark_failed" else "success"), system.account_of(INIT_DAG_ID, run)
    undone = action in MARKS and state == "open"
    assert _binds(system) == (before if undone else not before)
    if undone:
        target.clear()
        assert system.client.wait_for_run(INIT_DAG_ID, run, deadline_seconds=patience(ARRIVE_SECONDS)) == "success"
        assert _binds(system) == (not before)


@pytest.mark.parametrize("action", [action for action, effects in INIT_EFFECTS.items() if "ended" in effects])
def test_a_run_that_has_ended_changes_nothing_any_more(system: System, action: str) -> None:
    run = _ask(system)
    _approve(system, run)
    assert system.client.wait_for_run(INIT_DAG_ID, run, deadline_seconds=patience(ARRIVE_SECONDS)) == "success"
    done = _binds(system)
    cleared = SHOW_TASK_ID if action == "clear_show" else INIT_TASK_ID
    target = Target(TaskOfDag(system, INIT_DAG_ID, cleared), run, 0, "success")
    getattr(target, "clear" if action == "clear_show" else action)()
    if action.startswith("clear"):
        _wait_for_task(system, run, cleared, "skipped" if action == "clear_show" else "success", tries=2)
    system.wait_until_quiet()
    assert _binds(system) == done


def _ask(system: System) -> str:
    """A run of the DAG after an edit of the file: the store airline is to check its senders, or is not any more."""
    _edit(system, bind_senders=not _binds(system), bind_topics=_bind_topics(system))
    return system.client.trigger_dag(INIT_DAG_ID, {"store": "airline"})


def _approve(system: System, run: str) -> None:
    """Answers each question: Airflow asks again when it loses the task."""
    asked = wait_until_asked(system, INIT_DAG_ID, run)
    assert asked, system.account_of(INIT_DAG_ID, run)
    answer(system, INIT_DAG_ID, run)


def _wait_for_task(system: System, run: str, task_id: str, state: str, *, tries: int) -> None:
    def is_there() -> bool:
        tasks = {task["task_id"]: task for task in system.task_instances(INIT_DAG_ID, run)}
        return (tasks[task_id]["state"], tasks[task_id]["try_number"]) == (state, tries)

    wait_until(is_there, f"{task_id} is {state} in attempt {tries}", deadline_seconds=ARRIVE_SECONDS)


def _edit(system: System, **keys: object) -> None:
    """Other keys of the store airline in relaybox.yaml."""
    document = yaml.safe_load(system.world.path.read_text())
    document["stores"]["airline"] = {**(document["stores"]["airline"] or {}), **keys}
    system.world.path.write_text(yaml.safe_dump(document))


def _binds(system: System) -> bool:
    return bool(system.world.value("airline", BINDS))


def _bind_topics(system: System) -> bool:
    return bool(system.world.routes.store("airline").bind_topics)
