"""Ranges of a stream: pinned in the store when a query is planned, cut into partitions, and required of the store that a task reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from relaybox.errors import Detached, HistoryLost, NoLongerKept
from relaybox.spark.frames.arrow_copy import read_messages
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.logins import login_of
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

_COLUMNS = "store_id::text, first_stream_position, last_stream_position, newest_stream_position"
_RANGE = f"select {_COLUMNS} from relaybox.stream_range(%s, %s, %s)"  # noqa: S608  names of ours
_RANGE_WITH_FILES = f"select {_COLUMNS} from relaybox.stream_range_with_files(%s, %s, %s)"  # noqa: S608  names of ours
_MESSAGE = "select stream_position, message_id::text from relaybox.read_stream(%s, %s, 1)"


@dataclass(frozen=True)
class PinnedRange:
    """Stream positions of a store, both ends included; none if last is below first."""

    store_id: str
    first_stream_position: int
    last_stream_position: int
    newest_stream_position: int


@dataclass(frozen=True)
class PinnedMessage:
    """A message that the store had when a query was planned: another history of the store has another one there."""

    stream_position: int
    message_id: str


@dataclass(frozen=True)
class StreamPartition(InputPartition):
    """What one task reads: a range of stream positions, both ends included, of the store with this id.

    Attributes:
        pinned: the last message of the query, which the store must still have when the task has read; None: it was not kept.
    """

    store_id: str
    first: int
    last: int
    pinned: PinnedMessage | None = None


def pin_range(store: str, stream: str, start: str, through: str | None, *, with_files: bool = False) -> PinnedRange:
    """Asks the store which stream positions a range has now. One session, one statement.

    Args:
        store: the libpq service.
        stream: the name of the stream.
        start: earliest, latest, a stream position, or a time of delivery.
        through: the end, in the same forms; None: the newest message.
        with_files: detached messages count as kept.

    Raises:
        UnknownStream, NoLongerKept, Detached, RequestRefused, TopicNotGranted: the store refuses.
        Transient, Terminal: the store can't be asked.
    """
    with _session(store, f"planning a read of stream {stream}") as session:
        return _range(session, _RANGE_WITH_FILES if with_files else _RANGE, stream, start, through)


def require_range(store: str, stream: str, store_id: str, first: int, last: int) -> None:
    """Refuses a store that has not all of these stream positions, or is another store than the one that planned the query.

    Detached messages are kept ones.

    Args:
        store: the libpq service.
        stream: the name of the stream.
        store_id: of the store that planned.
        first: the first stream position.
        last: the last one.

    Raises:
        HistoryLost: the store was restored or replaced.
        NoLongerKept: retention removed messages of the range.
        Transient, Terminal: as pin_range().
    """
    doing = f"before reading stream positions {first} to {last} of stream {stream}"
    with _session(store, doing) as session:
        newest = _range(session, _RANGE_WITH_FILES, stream, "latest", None)
        where = f"store {store}, stream {stream}"
        if newest.store_id != store_id:
            raise HistoryLost(
                f"{where}: this is store {newest.store_id}, the query was planned for store {store_id}.",
                next_step="Correct the section of the store in the service file of each executor. A streaming query whose store was made "
                "anew needs a new checkpoint.",
            )
        if newest.newest_stream_position < last:
            raise HistoryLost(
                f"{where}: the stream ends at stream position {newest.newest_stream_position}, the query has planned or read through "
                f"{last}. The store went back in time: it was restored, or failed over and lost commits.",
                next_step="Find out what was restored (relaybox status). Then begin the query with a new checkpoint, at the stream "
                "position from which its results are to be made again.",
            )
        if first <= last:
            _range(session, _RANGE_WITH_FILES, stream, str(first), str(last))


def pin_message(store: str, stream: str, position: int) -> PinnedMessage | None:
    """The message at a stream position, a detached one from its files; None if it is not kept, or there is none.

    Raises:
        UnknownStream, TopicNotGranted, Transient, Terminal: as pin_range().
        ContentDiffers, FilesFailed: it is detached, and its files were changed or can't be read.
    """
    if position < 1:
        return None
    with _session(store, f"reading stream position {position} of stream {stream}") as session:
        try:
            found = session.row_if_any(PinnedMessage, _MESSAGE, stream, position - 1)
        except NoLongerKept:
            return None
        except Detached:
            return _pin_in_files(store, stream, position)
    return None if found is None or found.stream_position != position else found


def _pin_in_files(store: str, stream: str, position: int) -> PinnedMessage | None:
    columns = StructType([SCHEMA["message_id"]])
    try:
        batches = list(read_messages(store, stream, position, position, columns=columns, only={}))
    except NoLongerKept:
        return None
    return next((PinnedMessage(position, batch.column(0)[0].as_py()) for batch in batches if batch.num_rows), None)


def require_message(store: str, stream: str, pinned: PinnedMessage | None) -> None:
    """Refuses a store that was restored to a time before the pinned message, and has grown past it since.

    Raises:
        HistoryLost: with both messages.
        UnknownStream, TopicNotGranted, Transient, Terminal: as pin_range().
    """
    if pinned is None:
        return
    found = pin_message(store, stream, pinned.stream_position)
    if found is not None and found != pinned:
        raise HistoryLost(
            f"store {store}, stream {stream}: stream position {pinned.stream_position} has message {found.message_id}; the query has read "
            f"or planned message {pinned.message_id} there. The store went back in time, and other messages have arrived since.",
            next_step="Find out what was restored (relaybox status). Then make the DataFrame again, or begin the query with a new "
            "checkpoint, at the stream position from which its results are to be made again.",
        )


def cut_range(
    store_id: str, first: int, last: int, messages: int, *, pinned: PinnedMessage | None = None
) -> list[StreamPartition]:
    """Partitions of so many stream positions each, in order."""
    starts = range(first, last + 1, messages)
    return [StreamPartition(store_id, start, min(last, start + messages - 1), pinned) for start in starts]


def _range(session: StoreSession, query: str, stream: str, start: str, through: str | None) -> PinnedRange:
    return session.row(PinnedRange, query, stream, start, through)


@contextmanager
def _session(store: str, doing: str) -> Iterator[StoreSession]:
    with login_of(store), closing(StoreSession(connect(store, application_name="relaybox frame"), store, doing)) as session:
        yield session
