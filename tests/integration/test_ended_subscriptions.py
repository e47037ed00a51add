"""Subscriptions that ended stay for good, and make nothing slower that is about the open ones."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.integration.subscription_roles import bind, bind_subscriptions, login
from tests.support.streams import STORE, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

ENDED = 63_000

QUERIES = {
    "subscriptions": "select * from relaybox.subscriptions",
    "dead letters": "select * from relaybox.dead_letters",
    "one subscription": "select * from relaybox.lag('billing')",
}
MOST_PAGES = 300
"""Of 8 KiB; the table of subscriptions alone has over 1,200."""


@pytest.fixture
def aged(world: World) -> Iterator[World]:
    """`billing` with a dead letter and a second cursor, and 63,000 subscriptions and second cursors that ended before."""
    deliver(world, 12)
    world.query(STORE, "create role app_billing login password 'secret' in role relaybox_consumer")
    world.query(STORE, "create role team_flights login password 'secret' in role relaybox_consumer, relaybox_operator")
    for subscription in ("billing", "refunds"):
        world.query(STORE, "select relaybox.subscribe(%s, 'flights', nack_limit => 1)", subscription)
    world.query(STORE, "select * from relaybox.fetch('billing'); select relaybox.nack('billing', 1, 'no')")
    world.query(STORE, "select relaybox.replay('billing', '1', 'why', second_cursor => true)")
    world.query(
        STORE,
        """
        insert into relaybox_internal.subscription (
            subscription, stream_id, first_stream_position, ended_at, through_stream_position, replay_of
        )
        select
            case when n %% 2 = 0 then 'refunds.replay-' || n else 'nightly-' || n end, p.stream_id, 1, clock_timestamp(),
            case when n %% 2 = 0 then 5 end, case when n %% 2 = 0 then p.subscription_id end
        from generate_series(1, %s) n
        join relaybox_internal.subscription p on p.subscription = 'refunds'
        """,
        ENDED,
    )
    world.query(STORE, "vacuum (analyze) relaybox_internal.subscription")
    assert bind_subscriptions(world, asked=True) == "switched on"
    bind(world, "billing", "app_billing")
    world.query(STORE, "select relaybox_internal.bind_operator('flights', 'team_flights')")
    yield world
    for role in ("app_billing", "team_flights"):
        world.query(STORE, f"drop owned by {role}; drop role {role}")


def pages_read(world: World, role: str, query: str) -> int:
    """How many pages a query reads in a session of a role."""
    with world.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"set session authorization {role}")
        cursor.execute(query)  # functions are compiled, and the catalog is in the session's caches
        cursor.execute(f"explain (analyze, buffers, format json) {query}")
        plan = cursor.fetchone()[0]
    return int((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Shared Hit Blocks"])


@pytest.mark.parametrize("role", ["app_billing", "team_flights"])
def test_what_is_open_is_read_without_what_ended(aged: World, role: str) -> None:
    """By a role that is bound to one subscription, and by an operator of the stream that all of them read."""
    pages = {name: pages_read(aged, role, query) for name, query in QUERIES.items()}
    assert max(pages.values()) < MOST_PAGES, pages
    with login(role) as cursor:
        cursor.execute("select count(*), min(replay_of) from relaybox.subscriptions")
        assert cursor.fetchone() == ((2, "billing") if role == "app_billing" else (3, "billing"))
        cursor.execute("select subscription from relaybox.dead_letters")
        assert cursor.fetchall() == [("billing",)]


def test_an_ended_name_begins_again_without_reading_what_ended(aged: World) -> None:
    """`subscribe` asks what an earlier subscription of the name had done, where messages again need an approval."""
    plan = aged.query(STORE, "explain select from relaybox_internal.subscription where subscription = 'nightly-7'")
    assert "subscription_of_name" in str(plan)
    plan = aged.query(STORE, "explain select from relaybox_internal.subscription where replay_of = 1")
    assert "subscription_second_cursors" in str(plan)
