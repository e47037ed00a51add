"""What only stopped consumers need goes from a log into files, and comes back: whole segments, row by row the same.

A segment is detached when only stopped subscriptions need it, of a route with `stopped_consumer: detach`. SQL decides
it and keeps the ledger (`relaybox_internal.detached_segment`); files are written and read by a SegmentArchive, which is Spark. The
protocol,
and why it needs no other lock, is docs/decisions/0008-detached-segments.md. Each step may fail, be repeated, and run twice at once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from relaybox import errors
from relaybox.log_events import emit
from relaybox.retention.segments import PATIENCE_SECONDS, PAUSE_SECONDS, DropAnswer
from relaybox.stores.binary_copy.log_rows import RowsDigest
from relaybox.stores.opening import store_session
from relaybox.stores.readers.awaited_logs import first_by_log, list_awaited_logs

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession

_ANOTHER_DETACHES = "another run that detaches it"


@dataclass(frozen=True)
class DetachPart:
    """Positions first to last of a log, both included; `table` has them, `directory` shall have them or has them."""

    service: str
    table: str
    first: int
    last: int
    directory: str


@dataclass(frozen=True)
class DetachedFile:
    """A file of a detached segment, as the ledger has it.

    Attributes:
        name: in its directory.
        size_bytes: of the whole file.
        row_count: of its rows.
        first, last: its lowest and its highest log position.
    """

    name: str
    size_bytes: int
    row_count: int
    first: int
    last: int


class SegmentArchive(Protocol):
    """Writes and reads the files of detached segments. Every method may be called again with the same arguments.

    Raises:
        FilesFailed: the files could not be written, read or removed; a retry may help.
        RelayboxError: what a store said.
    """

    def write(self, part: DetachPart) -> None:
        """Reads the rows of a part from its table into its directory, which is not there yet."""

    def digest(self, directory: str) -> RowsDigest:
        """Reads all files of a directory: what relaybox_internal.log_digest would say of the rows in them."""

    def list_files(self, directory: str) -> list[DetachedFile]:
        """The files of a directory that have rows, in the order of their log positions."""

    def copy_back(self, part: DetachPart) -> None:
        """Copies all rows of the directory into the table; commits."""

    def remove(self, directory: str) -> None:
        """Removes a directory; it may be gone already."""


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


class _Line(NamedTuple):
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


class _Log(NamedTuple):
    log_id: int
    hop: str


class _Strays(NamedTuple):
    """Directories of a detached segment that no consumer needs any more."""

    log_id: int
    first: int
    attempt: int
    directories: list[str]


def has_detach_work(store: Store, routes: Routes | None = None) -> bool:
    """Whether a run of `detach_segments` would find something: it costs a JVM. Changes nothing. `routes`: see there."""
    with _session(store, "looking for what may be detached") as session:
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


def list_detached(store: Store, hop: str | None = None) -> list[DetachedSegment]:
    """The segments whose rows are in files only, of one log if asked for; newest first, as they are attached. UnknownHop."""
    with _session(store, "listing what is detached") as session:
        if hop is not None:
            _log_id(session, hop)
        lines = session.rows(
            _Line,
            """
            select i.hop, d.* from relaybox_internal.detached_segment d join relaybox_internal.hop_in i on i.log_id = d.log_id
            where d.state = 'detached' and i.hop = coalesce(%s, i.hop) order by i.hop, d.first desc
            """,
            hop,
        )
        return [_segment(line.hop, line) for line in lines]


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
    with _session(store, "detaching what only stopped consumers need") as session:
        logs = session.rows(
            _Log, "select log_id, hop from relaybox_internal.hop_in where stopped_consumer = 'detach' order by hop"
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
                    if _is_current(session, log_id, line):
                        raise
                    kept[hop] = _ANOTHER_DETACHES  # and has dropped the table from under this one
                    break
                answer = _drop_detached(session, log_id, recorded_by, line, patience_seconds)
                if answer.outcome != "detached":
                    kept[hop] = _reason(answer)
                    break
                segments.append(_segment(hop, line, state="detached"))
                emit("segment_detached", **_where(store, hop, line))
                session.reach("detach.detached")
        removed = tuple(_remove_files(archive, session))
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
        count: at most this many of them; None: all.
        remove: removes their files; otherwise they stay until the segment is dropped or detached again.

    Raises:
        UnknownHop: the hop does not arrive in the store.
        ContentDiffers: the files are not what was detached; nothing of them is readable.
        SliceSuperseded: another run attached it.
        FilesFailed, StoreUnreachable, StoreBusy: what was attached stays so; run it again.
    """
    with _session(store, f"attaching what was detached of {hop}") as session:
        log_id = _log_id(session, hop)
        done = 0
        while done != count and (line := _begin_attach(session, log_id, recorded_by)) is not None:
            session.reach("attach.begun")
            try:
                archive.copy_back(DetachPart(store.service, line.staging, line.first, line.last, line.directory))
            except errors.RelayboxError as error:
                if _is_current(session, log_id, line):
                    raise
                raise _attach_superseded(store, hop, line) from error  # the other run has dropped the table from under this one
            session.reach("attach.copied")
            if session.call("relaybox_internal.finish_attach", log_id, line.first, line.attempt, recorded_by) != "attached":
                raise _attach_superseded(store, hop, line)
            session.reach("attach.attached")
            emit("segment_attached", **_where(store, hop, line))
            if remove:
                archive.remove(line.directory)
                session.execute(
                    "update relaybox_internal.detached_segment set removed_at = clock_timestamp()"
                    " where log_id = %s and first = %s and state = 'attached' and directory = %s",
                    *(log_id, line.first, line.directory),
                )
            done += 1
            yield _segment(hop, line, state="attached")


