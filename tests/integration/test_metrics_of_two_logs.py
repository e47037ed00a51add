"""What a store with two logs says of each to a monitoring system: the moments and stream positions of one are not those of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from tests.integration.store_metrics import HOUR, put_back, store_metrics
from tests.integration.two_logs import fill_two_logs
from tests.support.world import World

AGE, HELD = "relaybox_watermark_age_seconds", "relaybox_retention_held_seconds"
HUB = "hub"
DETACHES = """
update relaybox_internal.hop_in set stopped_consumer = 'detach', detach_after_seconds = 3600, detach_to = '/x', replay_window_seconds = %s
"""


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    return make_template(fill_two_logs)


@pytest.fixture
def logs(two_logs: str, make_world: Any) -> Iterator[World]:
    """The batches of log 1 arrived nine and six hours ago, those of log 2 eight and five; they were delivered an hour later."""
    with make_world(two_logs) as world:
        for log_id, batch, hours in ((1, 1, 9), (1, 2, 6), (2, 1, 8), (2, 2, 5)):
            batch_of_log = f"log_id = {log_id} and batch = {batch}"
            put_back(world, "arrival.published_at", hours, batch_of_log)
            put_back(world, "decision.decided_at", hours - 1, batch_of_log)
        yield world


def hours_of(world: World, metric: str, *labels: str) -> float:
    """The value of a metric of seconds, in hours."""
    return round(store_metrics(world)[metric, *labels] / HOUR, 2)


def subscribe(world: World, name: str, stream: str, done: int, through: int | None = None) -> None:
    """A subscription that is done with a stream position, which it was two days ago; with an end it is a second cursor."""
    world.query(HUB, "select relaybox.subscribe(%s, %s)", name, stream)
    own = "subscription_id = (select s.subscription_id from relaybox_internal.subscription s where s.subscription = %s)"
    world.query(
        HUB,
        f"update relaybox_internal.cursor set done_stream_position = %s, fetched_stream_position = %s where {own}",
        done,
        done,
        name,
    )
    put_back(world, "cursor.moved_at", 48)
    if through is not None:
        world.query(
            HUB,
            f"update relaybox_internal.subscription set replay_of = subscription_id, through_stream_position = %s where {own}",
            through,
            name,
        )


def test_a_log_ages_from_its_own_first_batch_that_no_stream_decided_on(logs: World) -> None:
    """Or from its newest decision, whichever is later; the other log's batches are neither before nor behind it."""

    def ages() -> tuple[float, float]:
        return hours_of(logs, AGE, "flights/1", "flights", "delivered"), hours_of(logs, AGE, "other/1", "other", "delivered")

    assert ages() == (0, 0)
    logs.query(HUB, "delete from relaybox_internal.decision where log_id = 1 and batch = 2")
    logs.query(HUB, "update relaybox_internal.stream_log set decided_batch = 1 where log_id = 1")
    assert ages() == (6, 0)
    put_back(logs, "decision.decided_at", 3, "log_id = 1")
    assert ages() == (3, 0)
    logs.query(HUB, "update relaybox_internal.arrival set batch = batch + 10 where log_id = 2")
    logs.query(HUB, "delete from relaybox_internal.decision where log_id = 2")
    logs.query(HUB, "update relaybox_internal.stream_log set decided_batch = 0 where log_id = 2")
    assert ages() == (3, 8)


def test_a_second_cursor_is_behind_as_far_as_its_end_or_the_streams(logs: World) -> None:
    """Whichever comes first, and never by less than nothing; it waits since what its own stream delivered first behind it."""
    for name, stream, done, through in (
        ("ends-here", "flights", 4, 10),
        ("ends-later", "flights", 22, 100),
        ("at-its-end", "flights", 10, 10),
        ("beyond", "flights", 35, 40),
        ("at-the-last", "other", 4, None),
        ("at-the-seam", "flights", 20, None),
    ):
        subscribe(logs, name, stream, done, through)
    found = store_metrics(logs)
    told = {
        key[2]: (found["relaybox_subscription_behind_messages", *key[1:3]], round(value / HOUR, 2))
        for key, value in found.items()
        if key[0] == AGE and key[-1] == "acknowledged"
    }
    assert told == {
        "ends-here": (6, 8),
        "ends-later": (8, 5),
        "at-its-end": (0, 0),
        "beyond": (0, 0),
        "at-the-last": (11, 7),
        "at-the-seam": (10, 5),
    }


