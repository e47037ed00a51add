"""Workload and checker on real stores: a fault-free run is clean, and a log that was changed by hand is detected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checker import check, read_stores, reliability
from tests.faults.history import History, read_history
from tests.faults.workload import Manners, Workload
from tests.support.world import World, wait_until


def run(world: World, directory: Path) -> History:
    """Two rounds of transactions, moved over both hops while they come, and everything settled."""
    manners = Manners(rolled_back=0.15, savepoint=0.15, held_open=0.15, two_phase=0.15)
    with Workload(directory, world.route.hops, manners=manners) as workload:
        for _ in range(2):
            workload.send(15)
            while not workload.is_idle:
                world.transfer_all()
        workload.stop_producers()
        world.transfer_all()
        world.settle_all()
        for hop in world.route.hops:
            last = len(world.payloads(hop.name))
            wait_until(lambda: workload.seen_through(hop.name) == last, f"consumers of {hop.name} see position {last}")  # noqa: B023
    return read_history(directory)


def test_a_run_without_faults_is_clean(world: World, tmp_path: Path) -> None:
    """G1-G5, G7: 90 transactions of every manner over two hops, read and watched all the while; R and UR are 1."""
    history = run(world, tmp_path / "history")
    stores = read_stores(world.routes.hops)
    assert check(history, stores) == []
    assert [(one.hop, one.r, one.ur) for one in reliability(stores)] == [
        ("flights/1", 1.0, 1.0), ("flights/2", 1.0, 1.0), ("flights", 1.0, 1.0),
    ]  # fmt: skip
    assert len(history.transactions) == 90
    assert {one.outcome for one in history.transactions} == {"ok", "fail"}
    assert any(message.undone for one in history.transactions for message in one.messages)
    assert {read.hop for read in history.reads} == {"flights/1", "flights/2"}
    assert max(one.settled for one in history.observations if one.hop == "flights/1") == len(world.payloads("flights/1"))


@pytest.mark.parametrize(
    ("store", "tampering", "expected"),
    [
        ("hub", "update relaybox_internal.log set payload = payload || '!' where log_position = 7", {"altered", "disagreement", "invented", "lost"}),
        ("analytics", "delete from relaybox_internal.log where log_position = 7", {"batch_content", "dense_positions", "disagreement"}),
        ("airline", "delete from relaybox_internal.confirmation where state = 'received'", {"confirmation_taken_back", "unfinished"}),
        ("hub", "update relaybox.outbox set xid = xid", set()),
    ],
)  # fmt: skip
def test_tampering_is_found_out(world: World, tmp_path: Path, store: str, tampering: str, expected: set[str]) -> None:
    """What a superuser changes behind everybody's back is named; a change of nothing is not."""
    history = run(world, tmp_path / "history")
    world.query(store, tampering)
    found = {violation.invariant for violation in check(history, read_stores(world.routes.hops))}
    assert expected <= found if expected else not found
