"""Every Airflow action in every state of a transfer leaves the stores right, and the DAGs go on by themselves. Run: make test-airflow-actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from relaybox.local.clusters import Cluster
from relaybox.verification.reliability import PERFECT
from relaybox.verification.route_verification import verify_route
from tests.airflow.action_cells import CELLS
from tests.airflow.action_target import Target, TaskOfDag
from tests.airflow.replay_world import live_traffic
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.world import wait_until

DAG_ID = "relaybox_transfer__flights_1"
HOLDS = {"planning": "plan.begin", "copying": "slice.piping", "confirming": "confirm.begin"}
"""Where a state's driver is held."""
LINGER_SECONDS = 3
"""As long as Airflow lets a transfer linger without a message."""

ROUTE = {
    "runner": "threads",
    "limits": {"batch_rows": 500, "slice_rows": 100},
    "retries": {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1},
}
MESSAGES = 400


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One Airflow for all cells."""
    directory = tmp_path_factory.mktemp("actions")
    with running_system(clusters, directory, route=ROUTE, pauses=tuple(HOLDS.values())) as system:
        system.world.send("the first")
        _settle(system)
        yield system


@pytest.mark.parametrize(("action", "state"), CELLS)
def test_g3_the_stores_are_right_whatever_is_done_in_airflow(system: System, action: str, state: str) -> None:
    """The batch arrives once, every message in its order; what is sent afterwards arrives without a click."""
    with ExitStack() as holding:
        target = _bring_about(system, state, holding)
        batch = _newest_batch(system)
        getattr(target, action)()
        if state in HOLDS and action in ("clear", "retry"):
            target.wait_for_next_attempt()
    system.world.send(f"after {action} {state}")
    system.client.patch(f"dags/{DAG_ID}", {"is_paused": False})
    _settle(system)

    assert system.world.query("hub", "select batch from relaybox_internal.arrival group by batch having count(*) > 1") == []
    assert _newest_batch(system) >= batch
    assert system.world.payloads("flights/2") == system.world.sent()
    assert system.world.log_positions("flights/2") == list(range(1, len(system.world.sent()) + 1))
    verification = verify_route(system.world.route)
    assert [leg.delivery for leg in (*verification.hops, verification.end_to_end)] == [PERFECT] * 3
    assert verification.outcome == "delivered"


def _bring_about(system: System, state: str, holding: ExitStack) -> Target:
    """A transfer of the first hop in this state, held there until `holding` is closed."""
    transfer = TaskOfDag(system, DAG_ID, "transfer")
    before = frozenset(task["dag_run_id"] for task in transfer.attempts())
    if state in HOLDS:
        holding.enter_context(system.held(HOLDS[state]))
        system.world.send_many(MESSAGES, prefix=state)
        transfer.wait_until_held(HOLDS[state])
        return transfer.wait_for("running")
    if state == "failed":
        with system.held(HOLDS["copying"]):
            system.world.send_many(MESSAGES, prefix=state)
            transfer.wait_until_held(HOLDS["copying"])
            transfer.wait_for("running").mark_failed()
            return transfer.wait_for("failed", but_runs=before)
    if state == "lingering":
        system.client.trigger_dag(DAG_ID, {"linger_seconds": LINGER_SECONDS})
    system.world.send_many(MESSAGES, prefix=state)
    received = "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = 'flights/1' and state = 'received'"
    wait_until(
        lambda: system.world.value("airline", received) == len(system.world.sent()), "received", deadline_seconds=ARRIVE_SECONDS
    )
    if state == "lingering":
        # begun now: no two producers at once, whose messages have no order; a driver without messages would end in seconds
        holding.enter_context(live_traffic(system.world))
        moved = len(system.world.sent())
        wait_until(lambda: system.world.value("airline", received) > moved, "live messages move", deadline_seconds=ARRIVE_SECONDS)
        return transfer.wait_for("running")
    return transfer.wait_for("success", but_runs=before - {_mover(system)})


def _mover(system: System) -> str:
    """The run that moved the newest batch: it may have been waiting before anything was sent."""
    recorded_by = system.world.value(
        "airline",
        "select recorded_by from relaybox_internal.attempt where hop = 'flights/1' order by batch desc, attempt desc limit 1",
    )
    return str(recorded_by).partition(" ")[2]


def _newest_batch(system: System) -> int:
    return int(
        system.world.value("airline", "select coalesce(max(batch), 0) from relaybox_internal.batch where hop = 'flights/1'")
    )


def _settle(system: System) -> None:
    """All that was sent is settled at the origin, without a click, and nothing runs any more."""
    system.wait_until_settled(len(system.world.sent()))
    system.wait_until_quiet()