def _attach_superseded(store: Store, hop: str, line: _Line) -> errors.SliceSuperseded:
    return errors.SliceSuperseded(
        f"store {store.name}: another run attaches positions {line.first} to {line.last} of {hop}, or has attached them. It goes on; "
        "this one ends. Nothing was lost.",
        next_step=f"Wait until it has ended. What is left: relaybox attach {store.name} {hop} --dry-run",
    )


@contextmanager
def _session(store: Store, activity: str) -> Iterator[StoreSession]:
    """Each step is one statement and its COMMIT: no session waits for this process."""
    with store_session(store, activity, application_name="relaybox detach") as session:
        session.connection.autocommit = True
        yield session


def _segment(hop: str, line: _Line, *, state: str | None = None) -> DetachedSegment:
    return DetachedSegment(hop, line.first, line.last, state or line.state, line.directory, line.row_count, tuple(line.needed_by))


def _where(store: Store, hop: str, line: _Line) -> dict[str, object]:
    """What an event tells of a segment."""
    log_positions = f"{line.first}-{line.last}"
    return {"store": store.name, "hop": hop, "log_positions": log_positions, "rows": line.row_count, "directory": line.directory}


def _log_id(session: StoreSession, hop: str) -> int:
    logs = session.rows(_Log, "select log_id, hop from relaybox_internal.hop_in order by hop")
    known = {log.hop: log.log_id for log in logs}
    if hop not in known:
        raise errors.UnknownHop(
            f"hop {hop} does not arrive in store {session.store}.", next_step=f"Arriving there: {', '.join(known) or 'none'}."
        )
    return known[hop]


def _begin_detach(session: StoreSession, log_id: int, recorded_by: str) -> _Line | None:
    return session.row_if_any(_Line, "select * from relaybox_internal.begin_detach(%s, %s)", log_id, recorded_by)


def _begin_attach(session: StoreSession, log_id: int, recorded_by: str) -> _Line | None:
    query = "select (b.made).*, b.staging from relaybox_internal.begin_attach(%s, %s) b"
    return session.row_if_any(_Line, query, log_id, recorded_by)


def _is_current(session: StoreSession, log_id: int, line: _Line) -> bool:
    """Whether no other attempt has taken a segment over, or is done with it."""
    return bool(
        session.value(
            "select exists (select from relaybox_internal.detached_segment"
            " where log_id = %s and first = %s and attempt = %s and state = %s)",
            *(log_id, line.first, line.attempt, line.state),
        )
    )


def _write_checked(archive: SegmentArchive, session: StoreSession, store: Store, hop: str, line: _Line) -> None:
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


def _drop_detached(session: StoreSession, log_id: int, recorded_by: str, line: _Line, patience_seconds: float) -> DropAnswer:
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
