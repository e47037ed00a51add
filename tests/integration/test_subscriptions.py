"""Subscriptions in SQL: what fetch and ack promise, and every wrong request denied in words and by SQLSTATE."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest

from tests.support.streams import STORE, ack, deliver, fetch, nack, stream_positions, token
from tests.support.world import World, wait_until


@pytest.fixture
def ten(world: World) -> World:
    """Ten messages in the stream, and the subscription `billing`."""
    deliver(world, 10)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    return world


@contextmanager
def denied(sqlstate: str, *words: str) -> Iterator[None]:
    with pytest.raises(psycopg2.Error) as refused:
        yield
    said = f"{refused.value.diag.message_primary} {refused.value.diag.message_hint or ''}"
    assert refused.value.pgcode == sqlstate, said
    for word in words:
        assert word in said


def test_every_role_of_consumers_can_do_all_of_it_and_nothing_else(ten: World) -> None:
    """relaybox_consumer subscribes, fetches, acknowledges, refuses, replays; the tables stay closed."""
    with ten.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_consumer")
        cursor.execute("select relaybox.subscribe('mine', 'flights')")
        cursor.execute("select stream_position, payload from relaybox.fetch('mine', 2, worker => 'w')")
        assert cursor.fetchall() == [(1, "m1"), (2, "m2")]
        cursor.execute("select stream_position, token from relaybox.fetch('mine', 2, worker => 'w')")
        (_, verification), _ = cursor.fetchall()
        cursor.execute("select relaybox.ack('mine', 1, %s), relaybox.nack('mine', 2, 'no', %s)", (verification, verification))
        cursor.execute("select dead_letters from relaybox.subscriptions where subscription = 'mine'")
        assert cursor.fetchall() == [(0,)]
        cursor.execute("select relaybox.replay('mine', 'earliest', 'again')")
        cursor.execute("select relaybox.unsubscribe('mine')")
        for table in ("cursor", "lane", "subscription", "delivery", "dead_letter", "failed_attempt"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(f"select * from relaybox_internal.{table}")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("delete from relaybox.consumer_action")


def test_subscribing_twice_is_denied(ten: World) -> None:
    with denied("RB030", "already subscribed: subscription billing exists", "unsubscribe"):
        ten.query(STORE, "select relaybox.subscribe('billing', 'flights')")


def test_who_is_not_subscribed_is_denied_everything(ten: World) -> None:
    for call in (
        "select * from relaybox.fetch('bililng')",
        "select relaybox.ack('bililng', 1)",
        "select relaybox.nack('bililng', 1, 'x')",
        "select * from relaybox.lag('bililng')",
        "select relaybox.replay('bililng', 'earliest', 'x')",
        "select relaybox.cancel_replay('bililng', 'x')",
        "select relaybox.redrive('bililng', 'x')",
        "select relaybox.unsubscribe('bililng')",
    ):
        with denied("RB031", "there is no subscription bililng in this store", "Known here: billing."):
            ten.query(STORE, call)


@pytest.mark.parametrize("call", ["unsubscribe('bililng')", "cancel_replay('billing.replay-1', 'x')"])
def test_who_ends_a_subscription_or_names_a_replay_is_not_told_to_subscribe(ten: World, call: str) -> None:
    with pytest.raises(psycopg2.Error) as refused:
        ten.query(STORE, f"select relaybox.{call}")
    assert "Subscribe first" not in str(refused.value.diag.message_hint)


def test_a_topic_or_stream_that_is_not_here_is_denied(ten: World) -> None:
    with denied("RB032", "there is no stream and no topic fligths", "Streams here: flights (flights)"):
        ten.query(STORE, "select relaybox.subscribe('other', 'fligths')")
    with denied("RB032", "there is no stream fligths", "Known here: flights"):
        ten.query(STORE, "select * from relaybox.read_stream('fligths')")


def test_acknowledging_what_was_not_fetched_is_denied(ten: World) -> None:
    """Before any fetch, beyond the fetch, twice, and from another session."""
    with denied("RB033", "the token is missing", "Fetch, work and acknowledge in one transaction"):
        ten.query(STORE, "select relaybox.ack('billing', 3)")
    assert stream_positions(fetch(ten, 4)) == [1, 2, 3, 4]
    with denied("RB033", "stream position 5 was not in this fetch; still to acknowledge: stream positions 1 to 4"):
        ack(ten, 5)
    ack(ten, 4)
    with denied("RB033", "stream position 4 is acknowledged already; the lane is acknowledged through stream position 4"):
        ack(ten, 4)


def test_refusing_what_was_not_fetched_is_denied(ten: World) -> None:
    fetch(ten, 4)
    with denied("RB033", "stream position 5"):
        nack(ten, 5)
    with denied("RB036", "with a reason"):
        nack(ten, 2, " ")


def test_a_stream_position_that_is_no_longer_kept_is_denied(ten: World) -> None:
    """By subscribe, replay and fetch; nothing is passed over in silence."""
    ten.query(STORE, "update relaybox_internal.stream set first_kept_stream_position = 6")
    with denied("RB034", "stream position 3 is no longer kept; the first one is 6"):
        ten.query(STORE, "select relaybox.subscribe('late', 'flights', '3')")
    with denied("RB034", "stream position 2 is no longer kept"):
        ten.query(STORE, "select relaybox.replay('billing', '2', 'why')")
    with denied("RB034", "stream position 1 comes next and is no longer kept; the first one is 6"):
        fetch(ten, 5)


@pytest.mark.parametrize("start", ["yesterdya", "12", "-1", "99999999999999999999"])
def test_a_start_that_is_none_is_denied(ten: World, start: str) -> None:
    with denied("RB036"):
        ten.query(STORE, "select relaybox.subscribe('s', 'flights', %s)", start)


def test_a_subscription_starts_where_it_is_told(world: World) -> None:
    """earliest, latest, a stream position, a time; a time means when messages were delivered here."""
    deliver(world, 5)
    between = world.value(STORE, "select clock_timestamp()")
    deliver(world, 5)
    starts = {"earliest": 1, "latest": 11, "4": 4, str(between): 6, "2020-01-01 00:00+00": 1}
    for number, (start, first) in enumerate(starts.items()):
        assert world.value(STORE, "select relaybox.subscribe(%s, 'flights', %s)", f"s{number}", start) == first
        got = stream_positions(world.query(STORE, "select stream_position from relaybox.fetch(%s)", f"s{number}"))
        assert got == list(range(first, 11))


def test_a_topic_of_a_stream_is_read_alone(world: World) -> None:
    """Other topics are passed over, in runs and in lists of positions, and cost no empty fetches."""
    world.query(STORE, "select relaybox_internal.register_topics('flights', '{flights,gates}')")
    for topic, backwards in (("flights", False), ("gates", False), ("flights", True), ("gates", True)):
        deliver(world, 5, topic=topic, backwards=backwards)
    world.query(STORE, "select relaybox.subscribe('g', 'gates')")
    assert stream_positions(fetch(world, 7, "g")) == [6, 7, 8, 9, 10, 16, 17]
    assert stream_positions(fetch(world, 7, "g", acked=17)) == [18, 19, 20]


def test_a_fetch_repeated_before_its_ack_gives_the_same_rows(ten: World) -> None:
    """With any max_count, by any worker after the lease, whatever came meanwhile."""
    first = fetch(ten, 4)
    deliver(ten, 5)
    again = fetch(ten, 4)
    assert [row[4:] for row in again] == [row[4:] for row in first]
    assert ([row[3] for row in first], [row[3] for row in again]) == ([1] * 4, [2] * 4)
    assert [row[0] for row in fetch(ten, 1)] == [1, 2, 3, 4]
    assert [row[0] for row in fetch(ten, 100)] == [1, 2, 3, 4]
    end_lease(ten)
    assert [row[0] for row in fetch(ten, 100, worker="b")] == [1, 2, 3, 4]


def test_ack_and_the_next_fetch_are_one_round_trip(ten: World) -> None:
    got = fetch(ten, 4)
    while got:
        last = got[-1][0]
        got = fetch(ten, 4, acked=last)
    assert last == 10
    assert ten.value(STORE, "select done_stream_position from relaybox.lag('billing')") == 10


def test_a_part_of_a_fetch_can_be_acknowledged(ten: World) -> None:
    fetch(ten, 6)
    assert ack(ten, 2) == 2
    assert stream_positions(fetch(ten, 6)) == [3, 4, 5, 6]
    assert stream_positions(fetch(ten, 6, acked=6)) == [7, 8, 9, 10]


def test_unsubscribing_frees_the_name_and_forgets_the_cursor(ten: World) -> None:
    fetch(ten, 6)
    ten.query(STORE, "select relaybox.unsubscribe('billing', 'moved to another store')")
    assert ten.value(STORE, "select count(*) from relaybox_internal.cursor") == 0
    ten.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    assert stream_positions(fetch(ten, 3)) == [1, 2, 3]
    actions = ten.query(STORE, "select action, reason, done_by is not null from relaybox.consumer_action order by action_id")
    assert actions == [("subscribe", None, True), ("unsubscribe", "moved to another store", True), ("subscribe", None, True)]


def test_the_statements_of_the_page_give_a_subscription_other_lanes(ten: World) -> None:
    """docs/consuming.md, "Settings": each message that was not acknowledged comes in one of the new lanes, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "consuming.md").read_text(encoding="utf-8")
    (statements,) = re.findall(r"```sql\n(begin;\nselect relaybox\.unsubscribe.*?)```", page, flags=re.DOTALL)
    fetch(ten, 6)
    ack(ten, 6)
    next_stream_position = ten.value(STORE, "select done_stream_position + 1 from relaybox.subscriptions")
    with ten.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statements.replace("'1201'", f"'{next_stream_position}'"))
    got = [fetch(ten, 10, worker=f"w{lane}", lane=lane) for lane in range(1, 5)]
    assert sorted(position for rows in got for position in stream_positions(rows)) == [7, 8, 9, 10]


