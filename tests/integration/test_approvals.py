"""Stores that give messages again only after an approval: who is not a driver has no way around Airflow in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.consumer import Consumer
from relaybox.stores.init.one_store import initialise_store
from relaybox.subscriptions import dead_letters, subscriptions
from relaybox.subscriptions.approvals import pin_subscription
from relaybox.subscriptions.redriving import redrive_dead_letters
from tests.support.services import break_service, read_service
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

CONSUMER, DRIVER = "approved_consumer", "approved_driver"

AGAIN = (
    "select relaybox.redrive('billing', 'why')",
    "select relaybox.redrive('billing', 'why', 1)",
    "select relaybox.replay('billing', 'earliest', 'why')",
    "select relaybox.replay('billing', '2', 'why', '3', second_cursor => true)",
    "select relaybox.subscribe('ended', 'flights')",
    "select relaybox.subscribe('ended', 'flights', '8')",
)
"""Each gives a consumer messages again that it had."""

ALLOWED = (
    "select * from relaybox.replay('billing', 'earliest', 'why', dry_run => true)",
    "select relaybox.subscribe('ended', 'flights', '9')",
    "select relaybox.subscribe('fresh', 'flights')",
    "select relaybox.fetch_one_at_a_time('billing', 'why')",
    "select relaybox.change_delayed('billing', 'pass', 'why')",
    "select relaybox.drop_dead_letter((select min(dead_letter_id) from relaybox.dead_letters where state = 'open'), 'why')",
    "select relaybox.unsubscribe('billing', 'why')",
)


def require_approval(world: World, *, asked: bool) -> str:
    """Writes it into relaybox.yaml, and runs init; what init says about it."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"][STORE] = {"require_approval": asked}
    world.path.write_text(yaml.safe_dump(document))
    return initialise_store(world.routes.stores[STORE], world.routes).approvals


@contextmanager
def session(user: str) -> Iterator[Any]:
    with closing(psycopg2.connect(service=STORE, user=user, password="secret")) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        yield cursor


def refusal(cursor: Any, statement: str) -> psycopg2.extensions.Diagnostics:
    with pytest.raises(psycopg2.Error) as raised:
        cursor.execute(statement)
    assert raised.value.pgcode == "RB042", raised.value
    return raised.value.diag


@pytest.fixture
def approved(world: World) -> Iterator[World]:
    """12 messages. `billing` has a dead letter and has done the rest; `ended` had done 8 of them when it ended."""
    deliver(world, 12)
    world.query(STORE, f"create role {CONSUMER} login password 'secret' in role relaybox_consumer, relaybox_operator")
    world.query(STORE, f"create role {DRIVER} login password 'secret' in role relaybox_driver")
    for subscription in ("billing", "ended"):
        world.query(STORE, "select relaybox.subscribe(%s, 'flights', nack_limit => 1)", subscription)
    world.query(STORE, "select * from relaybox.fetch('billing'); select relaybox.nack('billing', 1, 'no')")
    with Consumer(STORE, "billing", until_empty=True) as consumer:
        consumer.run(lambda *_: None)
    world.query(STORE, "select * from relaybox.fetch('ended', 8); select relaybox.ack('ended', 8)")
    world.query(STORE, "select relaybox.unsubscribe('ended')")
    assert require_approval(world, asked=True) == "switched on"
    yield world
    for role in (CONSUMER, DRIVER):
        world.query(STORE, f"drop owned by {role}; drop role {role}")


def test_a_consumer_gets_no_message_again_without_an_approval(approved: World) -> None:
    """Neither of its own subscription nor under an ended name; the error names the DAG. Nothing was changed."""
    states = "select subscription_id, lane, version, done_stream_position from relaybox_internal.lane_cursors order by 1, 2"
    before = approved.query(STORE, states)
    with session(CONSUMER) as cursor:
        for statement in AGAIN:
            says = refusal(cursor, statement)
            assert CONSUMER in says.message_primary
            assert f"relaybox_{'redrive' if 'redrive(' in statement else 'replay'}__ROUTE" in says.message_hint
        cursor.execute("select * from relaybox.fetch('billing')")
        assert cursor.fetchall() == []
    assert approved.query(STORE, states) == before


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_an_old_snapshot_subscribes_to_nothing_again(approved: World, isolation: str) -> None:
    """It does not see how far a subscription of the name had come, nor that it has ended since; a transaction of READ COMMITTED does."""
    with session(CONSUMER) as old, session(CONSUMER) as cursor:
        old.execute(f"begin isolation level {isolation}; select from relaybox.subscriptions")
        deliver(approved, 3)
        cursor.execute("select relaybox.subscribe('brief', 'flights')")
        cursor.execute("begin; select * from relaybox.fetch('brief', 100); select relaybox.ack('brief', 15); commit")
        cursor.execute("select relaybox.unsubscribe('brief')")
        assert isolation.upper() in refusal(old, "select relaybox.subscribe('brief', 'flights', 'latest')").message_primary
        old.execute("rollback")
        cursor.execute("select relaybox.subscribe('brief', 'flights', 'latest')")
        assert cursor.fetchall() == [(16,)]
    assert require_approval(approved, asked=False) == "switched off"
    with session(CONSUMER) as old:
        old.execute(f"begin isolation level {isolation}; select relaybox.subscribe('brief-2', 'flights'); commit")


