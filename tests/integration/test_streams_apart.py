"""Two streams in one store: where a consumer starts, what she locks and what is recorded is of the stream that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from tests.integration.store_metrics import put_back
from tests.integration.two_logs import fill_two_logs
from tests.support.world import World

LOCKED = "lock table relaybox_internal.log_{} in access exclusive mode"
LETTER = """
insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason)
select l.stream_id, l.log_id, 3, 'index_missing' from relaybox_internal.stream_log l where l.log_id = %s returning dead_letter_id
"""
CURSORS = """
select s.subscription, c.lane, c.version, c.done_stream_position from relaybox_internal.lane_cursors c
    join relaybox_internal.subscription s using (subscription_id) order by 1, 2
"""


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    return make_template(fill_two_logs)


@pytest.fixture
def logs(two_logs: str, make_world: Any) -> Iterator[World]:
    with make_world(two_logs) as world:
        yield world


def test_a_subscription_starts_in_its_own_stream(logs: World) -> None:
    """At what is kept of it, behind its last message, at a stream position, or at what was delivered since a moment."""
    logs.query(
        "hub", "update relaybox_internal.stream set first_kept_stream_position = case stream when 'flights' then 7 else 3 end"
    )
    for hours, batch in ((9, 1), (5, 2)):
        put_back(logs, "decision.decided_at", hours, f"batch = {batch}")
    first_stream_position = "select relaybox.subscribe(%s, %s, %s)"
    starts = {
        "flights": {"earliest": 7, "latest": 31, "7": 7, "31": 31, "since": 21},
        "other": {"earliest": 3, "latest": 16, "3": 3, "16": 16, "since": 6},
    }
    since = logs.value("hub", "select (now() - interval '7 hours')::text")
    for stream, stream_positions in starts.items():
        for start, stream_position in stream_positions.items():
            found = logs.value("hub", first_stream_position, f"{stream}-{start}", stream, since if start == "since" else start)
            assert found == stream_position, (stream, start)
    for stream, start, refusal in (
        ("flights", "6", "RB034"),
        ("other", "2", "RB034"),
        ("other", "17", "RB036"),
        ("flights", "32", "RB036"),
    ):
        with pytest.raises(psycopg2.Error) as refused:
            logs.query("hub", first_stream_position, "refused", stream, start)
        assert refused.value.pgcode == refusal, (stream, start)


def test_a_reader_waits_for_the_logs_of_her_own_stream_only(logs: World) -> None:
    """A session drops a segment of another log at this moment."""
    read = "select count(*) from relaybox.read_stream('flights', 0, 100)"
    for log_id, waits in ((2, False), (1, True)):
        with (
            logs.session("hub") as dropping,
            logs.session("hub") as reading,
            dropping.cursor() as held,
            reading.cursor() as cursor,
        ):
            held.execute(LOCKED.format(log_id))
            cursor.execute("set lock_timeout = '100ms'")
            if waits:
                with pytest.raises(psycopg2.errors.LockNotAvailable):
                    cursor.execute(read)
            else:
                cursor.execute(read)
                assert cursor.fetchone() == (30,)


def test_a_dead_letter_of_a_stream_is_dropped_on_its_own_record(logs: World) -> None:
    """It has no subscription: the stream's name stands there."""
    for log_id in (1, 2):
        dead_letter_id = logs.value("hub", LETTER, log_id)
        logs.query("hub", "select relaybox.drop_dead_letter(%s, 'why')", dead_letter_id)
    actions = "select subscription, action, detail ->> 'why_dead' from relaybox.consumer_action order by action_id"
    assert logs.query("hub", actions) == [("flights", "drop", "index_missing"), ("other", "drop", "index_missing")]
    assert logs.query("hub", "select distinct state from relaybox_internal.dead_letter") == [("dropped",)]


def test_a_lane_waits_since_its_own_stream_delivered_what_it_has_not_done(logs: World) -> None:
    """One that has done everything waits for nothing."""
    for log_id, batch, hours in ((1, 1, 9), (1, 2, 6), (2, 1, 20), (2, 2, 3)):
        put_back(logs, "decision.decided_at", hours, f"log_id = {log_id} and batch = {batch}")
    since = "select round(extract(epoch from now() - waiting_since) / 3600) from relaybox.lag(%s)"
    for name, stream, start, hours in (
        ("all", "flights", "1", 9),
        ("seam-before", "flights", "20", 9),
        ("seam", "flights", "21", 6),
        ("none", "flights", "latest", None),
        ("apart", "other", "1", 20),
        ("apart-seam", "other", "6", 3),
    ):
        logs.query("hub", "select relaybox.subscribe(%s, %s, %s)", name, stream, start)
        assert logs.value("hub", since, name) == hours, name


def test_lanes_that_have_not_done_a_segment_are_fenced_and_no_other(logs: World) -> None:
    """Through its last stream position; who has done it, has ended or reads another stream is neither changed nor waited for."""
    logs.query("hub", "select relaybox.subscribe('billing', 'flights', lanes => 3)")
    for name, stream in (("ended", "flights"), ("apart", "other")):
        logs.query("hub", "select relaybox.subscribe(%s, %s)", name, stream)
    logs.query("hub", "select relaybox.unsubscribe('ended', 'why')")
    for lane, done in ((1, 10), (2, 9), (3, 11)):
        logs.query(
            "hub",
            "update relaybox_internal.cursor set done_stream_position = %s, fetched_stream_position = %s where lane = %s"
            " and subscription_id = (select subscription_id from relaybox_internal.subscription where subscription = 'billing')",
            *(done, done, lane),
        )
    before = logs.query("hub", CURSORS)
    with logs.session("hub") as working, working.cursor() as cursor:
        cursor.execute(
            "select from relaybox_internal.lane l join relaybox_internal.subscription s using (subscription_id)"
            " where s.subscription <> 'billing' or l.lane <> 2 for update of l"
        )
        logs.query("hub", "set lock_timeout = '500ms'; select relaybox_internal.fence_lanes(1, 10)")
    fenced = [(name, lane, version + (name == "billing" and lane == 2), done) for name, lane, version, done in before]
    assert logs.query("hub", CURSORS) == fenced
    with logs.session("hub") as working, working.cursor() as cursor, pytest.raises(psycopg2.errors.LockNotAvailable):
        cursor.execute("select from relaybox_internal.lane l where l.lane = 2 for update")
        logs.query("hub", "set lock_timeout = '100ms'; select relaybox_internal.fence_lanes(1, 10)")
