"""A login with relaybox_driver alone moves, confirms, verifies and retains messages; it may not alter the schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox import errors
from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.services import break_service
from tests.support.sinks import webhook
from tests.support.world import STORES, World, routes_file

pytestmark = pytest.mark.thorough

COUNT = 25
REFUSED = (
    "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'forged')",
    "insert into relaybox_internal.outbox_overflow select * from relaybox.outbox",
    "update relaybox.outbox set payload = 'forged'",
    "update relaybox_internal.log set payload = 'forged'",
    "delete from relaybox_internal.log",
    "select payload from relaybox.dead_letters",
    "select payload from relaybox.inbox",
    "select * from relaybox.read_stream('flights', 0, 1)",
    "select * from relaybox.fetch('billing')",
    "select relaybox.ack('billing', 1)",
    "select relaybox_internal.bind_sender('UA', 'driver_of_a_test')",
    "update relaybox.consumer_action set done_by = 'forged'",
    "insert into relaybox.consumer_action (subscription, action, reason, detail, done_by) values ('a', 'redrive', 'b', '{}', 'c')",
    "create table relaybox_internal.mine (n integer)",
    "alter table relaybox_internal.hop_out add column mine integer",
    "drop table relaybox_internal.batch",
    "select relaybox_internal.bind_senders(true)",
    "update relaybox_internal.installed_object set identity = identity",
)


@pytest.fixture
def driven(databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three stores with messages, small segments and a subscription; their services log in as a member of relaybox_driver."""
    world = World(routes_file(tmp_path, route={"retention": {"replay_window_seconds": 0}}))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
    world.initialise()
    world.cut_small_segments()
    world.send_many(COUNT)
    world.query("analytics", "select relaybox.subscribe('billing', 'flights', start => 'earliest')")
    for store in databases:
        world.query(
            store,
            "drop role if exists driver_of_a_test; "
            "create role driver_of_a_test login password 'p' in role relaybox_driver, pg_read_all_stats",
        )
        break_service(store, user="driver_of_a_test", password="p")
    return world


def run(*command: str, exit_code: int = 0) -> str:
    done = invoke(*command)
    assert done.exit_code == exit_code, (command, done.stdout, done.stderr)
    return done.stdout


def as_owner(databases: Mapping[str, Mapping[str, Any]]) -> None:
    """The services lead to the owner's login again."""
    for store, parameters in databases.items():
        break_service(store, user=parameters["user"], password=parameters["password"])


def as_driver() -> None:
    for store in STORES:
        break_service(store, user="driver_of_a_test", password="p")


MOVES = ("transfer flights/1", "transfer flights/2", "confirm flights")
READS = (
    "status", "verify flights", "subscriptions", "senders list airline", "holdback flights", "metrics", "dead-letters list",
    "reanchor flights/1", "retention --dry-run", "replay billing --from earliest",
)  # fmt: skip
ACTS = (
    "replay billing --from earliest --reason again",
    "replay billing --from 1 --through 3 --second-cursor --reason compare",
    "retention",
)


def test_a_driver_moves_everything_and_alters_nothing(driven: World, databases: Mapping[str, Mapping[str, Any]]) -> None:
    """The whole way over three stores, with logins that own nothing; each refused statement is tried in a store with messages."""
    world = driven
    webhook(world, "http://127.0.0.1:1/")  # retention asks each store for its subscriptions
    for command in (*MOVES, *READS, *ACTS):
        run(*command.split())
    for statement in REFUSED:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            world.query("analytics", statement)
    as_owner(databases)
    assert world.payloads("flights/2") == [f"m{n}" for n in range(1, COUNT + 1)]
    dropped = world.value("airline", "select count(*) from relaybox_internal.dropped_segment")
    assert dropped > 0, "retention dropped no segment with the rights of a driver"


def test_a_driver_acts_for_operators(driven: World, databases: Mapping[str, Mapping[str, Any]]) -> None:
    """Dead letters are redriven and dropped, a gap is skipped, a hop is retired: as the DAGs do it."""
    world = driven
    as_owner(databases)
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, epoch, index, payload) values "
        "('flights', 'pump', 1, 1, 'first'), ('flights', 'pump', 1, 3, 'third')",
    )
    as_driver()
    for command in MOVES:
        run(*command.split())
    as_owner(databases)
    world.query("analytics", "update relaybox_internal.subscription set nack_limit = 1")
    for stream_position in (1, 2):
        with world.session("analytics", autocommit=True) as consumer, consumer.cursor() as cursor:
            cursor.execute("select token from relaybox.fetch('billing', 1, worker => 'w')")
            (token,) = cursor.fetchone()
            cursor.execute("select relaybox.nack('billing', %s, 'bad', %s)", (stream_position, token))
    first, _ = (row[0] for row in world.query("analytics", "select dead_letter_id from relaybox.dead_letters order by 1"))
    as_driver()
    run("dead-letters", "drop", "analytics", str(first), "--reason", "test")
    run("dead-letters", "redrive", "billing", "--reason", "test")
    run("skip", "flights", "pump", "--reason", "lost")
    as_owner(databases)
    assert world.value("analytics", "select count(*) from relaybox.consumer_action where done_by = 'driver_of_a_test'") >= 2
    assert world.payloads("flights/2")[-2:] == ["first", "third"]


