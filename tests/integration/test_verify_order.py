"""`relaybox verify` checks the order of a route's streams: it counts each violation and names its stream position."""

from __future__ import annotations

from typing import Any

import pytest

from relaybox.routes import load_routes
from relaybox.verification.results import verification_line
from relaybox.verification.route_verification import verify_route
from relaybox.verification.stream_verification import VIOLATIONS
from tests.support.cli import invoke
from tests.support.senders import declare, send_caused, send_numbered, skip, stream
from tests.support.world import World

pytestmark = pytest.mark.thorough

NONE = dict.fromkeys(VIOLATIONS, 0)


def streams(exit_code: int) -> dict[str, Any]:
    verification = invoke("verify", "flights", "--json")
    assert verification.exit_code == exit_code, verification.stdout + verification.stderr
    return {one["store"]: one for one in verification.document["streams"]}


def is_broken(kind: str, example: str, *, count: int = 1, store: str = "hub") -> None:
    """Just this rule is broken at this store; the terminal and the line of the daily report say so too."""
    verification = streams(1)[store]
    broken = {found: number for found, number in verification["violations"].items() if number}
    miscounted = broken.pop("decision_contradicts", 0)  # what was broken by hand no longer adds up
    assert broken == {kind: count}
    assert example in verification["examples"][kind][0]
    shown = " ".join(invoke("verify", "flights").stdout.split())
    assert f"{count} {kind}" in shown
    assert " ".join(example.split()) in shown
    assert verification_line(verify_route(load_routes().route("flights")))["defects"] == count + miscounted


def disordered(world: World, order: str) -> None:
    """Displaced and repeated messages of two senders in three batches; index 4 of b comes with other content too."""
    world.change_route(order=order)
    declare(world, "a", "b")
    send_numbered(world, "a", 2, 1, 3, 3)
    send_numbered(world, "c", 1)
    world.transfer_all()
    send_numbered(world, "b", 1, 2, 4)
    send_numbered(world, "b", 4, payload="forged")
    world.transfer_all()
    send_numbered(world, "b", 3)
    send_numbered(world, "a", 1)
    world.transfer_all()


@pytest.mark.parametrize("order", ["none", "fifo", "causal", "total"])
def test_what_is_delivered_in_its_order_breaks_no_rule(world: World, order: str) -> None:
    disordered(world, order)
    world.send("without an index", sender="d")
    world.transfer_all()
    for verification in streams(3).values():
        assert (verification["order"], verification["waiting_count"], verification["violations"], verification["examples"]) == (
            order,
            0,
            NONE,
            {},
        )
        assert verification["last_stream_position"] == (7 if order == "causal" else 8)
    assert (
        f"stream flights at analytics: order {order}, {7 if order == 'causal' else 8} stream positions, 0 violations"
        in invoke("verify", "flights").stdout
    )


def test_what_a_stream_set_aside_is_not_delivered_until_someone_decides(world: World) -> None:
    """It is counted by reason at each store, with the command that lists it; dropped on record it counts no longer."""
    disordered(world, "none")
    found = verify_route(load_routes().route("flights"))
    assert (found.outcome, found.defect_count, verification_line(found)["set_aside"]) == ("set aside", 0, 4)
    counted = {"other_content": 1, "sender_not_declared": 1}
    assert [one["set_aside"] for one in streams(3).values()] == [counted, counted]
    shown = " ".join(invoke("verify", "flights").stdout.split())
    assert "flights set aside: nothing is missing" in shown
    assert "delivered:" not in shown
    assert (
        "2 messages are set aside (1 other_content, 1 sender_not_declared): they are in the log, and no consumer gets them. "
        "Show them: relaybox dead-letters list hub" in shown
    )
    world.query("hub", "select relaybox.drop_dead_letter(dead_letter_id, 'sent again') from relaybox_internal.dead_letter")
    assert [one["set_aside"] for one in streams(3).values()] == [{}, counted]
    world.query("analytics", "select relaybox.drop_dead_letter(dead_letter_id, 'sent again') from relaybox_internal.dead_letter")
    assert [one["set_aside"] for one in streams(0).values()] == [{}, {}]


def test_what_is_held_or_waits_behind_a_stalled_sender_is_in_flight_and_breaks_no_rule(world: World) -> None:
    world.change_route(order="fifo", limits={"holdback_rows": 2})
    declare(world, "a")
    send_numbered(world, "a", 2, 3)
    world.transfer()
    send_numbered(world, "a", 4, 5)
    world.transfer_all()
    assert {store: (one["waiting_count"], one["violations"]) for store, one in streams(3).items()} == {
        "hub": (4, NONE),
        "analytics": (4, NONE),
    }
    send_numbered(world, "a", 1)
    world.transfer_all()
    assert streams(0)["hub"]["last_stream_position"] == 5


def test_gaps_that_were_given_up_or_fenced_break_no_rule(world: World) -> None:
    world.change_route(order="fifo")
    declare(world, "a", "b")
    send_numbered(world, "a", 1, 3)
    send_numbered(world, "b", 1, 3)
    world.transfer_all()
    skip("a")
    world.query("airline", "select relaybox.new_epoch('b')")
    send_numbered(world, "b", 1, epoch=2)
    world.transfer_all()
    assert stream(world) == ["a1", "b1", "a3", "b3", "b1"]
    assert [one["violations"] for one in streams(0).values()] == [NONE, NONE]
    world.query("hub", "delete from relaybox_internal.skip")
    is_broken("sender_out_of_order", "stream position 3: index 3 of a, epoch 1, follows index 1")


