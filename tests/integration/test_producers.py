"""The demo's application on a real cluster: business rows and messages commit or roll back together, and the tally is exact."""

from __future__ import annotations

import multiprocessing
from collections import Counter

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from relaybox.errors import StoreFailed
from relaybox.local.demo.airline import Fate, LateTransaction, Tally, Transaction, carry_out, open_engine
from relaybox.local.demo.flights import metadata, read_flights
from relaybox.local.demo.producers import Job, Producers
from tests.support.world import World, wait_until

FLIGHTS = read_flights(("OO",))


@pytest.fixture
def airline(world: World) -> World:
    """The world with the airline's own table in its first store."""
    metadata.create_all(open_engine("airline", "test"))
    return world


def flights_written(world: World) -> list[int]:
    return [row[0] for row in world.query("airline", "select flight_id from public.flight order by flight_id")]


def flights_told(world: World) -> list[int]:
    """The flights that messages are about."""
    return [
        row[0]
        for row in world.query(
            "airline", "select (payload::json ->> 'flight_id')::integer flight_id from relaybox.outbox order by flight_id"
        )
    ]


def produce(job: Job) -> Tally:
    """Runs one producer to its end."""
    with Producers([job]) as producers:
        wait_until(lambda: look(producers).ready, "the producer is ready")
        producers.begin()
        wait_until(lambda: look(producers).done, "the producer is done")
        return producers.tally


def look(producers: Producers) -> Producers:
    producers.read_reports(timeout_seconds=0.1)
    return producers


@pytest.mark.parametrize("fate", sorted(set(Fate) - {Fate.LATE}))
def test_g1_business_rows_and_messages_share_one_fate(airline: World, fate: Fate) -> None:
    """However a transaction ends, exactly the flights that are in the airline's table have a message."""
    transaction = Transaction(fate, FLIGHTS[:5], FLIGHTS[5:9] if "savepoint" in fate else ())
    with open_engine("airline", "test").connect() as connection:
        carry_out(connection, transaction)
    expected = sorted(row["flight_id"] for row in transaction.committed)
    assert flights_written(airline) == flights_told(airline) == expected
    assert len(expected) == {Fate.COMMITTED: 5, Fate.ROLLED_BACK: 0, Fate.SAVEPOINT_RELEASED: 9, Fate.SAVEPOINT_UNDONE: 5}[fate]


def test_g1_the_application_s_role_can_send_though_it_may_read_nothing(airline: World) -> None:
    """A transaction of one flight and one of many, by a role that may insert and no more."""
    airline.query("airline", "grant insert on public.flight to relaybox_producer")
    with open_engine("airline", "test").connect() as connection:
        connection.execute(text("set session authorization relaybox_producer"))
        connection.commit()
        carry_out(connection, Transaction(Fate.COMMITTED, FLIGHTS[:1]))
        carry_out(connection, Transaction(Fate.COMMITTED, FLIGHTS[1:9]))
        with pytest.raises(ProgrammingError, match="permission denied"):
            connection.execute(text("select * from relaybox.outbox"))
    assert flights_written(airline) == flights_told(airline) == sorted(row["flight_id"] for row in FLIGHTS[:9])


def test_g1_the_late_transaction_is_seen_when_it_commits(airline: World) -> None:
    """Its flights are written at once and no one sees them; the others go on meanwhile."""
    with LateTransaction("airline", FLIGHTS[:3]) as late:
        assert flights_told(airline) == []
        produce(Job("producer", ("HA",), "airline", seconds=0, seed=1))
        told_meanwhile = set(flights_told(airline))
        late.commit()
    assert set(flights_told(airline)) - told_meanwhile == {row["flight_id"] for row in FLIGHTS[:3]}
    assert flights_written(airline) == flights_told(airline)


def test_g1_the_late_transaction_rolls_back_if_nobody_commits_it(airline: World) -> None:
    with LateTransaction("airline", FLIGHTS[:3]):
        pass
    assert flights_written(airline) == flights_told(airline) == []


def test_concurrent_producers_account_for_every_flight(airline: World) -> None:
    """What two processes recorded is what the stores hold, carrier by carrier; the rest was rolled back."""
    jobs = [Job("one", ("AS", "YV"), "airline", 0, seed=1), Job("other", ("F9", "HA"), "airline", 0, seed=2)]
    with Producers(jobs) as producers:
        wait_until(lambda: look(producers).ready, "both are ready")
        producers.begin()
        wait_until(lambda: look(producers).done, "both are done")
        tally = producers.tally
    sent = Counter(dict(airline.query("airline", "select sender, count(*) from relaybox.outbox group by sender")))
    written = Counter(dict(airline.query("airline", "select carrier, count(*) from public.flight group by carrier")))
    assert tally.committed == sent == written
    assert tally.rolled_back > 0
    assert tally.committed_count + tally.rolled_back == 714 + 601 + 685 + 342


def test_a_carrier_s_messages_are_sent_in_the_order_of_departure(airline: World) -> None:
    """Each carrier has one producer, so seq is the order of its flights."""
    produce(Job("producer", ("AS", "F9"), "airline", seconds=0, seed=3))
    sent = airline.query("airline", "select sender, (payload::json ->> 'flight_id')::integer from relaybox.outbox order by seq")
    for carrier in ("AS", "F9"):
        committed = set(flights_written(airline))
        in_order = [row["flight_id"] for row in read_flights((carrier,)) if row["flight_id"] in committed]
        assert [flight for sender, flight in sent if sender == carrier] == in_order


def test_a_producer_that_fails_is_reported(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the airline's table the first insert fails: the demo must not wait for it for ever."""
    with pytest.raises(StoreFailed, match="producer ended before it was done"):
        produce(Job("producer", ("OO",), "airline", seconds=0, seed=1))
    assert "flight" in capfd.readouterr().err
    assert world.sent() == []


def test_producers_end_with_their_block(airline: World) -> None:
    """Leaving early ends the processes and rolls back what they had open."""
    with Producers([Job("slow", ("HA",), "airline", seconds=3600, seed=1)]) as producers:
        wait_until(lambda: look(producers).ready, "the producer is ready")
        producers.begin()
        assert multiprocessing.active_children() != []
    assert multiprocessing.active_children() == []
    assert flights_written(airline) == flights_told(airline)
