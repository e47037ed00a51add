"""The clock of a store was ahead and is corrected, or a failover led to a server whose clock is right: no consumer waits for that date."""

from __future__ import annotations

import pytest

from relaybox.retention.segments import read_retention
from tests.support.world import World

AHEAD = """
update relaybox_internal.cursor set leased_until = leased_until + interval '400 days',
    wait_until = wait_until + interval '400 days', rate_from = rate_from + interval '400 days',
    moved_at = moved_at + interval '400 days'
"""
"""What a server leaves behind that did the work while its clock was ahead."""


@pytest.fixture
def received(world: World) -> World:
    """Four messages at hub, for a subscription of one lane."""
    world.send("1", "2", "3", "4")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', lease_seconds => 600, retry_seconds => 300)")
    return world


def fetch(world: World, worker: str, lane: int | None = None) -> list[tuple[str, int, str]]:
    return world.query(
        "hub",
        "select payload, stream_position, token from relaybox.fetch('billing', 2, worker => %s, only_lane => %s)",
        *(worker, lane),
    )


@pytest.mark.parametrize("lane", [None, 1])
def test_a_lease_lasts_no_longer_than_it_can_have_been_given_for(received: World, lane: int | None) -> None:
    """Another worker gets the messages, and the listings count no lease."""
    assert [row[0] for row in fetch(received, "one")] == ["1", "2"]
    assert fetch(received, "two") == []
    received.query("hub", AHEAD)
    assert received.value("hub", "select leased_lanes from relaybox.subscriptions") == 0
    assert [row[0] for row in fetch(received, "two", lane)] == ["1", "2"]


def test_a_refused_message_waits_no_longer_than_its_retry_seconds(received: World) -> None:
    """Before the step it waits; after it, it comes at once, with the message behind it."""
    first = fetch(received, "one")[0]
    received.query("hub", "select relaybox.nack('billing', %s, 'no', %s)", first[1], first[2])
    assert fetch(received, "two") == []
    received.query("hub", AHEAD)
    assert [row[0] for row in fetch(received, "two")] == ["1", "2"]


def test_a_replay_with_a_rate_goes_on(received: World) -> None:
    """It saves up as if its last fetch was a second ago."""
    last = fetch(received, "one")[-1]
    received.query("hub", "select relaybox.ack('billing', %s, %s)", last[1], last[2])
    received.query("hub", "select relaybox.replay('billing', 'earliest', 'again', rows_per_second => 100)")
    received.query("hub", AHEAD)
    assert [row[0] for row in fetch(received, "one")] == ["1", "2"]


def test_a_consumer_that_stopped_is_late_and_no_longer_active(received: World) -> None:
    """Metrics say how long its messages wait; detaching takes it for stopped by what is certain."""
    fetch(received, "one")
    received.query("hub", AHEAD)
    received.query("hub", "update relaybox_internal.decision set decided_at = decided_at - interval '1 hour'")
    waits = received.value(
        "hub",
        'select value from relaybox_internal.store_metrics() where labels @> \'{"watermark": "acknowledged"}\'',
    )
    assert waits == pytest.approx(3600, abs=300)
    received.query("hub", "update relaybox_internal.delivery set delivered_at = delivered_at - interval '1 hour'")
    received.query(
        "hub",
        "update relaybox_internal.hop_in set stopped_consumer = 'detach', detach_after_seconds = 60, detach_to = '/nowhere'",
    )
    assert received.query("hub", "select has_stopped from relaybox_internal.list_subscription_holders(1)") == [(True,)]
    assert {holder.name for table in read_retention(received.routes.store("hub")).tables for holder in table.holders} >= {
        "billing"
    }
