"""The lessons of docs/ordering.md: each anomaly happens without the order that rules it out, and not with it, from the same sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import permutations
from typing import Any

import pytest
import yaml
from psycopg2.extras import NamedTupleCursor

from relaybox.outbox import CausalSender, put
from tests.integration.orders import Sent, keeps_causal, keeps_fifo, keeps_total
from tests.support.world import STORES, World


def follow(world: World, routes: Mapping[str, Mapping[str, object]]) -> None:
    """Has the stores follow other routes than before."""
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": dict(routes)}))
    world.register()


def move(world: World, *hops: str) -> None:
    for hop in hops:
        world.transfer(world.routes.hop(hop))


def declare(world: World, store: str, *senders: str) -> None:
    for sender in senders:
        world.query(store, "select relaybox.declare_sender(%s, 'gapless')", sender)


def delivered(world: World, store: str, stream: str) -> list[str]:
    return [row[0] for row in world.query(store, "select payload from relaybox.read_stream(%s)", stream)]


class Screen:
    """A consumer that shows what a store's streams deliver, as it comes, and tells a sender of it."""

    def __init__(self, world: World, store: str, streams: Sequence[str], sender: CausalSender | None = None) -> None:
        self.shown: list[str] = []
        self._world, self._store, self._sender = world, store, sender
        self._stream_positions = dict.fromkeys(streams, 0)

    def look(self) -> None:
        for stream, stream_position in self._stream_positions.items():
            for message in self._read(stream, stream_position):
                self.shown.append(message.payload)
                self._stream_positions[stream] = message.stream_position
                if self._sender:
                    self._sender.delivered(message)

    def _read(self, stream: str, stream_position: int) -> list[Any]:
        with self._world.session(self._store) as session, session.cursor(cursor_factory=NamedTupleCursor) as cursor:
            cursor.execute("select * from relaybox.read_stream(%s, %s)", (stream, stream_position))
            return list(cursor.fetchall())


