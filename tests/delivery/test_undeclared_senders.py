"""What a causal stream makes of clocks that name senders nobody has declared, yet or ever: the same, whenever its hops ran."""

from __future__ import annotations

import json
from itertools import product

import pytest

from tests.delivery.brute import TOO_FAR, Declaration, Row
from tests.delivery.histories import LOGS, History
from tests.delivery.stored import FORGET, StoredStream
from tests.support.cli import invoke
from tests.support.senders import declare, reasons, send_numbered, stream
from tests.support.world import STORES, World

READERS = STORES[1:]

CUTS = pytest.mark.parametrize("cut", list(product((False, True), repeat=3)), ids=str)


@pytest.fixture
def causal(world: World) -> World:
    world.change_route(order="causal")
    declare(world, "a", "c")
    return world


def pause(world: World, runs: bool) -> None:
    """The hops run twice, or not at all."""
    for _ in range(2 * runs):
        world.transfer_all()


def streams_now_and_decided_again(world: World) -> list[list[str]]:
    """What each store delivers, and what it delivers after it had to decide on its logs once more."""
    world.transfer_all()
    found = [stream(world, store) for store in READERS]
    for store in READERS:
        world.query(store, FORGET)
    world.transfer_all()
    return [*found, *(stream(world, store) for store in READERS)]


@CUTS
def test_a_sender_that_is_declared_late_is_waited_for(causal: World, cut: tuple[bool, ...]) -> None:
    """B1 A1 A2, and never B1 A2."""
    send_numbered(causal, "a", 1, clock='{"b": 1}')
    pause(causal, cut[0])
    declare(causal, "b")
    pause(causal, cut[1])
    send_numbered(causal, "b", 1)
    pause(causal, cut[2])
    send_numbered(causal, "a", 2)
    assert streams_now_and_decided_again(causal) == [["b1", "a1", "a2"]] * 4
    assert [reasons(causal, store) for store in READERS] == [[], []]


@CUTS
def test_a_sender_that_is_never_declared_is_waited_for_until_an_operator_gives_up(causal: World, cut: tuple[bool, ...]) -> None:
    """C1 C2 and then A2, and never C1 A2 C2."""
    send_numbered(causal, "a", 1, clock='{"nobody": 1}')
    pause(causal, cut[0])
    send_numbered(causal, "c", 1)
    pause(causal, cut[1])
    send_numbered(causal, "a", 2)
    pause(causal, cut[2])
    send_numbered(causal, "c", 2)
    assert streams_now_and_decided_again(causal) == [["c1", "c2"]] * 4
    (waits,) = invoke("holdback", "flights", "--json").document["stores"][0]["senders"]
    assert (waits["sender"], [cause["sender"] for cause in waits["causes"]]) == ("a", ["nobody"])
    assert waits["repairs"] == ['relaybox skip flights a --through 1 --held --reason "..."']
    assert invoke("skip", "flights", "a", "--through", "1", "--held", "--reason", "a typo").exit_code == 0
    assert [stream(causal, store) for store in READERS] == [["c1", "c2", "a2"]] * 2
    assert [reasons(causal, store) for store in READERS] == [[(1, "index_skipped")]] * 2


@pytest.mark.parametrize("cut", [False, True], ids=["one batch", "a batch each"])
def test_an_epoch_that_is_begun_late_is_waited_for(causal: World, cut: bool) -> None:
    send_numbered(causal, "a", 1, clock=json.dumps({"c": [2, 1]}))
    pause(causal, cut)
    causal.query("airline", "select relaybox.new_epoch('c')")
    pause(causal, cut)
    send_numbered(causal, "a", 2)
    pause(causal, cut)
    send_numbered(causal, "c", 1, epoch=2)
    assert streams_now_and_decided_again(causal) == [["c1", "a1", "a2"]] * 4


@pytest.mark.parametrize("first", [0, 1], ids=["quiet first", "busy first"])
def test_how_far_ahead_a_clock_may_look_does_not_depend_on_which_log_came_first(world: World, first: int) -> None:
    """The log of a busy sender may be late: how much has come of it is no reason to set a message aside."""
    quiet, busy = LOGS[:2]
    logs = {
        quiet: [Row(quiet, 1, "q", 1, 1, 1, "q1", ("q1",), {"b": TOO_FAR + 3})],
        busy: [Row(busy, index, "b", 1, index, 1, f"b{index}", (f"b{index}",)) for index in range(1, 6)],
    }
    origins = {log: log.removesuffix("/1") for log in logs}
    declared = (Declaration(origins[quiet], "q", 1, "gapless"), Declaration(origins[busy], "b", 1, "gapless"))
    with world.session("hub") as connection:
        stored = StoredStream(connection)
        stored.begin(History("causal", 0, origins, declared, logs))
        stored.carry(declared)
        for log in (quiet, busy)[:: 1 - 2 * first]:
            stored.publish(log, len(logs[log]), knows_kind=True)
            assert stored.decide(log)
            stored.commit()
        outcome = stored.outcome()
    assert (outcome.dead_letters, outcome.held) == ({}, [(quiet, 1)])