def test_what_gives_nothing_again_needs_no_approval(approved: World) -> None:
    """A new name begins where it likes; an ended one where it ended."""
    with session(CONSUMER) as cursor:
        for statement in ALLOWED:
            cursor.execute(statement)


def test_drivers_and_the_owner_need_no_approval_in_sql(approved: World) -> None:
    """The tasks of Airflow are drivers, and ask for the approval themselves."""
    store = approved.routes.stores[STORE]
    (letter,) = approved.query(STORE, "select dead_letter_id, attempts from relaybox.dead_letters where state = 'open'")
    service = read_service(STORE)
    break_service(STORE, user=DRIVER, password="secret")
    try:
        assert subscriptions.replay(store, "billing", "3", through="5", reason="why", second_cursor=True).message_count == 3
        pinned = pin_subscription(store, "billing", "flights")
        redriven = redrive_dead_letters(store, "billing", {letter[0]: letter[1]}, reason="why", on_behalf_of="ada", pinned=pinned)
        assert redriven.redriven == 1
    finally:
        break_service(STORE, user=service["user"], password=service["password"])
    approved.query(STORE, "select relaybox.replay('billing', 'earliest', 'why')")
    approved.query(STORE, "select relaybox.subscribe('ended', 'flights')")


def test_who_has_taken_another_role_is_that_role(approved: World) -> None:
    """A login that is a driver too, and works as a consumer, is asked for an approval; one that works as a driver is not."""
    approved.query(STORE, f"grant relaybox_driver to {CONSUMER}")
    with session(CONSUMER) as cursor:
        cursor.execute("set role relaybox_consumer")
        assert "relaybox_consumer" in refusal(cursor, AGAIN[0]).message_primary
        cursor.execute("reset role")
        cursor.execute(AGAIN[0])


def test_a_subscription_that_ended_before_the_question_begins_again_at_the_newest_message(approved: World) -> None:
    """What it had done was not recorded: only what nobody can have done is sure."""
    approved.query(STORE, "update relaybox_internal.subscription set done_at_end = null where subscription = 'ended'")
    with session(CONSUMER) as cursor:
        refusal(cursor, "select relaybox.subscribe('ended', 'flights', '12')")
        cursor.execute("select relaybox.subscribe('ended', 'flights', 'latest')")


def test_lives_of_a_name_cannot_be_chained_backwards(approved: World) -> None:
    """The next life begins where the one before ended, also when it did nothing."""
    with session(CONSUMER) as cursor:
        cursor.execute("select relaybox.subscribe('ended', 'flights', '11')")
        cursor.execute("select relaybox.unsubscribe('ended')")
        refusal(cursor, "select relaybox.subscribe('ended', 'flights', '10')")
        cursor.execute("select relaybox.subscribe('ended', 'flights', '11')")


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_subscription_that_ends_meanwhile_is_an_earlier_life_too(approved: World, isolation: str) -> None:
    """`subscribe` began before the end was committed, and waited for it."""
    waits = "select count(*) from pg_stat_activity where usename = %s and wait_event_type = 'Lock'"
    with session(CONSUMER) as ending, session(CONSUMER) as cursor, ThreadPoolExecutor(1) as beside:
        cursor.execute(f"begin isolation level {isolation}; select 1")
        ending.execute("begin; select relaybox.unsubscribe('billing')")
        refused = beside.submit(refusal, cursor, "select relaybox.subscribe('billing', 'flights')")
        wait_until(lambda: approved.value(STORE, waits, CONSUMER) == 1, "subscribe waits for the end of unsubscribe")
        ending.execute("commit")
        assert refused.result()
        cursor.execute("rollback")


def test_the_question_is_switched_under_consumers(approved: World) -> None:
    """Off and on again between a fetch and its acknowledgement: each call asks anew, and what was fetched is acknowledged."""
    with session(CONSUMER) as cursor:
        cursor.execute("select relaybox.subscribe('fresh', 'flights')")
        cursor.execute("select token from relaybox.fetch('fresh', 5, worker => 'one')")
        ((token,), *_) = cursor.fetchall()
        assert require_approval(approved, asked=False) == "switched off"
        cursor.execute(AGAIN[0])
        assert require_approval(approved, asked=True) == "switched on"
        assert require_approval(approved, asked=True) == "unchanged"
        cursor.execute("select relaybox.ack('fresh', 5, %s)", (token,))
        refusal(cursor, "select relaybox.replay('fresh', '1', 'why')")


def test_a_command_says_where_the_approval_is_given(approved: World) -> None:
    """Of an engineer on call, who sees the store and acts as a consumer."""
    approved.query(STORE, f"grant relaybox_viewer to {CONSUMER}")
    service = read_service(STORE)
    break_service(STORE, user=CONSUMER, password="secret")
    try:
        with pytest.raises(errors.ApprovalRequired, match=r"\(RB042\).* trigger the DAG relaybox_redrive__ROUTE"):
            dead_letters.redrive(approved.routes.stores[STORE], "billing", reason="why")
    finally:
        break_service(STORE, user=service["user"], password=service["password"])
