"""What a store answers about segments that lie in files: who is refused, what is let go, what is kept. No file is read here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from tests.integration.two_logs import fill_two_logs
from tests.support.world import World

DETACH = """
insert into relaybox_internal.detached_segment (log_id, first, last, segment, state, directory, row_count, hash_sum, needed_by, begun_by,
moved_by)
values (%s, %s, %s, 'a segment', %s, 'files from ' || %s, 10, 0, '{}', 'test', 'test')
"""
STATES = "select first, state from relaybox_internal.detached_segment where log_id = %s order by first"
TOLD = re.compile(
    r"RB038: a reader: stream position \d+ is detached, its message lies in files from (?P<first>\d+); the first stream position here is 21\n"
    r"HINT:  Bring it back: relaybox attach hub flights/1 \(2 segments, 20 messages\)"
)
OTHERS_ROWS = (
    "select from relaybox_internal.hop_in i where i.log_id = 2 for update",
    "select from relaybox_internal.stream s where s.stream = 'other' for update",
)


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    return make_template(fill_two_logs)


@pytest.fixture
def logs(two_logs: str, make_world: Any) -> Iterator[World]:
    with make_world(two_logs) as world:
        # a retired hop needs nothing, so that subscriptions alone decide
        world.query("hub", "update relaybox_internal.hop_out set retired_at = now(), retired_by = 'test', retired_reason = 'why'")
        assert world.query("hub", "select log_id, hop from relaybox_internal.hop_in order by 1") == [
            (1, "flights/1"),
            (2, "other/1"),
        ]
        yield world


def detach(world: World, log_id: int, *segments: tuple[int, str]) -> None:
    """Segments of ten positions each, as if their rows were in files."""
    for first, state in segments:
        world.query("hub", DETACH, log_id, first, first + 9, state, first)


def refused(world: World, stream_position: int, stream: str = "flights") -> str | None:
    """From where on the files begin in which the message of a stream position is said to lie."""
    ask = "select relaybox_internal.refuse_detached(s, %s, 'a reader') from relaybox_internal.stream s where s.stream = %s"
    try:
        world.query("hub", ask, stream_position, stream)
    except psycopg2.Error as error:
        found = TOLD.match(f"{error.pgcode}: {error}")
        return found["first"] if found else str(error)
    return None


def test_a_reader_is_told_in_which_files_the_message_of_its_stream_position_lies(logs: World) -> None:
    """By the delivery of the stream position, in order or not; of other streams, of stream positions that are here, or gone for good, nothing is said."""
    detach(logs, 1, (0, "detached"), (10, "detached"), (20, "released"))
    stream_positions = [17, *range(1, 10), 18, 19, *range(10, 17), *range(20, 31)]
    logs.query("hub", "delete from relaybox_internal.delivery where stream_id = 1")
    logs.query(
        "hub",
        (
            "update relaybox_internal.delivery set first_stream_position = 1, last_stream_position = 11, first_position = 1 "
            "where last_stream_position = 5"
        ),
    )
    for first, last in ((1, 12), (13, 30)):
        logs.query(
            "hub",
            "insert into relaybox_internal.delivery values (1, %s, %s, 1, %s, %s)",
            *(first, last, stream_positions[first - 1], stream_positions[first - 1 : last]),
        )
    logs.query("hub", "update relaybox_internal.stream set dropped_stream_position = 0, first_kept_stream_position = 21")
    assert [refused(logs, stream_position) for stream_position in range(1, 22)] == [
        *("10", *["0"] * 9, "10", "10"),
        *["10"] * 7,
        "0",  # these files were let go: the oldest are named
        None,
    ]
    assert refused(logs, 1, "other") is None
    logs.query("hub", "update relaybox_internal.stream set dropped_stream_position = 4")
    assert [refused(logs, stream_position) for stream_position in (3, 4, 5)] == [None, None, "0"]
    logs.query(
        "hub",
        "update relaybox_internal.delivery set log_positions = null, first_position = first_stream_position where stream_id = 1",
    )
    assert [refused(logs, stream_position) for stream_position in (9, 10, 12, 13, 19)] == ["0", "10", "10", "10", "10"]


def test_a_log_is_kept_from_its_oldest_files_on(logs: World) -> None:
    """Files that were let go do not count, nor those of another log."""
    detach(logs, 1, (0, "released"), (10, "detached"), (20, "detached"))
    detach(logs, 2, (0, "detached"))
    logs.query("hub", "update relaybox_internal.hop_in set first_kept_position = case log_id when 1 then 30 else 7 end")
    kept_from = "select relaybox_internal.log_kept_from(1), relaybox_internal.log_kept_from(2)"
    assert logs.query("hub", kept_from) == [(10, 0)]
    logs.query("hub", "update relaybox_internal.detached_segment set state = 'released'")
    assert logs.query("hub", kept_from) == [(30, 7)]


def test_files_are_let_go_when_nobody_needs_a_row_of_them(logs: World) -> None:
    """One by one, behind the consumer that needs them; what is gone for good is known. Rows of another log are neither held nor changed."""
    logs.query("hub", "select relaybox.subscribe('billing', 'flights')")
    logs.query("hub", "select relaybox.ack('billing', 18, min(token)) from relaybox.fetch('billing', 18)")
    detach(logs, 1, (0, "detached"), (10, "detached"))
    detach(logs, 2, (0, "released"))
    logs.query("hub", "update relaybox_internal.stream set first_kept_stream_position = 20 where stream_id = 1")
    logs.query("hub", "update relaybox_internal.hop_in set first_kept_position = 20 where log_id = 1")
    release = "select relaybox_internal.release_detached(%s, 'test')"
    dropped = "select dropped_stream_position from relaybox_internal.stream order by stream_id"
    with logs.session("hub") as holder, holder.cursor() as held:
        for rows in OTHERS_ROWS:
            held.execute(rows)
        assert logs.value("hub", release, 1) == 1
        assert logs.query("hub", STATES, 1) == [(0, "released"), (10, "detached")], "billing needs position 19"
        assert logs.query("hub", dropped) == [(9,), (0,)]
        assert logs.value("hub", release, 2) == 0, "asked without a lock: nothing of this log is in files"
    detach(logs, 2, (10, "detached"))
    logs.query("hub", "select relaybox.unsubscribe('billing')")
    detach(logs, 1, (20, "detaching"))
    assert logs.value("hub", release, 1) == 1, "the rows of the third segment never left"
    assert logs.query("hub", STATES, 1) == [(0, "released"), (10, "released"), (20, "released")]
    assert logs.query("hub", dropped) == [(19,), (0,)]
    assert logs.query("hub", STATES, 2) == [(0, "released"), (10, "detached")]
    assert logs.value("hub", release, 1) == 0


def test_several_files_that_go_at_once_are_gone_through_the_last_of_them(logs: World) -> None:
    """And what was gone for good before stays gone, whatever goes later."""
    detach(logs, 1, (0, "detached"), (10, "detached"))
    logs.query(
        "hub",
        "update relaybox_internal.stream set first_kept_stream_position = 20, dropped_stream_position = 3 where stream_id = 1",
    )
    logs.query("hub", "update relaybox_internal.hop_in set first_kept_position = 20 where log_id = 1")
    assert logs.value("hub", "select relaybox_internal.release_detached(1, 'test')") == 2
    assert logs.value("hub", "select dropped_stream_position from relaybox_internal.stream where stream_id = 1") == 19


def test_who_needs_what_is_asked_of_the_one_table_that_is_meant(logs: World) -> None:
    """For an outbox its holders, for a log those of the log; a reader that needs nothing is left out."""
    asked = "select kind, holder, needs_from from relaybox_internal.{} h where needs_from is not null order by 1, 2"
    by_table = [logs.query("hub", asked.format(table)) for table in ("outbox_holders()", "log_holders(1)", "log_holders(2)")]
    every = "select kind, holder, needs_from from relaybox_internal.holders({}) order by 1, 2"
    assert [logs.query("hub", every.format(log_id)) for log_id in ("null", 1, 2)] == by_table
    assert all(by_table)
    logs.query("hub", "select setval('relaybox.outbox_seq', 1)")
    logs.query("hub", "update relaybox_internal.hop_in set replay_window_seconds = 3600")
    for table, column in (("decision", "decided_at"), ("arrival", "published_at")):
        logs.query("hub", f"update relaybox_internal.{table} set {column} = {column} - interval '2 hours'")
    window = "select needs_from from relaybox_internal.{} where kind = 'window'"
    assert logs.query("hub", window.format("log_holders(1)")) == [(None,)]
    assert logs.query("hub", window.format("holders(1)")) == []
    assert logs.value("hub", "select count(*) from relaybox_internal.holders(1) where needs_from is null") == 0
    logs.query("airline", "update relaybox_internal.hop_out set replay_window_seconds = 3600")
    logs.query("airline", "update relaybox_internal.batch set planned_at = planned_at - interval '2 hours'")
    assert set(logs.query("airline", window.format("outbox_holders()"))) == {(None,)}
    assert logs.query("airline", window.format("holders(null)")) == []


def test_an_arrival_that_is_to_be_confirmed_is_the_newest_of_its_own_log(logs: World) -> None:
    """And it does not wait for the locked row of another log."""
    newest = "select log_id, batch, last_position from relaybox_internal.durable_arrival(%s)"
    with logs.session("hub") as holder, holder.cursor() as held, logs.session("hub") as session, session.cursor() as cursor:
        held.execute(OTHERS_ROWS[0])
        cursor.execute("set lock_timeout = '500ms'")
        cursor.execute(newest, (1,))
        assert cursor.fetchone() == (1, 2, 30)
    assert logs.query("hub", newest, 2) == [(2, 2, 15)]


def test_what_makes_readers_of_a_log_need_more_is_told_for_its_own_hops(logs: World) -> None:
    """Of a log those that read it, of the outbox those that read that one; hops that were retired need nothing."""
    told = "select relaybox_internal.hops_fingerprint(%s)"
    assert [logs.value("hub", told, log_id) for log_id in (1, 2, None)] == [None] * 3
    logs.query("hub", "update relaybox_internal.hop_out set retired_at = null, retired_by = null, retired_reason = null")
    assert [str(logs.value("hub", told, log_id)).split()[0] for log_id in (1, 2)] == ["flights/2", "other/2"]
    assert [str(logs.value("hub", told, log_id)).count("/") for log_id in (1, 2)] == [1, 1]
    hops = [one.split()[0] for one in str(logs.value("airline", told, None)).split(", ")]
    assert hops == ["flights/1", "other/1"]
    assert logs.value("hub", told, None) is None
