"""G8: who needs what of a log, position by position, in a store where another log has positions of the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from tests.integration.store_metrics import put_back
from tests.integration.two_logs import fill_two_logs
from tests.support.world import World

HOLDERS = "select holder, needs_from, round(extract(epoch from now() - since) / 3600) from relaybox_internal.log_holders(%s) where kind = %s"
SENDER = """
insert into relaybox_internal.sender_state (stream_id, sender, epoch, origin, kind, stalled_after, stalled_reason, moved_at)
select s.stream_id, %s, 1, %s, 'gapless', %s, %s, now() - interval '2 hours' from relaybox_internal.stream s
    where s.stream = %s returning sender_id
"""


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    """Their batches arrived and were delivered nine, six, eight and five hours ago; of log 1 the next hop has settled the first."""

    def fill(world: World) -> None:
        fill_two_logs(world)
        transfer_hop(world.routes.hop("flights/2"), ThreadRunner(1), recorded_by="test")
        world.query("hub", "update relaybox_internal.batch set last_position = 20, reads_through = 20, row_count = 20")
        world.query(
            "hub",
            "insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)"
            " values ('flights/2', 'settled', 20, 1, now(), 'test')",
        )
        for log_id, batch, hours in ((1, 1, 9), (1, 2, 6), (2, 1, 8), (2, 2, 5)):
            for column in ("arrival.published_at", "decision.decided_at"):
                put_back(world, column, hours, f"log_id = {log_id} and batch = {batch}")

    return make_template(fill)


@pytest.fixture
def logs(two_logs: str, make_world: Any) -> Iterator[World]:
    with make_world(two_logs) as world:
        yield world


@contextmanager
def undone(world: World) -> Iterator[Any]:
    """A cursor whose transaction is rolled back; now() stands still in it."""
    with world.session("hub") as session, session.cursor() as cursor:
        yield cursor
        session.rollback()


def holders(cursor: Any, log_id: int, kind: str) -> list[tuple[Any, ...]]:
    cursor.execute(HOLDERS, (log_id, kind))
    return sorted(cursor.fetchall())


def test_g8_a_hop_needs_its_log_behind_what_it_has_settled(logs: World) -> None:
    """Since that arrived; what is sent again, from its first position; nothing once it is retired or has settled everything."""
    with undone(logs) as cursor:
        assert holders(cursor, 1, "hop") == [("flights/2", 21, 6)]
        assert holders(cursor, 2, "hop") == [("other/2", 1, 8)]
        cursor.execute("update relaybox_internal.hop_out set resend_through = 1, resend_after = 0 where hop = 'flights/2'")
        assert holders(cursor, 1, "hop") == [("flights/2", 1, 6)]
        cursor.execute("update relaybox_internal.hop_out set resend_after = 1 where hop = 'flights/2'")
        assert holders(cursor, 1, "hop") == [("flights/2", 21, 6)]
        cursor.execute(
            "update relaybox_internal.hop_out set retired_at = now(), retired_by = 'test', retired_reason = 'why' where hop = 'other/2'"
        )
        assert (holders(cursor, 2, "hop"), len(holders(cursor, 1, "hop"))) == ([], 1)
        cursor.execute(
            "update relaybox_internal.hop_out set resend_through = 0, resend_after = 0; update relaybox_internal.hop_in set published_position = 20 where log_id = 1"
        )
        assert holders(cursor, 1, "hop") == []


def test_g8_what_no_stream_has_decided_on_is_needed(logs: World) -> None:
    """From the position behind the last that it decided on, since that arrived; in a log without a stream, from the first."""
    with undone(logs) as cursor:
        assert (holders(cursor, 1, "undecided"), holders(cursor, 2, "undecided")) == ([], [])
        cursor.execute("update relaybox_internal.stream_log set decided_batch = 1, decided_position = 20 where log_id = 1")
        assert (holders(cursor, 1, "undecided"), holders(cursor, 2, "undecided")) == ([("flights/1", 21, 6)], [])
        cursor.execute("delete from relaybox_internal.stream_log where log_id = 2")
        assert holders(cursor, 2, "undecided") == [("other/1", 1, 8)]
        assert holders(cursor, 2, "newest") == [("other/1", 15, None)]
        assert holders(cursor, 1, "newest") == [("flights/1", 30, None)]


def test_g8_held_stalled_and_dead_messages_are_needed_from_the_first_of_each(logs: World) -> None:
    """And the window of repeated ids reaches back from the first that is stalled."""
    with undone(logs) as cursor:
        cursor.execute("update relaybox_internal.stream set message_id_window = 5")
        assert (holders(cursor, 1, "deduplication"), holders(cursor, 2, "deduplication")) == (
            [("flights", 26, None)],
            [("other", 11, None)],
        )
        for sender, after, stream in (("a", 22, "flights"), ("b", 12, "flights"), ("c", None, "flights"), ("d", 3, "other")):
            cursor.execute(SENDER, (sender, "airline", after, after and "holdback_full", stream))
        cursor.execute(SENDER, ("elsewhere", "another origin", 1, "holdback_full", "flights"))
        assert holders(cursor, 1, "stalled") == [("b", 13, 2)]
        assert holders(cursor, 2, "stalled") == [("d", 4, 2)]
        assert (holders(cursor, 1, "deduplication"), holders(cursor, 2, "deduplication")) == (
            [("flights", 8, None)],
            [("other", -1, None)],
        )
        for log_id, log_position, sender in ((1, 9, "a"), (1, 8, "b"), (2, 2, "d")):
            cursor.execute(
                "insert into relaybox_internal.held (log_id, log_position, stream_id, sender_id, index, arrival_seq, held_at)"
                " select %s, %s, e.stream_id, e.sender_id, 2, 1, now() - interval '3 hours' from relaybox_internal.sender_state e "
                "where e.sender = %s",
                (log_id, log_position, sender),
            )
        assert (holders(cursor, 1, "held"), holders(cursor, 2, "held")) == ([("b", 8, 3)], [("d", 2, 3)])
        for log_id, log_position, state in (
            (1, 9, "open"),
            (1, 8, "redriving"),
            (1, 7, "dropped"),
            (1, 6, "redriven"),
            (2, 4, "open"),
        ):
            cursor.execute(
                "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason, state, first_at)"
                " select l.stream_id, l.log_id, %s, 'index_missing', %s, now() - interval '4 hours' "
                "from relaybox_internal.stream_log l where l.log_id = %s",
                (log_position, state, log_id),
            )
        found = [[row[1:] for row in holders(cursor, log_id, "dead letter")] for log_id in (1, 2)]
        assert found == [[(8, 4)], [(4, 4)]]


def test_g8_the_window_of_a_replay_keeps_what_arrived_or_was_delivered_in_it(logs: World) -> None:
    """Exactly as old as the window is too old; what was released late counts by its stream position; without a window everything is kept."""
    with undone(logs) as cursor:

        def windows(hours: float | None) -> tuple[int | None, int | None]:
            cursor.execute("update relaybox_internal.hop_in set replay_window_seconds = %s", (hours and hours * 3600,))
            ((_, first, _),), ((_, second, _),) = (holders(cursor, log_id, "window") for log_id in (1, 2))
            return first, second

        for log_id, batch, hours in ((1, 1, 9), (1, 2, 6), (2, 1, 8), (2, 2, 5)):
            for table, column in (("arrival", "published_at"), ("decision", "decided_at")):
                cursor.execute(
                    f"update relaybox_internal.{table} set {column} = now() - make_interval(hours => %s) where log_id = %s and batch = %s",
                    (hours, log_id, batch),
                )
        assert windows(None) == (0, 0)
        cursor.execute("update relaybox_internal.hop_in set replay_window_seconds = 0 where log_id = 2")
        assert holders(cursor, 1, "window") == [("flights/1", 0, None)]
        found = {hours: windows(hours) for hours in (1, 5, 5.5, 6, 6.5, 8, 8.5, 9, 10)}
        assert found == {
            1: (None, None),
            5: (None, None),
            5.5: (None, 6),
            6: (None, 6),
            6.5: (21, 6),
            8: (21, 6),
            8.5: (21, 1),
            9: (21, 1),
            10: (1, 1),
        }
        for stream, hours, after in (("flights", 4, 25), ("flights", 2, 27), ("other", 4, 9)):
            cursor.execute(
                (
                    "insert into relaybox_internal.late_delivery select s.stream_id, now() - make_interval(hours => %s), %s "
                    "from relaybox_internal.stream s where s.stream = %s"
                ),
                (hours, after, stream),
            )
        assert {hours: windows(hours) for hours in (1, 2, 3, 4, 4.5)} == {
            1: (None, None),
            2: (None, None),
            3: (28, None),
            4: (28, None),
            4.5: (26, 10),
        }
        cursor.execute("update relaybox_internal.arrival set published_at = now() where batch = 2")
        assert windows(1) == (21, 6), "it arrived in the window, whenever it is delivered"
