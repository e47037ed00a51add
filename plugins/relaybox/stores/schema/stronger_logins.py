"""Logins that may do more than the owner of a store: whatever the owner put into the store would run with their rights.

A trigger, default, index expression, rule, check or function of the owner is run by the statements of an init. `set local role` does not
help: that code may call `set_config('role', 'none', true)`. So these queries read catalogs only, and come before any other statement.

The login is each of three roles: the one that the server admitted (pg_stat_get_activity() keeps it), that of `set session authorization`,
and that of `set role`. Code of the owner gets back to the first one from both others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.schema.statements import Statements

_LOGINS = """
logins as (
    select l.* from pg_catalog.pg_roles l
    where l.rolname in (session_user, current_user)
        or l.oid = (select a.usesysid from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a)
), owners as (
    select n.nspowner as oid, 'schema ' || n.nspname as what, 1 as number from pg_catalog.pg_namespace n
    where n.nspname in ('relaybox', 'relaybox_internal') and {counts}
    union all
    select c.relowner, 'relaybox.migration', 2 from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'relaybox' and c.relname = 'migration' and {counts}
)
"""

_MADE_BEFORE = "n.xmin is distinct from pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.xid"
"""A schema that this transaction made has nothing of its owner in it: no other session sees it."""

# Those of Relaybox too: a role is the whole cluster's, and so gives rights on the stores of others. A role that the owner may grant is no
# more than it can have. Objects of the other databases are out of reach.
_STRONGER = """
with {logins}, privileges as (
    select * from pg_catalog.unnest(array['member', 'usage', 'member with admin option', 'set'])
        with ordinality p (privilege, number)
    where p.privilege <> 'set' or pg_catalog.current_setting('server_version_num')::integer >= 160000
), found as (
    select o.what, o.number, l.rolname as login, r.rolname as owner, r.rolcanlogin as may_log_in, case
        when l.rolsuper then 'it is a superuser'
        else pg_catalog.concat_ws(', ',
            case when l.rolcreaterole and not r.rolcreaterole then 'it has createrole' end,
            case when l.rolcreatedb and not r.rolcreatedb then 'it has createdb' end,
            case when l.rolreplication and not r.rolreplication then 'it has replication' end,
            case when l.rolbypassrls and not r.rolbypassrls then 'it has bypassrls' end,
            (
                select 'it has more of role ' || pg_catalog.string_agg(
                    pg_catalog.quote_ident(g.rolname) || ' (' || g.more || ')', ', ' order by g.rolname
                )
                from (
                    select g.rolname, pg_catalog.string_agg(p.privilege, ', ' order by p.number) as more
                    from pg_catalog.pg_roles g
                    join privileges p on pg_catalog.pg_has_role(l.oid, g.oid, p.privilege)
                        and not pg_catalog.pg_has_role(r.oid, g.oid, p.privilege)
                    where g.oid not in (l.oid, r.oid) and not pg_catalog.pg_has_role(r.oid, g.oid, 'member with admin option')
                    group by g.rolname
                ) g
            ),
            (
                select 'it has rights of its own on ' || pg_catalog.min(pg_catalog.pg_describe_object(d.classid, d.objid, 0))
                    || case when pg_catalog.count(*) > 1 then ' and ' || pg_catalog.count(*) - 1 || ' more objects' else '' end
                from pg_catalog.pg_shdepend d
                where d.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass and d.refobjid = l.oid and d.deptype in ('o', 'a')
                    and d.dbid in (0, (select b.oid from pg_catalog.pg_database b where b.datname = pg_catalog.current_database()))
                    and d.classid not in (
                        'pg_catalog.pg_default_acl'::pg_catalog.regclass, 'pg_catalog.pg_auth_members'::pg_catalog.regclass
                    )
                    and not (d.classid = 'pg_catalog.pg_database'::pg_catalog.regclass and d.deptype = 'a')
                    and not exists (
                        select from pg_catalog.pg_namespace n
                        where n.nspname in ('relaybox', 'relaybox_internal') and n.oid in (
                            d.objid,
                            (select c.relnamespace from pg_catalog.pg_class c where c.oid = d.objid),
                            (select p.pronamespace from pg_catalog.pg_proc p where p.oid = d.objid)
                        )
                    )
                    and not exists (select from pg_catalog.pg_class c where c.oid = d.objid and c.relpersistence = 't')
                    and not exists (
                        select from pg_catalog.pg_shdepend other
                        where (other.dbid, other.classid, other.objid, other.refclassid) = (d.dbid, d.classid, d.objid, d.refclassid)
                            and other.refobjid = r.oid and other.deptype in ('o', 'a')
                    )
                having pg_catalog.count(*) > 0
            )
        )
    end as more
    from owners o join pg_catalog.pg_roles r on r.oid = o.oid
    join logins l on l.oid <> r.oid
    where not r.rolsuper
)
"""


def _stronger(counts: str) -> str:
    return _STRONGER.format(logins=_LOGINS.format(counts=counts))


_REFUSED = f"""
{_stronger(_MADE_BEFORE)}, event_triggers as (
    select t.evtname, p.oid::pg_catalog.regprocedure as function, p.proowner::pg_catalog.regrole as owner, l.rolname as login
    from pg_catalog.pg_event_trigger t join pg_catalog.pg_proc p on p.oid = t.evtfoid
    join pg_catalog.pg_roles r on r.oid = p.proowner and not r.rolsuper
    join logins l on l.rolsuper
    where t.evtenabled in ('O', 'A')
)
select told, next_step from (
    select f.number,
        'login ' || pg_catalog.quote_ident(f.login) || ' may do more than ' || pg_catalog.quote_ident(f.owner) || ', which owns ' || f.what
            || ': ' || f.more || '. Code of ' || pg_catalog.quote_ident(f.owner)
            || ' in the store (triggers, defaults, functions) would run with this right. Init ran none of it and changed nothing.' as told,
        case
            when f.may_log_in then 'Log in as ' || pg_catalog.quote_ident(f.owner) || ' (user=' || f.owner || ' in the service file)'
            else 'Log in as a member of ' || pg_catalog.quote_ident(f.owner) || ' that has no other right; to make one: '
                || 'create role NAME login password ''...'' in role ' || pg_catalog.quote_ident(f.owner)
        end || '; then run: relaybox init' as next_step
    from found f where f.more <> ''
    union all
    select 3, 'login ' || pg_catalog.quote_ident(e.login) || ' is a superuser, and event trigger ' || pg_catalog.quote_ident(e.evtname)
            || ' runs ' || e.function || ' in the statements of init, a function of ' || e.owner
            || ', which is no superuser. Init changed nothing.',
        'Log in as the owner of the store, who is no superuser, or have a superuser own the function: alter function ' || e.function
            || ' owner to ' || pg_catalog.quote_ident(e.login) || '; then run: relaybox init'
    from event_triggers e
) refusals (number, told, next_step)
order by number, told limit 1
"""  # noqa: S608

IS_STRONGER = f"({_stronger('true')} select exists (select from found f where f.more <> ''))"  # noqa: S608
"""Whether the login may do more than the owner of the store, as an SQL expression; false in a database without schemas of ours."""

_SUPERUSER = f"""
with {_LOGINS.format(counts="true")}
select 'login ' || pg_catalog.quote_ident(l.rolname) || ' is a superuser, and ' || pg_catalog.quote_ident(r.rolname) || ', which owns '
        || o.what || ', is not. Functions of ' || pg_catalog.quote_ident(r.rolname)
        || ' would run with the rights of a superuser. None was run.' as told,
    'Log in with a role of the store (docs/rights.md says which), or as ' || pg_catalog.quote_ident(r.rolname)
        || ': correct user in the service file.' as next_step
from owners o join pg_catalog.pg_roles r on r.oid = o.oid and not r.rolsuper
join logins l on l.rolsuper
order by o.number, o.what limit 1
"""  # noqa: S608


def refuse_stronger_login(session: Statements) -> None:
    """Refuses an init whose login may do more than the owner of a store that exists. Reads catalogs only.

    Raises:
        StoreUnusable: it names the login, the owner, the right, and as whom to log in.
    """
    session.refuse(_REFUSED, kind=errors.StoreUnusable)


def refuse_superuser(session: Statements) -> None:
    """Refuses a superuser in a store that no superuser owns, before a function of the store is called. Reads catalogs only.

    Raises:
        StoreUnusable: it names the login and the owner.
    """
    session.refuse(_SUPERUSER, kind=errors.StoreUnusable)
