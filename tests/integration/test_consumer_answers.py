"""What consumers are told: why an acknowledgement is refused, that a replay is empty, that a start lies in the future, their quota."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg2
import pytest

from tests.support.streams import STORE, ack, deliver, fetch, nack, stream_positions, token
from tests.support.world import World


@pytest.fixture
def shop(world: World) -> World:
    """Twelve messages of three senders, and the subscription `billing`."""
    deliver(world, 12)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', crash_limit => 2)")
    return world


@pytest.fixture
def reader_login(world: World) -> Iterator[str]:
    """A login that has nothing but relaybox_consumer."""
    world.query(STORE, "create role answers_shop login password 'secret' in role relaybox_consumer")
    yield "answers_shop"
    world.query(STORE, "drop owned by answers_shop; drop role answers_shop")


def refusal(world: World, statement: str, *arguments: object) -> tuple[str, str, str]:
    """SQLSTATE, message and hint."""
    with pytest.raises(psycopg2.Error) as refused:
        world.query(STORE, statement, *arguments)
    return refused.value.pgcode, str(refused.value.diag.message_primary), str(refused.value.diag.message_hint)


def answer(world: World, statement: str, *arguments: object) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Rows and notices."""
    with world.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchall(), list(connection.notices)


def test_each_refused_acknowledgement_has_the_hint_of_its_cause(shop: World) -> None:
    """Never fetched, fetched elsewhere, not in this fetch, done already, refused, after the lease, given back: no two are alike."""
    acked = "select relaybox.ack('billing', %s, %s)"
    hints = {"never fetched": refusal(shop, acked, 3, None)[2]}
    fetch(shop, 4)
    hints["fetched in another session"] = refusal(shop, acked, 4, None)[2]
    assert "worker a fetched stream positions 1 to 4 of lane 1 at " in hints["fetched in another session"]
    hints["not in this fetch"] = refusal(shop, acked, 9, token(shop))[2]
    ack(shop, 2)
    hints["done already, rest to do"] = refusal(shop, acked, 2, token(shop))[2]
    assert "stream positions 3 to 4" in hints["done already, rest to do"]
    ack(shop, 4)
    hints["done already"] = refusal(shop, acked, 4, token(shop))[2]
    fetch(shop, 4)
    nack(shop, 6)
    hints["refused"] = refusal(shop, acked, 7, token(shop))[2]
    fetch(shop, 4)
    mine = token(shop)
    shop.query(STORE, "select relaybox.release('billing', %s)", mine)
    fetch(shop, 4, worker="b")
    hints["given back"] = refusal(shop, acked, 7, mine)[2]
    theirs = token(shop, worker="b")
    shop.query(
        STORE,
        "update relaybox_internal.cursor set leased_until = clock_timestamp(), moved_at = moved_at - interval '2 minutes'"
        " where worker = 'b'",
    )
    fetch(shop, 4, worker="c")
    hints["lease ended"] = refusal(shop, acked, 7, theirs)[2]
    assert "lease_seconds" in hints["lease ended"]
    assert "lease_seconds" not in hints["given back"]
    assert len(set(hints.values())) == len(hints), hints


def test_an_empty_replay_returns_0_says_so_and_changes_nothing(shop: World) -> None:
    """In stream position and with a second cursor, beside a count first; nothing is recorded, and no cursor is opened."""
    fetch(shop, 4)
    ack(shop, 4)
    verification = token(shop)
    for call in ("'9', 'why'", "'latest', 'why'", "'5', 'why', through => '4', second_cursor => true"):
        counted, said = answer(
            shop, f"select replayed_as, message_count from relaybox.replay('billing', {call}, dry_run => true)"
        )
        assert (counted, len(said)) == ([(None, 0)], 1)
        asked, told = answer(shop, f"select replayed_as, message_count, byte_count from relaybox.replay('billing', {call})")
        assert asked == [(None, 0, 0)]
        assert "subscription billing: nothing to replay" in told[0]
        assert "nothing was changed" in told[0]
    assert "it is done through stream position 4" in answer(shop, "select relaybox.replay('billing', '9', 'why')")[1][0]
    assert shop.value(STORE, "select count(*) from relaybox.consumer_action where action = 'replay'") == 0
    assert shop.value(STORE, "select count(*) from relaybox.subscriptions") == 1
    assert verification == token(shop)
    assert stream_positions(fetch(shop, 2)) == [5, 6]


