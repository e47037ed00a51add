"""What the logins of a deployment may do: the page and the triggerer read, tasks act as the owner, nobody else gets in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox.monitoring.hop_history import read_flow
from relaybox.monitoring.message_search import find_messages
from relaybox.monitoring.overview import read_overview
from relaybox.payloads import PayloadStore
from relaybox.payloads.place_stores import StoreIdentity, record_stores
from relaybox.subscriptions.dead_letters import list_dead_letters
from relaybox.subscriptions.subscriptions import count_replay, list_subscriptions
from tests.support.cli import invoke
from tests.support.payloads import PLACE, add_place, place_of
from tests.support.services import break_service, read_service
from tests.support.world import STORES, World, routes_file

WRITES = (
    "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'forged')",
    "update relaybox_internal.hop_out set destination = destination",
    "delete from relaybox.consumer_action",
    "select relaybox.subscribe('mine', 'flights')",
    "select * from relaybox.fetch('billing')",
    "select relaybox.ack('billing', 1)",
    "select relaybox.redrive('billing', 'why')",
    "select relaybox.replay('billing', 'earliest', 'why')",
    "select relaybox.unsubscribe('billing', 'why')",
    "select relaybox_internal.ensure_outbox_segments(100)",
    "select relaybox_internal.record_action(1, 'billing', 'redrive', 'forged', '{}')",
    "select nextval('relaybox.outbox_seq')",
    "do $$ begin lock table relaybox.outbox in share update exclusive mode; end $$",
    "select from relaybox.migration for update",
    "create temporary table mine (n integer)",
    "create table relaybox.mine (n integer)",
)


@pytest.fixture
def read_by_page(databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three stores of their own databases with messages and a subscription; their services log in as a member of relaybox_reader."""
    world = World(routes_file(tmp_path))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
    world.initialise()
    world.send("a", "b", "c")
    world.transfer_all()
    world.settle_all()
    world.query("analytics", "select relaybox.subscribe('billing', 'flights', start => 'earliest')")
    for store, parameters in databases.items():
        world.query(
            store,
            f"""
            drop role if exists page_of_a_test, viewer_of_a_test, nobody_of_a_test;
            create role viewer_of_a_test login password 'p' in role relaybox_viewer, pg_read_all_stats;
            create role page_of_a_test login password 'p' in role relaybox_reader, pg_read_all_stats;
            create role nobody_of_a_test login password 'p';
            alter database {parameters["dbname"]} set application_name = ''
            """,
        )
        break_service(store, user="page_of_a_test", password="p")
    return world


def test_the_page_reads_everything_and_changes_nothing(read_by_page: World) -> None:
    """Every look of the page, the triggerer's poll and the commands that read, with a login that may read only; each write is refused."""
    world = read_by_page
    routes = world.routes
    read_overview(routes)
    for hop in routes.hops:
        read_flow(hop, window=timedelta(hours=1))
    counted = count_replay(routes.store("analytics"), "billing", "earliest", through=None, rows_per_second=None)
    assert (counted.message_count, counted.dry_run) == (3, True)
    message_id = world.value("airline", "select message_id::text from relaybox.outbox limit 1")
    find_messages([world.route], "UA", 1)
    for command in (
        "status", "metrics", "holdback", "subscriptions", "dead-letters list", "senders", "verify flights", f"where {message_id}",
        "retention --dry-run",
    ):  # fmt: skip
        run = invoke(*command.split())
        assert run.exit_code == 0, (command, run.stderr)
    assert hops_that_the_triggerer_sees(world) == {"flights/1", "flights/2"}
    for write in WRITES:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            world.query("analytics", write)


def hops_that_the_triggerer_sees(world: World) -> set[str]:
    from relaybox.airflow.store_watch import WORK_OF_HOPS  # imports Airflow

    found: set[str] = set()
    for store in STORES:
        with world.session(store) as session:
            found |= WORK_OF_HOPS.ask(session).keys()
    return found


PAYLOADS = (
    "select payload from relaybox.outbox",
    "select key from relaybox.outbox",
    "select o from relaybox.outbox o",
    "select payload from relaybox_internal.sent_rows",
    "select key, headers from relaybox_internal.sent_rows",
    "select payload from relaybox_internal.log",
    "select headers from relaybox_internal.log",
    "select payload from relaybox_internal.log_1",
    "select payload from relaybox.inbox",
    "select * from relaybox.dead_letters",
    "select * from relaybox.read_log('flights/2', 0, 10)",
    "select * from relaybox.read_stream('flights', 0, 10)",
    "select * from relaybox_internal.read_log_slice(1, 1, 10, 1)",
    "select * from relaybox_internal.read_redriven(1, 1, 1)",
    "copy relaybox_internal.log_1 to stdout",
)


def _let_a_place_remember(world: World, store: str) -> None:
    """As prepare_place(), for which a viewer's login is too weak."""
    add_place(world, world.path.with_name("payloads"))
    files = PayloadStore(place_of(world).location)
    files.prepare()
    identity = StoreIdentity(store, world.value(store, "select store_id::text from relaybox_internal.store"), 0)
    record_stores(files.files, [], [identity], at=datetime.now(UTC), recorded_by="test")


