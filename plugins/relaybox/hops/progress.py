"""How far a batch is while its slices are copied, for the log: as the destination knows it, whoever copies."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from relaybox.errors import RelayboxError
from relaybox.log_events import emit
from relaybox.stores.opening import store_session
from relaybox.stores.sessions.answer_limits import answering_within

if TYPE_CHECKING:
    from relaybox.hops.batches import Batch
    from relaybox.routes import Hop

PROGRESS_SECONDS = 10.0
"""The time between two lines. A batch that takes less has none, and costs no session."""

_ANSWER_SECONDS = 30.0
_END_SECONDS = 1.0


class _Copied(NamedTuple):
    slices: int
    rows: int


@contextmanager
def progress_logged(hop: Hop, batch: Batch, *, log_id: int) -> Iterator[None]:
    """While the block runs, `transfer_progress` is logged every PROGRESS_SECONDS, from a thread with a session of its own.

    A store that does not answer ends the lines and nothing else: the copying tells what is wrong.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_report, args=(hop, batch, log_id, ended), name="relaybox-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_SECONDS)


def _report(hop: Hop, batch: Batch, log_id: int, ended: threading.Event) -> None:
    started, before = time.monotonic(), None
    while not ended.wait(PROGRESS_SECONDS):
        try:
            copied = _read(hop, batch, log_id)
        except RelayboxError:
            return
        now = time.monotonic()
        rows_before, then = before or (copied.rows, now)
        rate = (copied.rows - rows_before) / (now - then) if now > then else copied.rows / (now - started)
        before = (copied.rows, now)
        if not ended.is_set():
            emit(
                "transfer_progress",
                hop=hop.name,
                batch=batch.batch,
                slices=f"{copied.slices}/{len(batch.slices)}",
                rows=f"{copied.rows}/{batch.row_count}",
                rows_per_second=round(rate),
            )


def _read(hop: Hop, batch: Batch, log_id: int) -> _Copied:
    name = f"relaybox {hop.name} progress"
    with (
        store_session(hop.destination, f"asking how far hop {hop.name} is", application_name=name) as session,
        answering_within(session.connection, _ANSWER_SECONDS),
    ):
        return session.row(
            _Copied,
            """
            select count(*)::integer as slices, coalesce(sum(row_count), 0)::bigint as rows from relaybox_internal.receipt
            where log_id = %s and batch = %s and plan_id = %s
            """,
            *(log_id, batch.batch, str(batch.plan_id)),
        )
