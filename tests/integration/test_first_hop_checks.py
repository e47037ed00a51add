"""`schema_checks.<topic>.first_hop`: what does not conform is found where it arrives, and no hop stops."""

from __future__ import annotations

import json
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox.retention.segments import retain_store
from tests.support.cli import invoke
from tests.support.world import STORES, World

SCHEMA = {"type": "object", "properties": {"seats": {"type": "integer"}}}
GOOD, BAD = '{"seats": 3}', '{"seats": "many"}'
PROBLEM = "schema version 1: /seats: its type is not integer"
FOUND = """
select n.log_position, n.topic, n.is_set_aside, n.problem from relaybox_internal.nonconforming_message n
join relaybox_internal.hop_in i using (log_id) where i.hop = %s order by 1
"""
DELIVERED = "select log_position from relaybox.read_stream('flights', 0, 10000)"
SET_ASIDE = "select log_position, reason, detail from relaybox.dead_letters where subscription is null order by 1"


def ask(world: World, rule: str, document: Any = SCHEMA, **route: Any) -> None:
    """Writes relaybox.yaml with this rule, and registers it in all stores."""
    (world.path.parent / "flights-1.json").write_text(json.dumps(document))
    file = {
        "stores": {store: {} for store in STORES},
        "routes": {"flights": {"topics": ["flights", "bookings"], "path": list(STORES), **route}},
        "schemas": {"flights": ["flights-1.json"]},
        "schema_checks": {"flights": {"first_hop": rule}},
    }
    world.path.write_text(yaml.safe_dump(file))
    world.register()


def delivered(world: World, store: str) -> list[int]:
    return [position for (position,) in world.query(store, DELIVERED)]


def verified(*, is_set_aside: bool = True) -> None:
    """`relaybox verify` finds nothing wrong in any store of the route, and says if messages are set aside."""
    done = invoke("verify", "flights")
    assert done.exit_code == (3 if is_set_aside else 0), done.stdout + done.stderr
    assert done.stdout.count(" 0 violations") == 2
    assert ("does_not_conform" in done.stdout) == is_set_aside


def test_warn_notes_what_does_not_conform_and_delivers_it(world: World) -> None:
    """In the first store alone; a topic that nobody checks is not looked at."""
    ask(world, "warn")
    world.send(GOOD, BAD, "{")
    world.send(BAD, topic="bookings")
    world.transfer_all()
    no_json = "schema version 1: the payload: it is no JSON that Postgres reads: invalid input syntax for type json"
    assert world.query("hub", FOUND, "flights/1") == [(2, "flights", False, PROBLEM), (3, "flights", False, no_json)]
    assert world.query("analytics", FOUND, "flights/2") == []
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [1, 2, 3, 4]
    verified(is_set_aside=False)


@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_set_aside_keeps_a_message_from_every_stream_of_the_route(world: World, order: str) -> None:
    """Each store sets the same message aside, with what is wrong with it; what the sender sends later is delivered."""
    ask(world, "set_aside", order=order)
    world.send(GOOD, BAD, GOOD)
    world.send(BAD, topic="bookings")
    world.transfer_all()
    world.send(BAD)
    world.send(GOOD)
    world.transfer_all()
    for store, hop in (("hub", "flights/1"), ("analytics", "flights/2")):
        assert delivered(world, store) == [1, 3, 4, 6]
        detail = f"topic flights, {PROBLEM}"
        assert world.query(store, SET_ASIDE) == [(2, "does_not_conform", detail), (5, "does_not_conform", detail)]
        assert world.query(store, FOUND, hop) == [(2, "flights", True, PROBLEM), (5, "flights", True, PROBLEM)]
    assert world.value("hub", "select sum(set_aside_count) from relaybox_internal.decision") == 2
    verified()


def declare(world: World, sender: str) -> None:
    world.query("airline", "select relaybox.declare_sender(%s, 'gapless')", sender)


def send_numbered(world: World, sender: str, *messages: tuple[int, str], clock: str | None = None) -> None:
    for index, payload in messages:
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, index, payload, clock) values ('flights', %s, %s, %s, %s)",
            *(sender, index, payload, clock),
        )


def test_the_next_message_of_a_sender_does_not_wait_for_one_that_is_set_aside(world: World) -> None:
    """In fifo order: also if it came before its turn, and if its turn comes in a later batch."""
    ask(world, "set_aside", order="fifo")
    declare(world, "UA")
    send_numbered(world, "UA", (1, GOOD), (2, BAD), (3, GOOD))
    world.transfer_all()
    assert delivered(world, "hub") == [1, 3]
    send_numbered(world, "UA", (6, GOOD), (5, BAD))
    world.transfer_all()
    assert delivered(world, "hub") == [1, 3]
    send_numbered(world, "UA", (4, GOOD))
    world.transfer_all()
    send_numbered(world, "UA", (7, GOOD), (8, GOOD))
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [1, 3, 6, 4, 7, 8]
        assert [position for position, _, _ in world.query(store, SET_ASIDE)] == [2, 5]
    verified()


