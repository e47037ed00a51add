"""`relaybox init --sql`: the statements of an init as a script that psql runs, written without a look at the store.

The code that `relaybox init` runs writes them, with a psql_script.Script in the place of a session.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from relaybox import __version__, errors
from relaybox.amounts import amount
from relaybox.stores.init.event_triggers import EVENT_TRIGGERS
from relaybox.stores.init.locks import (
    OTHER_INIT_SECONDS,
    OTHER_INITS,
    add_phases,
    lock_init,
)
from relaybox.stores.init.one_store import SEGMENT_ROWS, make_way
from relaybox.stores.init.psql_script import Script, identifier
from relaybox.stores.init.registration import register_hops, renew_payload_checks, set_switches
from relaybox.stores.init.script_report import ask_report, take_picture, take_roles
from relaybox.stores.init.server import ROLES, check_server, create_roles, name_store, record_server
from relaybox.stores.schema.functions import renew_functions
from relaybox.stores.schema.migrations import (
    COMMAND_ROW,
    TRANSACTION_ROW,
    apply_migrations,
    newest_migration,
    oldest_version,
    phases_migration,
    sql_directory,
)
from relaybox.stores.schema.namespaces import IS_STORE, require_schemas
from relaybox.stores.schema.stronger_logins import IS_STRONGER, refuse_stronger_login
from relaybox.stores.schema.table_definitions import repair_tables
from relaybox.stores.sessions.lock_holders import OPEN_TRANSACTIONS
from relaybox.stores.sessions.settings import LOCK_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from relaybox.routes import Hop, Routes, Store


def write_script(
    store: Store, routes: Routes, *, owner: str | None = None, segment_rows: int = SEGMENT_ROWS, older: bool = False
) -> str:
    """The script of psql that brings one store up to date and registers its hops, as initialise_store() does. Asks no database.

    Args:
        store: the store.
        routes: all routes; hops of other stores are passed over.
        owner: the role that owns the schemas, without quotes; None: the owner that they have, or who runs the script.
        segment_rows: as initialise_store().
        older: as initialise_store().
    """
    script = Script(store.name)
    script.note(_header(store, routes, owner))
    script.write(_PSQL)
    with script.transaction("Check the server. This changes nothing.", may_write=False):
        _refuse_owner(script, owner)
        if owner is None:
            _refuse_superuser_as_owner(script)
            _become_owner(script, owner)
            require_schemas(script)
        refuse_stronger_login(script)
        check_server(script, store)
        _print(script, _EVENT_TRIGGERS)
    with script.transaction("A store of before version 38: add relaybox.migration.phase. Older code goes on."):
        refuse_stronger_login(script)
        _become_owner(script, owner)
        add_phases(script, phases_migration().text)
    with script.transaction(f"Bring the store to version {newest_migration().number}."):
        _refuse_owner(script, owner)
        if owner is None:
            _refuse_superuser_as_owner(script)
        refuse_stronger_login(script)
        take_roles(script)
        create_roles(script)
        _make_schemas(script, owner)
        _become_owner(script, owner)
        _lock(script)
        take_picture(script)
        with _waiting_for_transactions(script):
            make_way(script, older=older)
        apply_migrations(script)
        name_store(script, store, segment_rows)
        renew_functions(script, sql_directory(), older=older)
        repair_tables(script)
        record_server(script, store)
        script.note("Hops and streams of relaybox.yaml.")
        for hop in routes.hops:
            if hop.destination == store:
                _refuse_rule_change(script, hop, routes)
        register_hops(script, store, routes)
        set_switches(script, store)
        renew_payload_checks(script, store, routes)
        # of a store that is made for a role of less rights: after the commit that role may replace these functions
        script.when(f"select {IS_STRONGER}", do=lambda: script.call("relaybox_internal.ensure_outbox_segments"))
        script.when(f"select {IS_STRONGER}", do=lambda: script.call("relaybox_internal.place_payload_trigger"))
        ask_report(script, store, routes, ROLES)
    script.write("\\echo :relaybox_report")
    with script.transaction("Make outbox segments."):
        script.when(f"select not {IS_STRONGER}", do=lambda: _make_segments(script, owner))
    with (
        script.transaction("Make the trigger by which the outbox refuses what does not conform, or take it away."),
        _waiting_for_transactions(script),
    ):
        script.when(f"select not {IS_STRONGER}", do=lambda: _place_trigger(script, owner))
    script.write(f"\\echo store {store.name}: up to date, schema {newest_migration().number}")
    return script.text


def _waiting_for_transactions(script: Script) -> AbstractContextManager[None]:
    """A DO block that can't change an object in time names the open transactions that use the schema."""
    told = f"init waited {LOCK_TIMEOUT_SECONDS} s for what other transactions hold"
    return script.waiting(told, OPEN_TRANSACTIONS, seconds=LOCK_TIMEOUT_SECONDS)


