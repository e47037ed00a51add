"""The subscription of a streaming query, step by step as Spark calls them; killed at each, nothing is acknowledged too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaybox.errors import AlreadySubscribed, HistoryLost
from relaybox.failpoints import QUERY_FAILPOINTS
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.options import ReadOptions
from relaybox.spark.frames.query_subscription import QuerySubscription
from relaybox.spark.frames.stream_reader import POSITION, StreamReader
from tests.support.backups import Backups
from tests.support.killed_child import kill_at
from tests.support.streams import STORE, STREAM, deliver
from tests.support.world import World

QUERY, OTHER = "6b0d0f9e-3c5a-4b53-8d6e-1f3fb1f0a001", "6b0d0f9e-3c5a-4b53-8d6e-1f3fb1f0a002"


def reader(**options: object) -> StreamReader:
    return StreamReader(ReadOptions(STORE, STREAM, **options), SCHEMA)  # type: ignore[arg-type]


def done(world: World) -> list[tuple[int, int]]:
    return world.query(
        STORE, "select first_stream_position, done_stream_position from relaybox.subscriptions where subscription = 'lake'"
    )


def test_a_first_micro_batch_that_is_planned_again_begins_where_it_began(world: World) -> None:
    """Messages arrived between Spark's two questions, and more before it asks again. Spark has kept the end alone."""
    deliver(world, 10)
    first = reader(start="latest")
    start = first.initialOffset()
    deliver(world, 5)
    end = first.latestOffset(start)
    deliver(world, 7)
    again = reader(start="latest", subscription="lake")
    (partition,) = again.partitions(again.initialOffset(), end)
    assert (partition.first, partition.last) == (11, 15)
    assert done(world) == [(11, 10)]


@pytest.mark.parametrize("step", QUERY_FAILPOINTS)
def test_g8_a_query_that_is_killed_at_any_step_acknowledges_what_it_has_done(world: World, tmp_path: Path, step: str) -> None:
    deliver(world, 10)
    planned = reader()
    start = planned.initialOffset()
    end = planned.latestOffset(start)

    def run() -> None:
        killed = reader(subscription="lake")
        killed.partitions(start, end)
        killed.commit(end)

    kill_at(step, tmp_path, run)
    assert done(world) in ([], [(1, 0)], [(1, 10)])
    deliver(world, 3)
    again = reader(subscription="lake")
    newest = again.latestOffset(end)
    (partition,) = again.partitions(end, newest)
    assert (partition.first, done(world)) == (11, [(1 if step != "query_subscription.committing" else 11, 10)])
    again.commit(newest)
    assert newest[POSITION] == done(world)[0][1] == 13


def test_g11_a_store_that_was_restored_and_has_grown_since_stops_the_query(world: World, backups: Backups) -> None:
    """It has another message where the query has read. Where both have the same messages, the query goes on."""
    deliver(world, 10)
    early = backups.take(STORE)
    started = reader()
    start = started.initialOffset()
    end = started.latestOffset(start)
    deliver(world, 5)
    later = started.latestOffset(end)
    backups.restore(STORE, early)
    deliver(world, 8)
    again = reader(subscription="lake")
    (partition,) = again.partitions(end, again.latestOffset(end))
    assert (partition.first, partition.last) == (11, 18)
    with pytest.raises(HistoryLost, match=r"stream position 15 has message .*; the query has read or planned message"):
        again.partitions(later, again.latestOffset(later))
    with pytest.raises(HistoryLost, match="stream position 15 has message"):
        again.partitions(end, later)
    with pytest.raises(HistoryLost, match="stream position 15 has message"):
        again.commit(later)
    assert done(world) == [(11, 10)], "what this query never read stays unacknowledged"


def test_a_query_does_not_acknowledge_for_another_one(world: World) -> None:
    deliver(world, 10)
    one, other = QuerySubscription(STORE, STREAM, "lake", QUERY), QuerySubscription(STORE, STREAM, "lake", OTHER)
    one.begin(1)
    one.begin(1)
    one.ack(4)
    with pytest.raises(AlreadySubscribed, match="belongs to another query, made by"):
        other.begin(1)
    with pytest.raises(AlreadySubscribed, match="belongs to another query"):
        other.ack(9)
    with pytest.raises(AlreadySubscribed, match="subscription lake does not read stream other"):
        QuerySubscription(STORE, "other", "lake", QUERY).begin(1)
    one.ack(2)
    assert done(world) == [(1, 4)]


def test_g8_a_query_acknowledges_what_it_has_done_and_not_what_somebody_has_fetched(world: World) -> None:
    """A person has fetched from its subscription, further than the query is, and has gone: the lease has ended."""
    deliver(world, 10)
    query = QuerySubscription(STORE, STREAM, "lake", QUERY)
    query.begin(1)
    world.query(STORE, "select from relaybox.fetch('lake', 8, worker => 'a person')")
    world.query(
        STORE, "update relaybox_internal.cursor set leased_until = clock_timestamp() - interval '1 hour' where worker is not null"
    )
    query.ack(4)
    assert done(world) == [(1, 4)]
    query.ack(10)
    assert done(world) == [(1, 10)]


def test_a_login_of_a_consumer_is_all_that_a_query_needs(world: World) -> None:
    deliver(world, 4)
    world.query(STORE, "create role notebook login password 'secret' in role relaybox_consumer")
    try:
        begun = f"select relaybox.begin_query('lake', '{STREAM}', 1, '{QUERY}')"
        acked = f"select relaybox.ack_query('lake', '{QUERY}', 3)"
        world.query(STORE, "set session authorization notebook; " + begun)
        assert world.query(STORE, "set session authorization notebook; " + acked) == [(3,)]
    finally:
        world.query(STORE, "drop owned by notebook; drop role notebook")
