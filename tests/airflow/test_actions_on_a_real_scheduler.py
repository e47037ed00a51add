"""A real Airflow runs operator actions while messages move: backfills as replays, redrives, skips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from relaybox.consumer import Consumer, Message
from relaybox.errors import StackFailed
from relaybox.local.clusters import Cluster
from relaybox.stores.init.one_store import initialise_store
from relaybox.verification.reliability import PERFECT
from relaybox.verification.route_verification import verify_route
from tests.airflow.open_questions import answer, wait_until_asked
from tests.airflow.page_browser import page_browser
from tests.airflow.replay_world import DAYS, STORE, SUBSCRIPTION, deliver_days, live_traffic, reading, stream_positions_of_days
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

REPLAY_DAG, REDRIVE_DAG = "relaybox_replay__flights", "relaybox_redrive__flights"
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
    days = stream_positions_of_days(system.world)
    wanted = [stream_position for day in THREE_DAYS for stream_position in days[day]]
    with reading(SUBSCRIPTION) as live, live_traffic(system.world):
        with reading("billing.replay") as replayed:
            conf = {"subscription": SUBSCRIPTION, "reason": "invoices were wrong", "rows_per_second": 5000}
            dates = ("--from-date", THREE_DAYS[0], "--to-date", THREE_DAYS[-1], "--max-active-runs", "1")
            system.airflow.command("backfill", "create", "--dag-id", REPLAY_DAG, *dates, "--dag-run-conf", json.dumps(conf))
            _wait_for_backfill(system, {"success": 3})
        assert replayed.stream_positions == wanted
        assert {was_replayed for _, was_replayed, _ in replayed.read} == {True}
        assert [payload for _, _, payload in replayed.read] == system.world.payloads("flights/2")[wanted[0] - 1 : wanted[-1]]

        with reading("billing.replay") as again:
            _backfill(system, conf, at_once=3)
            _wait_for_backfill(system, {"success": 3})
        assert sorted(again.read) == replayed.read  # with more than one run at once, days come in any order, each in its own
        assert sum(later - stream_position != 1 for stream_position, later in pairwise(again.stream_positions)) <= 2

        backfill = _backfill(system, {**conf, "cursor": "slow"}, at_once=1)
        waiting = "select count(*) from relaybox_internal.subscription where subscription = 'slow'"
        wait_until(lambda: system.world.value(STORE, waiting) == 1, "the first day is begun", deadline_seconds=ARRIVE_SECONDS)
        system.client.put(f"backfills/{backfill}/cancel")
        with reading("slow") as cancelled:
            _wait_for_backfill(system, {"success": 1, "failed": 2}, backfill)
        assert cancelled.stream_positions in [days[day] for day in THREE_DAYS]
    assert live.stream_positions == list(range(1, len(live.read) + 1))
    assert not any(was_replayed for _, was_replayed, _ in live.read)
    assert len(live.read) > days[DAYS[-1]][-1]

    system.wait_until_settled(len(system.world.sent()))
    system.wait_until_quiet()
    verification = verify_route(system.world.route)
    assert [leg.delivery for leg in (*verification.hops, verification.end_to_end)] == [PERFECT] * 3
    reasons = "select distinct action, reason from relaybox.consumer_action where action = 'replay'"
    assert system.world.query(STORE, reasons) == [("replay", "invoices were wrong")]


def test_the_page_leads_through_a_replay_and_a_redrive_that_is_approved(system: System, tmp_path: Path) -> None:
    """As the engineer on call: count a day, replay it, find a dead letter, ask for its redrive, approve that in Airflow."""
    world = system.world
    day = stream_positions_of_days(world)[DAYS[1]]
    dead_letter_id = _refuse_one(world)
    with page_browser(system.airflow.url, tmp_path) as browser:
        browser.open("/plugin/relaybox")
        browser.go("Streams and consumers")
        browser.see("td code", "<b>refund</b> of order 4711")
        browser.picture("page-streams.png")
        browser.frame.locator("tr").filter(has_text="refunds").get_by_text("Replay", exact=True).click()
        browser.see("h1", "Read messages again: route flights")
        browser.fill("start", DAYS[1])
        browser.fill("through", DAYS[2])
        browser.fill("reason", "invoices of that day were wrong")
        browser.press("Count messages")
        browser.see("#said", f"Stream positions {day[0]} to {day[-1]}: {len(day)} messages")
        browser.picture("page-replay.png")
        assert (
            world.value(STORE, "select count(*) from relaybox_internal.subscription where subscription = 'refunds.replay'") == 0
        )
        with reading("refunds.replay") as again:
            browser.press("Replay")
            browser.see("#said", "of the replay DAG of route flights.")
            _wait_for_run(system, REPLAY_DAG)
        assert again.stream_positions == day
        browser.go("Streams and consumers")
        browser.see("tr", "replay of refunds: finished")

        browser.frame.locator("tr").filter(has_text="order 4711").get_by_text("Redrive", exact=True).click()
        browser.see("h1", "Redrive dead letters: route flights")
        browser.fill("reason", "fixed in 1.4")
        browser.press("Request redrive")
        browser.see("#said", "It waits for an approval: see Required Actions in Airflow")
        run = _newest_run(system, REDRIVE_DAG)
        attempt = wait_until_asked(system, REDRIVE_DAG, run)
        assert (
            world.value(STORE, "select state from relaybox_internal.dead_letter where dead_letter_id = %s", dead_letter_id)
            == "open"
        )
        while attempt:  # Airflow asks again when it loses the task, or the machine that it runs on
            browser.open(f"/dags/{REDRIVE_DAG}/runs/{quote(run, safe='')}/tasks/approve/required_actions")
            approve = browser.tab.get_by_role("button", name="Approve", exact=True)
            approve.wait_for(timeout=patience(60_000))
            browser.picture("airflow-approval.png")
            approve.click()
            attempt = wait_until_asked(system, REDRIVE_DAG, run, after=attempt)
        _wait_for_run(system, REDRIVE_DAG)
    with reading("refunds") as redriven:
        wait_until(lambda: len(redriven.read) == 1, "the dead letter is read", deadline_seconds=ARRIVE_SECONDS)
    assert redriven.read[0][1:] == (False, "<b>refund</b> of order 4711"), "it was never acknowledged before"
    audit = "select reason, detail ->> 'on_behalf_of' from relaybox.consumer_action where action = 'redrive'"
    ((reason, whom),) = world.query(STORE, audit)
    asked, _, approved = whom.partition(", approved by ")
    assert reason == "fixed in 1.4"
    assert asked
    assert approved not in ("", "unknown user")


def test_a_replay_waits_for_its_approval_where_the_store_asks_for_one(system: System) -> None:
    """The file is edited and init is run under a living Airflow. Nobody gets messages again before a person approves in Airflow."""
    world = system.world
    document = yaml.safe_load(world.path.read_text())
    document["stores"][STORE] = {**(document["stores"][STORE] or {}), "require_approval": True}
    world.path.write_text(yaml.safe_dump(document))
    assert initialise_store(world.routes.stores[STORE], world.routes).approvals == "switched on"
    wait_until(lambda: "approve" in _task_ids(system), "Airflow has read the file again", deadline_seconds=ARRIVE_SECONDS)
    day = stream_positions_of_days(world)[DAYS[1]]
    form = {"subscription": SUBSCRIPTION, "cursor": "approved", "start": str(day[0]), "through": str(day[-1]), "reason": "audit"}
    run = system.client.trigger_dag(REPLAY_DAG, {"store": STORE, **form})
    attempt = wait_until_asked(system, REPLAY_DAG, run)
    assert world.value(STORE, "select count(*) from relaybox_internal.subscription where subscription = 'approved'") == 0
    with reading("approved") as reader:
        while attempt:  # Airflow asks again when it loses the task, or the machine that it runs on
            answer(system, REPLAY_DAG, run)
            attempt = wait_until_asked(system, REPLAY_DAG, run, after=attempt)
        _wait_for_run(system, REPLAY_DAG)
    assert reader.stream_positions == day
    audit = "select detail ->> 'on_behalf_of' from relaybox.consumer_action where detail ->> 'as' = 'approved'"
    assert ", approved by " in str(world.value(STORE, audit))


def _task_ids(system: System) -> list[str]:
    return [task["task_id"] for task in system.client.get(f"dags/{REPLAY_DAG}/tasks")["tasks"]]


def _refuse_one(world: World) -> int:
    """A message that its consumer can't take: the number of its dead letter. Everything else is read."""
    world.query(STORE, "select relaybox.subscribe('refunds', 'flights', nack_limit => 1)")
    world.send("<b>refund</b> of order 4711", sender="REF")
    refused = "select dead_letter_id from relaybox_internal.dead_letter where state = 'open'"

    def refuse(_: object, message: Message) -> None:
        if message.sender == "REF":
            raise ValueError("no such order")

    def is_refused() -> bool:
        with Consumer(STORE, "refunds", until_empty=True, max_count=1000) as consumer:
            consumer.run(refuse)
        return bool(world.query(STORE, refused))

    wait_until(is_refused, "the refund arrived and was refused", deadline_seconds=ARRIVE_SECONDS)
    return int(world.value(STORE, refused))


def _newest_run(system: System, dag_id: str) -> str:
    return str(max(system.runs(dag_id), key=lambda run: run["queued_at"])["dag_run_id"])


def _wait_for_run(system: System, dag_id: str) -> None:
    run = _newest_run(system, dag_id)
    state = system.client.wait_for_run(dag_id, run, deadline_seconds=patience(ARRIVE_SECONDS))
    assert state == "success", system.account_of(dag_id, run)


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
        with suppress(StackFailed):  # Airflow closed it in this moment
            system.client.put(f"backfills/{backfill['id']}/cancel")
        assert system.client.get(f"backfills/{backfill['id']}")["completed_at"]
