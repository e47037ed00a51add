"""Outbox tables of applications, as Debezium's outbox event router reads them, and the login of such an application."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg2

from relaybox.adoption.adopting import adopt_table, send_unmapped, unadopt_table
from tests.support.world import World

TABLE = "app.outboxevent"
MAKE_TABLE = """
create schema if not exists app;
create table app.outboxevent (
    id uuid primary key default gen_random_uuid(), aggregatetype varchar(255) not null, aggregateid varchar(255) not null,
    type varchar(255) not null, payload jsonb
)
"""
INSERT = "insert into app.outboxevent (aggregatetype, aggregateid, type, payload) values ('Flights', %s, 'Landed', %s)"
SENT = "select payload from relaybox.outbox order by seq"


def make_table(world: World, *more: str) -> None:
    """Debezium's table, of no rows, and what else the test wants."""
    world.query("airline", MAKE_TABLE)
    for statement in more:
        world.query("airline", statement)


def write(world: World, *payloads: str) -> None:
    """One transaction of the application, with one insert per payload, which is a JSON text."""
    with world.session() as connection, connection.cursor() as cursor:
        for payload in payloads:
            cursor.execute(INSERT, (payload, payload))
        connection.commit()


def adopt(world: World, table: str = TABLE, **options: Any) -> Any:
    return adopt_table(world.routes.stores["airline"], table, **options)


def unadopt(world: World, table: str = TABLE, **options: Any) -> Any:
    return unadopt_table(world.routes.stores["airline"], table, **options)


def sent(world: World) -> list[str]:
    """Payloads of all messages in the outbox, in its order."""
    return [row[0] for row in world.query("airline", SENT)]


def messages(world: World, *columns: str) -> list[tuple[Any, ...]]:
    """Columns of all messages in the outbox, in its order."""
    return world.query("airline", f"select {', '.join(columns)} from relaybox.outbox order by seq")


def problems(world: World) -> list[tuple[str, bool]]:
    """What doctor says of adopted tables: kind, and whether rows are not sent."""
    return world.query("airline", "select kind, stops from relaybox_internal.list_adoption_defects()")


@contextmanager
def application(world: World, *grants: str) -> Iterator[Any]:
    """A cursor of a login that has rights on the application's tables only, in autocommit."""
    world.query("airline", "create role app_writer login password 'secret'")
    for grant in ("usage on schema app", "select, insert, update, delete on all tables in schema app", *grants):
        world.query("airline", f"grant {grant} to app_writer")
    connection = psycopg2.connect(service="airline", user="app_writer", password="secret")
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
        world.query("airline", "drop owned by app_writer; drop role app_writer")


def numbers(payloads: Sequence[str]) -> list[int]:
    return [int(payload) for payload in payloads]


ROWS = 250
FILL = (
    "insert into app.outboxevent (aggregatetype, aggregateid, type, payload) "
    "select 'Flights', n, 'Landed', to_jsonb(n) from generate_series(1, %s) n"
)
MAPPED = {"message_id": {"parts": [{"column": "id", "filter": None}]}}


def make_numbered_table(world: World) -> None:
    """A table of ROWS rows, whose key is their number."""
    make_table(world, "alter table app.outboxevent drop column id, add column id bigint generated always as identity primary key")
    world.query("airline", FILL, ROWS)


def work(world: World, failpoint: str) -> None:
    """What the command does that reaches the failpoint, from the state before it."""
    if failpoint.startswith("unadopt"):
        unadopt(world)
    elif failpoint.startswith("send"):
        send_unmapped(world.routes.stores["airline"], TABLE)
    else:
        adopt(world, mapped=MAPPED, with_backlog=True)


def prepare(world: World, failpoint: str) -> None:
    """The state before the command."""
    if failpoint.startswith("unadopt"):
        adopt(world, mapped=MAPPED, with_backlog=True)
    elif failpoint.startswith("send"):
        world.query("airline", "update app.outboxevent set aggregatetype = 'not one' where id = 250")
        adopt(world, mapped=MAPPED, with_backlog=True, on_unmapped="set_aside")
        adopt(world, mapped={**MAPPED, "topic": {"parts": ["flights"]}}, on_unmapped="set_aside")
