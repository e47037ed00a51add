"""Fail the Nth database call of a whole run, for N = 1, 2, ... : both hops and their confirmations.

Whatever call fails, with whatever error: one of ours comes out, and the next run finishes as if nothing had been.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.transfer import transfer_hop
from relaybox.routes import Route
from relaybox.verification.route_verification import verify_route
from tests.faults.nth_call import FAULTS, Call, Fault, Run
from tests.support.breaking import FirstSlices
from tests.support.world import World

pytestmark = pytest.mark.thorough

EVERY_FAULT = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) >= 200
"""Every call with every fault (make test-faults); otherwise every call with one fault in turn, every COMMIT with the lost answers."""

MESSAGES = 2
SHARDS = 6


@pytest.fixture
def stores(world: World) -> World:
    """Batches of two slices with one message each: every step is there, and a slice is done before the other."""
    world.change_route(limits={"batch_rows": MESSAGES, "slice_rows": 1})
    return world


def run_all(route: Route) -> None:
    """The whole run: both hops and their confirmations, last hop first. Slices one after the other."""
    for hop in route.hops:
        transfer_hop(hop, FirstSlices(1000), recorded_by="test")
    for hop in reversed(route.hops):
        settle_hop(route, hop, recorded_by="test")


def calls_of_a_run(world: World) -> list[Call]:
    """Of a run over stores that have run before, as every later one of the test is."""
    for _ in range(2):
        world.send_many(MESSAGES)
        with (run := Run()).watching():
            run_all(world.route)
    return run.calls


def cells(calls: Sequence[Call]) -> list[tuple[Call, Fault]]:
    """What fails, and how."""
    if EVERY_FAULT:
        return [(call, fault) for call in calls for fault in call.faults]
    in_turn = [(call, call.faults[number % len(call.faults)]) for number, call in enumerate(calls)]
    lost_answers = [(call, fault) for call in calls for fault in call.faults if fault.late]
    return list(dict.fromkeys(in_turn + lost_answers))


class State:
    """Reads what is in the stores, by sessions of its own that stay open."""

    def __init__(self, world: World, stack: ExitStack) -> None:
        self._sessions = {store: stack.enter_context(world.session(store, autocommit=True)) for store in world.routes.stores}

    def rows(self, store: str, query: str) -> list[tuple[Any, ...]]:
        with self._sessions[store].cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def check(self, count: int) -> None:
        """`count` messages are in both logs, dense and in order, and confirmed as far as that, not farther."""
        sent = self.rows("airline", "select message_id from relaybox.outbox order by seq")
        assert len(sent) == count
        for store in ("hub", "analytics"):
            received = self.rows(store, "select log_position, message_id from relaybox.inbox order by log_position")
            assert received == [(log_position, *row) for log_position, row in enumerate(sent, start=1)]
        for store, hops in (("airline", ("flights/1", "flights/2")), ("hub", ("flights/2",))):
            confirmed = self.rows(
                store, "select hop, state, max(through_position) from relaybox_internal.confirmation group by 1, 2"
            )
            assert sorted(confirmed) == [(hop, state, count) for hop in hops for state in ("received", "settled")]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_call_fails_the_next_run_finishes(stores: World, shard: int, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of ours comes out, a terminal one only where a retry is of no use; then everything is there, once, in order."""
    chosen = cells(calls_of_a_run(stores))[shard::SHARDS]
    route, count = stores.route, len(stores.sent())
    with ExitStack() as stack:
        state = State(stores, stack)
        for call, fault in chosen:
            stores.send_many(MESSAGES)
            count += MESSAGES
            run = Run(call, fault)
            with pytest.raises(errors.RelayboxError) as raised, run.watching():
                run_all(route)
            assert run.was_hit
            assert isinstance(raised.value, errors.Terminal if fault.is_terminal else errors.Transient), (call, fault)
            run_all(route)
            state.check(count)
    assert verify_route(route).outcome == "delivered"
    with capsys.disabled():
        print(f" {len(chosen)} calls failed ", end="", flush=True)


def test_every_call_of_a_run_and_every_error_is_tried(stores: World) -> None:
    """The calls are the same in every run, their faults include every SQLSTATE, and each store's part is there."""
    calls = calls_of_a_run(stores)
    assert set(calls_of_a_run(stores)) == set(calls)
    assert {call.store for call in calls} == {"airline", "hub", "analytics"}
    assert {call.method for call in calls} == {"connect", "execute", "copy_expert", "commit", "rollback"}
    tried = cells(calls)
    assert {call for call, _ in tried} == set(calls)
    assert {fault for _, fault in tried} >= set(FAULTS)


def test_a_run_that_is_only_watched_is_untouched(stores: World) -> None:
    """Where no call is the chosen one, the run passes: the harness itself fails nothing."""
    run = Run(Call("airline", "execute", "never asked", 1), FAULTS[0])
    stores.send_many(MESSAGES)
    with run.watching():
        run_all(stores.route)
    assert not run.was_hit
    with ExitStack() as stack:
        State(stores, stack).check(MESSAGES)
