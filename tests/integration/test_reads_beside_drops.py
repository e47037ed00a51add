"""G8: who reads without a subscription while segments go gets every message that is kept, or is told: never fewer in silence."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import psycopg2
import pytest

from relaybox.subscriptions.subscriptions import LISTING
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

READS = {
    "log": "select log_position from relaybox.read_log('flights/1', %s)",
    "stream": "select stream_position from relaybox.read_stream('flights', %s)",
}
DROPS = {
    "dropped": ("relaybox_internal.drop_oldest_segment(1, 'test')", "RB034"),
    "detached": ("relaybox_internal.drop_oldest_segment(1, 'test', 0, 1)", "RB038"),
}
BEING_DETACHED = """
insert into relaybox_internal.detached_segment (log_id, first, last, segment, directory, row_count, hash_sum, needed_by, begun_by, moved_by)
values (1, 0, 9, 'log_1_s000000', '/files', 9, 0, '{}', 'test', 'test')
"""
LOG_LOCKS = "select count(*) from pg_locks where pid = %s and relation = 'relaybox_internal.log_1'::regclass"


@pytest.fixture(scope="module")
def delivered(make_template: Callable[[Callable[[World], None]], str]) -> str:
    """45 messages at the hub in segments of ten, of which nobody needs the first forty."""

    def fill(world: World) -> None:
        world.cut_small_segments()
        world.change_route(retention={"replay_window_seconds": 0})
        world.send_many(45)
        world.transfer_all()
        world.settle_all()
        world.query("hub", BEING_DETACHED)

    return make_template(fill)


@pytest.fixture
def small(delivered: str, make_world: Callable[[str], AbstractContextManager[World]]) -> Any:
    with make_world(delivered) as world:
        yield world


def outcome(session: Any, read: str, after: int | None) -> list[int] | str:
    """The numbers that were read, or the SQLSTATE; the transaction goes on with the snapshot that it has."""
    with session.cursor() as cursor:
        cursor.execute("savepoint before_the_read")
        try:
            cursor.execute(read, (after,))
            return [number for (number,) in cursor.fetchall()]
        except psycopg2.Error as refused:
            cursor.execute("rollback to savepoint before_the_read")
            return str(refused.pgcode)


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_g8_a_snapshot_older_than_a_drop_is_told_to_begin_anew(small: World, isolation: str, drop: str) -> None:
    """Also from the first stream position on; what lies wholly in the kept segments is read. A new transaction hears what is kept."""
    statement, refusal = DROPS[drop]
    for read in READS.values():
        assert small.query("hub", read, 0)[0] == (1,)
    with small.session("hub") as session, session.cursor() as cursor:
        session.set_session(isolation_level=isolation, readonly=True)
        cursor.execute("select 1")
        assert small.value("hub", f"select outcome from {statement}") == drop
        for read in READS.values():
            assert [outcome(session, read, after) for after in (5, 0, None, 8)] == ["40001"] * 4
            assert outcome(session, read, 9) == list(range(10, 46))
            assert outcome(session, read, 45) == []
        session.rollback()
        for read in READS.values():
            assert outcome(session, read, 5) == refusal
            assert outcome(session, read, 0) == list(range(10, 46))


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("read", READS)
def test_g8_a_read_that_waits_behind_a_drop_is_told_what_went(small: World, read: str, drop: str) -> None:
    """READ COMMITTED: it began with the snapshot of before, and waits for the log."""
    statement, refusal = DROPS[drop]
    with small.session("hub") as dropping, dropping.cursor() as cursor, ThreadPoolExecutor(3) as pool:
        cursor.execute(f"select outcome from {statement}")
        assert cursor.fetchone() == (drop,)

        def read_after(after: int) -> list[int] | str:
            with small.session("hub") as session:
                return outcome(session, READS[read], after)

        waiting = [pool.submit(read_after, after) for after in (5, 0, 20)]
        waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        wait_until(lambda: small.value("hub", waits) == len(waiting), "the reads wait for the drop")
        dropping.commit()
        read_numbers = [one.result(patience(60)) for one in waiting]
    assert read_numbers == [refusal, list(range(10, 46)), list(range(21, 46))]


def test_g8_a_reader_keeps_the_segments_until_its_transaction_ends(small: World) -> None:
    """A login with the rights of consumers alone, in a read-only transaction; one that finds nothing new locks nothing."""
    small.query("hub", "select relaybox.subscribe('billing', 'flights', 'latest')")
    with small.session("hub") as session, session.cursor() as cursor:
        session.set_session(readonly=True)
        cursor.execute("set role relaybox_consumer")
        for read in READS.values():
            assert outcome(session, read, 45) == []
        assert small.value("hub", LOG_LOCKS, session.info.backend_pid) == 0
        for read in READS.values():
            assert outcome(session, read, 43) == [44, 45]
            assert small.value("hub", "select outcome from relaybox_internal.drop_oldest_segment(1, 'test')") == "busy"
            session.rollback()
            cursor.execute("set role relaybox_consumer")
    assert small.value("hub", "select outcome from relaybox_internal.drop_oldest_segment(1, 'test')") == "dropped"


@pytest.mark.parametrize("read", READS)
def test_g8_a_message_that_is_missing_is_not_passed_over(small: World, read: str) -> None:
    """Removed by hand: neither retention nor an old snapshot is blamed, and what is beyond can be read."""
    small.query("hub", "delete from relaybox_internal.log where log_position = 7")
    with pytest.raises(
        psycopg2.Error, match=r"1 to 45: 1 messages are missing in the store, .*\n.*relaybox verify flights"
    ) as refused:
        small.query("hub", READS[read], 0)
    assert refused.value.pgcode == "RB012"
    assert small.query("hub", READS[read], 43) == [(44,), (45,)]


def test_subscriptions_are_listed_while_the_last_message_they_read_goes(small: World) -> None:
    """The listing looks that message up; a drop that it waits for leaves it without."""
    small.query("hub", "select relaybox.subscribe('billing', 'flights', '10')")

    def listed() -> Any:
        return small.query("hub", f"select done_stream_position, done_message_id is null from ({LISTING}) s")

    assert listed() == [(9, False)]
    with small.session("hub") as dropping, dropping.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("select outcome from relaybox_internal.drop_oldest_segment(1, 'test')")
        assert cursor.fetchone() == ("dropped",)
        waiting = pool.submit(listed)
        waits = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        wait_until(lambda: waiting.done() or small.value("hub", waits), "the listing waits for the drop")
        dropping.commit()
        assert waiting.result(patience(60)) == [(9, True)]
