"""Inits of a store come one after the other: each locks a row of relaybox.migration, which needs rights that only the owner has.

An advisory lock would do for every init, and could be held by every login that may connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.stores.schema.namespaces import IS_STORE, refuse_foreign_schemas, require_schemas
from relaybox.stores.schema.sql_files import read_init_file
from relaybox.stores.schema.stronger_logins import refuse_stronger_login
from relaybox.stores.sessions.lock_holders import LIKELIEST_FIRST, LOCK_HOLDERS, OPEN_TRANSACTIONS, lock_error

if TYPE_CHECKING:
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

OTHER_INIT_SECONDS = 60
"""How long an init waits for another one of the same store."""


def lock_init(session: Statements, row: int) -> None:
    """Keeps other inits out until the session's transaction ends, also those of a store that has no table yet.

    Raises StoreUnusable for schemas that are not a store's, and for a login with less rights than the owner, or more.
    """
    refuse_foreign_schemas(session)
    require_owner(session)
    session.set_local({"relaybox_init.row": str(row)})
    session.execute(read_init_file("lock_init"))
    session.execute(read_init_file("lock_migration"))
    refuse_stronger_login(session)  # the init that it waited for may have made the store for another role
    session.execute(read_init_file("lock_row"))


def require_owner(session: Statements) -> None:
    """Refuses a login that may do less than the owner of the store, or more. Each transaction of an init begins with it.

    Reads catalogs only: it runs nothing that the owner wrote.

    Raises:
        StoreUnusable: as require_schemas() and refuse_stronger_login().
    """
    require_schemas(session)
    refuse_stronger_login(session)


def add_phases(session: Statements, migration: str) -> None:
    """Adds `relaybox.migration.phase` to a store of before it. To be committed before an init locks a row of the table: others wait there.

    Older code neither reads nor writes the column, and an init that fails later leaves it.

    Args:
        session: of an init that holds nothing yet.
        migration: the text of the migration that adds it.
    """
    session.when(_LACKS_PHASES, do=lambda: session.execute(migration))


_LACKS_PHASES = f"""
select {IS_STORE} and not pg_is_in_recovery() and not exists (
    select from pg_attribute a where a.attrelid = to_regclass('relaybox.migration') and a.attname = 'phase'
)
"""  # noqa: S608


def refuse_older_code(session: Statements) -> None:
    """Raises StoreBusy while sessions of Relaybox are open that cannot go on after a migration that is pending.

    Reads the transaction's setting relaybox_init.migrations (stores.schema.migrations).
    """
    session.refuse(_OLDER_CODE, kind=errors.StoreBusy)


_OLDER_CODE = """
with post as (
    select string_agg(lpad(m ->> 0, 4, '0') || ' ' || (m ->> 1), ', ' order by (m ->> 0)::integer) as names
    from json_array_elements(current_setting('relaybox_init.migrations')::json) m
    where m ->> 2 = 'post' and not exists (select from relaybox.migration done where done.number = (m ->> 0)::integer)
), older as (
    select string_agg(
        format(
            '%s (pid %s, login %s, %s since %s UTC)', a.application_name, a.pid, a.usename, coalesce(a.state, 'active'),
            to_char(a.backend_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')
        ),
        ', ' order by a.pid
    ) as sessions
    from pg_catalog.pg_stat_activity a
    where a.datname = current_database() and a.application_name ~ '^relaybox ' and a.application_name <> 'relaybox init'
)
select 'the previous version cannot go on after migration ' || p.names || ', and it has sessions: ' || o.sessions || '.' as told,
    'Stop Airflow and the consumers of the previous version, then run: relaybox init' as next_step
from post p, older o
where p.names is not null and o.sessions is not null
"""


def init_is_held(session: StoreSession, waited_seconds: int) -> errors.StoreBusy:
    """The error of an init that waited too long for another one, with the sessions that hold the lock. Rolls the transaction back."""
    told = f"store {session.store}: another init has held it for {waited_seconds} s"
    return lock_error(session, told, OTHER_INITS, {}, then=_RUN_INIT)


def schema_is_held(session: StoreSession, waited_seconds: int) -> errors.StoreBusy:
    """The error of an init that could not change an object, with the open transactions that use our schema and began before it waited.

    A view can be replaced when no transaction has it locked: a transaction that read it holds the lock to its end. Rolls the transaction
    back.
    """
    told = f"store {session.store}: init waited {waited_seconds} s for what other transactions hold"
    return lock_error(session, told, OPEN_TRANSACTIONS, {"seconds": waited_seconds}, then=_RUN_INIT)


_RUN_INIT = "run: relaybox init"

OTHER_INITS = f"""{LOCK_HOLDERS}
    and l.granted and (l.relation = to_regclass('relaybox.migration') and l.mode = 'RowShareLock'
        or l.relation = 'pg_catalog.pg_namespace'::regclass and l.mode = 'RowExclusiveLock')
    and not exists (select from pg_catalog.pg_locks w where w.pid = l.pid and not w.granted)
{LIKELIEST_FIRST}
"""
