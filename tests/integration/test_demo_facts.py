"""What the demo's report reads from the stores, against what a reader counts there by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from relaybox.local.demo.airline import Fate, Transaction, carry_out, open_engine
from relaybox.local.demo.facts import DemoFacts, read_facts
from relaybox.local.demo.flights import Row, metadata, read_flights
from tests.support.world import World

FLIGHTS = read_flights(("HA", "OO"))


@pytest.fixture
def facts(world: World) -> DemoFacts:
    """Three transactions in two batches of the first hop and one of the second, settled."""
    metadata.create_all(open_engine("airline", "test"))
    write(FLIGHTS[:10], FLIGHTS[10:30])
    world.transfer()
    write(FLIGHTS[30:35])
    world.transfer_all()
    world.settle_all()
    return read_facts(world.route)


def write(*transactions: list[Row]) -> None:
    with open_engine("airline", "test").connect() as connection:
        for flights in transactions:
            carry_out(connection, Transaction(Fate.COMMITTED, flights))


def test_batches_of_each_hop_with_the_times_of_both_sides(facts: DemoFacts) -> None:
    assert [[batch.row_count for batch in hop.batches] for hop in facts.hops] == [[30, 5], [35]]
    assert all(batch.planned_at < batch.published_at for hop in facts.hops for batch in hop.batches)
    assert facts.last_arrived_at == facts.hops[1].batches[-1].published_at


def test_messages_of_each_sender_at_each_store(facts: DemoFacts) -> None:
    expected = Counter(row["carrier"] for row in FLIGHTS[:35])
    assert [(log.store, log.received, log.unique, log.disordered) for log in facts.logs] == [
        ("hub", expected, expected, ()),
        ("analytics", expected, expected, ()),
    ]


def test_the_time_from_commit_to_arrival(world: World, facts: DemoFacts) -> None:
    """Commit times are the origin's: 30 messages waited longer than the 5 of the last transaction."""
    ((first, last),) = world.query(
        "airline", "select min(pg_xact_commit_timestamp(xid::xid)), max(pg_xact_commit_timestamp(xid::xid)) from relaybox.outbox"
    )
    assert facts.first_committed_at == first
    assert facts.latency.message_count == 35
    longest, shortest = ((facts.last_arrived_at - committed).total_seconds() for committed in (first, last))
    assert shortest < facts.latency.p50_seconds <= facts.latency.p99_seconds
    assert facts.latency.p99_seconds == pytest.approx(longest, abs=0.001)
    assert facts.steady is None


def test_messages_committed_after_the_first_arrival_are_measured_alone(world: World, facts: DemoFacts) -> None:
    write(FLIGHTS[35:42])
    world.transfer_all()
    steady = read_facts(world.route).steady
    assert steady is not None
    assert steady.message_count == 7


def test_a_sender_whose_flights_are_out_of_order_is_named(world: World, facts: DemoFacts) -> None:
    """A flight that is told of again after a later one."""
    write([flight for flight in FLIGHTS[60:] if flight["carrier"] == "HA"][:1])
    write([flight for flight in FLIGHTS[35:60] if flight["carrier"] == "HA"][:1])
    world.transfer_all()
    assert [log.disordered for log in read_facts(world.route).logs] == [("HA",), ("HA",)]


def test_the_cascade_of_the_largest_batch_goes_forth_and_back(facts: DemoFacts) -> None:
    assert facts.cascade_of.row_count == 30
    steps = [(step.store, step.what) for step in facts.cascade]
    assert steps == [
        ("airline", "planned as batch 1 of flights/1"),
        ("hub", "arrived, flights/1"),
        ("airline", "received, flights/1"),
        ("hub", "planned as batch 1 of flights/2"),
        ("analytics", "arrived, flights/2"),
        ("hub", "received, flights/2"),
        ("hub", "settled, flights/2"),
        ("airline", "settled, flights/1"),
    ]
    assert {step.recorded_by for step in facts.cascade if "settled" in step.what} == {"test"}
