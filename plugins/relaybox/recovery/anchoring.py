"""The anchor of an outbox: a seq and a snapshot from which on transaction numbers tell again what was committed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import psycopg2

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor

    from relaybox.stores.sessions.store_session import StoreSession

_LOCK_ATTEMPTS, _LOCK_MILLISECONDS, _LOCK_PAUSE_SECONDS = 20, 200, 0.3


class Anchor(NamedTuple):
    """The last seq that a transaction took, and a snapshot of the same moment."""

    seq: int
    lower: str


def take_anchor(source: StoreSession) -> Anchor:
    """The anchor of a moment when no open transaction had written to the outbox."""
    with source.cursor() as cursor:
        _lock_outbox(cursor)
    anchor = source.row(Anchor, "select relaybox_internal.last_outbox_seq() as seq, pg_current_snapshot()::text as lower")
    source.execute("rollback to savepoint anchor")  # producers go on
    # what is written from here on names its own transaction again, not a part of it (record_anchor.sql)
    source.execute("release savepoint anchor")
    source.call("relaybox_internal.record_anchor", anchor.seq)
    return anchor


def _lock_outbox(cursor: Cursor) -> None:
    """Waits for open writers, but never so long that producers, who queue behind this lock, would notice."""
    cursor.execute("set local lock_timeout = %s", (f"{_LOCK_MILLISECONDS}ms",))
    for attempt in range(1, _LOCK_ATTEMPTS + 1):
        cursor.execute("savepoint anchor")
        try:
            cursor.execute("lock table relaybox.outbox in exclusive mode")
        except psycopg2.errors.LockNotAvailable:
            if attempt == _LOCK_ATTEMPTS:
                raise
            cursor.execute("rollback to savepoint anchor")
            time.sleep(_LOCK_PAUSE_SECONDS)
        else:
            return