def test_a_session_of_a_driver_login_counts_as_driver(driven: World) -> None:
    """Polls start no second driver beside one that is no owner."""
    with psycopg2.connect(service="airline", application_name="relaybox flights/1 driver"):
        assert driven.value("airline", "select relaybox_internal.hop_is_driven('flights/1')") is True


def test_where_senders_are_bound_a_driver_needs_no_bypassrls(driven: World, databases: Mapping[str, Mapping[str, Any]]) -> None:
    """It reads the outbox through a view of the owner's, whom row security does not hold for: everything is moved and counted."""
    as_owner(databases)
    text = driven.path.read_text()
    driven.path.write_text(text.replace("airline: {}", "airline: {bind_senders: true}"))
    assert driven.path.read_text() != text
    driven.initialise()
    as_driver()
    for command in (
        ("transfer", "flights/1"),
        ("transfer", "flights/2"),
        ("status",),
        ("verify", "flights"),
        ("doctor", "airline"),
    ):
        run(*command)
    as_owner(databases)
    assert driven.value(
        "airline", "select not r.rolbypassrls and not r.rolsuper from pg_roles r where r.rolname = 'driver_of_a_test'"
    )
    assert driven.value("airline", "select o.relrowsecurity from pg_class o where o.oid = 'relaybox.outbox'::regclass")
    assert driven.value("hub", "select count(*) from relaybox_internal.log") == COUNT


def test_init_without_createrole_says_which_roles_to_make(owned: World) -> None:
    """Nothing is changed; the statements are those that an administrator runs."""
    roles = [f"relaybox_{name}" for name in ("producer", "consumer", "reader", "operator", "driver")]
    known = {row[0] for row in owned.query("administer_hub", "select rolname::text from pg_roles where rolname = any(%s)", roles)}
    owned.query("administer_hub", "alter role app_owner nocreaterole")
    if "relaybox_driver" in known:
        owned.query("administer_hub", "alter role relaybox_driver rename to driver_away")
    try:
        with pytest.raises(errors.StoreUnusable, match="relaybox_driver") as refused:
            initialise_store(owned.routes.store("hub"), owned.routes)
        assert "create role relaybox_driver nologin;" in refused.value.next_step
        assert owned.value("administer_hub", "select to_regclass('relaybox.outbox') is null")
    finally:
        if "relaybox_driver" in known:
            owned.query("administer_hub", "alter role driver_away rename to relaybox_driver")


REVOKED = {
    "connect": "connect on database {database}",
    "usage": "usage on schema relaybox_internal",
    "the outbox": "select on relaybox_internal.sent_rows",
    "a ledger": "select, update on relaybox_internal.hop_out",
    "plans": "insert on relaybox_internal.batch",
    "the log": "insert on relaybox_internal.log_1",
    "receipts": "insert on relaybox_internal.receipt",
    "arrivals": "insert on relaybox_internal.arrival",
    "confirmations": "insert on relaybox_internal.confirmation",
    "segments": "execute on function relaybox_internal.ensure_outbox_segments(integer)",
    "seals": "execute on function relaybox_internal.seal_outbox_segments(bigint, text[])",
    "segments of the log": "execute on function relaybox_internal.ensure_log_segments(integer, bigint)",
    "publish": "execute on function relaybox_internal.publish_batch(integer, integer, bigint, uuid, bigint, bigint, integer, bigint, integer)",
}
"""A right of a driver, without which a hop can't be moved -> as GRANT and REVOKE name it, in either store of the hop."""


@pytest.mark.parametrize("right", REVOKED)
def test_a_driver_without_a_right_stops_and_loses_nothing(
    driven: World, databases: Mapping[str, Mapping[str, Any]], right: str
) -> None:
    """The error names the table or function, the login and where to look; with the right the hop goes on where it was."""
    done = invoke("transfer", "flights/1")
    assert done.exit_code == 0, done.stderr
    as_owner(databases)
    driven.send("after the right was revoked")
    stores = ("hub",) if right == "the log" else ("airline", "hub")
    rights = {store: REVOKED[right].format(database=databases[store]["dbname"]) for store in stores}
    for store, what in rights.items():
        driven.query(store, f"revoke {what} from relaybox_driver")
    as_driver()
    refused = invoke("transfer", "flights/1")
    assert refused.exit_code == 5, (refused.stdout, refused.stderr)
    assert "permission denied" in refused.stderr
    assert right == "connect" or "grant it to login driver_of_a_test" in " ".join(refused.stderr.split())
    as_owner(databases)
    for store, what in rights.items():
        driven.query(store, f"grant {what} to relaybox_driver")
    as_driver()
    for hop in ("flights/1", "flights/2"):
        run("transfer", hop)
    run("verify", "flights")
    as_owner(databases)
    assert driven.payloads("flights/2")[-1] == "after the right was revoked"
