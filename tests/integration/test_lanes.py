"""Lanes: several workers of one subscription, each sender in order, and what a dead worker leaves behind."""

from __future__ import annotations

from contextlib import suppress

import psycopg2
import pytest

from tests.support.streams import STORE, ack, deliver, fetch, nack, stream_positions, token
from tests.support.world import World, wait_until


@pytest.fixture
def four(world: World) -> World:
    """40 messages of 11 senders, and the subscription `billing` with four lanes."""
    deliver(world, 20, senders=11)
    deliver(world, 20, senders=11, backwards=True)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', lanes => 4, lease_seconds => 600)")
    return world


def drain(world: World, worker: str = "a") -> list[tuple[int, int, str]]:
    """Stream position, lane and sender of all that one worker gets, lane by lane as it comes."""
    got, rows = [], fetch(world, 3, worker=worker)
    while rows:
        got += [(row[0], row[1], row[4]) for row in rows]
        rows = fetch_any(world, rows[-1][0], rows[-1][1], worker)
    return got


def fetch_any(world: World, acked: int, lane: int, worker: str) -> list[tuple[object, ...]]:
    """Acknowledges in one lane and fetches from whichever has something."""
    return world.query(
        STORE,
        "select stream_position, lane, replayed, attempt, sender, payload from relaybox.fetch('billing', 3, %s, %s, worker => %s)",
        acked,
        token(world, worker=worker, lane=lane),
        worker,
    )


def test_one_worker_serves_all_lanes_and_gets_every_message_once(four: World) -> None:
    got = drain(four)
    assert sorted(stream_position for stream_position, _, _ in got) == list(range(1, 41))
    assert len({lane for _, lane, _ in got}) > 1
    assert len({(lane, sender) for _, lane, sender in got}) == 11
    assert all(
        [stream_position for stream_position, lane, _ in got if lane == wanted]
        == sorted(stream_position for stream_position, lane, _ in got if lane == wanted)
        for wanted in range(1, 5)
    )


def test_workers_get_different_lanes_side_by_side(four: World) -> None:
    lanes = [{row[1] for row in fetch(four, 3, worker=worker)} for worker in "abcde"]
    arrival_seq = [lane for lane in lanes if lane]
    assert all(len(lane) == 1 for lane in arrival_seq)
    assert len(set.union(*arrival_seq)) == len(arrival_seq)
    assert lanes[-1] == set()


def test_a_lane_that_a_transaction_holds_is_passed_over(four: World) -> None:
    """A worker in the middle of its transaction makes nobody wait."""
    with four.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("select lane from relaybox.fetch('billing', 3, worker => 'a')")
        held = cursor.fetchall()[0][0]
        rows = fetch(four, 3, worker="b")
        assert rows
        assert held not in {row[1] for row in rows}
        connection.rollback()


def test_a_dead_worker_s_lane_moves_on_after_its_lease(four: World) -> None:
    """Its messages go to another worker, the same ones; the dead one's late word counts for nothing."""
    rows = fetch(four, 3, worker="dead")
    lane, last = rows[0][1], rows[-1][0]
    with pytest.raises(psycopg2.Error) as leased:
        fetch(four, 3, worker="heir", lane=lane)
    assert leased.value.pgcode == "RB035"
    four.query(STORE, "update relaybox_internal.cursor set leased_until = leased_until - interval '599.8 seconds'")

    def inherited() -> bool:
        return lane in {row[1] for row in fetch_all(four, "heir") if row[0] in {r[0] for r in rows}}

    wait_until(inherited, "the lane moves on")
    with pytest.raises(psycopg2.Error) as lost:
        ack(four, last, worker="dead", lane=lane)
    assert lost.value.pgcode == "RB035"
    with pytest.raises(psycopg2.Error) as refused:
        nack(four, last, "late", worker="dead", lane=lane)
    assert refused.value.pgcode == "RB035"


def fetch_all(world: World, worker: str) -> list[tuple[int, int]]:
    """What a worker can fetch now from every free lane, without acknowledging."""
    got: list[tuple[int, int]] = []
    for lane in range(1, 5):
        with suppress(psycopg2.Error):  # leased still
            got += [(row[0], row[1]) for row in fetch(world, 3, worker=worker, lane=lane)]
    return got


def test_an_expired_lease_that_nobody_took_still_counts(four: World) -> None:
    rows = fetch(four, 3, worker="slow")
    four.query(
        STORE, "update relaybox_internal.cursor set leased_until = clock_timestamp() - interval '1 hour' where worker = 'slow'"
    )
    assert ack(four, rows[-1][0], worker="slow") == rows[-1][0]


def test_lanes_by_key_keep_each_key_in_one_lane(world: World) -> None:
    deliver(world, 60, senders=1)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', lanes => 3, lane_by => 'key')")
    got = drain(world)
    assert sorted(stream_position for stream_position, _, _ in got) == list(range(1, 61))
    lanes_of = {
        stream_position % 7: {lane for other, lane, _ in got if other % 7 == stream_position % 7} for stream_position, _, _ in got
    }
    assert {len(lanes) for lanes in lanes_of.values()} == {1}
    assert len(set.union(*lanes_of.values())) > 1


def test_a_lane_that_is_none_is_denied(four: World) -> None:
    with pytest.raises(psycopg2.Error, match="has lanes 1 to 4, no lane 5"):
        fetch(four, 3, lane=5)


def test_a_server_that_hashes_otherwise_is_refused(four: World) -> None:
    """Else a sender's messages would move to a lane that is further, and be passed over."""
    four.query(STORE, "update relaybox_internal.subscription set lane_hash = lane_hash + 1")
    with pytest.raises(psycopg2.Error, match="would give its senders other lanes") as refused:
        fetch(four, 3)
    assert refused.value.pgcode == "RB036"


def test_a_worker_stops_and_its_lane_is_free_at_once(four: World) -> None:
    rows = fetch(four, 3, worker="a")
    lane = rows[0][1]
    verification = token(four)
    assert four.value(STORE, "select relaybox.release('billing', %s)", verification) is True
    assert four.value(STORE, "select relaybox.release('billing', %s)", verification) is False
    assert stream_positions(fetch(four, 3, worker="b", lane=lane)) == [row[0] for row in rows]
