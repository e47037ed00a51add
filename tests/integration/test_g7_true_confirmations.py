"""G7: `received` only after a durable arrival, `settled` only after the policy holds downstream; never taken back."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from relaybox import errors
from relaybox.hops import transfer
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.planning import AttemptOwner, DestinationState, plan_batch
from relaybox.hops.publishing import ask_destination
from tests.support.world import World


def confirmations(world: World, store: str = "airline") -> list[tuple[Any, ...]]:
    return world.query(store, "select hop, state, through_position from relaybox_internal.confirmation order by 1, 2, 3")


def test_g7_received_is_recorded_with_the_time_of_the_arrival(world: World) -> None:
    """The confirmation carries the arrival's time and who recorded it."""
    world.send("a")
    world.transfer()
    arrived = world.value("hub", "select published_at from relaybox_internal.arrival")
    assert world.query(
        "airline",
        "select hop, state, through_position, through_batch, happened_at, recorded_by from relaybox_internal.confirmation",
    ) == [("flights/1", "received", 1, 1, arrived, "test")]


def test_g7_a_confirmation_lost_between_publish_and_confirm_is_written_by_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next driver asks the destination first, writes what is missing, and plans after it."""

    class Stopped(Exception):
        pass

    def die(*_: object, **__: object) -> None:
        raise Stopped

    world.send("a")
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(transfer, "confirm_received", die)
        world.transfer()
    assert confirmations(world) == []
    world.send("b")
    world.transfer()
    assert confirmations(world) == [("flights/1", "received", 1), ("flights/1", "received", 2)]
    assert world.payloads() == ["a", "b"]


def test_g7_cascade_settles_the_first_hop_only_when_the_second_is_settled(world: World) -> None:
    """policy cascade: confirmed at the origin only after everything downstream has it."""
    world.send("a")
    world.transfer(world.first_hop)
    world.settle_all()
    assert ("flights/1", "settled", 1) not in confirmations(world)
    world.transfer(world.second_hop)
    settle_hop(world.route, world.first_hop, recorded_by="test")
    assert ("flights/1", "settled", 1) not in confirmations(world), "hop 2 has received but is not settled yet"
    world.settle_all()
    assert confirmations(world) == [
        ("flights/1", "received", 1),
        ("flights/1", "settled", 1),
        ("flights/2", "received", 1),
        ("flights/2", "settled", 1),
    ]


def test_g7_policy_received_settles_with_the_next_store(world: World) -> None:
    """policy received: the next store has it, and stores are persistent: enough."""
    world.change_route(policy="received")
    world.send("a")
    world.transfer(world.first_hop)
    world.settle_all()
    assert ("flights/1", "settled", 1) in confirmations(world)


def test_g7_settled_follows_batches_that_differ_between_the_hops(world: World) -> None:
    """Three batches upstream, one downstream, then more: positions, not batch numbers, decide."""
    for payload in "abc":
        world.send(payload)
        world.transfer(world.first_hop)
    world.transfer(world.second_hop)
    world.send("d")
    world.transfer(world.first_hop)
    settled = {s.hop: s.through_position for s in world.settle_all()}
    assert settled == {"flights/1": 3, "flights/2": 3}
    world.transfer(world.second_hop)
    assert {s.hop: s.through_position for s in world.settle_all()} == {"flights/1": 4, "flights/2": 4}


def test_g7_settling_again_changes_nothing(world: World) -> None:
    """Repeated and late confirmations are harmless; a watermark never falls."""
    world.send("a", "b")
    world.transfer_all()
    first = [world.settle_all(), confirmations(world)]
    again = [world.settle_all(), confirmations(world)]
    assert first[1] == again[1]
    assert [(s.newly_settled, s.through_position) for s in again[0]] == [(0, 2), (0, 2)]
    assert world.value("airline", "select relaybox_internal.confirm_settled('flights/1', 1, now(), 'late')") == 2


def test_g7_settled_never_passes_received(world: World) -> None:
    """A position beyond what the next store has can't be settled."""
    world.send("a")
    world.transfer()
    world.send("b")
    assert world.value("airline", "select relaybox_internal.confirm_settled('flights/1', 1000, now(), 'forger')") == 1


def test_g7_a_confirmation_of_an_unknown_or_different_batch_is_refused(world: World) -> None:
    """The destination can't confirm what the ledger does not have (G11)."""
    world.send("a")
    world.transfer()
    for batch, code in ((2, "RB011"), (1, "RB012")):
        with pytest.raises(psycopg2.Error) as refused:
            world.query(
                "airline", "select relaybox_internal.confirm_received('flights/1', %s, gen_random_uuid(), now(), 'x')", batch
            )
        assert refused.value.pgcode == code


def test_g11_a_destination_ahead_of_the_source_stops_the_hop(world: World) -> None:
    """The source's ledger is gone back: the error names both sides, and nothing moves."""
    world.send("a")
    world.transfer()
    world.query("airline", "delete from relaybox_internal.confirmation")
    world.query("airline", "delete from relaybox_internal.batch")
    world.query("airline", "update relaybox_internal.hop_out set batch = 0, log_position = 0")
    world.send("b")
    with pytest.raises(errors.HistoryLost, match=r"flights/1: the ledger of airline ends at batch 0, hub has published batch 1"):
        world.transfer()
    assert world.payloads() == ["a"]


def test_g11_a_destination_behind_its_confirmations_stops_the_hop(world: World) -> None:
    """The destination lost a confirmed batch: stop, never send on top of it."""
    world.send("a")
    world.transfer()
    world.query("hub", "delete from relaybox_internal.arrival")
    world.query("hub", "update relaybox_internal.hop_in set published_batch = 0, published_position = 0")
    world.send("b")
    with pytest.raises(errors.HistoryLost, match="airline has batch 1 confirmed, hub ends at batch 0"):
        world.transfer()


@pytest.mark.parametrize("column", ["system_identifier", "timeline"])
def test_g11_another_cluster_or_timeline_than_recorded_stops_planning(world: World, column: str) -> None:
    """A restored, promoted or replaced source is found before the first read."""
    world.send("a")
    world.query("airline", f"update relaybox_internal.hop_out set {column} = {column} + 1")
    with pytest.raises(errors.HistoryLost, match="was written by cluster"):
        world.transfer()


def test_g11_transaction_numbers_that_went_back_stop_planning(world: World) -> None:
    """A dump loaded into a younger cluster can't pass: its next transaction is below the last snapshot."""
    world.send("a")
    world.query("airline", "update relaybox_internal.hop_out set lower = '900000000:900000000:'")
    with pytest.raises(errors.HistoryLost, match="next transaction"):
        world.transfer()


def test_g7_planning_refuses_a_transaction_that_has_written(world: World) -> None:
    """A snapshot taken after a write counts the own rows as visible."""
    with world.session() as connection, connection.cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
        cursor.execute("select pg_current_xact_id()")
        cursor.execute("select * from relaybox_internal.lock_hop('flights/1')")
    assert refused.value.pgcode == "RB002"


def test_g7_the_next_batch_is_not_planned_before_the_last_is_confirmed(world: World) -> None:
    """Planning against an arrival that is not confirmed yet is refused, and the driver confirms first."""
    hop = world.first_hop
    world.send("a")
    world.transfer()
    world.query("airline", "delete from relaybox_internal.confirmation")
    world.send("b")
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        arrived = ask_destination(destination, hop)
        assert isinstance(arrived, DestinationState)
        with pytest.raises(errors.PlanRefused):
            plan_batch(source, hop, arrived, driver=AttemptOwner("test"))
    world.transfer()
    assert world.payloads() == ["a", "b"]
