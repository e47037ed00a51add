"""A local hop leads from a store's outbox into a log of the same store, and is a hop like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import pytest

from relaybox.hops import copying
from relaybox.monitoring.message_trace import trace_message
from relaybox.monitoring.status import read_status
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.routes import Store
from relaybox.stores import opening
from relaybox.verification import reading
from relaybox.verification.route_verification import verify_route
from tests.support.breaking import copy_first_slices
from tests.support.cli import invoke
from tests.support.world import World, wait_until

MakeLocal = Callable[..., World]


@pytest.fixture
def make_local(make_world: Callable[[str], AbstractContextManager[World]], template_without_routes: str) -> Iterator[MakeLocal]:
    """Makes the route flights: airline -> airline -> further, in fresh stores."""
    with make_world(template_without_routes) as world:

        def make(*further: str, **route: object) -> World:
            world.change_route(path=["airline", "airline", *further], **route)
            return world

        yield make


@pytest.fixture(params=[(), ("hub",), ("hub", "analytics")], ids=lambda further: f"{1 + len(further)} hops")
def local(make_local: MakeLocal, request: pytest.FixtureRequest) -> World:
    """A route whose first hop is local, with small slices."""
    return make_local(*request.param, limits={"batch_rows": 40, "slice_rows": 9})


def test_every_message_arrives_once_in_order_and_is_settled(local: World) -> None:
    """G2 to G5 and G7 hold: the log beside the outbox is the outbox, and so is every log after it."""
    local.send_many(100, prefix="m")
    local.transfer_all()
    local.send("late")
    local.transfer_all()
    expected = [f"m{n}" for n in range(1, 101)] + ["late"]
    for hop in local.route.hops:
        assert (local.payloads(hop.name), local.log_positions(hop.name)) == (expected, list(range(1, 102)))
    assert [(settled.through_position, settled.newly_settled) for settled in local.settle_all()] == [
        (101, 101) for _ in local.route.hops
    ]
    assert [settled.newly_settled for settled in local.settle_all()] == [0] * len(local.route.hops)


def test_status_verify_and_where_tell_of_it_like_of_any_hop(local: World) -> None:
    """One store is both sides: each is asked what it is, and the sessions end."""
    local.send("a", "b", "c")
    waiting = read_status(local.routes).hops[0]
    assert (waiting.sent, waiting.received, waiting.lag_messages) == (3, 0, 3)
    local.transfer_all()
    local.settle_all()
    status = read_status(local.routes)
    assert [(hop.sent, hop.received, hop.lag_messages, hop.settled_through) for hop in status.hops] == [
        (3, 3, 0, 3) for _ in local.route.hops
    ]
    assert not status.errors
    verification = verify_route(local.route)
    assert (verification.outcome, verification.sender_count, verification.disordered_senders) == ("delivered", 1, ())
    assert [(leg.sent, leg.received, leg.defect_count) for leg in (*verification.hops, verification.end_to_end)] == [
        (3, 3, 0) for _ in (*verification.hops, verification.end_to_end)
    ]
    message_id = local.value("airline", "select message_id::text from relaybox.outbox where payload = 'b'")
    (trace,) = trace_message([local.route], UUID(message_id))
    assert [(hop.stage, hop.log_position) for hop in trace.hops] == [("settled", 2) for _ in local.route.hops]
    assert {invoke(*command).exit_code for command in (("status",), ("verify", "flights"), ("where", message_id))} == {0}
    wait_until(lambda: sessions(local) == [], "all sessions of the hop have ended")


def test_a_verification_opens_one_session_per_store(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that stands twice in the path is asked by one thread, in one session."""
    opened: list[str] = []

    def spied(store: Store, **options: str) -> Any:
        opened.append(store.name)
        return opening.open_store(store, **options)

    monkeypatch.setattr(reading, "open_store", spied)
    verify_route(local.route)
    assert sorted(opened) == sorted({store.name for store in local.route.path})


def sessions(world: World) -> list[str]:
    return [
        row[0]
        for row in world.query(
            "airline",
            "select application_name from pg_stat_activity where datname = current_database() and application_name like 'relaybox%%'",
        )
    ]


def test_cascade_is_settled_only_when_the_last_store_has_it(make_local: MakeLocal) -> None:
    """The local log alone settles nothing: both hops' confirmations stand in one table and are not mistaken for each other."""
    local = make_local("hub")
    local.send("a", "b")
    local.transfer(local.first_hop)
    assert [settled.through_position for settled in local.settle_all()] == [0, 0]
    local.transfer(local.second_hop)
    assert [settled.through_position for settled in local.settle_all()] == [2, 2]


def test_two_drivers_at_once_copy_each_message_once(local: World) -> None:
    """G3: each ends the sessions of older attempts at its slice, readers included, which are in the same store here."""
    local.send_many(400)
    with ThreadPoolExecutor(3) as pool:
        summaries = [pool.submit(local.transfer, local.first_hop) for _ in range(3)]
        assert sum(summary.result().row_count for summary in summaries) >= 400
    assert local.log_positions("flights/1") == list(range(1, 401))
    assert local.payloads("flights/1") == local.sent()


def test_newer_attempt_ends_both_sessions_of_an_older_one(make_local: MakeLocal) -> None:
    """A frozen task's reader and writer are both in this store; its successor ends them and not itself."""
    local = make_local()
    local.send("a", "b")
    frozen = []
    for _ in range(2):
        session = copying.connect("airline", application_name="relaybox flights/1 b1 s1 a1")
        session.autocommit = True
        frozen.append(session)
    assert local.transfer().row_count == 2
    wait_until(lambda: sessions(local) == [], "all sessions of the hop have ended")
    for session in frozen:
        session.close()


def test_batch_that_was_left_half_copied_is_resumed(local: World) -> None:
    """The slices with a receipt are kept, as between two stores."""
    local.send_many(30)
    copy_first_slices(local.first_hop, 2)
    assert local.payloads("flights/1") == []
    summary = local.transfer()
    assert (summary.resumed_count, summary.row_count) == (1, 30)
    assert local.payloads("flights/1") == local.sent()


def test_reanchored_after_a_reload_it_goes_on(local: World) -> None:
    """The store that lost history is both sides at once: its ledger and its log still agree, and nothing is sent twice."""
    local.send("a", "b")
    local.transfer_all()
    local.query("airline", "update relaybox_internal.hop_out set timeline = timeline + 1")
    for hop in local.route.hops:
        if hop.source.name == "airline":
            reanchor_hop(hop, local.routes, recorded_by="test", reason="a test", dry_run=False)
    local.send("c")
    local.transfer_all()
    for hop in local.route.hops:
        assert local.payloads(hop.name) == ["a", "b", "c"]
    assert verify_route(local.route).outcome == "delivered"