def test_an_idle_poll_writes_nothing(ten: World) -> None:
    """A consumer that finds nothing leaves no row behind, however often it asks."""
    fetch(ten, 10)
    fetch(ten, 10, acked=10)
    versions = "select max(version) from relaybox_internal.cursor"
    before = ten.value(STORE, versions)
    for _ in range(5):
        assert fetch(ten, 10) == []
    assert ten.value(STORE, versions) == before


def test_messages_of_lists_and_runs_come_in_the_order_of_their_stream_positions(world: World) -> None:
    """Fetched by 7 over runs of 5, half of them backwards in the log: read_stream and fetch agree."""
    for backwards in (False, True, True, False, True):
        deliver(world, 5, backwards=backwards)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    got = rows = fetch(world, 7)
    while rows:
        rows = fetch(world, 7, acked=rows[-1][0])
        got = [*got, *rows]
    assert [(stream_position, payload) for stream_position, *_, payload in got] == [(n, f"m{n}") for n in range(1, 26)]
    assert world.query(STORE, "select stream_position, payload from relaybox.read_stream('flights', 3, 19)") == [
        (n, f"m{n}") for n in range(4, 23)
    ]


def test_fetching_costs_the_same_whatever_the_statistics_and_under_a_held_snapshot(world: World) -> None:
    """100 messages of 30,000 that nobody analysed, in a session with default settings: a handful of pages, also after 1000 acks
    whose old cursors a held snapshot keeps."""
    deliver(world, 30_000)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    with world.session(STORE) as held, held.cursor() as holding:
        holding.execute("set transaction isolation level repeatable read")
        holding.execute("select count(*) from relaybox_internal.cursor")
        before = touched(world)
        with world.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
            verification = token(world)
            for stream_position in range(100, 10_001, 10):
                cursor.execute(
                    "select min(token) from relaybox.fetch('billing', 10, %s, %s, worker => 'a')", (stream_position, verification)
                )
                (verification,) = cursor.fetchone()
        after = touched(world, acked=10_010)
    assert before < 300
    assert after < before + 100


