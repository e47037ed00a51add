"""Tables are made in the tablespace of the database, whatever a role or a database has as default_tablespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest

from tests.support.world import STORES, World

ELSEWHERE = """
select c.oid::regclass::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('relaybox', 'relaybox_internal') and c.reltablespace <> 0
"""


@pytest.fixture
def foreign_tablespace(owned: World) -> Iterator[World]:
    """Each database has a default tablespace in which its owner may not create."""
    for store in STORES:
        administrator = f"administer_{store}"
        with closing(psycopg2.connect(service=administrator)) as session, session.cursor() as cursor:
            session.autocommit = True
            cursor.execute("set allow_in_place_tablespaces = on")
            cursor.execute(f"create tablespace foreign_{store} location ''")
            cursor.execute(f"alter database {session.info.dbname} set default_tablespace = foreign_{store}")
    yield owned
    for store in STORES:
        with closing(psycopg2.connect(service=f"administer_{store}")) as session, session.cursor() as cursor:
            session.autocommit = True
            cursor.execute(f"alter database {session.info.dbname} reset default_tablespace")
            cursor.execute("drop owned by app_owner cascade")
            cursor.execute(f"drop tablespace foreign_{store}")


def test_a_hop_makes_its_segments_where_it_may(foreign_tablespace: World) -> None:
    """It stopped for good at its first new segment, with an advice about the rights of tasks."""
    world = foreign_tablespace
    world.initialise()
    world.query("airline", "select relaybox_internal.ensure_outbox_segments(2)")
    for number in range(5):
        world.send(f"{number}")
        world.transfer_all()
    assert world.payloads("flights/2") == [f"{number}" for number in range(5)]
    assert [world.query(store, ELSEWHERE) for store in STORES] == [[], [], []]


def test_new_segments_are_made_in_the_tablespace_of_the_database_wherever_older_ones_are(foreign_tablespace: World) -> None:
    """Also if the owner may create in the default tablespace, and has moved the parents there: a bigger disk is not kept by itself."""
    world = foreign_tablespace
    for store in STORES:
        world.query(f"administer_{store}", f"grant create on tablespace foreign_{store} to app_owner")
    world.initialise(segment_rows=10)
    assert world.query("airline", ELSEWHERE) == []
    moved = "relaybox_internal.outbox_s000000"
    for table in ("relaybox.outbox", moved):
        world.query("airline", f"alter table {table} set tablespace foreign_airline")
    world.query("hub", "alter table relaybox_internal.log_1 set tablespace foreign_hub")
    for number in range(6):  # not beyond the segments: the overflow goes with its parent
        world.send_many(8, prefix=f"{number}.")
        world.query("airline", "select relaybox_internal.ensure_outbox_segments(2)")
        world.transfer_all()
    assert world.query("airline", f"{ELSEWHERE} and c.relname ~ '_s[0-9]+$'") == [(moved,)]
    assert world.query("hub", f"{ELSEWHERE} and c.relname ~ '_s[0-9]+$'") == []
    assert len(world.payloads("flights/2")) == 48
