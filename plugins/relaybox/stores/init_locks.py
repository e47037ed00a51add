"""Inits of a store come one after the other: each locks a row of relaybox.migration, which needs rights that only the owner has.

An advisory lock would do for every init, and could be held by every login that may connect.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import psycopg2
from psycopg2 import sql

from relaybox import errors
from relaybox.stores.lock_holders import LIKELIEST_FIRST, LOCK_HOLDERS, OPEN_TRANSACTIONS, LockHolder, lock_error
from relaybox.stores.namespaces import IS_STORE, refuse_foreign_schemas, require_schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.stores.sessions import StoreSession

COMMAND_ROW, TRANSACTION_ROW = 1, 2
"""Which row an init holds: for all of its stores, over several transactions of other sessions; and in each of those transactions.

Each store has had these two since its first init, and nothing ever changes them.
"""


def lock_init(session: StoreSession, row: int) -> None:
    """Keeps other inits out until the session's transaction ends, also those of a store that has no table yet.

    Raises StoreUnusable for schemas that are not a store's, and for a login without the rights of an owner (stores.namespaces).
    """
    refuse_foreign_schemas(session)
    require_schemas(session)
    if session.value("select pg_is_in_recovery()") or _lock_row(session, row):
        return  # a standby takes no lock; the check of the store refuses it
    # Two transactions cannot make a schema of one name: the second waits for the end of the first, although that drops it at once.
    # Only a login that may make schemas in this database gets so far, or (a superuser made our schema for it) tables in our schema
    name = f"relaybox_first_init_{row}"
    if session.value("select to_regnamespace('relaybox') is null"):
        session.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        session.execute(sql.SQL("drop schema {}").format(sql.Identifier(name)))
    else:
        session.execute(sql.SQL("create table {} ()").format(sql.Identifier("relaybox", name)))
        session.execute(sql.SQL("drop table {}").format(sql.Identifier("relaybox", name)))
    _lock_row(session, row)  # the init that was waited for has made it


def add_phases(session: StoreSession, migration: str) -> None:
    """Adds `relaybox.migration.phase` to a store of before it, and commits: that is not possible while an init holds a row of the table.

    Older code neither reads nor writes the column, and an init that fails later leaves it.

    Args:
        session: of an init that holds nothing yet.
        migration: the text of the migration that adds it.
    """
    is_missing = session.value(
        f"""
        select {IS_STORE} and not pg_is_in_recovery() and not exists (
            select from pg_attribute a where a.attrelid = to_regclass('relaybox.migration') and a.attname = 'phase'
        )
        """  # noqa: S608
    )
    if is_missing:
        session.execute(migration)
    session.commit()


def _lock_row(session: StoreSession, row: int) -> bool:
    if not session.value("select to_regclass('relaybox.migration') is not null"):
        return False
    return session.execute("select from relaybox.migration m where m.number = %s for update", row) > 0


def lock_relations(session: StoreSession, names: Sequence[str]) -> None:
    """Locks tables and views of these names in our schemas, those that exist, before anything is changed.

    Afterwards init waits for no session.

    All locks are taken within half of `deadlock_timeout`, or none. So no session waits for init long enough to be ended as one part of
    a deadlock, and no session that waits behind init waits for what a long transaction holds. Between attempts others go on.
    Runs before the transaction has changed anything. Raises StoreBusy after the session's `lock_timeout`.
    """
    found = session.values(
        "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname in ('relaybox', 'relaybox_internal') and c.relname::text = any(%s::text[]) and c.relkind in ('r', 'p', 'v') "
        "order by c.relkind <> 'v' or c.relname = 'lane_cursors', array_position(%s::text[], c.relname::text), 1",
        *(list(names), list(ENTRANCES)),
    )
    if not found:
        return
    times = session.row(
        _Times,
        "select extract(epoch from current_setting('deadlock_timeout')::interval)::float8 / 2 as attempt_seconds, "
        "extract(epoch from current_setting('lock_timeout')::interval)::float8 as patience_seconds",
    )
    ends = time.monotonic() + times.patience_seconds
    session.execute("savepoint before_locks")
    while not _lock_all(session, found, times.attempt_seconds, is_last=time.monotonic() > ends):
        time.sleep(times.attempt_seconds)
    session.execute("release savepoint before_locks")  # what init writes names its transaction (relaybox_internal.numbering)
    session.value("select set_config('lock_timeout', %s, true)", f"{times.patience_seconds}s")


ENTRANCES = ("subscription", "hop_in", "hop_out", "stream")
"""What consumers and drivers take first, after views that applications read. Who waits here holds nothing yet; those past it can end."""


class _Times(NamedTuple):
    attempt_seconds: float
    patience_seconds: float


def _lock_all(session: StoreSession, names: Sequence[str], within_seconds: float, *, is_last: bool) -> bool:
    ends = time.monotonic() + within_seconds
    try:
        for name in names:
            rest = max(1, int((ends - time.monotonic()) * 1000))
            session.value("select set_config('lock_timeout', %s, true)", f"{rest}ms")
            session.execute(sql.SQL("lock table {} in access exclusive mode").format(sql.SQL(name)))
    except errors.StoreBusy as error:
        if is_last or not isinstance(error.__cause__, psycopg2.errors.LockNotAvailable):
            raise
        session.execute("rollback to savepoint before_locks")  # gives the locks back
        return False
    return True


def refuse_older_code(session: StoreSession, migrations: Sequence[str]) -> None:
    """Raises StoreBusy while sessions of Relaybox are open: the previous version cannot go on after these migrations."""
    holders = session.rows(
        LockHolder,
        """
        select a.application_name as name, a.pid, a.usename as login, coalesce(a.state, 'active') as state,
            to_char(a.backend_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since,
            format('select pg_terminate_backend(%%s)', a.pid) as ends
        from pg_catalog.pg_stat_activity a
        where a.datname = current_database() and a.application_name ~ '^relaybox ' and a.application_name <> 'relaybox init'
        order by a.pid
        """,
    )
    if holders:
        raise errors.StoreBusy(
            f"store {session.store}: the previous version cannot go on after migration {', '.join(migrations)}, and it has sessions: "
            f"{', '.join(map(str, holders))}.",
            next_step="Stop Airflow and the consumers of the previous version, then run: relaybox init",
        )


def init_is_held(session: StoreSession, waited_seconds: int) -> errors.StoreBusy:
    """The error of an init that waited too long for another one, with the sessions that hold the lock. Rolls the transaction back."""
    told = f"store {session.store}: another init has held it for {waited_seconds} s"
    return lock_error(session, told, _OTHER_INITS, {}, then=_RUN_INIT)


def schema_is_held(session: StoreSession, waited_seconds: int) -> errors.StoreBusy:
    """The error of an init that could not change an object, with the open transactions that use our schema and began before it waited.

    A view can be replaced when no transaction has it locked: a transaction that read it holds the lock to its end. Rolls the transaction
    back.
    """
    told = f"store {session.store}: init waited {waited_seconds} s for what other transactions hold"
    return lock_error(session, told, OPEN_TRANSACTIONS, {"seconds": waited_seconds}, then=_RUN_INIT)


_RUN_INIT = "run: relaybox init"

_OTHER_INITS = f"""{LOCK_HOLDERS}
    and l.granted and (l.relation = to_regclass('relaybox.migration') and l.mode = 'RowShareLock'
        or l.relation = 'pg_catalog.pg_namespace'::regclass and l.mode = 'RowExclusiveLock')
    and not exists (select from pg_catalog.pg_locks w where w.pid = l.pid and not w.granted)
{LIKELIEST_FIRST}
"""
