"""Inits of a store come one after the other: each locks a row of relaybox.migration, which needs rights that only the owner has.

An advisory lock would do for every init, and could be held by every login that may connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg2 import sql

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.sessions import StoreSession

COMMAND_ROW, TRANSACTION_ROW = 1, 2
"""Which row an init holds: for all of its stores, over several transactions of other sessions; and in each of those transactions.

Each store has had these two since its first init, and nothing ever changes them.
"""


def lock_init(session: StoreSession, row: int) -> None:
    """Keeps other inits out until the session's transaction ends, also those of a store that has no table yet."""
    if session.value("select pg_is_in_recovery()") or _lock_row(session, row):
        return  # a standby takes no lock; the check of the store refuses it
    # Two transactions cannot make a schema of one name: the second waits for the end of the first, although that drops it at once.
    # Only a login that may make schemas in this database gets so far
    name = sql.Identifier(f"relaybox_first_init_{row}")
    session.execute(sql.SQL("create schema {}").format(name))
    session.execute(sql.SQL("drop schema {}").format(name))
    _lock_row(session, row)  # the init that was waited for has made it


def _lock_row(session: StoreSession, row: int) -> bool:
    if not session.value("select to_regclass('relaybox.migration') is not null"):
        return False
    return session.execute("select from relaybox.migration m where m.number = %s for update", row) > 0


def init_is_held(session: StoreSession, waited_seconds: int) -> errors.StoreBusy:
    """The error of an init that waited in vain for another one, with the sessions that hold the lock. Rolls the transaction back."""
    return _busy(session, f"store {session.store}: another init has held it for {waited_seconds} s", _OTHER_INITS, {})


def schema_is_held(session: StoreSession, waited_seconds: int) -> errors.StoreBusy:
    """The error of an init that could not change an object, with the open transactions that use our schema and began before it waited.

    A view is replaced when nobody reads it: an open transaction that read it once holds it to its end. Rolls the transaction back.
    """
    told = f"store {session.store}: init waited {waited_seconds} s for what other transactions hold"
    return _busy(session, told, _OPEN_TRANSACTIONS, {"seconds": waited_seconds})


class _Holder(NamedTuple):
    name: str
    pid: int
    login: str
    state: str
    since: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}, login {self.login}, {self.state} since {self.since} UTC)"


def _busy(session: StoreSession, told: str, holders_query: str, parameters: dict[str, int]) -> errors.StoreBusy:
    session.rollback()
    holders = session.rows(_Holder, holders_query, parameters)
    session.rollback()
    named = ", ".join(map(str, holders))
    end = "; ".join(f"select pg_terminate_backend({holder.pid})" for holder in holders)
    or_end = f" (or end a session that hangs, as a login with pg_signal_backend: {end})" if end else ""
    return errors.StoreBusy(
        f"{told}: {named or 'a session that has ended meanwhile'}.",
        next_step=f"Wait until it has ended, then run: relaybox init{or_end}",
    )


_HOLDER = """
select distinct coalesce(nullif(a.application_name, ''), 'a session') as name, l.pid, a.usename as login, a.state,
    to_char(a.xact_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since
from pg_catalog.pg_locks l
join pg_catalog.pg_stat_activity a on a.pid = l.pid
where l.granted and l.pid <> pg_catalog.pg_backend_pid()
    and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
"""

_OTHER_INITS = f"""{_HOLDER}
    and (l.relation = to_regclass('relaybox.migration') and l.mode = 'RowShareLock'
        or l.relation = 'pg_catalog.pg_namespace'::regclass and l.mode = 'RowExclusiveLock')
    and not exists (select from pg_catalog.pg_locks w where w.pid = l.pid and not w.granted)
order by l.pid
"""

_OPEN_TRANSACTIONS = f"""{_HOLDER}
    and l.relation::regclass::text ~ '^relaybox[.]' and l.relation::regclass::text !~ '^relaybox[.]migration' -- that is what inits hold
    and a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
order by l.pid
"""