def test_a_viewer_sees_how_everything_is_and_no_payload(read_by_page: World, databases: Mapping[str, Mapping[str, Any]]) -> None:
    """The page's looks, the triggerer's poll and the commands that show no message; a dead letter without its message."""
    world, routes = read_by_page, read_by_page.routes
    with psycopg2.connect(**databases["analytics"]) as owner, owner.cursor() as cursor:
        cursor.execute("update relaybox_internal.subscription set nack_limit = 1")
        cursor.execute("select token from relaybox.fetch('billing', 1, worker => 'w')")
        cursor.execute("select relaybox.nack('billing', 1, 'bad', %s)", cursor.fetchone())
        cursor.execute("select token from relaybox.fetch('billing', 1, worker => 'w')")
        cursor.execute("select relaybox.ack('billing', 2, %s)", cursor.fetchone())
    for store in STORES:
        break_service(store, user="viewer_of_a_test")
    (letter,) = list_dead_letters(routes.store("analytics"))
    assert (letter.reason, letter.payload, letter.payload_size_bytes, letter.key, letter.headers) == ("refused", *[None] * 4)
    (subscription,) = list_subscriptions(routes.store("analytics"))
    acknowledged = world.value("analytics", "select message_id::text from relaybox_internal.log where log_position = 2")
    assert (subscription.done_stream_position, subscription.done_message_id) == (2, acknowledged)
    read_overview(routes)
    for hop in routes.hops:
        read_flow(hop, window=timedelta(hours=1))
    message_id = world.value("airline", "select message_id::text from relaybox.outbox limit 1")
    find_messages([world.route], "UA", 1)
    for command in (
        "status", "metrics", "holdback", "subscriptions", "senders", f"where {message_id}", "retention --dry-run",
        "dead-letters list",
    ):  # fmt: skip
        run = invoke(*command.split())
        assert run.exit_code == 0, (command, run.stderr)
    _let_a_place_remember(world, "analytics")
    run = invoke("payloads", "forget", PLACE, "analytics", "--reason", "why")
    assert "relaybox.yaml still has store analytics" in run.stderr
    assert hops_that_the_triggerer_sees(world) == {"flights/1", "flights/2"}
    for refused in (*WRITES, *PAYLOADS):
        with pytest.raises((psycopg2.errors.InsufficientPrivilege, psycopg2.errors.UndefinedFunction)):
            world.query("analytics", refused)


def test_init_shuts_out_logins_without_a_grant_once(read_by_page: World, databases: Mapping[str, Mapping[str, Any]]) -> None:
    """A database that holds only the store: no CONNECT, no TEMPORARY. What its owner gives back stays, and init says what is open."""
    world = read_by_page
    with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
        psycopg2.connect(**{**read_service("hub"), "user": "nobody_of_a_test"})
    for store, parameters in databases.items():
        break_service(store, user=parameters["user"], password=parameters["password"])
    assert "every login" not in invoke("init").stdout
    world.query("hub", f"grant temporary on database {databases['hub']['dbname']} to public")
    again = invoke("init")
    assert "hub: every login of the server has TEMPORARY on the database" in " ".join(again.stdout.split())
    assert "analytics: every login" not in again.stdout


def test_a_database_that_holds_something_else_keeps_its_rights(
    databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application's logins must not be shut out by an init; it says what is open."""
    world = World(routes_file(tmp_path))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
    world.query("airline", "create table public.flight (number integer)")
    initialised = invoke("init", "--json").document
    assert {store["store"]: tuple(store["public_rights_revoked"]) for store in initialised["stores"]} == {
        "airline": (),
        "hub": ("CONNECT", "TEMPORARY"),
        "analytics": ("CONNECT", "TEMPORARY"),
    }
    said = " ".join(invoke("init").stdout.split())
    assert "airline: every login of the server has CONNECT and TEMPORARY on the database" in said
    assert "hub: every login" not in said


@pytest.mark.parametrize(("role", "recorded"), [("relaybox_consumer", None), ("relaybox_consumer, relaybox_operator", "ada")])
def test_only_an_operator_says_for_whom_it_acts(world: World, role: str, recorded: str | None) -> None:
    """A session can set what it likes; the login is on record in any case."""
    world.query("hub", f"drop role if exists acting_of_a_test; create role acting_of_a_test login password 'p' in role {role}")
    with (
        psycopg2.connect(**{**read_service("hub"), "user": "acting_of_a_test", "password": "p"}) as session,
        session.cursor() as cursor,
    ):
        cursor.execute("set relaybox.on_behalf_of = 'ada'")
        cursor.execute("select relaybox.subscribe('billing', 'flights')")
        cursor.execute("select relaybox.unsubscribe('billing', 'over')")
    session.close()
    audit = "select done_by, detail ->> 'on_behalf_of' from relaybox.consumer_action"
    assert world.query("hub", audit) == [("acting_of_a_test", recorded)] * 2
