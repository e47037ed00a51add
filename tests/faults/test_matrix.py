"""The matrix leaves nothing out: every commit of the core has failpoints, and every failpoint has cells."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from relaybox import failpoints
from relaybox.failpoints import KNOWN_FAILPOINTS
from tests.faults.cells import STEPS, all_cells, sides
from tests.faults.faults import FAULTS
from tests.faults.library import CORE, LIBRARY, name_of
from tests.faults.sites import LAYOUTS

REPOSITORY = Path(__file__).parents[2]

NOT_A_STEP = {
    "stores/sessions/answer_limits.py": "a session ends its own COMMIT at a limit",
    "stores/sessions/connections.py": "commit_durably and commit are the places where failpoints are reached",
    "stores/sessions/store_session.py": "a session commits as a step, or for a module that is named below",
    "stores/sessions/settings.py": "sets a new session up before its first transaction",
    "stores/init/all_stores.py": "adds one column to a store of version 37 or less; the next init finds it there or adds it",
    "sinks/worker.py": "a worker's transactions are those of a consumer; it has SINK_FAILPOINTS, and is killed at each of them",
    "sinks/subscribing.py": "a subscription is made by one statement in one transaction",
    "sinks/states.py": "the end of a pause is one statement in one transaction",
    "consumer/core.py": "a consumer's transactions are her own; she has CONSUMER_FAILPOINTS, and is killed at each of them",
    "consumer/session.py": "the same",
    "clients/asyncpg.py": "the same",
    "testing/clusters.py": "a server of tests is made anew if its maker is killed",
    "testing/stores.py": "an application of tests commits statement by statement",
    "clients/psycopg.py": "the same",
    "clients/reopening.py": "the same",
    "clients/sqlalchemy.py": "the same",
    "streams/senders.py": "an operator's declaration is one statement in one transaction",
    "stores/opening.py": "each statement of a caller that only asks is a transaction",
    "subscriptions/dead_letters.py": "an operator's change of a dead letter is one statement in one transaction",
    "subscriptions/subscriptions.py": "an operator's change of a subscription is one statement in one transaction",
    "retention/detached_segments.py": "each statement of detaching and attaching is a transaction; these modules reach their failpoints",
    "retention/retiring.py": "an operator's word that a hop moves nothing more is one statement in one transaction",
    "subscriptions/topic_grants.py": "the owner's grant or revoke of topics is one transaction",
    "subscriptions/bindings.py": "the owner's binding of a subscription to a role is one statement in one transaction",
    "subscriptions/operators.py": "the owner's binding of an operator to a stream is one statement in one transaction",
    "subscriptions/redriving.py": "an operator's change of dead letters is one transaction",
    "subscriptions/replays.py": "an operator's change of a replay is one transaction",
    "recovery/restoring.py": "an operator's list of subscriptions is restored in one transaction",
}
"""Modules that commit and are no step of the protocol, and why."""

STRUCK_ELSEWHERE = {
    "SINK_FAILPOINTS": "tests/integration/test_webhooks.py::test_a_worker_that_is_killed_at_any_step_loses_nothing",
    "CONSUMER_FAILPOINTS": "tests/integration/test_g10_exactly_once.py::test_g10_killed_at_each_step_in_turn",
    "TRIAL_FAILPOINTS": "tests/integration/test_trial_steps.py::test_g3_a_trial_that_is_killed_at_any_step_has_the_messages_of_one_attempt",
    "FRAME_FAILPOINTS": "tests/integration/test_frame_partitions.py::test_g3_a_task_that_is_killed_at_any_step_sends_its_partition_once",
    "LAKE_FAILPOINTS": "tests/integration/test_lake_steps.py::test_g3_an_export_that_is_killed_at_any_step_writes_each_message_once",
    "PUT_FAILPOINTS": "tests/airflow/test_put_operator.py::test_g3_a_put_that_is_killed_at_any_step_sends_its_rows_once",
    "QUERY_FAILPOINTS": "tests/integration/test_query_subscription.py::test_g8_a_query_that_is_killed_at_any_step_acknowledges_what_it_has_done",
    "PAYLOAD_FAILPOINTS": "tests/integration/test_payload_collection.py::test_a_collection_that_is_killed_at_any_step_is_gone_on_with",
    "RETENTION_FAILPOINTS": "tests/integration/test_g8_safe_retention.py::test_g8_retention_killed_anywhere_is_gone_on_with",
    "INIT_FAILPOINTS": "tests/integration/test_init_of_all_stores.py::test_an_init_that_was_killed_anywhere_is_finished_or_taken_back",
    "DETACH_FAILPOINTS": "tests/spark/test_detach.py::test_g8_detaching_and_attaching_are_gone_on_with_after_any_step",
}
"""Failpoints of steps that no driver of a hop does, and the test that injects faults there."""

OPERATORS_STEPS = {
    "skip": "one statement in one transaction, by a person: no driver takes it",
}
"""Steps that commit durably and have no failpoints, and why."""


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def bare_commits(path: Path) -> list[str]:
    """Lines where a connection is committed, or told to commit each statement, in a module that never passes a failpoint there."""
    tree = ast.parse(path.read_text())
    commits = [
        call for call in calls(path) if isinstance(call.func, ast.Attribute) and call.func.attr == "commit" and not call.args
    ]
    each_statement = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Attribute) and one.attr == "autocommit" for one in node.targets)
    ]
    return [f"{path.name}:{node.lineno}" for node in [*commits, *([] if reached([path]) else each_statement)]]


def named_steps() -> set[str]:
    """The steps that the core commits under: the argument of a session's commit_durably() and commit()."""
    return {
        call.args[0].value
        for path in LIBRARY.rglob("*.py")
        for call in calls(path)
        if name_called(call) in {"commit", "commit_durably"} and call.args and isinstance(call.args[0], ast.Constant)
    }


