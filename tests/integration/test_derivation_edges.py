"""The steps of a derivation at their edges: small attempts, a replay, two beginners, durability, poolers, and what others forge."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from relaybox.errors import DerivationFailed
from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from relaybox.spark.derivations.publishing import send
from tests.support.derivation_steps import begin, derive_all, ledger, positions, rows, sending
from tests.support.derivations import HERE, ROUTE, STORE, SUBSCRIPTION, DerivedWorld
from tests.support.services import break_service
from tests.support.streams import deliver
from tests.support.world import World, wait_until


@pytest.fixture
def delays(world: World) -> DerivedWorld:
    derived = DerivedWorld(world)
    derived.configure(**{"with": f"{HERE}:copies"})
    world.initialise()
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
    delays.world.query(STORE, f"select relaybox.redrive('{SUBSCRIPTION}', 'mended')")
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