def test_a_time_in_the_future_is_refused_as_start_and_as_end(shop: World) -> None:
    """It was taken as `latest`. The newest recorded time of delivery counts, if the clock is behind it."""
    ahead = shop.value(STORE, "select (clock_timestamp() + interval '1 hour')::text")
    for call in (
        "relaybox.subscribe('late', 'flights', %s)",
        "relaybox.replay('billing', %s, 'why', dry_run => true)",
        "relaybox.replay('billing', '1', 'why', through => %s, second_cursor => true)",
        "relaybox.count_replay('billing', %s)",
    ):
        code, said, hint = refusal(shop, f"select {call}", ahead)
        assert (code, f"stream flights: {ahead} is in the future" in said) == ("RB036", True), said
        assert "'latest'" in hint
    shop.query(STORE, "update relaybox_internal.decision set decided_at = clock_timestamp() + interval '2 hours'")
    assert shop.value(STORE, "select relaybox.subscribe('late', 'flights', %s)", ahead) == 1


def test_a_dead_letter_that_killed_its_worker_has_the_time_of_its_first_fetch(shop: World) -> None:
    """Also when its fetch was cut smaller until it was alone, and when others of it were acknowledged meanwhile."""
    assert len(fetch(shop, 12)) == 12
    fetched_at = shop.value(STORE, "select moved_at from relaybox.lag('billing')")
    for _ in range(40):
        got = stream_positions(fetch(shop, 12))
        if got and 7 not in got:
            ack(shop, got[-1])
    first, last = shop.query(STORE, "select first_at, last_at from relaybox.dead_letters where reason = 'killed_its_worker'")[0]
    # a fetch asks the clock for each of the two: a microsecond may lie between
    assert first <= fetched_at + timedelta(milliseconds=1) < last
    deliver(shop, 2)
    for _ in range(4):
        fetch(shop, 1)
    assert shop.value(STORE, "select first_at > %s from relaybox.dead_letters where stream_position = 13", last)


def test_a_consumer_sees_its_quota_and_its_replays(shop: World, reader_login: str) -> None:
    """With nothing but the rights of relaybox_consumer; of other logins it sees no quota."""
    shop.query(STORE, "select relaybox.set_consumer_quota(5, 40, %s, topics => 3)", reader_login)
    connection = psycopg2.connect(service=STORE, user=reader_login, password="secret")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("select relaybox.subscribe('own', 'flights', lanes => 4)")
        cursor.execute("select * from relaybox.my_quota()")
        assert [column.name for column in cursor.description] == [
            *("role_name", "subscriptions", "subscription_quota", "lanes", "lane_quota", "topics", "topic_quota"),
        ]
        assert cursor.fetchall() == [(reader_login, 1, 5, 4, 40, 0, 3)]
        shop.query(STORE, "select relaybox_internal.ask_replay('own', 'own.replay', '2', '5', 'tax audit', 'run 1')")
        cursor.execute(
            "select subscription, replayed_as, first_stream_position, last_stream_position, asked_by, reason from relaybox.replay_ranges"
        )
        assert cursor.fetchall() == [("own", "own.replay", 2, 5, ["run 1"], "tax audit")]
        done = "select done_at is not null from relaybox.replay_ranges"
        while not cursor.execute(done) and cursor.fetchall() == [(False,)]:
            cursor.execute("begin; select stream_position from relaybox.fetch('own.replay', 1)")
            for (stream_position,) in cursor.fetchall():
                cursor.execute("select relaybox.ack('own.replay', %s)", (stream_position,))
            cursor.execute("commit; select min(done_stream_position) >= 5 from relaybox.lag('own.replay')")
            read_to_its_end = cursor.fetchall()
        assert read_to_its_end == [(True,)], "its consumers have acknowledged it"
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("select * from relaybox_internal.consumer_quota")
    connection.close()
    owner = shop.query(STORE, "select subscription_quota, lane_quota, topic_quota from relaybox.my_quota()")
    assert owner == [(None, None, None)], "the owner has no quota"


def test_a_new_topic_with_an_invalid_name_is_told_how_names_are(shop: World) -> None:
    shop.query(STORE, "update relaybox_internal.stream set topics_by_subscription = true")
    for name in ("New Topic", "t" * 49, ""):
        code, said, hint = refusal(shop, "select relaybox.subscribe('new', %s)", name)
        assert (code, "1 to 48 of a-z 0-9 _ . -" in said) == ("RB032", True), said
        assert "flights (flights)" in hint
