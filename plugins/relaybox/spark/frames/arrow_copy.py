"""Messages of a stream as record batches of Arrow: COPY in binary, decoded by ADBC outside of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from relaybox.errors import Detached, HistoryLost
from relaybox.spark.frames.adbc_sessions import adbc_errors, open_cursor, quote_text
from relaybox.spark.frames.columns import COLUMNS, arrow_schema
from relaybox.spark.frames.detached_messages import DetachedMessages
from relaybox.stores.sessions.settings import session_settings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FIRST_COUNT, MAX_COUNT = 100, 20_000
"""Messages that one statement reads: the server holds the result of read_stream() until it is sent."""
STATEMENT_BYTES = 32 << 20
_POSITION = "stream_position"
_TURNS = 5
"""How often in a row a position may be said to be in the log, then in files, without one being read."""


def read_messages(
    store: str, stream: str, first: int, last: int, *, columns: StructType, only: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yields the messages of stream positions, both ends included, in their order: from the logs, detached ones from their files.

    One session, and one transaction for each statement. A statement reads some tens of MiB, as the messages before let expect, so
    memory does not grow with the range. Messages may be detached or attached meanwhile: each is read from where it is.

    Args:
        store: the libpq service.
        stream: its name.
        first: the first stream position.
        last: the last one.
        columns: those that are read; none: only the number of rows counts.
        only: values of topic, sender and key; those messages alone, compared by their bytes.

    Raises:
        NoLongerKept, ContentDiffers, TopicNotGranted: the store refuses the range, or files of it were changed.
        FilesFailed: files of it can't be read.
        Transient, Terminal: the store failed.
    """
    doing = f"reading stream positions {first} to {last} of stream {stream}"
    with adbc_errors(store, doing), open_cursor(store, session_settings()) as cursor:
        log = _Log(cursor, store, stream, arrow_schema(columns), only)
        with closing(DetachedMessages(cursor, store, stream, columns, only)) as files:
            after, count, seen_rows, seen_bytes, turns = first - 1, FIRST_COUNT, 0, 0, 0
            reads_files = False
            while after < last:
                count = min(count, last - after)
                try:
                    through, batches = (files if reads_files else log).read(after, count, doing)
                except Detached:
                    if turns == _TURNS:
                        raise
                    through, batches = after, []
                if through == after:  # it is, or has come, to the other place
                    reads_files, turns = not reads_files, turns + 1
                    if turns > _TURNS:
                        raise HistoryLost(
                            f"store {store}, stream {stream}: the message at stream position {after + 1} is neither in the store nor "
                            "detached.",
                            next_step="Find out what was restored (relaybox status).",
                        )
                    continue
                turns = 0
                for batch in batches:
                    seen_rows, seen_bytes = seen_rows + batch.num_rows, seen_bytes + batch.nbytes
                    yield batch
                after = through
                fitting = STATEMENT_BYTES * seen_rows // max(1, seen_bytes) if seen_rows else MAX_COUNT
                count = max(1, min(10 * count, fitting, MAX_COUNT))


class _Log:
    """Reads from the logs, by read_stream()."""

    def __init__(self, cursor: Any, store: str, stream: str, schema: pa.Schema, only: Mapping[str, str]) -> None:
        self._cursor = cursor
        self._store = store
        self._stream = stream
        self._schema = schema
        self._only = only

    def read(self, after: int, count: int, doing: str) -> tuple[int, list[pa.RecordBatch]]:
        """The stream position through which it has read, and the messages. Raises Detached at a detached one."""
        names = [f"{COLUMNS[name].sql} as {name}" for name in self._schema.names]
        if after == 0:
            return self._read_first(count, names, doing)
        conditions = " and ".join(f'{name} collate "C" = {quote_text(value)}' for name, value in self._only.items())
        query = f"select {', '.join(names) or _POSITION} from {self._from(after, count)}{f' where {conditions}' if conditions else ''}"  # noqa: S608  quoted
        return after + count, [self._cut(batch) for batch in self._fetch(query, doing).to_batches()]

    def _read_first(self, count: int, names: list[str], doing: str) -> tuple[int, list[pa.RecordBatch]]:
        """read_stream() takes 0 for the first kept message: so which one that is must be read, too."""
        extra = [f"{_POSITION} as read_position", *(f"{name} as only_{name}" for name in self._only)]
        table = self._fetch(f"select {', '.join([*names, *extra])} from {self._from(0, count)}", doing)  # noqa: S608
        if table.num_rows == 0 or pc.min(table.column("read_position")).as_py() != 1:
            self._fetch(f"select 1 from relaybox.stream_range({quote_text(self._stream)}, '1', '1')", doing)  # noqa: S608  quoted
            return 0, []  # it has been attached meanwhile
        for name, value in self._only.items():
            table = table.filter(pc.equal(table.column(f"only_{name}"), value))
        return count, [self._cut(batch) for batch in table.to_batches()]

    def _from(self, after: int, count: int) -> str:
        return f"relaybox.read_stream({quote_text(self._stream)}, {after}, {count})"

    def _fetch(self, query: str, doing: str) -> pa.Table:
        with adbc_errors(self._store, doing):
            self._cursor.execute(query)
            return self._cursor.fetch_arrow_table()  # a reader of batches would lose the SQLSTATE of an error

    def _cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(batch.columns[: len(self._schema)], schema=self._schema)