def touched(world: World, acked: int | None = None) -> int:
    """Pages that one fetch of 100 touched, its plans made before."""
    last = (acked, acked and token(world))
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("select from relaybox.fetch('billing', 100, %s, %s, worker => 'a')", last)
        connection.rollback()
        cursor.execute(
            "explain (analyze, buffers, format json) select * from relaybox.fetch('billing', 100, %s, %s, worker => 'a')", last
        )
        plan = cursor.fetchone()[0]
        connection.commit()
    node = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def test_old_cursors_are_removed(ten: World) -> None:
    """250 moves leave at most a hundred rows behind."""
    ten.query(STORE, "select relaybox.subscribe('busy', 'flights', nack_limit => 1000)")
    with ten.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        for _ in range(125):
            cursor.execute("select relaybox.nack('busy', stream_position, 'not now') from relaybox.fetch('busy', 1)")
    assert ten.value(STORE, "select max(version) from relaybox_internal.cursor") > 200
    assert ten.value(STORE, "select count(*) from relaybox_internal.cursor") <= 101


def test_a_transaction_with_an_old_snapshot_can_not_move_a_lane_back(ten: World) -> None:
    """REPEATABLE READ: what another worker moved since is a serialization failure, and nothing is acknowledged twice."""
    with ten.session(STORE) as old, old.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select count(*) from relaybox.subscriptions")
        assert stream_positions(fetch(ten, 3)) == [1, 2, 3]
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("select * from relaybox.fetch('billing', 3, worker => 'b')")


def end_lease(world: World) -> None:
    """As if the lease's time had passed."""
    world.query(
        STORE,
        "update relaybox_internal.cursor set leased_until = clock_timestamp() - interval '1 second' where worker is not null",
    )


def test_a_lease_ends_by_itself(ten: World) -> None:
    """A worker that is gone holds its messages for lease_seconds and no longer: the last moment passes by itself."""
    ten.query(STORE, "select relaybox.subscribe('short', 'flights', lease_seconds => 600)")
    assert stream_positions(fetch(ten, 3, "short")) == [1, 2, 3]
    assert fetch(ten, 3, "short", worker="b") == []
    ten.query(
        STORE,
        "update relaybox_internal.cursor set leased_until = leased_until - interval '599.8 seconds',"
        " moved_at = moved_at - interval '599.8 seconds' where worker = 'a'",
    )
    wait_until(lambda: stream_positions(fetch(ten, 3, "short", worker="b")) == [1, 2, 3], "the lease ends")
    with denied(
        "RB035", "worker a fetched at", "and worker b fetched from the lane at", "after the lease of 600 seconds had ended"
    ):
        ack(ten, 3, "short")
