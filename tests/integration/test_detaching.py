"""A segment leaves its log for files and comes back, step by step, beside another log: the functions alone, no file is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest

from tests.integration.store_metrics import put_back
from tests.integration.two_logs import fill_two_logs
from tests.support.patience import patience
from tests.support.world import World, wait_until

DETACHES = """
update relaybox_internal.hop_in set stopped_consumer = 'detach', detach_after_seconds = 3600, detach_to = '/files/', replay_window_seconds
= 0;
update relaybox_internal.hop_out set retired_at = now(), retired_by = 'test', retired_reason = 'why';
create table public.saved as select * from relaybox_internal.log;
"""
ON_RECORD = "select first, last, state, attempt, row_count, needed_by from relaybox_internal.detached_segment where log_id = %s order by first"
DROP = "select outcome from relaybox_internal.drop_oldest_segment(%s, 'test', %s, %s)"
KEPT = """
select i.first_kept_position, s.first_kept_stream_position, s.dropped_stream_position
from relaybox_internal.hop_in i join relaybox_internal.stream_log l using (log_id)
    join relaybox_internal.stream s using (stream_id) order by i.log_id
"""
LOCK_WAITS = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    """In segments of ten; of each stream one consumer has read everything, the other five messages."""

    def fill(world: World) -> None:
        fill_two_logs(world, segment_rows=10)
        for stream, live, dead in (("flights", "live", "dead"), ("other", "awake", "asleep")):
            for name, start in ((live, "latest"), (dead, "6")):
                world.query("hub", "select relaybox.subscribe(%s, %s, %s)", name, stream, start)
        world.query("hub", DETACHES)
        put_back(world, "decision.decided_at", 24)
        put_back(world, "cursor.moved_at", 24)

    return make_template(fill)


@pytest.fixture
def logs(two_logs: str, make_world: Any) -> Iterator[World]:
    with make_world(two_logs) as world:
        yield world


def begin(world: World, log_id: int) -> dict[str, Any] | None:
    rows = world.query("hub", "select to_jsonb(d) from relaybox_internal.begin_detach(%s, 'test') d", log_id)
    return rows[0][0] if rows else None


def detach(world: World, log_id: int) -> int:
    """First position of the segment that left."""
    begun = begin(world, log_id)
    assert begun
    assert world.value("hub", DROP, log_id, begun["first"], begun["attempt"]) == "detached"
    return int(begun["first"])


def begin_attach(world: World, log_id: int) -> tuple[int, int, str] | None:
    """First position, attempt and the table to copy into."""
    rows = world.query(
        "hub", "select (made).first, (made).attempt, staging from relaybox_internal.begin_attach(%s, 'test')", log_id
    )
    return rows[0] if rows else None


def copy_back(world: World, log_id: int, *, leave_out: int = -1) -> tuple[int, int]:
    """First position and attempt of what is ready for finish_attach()."""
    begun = begin_attach(world, log_id)
    assert begun
    first, attempt, staging = begun
    rows = "insert into relaybox_internal.{} select * from public.saved where log_id = %s and log_position between %s and %s and log_position <> %s"
    world.query("hub", rows.format(staging), log_id, first, first + 9, leave_out)
    return first, attempt


def finish_attach(world: World, log_id: int, first: int, attempt: int) -> str:
    return str(world.value("hub", "select relaybox_internal.finish_attach(%s, %s, %s, 'test')", log_id, first, attempt))


def attach(world: World, log_id: int, *, leave_out: int = -1) -> str:
    return finish_attach(world, log_id, *copy_back(world, log_id, leave_out=leave_out))


def test_the_oldest_segment_that_only_stopped_consumers_need_is_what_leaves(logs: World) -> None:
    """Written down first; a later attempt supersedes an earlier one and writes beside it; the other log has attempts of its own."""
    begun = [begin(logs, 1), begin(logs, 1), begin(logs, 2)]
    assert [(one["log_id"], one["attempt"]) for one in begun if one] == [(1, 1), (1, 2), (2, 1)]
    directories = [one["directory"] for one in begun if one]
    assert [bool(re.fullmatch(rf"/files/hub/{hop}/1/log_{n}_s\d+-[0-9a-f]{{8}}", one)) for hop, n, one in zip(
        ("flights", "flights", "other"), (1, 1, 2), directories, strict=True
    )] == [True] * 3  # fmt: skip
    assert [one["strays"] for one in begun if one] == [[], directories[:1], []]
    for log_id, who in ((1, "dead"), (2, "asleep")):
        assert logs.query("hub", ON_RECORD, log_id) == [(0, 9, "detaching", 3 - log_id, 9, [who])]
    for first, attempt in ((0, 1), (10, 2), (0, 3)):
        assert logs.value("hub", DROP, 1, first, attempt) == "superseded", (first, attempt)
    logs.query("hub", "update relaybox_internal.detached_segment set attempt = 2")
    assert logs.query("hub", KEPT) == [(1, 1, 0), (1, 1, 0)]
    assert logs.value("hub", DROP, 1, 0, 2) == "detached"
    assert logs.query("hub", KEPT) == [(10, 10, 0), (1, 1, 0)]
    assert [logs.query("hub", ON_RECORD, log_id)[0][2] for log_id in (1, 2)] == ["detached", "detaching"]
    assert logs.query("hub", "select count(*) from relaybox_internal.dropped_segment") == [(0,)]
    assert [detach(logs, 1), detach(logs, 1), begin(logs, 1)] == [10, 20, None], "the last message stays"
    assert [detach(logs, 2), begin(logs, 2)] == [0, None]
    assert logs.query("hub", KEPT) == [(30, 30, 0), (10, 10, 0)]
    assert logs.query(
        "hub", "select log_id, array_agg(log_position order by log_position) from relaybox_internal.log group by 1 order by 1"
    ) == [
        (1, [30]),
        (2, [10, 11, 12, 13, 14, 15]),
    ]


def test_what_other_consumers_need_does_not_leave(logs: World) -> None:
    """A lane that moved lately, or that goes on within the segment; and no segment of which a row is missing."""
    logs.query("hub", "select relaybox.subscribe('slow', 'flights', '12')")
    assert [detach(logs, 1), begin(logs, 1)] == [0, None]
    put_back(logs, "cursor.moved_at", 0.9)
    assert begin(logs, 2) is None, "an hour has not passed"
    logs.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3000")
    logs.query("hub", "delete from relaybox_internal.log where log_id = 2 and log_position = 4")
    with pytest.raises(psycopg2.Error, match=r"log of other/1: segment .* has 8 rows for positions 1 to 9") as refused:
        begin(logs, 2)
    assert refused.value.pgcode == "RB012"
    assert logs.query("hub", ON_RECORD, 2) == []


def test_what_left_comes_back_from_its_newest_segment_on(logs: World) -> None:
    """Row by row or not at all; an earlier attempt is superseded, its table is gone; what is kept follows, in its own stream only."""
    before = logs.query("hub", "select record_send(l) from relaybox_internal.log l order by log_id, log_position")
    assert [detach(logs, 1), detach(logs, 1), detach(logs, 2)] == [0, 10, 0]
    first = begin_attach(logs, 1)
    second = begin_attach(logs, 1)
    assert first is not None
    assert second is not None
    assert (first[:2], second[:2]) == ((10, 2), (10, 3))
    tables = "select relname::text from pg_class where relkind = 'r' and relname like %s order by 1"
    assert logs.query("hub", tables, "log_%_attempt_%") == [(second[2],)]
    other = begin_attach(logs, 2)
    assert other is not None
    assert other[:2] == (0, 2)
    for log_id, begun in ((1, first), (1, (0, 1)), (1, (0, 3)), (2, (10, 3))):
        assert finish_attach(logs, log_id, *begun[:2]) == "superseded", (log_id, begun)
    with pytest.raises(
        psycopg2.Error, match=r"log of flights/1: .* has 9 rows with hash sum .*, detached were 10 rows"
    ) as refused:
        attach(logs, 1, leave_out=14)
    assert refused.value.pgcode == "RB012"
    assert logs.query("hub", KEPT) == [(20, 20, 0), (10, 10, 0)]
    assert attach(logs, 1) == "attached"
    assert logs.query("hub", KEPT) == [(10, 10, 0), (10, 10, 0)]
    assert [row[2] for row in logs.query("hub", ON_RECORD, 1)] == ["detached", "attached"]
    assert [row[2] for row in logs.query("hub", ON_RECORD, 2)] == ["detached"]
    assert begin(logs, 1) is None, "what was attached just now stays for an hour"
    assert attach(logs, 1) == "attached"
    assert logs.query("hub", KEPT) == [(1, 1, 0), (10, 10, 0)]
    assert begin_attach(logs, 1) is None
    assert attach(logs, 2) == "attached"
    assert logs.query("hub", KEPT) == [(1, 1, 0), (1, 1, 0)]
    assert logs.query("hub", "select record_send(l) from relaybox_internal.log l order by log_id, log_position") == before
    put_back(logs, "detached_segment.moved_at", 2)
    assert detach(logs, 1) == 0


def test_a_newer_segment_comes_back_before_an_older_one(logs: World) -> None:
    """Its rows are there, yet the log does not begin behind it: nothing is attached."""
    assert [detach(logs, 1), detach(logs, 1)] == [0, 10]
    logs.query("hub", "update relaybox_internal.detached_segment set state = 'released' where first = 10")
    assert attach(logs, 1) == "superseded"
    assert logs.query("hub", KEPT)[0] == (20, 20, 0)
    logs.query("hub", "update relaybox_internal.stream set dropped_stream_position = 4 where stream = 'flights'")
    logs.query("hub", "update relaybox_internal.hop_in set first_kept_position = 10 where log_id = 1")
    assert attach(logs, 1) == "attached"
    assert logs.query("hub", KEPT)[0] == (1, 5, 4), "what is gone for good does not come back"


def test_an_attach_whose_table_another_attach_drops_is_superseded(logs: World) -> None:
    """The other attach has dropped the table, and commits while this one waits for it."""
    detach(logs, 1)
    first, attempt = copy_back(logs, 1)
    with logs.session("hub") as other, other.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("select (made).attempt from relaybox_internal.begin_attach(1, 'other')")
        assert cursor.fetchall() == [(attempt + 1,)]
        finished = pool.submit(finish_attach, logs, 1, first, attempt)
        wait_until(lambda: logs.value("hub", LOCK_WAITS) == 1, "finish_attach waits for the other attach")
        other.commit()
        assert finished.result(patience(30)) == "superseded"
    assert attach(logs, 1) == "attached"


def test_an_attach_that_begins_while_another_one_ends_goes_on_with_the_next_segment(logs: World) -> None:
    """Both need the line of the ledger and the table, and wait for each other in one order. The files may be released meanwhile."""
    assert [detach(logs, 1), detach(logs, 1)] == [0, 10]
    first, attempt = copy_back(logs, 1)
    with logs.session("hub") as driver, driver.cursor() as cursor, ThreadPoolExecutor(2) as pool:
        cursor.execute("select from relaybox_internal.hop_in i where i.log_id = 1 for update")
        finished = pool.submit(finish_attach, logs, 1, first, attempt)
        wait_until(lambda: logs.value("hub", LOCK_WAITS) == 1, "finish_attach waits for the driver")
        begun = pool.submit(begin_attach, logs, 1)
        wait_until(lambda: logs.value("hub", LOCK_WAITS) == 2, "begin_attach waits for finish_attach")
        # as release_detached() does while it holds the hop
        cursor.execute("set local lock_timeout = '1s'")
        cursor.execute("update relaybox_internal.detached_segment set moved_by = 'driver' where log_id = 1")
        driver.commit()
        assert finished.result(patience(30)) == "attached"
        older = begun.result(patience(30))
    assert older is not None
    assert older[0] == 0
    assert attach(logs, 1) == "attached"


def test_a_reader_of_files_finds_detached_messages_and_what_files_have_them(logs: World) -> None:
    """Ranges begin with them, by stream position and by time; a reader of the store alone is refused there. Dropped ones are gone."""
    ranges = "select first_stream_position, last_stream_position from relaybox.stream_range{}('flights', %s, %s)"
    located = "select stream_position, log_position, directory, payload from relaybox.read_detached('flights', %s, %s) order by 1"
    assert logs.query("hub", located, 0, 100) == []
    assert [detach(logs, 1), detach(logs, 1)] == [0, 10]
    (first, second) = [
        row[0] for row in logs.query("hub", "select directory from relaybox_internal.detached_segment order by first")
    ]
    expected = [(at, at, first if at < 10 else second, None) for at in range(1, 20)]
    assert logs.query("hub", located, 0, 100) == expected
    assert logs.query("hub", located, 7, 4) == expected[7:11]
    assert logs.query("hub", located, 19, 4) == [], "the store has what comes next"
    yesterday = logs.value("hub", "select (clock_timestamp() - interval '30 hours')::text")
    for start, through, found in (
        ("earliest", None, (1, 30)),
        ("5", "8", (5, 8)),
        (yesterday, "20", (1, 20)),
        ("latest", None, (31, 30)),
    ):
        assert logs.query("hub", ranges.format("_with_files"), start, through) == [found]
    assert logs.query("hub", ranges.format(""), "earliest", None) == [(20, 30)]
    for start in ("5", yesterday):
        with pytest.raises(psycopg2.Error) as refused:
            logs.query("hub", ranges.format(""), start, None)
        assert refused.value.pgcode == "RB038"
    files = "select first_position, last_position, row_count, files from relaybox.detached_files('flights', %s)"
    assert logs.query("hub", files, second) == [(10, 19, 10, None)]
    assert logs.query("hub", files, "elsewhere") == []
    logs.query("hub", "select relaybox.unsubscribe('dead')")
    assert logs.value("hub", "select relaybox_internal.release_detached(1, 'test')") == 2
    for query, values in ((located, (4, 1)), (ranges.format("_with_files"), ("5", None))):
        with pytest.raises(psycopg2.Error, match="stream position 5 is no longer kept; the first one is 20") as gone:
            logs.query("hub", query, *values)
        assert gone.value.pgcode == "RB034"
    assert logs.query("hub", ranges.format("_with_files"), "earliest", None) == [(20, 30)]
