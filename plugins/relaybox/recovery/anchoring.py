"""The anchor of an outbox: a seq and a snapshot from which on transaction numbers tell again what was committed."""

from __future__ import annotations

import time
from typing import Any

import psycopg2

from relaybox.stores.connections import one_row

_LOCK_ATTEMPTS, _LOCK_MILLISECONDS, _LOCK_PAUSE_SECONDS = 20, 200, 0.3


def take_anchor(cursor: Any) -> tuple[int, str]:
    """The last seq that anybody took, and a snapshot, at a moment when no open transaction had written to the outbox."""
    _lock_outbox(cursor)
    cursor.execute("select relaybox.last_outbox_seq() as seq, pg_current_snapshot()::text as lower")
    anchor = one_row(cursor)
    cursor.execute("rollback to savepoint anchor")  # producers go on
    # what is written from here on names its own transaction again, not a part of it (record_anchor.sql)
    cursor.execute("release savepoint anchor")
    cursor.execute("select relaybox.record_anchor(%s)", (anchor.seq,))
    return anchor.seq, anchor.lower


def _lock_outbox(cursor: Any) -> None:
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
