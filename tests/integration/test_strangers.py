"""A login without any grant stops nothing, whatever it locks, reads, makes or leaves open in the database of a store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg2
import pytest

from tests.support.cli import invoke
from tests.support.services import read_service
from tests.support.world import STORES, World

REPOSITORY = Path(__file__).resolve().parents[2]
GUESSED_LOCKS = """
select count(pg_advisory_lock(c.oid::bigint)) + count(pg_advisory_lock(hashtext(c.relname))) from pg_class c
where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
union all select count(pg_advisory_lock(hashtext(key))) from unnest(array['relaybox init', 'relaybox init of all stores']) key
"""
READABLE_CATALOGS = """
do $$ declare catalog regclass; begin
    for catalog in select oid from pg_class
        where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and has_table_privilege(oid, 'select')
    loop execute format('lock table %s in access share mode', catalog); end loop;
end $$
"""


@pytest.fixture
def strangers(world: World) -> Iterator[World]:
    """In each store: a transaction of a login without grants, with every lock that it can take, a snapshot, a number and a table."""
    world.cut_small_segments()
    with ExitStack() as held:
        for store in STORES:
            world.query(store, "create role stranger login password 'stranger'")
            held.callback(world.query, store, "drop role stranger")
        for store in STORES:
            session = held.enter_context(
                closing(psycopg2.connect(**{**read_service(store), "user": "stranger", "password": "stranger"}))
            )
            session.set_session(isolation_level="repeatable read")
            with session.cursor() as cursor:
                cursor.execute(READABLE_CATALOGS)
                cursor.execute(GUESSED_LOCKS)
                cursor.execute(
                    "create temporary table mine (n integer); insert into mine values (1); select pg_current_xact_id()"
                )
        yield world


def test_a_stranger_stops_neither_hop_nor_retention_nor_init(strangers: World) -> None:
    """Segments are made and dropped, batches moved and confirmed, the schema is applied again."""
    for _ in range(3):
        strangers.send_many(40)
        strangers.transfer_all()
        strangers.settle_all()
    assert len(strangers.payloads("flights/2")) == 120
    for store in STORES:
        strangers.query(store, "update relaybox_internal.installed_object set digest = 'older'")
    for command in ("init", "retention", "status"):
        run = invoke(command)
        assert (run.exit_code, run.stderr) == (0, ""), command


@pytest.mark.parametrize(
    ("role", "call"),
    [
        ("relaybox_consumer", "relaybox.subscribe('another', 'flights')"),
        ("relaybox_consumer", "relaybox.replay('billing', 'earliest', 'a count', dry_run => true)"),
        ("relaybox_reader", "relaybox.count_replay('billing', 'earliest')"),
        ("relaybox_consumer", "relaybox.nack('billing', 2, 'no order') from relaybox.fetch('billing', 1)"),
    ],
    ids=["subscribe", "replay", "count", "nack"],
)
def test_an_open_transaction_of_a_consumer_or_a_reader_stops_neither_hop_nor_init(world: World, role: str, call: str) -> None:
    """It holds what it reads against retention, and nothing against others (test_open_transactions: all functions)."""
    world.send("a", "b")
    world.transfer_all()
    world.query("analytics", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    assert world.query("analytics", "select relaybox.ack('billing', stream_position) from relaybox.fetch('billing', 1)") == [(1,)]
    world.query("analytics", f"create role granted login password 'granted' in role {role}")
    login = {**read_service("analytics"), "user": "granted", "password": "granted"}
    try:
        with closing(psycopg2.connect(**login)) as held, held.cursor() as cursor:
            cursor.execute(f"select * from {call}" if "fetch" not in call else f"select {call}")
            world.send("c")
            world.transfer_all()
            world.query(
                "analytics", "update relaybox_internal.installed_object set digest = 'older' where strpos(identity, '(') > 0"
            )
            run = invoke("init")
            assert (run.exit_code, run.stderr, world.payloads("flights/2")) == (0, "", ["a", "b", "c"])
    finally:
        world.query("analytics", "drop role granted")


def test_an_init_that_waits_for_a_reader_names_it(world: World) -> None:
    """A view whose file changed is replaced when nobody reads it."""
    world.send("a")
    world.transfer_all()
    with closing(psycopg2.connect(service="analytics", application_name="a report")) as held, held.cursor() as cursor:
        cursor.execute("select count(*), pg_backend_pid() from relaybox.inbox")
        _, pid = cursor.fetchone()
        world.query("analytics", "update relaybox_internal.installed_object set digest = 'older'")
        run = invoke("init")
    assert run.exit_code == 4
    assert "store analytics: init waited 10 s for what other transactions hold: a report (pid " in run.stderr
    assert f"as a login with pg_signal_backend: select pg_terminate_backend({pid})" in " ".join(run.stderr.split())
    assert re.findall(r"terminate_backend\((\d+)\)", run.stderr) == [str(pid)], "no session of its own"
    assert invoke("init").exit_code == 0


def test_nothing_of_ours_takes_a_lock_that_every_login_can_take() -> None:
    """The keys of advisory locks are numbers, and anybody who may connect may lock them."""
    files = [*(REPOSITORY / "sql").rglob("*.sql"), *(REPOSITORY / "plugins").rglob("*.py"), *(REPOSITORY / "dags").rglob("*.py")]
    assert [file.name for file in files if re.search(r"pg(_try)?_advisory", file.read_text())] == []
