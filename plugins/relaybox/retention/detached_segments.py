"""Segments of logs whose rows are in files only: what the ledger of a store has of them (`relaybox_internal.detached_segment`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class DetachedSegment:
    """A line of the ledger.

    Attributes:
        first, last: positions of the log of the hop.
        state: detaching | detached | attached | released.
        needed_by: the subscriptions that needed it when it was detached.
    """

    hop: str
    first: int
    last: int
    state: str
    directory: str
    row_count: int
    needed_by: tuple[str, ...]


@dataclass(frozen=True)
class DetachedLog:
    """What of a log is in files only.

    Attributes:
        hop: which filled the log.
        since: when the first of these segments went.
        needed_by: the subscriptions that needed one when it was detached.
    """

    store: str
    hop: str
    segment_count: int
    message_count: int
    since: datetime
    needed_by: tuple[str, ...]


class LedgerLine(NamedTuple):
    """A row of relaybox_internal.detached_segment; `hop` where it was asked for, `staging` the table that rows are copied back to."""

    first: int
    last: int
    segment: str
    state: str
    attempt: int
    directory: str
    row_count: int
    hash_sum: Decimal
    needed_by: list[str]
    hop: str = ""
    staging: str = ""


class ArrivingLog(NamedTuple):
    log_id: int
    hop: str


def list_detached(store: Store, hop: str | None = None) -> list[DetachedSegment]:
    """The segments whose rows are in files only, of one log if asked for; newest first, as they are attached. UnknownHop."""
    with ledger_session(store, "listing what is detached") as session:
        if hop is not None:
            find_log_id(session, hop)
        lines = session.rows(
            LedgerLine,
            """
            select i.hop, d.* from relaybox_internal.detached_segment d join relaybox_internal.hop_in i on i.log_id = d.log_id
            where d.state = 'detached' and i.hop = coalesce(%s, i.hop) order by i.hop, d.first desc
            """,
            hop,
        )
        return [make_segment(line.hop, line) for line in lines]


def list_detached_logs(session: StoreSession) -> list[DetachedLog]:
    """The logs of a store of which segments are in files only, by hop. In the session's transaction."""
    logs = session.rows(
        DetachedLog,
        """
        select i.hop, count(*) as segment_count, sum(d.row_count)::bigint as message_count, min(d.moved_at) as since, array(
            select distinct w.name from relaybox_internal.detached_segment n cross join lateral unnest(n.needed_by) w (name)
            where n.log_id = i.log_id and n.state = 'detached' order by w.name
        ) as needed_by
        from relaybox_internal.detached_segment d join relaybox_internal.hop_in i on i.log_id = d.log_id
        where d.state = 'detached' group by i.log_id, i.hop order by i.hop
        """,
        store=session.store,
    )
    return [replace(log, needed_by=tuple(log.needed_by)) for log in logs]


@contextmanager
def ledger_session(store: Store, activity: str) -> Iterator[StoreSession]:
    """Each step is one statement and its COMMIT: no session waits for this process."""
    with store_session(store, activity, application_name="relaybox detach") as session:
        session.connection.autocommit = True
        yield session


def make_segment(hop: str, line: LedgerLine, *, state: str | None = None) -> DetachedSegment:
    return DetachedSegment(hop, line.first, line.last, state or line.state, line.directory, line.row_count, tuple(line.needed_by))


def describe_segment(store: Store, hop: str, line: LedgerLine) -> dict[str, object]:
    """What an event tells of a segment."""
    log_positions = f"{line.first}-{line.last}"
    return {"store": store.name, "hop": hop, "log_positions": log_positions, "rows": line.row_count, "directory": line.directory}


def find_log_id(session: StoreSession, hop: str) -> int:
    """The number of the log of a hop that arrives in the store. UnknownHop."""
    logs = session.rows(ArrivingLog, "select log_id, hop from relaybox_internal.hop_in order by hop")
    known = {log.hop: log.log_id for log in logs}
    if hop not in known:
        raise errors.UnknownHop(
            f"hop {hop} does not arrive in store {session.store}.", next_step=f"Arriving there: {', '.join(known) or 'none'}."
        )
    return known[hop]


def is_current(session: StoreSession, log_id: int, line: LedgerLine) -> bool:
    """Whether no other attempt has taken a segment over, or is done with it."""
    return bool(
        session.value(
            "select exists (select from relaybox_internal.detached_segment"
            " where log_id = %s and first = %s and attempt = %s and state = %s)",
            *(log_id, line.first, line.attempt, line.state),
        )
    )
