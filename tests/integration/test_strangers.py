"""A login without any grant stops nothing, whatever it locks, reads, makes or leaves open in the database of a store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg2
import pytest

from tests.cli import invoke
from tests.services import read_service
from tests.world import STORES, World

REPOSITORY = Path(__file__).resolve().parents[2]
GUESSED_LOCKS = """
select count(pg_advisory_lock(c.oid::bigint)) + count(pg_advisory_lock(hashtext(c.relname))) from pg_class c
where c.relnamespace = 'relaybox'::regnamespace
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
        strangers.query(store, "update relaybox.installed_object set digest = 'older'")
    for command in ("init", "retention", "status"):
        run = invoke(command)
        assert (run.exit_code, run.stderr) == (0, ""), command


def test_nothing_of_ours_takes_a_lock_that_every_login_can_take() -> None:
    """The keys of advisory locks are numbers, and anybody who may connect may lock them."""
    files = [*(REPOSITORY / "sql").rglob("*.sql"), *(REPOSITORY / "plugins").rglob("*.py"), *(REPOSITORY / "dags").rglob("*.py")]
    assert [file.name for file in files if re.search(r"pg(_try)?_advisory", file.read_text())] == []
