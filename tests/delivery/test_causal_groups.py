"""Groups that talk over three stores with random delays: what `causal` keeps in order and `none` does not, with the same messages."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from random import Random
from typing import Any

import pytest
import yaml

from relaybox.outbox import CausalSender
from tests.delivery.outcomes import decide_again, read_outcome, wanted
from tests.support.world import STORES, World

SIZES = range(3, 17) if int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) >= 200 else (3, 8, 16)
ROUNDS = 4
WAYS = tuple(product(STORES, STORES))
"""From every store to every store, its own included."""

HEARD = """
select l.sender, l.epoch, l.index, l.clock from relaybox_internal.hop_in i
join relaybox_internal.decision d using (log_id) join relaybox_internal.arrival a using (log_id, batch)
join relaybox_internal.log l on l.log_id = a.log_id and l.log_position >= a.first_position and l.log_position <= a.last_position
where i.hop like 'none-%%' order by d.decided_at, l.log_position
"""
"""A consumer who reads what comes when it comes: one stream per log, merged by the time of delivery."""


@dataclass
class Member:
    """One broadcaster: reads the group's stream in its store up to `stream_position`, and sends from there."""

    store: str
    sender: CausalSender
    stream_position: int = 0


@pytest.mark.parametrize("size", SIZES)
def test_no_member_reads_an_answer_before_its_question(world: World, size: int) -> None:
    """0 violations with `causal`, many with `none`; and every store's causal stream is the brute force's."""
    dice = Random(size)
    two_ways(world)
    members = [Member(STORES[number % 3], CausalSender(f"m{number}")) for number in range(size)]
    for member in members:
        world.query(member.store, "select relaybox.declare_sender(%s, 'gapless')", member.sender.sender)
    asker, listener, answerer = dice.sample(STORES, 3)
    late = {(asker, listener)}
    soon = {(asker, answerer), (answerer, listener), *((store, store) for store in STORES)}
    with ThreadPoolExecutor(3) as pool:
        for _ in range(ROUNDS):
            for member in dice.sample(members, size):
                talk(world, member, hears=dice.random() < 0.8)
            chosen = soon | {way for way in WAYS if way not in late and dice.random() < 0.4}
            run(world, pool, dice.sample(sorted(chosen), len(chosen)))
        run(world, pool, sorted(WAYS, key=late.__contains__))
    sent_count = sum(world.value(store, "select count(*) from relaybox.outbox") for store in STORES)
    without_order = 0
    for store in STORES:
        query = partial(world.query, store)
        in_order = query("select sender, epoch, index, clock from relaybox.read_stream('causal', 0, 100000)")
        as_it_came = query(HEARD)
        assert len(in_order) == len(as_it_came) == sent_count
        assert violation_count(in_order) == 0
        without_order += violation_count(as_it_came)
        assert read_outcome(query, "causal") == wanted(decide_again(query, "causal"))
    print(f"{size} members, {sent_count} messages at 3 stores: {without_order} violations without an order")
    assert without_order > sent_count / 10


def violation_count(messages: Iterable[tuple[str, int, int, Any]]) -> int:
    """How many messages come before one that their sender had sent or heard before."""
    delivered: set[tuple[str, int]] = set()
    count = 0
    for sender, epoch, index, clock in messages:
        assert epoch == 1
        causes = [(sender, before) for before in range(1, index)]
        causes += [(of, before) for of, (_, last) in (clock or {}).items() for before in range(1, last + 1)]
        count += not delivered.issuperset(causes)
        delivered.add((sender, index))
    return count


def two_ways(world: World) -> None:
    """Every message goes from its store to every store twice: by a route of the causal stream, and by one without an order."""
    routes = {}
    for source, destination in WAYS:
        way = {"topics": ["chat"], "path": [source, destination]}
        routes[f"causal-{source}-{destination}"] = {**way, "order": "causal", "stream": "causal"}
        routes[f"none-{source}-{destination}"] = way
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()


def talk(world: World, member: Member, *, hears: bool) -> None:
    """Perhaps reads what is new in the member's store; then sends a message."""
    with world.session(member.store) as connection, connection.cursor() as cursor:
        if hears:
            cursor.execute(
                "select stream_position, sender, epoch, index, clock from relaybox.read_stream('causal', %s, 100000)",
                (member.stream_position,),
            )
            for member.stream_position, *heard in cursor.fetchall():
                member.sender.delivered(dict(zip(("sender", "epoch", "index", "clock"), heard, strict=True)))
        member.sender.put(cursor, "chat", "...")
        connection.commit()


def run(world: World, pool: ThreadPoolExecutor, ways: list[tuple[str, str]]) -> None:
    """Transfers what there is on these ways, by both routes of each, in about this order."""
    routes = world.routes
    hops = [routes.hop(f"{order}-{source}-{destination}/1") for source, destination in ways for order in ("causal", "none")]
    for _ in pool.map(world.transfer, hops):
        pass
