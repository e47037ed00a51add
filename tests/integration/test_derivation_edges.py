"""The steps of a derivation at their edges: small attempts, a replay, two beginners, durability, poolers, and what others forge."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from relaybox.errors import AlreadySubscribed, DerivationFailed, Transient
from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from relaybox.spark.derivations.publishing import Published, send
from tests.integration.derivation_steps import begin, derive_all, ledger, positions, rows, sending
from tests.support.derivations import HERE, ROUTE, STORE, SUBSCRIPTION, DerivedWorld
from tests.support.services import break_service
from tests.support.streams import deliver
from tests.support.world import World, wait_until


@pytest.fixture
def delays(world: World) -> DerivedWorld:
    derived = DerivedWorld(world)
    derived.configure(**{"with": f"{HERE}:copies"})
    world.register()
    return derived


def set_aside(delays: DerivedWorld, count: int) -> None:
    """The function fails for the next messages, each alone."""
    with ledger(delays) as opened:
        for _ in range(count):
            opened.fail(begin(opened, 1), "a mistake", dead_letter=True)


def test_an_attempt_has_as_many_messages_as_it_asks_for(delays: DerivedWorld) -> None:
    """Also of a larger fetch that was not acknowledged, and of one that has a dead letter in its middle."""
    deliver(delays.world, 9)
    with ledger(delays) as opened:
        send(sending(first := begin(opened, 2)), rows(first))
    set_aside(delays, 1)
    with ledger(delays) as opened:
        whole = begin(opened, 6)
        assert (whole.firsts, whole.lasts) == ([4], [9])
        smaller = begin(opened, 4)
        assert (smaller.firsts, smaller.lasts, smaller.message_count) == ([4], [7], 4)
    delays.world.query(STORE, f"select relaybox.redrive('{SUBSCRIPTION}', 'repaired')")
    derive_all(delays)
    assert sorted(delays.sent()) == [f"late m{number}" for number in range(1, 10)]


def test_an_attempt_in_a_replay_leaves_dead_letters_out(delays: DerivedWorld) -> None:
    """They lie in the middle of what it gets: two runs of stream positions, of which a smaller attempt gets the first."""
    deliver(delays.world, 6)
    with ledger(delays) as opened:
        send(sending(first := begin(opened, 2)), rows(first))
    set_aside(delays, 1)
    derive_all(delays)
    delays.world.query(STORE, f"select relaybox.replay('{SUBSCRIPTION}', '1', 'again')")
    with ledger(delays) as opened:
        whole = begin(opened, 10)
        assert (whole.firsts, whole.lasts, whole.message_count) == ([1, 4], [2, 6], 5)
        smaller = begin(opened, 3)
        assert (smaller.firsts, smaller.lasts, smaller.message_count) == ([1, 4], [2, 4], 3)
        send(sending(smaller), rows(smaller))
        assert positions(begin(opened, 10)) == [5, 6]


def test_an_attempt_that_failed_gives_its_messages_back(delays: DerivedWorld) -> None:
    """A person may look at them at once."""
    deliver(delays.world, 2)
    with ledger(delays) as opened:
        opened.fail(begin(opened, 2), "a mistake", dead_letter=False)
    fetched = f"select payload from relaybox.fetch('{SUBSCRIPTION}', 2, worker => 'a person')"
    assert delays.world.query(STORE, fetched) == [("m1",), ("m2",)]


def test_g3_a_new_version_in_a_replay_leaves_a_dead_letter_at_the_end_where_it_is(delays: DerivedWorld) -> None:
    """No attempt has published the last message, so the replay alone says that version 1 had come to it."""
    deliver(delays.world, 5)
    derive_all(delays)
    deliver(delays.world, 1)
    set_aside(delays, 1)
    derive_all(delays)
    delays.world.query(STORE, f"select relaybox.replay('{SUBSCRIPTION}', '2', 'again')")
    delays.configure(**{"with": f"{HERE}:copies", "version": 2})
    deliver(delays.world, 1)
    with ledger(delays) as opened:
        assert positions(begin(opened, 10)) == [7]
    states = "select state, stream_position from relaybox_internal.dead_letter"
    assert delays.world.query(STORE, states) == [("open", 6)]


def test_two_runs_that_begin_a_version_at_once_begin_it_once(delays: DerivedWorld) -> None:
    """The second one waits for the first one's transaction, and then finds the version."""
    begun = f"select (relaybox_internal.begin_derivation('{ROUTE}', 1, 'flights', 'sql', 'digest', null, true)).derivation_id"

    def is_waiting() -> bool:
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'begin_derivation'"
        return bool(delays.world.value(STORE, waiting))

    with delays.world.session(STORE) as session, session.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute(begun)
        first = cursor.fetchone()[0]
        second = pool.submit(delays.world.value, STORE, begun)
        try:
            wait_until(is_waiting, "the second one waits for the first one's lock")
        finally:
            session.commit()
        assert second.result() == first
    assert delays.world.query(STORE, "select version from relaybox_internal.derivation") == [(1,)]


