"""The two schemas of a store, whether they are a store's, and the rights that a login needs on them to run `relaybox init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.schema.statements import Statements


IS_STORE = """
(
    select count(*) = 3 from pg_attribute a
    join pg_class c on c.oid = a.attrelid and c.relname = 'migration' and c.relkind in ('r', 'p') -- a view may run any code
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'relaybox' -- to_regclass() needs a right on the schema
    where (a.attname, a.atttypid) in (('number', 'integer'::regtype), ('name', 'text'::regtype), ('applied_at', 'timestamptz'::regtype))
)
"""
"""Whether schema `relaybox` is ours, as an SQL expression: other software has schemas and migrations of its own."""

_FOREIGN_OBJECTS = f"""
with ours as (select n.oid, quote_ident(n.nspname) as name from pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal')),
found as (
    select s.name as schema, o.kind || ' ' || o.name as what, row_number() over (order by s.name, o.kind || ' ' || o.name) as number
    from (
        select c.relnamespace as schema, c.oid::regclass::text as name,
            case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'c' then 'type'
                else 'table' end as kind
        from pg_class c where c.relkind in ('r', 'p', 'v', 'm', 'S', 'f', 'c')
        union all
        select p.pronamespace as schema, p.oid::regprocedure::text as name, 'routine' as kind from pg_proc p
        union all
        select t.typnamespace as schema, t.oid::regtype::text as name, 'type' as kind from pg_type t where t.typtype in ('d', 'e', 'r')
    ) o join ours s on s.oid = o.schema
)
select
    'schema ' || string_agg(distinct f.schema, ' and ')
        || ' has objects, but table relaybox.migration of a store is not there: '
        || string_agg(f.what, ', ' order by f.number) filter (where f.number <= 10)
        || case when count(*) > 10 then ' and ' || count(*) - 10 || ' more' else '' end
        || '. Nothing was changed.' as told,
    'Relaybox needs the schemas relaybox and relaybox_internal for itself. If they are of other software, give the '
        || 'store a database of its own, or rename them: '
        || string_agg(distinct 'alter schema ' || f.schema || ' rename to NAME', '; ')
        || '; then run: relaybox init. If they are a part of a store that was restored, restore all of it.' as next_step
from found f
where not {IS_STORE}
having count(*) > 0
"""  # noqa: S608


def refuse_foreign_schemas(session: Statements) -> None:
    """Refuses a database without a store in whose schemas `relaybox` or `relaybox_internal` there is anything. Changes nothing.

    Raises:
        StoreUnusable: it names what was found.
    """
    session.refuse(_FOREIGN_OBJECTS, kind=errors.StoreUnusable)


# owner: null where there is no such schema. is_foreign: its owner is neither that of the store, nor (before there is a store) the login,
# which is a superuser. holds_store: its owner differs, but the tables of the store in it are those of the owner of relaybox.migration
_MISSING_RIGHTS = """
with schemas as (
    select s.name, s.number, n.nspowner::regrole::text as owner, o.nspowner::regrole::text as store_owner,
        coalesce(pg_has_role(n.nspowner, 'usage'), false) as is_owned,
        coalesce(
            case
                when exists (
                    select from pg_class m where m.relnamespace = o.oid and m.relname = 'migration'
                ) then n.nspowner <> o.nspowner
                else n.nspowner <> r.oid and r.rolsuper
            end,
            false
        ) as is_foreign,
        exists (
            select from pg_class m join pg_class t on t.relowner = m.relowner
            where m.relnamespace = o.oid and m.relname = 'migration' and t.relnamespace = n.oid and t.relname = 'store'
        ) as holds_store,
        (
            select m.relowner::regrole::text from pg_class m
            where m.relnamespace = o.oid and m.relname = 'migration' and pg_has_role(m.relowner, 'usage')
        ) as table_owner,
        has_database_privilege(d.oid, 'create') as may_create, quote_ident(current_user) as login, quote_ident(d.datname) as database
    from unnest(array['relaybox', 'relaybox_internal']) with ordinality s (name, number)
    join pg_database d on d.datname = current_database()
    join pg_roles r on r.rolname = current_user
    left join pg_namespace n on n.nspname = s.name
    left join pg_namespace o on o.nspname = 'relaybox'
), problems as (
    select s.*, case
        when s.owner is null and not s.may_create then 'cannot be made'
        when s.is_foreign and s.holds_store then 'store of another owner' -- to drop it would drop the messages
        when s.is_foreign then 'foreign' -- its owner could put functions there that run with the rights of the store's owner
        when s.owner is not null and not s.is_owned then 'not owned'
    end as problem
    from schemas s
)
select
    case p.problem
        when 'cannot be made' then 'login ' || p.login || ' may not make schema ' || p.name || ' in database ' || p.database
        when 'store of another owner' then 'schema ' || p.name || ' belongs to ' || p.owner || ', schema relaybox to another role'
        when 'foreign' then 'schema ' || p.name || ' belongs to ' || p.owner || ', which does not own the store'
        else 'login ' || p.login || ' does not own schema ' || p.name || '; ' || p.owner || ' does'
    end || '. Init changed nothing.' as told,
    case p.problem
        when 'cannot be made' then 'As a superuser: create schema ' || p.name || ' authorization ' || p.login
        when 'store of another owner' then 'As a superuser: alter schema ' || p.name || ' owner to ' || p.store_owner
        when 'foreign'
            then 'Look at what is in it (\\df ' || p.name || '.*); as a superuser: drop schema ' || p.name || ' cascade'
        -- the tables are the login's, the schemas were given away by hand: else a wrong login would be offered the store of another role
        when 'not owned' then coalesce('As a superuser: ' || (
            select string_agg('alter schema ' || s.name || ' owner to ' || p.table_owner, '; ' order by s.number)
            from schemas s where s.owner is not null and not s.is_owned
        ), 'Log in as ' || p.owner || ', the owner: correct user in the service file')
    end || '; then run: relaybox init' as next_step
from problems p where p.problem is not null order by p.number limit 1
"""


def require_schemas(session: Statements) -> None:
    """Refuses a login that neither owns the two schemas nor may make them: before init touches what is in them.

    Raises:
        StoreUnusable: the login may not make one of the schemas, or another role owns it. The error names the statement that repairs it.
    """
    session.refuse(_MISSING_RIGHTS, kind=errors.StoreUnusable)
