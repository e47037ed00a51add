"""What only stopped consumers need goes from a log into files: whole segments, row by row the same.

A segment is detached when only stopped subscriptions need it, of a route with `stopped_consumer: detach`. SQL decides it and keeps the
ledger (retention.detached_segments); files are written and read by a SegmentArchive, which is Spark. The protocol, and why it needs no
other lock, is docs/decisions/0008-detached-segments.md. Each step may fail, be repeated, and run twice at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.log_events import emit
from relaybox.retention.detached_segments import (
    ArrivingLog,
    DetachedSegment,
    LedgerLine,
    describe_segment,
    is_current,
    ledger_session,
    make_segment,
)
from relaybox.retention.segment_archive import DetachPart
from relaybox.retention.segments import PATIENCE_SECONDS, PAUSE_SECONDS, DropAnswer
from relaybox.stores.binary_copy.log_rows import RowsDigest
from relaybox.stores.readers.awaited_logs import first_by_log, list_awaited_logs

if TYPE_CHECKING:
    from relaybox.retention.segment_archive import SegmentArchive
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession

_ANOTHER_DETACHES = "another run that detaches it"


@dataclass(frozen=True)
class StoreDetached:
    """What one run did with the logs of a store.

    Attributes:
        segments: those that it detached.
        kept: why it left one where it was: hop -> who needs it now, or holds it.
        removed: directories that no consumer needed any more.
    """

    store: str
    segments: tuple[DetachedSegment, ...]
    kept: dict[str, str]
    removed: tuple[str, ...]


class _Strays(NamedTuple):
    """Directories of a detached segment that no consumer needs any more."""

    log_id: int
    first: int
    attempt: int
    directories: list[str]


def has_detach_work(store: Store, routes: Routes | None = None) -> bool:
    """Whether a run of `detach_segments` would find something: it costs a JVM. Changes nothing. `routes`: see there."""
    with ledger_session(store, "looking for what may be detached") as session:
        found = session.value(
            """
            select exists (
                    select from relaybox_internal.hop_in i cross join lateral relaybox_internal.detachable_segments(i.log_id)
                    where i.stopped_consumer = 'detach' and i.log_id <> all(%s)
                )
                or exists (
                    select from relaybox_internal.detached_segment d
                    where strays <> '{}' or d.state = 'released' and d.removed_at is null
                )
            """,
            [one.log_id for one in list_awaited_logs(session, store, routes)],
        )
        return bool(found)


def detach_segments(
    store: Store,
    archive: SegmentArchive,
    *,
    recorded_by: str,
    routes: Routes | None = None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> StoreDetached:
    """Detaches all that may be, oldest first, log by log; and removes files that no consumer needs any more. Commits each step.

    Nothing of a log that a reader of the `routes` awaits (stores.readers.awaited_logs): it would begin after what is detached.

    Raises:
        ContentDiffers: the files are not what the store has; the segment stays, and so do the files of this attempt.
        FilesFailed, StoreUnreachable: what was detached stays so; run it again.
    """
    segments: list[DetachedSegment] = []
    kept: dict[str, str] = {}
    with ledger_session(store, "detaching what only stopped consumers need") as session:
        logs = session.rows(
            ArrivingLog, "select log_id, hop from relaybox_internal.hop_in where stopped_consumer = 'detach' order by hop"
        )
        awaited = first_by_log(list_awaited_logs(session, store, routes))
        for log_id, hop in logs:
            if log_id in awaited:
                first = awaited[log_id]
                kept[hop] = f"{first.what}. {first.next_step}"
                continue
            while (line := _begin_detach(session, log_id, recorded_by)) is not None:
                session.reach("detach.begun")
                try:
                    _write_checked(archive, session, store, hop, line)
                except errors.RelayboxError:
                    if is_current(session, log_id, line):
                        raise
                    kept[hop] = _ANOTHER_DETACHES  # and has dropped the table from under this one
                    break
                answer = _drop_detached(session, log_id, recorded_by, line, patience_seconds)
                if answer.outcome != "detached":
                    kept[hop] = _reason(answer)
                    break
                segments.append(make_segment(hop, line, state="detached"))
                emit("segment_detached", **describe_segment(store, hop, line))
                session.reach("detach.detached")
        removed = tuple(_remove_files(archive, session))
    return StoreDetached(store.name, tuple(segments), kept, removed)


def _begin_detach(session: StoreSession, log_id: int, recorded_by: str) -> LedgerLine | None:
    return session.row_if_any(LedgerLine, "select * from relaybox_internal.begin_detach(%s, %s)", log_id, recorded_by)


def _write_checked(archive: SegmentArchive, session: StoreSession, store: Store, hop: str, line: LedgerLine) -> None:
    part = DetachPart(store.service, line.segment, line.first, line.last, line.directory)
    archive.write(part)
    session.reach("detach.written")
    files = [asdict(file) for file in archive.list_files(part.directory)]  # before the rows, which are then verified
    found = archive.digest(part.directory)
    if found != RowsDigest(line.row_count, int(line.hash_sum)):
        raise errors.ContentDiffers(
            f"log of {hop}: {part.directory} has {found.row_count} rows with hash sum {found.hash_sum}, "
            f"the store has {line.row_count} rows with hash sum {line.hash_sum}. The segment stays where it is.",
            next_step="Every executor of Spark must see the same files under detach_to.",
        )
    session.execute(
        "update relaybox_internal.detached_segment set files = %s where directory = %s", json.dumps(files), line.directory
    )
    session.reach("detach.checked")


def _drop_detached(session: StoreSession, log_id: int, recorded_by: str, line: LedgerLine, patience_seconds: float) -> DropAnswer:
    """The last answer of relaybox_internal.drop_oldest_segment; a table that sessions hold is tried again for a while."""
    deadline = time.monotonic() + patience_seconds
    while True:
        answer = session.row(
            DropAnswer,
            "select * from relaybox_internal.drop_oldest_segment(%s, %s, %s, %s)",
            *(log_id, recorded_by, line.first, line.attempt),
        )
        if answer.outcome != "busy" or time.monotonic() >= deadline:
            return answer
        time.sleep(PAUSE_SECONDS)


def _reason(answer: DropAnswer) -> str:
    """Why a segment was not detached."""
    return str(answer.holder or (_ANOTHER_DETACHES if answer.outcome == "superseded" else "a session"))


def _remove_files(archive: SegmentArchive, session: StoreSession) -> Iterator[str]:
    """Of attempts that failed, and of segments that no consumer needs any more."""
    lines = session.rows(
        _Strays,
        """
        select d.log_id, d.first, d.attempt, d.strays || case when d.state = 'released' and d.removed_at is null
            then array[d.directory] else '{}' end as directories
        from relaybox_internal.detached_segment d where d.strays <> '{}' or d.state = 'released' and d.removed_at is null
        order by d.log_id, d.first
        """,
    )
    for line in lines:
        for directory in line.directories:
            archive.remove(directory)
            yield directory
        session.execute(
            """
            update relaybox_internal.detached_segment
            set strays = '{}', removed_at = case when state = 'released' then clock_timestamp() else removed_at end
            where log_id = %s and first = %s and attempt = %s
            """,
            *(line.log_id, line.first, line.attempt),
        )
