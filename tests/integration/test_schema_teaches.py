"""psql alone is enough: what the roles of applications and operators can reach is what grants.sql says, and every piece has a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import World

GRANTS = Path(__file__).parents[2] / "sql" / "grants.sql"
ROLES = ("relaybox_producer", "relaybox_consumer", "relaybox_operator")

Right = tuple[str, str, str]
"""Privilege, kind of object, and object as the server writes it; of a column: schema.table.column."""

REACHED = """
with ours as (
    select n.oid, n.nspname::text from pg_namespace n where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
), relation as (
    select c.oid, c.relkind, format('%%s.%%s', o.nspname, c.relname) as name
    from pg_class c join ours o on o.oid = c.relnamespace
    where o.nspname <> 'public' and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
)
select p.privilege, 'schema', o.nspname from ours o, unnest(array['USAGE', 'CREATE']) p (privilege)
where o.nspname <> 'public' and has_schema_privilege(%(role)s, o.oid, p.privilege)
union all
select 'EXECUTE', 'function', (pg_identify_object('pg_proc'::regclass, p.oid, 0)).identity from pg_proc p join ours o on o.oid = p.pronamespace
where has_function_privilege(%(role)s, p.oid, 'EXECUTE')
union all
select p.privilege, 'sequence', r.name from relation r, unnest(array['USAGE', 'SELECT', 'UPDATE']) p (privilege)
where r.relkind = 'S' and has_sequence_privilege(%(role)s, r.oid, p.privilege)
union all
select p.privilege, 'table', r.name from relation r, unnest(array['DELETE', 'TRUNCATE', 'TRIGGER']) p (privilege)
where r.relkind <> 'S' and has_table_privilege(%(role)s, r.oid, p.privilege)
union all
select p.privilege, 'column', r.name || '.' || a.attname
from relation r
join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) p (privilege)
where r.relkind <> 'S' and has_column_privilege(%(role)s, r.oid, a.attnum, p.privilege)
"""
"""All that a role may do outside of the system's schemas, by itself, by a role that it is a member of, or by PUBLIC."""


COMMENT_OF = {
    "schema": "select obj_description(to_regnamespace(%s), 'pg_namespace')",
    "function": "select obj_description(to_regprocedure(%s), 'pg_proc')",
    "sequence": "select obj_description(to_regclass(%s), 'pg_class')",
    "table": "select obj_description(to_regclass(%s), 'pg_class')",
}

SILENT_COLUMNS = """
select attname from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped and col_description(attrelid, attnum) is null
"""

PARAMETERS = """
select a.name from pg_proc p, unnest(p.proargnames, p.proargmodes) a (name, mode)
where p.oid = to_regprocedure(%s) and coalesce(a.mode, 'i') = 'i'
"""


def reached_by(world: World, role: str) -> set[Right]:
    with world.session("analytics") as session, session.cursor() as cursor:
        cursor.execute(REACHED, {"role": role})
        return set(cursor.fetchall())


def granted_to(world: World, role: str) -> set[Right]:
    """What grants.sql gives the role by name."""
    return set(_granted(world, role))


def _granted(world: World, role: str) -> Iterator[Right]:
    statements = re.findall(r"^grant (.+?) on (.+?) to ([\w, ]+);", GRANTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert statements
    for privilege, objects, roles in statements:
        if role not in roles.split(", "):
            continue
        kind, names = re.fullmatch(r"(schema|sequence|function)? ?(.+)", objects).groups()
        for name in re.split(r", (?=relaybox)", names):
            if kind == "function":
                yield (
                    "EXECUTE",
                    kind,
                    world.value(
                        "analytics", "select (pg_identify_object('pg_proc'::regclass, to_regprocedure(%s), 0)).identity", name
                    ),
                )
            elif kind is not None:
                yield privilege.upper(), kind, name
            else:
                what, columns = re.fullmatch(r"(\w+)(?: \((.+)\))?", privilege).groups()
                for column in columns.split(", ") if columns else columns_of(world, name):
                    yield what.upper(), "column", f"{name}.{column}"


def columns_of(world: World, table: str) -> list[str]:
    query = "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    return [column for (column,) in world.query("analytics", query, table)]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reaches_what_grants_sql_names_and_nothing_else(world: World, role: str) -> None:
    """In a store with segments, logs and messages; also what PUBLIC, a membership or a default would give."""
    world.send("a")
    world.transfer_all()
    world.settle_all()
    assert reached_by(world, role) == granted_to(world, role)


def test_all_that_the_roles_reach_has_a_comment(world: World) -> None:
    """Schema, functions, sequences, tables, views; and every column of a table or view of which one is reached."""
    reached = set().union(*(reached_by(world, role) for role in ROLES))
    objects = {(kind, name) for _, kind, name in reached if kind != "column"}
    objects |= {("table", name.rpartition(".")[0]) for _, kind, name in reached if kind == "column"}
    assert {kind for kind, _ in objects} == {"schema", "function", "sequence", "table"}
    silent = [one for one in sorted(objects) if not world.value("analytics", COMMENT_OF[one[0]], one[1])]
    for _, table in sorted(one for one in objects if one[0] == "table"):
        silent += [("column", f"{table}.{column}") for (column,) in world.query("analytics", SILENT_COLUMNS, table)]
    assert silent == []


def test_the_comment_of_a_function_names_its_parameters(world: World) -> None:
    """In backquotes, so that it reads alone in psql; also those of functions for the owner and for readers."""
    reached = {name for role in ROLES for _, kind, name in reached_by(world, role) if kind == "function"}
    reached |= {"relaybox.count_replay(text,text,text,integer)", "relaybox.set_consumer_quota(integer,integer,name,integer)"}
    silent = []
    for function in sorted(reached):
        told = re.findall(r"`(\w+)`", world.value("analytics", COMMENT_OF["function"], function) or "")
        silent += [(function, name) for (name,) in world.query("analytics", PARAMETERS, function) if name not in told]
    assert silent == []
