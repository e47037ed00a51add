"""Quotas: one consumer can't fill a store with subscriptions and lanes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import psycopg2
import pytest

from tests.support.patience import patience
from tests.support.streams import STORE, deliver
from tests.support.world import World

SHOP, OTHER, TEAM, DEPUTY = ROLES = ("quota_shop", "quota_other", "quota_team", "quota_deputy")
LIVE = "select count(*), coalesce(sum(lanes), 0) from relaybox.subscriptions where subscribed_by = %s"


@pytest.fixture
def shops(world: World) -> Iterator[World]:
    """Two logins that consume, one of them in a group that consumes too, and one that inherits the rights of the owner."""
    deliver(world, 20)
    owner = world.value(STORE, "select current_user")
    world.query(STORE, f"create role {TEAM} in role relaybox_consumer")
    for role in (SHOP, OTHER):
        world.query(STORE, f"create role {role} login password 'secret' in role relaybox_consumer, {TEAM}")
    world.query(STORE, f"create role {DEPUTY} login password 'secret' in role {owner}")
    yield world
    for role in (SHOP, OTHER, DEPUTY, TEAM):
        world.query(STORE, f"drop owned by {role}; drop role {role}")


@contextmanager
def login(role: str, *settings: str) -> Iterator[Any]:
    """An application's session under its own name."""
    connection = psycopg2.connect(service=STORE, user=role, password="secret")
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
            yield cursor
    finally:
        connection.close()


def subscribe(role: str, name: str, lanes: int = 1, *settings: str) -> str | None:
    """The SQLSTATE of a subscription; None: it is made."""
    with login(role, *settings) as cursor:
        return outcome(cursor, "select relaybox.subscribe(%s, 'flights', lanes => %s)", name, lanes)


def outcome(cursor: Any, call: str, *arguments: object) -> str | None:
    try:
        cursor.execute(call, arguments)
    except psycopg2.Error as error:
        return error.pgcode
    return None


def test_a_role_has_100_subscriptions_and_1000_lanes_unless_the_owner_says_otherwise(shops: World) -> None:
    """The defaults, as the refusal names them; what the refused call did is undone."""
    names = [f"s{n}" for n in range(100)]
    assert {subscribe(SHOP, name) for name in names[:1]} == {None}
    with login(SHOP) as cursor:
        assert {outcome(cursor, "select relaybox.subscribe(%s, 'flights')", name) for name in names[1:]} == {None}
        with pytest.raises(psycopg2.Error) as refused:
            cursor.execute("select relaybox.subscribe('one-more', 'flights')")
    assert refused.value.pgcode == "RB039"
    assert (
        "subscription one-more is refused: role quota_shop would have 101 subscriptions with 101 lanes in this store, "
        "its quota is 100 subscriptions with 1000 lanes"
    ) in str(refused.value)
    assert "relaybox.set_consumer_quota(SUBSCRIPTIONS, LANES, 'quota_shop', topics => TOPICS)" in str(
        refused.value.diag.message_hint
    )
    assert shops.query(STORE, LIVE, SHOP) == [(100, 100)]
    assert [subscribe(OTHER, f"wide{n}", 64) for n in range(16)] == [None] * 15 + ["RB039"]
    assert shops.query(STORE, LIVE, OTHER) == [(15, 960)]
    assert shops.value(STORE, "select count(*) from relaybox_internal.lane") == 1060


def test_a_quota_counts_replays_and_is_free_again_after_unsubscribing(shops: World) -> None:
    """A name that exists is told as that, full or not: consumers subscribe whenever they start."""
    shops.query(STORE, "select relaybox.set_consumer_quota(2, 5, %s)", SHOP)
    assert [subscribe(SHOP, "a", 2), subscribe(SHOP, "b", 3)] == [None, None]
    assert [subscribe(SHOP, "a", 2), subscribe(SHOP, "c")] == ["RB030", "RB039"]
    with login(SHOP) as cursor:
        again = "select * from relaybox.replay('b', 'earliest', 'test', '20', second_cursor => true)"
        assert outcome(cursor, again) == "RB039"
        cursor.execute("select relaybox.unsubscribe('a')")
        assert outcome(cursor, again) == "RB039"  # 3 and 3 lanes
        shops.query(STORE, "select relaybox.set_consumer_quota(2, 6, %s)", SHOP)
        assert outcome(cursor, again) is None
    assert shops.query(STORE, LIVE, SHOP) == [(2, 6)]
    assert subscribe(SHOP, "d") == "RB039"


