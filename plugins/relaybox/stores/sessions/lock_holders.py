"""Who holds a lock that a session waited for in vain: sessions and prepared transactions, and the statements that end them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg2

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession

_SHOWN_HOLDERS = 5


class LockHolder(NamedTuple):
    """A session, or (`pid` None) a prepared transaction, and the statement that ends it."""

    name: str
    pid: int | None
    login: str
    state: str
    since: str | None
    ends: str

    def __str__(self) -> str:
        pid = "" if self.pid is None else f"pid {self.pid}, "
        since = "its start needs pg_read_all_stats" if self.since is None else f"{self.state} since {self.since} UTC"
        return f"{self.name} ({pid}login {self.login}, {since})"


@contextmanager
def naming_lock_holders(session: StoreSession) -> Iterator[None]:
    """Adds to an error of the block who holds the lock that this session waited for. Rolls the session's transaction back then.

    Of other errors, and of those of other sessions, nothing is changed.

    Raises:
        StoreBusy: in place of the one that the block raised.
    """
    try:
        yield
    except errors.StoreBusy as error:
        cause = error.__cause__
        if not isinstance(cause, psycopg2.errors.LockNotAvailable) or not _is_of(cause, session) or session.closed:
            raise
        told = f"{Exception.__str__(error).rstrip('.')}. Open transactions with locks on its tables"
        try:
            named = lock_error(session, told, OPEN_TRANSACTIONS, {"seconds": 0})
        except errors.RelayboxError:
            raise error from cause  # the store does not answer any more: what failed first is told
        raise named from cause


def _is_of(error: psycopg2.Error, session: StoreSession) -> bool:
    return error.cursor is not None and error.cursor.connection is session.connection


def lock_error(
    session: StoreSession, told: str, holders_query: str, parameters: Mapping[str, int], *, then: str = "run it again"
) -> errors.StoreBusy:
    """The error of a lock that was not to be had. Rolls the session's transaction back, and asks who holds it.

    Args:
        session: the one that waited.
        told: what it waited for; the holders follow.
        holders_query: gives rows of LockHolder, the likeliest first.
        parameters: of the query.
        then: what to do when the holders have ended.
    """
    session.rollback()
    found = session.rows(LockHolder, holders_query, parameters)
    session.rollback()
    holders, more = found[:_SHOWN_HOLDERS], len(found) - _SHOWN_HOLDERS
    named = ", ".join(map(str, holders)) + (f", and {more} more" if more > 0 else "")
    sessions = "; ".join(holder.ends for holder in holders if holder.pid is not None)
    prepared = "; ".join(holder.ends for holder in holders if holder.pid is None)
    ways = [
        *([f"as a login with pg_signal_backend: {sessions}"] if sessions else ()),
        *([f"as the owner of the prepared transaction: {prepared}"] if prepared else ()),
    ]
    or_end = f" (or end what hangs, {', and '.join(ways)})" if ways else ""
    return errors.StoreBusy(
        f"{told}: {named or 'a session that has ended meanwhile'}.", next_step=f"Wait until it has ended, then {then}{or_end}"
    )


LOCK_HOLDERS = """
select coalesce('prepared transaction ' || quote_literal(p.gid), nullif(a.application_name, ''), 'a session') as name, l.pid,
    coalesce(p.owner, a.usename) as login, coalesce(a.state, 'prepared') as state,
    to_char(coalesce(p.prepared, a.xact_start) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since,
    coalesce('rollback prepared ' || quote_literal(p.gid), format('select pg_terminate_backend(%%s)', l.pid)) as ends
from pg_catalog.pg_locks l
left join pg_catalog.pg_stat_activity a on a.pid = l.pid
left join pg_catalog.pg_locks own
    on l.pid is null and own.pid is null and own.virtualtransaction = l.virtualtransaction and own.locktype = 'transactionid'
left join pg_catalog.pg_prepared_xacts p on p.transaction = own.transactionid
where l.pid is distinct from pg_catalog.pg_backend_pid() and (a.pid is not null or p.gid is not null)
    and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
"""
"""Columns of LockHolder, from all locks of the database. More conditions on `l`, `a` and `p` may follow; LIKELIEST_FIRST ends it."""

LIKELIEST_FIRST = """
group by 1, 2, 3, 4, 5, 6
order by bool_or(l.mode = 'AccessExclusiveLock') desc, bool_and(l.mode = 'AccessShareLock'), min(coalesce(p.prepared, a.xact_start)), l.pid
"""
"""A row for each holder; those that only read come last."""

OPEN_TRANSACTIONS = f"""{LOCK_HOLDERS}
    and (l.granted or l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
    and l.relation::regclass::text ~ '^relaybox(_internal)?[.]'
    and l.relation::regclass::text !~ '^relaybox[.]migration' -- that is what inits hold
    and coalesce(
        coalesce(p.prepared, a.xact_start) not between clock_timestamp() - make_interval(secs => %(seconds)s) and clock_timestamp(), true
    )
{LIKELIEST_FIRST}
"""
"""Those that have used a table of Relaybox, or wait for a strong lock on one, and began `seconds` ago or earlier, or in the future of
a clock that was set back: who comes later waits behind them."""
