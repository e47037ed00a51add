"""The two schemas of a store, whether they are a store's, and the rights that a login needs on them to run `relaybox init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.sessions import StoreSession


class _Schema(NamedTuple):
    """A schema of ours, and what the session's login may do.

    Attributes:
        owner: None where there is no such schema.
        store_owner: the owner of schema relaybox; None where there is none.
        owned: the login has the owner's rights.
        is_foreign: its owner is neither that of the store, nor (before there is a store) the login, which is a superuser.
        holds_store: its owner differs, but the tables of the store in it are those of the owner of relaybox.migration.
        may_create: the login may make schemas in the database.
        login, database: as SQL writes their names.
    """

    name: str
    owner: str | None
    store_owner: str | None
    owned: bool
    is_foreign: bool
    holds_store: bool
    may_create: bool
    login: str
    database: str


_SCHEMAS = """
select s.name, n.nspowner::regrole::text as owner, o.nspowner::regrole::text as store_owner,
    coalesce(pg_has_role(n.nspowner, 'usage'), false) as owned,
    coalesce(
        case
            when to_regclass('relaybox.migration') is not null then n.nspowner <> o.nspowner
            else n.nspowner <> r.oid and r.rolsuper
        end,
        false
    ) as is_foreign,
    exists (
        select from pg_class m join pg_class t on t.relowner = m.relowner
        where m.relnamespace = o.oid and m.relname = 'migration' and t.relnamespace = n.oid and t.relname = 'store'
    ) as holds_store,
    has_database_privilege(d.oid, 'create') as may_create, quote_ident(current_user) as login, quote_ident(d.datname) as database
from unnest(array['relaybox', 'relaybox_internal']) s (name)
join pg_database d on d.datname = current_database()
join pg_roles r on r.rolname = current_user
left join pg_namespace n on n.nspname = s.name
left join pg_namespace o on o.nspname = 'relaybox'
"""


IS_STORE = """
(
    select count(*) = 3 from pg_attribute a
    where a.attrelid = to_regclass('relaybox.migration')
    and (a.attname, a.atttypid) in (('number', 'integer'::regtype), ('name', 'text'::regtype), ('applied_at', 'timestamptz'::regtype))
)
"""
"""Whether schema `relaybox` is ours, as an SQL expression: other software has schemas and migrations of its own."""

_SHOWN_OBJECTS = 10


class _Object(NamedTuple):
    schema: str
    what: str


_OBJECTS = """
with ours as (select n.oid, quote_ident(n.nspname) as name from pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal'))
select s.name as schema, o.kind || ' ' || o.name as what from (
    select c.relnamespace as schema, c.oid::regclass::text as name,
        case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'c' then 'type'
            else 'table' end as kind
    from pg_class c where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
    union all
    select p.pronamespace as schema, p.oid::regprocedure::text as name, 'routine' as kind from pg_proc p
    union all
    select t.typnamespace as schema, t.oid::regtype::text as name, 'type' as kind from pg_type t where t.typtype in ('d', 'e', 'r')
) o join ours s on s.oid = o.schema
order by 1, 2
"""


def refuse_foreign_schemas(session: StoreSession) -> None:
    """Refuses a database without a store in whose schemas `relaybox` or `relaybox_internal` there is anything. Changes nothing.

    Raises:
        StoreUnusable: it names what was found.
    """
    if session.value(f"select {IS_STORE}"):
        return
    found = session.rows(_Object, _OBJECTS)
    if not found:
        return
    schemas = sorted({one.schema for one in found})
    shown, more = ", ".join(one.what for one in found[:_SHOWN_OBJECTS]), len(found) - _SHOWN_OBJECTS
    raise errors.StoreUnusable(
        f"store {session.store}: schema {' and '.join(schemas)} has objects, but table relaybox.migration of a store is not there: "
        f"{shown}{f' and {more} more' if more > 0 else ''}. Nothing was changed.",
        next_step="Relaybox needs the schemas relaybox and relaybox_internal for itself. If they are of other software, give the "
        "store a database of its own, or rename them: "
        f"{'; '.join(f'alter schema {name} rename to NAME' for name in schemas)}; then run: relaybox init. "
        "If they are a part of a store that was restored, restore all of it.",
    )


def require_schemas(session: StoreSession) -> None:
    """Refuses a login that neither owns the two schemas nor may make them: before init touches what is in them.

    Raises:
        StoreUnusable: the login may not make one of the schemas, or another role owns it. The error names the statement that mends it.
    """
    schemas = session.rows(_Schema, _SCHEMAS)
    for schema in schemas:
        if schema.owner is None and not schema.may_create:
            raise errors.StoreUnusable(
                f"store {session.store}: login {schema.login} may not make schema {schema.name} in database {schema.database}. "
                "Init changed nothing.",
                next_step=f"As a superuser: create schema {schema.name} authorization {schema.login}; then run: relaybox init",
            )
        if schema.is_foreign and schema.holds_store:  # to drop it would drop the messages
            raise errors.StoreUnusable(
                f"store {session.store}: schema {schema.name} belongs to {schema.owner}, schema relaybox to another role. "
                "Init changed nothing.",
                next_step=f"As a superuser: alter schema {schema.name} owner to {schema.store_owner}; then run: relaybox init",
            )
        if schema.is_foreign:  # its owner could put functions there that run with the rights of the store's owner
            raise errors.StoreUnusable(
                f"store {session.store}: schema {schema.name} belongs to {schema.owner}, which does not own the store. "
                "Init changed nothing.",
                next_step=f"Look at what is in it (\\df {schema.name}.*); as a superuser: drop schema {schema.name} cascade; "
                "then run: relaybox init",
            )
        if schema.owner is not None and not schema.owned:
            raise errors.StoreUnusable(
                f"store {session.store}: login {schema.login} does not own schema {schema.name}; {schema.owner} does. "
                "Init changed nothing.",
                next_step=f"Run init as {schema.owner}, or as a superuser: "
                f"{'; '.join(f'alter schema {one.name} owner to {schema.login}' for one in schemas if one.owner and not one.owned)}; "
                "then run: relaybox init",
            )