@pytest.fixture
def two_writers(world: World) -> Iterator[tuple[Any, Any]]:
    """Two cursors of two sessions at the first store, each in a transaction of its own."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(world.session()) for _ in range(2))
        yield first.cursor(), second.cursor()


# --- FIFO -----------------------------------------------------------------------------------------------------------------

A1, A2 = Sent("a", 1), Sent("a", 2)


def test_fifo_puts_right_a_second_message_that_commits_first(world: World, two_writers: tuple[Any, Any]) -> None:
    """A1.4, A1.14: one sender, two connections. Without order, 2 is delivered before 1; fifo and causal hold 2 back."""
    orders = ("none", "fifo", "causal")
    follow(world, {order: {"topics": ["flights"], "path": ["airline", "hub"], "order": order} for order in orders})
    declare(world, "airline", "a")
    slow, quick = two_writers
    put(slow, "flights", "a", "a1", index=1)
    put(quick, "flights", "a", "a2", index=2)
    quick.connection.commit()
    move(world, "none/1", "fifo/1", "causal/1")
    assert [delivered(world, "hub", order) for order in orders] == [["a2"], [], []]
    slow.connection.commit()
    move(world, "none/1", "fifo/1", "causal/1")
    histories = {order: {"hub": delivered(world, "hub", order)} for order in orders}
    assert histories == {"none": {"hub": ["a2", "a1"]}, "fifo": {"hub": ["a1", "a2"]}, "causal": {"hub": ["a1", "a2"]}}
    assert [keeps_fifo({"a1": A1, "a2": A2}, histories[order]) for order in orders] == [False, True, True]
    assert [keeps_causal({"a1": A1, "a2": A2}, histories[order]) for order in orders] == [False, True, True]


# --- causal ---------------------------------------------------------------------------------------------------------------


def ways(order: str) -> dict[str, dict[str, object]]:
    """Routes from airline and from hub to hub and to analytics: what either says reaches both."""
    shared = {"stream": "causal"} if order == "causal" else {}
    return {
        f"{order}-{origin}-{store}": {"topics": ["talk"], "path": [origin, store], "order": order, **shared}
        for origin in ("airline", "hub")
        for store in ("hub", "analytics")
    }


def streams_at(order: str, store: str) -> list[str]:
    return ["causal"] if order == "causal" else [f"{order}-{origin}-{store}" for origin in ("airline", "hub")]


def say(world: World, store: str, sender: CausalSender, text: str) -> None:
    with world.session(store) as session, session.cursor() as cursor:
        sender.put(cursor, "talk", text)
        session.commit()


def test_causal_holds_an_answer_until_its_question_is_there(world: World) -> None:
    """A1.7, A1.11, A1.22: bob at hub answers alice at airline; analytics gets the answer first. No sender is out of its own order."""
    orders = ("none", "fifo", "causal")
    follow(world, {name: route for order in orders for name, route in ways(order).items()})
    declare(world, "airline", "alice")
    declare(world, "hub", "bob")
    alice, bob = CausalSender("alice"), CausalSender("bob")
    say(world, "airline", alice, "question")
    move(world, *(f"{order}-airline-hub/1" for order in orders))
    Screen(world, "hub", ["causal"], sender=bob).look()
    say(world, "hub", bob, "answer")

    screens = {order: Screen(world, "analytics", streams_at(order, "analytics")) for order in orders}
    for origin in ("hub", "airline"):
        move(world, *(f"{order}-{origin}-analytics/1" for order in orders))
        if origin == "hub":
            assert world.query("analytics", "select count(*) from relaybox_internal.held") == [(1,)]
        for screen in screens.values():
            screen.look()
    shown = {order: screen.shown for order, screen in screens.items()}
    assert shown == {"none": ["answer", "question"], "fifo": ["answer", "question"], "causal": ["question", "answer"]}
    sends = {"question": Sent("alice", 1), "answer": Sent("bob", 1, frozenset({"question"}))}
    assert [keeps_fifo(sends, {"analytics": shown[order]}) for order in orders] == [True, True, True]
    assert [keeps_causal(sends, {"analytics": shown[order]}) for order in orders] == [False, False, True]


# --- total ----------------------------------------------------------------------------------------------------------------


def test_total_lets_replicas_agree_on_the_last_write(world: World, two_writers: tuple[Any, Any]) -> None:
    """A1.9: two clients set x at once. Two hops that planned at different moments end with different x; one path does not."""
    follow(
        world,
        {
            "loose-hub": {"topics": ["loose"], "path": ["airline", "hub"]},
            "loose-analytics": {"topics": ["loose"], "path": ["airline", "analytics"]},
            "agreed": {"topics": ["agreed"], "path": ["airline", "hub", "analytics"], "order": "total"},
        },
    )
    slow, quick = two_writers
    for client, text in ((slow, "x=1"), (quick, "x=2")):
        for topic in ("loose", "agreed"):
            put(client, topic, f"client-of-{text[-1]}", text)
    quick.connection.commit()
    move(world, "loose-hub/1", "agreed/1")
    slow.connection.commit()
    move(world, "loose-hub/1", "loose-analytics/1", "agreed/1", "agreed/2")
    loose = {store: delivered(world, store, f"loose-{store}") for store in ("hub", "analytics")}
    agreed = {store: delivered(world, store, "agreed") for store in ("hub", "analytics")}
    assert loose == {"hub": ["x=2", "x=1"], "analytics": ["x=1", "x=2"]}
    assert agreed == {"hub": ["x=2", "x=1"], "analytics": ["x=2", "x=1"]}
    assert (keeps_total(loose), keeps_total(agreed)) == (False, True)


# --- which order includes which -------------------------------------------------------------------------------------------


def test_causal_does_not_make_stores_agree_on_what_is_concurrent(world: World) -> None:
    """A1.12: neither of two senders knew of the other; each store delivers its neighbour's message first."""
    follow(world, ways("causal"))
    declare(world, "airline", "alice")
    declare(world, "hub", "bob")
    say(world, "airline", CausalSender("alice"), "x=1")
    say(world, "hub", CausalSender("bob"), "x=2")
    move(world, "causal-hub-hub/1", "causal-airline-hub/1", "causal-airline-analytics/1", "causal-hub-analytics/1")
    history = {store: delivered(world, store, "causal") for store in ("hub", "analytics")}
    assert history == {"hub": ["x=2", "x=1"], "analytics": ["x=1", "x=2"]}
    assert keeps_causal({"x=1": Sent("alice", 1), "x=2": Sent("bob", 1)}, history)
    assert not keeps_total(history)


def test_total_lets_all_stores_agree_on_a_wrong_order(world: World, two_writers: tuple[Any, Any]) -> None:
    """A1.13: a sender's second message commits first, and every store delivers it first."""
    world.change_route(order="total")
    declare(world, "airline", "a")
    slow, quick = two_writers
    put(slow, "flights", "a", "a1", index=1)
    put(quick, "flights", "a", "a2", index=2)
    quick.connection.commit()
    world.transfer_all()
    slow.connection.commit()
    world.transfer_all()
    history = {store: delivered(world, store, "flights") for store in ("hub", "analytics")}
    assert history == {"hub": ["a2", "a1"], "analytics": ["a2", "a1"]}
    sends = {"a1": A1, "a2": A2}
    assert (keeps_total(history), keeps_fifo(sends, history), keeps_causal(sends, history)) == (True, False, False)


def test_whatever_keeps_causal_order_keeps_fifo_order() -> None:
    """A1.10, A1.14: of all orders in which a store can deliver two messages of each of two senders, whatever they had seen."""
    kept = {(True, True): 0, (True, False): 0, (False, False): 0}
    for b_saw in ((), ("a1",), ("a2",)):
        sends = {"a1": A1, "a2": A2, "b1": Sent("b", 1, frozenset(b_saw)), "b2": Sent("b", 2)}
        for history in permutations(sends):
            kept[keeps_fifo(sends, {"hub": history}), keeps_causal(sends, {"hub": history})] += 1
    assert kept == {(True, True): 10, (True, False): 8, (False, False): 54}
