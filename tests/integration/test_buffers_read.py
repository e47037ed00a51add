"""What a hot query reads does not grow with what a store keeps: pages of one call, small and large."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relaybox.hops import idle_hops
from relaybox.hops.idle_hops import pass_idle_hops
from tests.support.world import World, insert, routes_file

POLL = "select relaybox_internal.hop_has_work('invoices/1')"
LOWER = "select lower::text from relaybox_internal.hop_out where hop = 'invoices/1'"


def pages(world: World, store: str, query: str) -> int:
    """Pages that a statement touches the second time in a session of Relaybox; what it changed is rolled back."""
    with world.session(store) as session, session.cursor() as cursor:
        cursor.execute("set enable_seqscan = off")
        session.commit()
        cursor.execute(query)
        session.rollback()
        cursor.execute(f"explain (analyze, buffers, format json) {query}")
        plan: Any = cursor.fetchone()[0]
        session.rollback()
    node = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


@pytest.fixture
def beside(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """The hop invoices/1 leaves the store of flights/1, has moved a message, and has nothing to move since."""
    monkeypatch.setattr(idle_hops, "IDLE_PAIR_TRANSACTIONS", 20)
    routes_file(world.path.parent, more_routes={"invoices": {"topics": ["invoices"], "path": ["airline", "hub"]}})
    world.initialise()
    world.send("invoice 1", topic="invoices")
    world.transfer(world.routes.hop("invoices/1"))
    return world


def send_batches(world: World, count: int) -> None:
    """This number of transactions of 200 messages of flights."""
    for _ in range(count):
        world.send_many(200)


def test_a_poll_of_an_idle_hop_does_not_read_what_other_hops_have_moved(beside: World) -> None:
    """The driver of the busy hop moves the idle hop's snapshot on; else each poll reads all that was sent since."""
    before = pages(beside, "airline", POLL)
    for _ in range(3):
        send_batches(beside, 30)
        beside.transfer()
    after = pages(beside, "airline", POLL)
    assert after <= 1.2 * before + 10, f"a poll touched {before} pages, and {after} after 18,000 messages of others"
    beside.send("invoice 2", topic="invoices")
    assert beside.value("airline", POLL) is True
    beside.transfer(beside.routes.hop("invoices/1"))
    assert beside.payloads("invoices/1") == ["invoice 1", "invoice 2"]


def test_a_message_whose_transaction_is_open_meanwhile_is_moved_later(beside: World) -> None:
    """The snapshot that the idle hop is moved on to knows which transactions were open."""
    with beside.session() as late:
        insert(late, "late invoice", topic="invoices")
        lower = beside.value("airline", LOWER)
        send_batches(beside, 30)
        beside.transfer()
        assert beside.value("airline", LOWER) != lower
        late.commit()
    assert beside.value("airline", POLL) is True
    beside.transfer(beside.routes.hop("invoices/1"))
    assert beside.payloads("invoices/1") == ["invoice 1", "late invoice"]


def test_a_hop_that_has_something_to_move_is_left_to_its_own_driver(beside: World) -> None:
    beside.send("invoice 2", topic="invoices")
    lower = beside.value("airline", LOWER)
    send_batches(beside, 30)
    beside.transfer()
    assert beside.value("airline", LOWER) == lower
    beside.transfer(beside.routes.hop("invoices/1"))
    assert beside.payloads("invoices/1") == ["invoice 1", "invoice 2"]


def test_a_hop_that_another_session_has_locked_does_not_stop_the_driver_of_another(beside: World) -> None:
    lower = beside.value("airline", LOWER)
    with beside.session() as planner, planner.cursor() as cursor:
        cursor.execute("select from relaybox_internal.hop_out where hop = 'invoices/1' for update")
        send_batches(beside, 30)
        assert beside.transfer().row_count == 6_000
        assert beside.value("airline", LOWER) == lower
    with beside.store_session() as source:
        assert pass_idle_hops(source, beside.first_hop) == 1
        assert pass_idle_hops(source, beside.first_hop) == 0, "a narrow pair is read again"


def test_the_segments_of_one_log_are_found_without_those_of_others(world: World) -> None:
    """Retention asks for each log in turn: with all segments for each of them it would take hops times segments."""
    asked = {"a log": "select * from relaybox_internal.segments() s where s.log_id is not distinct from 1"}
    asked["the end of the list"] = f"{asked['a log']} order by s.first limit 1"
    before = {name: pages(world, "hub", query) for name, query in asked.items()}
    world.query("hub", "select relaybox_internal.ensure_outbox_segments(150)")
    world.query("hub", "analyze")
    after = {name: pages(world, "hub", query) for name, query in asked.items()}
    more = {name: (before[name], after[name]) for name in asked if after[name] > 1.2 * before[name] + 20}
    assert more == {}, "pages before and beside 150 segments of the outbox"