def _make_segments(script: Script, owner: str | None) -> None:
    _become_owner(script, owner)
    script.call("relaybox_internal.ensure_outbox_segments")


_PLACE = """
do $place_payload_trigger$
begin
    perform relaybox_internal.place_payload_trigger();
end
$place_payload_trigger$
"""


def _place_trigger(script: Script, owner: str | None) -> None:
    _become_owner(script, owner)
    script.execute(_PLACE)


def _print(script: Script, query: str) -> None:
    """Has psql print the text `told` that the query gives; nothing where that is null."""
    script.value(f"select t.told, t.told is not null as tells from ({query.strip()}) t")  # noqa: S608
    script.write("\\if :relaybox_tells\n\\echo :relaybox_told\n\\endif")


_EVENT_TRIGGERS = f"""
select string_agg(
    'event trigger ' || t.name || ' runs function ' || t.function || ' in the statements of this script. If that raises an error, as a '
        || 'superuser: alter event trigger ' || t.name || ' disable; then run this script again; then: alter event trigger ' || t.name
        || ' ' || t.enable || ';',
    e'\\n' order by t.name
) as told from ({EVENT_TRIGGERS}) t
"""  # noqa: S608


def _refuse_superuser_as_owner(script: Script) -> None:
    """Refuses to make a store whose owner would be a superuser, unless --owner says so."""
    script.refuse(
        """
        select 'login ' || quote_ident(r.rolname) || ' is a superuser, and would own the store that this script makes. Nothing was changed.'
                as told,
            'Write the script with the role that is to own the store: relaybox init --sql ' || %s || ' --owner ROLE. '
                || 'Or run this script as that role.' as next_step
        from pg_roles r
        where r.rolsuper and r.rolname in (session_user, current_user) and not exists (
            select from pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal')
        )
        limit 1
        """,
        script.store,
        kind=errors.StoreUnusable,
    )


def _header(store: Store, routes: Routes, owner: str | None) -> str:
    hops = [hop.name for hop in routes.hops if store in (hop.destination, hop.source)]
    owns = (
        f"{_one_line(owner)} owns the schemas of a new store. The login needs CREATE on the database and must be able to SET ROLE to it."
        if owner is not None
        else "In a new store the login owns the schemas; it must be no superuser. In a store that exists their owner stays."
    )
    return "\n".join(
        (
            f"relaybox init of store {store.name}, as a script.",
            f"Written by Relaybox {__version__}, from {amount(len(hops), 'hop')} of relaybox.yaml: {', '.join(hops) or 'none'}.",
            "",
            "Run it with psql 10 or newer, in the database of the store:",
            "    psql -X -v ON_ERROR_STOP=1 -f FILE",
            f"It brings a store of schema version {oldest_version()} or later to version {newest_migration().number}.",
            "In a database without a store it makes one. In a store that is up to date it changes nothing.",
            "",
            "It makes the group roles relaybox_*, the schemas relaybox and relaybox_internal, their tables, functions,",
            f"views, grants and comments, and registers the hops. {owns}",
            "It makes no login and has no password. In a database that has only Relaybox in it, it revokes CONNECT and TEMPORARY",
            "from PUBLIC, if the owner of the store owns the database. It prints the owner, and what it changed, revoked and repaired.",
            "One transaction does all of this; a short one before it adds a column to older stores, and two short ones",
            "after it make outbox segments and the trigger of schema_checks. After an error or a kill nothing is half done:",
            "run the script again.",
        )
    )


def _one_line(name: str) -> str:
    return " ".join(name.split())


_PSQL = """\\set ON_ERROR_STOP on
\\set ON_ERROR_ROLLBACK off
\\set AUTOCOMMIT on
\\set SINGLELINE off
\\set SINGLESTEP off
\\set FETCH_COUNT 0
\\set QUIET on
\\encoding UTF8"""


def _lock(script: Script) -> None:
    """Both rows that an init of Python locks in two sessions."""
    script.set_local({"lock_timeout": f"{OTHER_INIT_SECONDS}s"})
    with script.waiting(f"another init has held it for {OTHER_INIT_SECONDS} s", OTHER_INITS, seconds=LOCK_TIMEOUT_SECONDS):
        lock_init(script, COMMAND_ROW)
        lock_init(script, TRANSACTION_ROW)
    script.set_local({"lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s"})


