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
