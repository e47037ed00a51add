"""G7: how far subscriptions have processed what a hop brought, stream position by stream position: cursors, replays, and dead letters in each state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.two_logs import fill_two_logs
from tests.support.world import World

ENDS = (3, 7, 8, 15, 21, 30)
"""The last stream positions of the batches of `flights`; each says how far its log was resolved then, but the fourth: nothing was."""
RESOLVED = {end: end for end in ENDS if end != 15}
LETTER = """
insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason, subscription_id, lane, stream_position, sender, state,
acknowledged_before)
select s.stream_id, 1, %s, 'refused', s.subscription_id, %s, %s, 'UA', %s, %s
from relaybox_internal.subscription s where s.subscription = %s
"""
CURSOR = """
update relaybox_internal.cursor set done_stream_position = %s, fetched_stream_position = %s, replay_stream_position = %s
where lane = %s and subscription_id = (select s.subscription_id from relaybox_internal.subscription s where s.subscription = %s)
"""


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    return make_template(fill_two_logs)


@pytest.fixture
def logs(two_logs: str, make_world: Any) -> Iterator[World]:
    with make_world(two_logs) as world:
        world.query("hub", "delete from relaybox_internal.decision where log_id = 1")
        for batch, end in enumerate(ENDS, start=1):
            world.query(
                "hub",
                "insert into relaybox_internal.decision (log_id, batch, first_arrival_seq, row_count, duplicate_count, set_aside_count, delivered_count,"
                " held_after, last_stream_position, in_order, resolved_position) values (1, %s, %s, 1, 0, 0, 1, 0, %s, true, %s)",
                *(batch, end, end, RESOLVED.get(end)),
            )
        for name, stream, lanes in (
            ("billing", "flights", 2),
            ("audit", "flights", 1),
            ("third", "flights", 1),
            ("apart", "other", 1),
        ):
            world.query("hub", "select relaybox.subscribe(%s, %s, lanes => %s)", name, stream, lanes)
        yield world


@contextmanager
def undone(world: World) -> Iterator[Any]:
    """A cursor whose transaction is rolled back; billing and audit have acknowledged everything, third nothing."""
    with world.session("hub") as session, session.cursor() as cursor:
        for name, lane in (("billing", 1), ("billing", 2), ("audit", 1)):
            cursor.execute(CURSOR, (30, 30, 0, lane, name))
        yield cursor
        session.rollback()


def read(cursor: Any, *names: str) -> int | None:
    cursor.execute("select through_position from relaybox_internal.processed_reading('flights/1', %s)", (list(names),))
    return cursor.fetchone()[0]


def resolved(stream_position: int) -> int:
    return max((end for end in RESOLVED if end <= stream_position), default=0)


def test_g7_processed_is_what_the_slowest_lane_has_acknowledged(logs: World) -> None:
    """Or had, before a replay took it back; through the end of a batch that says how far its log was resolved."""
    with undone(logs) as cursor:
        assert read(cursor, "billing", "audit") == 30
        assert read(cursor, "billing", "audit", "third") == 0
    with undone(logs) as cursor:
        for stream_position in range(31):
            for lane in (1, 2):
                cursor.execute(CURSOR, (stream_position, 30, 0, lane, "billing"))
                assert read(cursor, "billing", "audit") == resolved(stream_position), (stream_position, lane)
                assert read(cursor, "audit") == 30
                cursor.execute(CURSOR, (0, 30, stream_position, lane, "billing"))
                assert read(cursor, "billing", "audit") == resolved(stream_position), (stream_position, lane)
                cursor.execute(CURSOR, (30, 30, 0, lane, "billing"))
        cursor.execute(
            "update relaybox_internal.decision set last_stream_position = last_stream_position + 1, resolved_position = 29 "
            "where log_id = 1 and last_stream_position = 30"
        )
        assert read(cursor, "billing", "audit") == 30, (
            "at the stream's last stream position it is asked now, not as it was told then"
        )
        cursor.execute("update relaybox_internal.stream_log set decided_position = 28 where log_id = 1")
        assert read(cursor, "billing", "audit") == 28


@pytest.mark.parametrize("state", ["open", "redriving", "redriven", "dropped"])
def test_g7_the_stream_position_of_a_dead_letter_is_not_processed_while_it_waits(logs: World, state: str) -> None:
    """Everything before it is: neither one stream position more nor one fewer. One that was acknowledged before a replay takes nothing back."""
    for stream_position in range(1, 31):
        with undone(logs) as cursor:
            cursor.execute(LETTER, (stream_position, 2, stream_position, state, True, "billing"))
            cursor.execute(LETTER, (1, 1, 1, "open", False, "third"))
            assert read(cursor, "billing", "audit") == 30
            cursor.execute("update relaybox_internal.dead_letter set acknowledged_before = false")
            cursor.execute(LETTER, (stream_position, 1, stream_position + 1, state, False, "audit"))
            waits = state in {"open", "redriving"}
            assert read(cursor, "billing", "audit") == (resolved(stream_position - 1) if waits else 30), stream_position
            assert read(cursor, "audit") == (resolved(stream_position) if waits else 30), stream_position


def test_g7_only_subscriptions_that_live_and_read_the_whole_stream_process_it(logs: World) -> None:
    """Others are named, and nothing is processed: of another stream, ended, a second cursor, of one topic, or none at all."""
    asked = "select through_position, missing, of_one_topic from relaybox_internal.processed_reading('flights/1', %s)"
    moved = "update relaybox_internal.cursor set moved_at = now() - make_interval(hours => %s) where subscription_id = (select subscription_id from relaybox_internal.subscription where subscription = %s)"
    with undone(logs) as cursor:
        for hours, name in ((9, "billing"), (7, "audit"), (1, "third")):
            cursor.execute(moved, (hours, name))
        cursor.execute(
            "select happened_at = now() - interval '7 hours' from relaybox_internal.processed_reading('flights/1', '{billing,audit}')"
        )
        assert cursor.fetchone() == (True,)
    for change, told in (
        ("ended_at = now()", (0, ["third"], [])),
        ("replay_of = subscription_id, through_stream_position = 30", (0, ["third"], [])),
        ("stream_id = (select stream_id from relaybox_internal.stream where stream = 'other')", (0, ["third"], [])),
        ("subscription = 'another'", (0, ["third"], [])),
        ("topic = 'flights'", (0, [], ["third (topic flights)"])),
        ("topic = 'flights', ended_at = now()", (0, ["third"], [])),
    ):
        with undone(logs) as cursor:
            cursor.execute(CURSOR, (30, 30, 0, 1, "third"))
            assert read(cursor, "billing", "third") == 30
            cursor.execute(f"update relaybox_internal.subscription set {change} where subscription = 'third'")
            cursor.execute(asked, (["billing", "third"],))
            assert cursor.fetchone() == told, change
            cursor.execute(asked, (["billing"],))
            assert cursor.fetchone() == (30, [], []), change
    with undone(logs) as cursor:
        cursor.execute(asked, (["audit", "apart", "nobody"],))
        assert cursor.fetchone() == (0, ["apart", "nobody"], [])
