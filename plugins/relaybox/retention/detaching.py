"""What only stopped consumers need goes from a log into files, and comes back: whole segments, row by row the same.

A segment is detached when nobody needs it but subscriptions that stand still, of a route with `stopped_consumer: detach`. SQL decides
it and keeps the ledger (`relaybox.detached_segment`); files are written and read by a SegmentArchive, which is Spark. The protocol,
and why it needs no other lock, is docs/decisions/0008-detached-segments.md. Each step may be struck, repeated, and run twice at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from psycopg2.extras import NamedTupleCursor

from relaybox import errors
from relaybox.events import emit
from relaybox.failpoints import reach
from relaybox.retention.segments import PATIENCE_SECONDS, PAUSE_SECONDS
from relaybox.stores.connections import one_row, store_errors
from relaybox.stores.log_rows import RowsDigest
from relaybox.stores.schema import open_store

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Store

SUPERSEDED = "Nothing was lost: another run is at it, or was. See: relaybox retention --dry-run"


@dataclass(frozen=True)
class Part:
    """Positions first to last of a log, both included; `table` has them, `directory` shall have them or has them."""

    service: str
    table: str
    first: int
    last: int
    directory: str


class SegmentArchive(Protocol):
    """Writes and reads the files of detached segments. Every method may be called again with the same arguments.

    Raises:
        FilesFailed: the files could not be written, read or removed; a retry may help.
        RelayboxError: what a store said.
    """

    def write(self, part: Part) -> None:
        """Reads the rows of a part from its table into its directory, which is not there yet."""

    def digest(self, directory: str) -> RowsDigest:
        """Reads all files of a directory: what relaybox.log_digest would say of the rows in them."""

    def copy_back(self, part: Part) -> None:
        """Copies all rows of the directory into the table; commits."""

    def remove(self, directory: str) -> None:
        """Removes a directory; it may be gone already."""


@dataclass(frozen=True)
class DetachedSegment:
    """A line of the ledger.

    Attributes:
        first, last: positions of the log of the hop.
        state: detaching | detached | attached | released.
        for_whom: the subscriptions that needed it when it was detached.
    """

    hop: str
    first: int
    last: int
    state: str
    directory: str
    row_count: int
    for_whom: tuple[str, ...]


@dataclass(frozen=True)
class DetachedLog:
    """What of a log is in files only.

    Attributes:
        hop: which filled the log.
        since: when the first of these segments went.
        for_whom: the subscriptions that needed one when it was detached.
    """

    store: str
    hop: str
    segment_count: int
    message_count: int
    since: datetime
    for_whom: tuple[str, ...]


@dataclass(frozen=True)
class StoreDetached:
    """What one run did with the logs of a store.

    Attributes:
        segments: those that it detached.
        kept: why it left one where it was: hop -> who needs it now, or holds it.
        removed: directories that nobody needed any more.
    """

    store: str
    segments: tuple[DetachedSegment, ...]
    kept: dict[str, str]
    removed: tuple[str, ...]


def has_detach_work(store: Store) -> bool:
    """Whether a run of `detach_segments` would find something: it costs a JVM. Changes nothing."""
    with _session(store, "looking for what may be detached") as (_, cursor):
        cursor.execute(
            """
            select exists (
                    select from relaybox.hop_in i cross join lateral relaybox.detachable_segments(i.hop_id)
                    where i.stopped_consumer = 'detach'
                )
                or exists (
                    select from relaybox.detached_segment d
                    where strays <> '{}' or d.state = 'released' and d.removed_at is null
                ) as found
            """
        )
        return bool(one_row(cursor).found)


def list_detached(store: Store, hop: str | None = None) -> list[DetachedSegment]:
    """The segments whose rows are in files only, of one log if asked for; newest first, as they are attached. UnknownHop."""
    with _session(store, "listing what is detached") as (_, cursor):
        if hop is not None:
            _log_id(cursor, store, hop)
        cursor.execute(
            """
            select i.hop, d.* from relaybox.detached_segment d join relaybox.hop_in i on i.hop_id = d.hop_id
            where d.state = 'detached' and i.hop = coalesce(%s, i.hop) order by i.hop, d.first desc
            """,
            (hop,),
        )
        return [_segment(row.hop, row) for row in cursor.fetchall()]


def list_detached_logs(cursor: Any, store: Store) -> list[DetachedLog]:
    """The logs of a store of which segments are in files only, by hop. In the transaction of the cursor, which gives tuples."""
    cursor.execute(
        """
        select i.hop, count(*), sum(d.row_count)::bigint, min(d.moved_at), array(
            select distinct w.name from relaybox.detached_segment n cross join lateral unnest(n.for_whom) w (name)
            where n.hop_id = i.hop_id and n.state = 'detached' order by w.name
        )
        from relaybox.detached_segment d join relaybox.hop_in i on i.hop_id = d.hop_id
        where d.state = 'detached' group by i.hop_id, i.hop order by i.hop
        """
    )
    return [
        DetachedLog(store.name, hop, segment_count, message_count, since, tuple(names))
        for hop, segment_count, message_count, since, names in cursor.fetchall()
    ]


def detach_segments(
    store: Store, archive: SegmentArchive, *, recorded_by: str, patience_seconds: float = PATIENCE_SECONDS
) -> StoreDetached:
    """Detaches all that may be, oldest first, log by log; and removes files that nobody needs any more. Commits each step.

    Raises:
        ContentDiffers: the files are not what the store has; the segment stays, and so do the files of this attempt.
        FilesFailed, StoreUnreachable: what was detached stays so; run it again.
    """
    segments: list[DetachedSegment] = []
    kept: dict[str, str] = {}
    with _session(store, "detaching what only stopped consumers need") as (session, cursor):
        cursor.execute("select hop_id, hop from relaybox.hop_in where stopped_consumer = 'detach' order by hop")
        for log_id, hop in cursor.fetchall():
            while (line := _begin_detach(cursor, log_id, recorded_by)) is not None:
                reach("detach.begun", session)
                _write_checked(archive, session, store, hop, line)
                answer = _drop_detached(cursor, log_id, recorded_by, line, patience_seconds)
                if answer.outcome != "detached":
                    kept[hop] = _reason(answer)
                    break
                segments.append(_segment(hop, line, state="detached"))
                emit("segment_detached", **_where(store, hop, line))
                reach("detach.detached", session)
        removed = tuple(_remove_files(archive, cursor))
    return StoreDetached(store.name, tuple(segments), kept, removed)


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
        count: so many of them; None: all.
        remove: removes their files; otherwise they stay until the segment is dropped or detached again.

    Raises:
        UnknownHop: the hop does not arrive in the store.
        ContentDiffers: the files are not what was detached; nothing of them is readable.
        SliceSuperseded: another run attached it.
        FilesFailed, StoreUnreachable, StoreBusy: what was attached stays so; run it again.
    """
    with _session(store, f"attaching what was detached of {hop}") as (session, cursor):
        log_id = _log_id(cursor, store, hop)
        done = 0
        while done != count and (line := _begin_attach(cursor, log_id, recorded_by)) is not None:
            reach("attach.begun", session)
            archive.copy_back(Part(store.service, line.staging, line.first, line.last, line.directory))
            reach("attach.copied", session)
            cursor.execute(
                "select relaybox.finish_attach(%s, %s, %s, %s) as outcome", (log_id, line.first, line.attempt, recorded_by)
            )
            if one_row(cursor).outcome != "attached":
                raise errors.SliceSuperseded(
                    f"store {store.name}: another run attaches positions {line.first} to {line.last} of {hop}.",
                    next_step=SUPERSEDED,
                )
            reach("attach.attached", session)
            emit("segment_attached", **_where(store, hop, line))
            if remove:
                archive.remove(line.directory)
                cursor.execute(
                    "update relaybox.detached_segment set removed_at = clock_timestamp()"
                    " where hop_id = %s and first = %s and state = 'attached' and directory = %s",
                    (log_id, line.first, line.directory),
                )
            done += 1
            yield _segment(hop, line, state="attached")