def name_called(call: ast.Call) -> str | None:
    """`commit` of `session.commit(...)`."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def reached(paths: Iterable[Path]) -> set[str]:
    """Failpoints that modules reach by a literal name."""
    return {
        call.args[0].value
        for path in paths
        for call in calls(path)
        if "reach" in {name_called(call), getattr(call.func, "id", None)} and isinstance(call.args[0], ast.Constant)
    }


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_every_step_has_a_failpoint(path: Path) -> None:
    """A module of the core commits only where failpoints are reached before and after."""
    assert (bare_commits(path) == []) == (name_of(path) not in NOT_A_STEP)


def test_every_commit_has_its_two_failpoints() -> None:
    """STEP.committing and STEP.committed for every step that commits, and no failpoint that nothing reaches."""
    around = {f"{step}.{moment}" for step in named_steps() - OPERATORS_STEPS.keys() for moment in ("committing", "committed")}
    assert around | reached(LIBRARY.rglob("*.py")) == set(KNOWN_FAILPOINTS)


def test_every_failpoint_is_struck() -> None:
    """By the matrix, or by a test that is named here and goes through all failpoints of its group."""
    beside = {failpoint for group in STRUCK_ELSEWHERE for failpoint in getattr(failpoints, group)}
    assert STEPS.keys() | beside == set(KNOWN_FAILPOINTS)
    assert not STEPS.keys() & beside
    for group, test in STRUCK_ELSEWHERE.items():
        path, _, name = test.partition("::")
        tree = ast.parse((REPOSITORY / path).read_text())
        (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        assert group in {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}, test


def test_every_failpoint_has_its_cells() -> None:
    """Each is struck by the death of its driver, by a zombie, by a duplicate, and by the crash of each store that it works in."""
    target = {(cell.failpoint, cell.fault) for cell in all_cells()}
    everywhere = {"kill_driver", "zombie", "duplicate"}
    wanted = {(failpoint, fault) for failpoint in STEPS for fault in everywhere | {f"crash_{side}" for side in sides(failpoint)}}
    assert wanted <= target


def test_every_fault_has_its_cells() -> None:
    assert {cell.fault for cell in all_cells()} == set(FAULTS)


def test_the_matrix_is_as_big_as_promised() -> None:
    """At least 250 cells, none of them twice, all kinds of hops."""
    cells = all_cells()
    assert len(set(cells)) == len(cells) >= 250
    assert {cell.kind for cell in cells} == set(LAYOUTS)