_MAY_SET_ROLE = "pg_has_role({}, case when current_setting('server_version_num')::integer < 160000 then 'MEMBER' else 'SET' end)"


def _refuse_owner(script: Script, owner: str | None) -> None:
    """Refuses a role of --owner that is not there or not the owner, and a login that may not act as it."""
    if owner is None:
        return
    script.refuse(
        f"""
        select case
            when r.oid is null then 'there is no role ' || quote_ident(%(owner)s) || ', which is to own the schemas. Nothing was changed.'
            when n.nspowner <> r.oid then
                'schema ' || n.nspname || ' belongs to ' || n.nspowner::regrole || ', not to ' || quote_ident(%(owner)s)
                    || '. Nothing was changed.'
            when not has_database_privilege(current_database(), 'create') and n.oid is null then
                'login ' || quote_ident(current_user) || ' may not make schemas in database ' || quote_ident(current_database())
                    || '. Nothing was changed.'
            else 'login ' || quote_ident(current_user) || ' may not SET ROLE to ' || quote_ident(%(owner)s) || '. Nothing was changed.'
        end as told,
        case
            when r.oid is null then 'Create it: create role ' || quote_ident(%(owner)s) || '; then run: relaybox init'
            when n.nspowner <> r.oid then 'Write the script with --owner ' || n.nspowner::regrole
            when not has_database_privilege(current_database(), 'create') and n.oid is null then
                'As a superuser: grant create on database ' || quote_ident(current_database()) || ' to ' || quote_ident(current_user)
                    || '; then run: relaybox init'
            else 'As a superuser: grant ' || quote_ident(%(owner)s) || ' to ' || quote_ident(current_user) || '; then run: relaybox init'
        end as next_step
        from unnest(array['relaybox', 'relaybox_internal']) s (name)
        left join pg_roles r on r.rolname = %(owner)s
        left join pg_namespace n on n.nspname = s.name
        where r.oid is null or n.nspowner <> r.oid or not {_MAY_SET_ROLE.format("r.oid")}
            or n.oid is null and not has_database_privilege(current_database(), 'create')
        order by s.name limit 1
        """,  # noqa: S608
        {"owner": owner},
        kind=errors.StoreUnusable,
    )


def _make_schemas(script: Script, owner: str | None) -> None:
    """The schemas of a role that may not make any, after the lock that keeps first inits apart."""
    if owner is None:
        return
    missing = "select to_regnamespace('relaybox') is null or to_regnamespace('relaybox_internal') is null"

    def make() -> None:
        _lock(script)
        for schema in ("relaybox", "relaybox_internal"):
            script.execute(f"create schema if not exists {schema} authorization {identifier(owner)}")
        refuse_stronger_login(script)  # another role may have made one just before

    script.when(missing, do=make)


def _become_owner(script: Script, owner: str | None) -> None:
    """From here on all is done as the role that owns the schemas; where there are none yet, as the login or --owner."""
    script.value(
        f"""
        select coalesce(max(set_config('role', r.rolname, true)), '') as became
        from pg_roles r left join pg_namespace n on n.nspowner = r.oid and n.nspname = 'relaybox'
        where {"r.rolname = %s" if owner is not None else "n.oid is not null and %s and " + IS_STORE} and {_MAY_SET_ROLE.format("r.oid")}
        """,  # noqa: S608
        True if owner is None else owner,
    )


def _refuse_rule_change(script: Script, hop: Hop, routes: Routes) -> None:
    """A stream's rules change in all its stores or in none, which takes several transactions in each of them."""
    stores = sorted({one.destination.name for one in routes.hops if one.stream == hop.stream})
    if len(stores) == 1:
        return
    script.refuse(
        """
        select %(told)s as told, 'Run `relaybox init` with logins that own these stores' as next_step
        where relaybox_internal.stream_rules_differ(%(hop)s, %(stream)s, %(origin)s, %(order)s, %(window)s) or exists (
            select from relaybox_internal.stream s join relaybox_internal.stream_log l using (stream_id)
            join relaybox_internal.hop_in i using (log_id)
            where i.hop = %(hop)s and s.rules_pending
        )
        """,
        {
            "told": f"stream {hop.stream} changes its rules in its stores {', '.join(stores)}, and a script changes one store only. "
            "Nothing was changed.",
            "hop": hop.name,
            "stream": hop.stream,
            "origin": hop.origin.name,
            "order": hop.order,
            "window": hop.message_id_window,
        },
        kind=errors.ConfigurationError,
    )