@contextmanager
def _session(store: Store, doing: str) -> Iterator[tuple[Any, Any]]:
    """Each step is one statement and its COMMIT: nobody ever waits for this process."""
    with closing(open_store(store, application_name="relaybox detach")) as session, store_errors(store.name, doing):
        session.autocommit = True
        with session.cursor(cursor_factory=NamedTupleCursor) as cursor:
            yield session, cursor


def _segment(hop: str, line: Any, *, state: str | None = None) -> DetachedSegment:
    return DetachedSegment(hop, line.first, line.last, state or line.state, line.directory, line.row_count, tuple(line.for_whom))


def _where(store: Store, hop: str, line: Any) -> dict[str, object]:
    """What an event tells of a segment."""
    positions = f"{line.first}-{line.last}"
    return {"store": store.name, "hop": hop, "positions": positions, "rows": line.row_count, "directory": line.directory}


def _log_id(cursor: Any, store: Store, hop: str) -> int:
    cursor.execute("select hop_id, hop from relaybox.hop_in order by hop")
    known = {row.hop: row.hop_id for row in cursor.fetchall()}
    if hop not in known:
        raise errors.UnknownHop(
            f"hop {hop} does not arrive in store {store.name}.", next_step=f"Arriving there: {', '.join(known) or 'none'}."
        )
    return int(known[hop])


