"""G9: any subscription can read again from the start, a stream position or a time; the sequence is the same."""

from __future__ import annotations

import psycopg2
import pytest

from tests.support.streams import STORE, ack, deliver, fetch, stream_positions
from tests.support.world import World, wait_until


@pytest.fixture
def twenty(world: World) -> World:
    """20 messages, 12 of them acknowledged by `billing`."""
    deliver(world, 8)
    deliver(world, 12, backwards=True)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    fetch(world, 12)
    ack(world, 12)
    return world


def replay(world: World, start: str, options: str = "") -> tuple[object, ...]:
    """Name, first and last stream position, messages, bytes, seconds."""
    return world.query(STORE, f"select * from relaybox.replay('billing', %s, 'tax audit'{options})", start)[0]


def read_on(world: World, subscription: str = "billing") -> list[tuple[int, bool, str]]:
    """Stream position, replayed and payload of all that is there, acknowledged as it comes."""
    got, rows = [], fetch(world, 5, subscription)
    while rows:
        got += [(row[0], row[2], row[5]) for row in rows]
        rows = fetch(world, 5, subscription, acked=rows[-1][0])
    return got


def test_g9_a_replay_from_the_start_gives_the_same_sequence_and_says_so(twenty: World) -> None:
    """All 20 again, those acknowledged before marked as replayed."""
    replay(twenty, "earliest")
    assert read_on(twenty) == [(n, n <= 12, f"m{n}") for n in range(1, 21)]


def test_g9_from_a_stream_position_and_from_a_time(twenty: World) -> None:
    replay(twenty, "10")
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(10, 21))
    second_batch = twenty.value(STORE, "select max(decided_at) from relaybox_internal.decision")
    replay(twenty, str(second_batch))
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(9, 21))


def test_g9_a_replay_never_passes_over_anything(twenty: World) -> None:
    """From a stream position that the subscription has not reached it would skip: there is nothing to replay."""
    assert replay(twenty, "15")[:4] == (None, 15, 12, 0)
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(13, 21))


def test_g9_a_second_cursor_leaves_the_live_one_alone(twenty: World) -> None:
    """A range under a name of its own, while the subscription goes on; then a second one."""
    assert replay(twenty, "3", ", through => '7', second_cursor => true")[:4] == ("billing.replay-1", 3, 7, 5)
    assert read_on(twenty, "billing.replay-1") == [(n, True, f"m{n}") for n in range(3, 8)]
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(13, 21))
    assert replay(twenty, "earliest", ", second_cursor => true")[:4] == ("billing.replay-2", 1, 20, 20)
    deliver(twenty, 3)
    assert [stream_position for stream_position, _, _ in read_on(twenty, "billing.replay-2")] == list(range(1, 21))


def test_g9_lanes_go_back_each_for_itself(world: World) -> None:
    deliver(world, 30, senders=5)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', lanes => 3)")
    seen = drain(world)
    world.query(STORE, "select relaybox.replay('billing', '11', 'again')")
    again = drain(world)
    assert sorted(seen) == list(range(1, 31))
    assert sorted(again) == list(range(11, 31))


def drain(world: World) -> list[int]:
    got: list[int] = []
    while rows := world.query(STORE, "select stream_position, lane from relaybox.fetch('billing', 4, worker => 'a')"):
        got += stream_positions(rows)
        ack(world, rows[-1][0])
    return got


def test_a_dry_run_counts_and_changes_nothing(twenty: World) -> None:
    """Messages, bytes and time; with a rate the time follows from it."""
    name, first, last, messages, size, seconds = replay(twenty, "earliest", ", dry_run => true, rows_per_second => 4")
    assert (name, first, last, messages, seconds) == ("billing", 1, 12, 12, 3)
    assert size == pytest.approx(12 * 2.3, abs=5)
    assert twenty.value(STORE, "select count(*) from relaybox.consumer_action where action = 'replay'") == 0
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(13, 21))


def test_a_rate_limit_is_kept_by_fetch(twenty: World) -> None:
    """Five rows a second: the first second's worth at once, then no more until time passes; the live part is not limited."""
    replay(twenty, "earliest", ", rows_per_second => 5")
    assert fetch(twenty, 100) == []
    wait_until(lambda: fetch_and_ack(twenty) > 0, "a second's worth is saved up")
    fetched = int(twenty.value(STORE, "select done_stream_position from relaybox.lag('billing')"))
    assert 1 <= fetched <= 5
    wait_until(lambda: fetch_and_ack(twenty) >= 0 and done(twenty) >= 12, "the replay comes to its end")
    assert stream_positions(fetch(twenty, 100)) == list(range(done(twenty) + 1, 21))


def fetch_and_ack(world: World) -> int:
    rows = fetch(world, 100)
    if rows:
        ack(world, rows[-1][0])
    return len(rows)


def done(world: World) -> int:
    return int(world.value(STORE, "select done_stream_position from relaybox.lag('billing')"))


def test_a_cancelled_replay_goes_on_where_the_subscription_had_been(twenty: World) -> None:
    replay(twenty, "earliest")
    assert stream_positions(fetch(twenty, 4)) == [1, 2, 3, 4]
    twenty.query(STORE, "select relaybox.cancel_replay('billing', 'wrong month')")
    with pytest.raises(psycopg2.Error) as refused:
        ack(twenty, 4)
    assert refused.value.pgcode == "RB035"
    assert "a replay, or its end, has put the lane to another stream position" in str(refused.value)
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(13, 21))
    with pytest.raises(psycopg2.Error, match="replays nothing"):
        twenty.query(STORE, "select relaybox.cancel_replay('billing', 'again')")


def test_a_cancelled_second_cursor_is_gone(twenty: World) -> None:
    replay(twenty, "3", ", second_cursor => true")
    twenty.query(STORE, "select relaybox.cancel_replay('billing.replay-1', 'enough')")
    with pytest.raises(psycopg2.Error) as refused:
        fetch(twenty, 1, "billing.replay-1")
    assert refused.value.pgcode == "RB031"


def test_who_replayed_when_and_why_is_written_down(twenty: World) -> None:
    replay(twenty, "3", ", rows_per_second => 50")
    twenty.query(STORE, "select relaybox.cancel_replay('billing', 'wrong month')")
    rows = twenty.query(
        STORE,
        "select action, reason, detail ->> 'first_stream_position', done_by, done_at <= clock_timestamp() from relaybox.consumer_action"
        " where action <> 'subscribe' order by action_id",
    )
    user = twenty.value(STORE, "select session_user")
    assert rows == [("replay", "tax audit", "3", user, True), ("cancel_replay", "wrong month", None, user, True)]


@pytest.mark.parametrize("call", ["replay('billing', 'earliest', '')", "cancel_replay('billing', ' ')"])
def test_a_replay_without_a_reason_is_refused(twenty: World, call: str) -> None:
    with pytest.raises(psycopg2.Error, match="with a reason") as refused:
        twenty.query(STORE, f"select relaybox.{call}")
    assert refused.value.pgcode == "RB036"


def test_a_worker_in_the_middle_of_its_work_can_not_acknowledge_after_the_replay_began(twenty: World) -> None:
    """Its transaction fails, and the messages come again in the replay's order."""
    assert stream_positions(fetch(twenty, 3)) == [13, 14, 15]
    replay(twenty, "earliest")
    with pytest.raises(psycopg2.Error) as refused:
        ack(twenty, 15)
    assert refused.value.pgcode == "RB035"
    assert "a replay, or its end, has put the lane to another stream position" in str(refused.value)
    assert [stream_position for stream_position, _, _ in read_on(twenty)] == list(range(1, 21))