def test_a_stalled_sender_resumes_without_what_is_set_aside(world: World) -> None:
    ask(world, "set_aside", order="fifo", limits={"holdback_rows": 2})
    declare(world, "UA")
    send_numbered(world, "UA", (2, GOOD), (3, GOOD), (4, GOOD))
    world.transfer_all()
    send_numbered(world, "UA", (5, BAD), (6, GOOD))
    world.transfer_all()
    assert delivered(world, "hub") == []
    send_numbered(world, "UA", (1, GOOD))
    world.transfer_all()
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [6, 1, 2, 3, 5]
        assert [position for position, _, _ in world.query(store, SET_ASIDE)] == [4]
    verified()


def test_causal_order_goes_on_after_a_cause_that_is_set_aside(world: World) -> None:
    """Also where the sender of what is set aside goes on with a message that names another one of the same batch."""
    ask(world, "set_aside", order="causal")
    declare(world, "UA")
    declare(world, "LH")
    send_numbered(world, "UA", (1, BAD))
    send_numbered(world, "LH", (1, GOOD), clock='{"UA": 1}')
    send_numbered(world, "UA", (2, GOOD))
    world.transfer_all()
    send_numbered(world, "LH", (2, GOOD))
    send_numbered(world, "UA", (3, BAD))
    send_numbered(world, "UA", (4, GOOD), clock='{"LH": 2}')
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [2, 3, 4, 6]
        assert world.value(store, "select count(*) from relaybox_internal.held") == 0
    verified()


def test_a_dead_letter_of_a_schema_is_dropped_by_an_operator_and_never_redriven(world: World) -> None:
    ask(world, "set_aside")
    world.send(BAD)
    world.transfer_all()
    (letter,) = world.query("hub", "select dead_letter_id from relaybox.dead_letters")[0]
    world.query("hub", "select relaybox.subscribe('reader', 'flights')")
    with pytest.raises(psycopg2.Error, match=r"was set aside by stream flights \(does_not_conform\)") as refused:
        world.query("hub", "select relaybox.redrive('reader', 'again', %s)", letter)
    assert "correct the payload or the schema, then send the message again" in str(refused.value)
    assert invoke("dead-letters", "drop", "hub", str(letter), "--reason", "sent again").exit_code == 0


@pytest.mark.parametrize("payload", ["[" * 20_000 + "]" * 20_000, '{"seats": 1e400000}', '{"a": "\\u0000"}', "", "\\"])
def test_no_payload_stops_a_hop(world: World, payload: str) -> None:
    ask(world, "set_aside", {"type": "object", "properties": {"seats": {"type": "integer", "minimum": 0}}})
    world.send(GOOD, payload, GOOD)
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [1, 3]


def test_an_error_in_the_check_is_the_problem_of_the_message(world: World) -> None:
    """It does not conform, with the error kept: it stops no hop."""
    ask(world, "set_aside")
    world.query(
        "hub",
        """
        create or replace function relaybox_internal."payload.flights.v1"(payload text) returns text language sql immutable
        return (1 / (length(payload) - 12))::text
        """,
    )
    assert len(GOOD) == 12
    world.send(GOOD)
    world.transfer_all()
    problem = "schema version 1: the payload: it can't be checked: division by zero (22012)"
    assert world.query("hub", FOUND, "flights/1") == [(1, "flights", True, problem)]
    assert delivered(world, "analytics") == []


def test_a_rule_holds_for_what_arrives_after_it(world: World) -> None:
    """What arrived before keeps what was decided; what is noted stays noted."""
    ask(world, "none")
    world.send(BAD)
    world.transfer(world.first_hop)
    ask(world, "set_aside")
    world.send(BAD)
    world.transfer(world.first_hop)
    ask(world, "none")
    world.send(BAD)
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [1, 3]
    assert world.value("hub", "select count(*) from relaybox_internal.hop_check") == 0
    verified()


def test_staged_slices_that_a_new_generation_removes_take_their_notes_along(world: World) -> None:
    ask(world, "set_aside")
    world.query(
        "hub",
        "insert into relaybox_internal.nonconforming_message select log_id, 1, 'flights', true, 'x' from relaybox_internal.hop_in where hop = 'flights/1'",
    )
    world.query(
        "hub",
        "select relaybox_internal.begin_generation(log_id, generation + 1) from relaybox_internal.hop_in where hop = 'flights/1'",
    )
    assert world.query("hub", FOUND, "flights/1") == []


def test_notes_go_with_the_messages_that_retention_drops(world: World) -> None:
    world.cut_small_segments(10)
    ask(world, "warn", retention={"replay_window_seconds": 0})
    for _ in range(4):
        world.send(*[BAD] * 10)
        world.transfer_all()
        world.settle_all()
    world.settle_all()
    retain_store(world.routes.store("hub"), recorded_by="test")
    kept = world.value("hub", "select first_kept_position from relaybox_internal.hop_in where hop = 'flights/1'")
    assert kept > 10
    ((first, *_), *_) = world.query("hub", FOUND, "flights/1")
    assert first > 10


def test_refusing_at_a_hop_is_no_rule(world: World) -> None:
    ask(world, "none")
    file = yaml.safe_load(world.path.read_text()) | {"schema_checks": {"flights": {"first_hop": "reject"}}}
    world.path.write_text(yaml.safe_dump(file))
    done = invoke("schemas")
    assert done.exit_code == 2
    assert "a hop that refused it would stop. Refuse it before, with outbox: refuse" in done.stderr
