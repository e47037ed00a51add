"""An id is compared with the ids of its own sender only: what one sender wrote never drops a message of another one."""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

import pytest

from tests.support.cli import invoke
from tests.support.senders import reasons, stream
from tests.support.world import World

pytestmark = pytest.mark.thorough

IDS = {42: str(uuid5(NAMESPACE_OID, "order 42")), 43: str(uuid5(NAMESPACE_OID, "order 43"))}
"""Ids that anybody can compute who knows the number of an order."""

ORDERS = ("none", "fifo", "causal", "total")

Message = tuple[str, str, int]
"""Sender, payload, number of the order whose id it has."""

FORGED: tuple[Message, ...] = (("prod_a", "order 42", 42), ("prod_a", "junk", 43))
HONEST: tuple[Message, ...] = (("prod_b", "order 42", 42), ("prod_b", "order 43", 43))


def send(world: World, *messages: Message, numbered: bool) -> None:
    """One committed transaction; with `numbered` each message has the next index of its sender."""
    index = "relaybox.next_index(%(sender)s)" if numbered else "null"
    with world.session() as connection, connection.cursor() as cursor:
        for sender, payload, number in messages:
            cursor.execute(
                f"insert into relaybox.outbox (topic, sender, payload, message_id, index) "
                f"values ('flights', %(sender)s, %(payload)s, %(id)s, {index})",
                {"sender": sender, "payload": payload, "id": IDS[number]},
            )
        connection.commit()


def windowed(world: World, order: str, *, numbered: bool) -> None:
    world.change_route(order=order, message_id_window=100_000)
    if numbered:
        for sender in ("prod_a", "prod_b"):
            world.query("airline", "select relaybox.declare_sender(%s, 'gapless')", sender)


def delivered(world: World, store: str) -> list[tuple[str, str]]:
    return world.query(store, "select sender, payload from relaybox.read_stream('flights', 0, 100) order by stream_position")


@pytest.mark.parametrize("batches", [1, 2], ids=["within a batch", "across batches"])
@pytest.mark.parametrize(
    ("order", "numbered"), [(order, numbered) for order in ORDERS for numbered in (False, True) if numbered or order != "causal"]
)
def test_the_ids_of_one_sender_drop_nothing_of_another(world: World, order: str, batches: int, *, numbered: bool) -> None:
    windowed(world, order, numbered=numbered)
    send(world, *FORGED, numbered=numbered)
    if batches == 2:
        world.transfer_all()
    send(world, *HONEST, numbered=numbered)
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [(sender, payload) for sender, payload, _ in (*FORGED, *HONEST)]
        assert reasons(world, store) == []


@pytest.mark.parametrize("batches", [1, 2], ids=["within a batch", "across batches"])
@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_between_a_message_and_its_repetition_another_sender_may_use_its_id(world: World, order: str, batches: int) -> None:
    """The repetition is still a duplicate of its own sender's message, and its junk is set aside."""
    windowed(world, order, numbered=False)
    send(world, ("prod_b", "order 42", 42), ("prod_a", "order 42", 42), numbered=False)
    if batches == 2:
        world.transfer_all()
    send(world, ("prod_b", "order 42", 42), ("prod_a", "junk", 42), numbered=False)
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, store) == [("prod_b", "order 42"), ("prod_a", "order 42")]
        assert reasons(world, store) == [(4, "other_content")]


def test_verify_says_which_repeated_ids_were_delivered_and_which_were_not(world: World) -> None:
    """Each number of the note is there, and counts what consumers get and do not get."""
    windowed(world, "none", numbered=False)
    send(world, *FORGED, *HONEST, numbered=False)
    send(world, ("prod_b", "order 42", 42), ("prod_b", "other", 43), numbered=False)
    world.transfer_all()
    verified = invoke("verify", "flights", "--json")
    assert verified.document["repeated_ids"] == sorted(IDS.values())
    assert verified.document["repeated_id_counts"] == {"messages": 6, "delivered": 4, "dropped": 1, "set_aside": 1, "waiting": 0}
    said = " ".join(invoke("verify", "flights").stdout.split())
    assert (
        "note: producers gave 2 ids to 6 messages: at analytics 4 are delivered, 1 are dropped as duplicates of their senders' "
        "earlier messages, 1 are set aside, 0 wait" in said
    )


def test_where_names_the_earlier_message_of_the_same_sender(world: World) -> None:
    windowed(world, "none", numbered=False)
    send(world, ("prod_a", "order 42", 42), ("prod_b", "order 42", 42), ("prod_b", "order 42", 42), numbered=False)
    world.transfer_all()
    hops = [trace["hops"][0]["delivered"] for trace in invoke("where", IDS[42], "--json").document["traces"]]
    assert [(one["delivery_state"], one["duplicate_of"]) for one in hops] == [
        ("delivered", None),
        ("delivered", None),
        ("duplicate", 2),
    ]
    assert stream(world) == ["order 42", "order 42"]