def test_g7_a_published_attempt_waits_for_the_disk_whatever_the_role_says(delays: DerivedWorld) -> None:
    deliver(delays.world, 1)
    with ledger(delays) as opened:
        attempt = begin(opened, 1)
    call = f"relaybox_internal.publish_derivation_attempt({attempt.derivation_id}, {attempt.attempt}, '{ROUTE}', 0, null, null)"
    with delays.world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute("set synchronous_commit = off")
        cursor.execute(f"select {call}")
        cursor.execute("show synchronous_commit")
        assert cursor.fetchone() == ("on",)


def test_attempts_are_published_through_a_pooler(delays: DerivedWorld, clusters: Mapping[str, Cluster]) -> None:
    """They share one session of the server, which keeps no table of theirs."""
    deliver(delays.world, 6)
    pooler = PgBouncer(clusters[STORE], "transaction", pool_size=1)
    with ledger(delays) as opened:
        pooler.start()
        try:
            break_service(STORE, port=str(pooler.port))
            for _ in range(3):
                assert send(sending(attempt := begin(opened, 2)), rows(attempt)).now
        finally:
            break_service(STORE, port=str(clusters[STORE].port))
            pooler.remove()
    assert delays.sent() == [f"late m{number}" for number in range(1, 7)]


def test_g5_messages_are_sent_in_the_order_of_the_rows(delays: DerivedWorld) -> None:
    """Not in that of their causes, if the two differ: the driver has sorted them."""
    deliver(delays.world, 3)
    with ledger(delays) as opened:
        attempt = begin(opened, 3)
        send(sending(attempt), [pa.RecordBatch.from_pydict({"stream_position": [3, 1, 2], "payload": ["c", "a", "b"]})])
    assert delays.sent() == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"stream_position": [None, 2]}, "2 derived messages .* have a stream_position such as 2"),
        ({"stream_position": [None, 1]}, "1 derived messages .* have a stream_position such as None"),
        ({"stream_position": [1, 2]}, "1 derived messages .* have a stream_position such as 2, which is not among 1 to 1"),
        ({"topic": ["delays", "elsewhere"]}, "1 derived messages .* have a topic that is not the route's, such as elsewhere"),
        ({"topic": ["delays", None]}, "1 derived messages .* have a topic that is not the route's, such as None"),
    ],
)
def test_g1_a_message_without_a_cause_of_the_attempt_or_a_topic_of_the_route_fails_the_attempt(
    delays: DerivedWorld, row: dict[str, Any], told: str
) -> None:
    deliver(delays.world, 2)
    types = {"stream_position": pa.int64(), "topic": pa.string()}
    columns = {name: pa.array(values, types[name]) for name, values in row.items()} | {"payload": pa.array(["a", "b"])}
    with ledger(delays) as opened:
        attempt = begin(opened, 1)
        with pytest.raises(DerivationFailed, match=told):
            send(sending(attempt), [pa.RecordBatch.from_pydict(columns)])
    assert (delays.sent(), delays.done()) == ([], 0)


def test_g3_an_attempt_without_messages_is_published_once(delays: DerivedWorld) -> None:
    """The function made none of what it got: that is on record, and a second task finds it."""
    deliver(delays.world, 2)
    with ledger(delays) as opened:
        attempt = begin(opened, 2)
        assert send(sending(attempt), []) == Published(0)
        assert send(sending(attempt), []) == Published(0, now=False)
    assert [row[1:] for row in delays.attempts()] == [("published", "{[1,3)}", 2, 0)]
    assert (delays.sent(), delays.done()) == ([], 2)


