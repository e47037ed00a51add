"""Who holds messages up inside one store: transactions that have not ended, and sessions that others wait for. Reads only."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession

QUERY_CHARACTERS = 400


@dataclass(frozen=True)
class Blocker:
    """A transaction that has not ended.

    Attributes:
        pid: of its backend; None: prepared (two-phase), it has no backend.
        who: its role, and its application or the id it was prepared under.
        state: as pg_stat_activity says: `idle in transaction`, `active` ...; or `prepared`.
        began_at, age_seconds: of the transaction, by the store's clock; 0 s: it began in the future of a clock that was set back.
        prepared_as: of a prepared one, the id under which it is committed or rolled back.
        query: the newest statement's beginning; holds what applications put into it, so it is shown only to users who may act.
    """

    pid: int | None
    who: str
    state: str
    began_at: datetime
    age_seconds: float
    query: str
    prepared_as: str | None = None

    def end_command(self, store: str) -> str:
        """What ends it and nothing else: a pid that meanwhile belongs to another transaction is left alone."""
        if self.pid is None:
            name = (self.prepared_as or "").replace("'", "''")
            statement = f"rollback prepared '{name}'"
            return f"psql service={store} -c {shlex.quote(statement)}"
        condition = f"pid = {self.pid} and xact_start = '{self.began_at.isoformat()}'"
        return f'psql service={store} -c "select pg_terminate_backend(pid) from pg_stat_activity where {condition}"'  # noqa: S608  # our own values, for a person to read

    @property
    def right_to_end(self) -> str:
        """Which login the command works for; for another one it fails, or finds no such session."""
        if self.pid is None:
            return "Only the login that prepared it, or a superuser, may roll it back."
        return "Your login needs pg_signal_backend and pg_read_all_stats, for a superuser's session it must be a superuser."


@dataclass(frozen=True)
class Wait:
    """A session of a hop that waits for a lock, and who has it."""

    session: str
    blockers: tuple[Blocker, ...]


@dataclass(frozen=True)
class StoreBlockers:
    """What one store answered.

    Attributes:
        senders: transactions that have written to the outbox and not ended, oldest first.
        waits: sessions of Relaybox that wait for a lock.
        standby_waits: how many sessions of the store have their COMMIT wait for a synchronous standby; the oldest of them since when.
    """

    senders: tuple[Blocker, ...]
    waits: tuple[Wait, ...]
    standby_waits: int
    standby_waits_since: datetime | None


class _StandbyWaits(NamedTuple):
    waiting_count: int
    since: datetime | None


class _WaitRow(NamedTuple):
    """A session that waits, and one of those that it waits for."""

    waiting_pid: int
    session: str
    pid: int | None
    who: str
    state: str
    began_at: datetime
    age_seconds: float
    query: str
    prepared_as: str | None

    @property
    def blocker(self) -> Blocker:
        return Blocker(self.pid, self.who, self.state, self.began_at, self.age_seconds, self.query, self.prepared_as)


def read_blockers(session: StoreSession, *, open_for_seconds: float) -> StoreBlockers:
    """Asks a store, in the caller's transaction.

    Args:
        session: of a role that may see the others (`pg_read_all_stats`), else their statements are hidden.
        open_for_seconds: what lasts for less is no news.
    """
    asked = {"seconds": open_for_seconds, "characters": QUERY_CHARACTERS}
    senders = session.rows(Blocker, _SENDERS, asked)
    waits = _waits(session.rows(_WaitRow, _WAITS, asked))
    standby_waits = session.row(_StandbyWaits, _STANDBY_WAITS, asked)
    return StoreBlockers(tuple(senders), tuple(waits), standby_waits.waiting_count, standby_waits.since)


# An insert locks the outbox in ROW EXCLUSIVE until its transaction ends; a prepared one keeps its locks without a backend.
_SENDERS = """
    select
        a.pid, concat_ws(' ', a.usename, nullif(a.application_name, '')) as who,
        coalesce(a.state, 'unknown') as state, a.xact_start as began_at,
        greatest(extract(epoch from clock_timestamp() - a.xact_start), 0)::double precision as age_seconds,
        left(a.query, %(characters)s) as query, null as prepared_as
    from pg_stat_activity a
    where a.datname = current_database()
        and a.xact_start not between clock_timestamp() - make_interval(secs => %(seconds)s) and clock_timestamp()
        and exists (
            select from pg_locks l
            where l.pid = a.pid and l.relation = 'relaybox.outbox'::regclass and l.mode = 'RowExclusiveLock' and l.granted
                and l.database = (select d.oid from pg_database d where d.datname = current_database())
        )
    union all
    select null, concat_ws(' ', p.owner, p.gid), 'prepared', p.prepared,
        greatest(extract(epoch from clock_timestamp() - p.prepared), 0)::double precision, 'prepare transaction', p.gid
    from pg_prepared_xacts p
    where p.database = current_database()
        and p.prepared not between clock_timestamp() - make_interval(secs => %(seconds)s) and clock_timestamp()
        and exists (
            select from pg_locks x
            join pg_locks l on l.virtualtransaction = x.virtualtransaction and l.pid is null
            where x.locktype = 'transactionid' and x.transactionid = p.transaction and x.pid is null
                and l.relation = 'relaybox.outbox'::regclass and l.mode = 'RowExclusiveLock'
        )
    order by began_at
    limit 20
"""

_WAITS = """
    select
        w.pid as waiting_pid, w.application_name as session, a.pid,
        concat_ws(' ', a.usename, nullif(a.application_name, '')) as who, coalesce(a.state, 'prepared') as state,
        coalesce(a.xact_start, w.query_start) as began_at,
        greatest(extract(epoch from clock_timestamp() - coalesce(a.xact_start, w.query_start)), 0)::double precision as age_seconds,
        coalesce(left(a.query, %(characters)s), '') as query, null as prepared_as
    from (
        select s.*, unnest(pg_blocking_pids(s.pid)) as blocking_pid
        from pg_stat_activity s
        where s.datname = current_database() and s.application_name like 'relaybox %%' and s.wait_event_type = 'Lock'
    ) w
    left join pg_stat_activity a on a.pid = w.blocking_pid
    order by w.pid, a.pid
"""


_STANDBY_WAITS = """
    select count(*) as waiting_count, min(a.query_start) as since
    from pg_stat_activity a
    where a.datname = current_database() and a.wait_event = 'SyncRep'
        and a.query_start <= clock_timestamp() - make_interval(secs => %(seconds)s)
"""


def _waits(rows: list[_WaitRow]) -> Iterator[Wait]:
    sessions = {row.waiting_pid: row.session for row in rows}
    for pid, session in sessions.items():
        yield Wait(session, tuple(row.blocker for row in rows if row.waiting_pid == pid))
