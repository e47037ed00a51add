"""`relaybox init` of this version at stores that 892d821 made and that are at work: nothing is lost, nothing of the user's destroyed.

Many names changed since then: its drivers must have ended, and a consumer gets a clear error once. No producer fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.support.cli import Run, invoke
from tests.support.patience import patience
from tests.support.world import STORES, World, wait_until
from tests.upgrades.pictures import restore

KNOWN_TO_892D821 = 18
USERS = """
create role users_reader;
grant usage on schema relaybox to users_reader;
grant select on relaybox.inbox, relaybox.arrival to users_reader;
grant select (payload) on relaybox.log_1 to users_reader;
grant execute on function relaybox.lag(text), relaybox.segments(), relaybox.cursor_at(relaybox.cursor, bigint) to users_reader;
grant execute on function relaybox.fetch(text, integer, bigint, integer, integer, text) to users_reader;
create schema users;
create view users.payloads as select message_id, payload from relaybox.inbox;
create view users.positions as select "position", message_id from relaybox.inbox;
create view users.batches as select hop_id, batch from relaybox.arrival;
create view users.letters as select letter, place, settled_at from relaybox.dead_letters;
create index users_of_a_segment on relaybox.log_1_s000000 (payload);
create index users_of_a_table on relaybox.arrival (published_at);
create table relaybox.users_table (n integer);
insert into relaybox.users_table values (7);
create function relaybox.users_function() returns integer language sql as 'select n from relaybox.users_table';
grant select on relaybox.users_table to users_reader;
"""
USED = {
    "users.payloads": "select count(*) from users.payloads",
    "users.positions": 'select count("position") from users.positions',
    "users.batches": "select count(hop_id) from users.batches",
    "users.letters": "select array_agg((letter, place, settled_at)::text) from users.letters",
    "indexes": "select array_agg(indexrelid::bigint order by indexrelid) from pg_index where indexrelid::regclass::text ~ 'users_of'",
    "users_function": "select relaybox.users_function()",
}
"""What the user has made is read as before, by the names that the user gave."""
RIGHTS = """
select array_agg(privilege || ' ' || what) from (
    select a.privilege_type as privilege, c.relname as what from pg_class c, aclexplode(c.relacl) a where a.grantee = 'users_reader'::regrole
    union all
    select a.privilege_type, t.attname from pg_attribute t, aclexplode(t.attacl) a where a.grantee = 'users_reader'::regrole
    union all
    select a.privilege_type, n.nspname from pg_namespace n, aclexplode(n.nspacl) a
    where a.grantee = 'users_reader'::regrole and n.nspname <> 'relaybox'
    union all
    select a.privilege_type, p.proname from pg_proc p, aclexplode(p.proacl) a where a.grantee = 'users_reader'::regrole
) r
"""
NEW_NAMES = {"cursor_at": "reset_cursor"}
LEDGERS = """
select jsonb_object_agg(what, held) from (
    select 'cursors' as what, jsonb_agg(to_jsonb(c) order by c.subscription_id, c.lane, c.version) as held from {schema}.cursor c
    union all select 'dead letters', jsonb_agg(to_jsonb(d) order by d.dead_letter_id) from {schema}.dead_letter d
    union all select 'held', jsonb_agg(to_jsonb(h)) from {schema}.held h
    union all select 'detached', jsonb_agg(to_jsonb(s)) from {schema}.detached_segment s
    union all select 'batches', jsonb_agg(to_jsonb(b) order by b.hop, b.batch) from {schema}.batch b
    union all select 'senders', jsonb_agg(to_jsonb(s)) from {schema}.sender s
    union all select 'subscriptions', jsonb_agg(to_jsonb(s) order by s.subscription_id) from {schema}.subscription s
    union all select 'log', jsonb_agg(to_jsonb(l) order by l.message_id) from {schema}.log l
) found
"""


@pytest.fixture
def older(databases: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Three stores of 892d821 with messages in flight, and objects of a user in the last one."""
    assert set(databases) == set(STORES)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))
    world = restore("892d821", tmp_path)
    world.query("analytics", USERS)
    yield world
    world.query("analytics", "drop owned by users_reader; drop role users_reader")


def values_of(world: World, store: str, schema: str) -> Mapping[str, list[list[str]]]:
    """Every row of the ledgers, as its values: names change, and columns are added."""
    found: Mapping[str, list[dict[str, Any]] | None] = world.value(store, LEDGERS.format(schema=schema))
    return {what: [sorted(str(value) for value in row.values()) for row in rows or ()] for what, rows in found.items()}


def assert_all_there(before: Mapping[str, list[list[str]]], after: Mapping[str, list[list[str]]]) -> None:
    for what, rows in before.items():
        assert len(rows) <= len(after[what]), what
        for row, row_after in zip(rows, after[what], strict=False):
            missing = list(row)
            for value in row_after:
                if value in missing:
                    missing.remove(value)
            assert missing == [], (what, row, row_after)


