"""Adopting a table of an application, with or without the rows that are there, and ending it.

A trigger sends what is inserted, in the application's own transaction. The cut between the rows of before and those of the trigger is made
under a lock that keeps writers out; the rows of before are copied in the same transaction, and moved into the outbox afterwards, in
batches. Until then later messages wait behind them, so that no message overtakes an earlier one. Each step is one transaction, and each may
be killed and done again. docs/decisions/0051-adopted-tables.md has what else was measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg2

from relaybox import errors
from relaybox.adoption.examination import Examination, UnmappedRows, examine_adoption, refuse_obstacles
from relaybox.adoption.tables import RecordedTable, WantedAdoption, choose_adoption, find_recorded, refuse_other_table
from relaybox.stores.init.locks import require_owner
from relaybox.stores.opening import opened_store
from relaybox.stores.sessions.lock_holders import LIKELIEST_FIRST, LOCK_HOLDERS, lock_error

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession

MOVED_ROWS = 10_000
"""Messages of a backlog that one transaction moves, at most."""

_LOCK_ATTEMPTS, _LOCK_MILLISECONDS, _LOCK_PAUSE_SECONDS = 20, 200, 0.3
"""Writers queue behind a lock that waits: it never waits so long that they would notice."""

_APPLICATION_NAME = "relaybox adopt"

_TAKEN_OVER = "adoption of partition "
"""How adopt_table() of the store begins a change of this kind."""


class _Made(NamedTuple):
    """What relaybox_internal.adopt_table() did."""

    adoption_id: int
    is_new: bool
    changed: list[str]
    backlog_count: int | None
    waiting_count: int


@dataclass(frozen=True)
class Adoption:
    """A table that is adopted now.

    Attributes:
        table: its name, quoted as SQL writes it.
        is_new: this call has adopted it.
        changed: what it changed of an adoption that was there: name, map, on_unmapped, triggers that were missing or off, and
            adoptions of partitions that it has taken over.
        backlog_count: rows of before the adoption that were taken; None: they were not asked for.
        moved_count: messages that this call moved into the outbox: of the backlog, and what was inserted meanwhile.
        unmapped_count: rows of the table that can't be messages and are kept apart, those of earlier inserts included.
        locked_seconds: for how long the adoption kept writers out.
    """

    store: str
    wanted: WantedAdoption
    examination: Examination
    is_new: bool
    changed: tuple[str, ...]
    backlog_count: int | None
    moved_count: int
    unmapped_count: int
    locked_seconds: float

    @property
    def table(self) -> str:
        return self.wanted.table.name

    @property
    def taken_over(self) -> tuple[str, ...]:
        """Partitions that were adopted by themselves until now."""
        return tuple(change.removeprefix(_TAKEN_OVER) for change in self.changed if change.startswith(_TAKEN_OVER))


@dataclass(frozen=True)
class Unadopted:
    """A table that is not adopted any more. `was_adopted` False: it was not before either."""

    store: str
    table: str
    was_adopted: bool
    moved_count: int = 0
    dropped_count: int = 0


class SentUnmapped(NamedTuple):
    """Rows that were unmapped: how many were sent now, how many are left, and why."""

    sent_count: int
    left_count: int
    left: tuple[UnmappedRows, ...] = ()


Progress = Callable[[int, int], None]
"""Told after each batch of a backlog: messages moved so far, and how many there were when it began."""


@contextmanager
def _owner_session(store: Store, activity: str) -> Iterator[StoreSession]:
    with opened_store(store, application_name=_APPLICATION_NAME) as opened:
        session = opened.doing(activity)
        require_owner(session)
        yield session


def examine(
    store: Store,
    name: str,
    *,
    mapped: Mapping[str, Any] | None = None,
    on_unmapped: str | None = None,
    order_by: Sequence[str] = (),
) -> tuple[WantedAdoption, Examination]:
    """What adopt_table() would do with these arguments. In a transaction that can't write."""
    with _owner_session(store, f"examining table {name}") as session:
        session.rollback()
        session.execute("set transaction isolation level repeatable read, read only")
        wanted = choose_adoption(session, store, name, mapped=mapped, on_unmapped=on_unmapped)
        examination = examine_adoption(session, wanted, order_by=order_by)
        session.rollback()
        return wanted, examination