def test_what_an_application_says_of_a_cause_counts_for_nothing(delays: DerivedWorld) -> None:
    """Neither in a header of a message that is derived from, nor in one that it sends under the sender of the derivation meanwhile."""
    world = delays.world
    deliver(world, 2)
    world.query(STORE, "alter sequence relaybox.outbox_seq increment by 2")  # room for another one in between
    told = '{"derived_from": {"stream": "flights", "stream_position": 99, "version": 7}, "gate": 3}'
    with ledger(delays) as opened:
        attempt = begin(opened, 2)
        made = {"stream_position": [1, 2], "payload": ["a", "b"], "headers": [told, told]}
        send(sending(attempt), [pa.RecordBatch.from_pydict(made)])
    forged = (
        "insert into relaybox.outbox (seq, topic, sender, headers, payload) "
        "select seq + 1, topic, sender, headers, 'forged' from relaybox.outbox order by seq limit 1 returning message_id::text"
    )
    forged_id = world.value(STORE, forged)
    found = world.query(STORE, "select payload, headers - 'gate' from relaybox.outbox order by seq")
    cause = {"stream": "flights", "version": 1}
    first, second = ({"derived_from": {**cause, "stream_position": position}} for position in (1, 2))
    assert found == [("a", first), ("forged", first), ("b", second)]
    traces = {payload: cause_of(world, payload) for payload in ("a", "forged", "b")}
    assert traces == {"a": [(1, 1)], "forged": [], "b": [(2, 1)]}
    derived = "select array_to_string(message_ids, ' ') from relaybox_internal.trace_derived('flights', 1)"
    assert forged_id not in world.value(STORE, derived)


def cause_of(world: World, payload: str) -> list[tuple[Any, ...]]:
    """Stream position and attempt, as `relaybox where` tells them."""
    query = "select first_stream_position, attempt from relaybox_internal.trace_cause((select seq from relaybox.outbox where payload = %s))"
    return world.query(STORE, query, payload)


def test_g3_messages_of_an_application_under_the_sender_of_a_derivation_change_nothing_of_it(delays: DerivedWorld) -> None:
    """It had the sender before the derivation began, and goes on. Its messages travel with the others, and no attempt has them."""
    deliver(delays.world, 4)
    insert = f"insert into relaybox.outbox (topic, sender, payload) values ('{ROUTE}', '{ROUTE}', %s)"
    delays.world.query(STORE, insert, "theirs 1")
    derive_all(delays, max_count=2)
    delays.world.query(STORE, insert, "theirs 2")
    deliver(delays.world, 1)
    derive_all(delays)
    derived = [f"late m{number}" for number in range(1, 6)]
    assert delays.sent() == ["theirs 1", *derived[:4], "theirs 2", derived[4]]
    assert [row[-1] for row in delays.attempts()] == [2, 2, 1]
    delays.world.transfer(delays.route.hops[0])
    arrived = delays.world.query(
        "analytics", f"select payload from relaybox.read_stream('{ROUTE}', 0, 100) order by stream_position"
    )
    assert sorted(payload for (payload,) in arrived) == sorted(delays.sent())
    assert [cause_of(delays.world, payload) for payload in ("theirs 1", "theirs 2")] == [[], []]


def test_a_subscription_that_a_consumer_has_under_the_name_of_a_derivation_is_an_error(delays: DerivedWorld) -> None:
    """A version takes no subscription that it has not made: what that one has acknowledged nobody derived from."""
    deliver(delays.world, 3)
    delays.world.query(STORE, f"select relaybox.subscribe('{SUBSCRIPTION}', 'flights', '3')")
    with pytest.raises(AlreadySubscribed, match=rf"{SUBSCRIPTION}"):
        derive_all(delays)
    assert (delays.sent(), delays.attempts()) == ([], [])
    delays.world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'it was a mistake')")
    derive_all(delays)
    assert delays.sent() == ["late m1", "late m2", "late m3"]


@pytest.mark.parametrize("moment", ["committing", "committed"])
def test_a_run_whose_failure_could_not_be_recorded_goes_on(
    delays: DerivedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The store refuses the record, as after a deadlock; the next attempt, of the same session, is as any other."""
    deliver(delays.world, 2)
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", f"derive_failure.{moment}=raise 40P01")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    with ledger(delays) as opened:
        failed = begin(opened, 2)
        with pytest.raises(Transient, match="40P01"):
            opened.fail(failed, "a mistake", dead_letter=False)
        assert send(sending(attempt := begin(opened, 2)), rows(attempt)).now
    assert delays.sent() == ["late m1", "late m2"]