def test_who_sets_a_quota_and_whom_it_binds(shops: World) -> None:
    """The owner and who has its rights are free; `set role` evades nothing; a quota of its own ends with null; a lower one takes nothing."""
    shops.query(STORE, "select relaybox.set_consumer_quota(1, 64)")
    assert [subscribe(SHOP, "a"), subscribe(SHOP, "b"), subscribe(SHOP, "c", 1, f"set role {TEAM}")] == [None, "RB039", "RB039"]
    assert [subscribe(OTHER, "d"), subscribe(OTHER, "e")] == [None, "RB039"]
    assert [subscribe(DEPUTY, f"deputy{n}") for n in range(3)] == [None] * 3
    shops.query(STORE, "select relaybox.subscribe('owner' || n, 'flights') from generate_series(1, 3) n")
    shops.query(STORE, "select relaybox.set_consumer_quota(3, null, %s)", SHOP)
    assert [subscribe(SHOP, "f"), subscribe(SHOP, "g"), subscribe(SHOP, "h")] == [None, None, "RB039"]
    shops.query(STORE, "select relaybox.set_consumer_quota(null, null, %s)", SHOP)
    assert shops.query(STORE, LIVE, SHOP) == [(3, 3)]
    with login(SHOP) as cursor:
        cursor.execute("select from relaybox.fetch('g')")
        cursor.execute("select relaybox.unsubscribe('f')")
        assert outcome(cursor, "select relaybox.subscribe('h', 'flights')") == "RB039"
        assert outcome(cursor, "select relaybox.set_consumer_quota(100, 100, %s)", SHOP) == "42501"
        assert outcome(cursor, "update relaybox_internal.consumer_quota set lanes = 100") == "42501"
    with shops.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        assert outcome(cursor, "select relaybox.set_consumer_quota(-1, 5)") == "RB036"
        assert outcome(cursor, "select relaybox.set_consumer_quota(1, 5, 'nobody_of_that_name')") == "RB036"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_eight_at_once_never_exceed_a_quota(shops: World, isolation: str) -> None:
    """Each counts the others, also those that commit after its snapshot; some get in."""
    shops.query(STORE, "select relaybox.set_consumer_quota(3, 64, %s)", SHOP)
    begun = Barrier(8)

    def race(n: int) -> str | None:
        connection = psycopg2.connect(service=STORE, user=SHOP, password="secret")
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"set transaction isolation level {isolation}")
                cursor.execute("select count(*) from relaybox.subscriptions")
                begun.wait(patience(30))
                result = outcome(cursor, "select relaybox.subscribe(%s, 'flights', lanes => 2)", f"racer{n}")
            if result is None:
                connection.commit()
            return result
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(race, range(8)))
    made = results.count(None)
    assert shops.query(STORE, LIVE, SHOP) == [(made, 2 * made)]
    assert set(results) - {None} == ({"RB039"} if isolation == "read committed" else {"40001"})
    assert made == (3 if isolation == "read committed" else 1)


def test_topics_that_a_login_asked_for_are_counted(shops: World) -> None:
    """Where topics come by subscription: also those whose subscription has ended. The file's topics and those of others are not counted."""
    shops.query(STORE, "update relaybox_internal.stream set topics_by_subscription = true")
    topics = "select topic from relaybox_internal.known_topics where carried_by = 'subscription' order by topic"
    shops.query(STORE, "select relaybox.set_consumer_quota(10, 10, %s, topics => 2)", SHOP)
    asked = "select relaybox.subscribe(%s, %s)"
    with login(SHOP) as cursor:
        assert [outcome(cursor, asked, name, topic) for name, topic in (("a", "t1"), ("b", "t1"), ("c", "t2"))] == [None] * 3
        for name in "abc":
            cursor.execute("select relaybox.unsubscribe(%s)", (name,))
        with pytest.raises(psycopg2.Error) as refused:
            cursor.execute(asked, ("d", "t3"))
        assert refused.value.pgcode == "RB039"
        assert (
            "subscription d is refused: role quota_shop would have asked for 3 topics in this store, its quota is 2 topics"
        ) in str(refused.value)
        assert "set_consumer_quota(SUBSCRIPTIONS, LANES, 'quota_shop', topics => TOPICS)" in str(refused.value.diag.message_hint)
        assert shops.query(STORE, topics) == [("t1",), ("t2",)]
        with login(OTHER) as other:
            assert outcome(other, asked, "e", "t3") is None
        assert [outcome(cursor, asked, name, topic) for name, topic in (("f", "t3"), ("g", "flights"), ("h", "t4"))] == [
            *(None, None),
            "RB039",
        ]
        shops.query(STORE, "select relaybox_internal.register_topics('flights', '{flights,t1}')")
        assert outcome(cursor, asked, "h", "t4") is None
        shops.query(STORE, "select relaybox.set_consumer_quota(null, null, %s)", SHOP)
        assert outcome(cursor, asked, "i", "t5") is None
    shops.query(STORE, "select relaybox.set_consumer_quota(null, null, topics => 1)")
    with login(OTHER) as other:
        assert outcome(other, asked, "j", "t6") == "RB039"
    assert shops.query(STORE, topics) == [("t2",), ("t3",), ("t4",), ("t5",)]
    with shops.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        assert outcome(cursor, "select relaybox.set_consumer_quota(1, 5, topics => -1)") == "RB036"
        assert (
            outcome(cursor, "select relaybox.set_consumer_quota(subscriptions => 9, lanes => 9, role_name => %s)", SHOP) is None
        )
