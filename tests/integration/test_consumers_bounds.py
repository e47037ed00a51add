"""What consumers ask that makes no sense, or that is no longer there, is denied in words; two who ask at once are served apart."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest

from relaybox.subscriptions.replays import second_cursor
from tests.support.patience import patience
from tests.support.streams import STORE, deliver, fetch, stream_positions
from tests.support.world import World, wait_until

LOCK_WAITS = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def ten(world: World) -> World:
    """Ten messages in the stream, and the subscription `billing`."""
    deliver(world, 10)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    return world


def refused(world: World, call: str, *arguments: Any) -> tuple[str, str]:
    """SQLSTATE, message and hint."""
    with pytest.raises(psycopg2.Error) as refusal:
        world.query(STORE, f"select * from {call}", *arguments)
    return refusal.value.pgcode, f"{refusal.value.diag.message_primary} {refusal.value.diag.message_hint}"


def at_once(world: World, *calls: str) -> list[str]:
    """SQLSTATEs of sessions that each call at one moment; 00000: it did."""
    ready = threading.Barrier(len(calls))

    def one(call: str) -> str:
        with world.session(STORE) as connection, connection.cursor() as cursor:
            cursor.execute("select 1")
            ready.wait(patience(30))
            try:
                cursor.execute(f"select * from {call}")
                connection.commit()
            except psycopg2.Error as error:
                return str(error.pgcode)
            return "00000"

    with ThreadPoolExecutor(len(calls)) as pool:
        return sorted(pool.map(one, calls))


NONSENSE = {
    "relaybox.subscribe(null, 'flights')": "name NULL must be 1 to 60",
    "relaybox.subscribe('BIG', 'flights')": "name 'BIG' must be 1 to 60",
    "relaybox.subscribe('s', 'flights', null)": "the start is null",
    "relaybox.subscribe('s', 'flights', '0')": "no stream position 0: stream positions begin at 1",
    "relaybox.subscribe('s', 'flights', lanes => 0)": "lanes 0 must be 1 to 64",
    "relaybox.subscribe('s', 'flights', lanes => 65, lane_by => 'moon')": "lanes 65 must be 1 to 64; lane_by 'moon' must be",
    "relaybox.subscribe('s', 'flights', lanes => null)": "lanes null must be 1 to 64",
    "relaybox.subscribe('s', 'flights', nack_limit => 0)": "nack_limit 0 must be 1 or more",
    "relaybox.subscribe('s', 'flights', crash_limit => -1)": "crash_limit -1 must be 1 or more",
    "relaybox.subscribe('s', 'flights', hold_sender => null)": "hold_sender null must be true or false",
    "relaybox.subscribe('s', 'flights', retry_seconds => -1)": "retry_seconds -1 must be 0 or more",
    "relaybox.subscribe('s', 'flights', lease_seconds => 0)": "lease_seconds 0 must be 1 or more",
    "relaybox.subscribe('s', 'flights', delayed => null)": "delayed NULL must be hold, pass or ignore",
    "relaybox.subscribe('s', 'flights', delayed => 'later')": "delayed 'later' must be hold, pass or ignore",
    "relaybox.change_delayed('billing', 'pass', '')": "what becomes of delayed messages is changed with a reason",
    "relaybox.replay('billing', '0', 'why')": "no stream position 0: stream positions begin at 1",
    "relaybox.replay('billing', null, 'why')": "the start is null",
    "relaybox.replay('billing', '1', 'why', rows_per_second => 0)": "rows_per_second is 0",
    "relaybox.replay('billing', '1', 'why', second_cursor => true, rows_per_second => -5)": "rows_per_second is -5",
    "relaybox_internal.ask_replay('billing', 'billing.replay', '1', '3', 'why', 'me', 0)": "rows_per_second is 0",
    "relaybox_internal.ask_replay('billing', null, '1', '3', 'why', 'me')": "the name NULL of a second cursor",
    "relaybox_internal.ask_replay('billing', 'Billing Replay', '1', '3', 'why', 'me')": "the name 'Billing Replay' of a second cursor",
    "relaybox.fetch('billing', 0)": "max_count is 0",
    "relaybox.fetch('billing', only_lane => 0)": "no lane 0",
    "relaybox.read_log('flights/1', 0, -1)": "max_count is -1",
    "relaybox.read_log('flights/1', 0, null)": "max_count is null",
    "relaybox.read_stream('flights', 0, -1)": "max_count is -1",
    "relaybox.read_stream('flights', 0, 0)": "max_count is 0",
    "relaybox.read_stream('flights', 0, null)": "max_count is null",
}


@pytest.mark.parametrize("call", NONSENSE)
def test_a_number_or_name_that_makes_no_sense_is_denied_in_words(ten: World, call: str) -> None:
    """Never by a constraint, a division by zero or a number out of range; and nothing is left of it."""
    code, said = refused(ten, call)
    assert (code, NONSENSE[call] in said) == ("RB036", True), said
    assert ten.query(STORE, "select subscription from relaybox.subscriptions") == [("billing",)]


def test_reading_after_nothing_begins_at_the_start_and_after_the_end_gives_nothing(ten: World) -> None:
    """read_log and read_stream alike."""
    ten.query(STORE, "update relaybox_internal.hop_in set published_position = 10")
    for call in ("relaybox.read_stream('flights', %s)", "relaybox.read_log('flights/1', %s)"):
        rows = ten.query(STORE, f"select log_position from {call}", None)
        assert stream_positions(rows) == list(range(1, 11))
        for beyond in (10, 9223372036854775807):
            assert ten.query(STORE, f"select log_position from {call}", beyond) == []


def test_one_of_twelve_who_unsubscribe_at_once_does_it(ten: World) -> None:
    """The others are told that it is done; it is in the audit once."""
    assert at_once(ten, *["relaybox.unsubscribe('billing', 'over')"] * 12) == ["00000", *["RB031"] * 11]
    assert ten.value(STORE, "select count(*) from relaybox.consumer_action where action = 'unsubscribe'") == 1


def test_who_replays_cancels_and_ends_at_once_waits_for_the_other(world: World) -> None:
    """Subscription before lanes, everywhere: whatever comes first, nobody is the victim of a deadlock."""
    deliver(world, 10)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', lanes => 8)")
    world.query(STORE, "select relaybox.replay('billing', '1', 'compare', second_cursor => true)")
    codes = at_once(
        world,
        *["relaybox_internal.ask_replay('billing', 'billing.replay-1', '1', '3', 'why', 'me')"] * 2,
        *["relaybox.replay('billing', '1', 'again')"] * 2,
        *["relaybox.cancel_replay('billing', 'enough')"] * 2,
        *["relaybox.cancel_replay('billing.replay-1', 'enough')"] * 2,
        *["relaybox.unsubscribe('billing', 'over')"] * 2,
    )
    assert set(codes) <= {"00000", "RB030", "RB031", "RB036"}
    assert "00000" in codes


def test_eight_second_cursors_asked_for_at_once_get_eight_names(ten: World) -> None:
    assert at_once(ten, *["relaybox.replay('billing', '1', 'compare', second_cursor => true)"] * 8) == ["00000"] * 8
    names = ten.query(STORE, "select subscription from relaybox.subscriptions where replay_of = 'billing' order by 1")
    assert stream_positions(names) == [f"billing.replay-{n}" for n in range(1, 9)]


def test_a_second_cursor_takes_no_name_of_another_subscription(world: World) -> None:
    """Two subscriptions with the same first 50 characters, and one that an earlier version gave the next name."""
    deliver(world, 3)
    long = [f"{'a' * 50}-{n}" for n in (1, 2)]
    for name in (*long, "billing", "taken"):
        world.query(STORE, "select relaybox.subscribe(%s, 'flights')", name)
    # an earlier version let anyone subscribe so
    world.query(STORE, "update relaybox_internal.subscription set subscription = 'billing.replay-1' where subscription = 'taken'")
    named = [
        world.value(STORE, "select replayed_as from relaybox.replay(%s, '1', 'compare', second_cursor => true)", name)
        for name in (*long, "billing", "billing")
    ]
    assert named[2:] == ["billing.replay-2", "billing.replay-3"]
    assert len({*named}) == 4
    assert all(len(name) <= 60 and name.startswith("a" * 35) for name in named[:2])
    assert second_cursor(f"{'a' * 58}-1") != second_cursor(f"{'a' * 58}-2")
    assert all(len(second_cursor("a" * length)) <= 60 for length in range(1, 61))


@pytest.fixture
def days(world: World) -> World:
    """Six batches of five messages, 1 to 6 July, in segments; nobody reads them."""
    for day in range(1, 7):
        deliver(world, 5)
        world.query(
            STORE,
            "update relaybox_internal.decision set decided_at = %s where batch = (select max(batch) from relaybox_internal.decision)",
            f"2026-07-{day:02} 12:00+00",
        )
    return world


def forget(world: World, through_day: int, *, through_stream_position: int | None = None) -> None:
    """As retention does: messages are dropped; what was decided of them is compacted with whole days."""
    world.query(
        STORE,
        "update relaybox_internal.stream set first_kept_stream_position = %s, dropped_stream_position = %s",
        (through_stream_position or through_day * 5) + 1,
        through_stream_position or through_day * 5,
    )
    world.query(
        STORE,
        "update relaybox_internal.hop_in set first_kept_position = %s, published_batch = 1000",
        (through_stream_position or through_day * 5) + 1,
    )
    world.query(STORE, "update relaybox_internal.stream_log set decided_batch = 1000")
    world.query(
        STORE,
        "insert into relaybox_internal.arrival (log_id, batch, plan_id, first_position, last_position, row_count, slice_count,"
        " source_system_identifier, source_timeline)"
        " select 1, d.batch, gen_random_uuid(), d.last_stream_position - 4, d.last_stream_position, 5, 1, 1, 1 "
        "from relaybox_internal.decision d",
    )
    assert world.value(STORE, "select relaybox_internal.compact_log_ledgers(1)") == through_day


def test_a_time_of_which_messages_are_gone_is_refused(days: World) -> None:
    """By subscribe, replay and a backfill; also when what was decided then is compacted, and where half of the day is left."""
    days.query(STORE, "select relaybox.subscribe('billing', 'flights', 'latest')")
    forget(days, 2, through_stream_position=12)
    for call in (
        "relaybox.subscribe('s', 'flights', %s)",
        "relaybox.replay('billing', %s, 'why', second_cursor => true)",
        "relaybox_internal.ask_replay('billing', 'billing.replay', %s, '2026-07-06', 'why', 'run 1')",
    ):
        for day in ("2020-01-01", "2026-07-01", "2026-07-02", "2026-07-03"):
            code, said = refused(days, call, day)
            assert (code, "the messages before stream position 13 are no longer kept" in said) == ("RB034", True), said
    assert days.value(STORE, "select relaybox.subscribe('s', 'flights', '2026-07-04')") == 16


def test_a_time_whose_messages_are_all_kept_is_found_after_a_compaction(days: World) -> None:
    """The day after those that are gone begins at its first message."""
    forget(days, 2)
    for number, (start, first) in enumerate({"2026-07-03": 11, "2026-07-04": 16, "2026-08-01": 31, "earliest": 11}.items()):
        assert days.value(STORE, "select relaybox.subscribe(%s, 'flights', %s)", f"s{number}", start) == first
    assert refused(days, "relaybox.subscribe('s', 'flights', '2026-07-02')")[0] == "RB034"


def test_a_subscription_that_ends_under_a_fetch_is_told_so(ten: World) -> None:
    """Its lanes are gone when the fetch gets the lock: it is ended, it does not lack a lane."""
    with ten.session(STORE) as ending, ending.cursor() as cursor:
        cursor.execute("select relaybox.unsubscribe('billing', 'over')")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(refused, ten, "relaybox.fetch('billing', only_lane => 1)")
            wait_until(lambda: ten.value(STORE, LOCK_WAITS) == 1, "the fetch waits for the lane")
            ending.commit()
            code, said = waiting.result(timeout=patience(60))
    assert (code, "was ended by another session just now" in said) == ("RB031", True)
    with pytest.raises(psycopg2.Error):
        fetch(ten, 1)


@pytest.mark.parametrize("choice", ["dry_run", "second_cursor"])
def test_a_replay_takes_no_null_for_a_choice(ten: World, choice: str) -> None:
    """A value that was forgotten must not replay live."""
    told = refused(ten, f"relaybox.replay('billing', 'earliest', 'test', {choice} => null)")
    assert told[0] == "RB036"
    assert "second_cursor and dry_run are true or false, not null" in told[1]