def adopt_table(
    store: Store,
    name: str,
    *,
    mapped: Mapping[str, Any] | None = None,
    on_unmapped: str | None = None,
    with_backlog: bool = False,
    order_by: Sequence[str] = (),
    progress: Progress = lambda _moved, _total: None,
) -> Adoption:
    """Adopts a table, or makes its adoption as it is asked for now. Idempotent, also side by side. Commits, several times.

    A backlog that another call began is finished, whether this one asks for it or not. Adoptions of partitions of the table are taken
    over; the backlog is then of rows that have no message yet.

    Raises:
        AdoptionRefused: something keeps the table from being adopted; nothing was changed.
        ConfigurationError: relaybox.yaml and the arguments contradict each other.
        StoreBusy: writers did not leave the table for long enough; a retry helps.
    """
    with _owner_session(store, f"adopting table {name}") as session:
        wanted = choose_adoption(session, store, name, mapped=mapped, on_unmapped=on_unmapped)
        examination = examine_adoption(session, wanted, order_by=order_by)
        refuse_obstacles(session, wanted, examination)
        if with_backlog and not examination.order and not _is_adopted(session, name, wanted):
            raise errors.AdoptionRefused(
                f"store {store.name}: table {wanted.table.name} has no primary key and no column of a time: its backlog has no order.",
                next_step=f"Say it: relaybox adopt {store.name} {name} --backlog --order-by COLUMN",
            )
        session.rollback()
        session.reach("adopt.begin")
        made, locked_seconds = _make_adoption(session, wanted, examination, with_backlog=with_backlog)
        moved = _move_backlog(session, made, wanted, progress) if _is_moving(session, made) else 0
        recorded = find_recorded(session, name)
        session.rollback()
        return Adoption(
            *(store.name, wanted, examination, made.is_new, tuple(made.changed), made.backlog_count, moved),
            unmapped_count=0 if recorded is None else recorded.unmapped_count,
            locked_seconds=locked_seconds,
        )


def _is_adopted(session: StoreSession, name: str, wanted: WantedAdoption) -> bool:
    """Whether the table itself is adopted: a backlog is taken with the adoption, or never."""
    recorded = find_recorded(session, name)
    return recorded is not None and recorded.present_name == wanted.table.name


def _make_adoption(
    session: StoreSession, wanted: WantedAdoption, examination: Examination, *, with_backlog: bool
) -> tuple[_Made, float]:
    _lock_table(session, wanted.table.oid, wanted.table.name)
    locked_at = time.monotonic()
    session.reach("adopt.locked")
    made = session.row(
        _Made,
        "select * from relaybox_internal.adopt_table(%s::oid::regclass, %s, %s::jsonb, %s, %s, %s::text[])",
        *(wanted.table.oid, wanted.table.name, json.dumps(wanted.mapping), wanted.on_unmapped, with_backlog),
        list(examination.order),
    )
    session.commit_durably("adopt")
    return made, time.monotonic() - locked_at


def _is_moving(session: StoreSession, made: _Made) -> bool:
    """Whether a backlog has not ended, or a row of it came late: its writer was open in a partition that was detached."""
    state = session.value("select a.state from relaybox_internal.adopted_table a where a.adoption_id = %s", made.adoption_id)
    session.rollback()
    return bool(state == "backlog") or made.waiting_count > 0


def _move_backlog(session: StoreSession, made: _Made, wanted: WantedAdoption, progress: Progress) -> int:
    """Moves all that waits, and switches the trigger to the outbox. Returns how many messages are there: what it refuses is unmapped."""
    refused_before = _count_refused(session, made)
    moved_count = 0
    while True:
        moved: int = session.call("relaybox_internal.move_adopted_rows", made.adoption_id, MOVED_ROWS)
        session.commit_durably("adopt_batch")
        moved_count += moved
        progress(moved_count, max(made.waiting_count, moved_count))
        if moved < MOVED_ROWS:
            break
    _lock_table(session, wanted.table.oid, wanted.table.name)
    moved_count += session.call("relaybox_internal.finish_backlog", made.adoption_id) or 0
    session.commit_durably("adopt_switch")
    progress(moved_count, moved_count)
    return moved_count - (_count_refused(session, made) - refused_before)


def _count_refused(session: StoreSession, made: _Made) -> int:
    count: int = session.value(
        "select count(*) from relaybox_internal.unmapped_row u where u.adoption_id = %s and u.is_message", made.adoption_id
    )
    session.rollback()
    return count


