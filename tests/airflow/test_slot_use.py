"""When a transfer gives back its slot of the executor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from relaybox.airflow.slot_use import IDLE_SECONDS, SlotDemand, idle_seconds, waiting_states
from relaybox.routes import Hop, load_routes
from tests.support.world import routes_file


class Asked:
    """A task instance that knows how many tasks are scheduled, by DAG, as Airflow's execution API says it."""

    def __init__(self) -> None:
        self.scheduled: dict[str, int] = {}
        self.unanswered: set[str] = set()

    def get_ti_count(self, *, dag_id: str, states: list[str]) -> int:
        assert states == ["scheduled", "queued"]
        if dag_id in self.unanswered:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        return self.scheduled.get(dag_id, 0)


@pytest.fixture
def hop(tmp_path: Path) -> Hop:
    return load_routes(routes_file(tmp_path)).hop("flights/1")


def demand(hop: Hop) -> tuple[SlotDemand, Asked]:
    ti: Any = Asked()
    return SlotDemand(hop, ti), ti


def test_a_slot_is_held_for_seconds_whatever_the_route_says(hop: Hop) -> None:
    lingering = {
        seconds: idle_seconds(replace(hop, limits=replace(hop.limits, linger_seconds=seconds))) for seconds in (0, 2, 3600)
    }
    assert lingering == {0: 0, 2: 2, 3600: IDLE_SECONDS}


def test_a_hop_that_waits_for_a_slot_in_two_looks_gets_this_one(hop: Hop) -> None:
    slot, ti = demand(hop)
    ti.scheduled = {"relaybox_transfer__crew_1": 1}
    assert not slot.is_slot_wanted(["crew/1"]), "every task is scheduled for a moment"
    assert slot.is_slot_wanted(["crew/1"])


def test_a_hop_without_a_driver_that_waits_for_no_slot_gets_none(hop: Hop) -> None:
    """Its task is starting, its DAG is paused, or Airflow has not heard of it."""
    slot, ti = demand(hop)
    assert not any(slot.is_slot_wanted(["crew/1"]) for _ in range(3))
    for waiting in ("crew", "food", "fuel"):
        ti.scheduled = {f"relaybox_transfer__{waiting}_1": 1}
        assert not slot.is_slot_wanted(["crew/1", "food/1", "fuel/1"]), "another one in each look: slots are free"


def test_an_airflow_that_cannot_answer_fails_no_transfer(hop: Hop) -> None:
    """Another hop that it can answer for gets the slot all the same."""
    slot, ti = demand(hop)
    ti.unanswered, ti.scheduled = {"relaybox_transfer__crew_1"}, {"relaybox_transfer__food_1": 1}
    assert [slot.is_slot_wanted(["crew/1"]) for _ in range(2)] == [False, False]
    assert [slot.is_slot_wanted(["crew/1", "food/1"]) for _ in range(2)] == [False, True]


def test_a_pod_that_starts_waits_for_no_slot() -> None:
    assert waiting_states("LocalExecutor") == waiting_states("CeleryExecutor") == ["scheduled", "queued"]
    assert waiting_states("KubernetesExecutor") == ["scheduled"]