def test_a_hop_keeps_a_log_since_the_first_arrival_of_that_log_that_it_has_not_settled(logs: World) -> None:
    """One settled the first batch to its end, the other never ran; from the segment's size on."""
    transfer_hop(logs.routes.hop("flights/2"), ThreadRunner(1), recorded_by="test")
    logs.query(HUB, "update relaybox_internal.batch set last_position = 20, reads_through = 20, row_count = 20")
    logs.query(
        HUB,
        "insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)"
        " values ('flights/2', 'settled', 20, 1, now(), 'test')",
    )
    assert logs.query(HUB, "select through_position from relaybox_internal.settled_reading('flights/2')") == [(20,)]
    for rows, flights, other in ((10, 6, 8), (11, 0, 8), (15, 0, 8), (16, 0, 0)):
        logs.query(HUB, "update relaybox_internal.store set segment_rows = %s", rows)
        assert (hours_of(logs, HELD, "flights/2", "hop"), hours_of(logs, HELD, "other/2", "hop")) == (flights, other), rows


def test_a_stopped_subscription_keeps_what_its_own_log_could_have_detached(logs: World) -> None:
    """What was delivered before the window, is behind it, and is still here; since the moment when detaching was allowed."""
    subscribe(logs, "billing", "flights", 12)
    subscribe(logs, "audit", "other", 2)

    def held(rows: int) -> tuple[float, float]:
        logs.query(HUB, "update relaybox_internal.store set segment_rows = %s", rows)
        return hours_of(logs, HELD, "billing", "subscription"), hours_of(logs, HELD, "audit", "subscription")

    logs.query(HUB, DETACHES, int(5.5 * HOUR))  # before that: stream position 20 of `flights`, stream position 5 of `other`
    assert [held(rows) for rows in (3, 4, 8, 9)] == [(7, 6), (7, 0), (7, 0), (0, 0)]
    logs.query(HUB, "update relaybox_internal.stream set first_kept_stream_position = 17 where stream = 'flights'")
    assert [held(rows) for rows in (4, 5)] == [(7, 0), (0, 0)], "stream positions 17 to 20"
    logs.query(HUB, "update relaybox_internal.stream set first_kept_stream_position = 1")
    logs.query(HUB, DETACHES, 2 * 3600)
    assert [held(rows) for rows in (13, 14, 18, 19)] == [(7, 6), (7, 0), (7, 0), (0, 0)], "all of both streams is older"
    logs.query(HUB, DETACHES, 24 * 3600)
    assert held(1) == (0, 0)


def test_a_stream_of_two_logs_waits_for_what_either_delivered_first(logs: World) -> None:
    """It is detached by the longer of their times, of what either delivered before the window, and only if both detach."""
    logs.query(
        HUB,
        "update relaybox_internal.stream_log set stream_id = (select stream_id from relaybox_internal.stream where stream = 'flights')",
    )
    subscribe(logs, "billing", "flights", 4)
    assert hours_of(logs, AGE, "flights", "billing", "acknowledged") == 8
    put_back(logs, "decision.decided_at", 10, "log_id = 2 and batch = 1")
    assert hours_of(logs, AGE, "flights", "billing", "acknowledged") == 10
    logs.query(HUB, DETACHES, int(5.5 * HOUR))
    logs.query(HUB, "update relaybox_internal.hop_in set detach_after_seconds = 3600 * log_id")

    def held(rows: int) -> float:
        logs.query(HUB, "update relaybox_internal.store set segment_rows = %s", rows)
        return hours_of(logs, HELD, "billing", "subscription")

    assert [held(rows) for rows in (16, 17)] == [8, 0], "stream positions 5 to 20"
    logs.query(HUB, "update relaybox_internal.hop_in set stopped_consumer = 'alarm' where log_id = 2")
    assert [held(rows) for rows in (26, 27)] == [10, 0]