def unadopt_table(store: Store, name: str, *, drop_unmapped: bool = False) -> Unadopted:
    """Ends the adoption of a table; what was inserted before is sent. Idempotent. Commits.

    Args:
        store: the store.
        name: of the table.
        drop_unmapped: to give up rows that are unmapped.

    Raises:
        AdoptionRefused: rows are unmapped, and they are not to be given up; or the adopted table has another name now, and the name
            another table.
        StoreBusy: others use the table; a retry helps.
    """
    with _owner_session(store, f"ending the adoption of table {name}") as session:
        recorded = find_recorded(session, name)
        if recorded is None:
            return Unadopted(store.name, name, was_adopted=False)
        oid = session.value("select relaybox_internal.adopted_relation(%s)::oid::bigint", recorded.adoption_id)
        refuse_other_table(session, name, recorded, oid)
        session.rollback()
        session.reach("unadopt.begin")
        if oid is not None:
            _lock_table(session, oid, recorded.table_name, ending=True)
        if find_recorded(session, name) is None:  # another call was first
            session.rollback()
            return Unadopted(store.name, name, was_adopted=False)
        counts = session.row(
            _Unadopted,
            "select * from relaybox_internal.unadopt_table(%s, %s)",
            *(recorded.adoption_id, drop_unmapped),
        )
        session.commit_durably("unadopt")
        return Unadopted(
            store.name, recorded.table_name, was_adopted=True, moved_count=counts.moved_count, dropped_count=counts.dropped_count
        )


class _Unadopted(NamedTuple):
    moved_count: int
    dropped_count: int


def send_unmapped(store: Store, name: str) -> SentUnmapped:
    """Tries unmapped rows again, one by one, with the map that is on record. One that is no message stays, with the reason. Commits.

    Raises:
        AdoptionRefused: the table is not adopted.
    """
    with _owner_session(store, f"sending unmapped rows of table {name}") as session:
        recorded = require_recorded(session, name)
        sent = session.row(SentUnmapped, "select * from relaybox_internal.send_unmapped(%s)", recorded.adoption_id)
        left = session.rows(UnmappedRows, _LEFT, recorded.adoption_id)
        session.commit_durably("send_unmapped")
        return sent._replace(left=tuple(left))


_LEFT = """
select u.problem, count(*) as row_count,
    array_agg(
        case when length(u.content) > 200 then left(u.content, 200) || ' ...' else u.content end order by u.unmapped_id
    ) filter (where u.number <= 3) as first_rows
from (
    select n.*, row_number() over (partition by n.problem order by n.unmapped_id) as number
    from relaybox_internal.unmapped_row n where n.adoption_id = %s
) u
group by u.problem
order by count(*) desc, u.problem
"""


def require_recorded(session: StoreSession, name: str) -> RecordedTable:
    """The adoption of a table; AdoptionRefused if it is not adopted."""
    recorded = find_recorded(session, name)
    if recorded is None:
        raise errors.AdoptionRefused(
            f"store {session.store}: table {name} is not adopted.", next_step=f"Run: relaybox adopt {session.store} {name}"
        )
    return recorded


def _lock_table(session: StoreSession, oid: int, name: str, *, ending: bool = False) -> None:
    """Waits until no transaction writes into the table; from then on no other one can, until this one ends.

    Raises:
        StoreBusy: who holds it is named. The transaction is rolled back.
    """
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        session.execute(f"set local lock_timeout = '{_LOCK_MILLISECONDS}ms'")
        try:
            session.execute("select relaybox_internal.lock_adopted(%s::oid::regclass, %s)", oid, ending)
        except errors.StoreBusy as error:
            if not isinstance(error.__cause__, psycopg2.errors.LockNotAvailable):
                raise
            session.rollback()
            if attempt == _LOCK_ATTEMPTS:
                told = f"store {session.store}: table {name} was never free of {'others' if ending else 'writers'} for a moment"
                raise lock_error(session, told, _TABLE_HOLDERS, {"table": oid}) from None
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            session.execute("set local lock_timeout = '10s'")
            return


_TABLE_HOLDERS = f"""{LOCK_HOLDERS}
    and l.granted and l.mode <> 'AccessShareLock' and l.relation in (
        select p.part from relaybox_internal.list_adopted_parts(%(table)s::oid::regclass) p
        union all select 'relaybox_internal.adopted_table'::regclass
    )
{LIKELIEST_FIRST}
"""  # noqa: S608