def test_causes_that_were_given_up_or_set_aside_break_no_rule(world: World) -> None:
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_caused(world, "a", 1, {"b": 1})
    send_caused(world, "a", 2, {"a": 7})
    send_caused(world, "a", 3, {"b": 1})
    world.transfer_all()
    skip("b", "--through", "1")
    send_caused(world, "b", 2, {"a": 2})
    world.transfer_all()
    assert stream(world) == ["a1", "a3", "b2"]
    assert [one["violations"] for one in streams(3).values()] == [NONE, NONE]
    world.query("hub", "delete from relaybox_internal.skip")
    verification = streams(1)["hub"]
    assert (verification["violations"]["before_its_cause"], verification["violations"]["sender_out_of_order"]) == (2, 1)
    assert (
        verification["examples"]["before_its_cause"][0] == "stream position 1 comes before index 1 of b, which was not delivered"
    )


SWAP = "update relaybox_internal.delivery set log_positions = array[2, 1], first_position = 2 where first_stream_position = 1"
BREAKS = {
    "stream_positions_not_dense": (
        (
            "update relaybox_internal.stream set last_stream_position = last_stream_position + 1; "
            "update relaybox_internal.delivery set first_stream_position = first_stream_position + 20, last_stream_position = last_stream_position + 20; "
            "update relaybox_internal.delivery set first_stream_position = first_stream_position - 19, last_stream_position = last_stream_position - 19"
        ),
        "stream position 2 follows stream position 0",
    ),
    "position_lost": (
        "delete from relaybox_internal.dead_letter where log_position = 9",
        "position 9 of flights/1 has no stream position and no reason for it",
    ),
    "position_decided_twice": (
        (
            "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason) select stream_id, log_id, 1, 'by hand' "
            "from relaybox_internal.dead_letter limit 1"
        ),
        "position 1 of flights/1: set aside, stream position 2",
    ),
    "position_unknown": (
        (
            "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason) select stream_id, log_id, 500, 'by hand' "
            "from relaybox_internal.dead_letter limit 1"
        ),
        "position 500 of flights/1 was never decided on: set aside",
    ),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_a_broken_decision_is_named(world: World, kind: str) -> None:
    disordered(world, "fifo")
    statement, example = BREAKS[kind]
    world.query("hub", statement)
    is_broken(kind, example)


def test_a_stream_position_without_a_message_is_named(world: World) -> None:
    disordered(world, "fifo")
    world.query("hub", "update relaybox_internal.stream set last_stream_position = 9")
    is_broken("stream_positions_not_dense", "stream position 10 follows stream position 7")


def test_a_repeated_index_is_named(world: World) -> None:
    world.change_route(order="none")
    declare(world, "a")
    send_numbered(world, "a", 1, 2, 1)
    world.transfer_all()
    world.query("hub", "update relaybox_internal.delivery set last_stream_position = 3")
    world.query("hub", "update relaybox_internal.stream set last_stream_position = 3")
    world.query("hub", "update relaybox_internal.decision set duplicates = null")
    is_broken("index_repeated", "stream position 3: index 1 of a stands at stream position 1 already")


def test_a_repeated_id_within_the_window_is_named(world: World) -> None:
    world.change_route(order="none", message_id_window=100)
    world.send("x", "y")
    world.transfer_all()
    world.query(
        "hub",
        "update relaybox_internal.log set message_id = (select message_id from relaybox_internal.log where log_position = 1)",
    )
    verification = streams(1)["hub"]
    assert verification["violations"] == {**NONE, "message_id_repeated": 1}
    assert verification["examples"]["message_id_repeated"] == [
        "stream position 2: position 2 of flights/1 has the id of position 1"
    ]


def test_a_sender_out_of_order_is_named_with_its_stream_position(world: World) -> None:
    world.change_route(order="fifo")
    declare(world, "a")
    send_numbered(world, "a", 1, 2)
    world.transfer_all()
    world.query("hub", SWAP)
    is_broken("sender_out_of_order", "stream position 1: index 2 of a, epoch 1, follows index 0", count=2)


def test_a_message_before_its_cause_is_named_with_both_stream_positions(world: World) -> None:
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_caused(world, "b", 1, {})
    send_caused(world, "a", 1, {"b": 1})
    world.transfer_all()
    world.query("analytics", SWAP)
    is_broken(
        "before_its_cause", "stream position 1 comes before index 1 of b, which stands at stream position 2", store="analytics"
    )


def test_stores_of_a_total_route_that_disagree_are_named_with_the_stream_position(world: World) -> None:
    world.change_route(order="total")
    declare(world, "a", "b")
    send_numbered(world, "a", 1)
    send_numbered(world, "b", 1)
    world.transfer_all()
    assert streams(0)["analytics"]["violations"] == NONE
    world.query("analytics", SWAP)
    is_broken("stores_disagree", "stream position 1: position 1 at hub, 2 at analytics", count=2, store="analytics")


def test_stores_of_a_total_route_are_compared_as_far_as_both_have_come(world: World) -> None:
    world.change_route(order="total")
    world.send("x")
    world.transfer_all()
    world.send("y")
    world.transfer()
    assert [one["violations"] for one in streams(3).values()] == [NONE, NONE]
