"""A real Airflow carries out what people order, while messages keep moving: backfills as replays, redrives, skips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from relaybox.local.clusters import Cluster
from relaybox.reliability import PERFECT
from relaybox.verification import verify_route
from tests.airflow.replay_world import DAYS, STORE, SUBSCRIPTION, deliver_days, live_traffic, places_of_days, reading
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.world import wait_until

REPLAY_DAG = "relaybox_replay__flights"
RETRIES = {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1}
ROUTE = {"runner": "threads", "limits": {"linger_seconds": 5}, "retries": RETRIES}
THREE_DAYS = DAYS[1:4]


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """An Airflow whose tasks move messages by themselves."""
    with running_system(clusters, tmp_path_factory.mktemp("orders"), route=ROUTE, pauses=(), prepare=deliver_days) as system:
        yield system


def test_g9_a_backfill_replays_exactly_its_days_while_live_messages_flow(system: System) -> None:
    """By the command line, then the same days again by the API, then one that is cancelled: each to its second cursor."""
    days = places_of_days(system.world)
    wanted = [place for day in THREE_DAYS for place in days[day]]
    with reading(SUBSCRIPTION) as live, live_traffic(system.world):
        with reading("billing.replay") as replayed:
            conf = {"subscription": SUBSCRIPTION, "reason": "invoices were wrong", "rows_per_second": 5000}
            dates = ("--from-date", THREE_DAYS[0], "--to-date", THREE_DAYS[-1], "--max-active-runs", "1")
            system.airflow.command("backfill", "create", "--dag-id", REPLAY_DAG, *dates, "--dag-run-conf", json.dumps(conf))
            _wait_for_backfill(system, {"success": 3})
        assert replayed.places == wanted
        assert {was_replayed for _, was_replayed, _ in replayed.read} == {True}
        assert [payload for _, _, payload in replayed.read] == system.world.payloads("flights/2")[wanted[0] - 1 : wanted[-1]]

        with reading("billing.replay") as again:
            _backfill(system, conf, at_once=3)
            _wait_for_backfill(system, {"success": 3})
        assert sorted(again.read) == replayed.read  # with more than one run at once, days come in any order, each in its own
        assert sum(later - place != 1 for place, later in pairwise(again.places)) <= 2

        backfill = _backfill(system, {**conf, "cursor": "slow"}, at_once=1)
        waiting = "select count(*) from relaybox.subscription where subscription = 'slow'"
        wait_until(lambda: system.world.value(STORE, waiting) == 1, "the first day is begun", deadline_seconds=ARRIVE_SECONDS)
        system.client.put(f"backfills/{backfill}/cancel")
        with reading("slow") as cancelled:
            _wait_for_backfill(system, {"success": 1, "failed": 2}, backfill)
        assert cancelled.places in [days[day] for day in THREE_DAYS]
    assert live.places == list(range(1, len(live.read) + 1))
    assert not any(was_replayed for _, was_replayed, _ in live.read)
    assert len(live.read) > days[DAYS[-1]][-1]

    system.wait_until_settled(len(system.world.sent()))
    system.wait_until_quiet()
    proof = verify_route(system.world.route)
    assert [leg.delivery for leg in (*proof.hops, proof.end_to_end)] == [PERFECT] * 3
    reasons = "select distinct action, reason from relaybox.consumer_action where action = 'replay'"
    assert system.world.query(STORE, reasons) == [("replay", "invoices were wrong")]


def _backfill(system: System, conf: Mapping[str, Any], *, at_once: int) -> int:
    """The three days once more, through the API; returns the backfill's number."""
    body = {
        "dag_id": REPLAY_DAG,
        "from_date": f"{THREE_DAYS[0]}T00:00:00Z",
        "to_date": f"{THREE_DAYS[-1]}T00:00:00Z",
        "dag_run_conf": dict(conf),
        "reprocess_behavior": "completed",
        "max_active_runs": at_once,
    }
    return int(system.client.post("backfills", body)["id"])


def _wait_for_backfill(system: System, states: Mapping[str, int], number: int | None = None) -> None:
    """Waits until its runs have these states, and closes it: by itself Airflow takes up to half a minute."""
    (backfill,) = [
        one
        for one in system.client.get("backfills", dag_id=REPLAY_DAG)["backfills"]
        if number in (None, one["id"]) and not one["completed_at"]
    ] or [None]

    def counted() -> dict[str, int]:
        found = [run["state"] for run in system.runs(REPLAY_DAG)]
        return {state: found.count(state) for state in set(found)}

    wait_until(lambda: counted() == dict(states), f"runs are {states}", deadline_seconds=ARRIVE_SECONDS)
    if backfill is not None:
        system.client.put(f"backfills/{backfill['id']}/cancel")
