"""Detached segments come back from their files into the log: whole segments, row by row the same.

The protocol is docs/decisions/0008-detached-segments.md. Each step may fail, be repeated, and run twice at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.log_events import emit
from relaybox.retention.detached_segments import (
    DetachedSegment,
    LedgerLine,
    describe_segment,
    find_log_id,
    is_current,
    ledger_session,
    make_segment,
)
from relaybox.retention.segment_archive import DetachPart

if TYPE_CHECKING:
    from relaybox.retention.segment_archive import SegmentArchive
    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession


def attach_segments(
    store: Store,
    hop: str,
    archive: SegmentArchive,
    *,
    recorded_by: str,
    count: int | None = None,
    remove: bool = False,
) -> Iterator[DetachedSegment]:
    """Brings detached segments of a log back, newest first, and yields each that is readable again. Commits each step.

    Args:
        store: the store.
        hop: whose log it is.
        archive: reads the files.
        recorded_by: who does it, for the ledger.
        count: at most this many of them; None: all.
        remove: removes their files; otherwise they stay until the segment is dropped or detached again.

    Raises:
        UnknownHop: the hop does not arrive in the store.
        ContentDiffers: the files are not what was detached; nothing of them is readable.
        SliceSuperseded: another run attached it.
        FilesFailed, StoreUnreachable, StoreBusy: what was attached stays so; run it again.
    """
    with ledger_session(store, f"attaching what was detached of {hop}") as session:
        log_id = find_log_id(session, hop)
        done = 0
        while done != count and (line := _begin_attach(session, log_id, recorded_by)) is not None:
            session.reach("attach.begun")
            try:
                archive.copy_back(DetachPart(store.service, line.staging, line.first, line.last, line.directory))
            except errors.RelayboxError as error:
                if is_current(session, log_id, line):
                    raise
                raise _attach_superseded(store, hop, line) from error  # the other run has dropped the table from under this one
            session.reach("attach.copied")
            if session.call("relaybox_internal.finish_attach", log_id, line.first, line.attempt, recorded_by) != "attached":
                raise _attach_superseded(store, hop, line)
            session.reach("attach.attached")
            emit("segment_attached", **describe_segment(store, hop, line))
            if remove:
                archive.remove(line.directory)
                session.execute(
                    "update relaybox_internal.detached_segment set removed_at = clock_timestamp()"
                    " where log_id = %s and first = %s and state = 'attached' and directory = %s",
                    *(log_id, line.first, line.directory),
                )
            done += 1
            yield make_segment(hop, line, state="attached")


def _attach_superseded(store: Store, hop: str, line: LedgerLine) -> errors.SliceSuperseded:
    return errors.SliceSuperseded(
        f"store {store.name}: another run attaches positions {line.first} to {line.last} of {hop}, or has attached them. It goes on; "
        "this one ends. Nothing was lost.",
        next_step=f"Wait until it has ended. What is left: relaybox attach {store.name} {hop} --dry-run",
    )


def _begin_attach(session: StoreSession, log_id: int, recorded_by: str) -> LedgerLine | None:
    query = "select (b.made).*, b.staging from relaybox_internal.begin_attach(%s, %s) b"
    return session.row_if_any(LedgerLine, query, log_id, recorded_by)
