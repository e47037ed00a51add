"""Fetches against brute force: each has exactly as many messages as asked for, those that come next, whatever lies between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from tests.support.streams import STORE, deliver, fetch, nack
from tests.support.world import World

DELIVERED = (
    (1, "flights", False),
    (3, "flights", True),
    (1, "other", False),
    (4, "flights", False),
    (2, "other", True),
    (5, "flights", True),
)
"""Count, topic, and whether the log has them the other way round: 16 stream positions."""

SUBSCRIBED = {
    "all of it": "'flights'",
    "one topic": "'other'",
    "two lanes": "'flights', lanes => 2",
    "a topic in two lanes by key": "'other', lanes => 2, lane_by => 'key'",
}
OF_LANE = """
select r.stream_position from relaybox.read_stream('flights', 0, 1000) r, relaybox_internal.subscription s
where s.subscription = 'billing' and s.ended_at is null and (s.topic is null or r.topic = s.topic)
    and (s.lanes = 1 or relaybox_internal.lane_of(s.lane_by, s.lanes, r.sender, r.key) = %s) order by 1
"""


@pytest.fixture(scope="module")
def sixteen(make_template: Any) -> str:
    """A stream of two topics whose stream positions are in runs and in lists."""

    def fill(world: World) -> None:
        world.query(
            STORE,
            (
                "insert into relaybox_internal.stream_topic (stream_id, topic, carried_by) select stream_id, 'other', 'file' "
                "from relaybox_internal.stream"
            ),
        )
        for count, topic, backwards in DELIVERED:
            deliver(world, count, topic=topic, backwards=backwards)

    return make_template(fill)


@pytest.fixture
def stream(sixteen: str, make_world: Any) -> Iterator[World]:
    with make_world(sixteen) as world:
        yield world


def read_lane(world: World, lane: int, size: int) -> list[list[int]]:
    """The stream positions of each fetch, one after the other acknowledged, until nothing comes."""
    got: list[list[int]] = []
    while rows := fetch(world, size, lane=lane, acked=got[-1][-1] if got else None):
        assert [(row[1], row[5]) for row in rows] == [(lane, f"m{row[0]}") for row in rows]
        got.append([row[0] for row in rows])
    return got


def cut(stream_positions: list[int], size: int) -> list[list[int]]:
    return [stream_positions[at : at + size] for at in range(0, len(stream_positions), size)]


@pytest.mark.parametrize("source", SUBSCRIBED.values(), ids=SUBSCRIBED)
def test_each_fetch_has_as_many_messages_as_asked_for_in_their_order(stream: World, source: str) -> None:
    """Over the borders of runs and lists, of one topic and of each lane, for sizes that end before, at and behind each border."""
    for size in (1, 2, 4, 5, 100):
        stream.query(STORE, f"select relaybox.subscribe('billing', {source})")
        lanes = stream.value(
            STORE, "select lanes from relaybox_internal.subscription where subscription = 'billing' and ended_at is null"
        )
        for lane in range(1, lanes + 1):
            wanted = [row[0] for row in stream.query(STORE, OF_LANE, lane)]
            assert read_lane(stream, lane, size) == cut(wanted, size), (size, lane)
        assert stream.query(STORE, "select done_stream_position from relaybox.lag('billing')") == [(16,)] * lanes, (
            "all was looked at"
        )
        stream.query(STORE, "select relaybox.unsubscribe('billing')")


@pytest.mark.parametrize("aside", [1, 2, 4, 5, 9, 12, 16])
def test_a_message_that_was_set_aside_makes_room_for_the_next_one(stream: World, aside: int) -> None:
    """At the begin, in the middle and at the end of a run or a list; it does not come, and the fetch is as large as before."""
    stream.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    fetch(stream, 16)
    assert nack(stream, aside)
    rest = [stream_position for stream_position in range(1, 17) if stream_position != aside]
    assert read_lane(stream, 1, 16) == [rest]
    stream.query(STORE, "select relaybox.replay('billing', 'earliest', 'again')")
    assert read_lane(stream, 1, 4) == cut(rest, 4)


def test_a_subscription_that_is_looked_at_is_no_other(stream: World) -> None:
    """Dead letters and refusals are those of the lane that is told of, beside a subscription that has some."""
    for name in ("billing", "audit"):
        stream.query(STORE, f"select relaybox.subscribe('{name}', 'flights', nack_limit => 2)")
    stream.query(STORE, "select relaybox.subscribe('split', 'flights', lanes => 2)")
    fetch(stream, 3)
    nack(stream, 1)
    fetch(stream, 3)
    assert nack(stream, 1)
    fetch(stream, 3)
    nack(stream, 2)
    told = "select failing, dead_letters from relaybox.lag(%s)"
    assert {name: stream.query(STORE, told, name) for name in ("billing", "audit", "split")} == {
        "billing": [(1, 1)],
        "audit": [(0, 0)],
        "split": [(0, 0)] * 2,
    }


def test_a_start_may_be_any_kept_stream_position_or_the_next_one(stream: World) -> None:
    """The first one, the last one, and the one after it; by time, what this very stream delivered by then."""
    stream.query(STORE, "update relaybox_internal.stream set first_kept_stream_position = 3")
    for start, first in (("3", 3), ("16", 16), ("17", 17), ("earliest", 3), ("latest", 17), ("now", 17)):
        assert stream.value(STORE, "select relaybox.subscribe('billing', 'flights', %s)", start) == first, start
        stream.query(STORE, "select relaybox.unsubscribe('billing')")
    for start in ("2", "18"):
        with pytest.raises(psycopg2.Error, match=r"the first one is 3|there is no stream position 18 yet"):
            stream.query(STORE, "select relaybox.subscribe('billing', 'flights', %s)", start)


def test_a_second_cursor_takes_a_name_that_no_live_one_has(stream: World) -> None:
    """Names of those that ended are free again, whatever they were."""
    stream.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    for number in (1, 2, 3):  # as earlier versions allowed
        stream.query(STORE, f"select relaybox.subscribe('taken-{number}', 'flights')")
    stream.query(
        STORE,
        "update relaybox_internal.subscription set subscription = replace(subscription, 'taken', 'billing.replay') "
        "where subscription like 'taken-_'",
    )
    for number in (1, 2):
        stream.query(STORE, f"select relaybox.unsubscribe('billing.replay-{number}')")
    free = "select relaybox_internal.free_replay_name(s) from relaybox_internal.subscription s where s.subscription = 'billing'"
    assert stream.value(STORE, free) == "billing.replay-1"
    stream.query(STORE, "select relaybox.unsubscribe('billing.replay-3')")
    assert stream.value(STORE, free) == "billing.replay-1"


def test_a_replay_that_is_asked_for_says_how_long_it_takes(stream: World) -> None:
    """By its rate, or, without one, by what reading costs here."""
    stream.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    asked = "select state, message_count, estimated_seconds from relaybox_internal.ask_replay('billing', %s, '1', '16', 'why', 'me', %s)"
    assert stream.query(STORE, asked, "slow", 2) == [("begun", 16, 8.0)]
    ((state, count, seconds),) = stream.query(STORE, asked, "fast", None)
    assert (state, count) == ("begun", 16)
    assert 0 < seconds < 8