def _begin_detach(cursor: Any, log_id: int, recorded_by: str) -> Any:
    cursor.execute("select * from relaybox.begin_detach(%s, %s)", (log_id, recorded_by))
    return one_row(cursor)


def _begin_attach(cursor: Any, log_id: int, recorded_by: str) -> Any:
    cursor.execute("select (b.made).*, b.staging from relaybox.begin_attach(%s, %s) b", (log_id, recorded_by))
    return one_row(cursor)


def _write_checked(archive: SegmentArchive, session: Any, store: Store, hop: str, line: Any) -> None:
    part = Part(store.service, line.segment, line.first, line.last, line.directory)
    archive.write(part)
    reach("detach.written", session)
    found = archive.digest(part.directory)
    if found != RowsDigest(line.row_count, int(line.hash_sum)):
        raise errors.ContentDiffers(
            f"log of {hop}: {part.directory} has {found.row_count} rows with hash sum {found.hash_sum}, "
            f"the store has {line.row_count} rows with hash sum {line.hash_sum}. The segment stays where it is.",
            next_step="Every executor of Spark must see the same files under detach_to.",
        )
    reach("detach.checked", session)


def _drop_detached(cursor: Any, log_id: int, recorded_by: str, line: Any, patience_seconds: float) -> Any:
    """The last answer of relaybox.drop_oldest_segment; a table that sessions hold is tried again for a while."""
    deadline = time.monotonic() + patience_seconds
    while True:
        cursor.execute(
            "select * from relaybox.drop_oldest_segment(%s, %s, %s, %s)", (log_id, recorded_by, line.first, line.attempt)
        )
        answer = one_row(cursor)
        if answer.outcome != "busy" or time.monotonic() >= deadline:
            return answer
        time.sleep(PAUSE_SECONDS)


def _reason(answer: Any) -> str:
    """Why a segment was not detached."""
    return str(answer.holder or ("another run that detaches it" if answer.outcome == "superseded" else "a session"))


def _remove_files(archive: SegmentArchive, cursor: Any) -> Iterator[str]:
    """Of attempts that came to nothing, and of segments that nobody needs any more."""
    cursor.execute(
        """
        select d.hop_id, d.first, d.attempt, d.strays || case when d.state = 'released' and d.removed_at is null
            then array[d.directory] else '{}' end as directories
        from relaybox.detached_segment d where d.strays <> '{}' or d.state = 'released' and d.removed_at is null
        order by d.hop_id, d.first
        """
    )
    for line in cursor.fetchall():
        directories: Sequence[str] = line.directories
        for directory in directories:
            archive.remove(directory)
            yield directory
        cursor.execute(
            """
            update relaybox.detached_segment
            set strays = '{}', removed_at = case when state = 'released' then clock_timestamp() else removed_at end
            where hop_id = %s and first = %s and attempt = %s
            """,
            (line.hop_id, line.first, line.attempt),
        )
