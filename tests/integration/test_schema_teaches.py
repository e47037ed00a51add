"""psql alone is enough: what the roles of applications and operators can reach is what list_role_rights.sql says, and every piece has a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.world import World

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


NAMED = """
select r.privilege,
    case when r.kind <> 'relation' then r.kind when c.relkind = 'S' then 'sequence' else 'column' end as kind,
    case r.kind
        when 'schema' then r.object::regnamespace::text
        when 'function' then (pg_identify_object('pg_proc'::regclass, r.object, 0)).identity
        else (pg_identify_object('pg_class'::regclass, r.object, 0)).identity
    end as name,
    r.column_name
from relaybox_internal.list_role_rights() r
left join pg_class c on c.oid = r.object
where r.grantee = %s and r.kind in ('schema', 'function', 'relation')
"""


def granted_to(world: World, role: str) -> set[Right]:
    """What list_role_rights.sql gives the role by name."""
    return set(_granted(world, role))


def _granted(world: World, role: str) -> Iterator[Right]:
    for privilege, kind, name, column in world.query("analytics", NAMED, role):
        if kind == "column":
            for one in [column] if column else columns_of(world, name):
                yield privilege, kind, f"{name}.{one}"
        else:
            yield privilege, kind, name


def columns_of(world: World, table: str) -> list[str]:
    query = "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    return [column for (column,) in world.query("analytics", query, table)]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reaches_what_the_list_of_rights_names_and_nothing_else(world: World, role: str) -> None:
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