class AtWork:
    """A producer and a consumer in loops, whose applications know nothing of an init."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.enough = threading.Event()
        self.ended = threading.Event()
        self.sent: list[str] = []
        self.consumed: list[str] = []
        self.errors: list[str] = []
        self.rounds = 0

    def produce(self) -> None:
        with self.world.session("airline", autocommit=True) as connection, connection.cursor() as cursor:
            while not self.enough.wait(0.5):
                payload = f"looped {len(self.sent)}"
                cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'DL', %s)", (payload,))
                self.sent.append(payload)

    def consume(self) -> None:
        """Each round is one transaction. With the names of 892d821; after an error about them, with those of today."""
        columns, proof = "place, payload, 'loop'", "worker => %s"
        with self.world.session("analytics") as connection, connection.cursor() as cursor:
            while not self.ended.wait(0.1):
                try:
                    cursor.execute(f"select {columns} from relaybox.fetch('looped', 5, worker => 'loop')")
                    rows = cursor.fetchall()
                    if rows:
                        cursor.execute(f"select relaybox.ack('looped', %s, {proof})", (rows[-1][0], rows[-1][2]))
                    connection.commit()
                except (
                    psycopg2.errors.UndefinedColumn,
                    psycopg2.errors.UndefinedFunction,
                    psycopg2.errors.UndefinedTable,
                ) as error:
                    connection.rollback()
                    self.errors.append(str(error))
                    columns, proof = "stream_position, payload, token", "token => %s"
                    continue
                self.consumed += [payload for _, payload, _ in rows]
                self.rounds += 1


@contextmanager
def at_work(world: World) -> Iterator[AtWork]:
    """Both at work within the block; what one of them raised is raised at its end."""
    world.query("analytics", "select relaybox.subscribe('looped', 'flights')")
    made = AtWork(world)
    with ThreadPoolExecutor(2) as pool:
        running: list[Future[None]] = [pool.submit(made.produce), pool.submit(made.consume)]
        try:
            wait_until(lambda: made.rounds > 2 and len(made.sent) > 2, "both are at work")
            yield made
        finally:
            made.enough.set()
            made.ended.set()
        for one in running:
            one.result(timeout=patience(60))


def relaybox(command: str) -> Run:
    done = invoke(*command.split())
    assert done.exit_code == 0, (command, done.stdout, done.stderr)
    return done


def go_on(made: AtWork, enough: Callable[[], bool], what: str) -> None:
    wait_until(enough, what, progress=lambda: (made.rounds, len(made.sent)))


def test_an_older_store_at_work_is_upgraded_and_loses_nothing(older: World) -> None:
    """Messages in flight arrive once, cursors and dead letters stand, the user's views, rights, indexes, table and function stay."""
    before = {store: values_of(older, store, "relaybox") for store in STORES}
    used = {what: older.value("analytics", query) for what, query in USED.items()}
    rights = older.value("analytics", RIGHTS)
    with at_work(older) as made:
        relaybox("init")
        for store in STORES:
            assert_all_there(before[store], values_of(older, store, "relaybox_internal"))
        assert {what: older.value("analytics", query) for what, query in USED.items()} == used
        kept = [" ".join(NEW_NAMES.get(word, word) for word in right.split()) for right in rights]
        assert sorted(older.value("analytics", RIGHTS)) == sorted([*kept, "USAGE relaybox_internal"])
        sent = len(made.sent)
        go_on(made, lambda: len(made.sent) > sent + 2, "the producer goes on")
        made.enough.set()
        older.query(
            "airline", "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'pump-7', 3, 'pumped 3')"
        )
        for hop in older.route.hops:
            relaybox(f"transfer {hop.name}")
        rounds = made.rounds
        go_on(made, lambda: made.rounds > rounds + 2, "the consumer goes on")
    for command in ("transfer flights/1", "transfer flights/2", "confirm flights", "verify flights"):
        relaybox(command)
    assert sorted(older.payloads("flights/2")) == sorted(older.sent())
    assert set(made.sent) <= set(older.sent())
    for error in made.errors:
        assert "does not exist" in error, "a name that changed"
    assert_consumed_once(older, made)
    for store in STORES:  # what 892d821 asks before it uses a store; its answer to a number above its own is SchemaTooNew
        assert older.value(store, "select coalesce(max(number), 0) from relaybox.migration") > KNOWN_TO_892D821
    again = relaybox("init").stdout
    assert "migrations" not in again
    assert "functions" not in again


def test_an_older_store_that_cannot_be_upgraded_yet_is_left_as_it_was(older: World) -> None:
    """A driver of 892d821 at work, and a view on columns in another order: both are named, and no store is changed."""
    older.query("analytics", "create view users.progress as select subscription, stream, done_place from relaybox.subscriptions")
    before = {store: values_of(older, store, "relaybox") for store in STORES}
    with older.session("hub", autocommit=True) as driver, driver.cursor() as cursor:
        cursor.execute("set application_name = 'relaybox flights/2 driver'")
        refused = invoke("init")
    assert refused.stdout == "no store was changed\n"
    assert "0019 backlog" in refused.stderr
    assert "it has sessions: relaybox flights/2 driver" in refused.stderr
    assert "It must drop view relaybox.subscriptions, whose columns changed. On it depend: view users.progress" in refused.stderr
    assert {store: values_of(older, store, "relaybox") for store in STORES} == before
    assert {older.value(store, "select max(number) from relaybox.migration") for store in STORES} == {KNOWN_TO_892D821}


def assert_consumed_once(world: World, made: AtWork) -> None:
    """What the loop has not consumed yet comes now, and nothing twice."""
    while rows := world.query(
        "analytics", "select stream_position, payload, token from relaybox.fetch('looped', 100, worker => 'loop')"
    ):
        world.query("analytics", "select relaybox.ack('looped', %s, %s)", rows[-1][0], rows[-1][2])
        made.consumed += [payload for _, payload, _ in rows]
    assert sorted(made.consumed) == sorted(world.sent())
