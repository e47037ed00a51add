"""An open transaction of a consumer or a reader stops neither a hop nor init nor another consumer, whatever it has called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg2
import pytest

from tests.support.cli import invoke
from tests.support.services import read_service
from tests.support.world import World

STORE = "analytics"
ROLES = ("relaybox_consumer", "relaybox_reader")
QUERY = "6b0d0f9e-3c5a-4b53-8d6e-1f3fb1f0a001"
FETCHED = "select relaybox.{call} from (select stream_position, token from relaybox.fetch('{name}', 1)) m"
CALLS = {
    "ack_query": f"select relaybox.ack_query('ack_query', '{QUERY}', 1)",
    "ack": FETCHED.format(name="ack", call="ack('ack', m.stream_position, m.token)"),
    "begin_query": f"select relaybox.begin_query('begin_query', 'flights', 1, '{QUERY}')",
    "cancel_replay": "select relaybox.cancel_replay('cancel_replay', 'why')",
    "change_delayed": "select relaybox.change_delayed('change_delayed', 'pass', 'why')",
    "clear_endpoint_failure": "select relaybox.clear_endpoint_failure('clear_endpoint_failure')",
    "detached_files": "select count(*) from relaybox.detached_files('flights', '/files')",
    "drop_dead_letter": "select relaybox.drop_dead_letter(dead_letter_id, 'why') from relaybox.dead_letters where subscription = 'drop_dead_letter'",
    "extend_lease": FETCHED.format(name="extend_lease", call="extend_lease('extend_lease', m.token)"),
    "endpoint_failure": "select count(*) from relaybox.endpoint_failure('billing')",
    "fetch": "select from relaybox.fetch('fetch', 1)",
    "fetch_one_at_a_time": "select relaybox.fetch_one_at_a_time('fetch_one_at_a_time', 'why')",
    "lag": "select from relaybox.lag('billing')",
    "listen": "select relaybox.listen('billing')",
    "my_quota": "select from relaybox.my_quota()",
    "nack": FETCHED.format(name="nack", call="nack('nack', m.stream_position, 'why', m.token)"),
    "read_detached": "select count(*) from relaybox.read_detached('flights', 0)",
    "read_log": "select from relaybox.read_log('flights/2')",
    "read_stream": "select from relaybox.read_stream('flights')",
    "record_endpoint_failure": "select relaybox.record_endpoint_failure('record_endpoint_failure', 'e', 'why', 1)",
    "redrive": "select relaybox.redrive('redrive', 'why')",
    "release": FETCHED.format(name="release", call="release('release', m.token)"),
    "replay": "select relaybox.replay('replay', 'earliest', 'why')",
    "rest_seconds": "select relaybox.rest_seconds('billing')",
    "stream_range": "select from relaybox.stream_range('flights', '1', 'latest')",
    "stream_range_with_files": "select from relaybox.stream_range_with_files('flights', '1', 'latest')",
    "subscribe": "select relaybox.subscribe('subscribe', 'invoices')",
    "trace_cause": "select count(*) from relaybox_internal.trace_cause(1)",
    "trace_derived": "select count(*) from relaybox_internal.trace_derived('flights', 1)",
    "unsubscribe": "select relaybox.unsubscribe('unsubscribe', 'why')",
    "count_replay": "select relaybox.count_replay('billing', 'earliest')",
}
"""One call of each function; those that change a subscription have one of their own, the others look at billing."""

MORE_CALLS = {
    "replay with a second cursor": "select relaybox.replay('replay', 'earliest', 'why', second_cursor => true)",
    "a dry run": "select relaybox.replay('billing', 'earliest', 'why', dry_run => true)",
    "a dry run with a second cursor": "select relaybox.replay('billing', 'earliest', 'why', second_cursor => true, dry_run => true)",
    "a subscription to the stream": "select relaybox.subscribe('stream', 'flights')",
}
GRANTED = """
select distinct p.proname from pg_proc p cross join unnest(%s) role
where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and p.prosecdef and has_function_privilege(role,
p.oid, 'execute')
"""
OF_OTHERS = (
    "select relaybox.nack('billing', stream_position, 'why', token) from relaybox.fetch('billing', 1)",
    "select relaybox.redrive('billing', 'why')",
    "select relaybox.ack('billing', stream_position, token) from relaybox.fetch('billing', 1)",
    "select relaybox.replay('billing', 'earliest', 'why')",
    "select relaybox.replay('billing', 'earliest', 'why', second_cursor => true)",
    "select relaybox.cancel_replay('billing', 'why')",
    "select relaybox.unsubscribe('billing', 'why')",
    "select relaybox.subscribe('another', 'invoices')",
    "select relaybox.subscribe('third', 'weather')",
    "select relaybox.subscribe('billing', 'flights')",
)


@contextmanager
def logins(world: World, count: int) -> Iterator[list[str]]:
    """Logins that may consume and read, and nothing else."""
    names = [f"sitter_{number}" for number in range(count)]
    for name in names:
        world.query(STORE, f"create role {name} login password 'secret' in role {', '.join(ROLES)}")
    try:
        yield names
    finally:
        for name in names:
            world.query(STORE, f"drop owned by {name}; drop role {name}")


@contextmanager
def sitting(login: str, call: str, store: str = STORE) -> Iterator[Any]:
    """The call was made, and its transaction stays open."""
    session = psycopg2.connect(**{**read_service(store), "user": login, "password": "secret"})
    with closing(session), session.cursor() as cursor:
        cursor.execute(call)
        yield cursor


def consume(world: World, *calls: str) -> None:
    """Each call commits, and waits for nobody."""
    with world.session(STORE, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("set lock_timeout = '200ms'")
        for call in calls:
            cursor.execute(call)


@pytest.fixture
def subscribed(world: World) -> World:
    """A subscription for each function that changes one, each with a message to read; some have what the function needs."""
    world.change_route(topics_by_subscription=True, policy="processed", processed_by=["billing"])
    world.send("a", "b")
    world.transfer_all()
    for name in ("billing", *CALLS):
        if name not in ("subscribe", "begin_query", "ack_query"):
            world.query(STORE, "select relaybox.subscribe(%s, 'flights', nack_limit => 1)", name)
    world.query(STORE, "select relaybox.begin_query('ack_query', 'flights', 1, %s)", QUERY)
    for name in ("redrive", "drop_dead_letter"):
        world.query(STORE, FETCHED.format(name=name, call=f"nack('{name}', m.stream_position, 'why', m.token)"))
    for name in ("cancel_replay", "replay"):
        world.query(STORE, FETCHED.format(name=name, call=f"ack('{name}', m.stream_position, m.token)"))
    world.query(STORE, "select relaybox.replay('cancel_replay', 'earliest', 'why')")
    return world


def test_an_open_transaction_of_any_function_stops_nobody_else(subscribed: World) -> None:
    """All functions that consumers and readers may call, called and not committed at once, each by a login of its own."""
    world = subscribed
    assert {name for (name,) in world.query(STORE, GRANTED, list(ROLES))} == set(CALLS)
    assert world.query(STORE, "select distinct state from relaybox.dead_letters") == [("open",)]
    calls = [*CALLS.values(), *(call for name, call in MORE_CALLS.items() if "replay" not in name)]
    with logins(world, len(calls)) as names, ExitStack() as open_transactions:
        for name, call in zip(names, calls, strict=True):
            cursor = open_transactions.enter_context(sitting(name, call))
            assert cursor.rowcount >= 1, call
        world.send("c")
        world.transfer_all()
        consume(world, *OF_OTHERS[:-4])
        world.settle_all()
        consume(world, *OF_OTHERS[-4:])
        world.transfer_all()
        world.query(STORE, "update relaybox_internal.installed_object set digest = 'older' where strpos(identity, '(') > 0")
        for command in ("status", "init"):
            run = invoke(command)
            assert (run.exit_code, run.stderr) == (0, ""), command
        assert world.payloads("flights/2") == ["a", "b", "c"]


@pytest.mark.parametrize("call", [CALLS["replay"], *MORE_CALLS.values()], ids=["replay", *MORE_CALLS])
def test_an_open_replay_or_dry_run_stops_nobody_else(subscribed: World, call: str) -> None:
    """Also alone: what one call holds is not hidden by what another one holds."""
    with logins(subscribed, 1) as (login,), sitting(login, call):
        consume(subscribed, *OF_OTHERS)


@pytest.mark.parametrize("store", ["hub", "analytics"])
def test_a_topic_that_a_consumer_asks_for_and_does_not_commit_stops_nobody(world: World, store: str) -> None:
    """Whatever store it sits at: others ask for the same topic, it travels up, init names it, and other topics are delivered."""
    world.change_route(topics_by_subscription=True)
    world.query(store, "create role mallory login password 'secret' in role relaybox_consumer")
    carried = "select topics from relaybox_internal.hop_out where hop = 'flights/1'"
    try:
        with sitting("mallory", "select relaybox.subscribe('evil', 'invoices')", store) as evil:
            consume(world, "select relaybox.subscribe('good', 'invoices')")
            world.send("a")
            world.transfer_all()
            world.settle_all()
            world.transfer_all()
            assert world.payloads("flights/2") == ["a"]
            assert world.value("airline", carried) == ["flights", "invoices"]
            world.send("bill", topic="invoices")
            world.transfer_all()
            assert world.query("analytics", "select payload from relaybox.fetch('good')") == [("bill",)]
            world.change_route(topics=["flights", "invoices"], topics_by_subscription=True)
            evil.connection.commit()
        world.settle_all()
        assert world.value("airline", carried) == ["flights", "invoices"]
        world.change_route(topics=["flights"], topics_by_subscription=True)
        world.settle_all()
        assert world.value("airline", carried) == ["flights"]
    finally:
        world.query(store, "drop owned by mallory; drop role mallory")
