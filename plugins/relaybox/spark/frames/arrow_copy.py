"""Messages of a stream as record batches of Arrow: COPY in binary, decoded by ADBC outside of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from relaybox.spark.frames.adbc_sessions import adbc_errors, open_cursor, quote_text
from relaybox.spark.frames.columns import COLUMNS, arrow_schema
from relaybox.stores.settings import session_settings

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FIRST_COUNT, MAX_COUNT = 100, 20_000
"""Messages that one statement reads: the server holds the result of read_stream() until it is sent."""
STATEMENT_BYTES = 32 << 20


def read_messages(
    store: str, stream: str, first: int, last: int, *, columns: StructType, only: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yields the messages of stream positions, both ends included, in their order.

    One session, and one transaction for each statement. A statement reads some tens of MiB, as the messages before let expect, so
    memory does not grow with the range.

    Args:
        store: the libpq service.
        stream: its name.
        first: the first stream position.
        last: the last one.
        columns: those that are read; none: only the number of rows counts.
        only: values of topic, sender and key; the store sends the messages that have them, by their bytes.

    Raises:
        NoLongerKept, Detached, ContentDiffers, TopicNotGranted: the store refuses the range.
        Transient, Terminal: the store failed.
    """
    schema = arrow_schema(columns)
    doing = f"reading stream positions {first} to {last} of stream {stream}"
    with adbc_errors(store, doing), open_cursor(store, session_settings()) as cursor:
        after, count, seen_rows, seen_bytes = first - 1, FIRST_COUNT, 0, 0
        while after < last:
            count = min(count, last - after)
            cursor.execute(_query(stream, after, count, columns, only))
            for batch in cursor.fetch_arrow_table().to_batches():  # a reader of batches would lose the SQLSTATE of an error
                seen_rows, seen_bytes = seen_rows + batch.num_rows, seen_bytes + batch.nbytes
                yield pa.RecordBatch.from_arrays(batch.columns[: len(schema)], schema=schema)
            after += count
            fitting = STATEMENT_BYTES * seen_rows // max(1, seen_bytes) if seen_rows else MAX_COUNT
            count = max(1, min(10 * count, fitting, MAX_COUNT))


def _query(stream: str, after: int, count: int, columns: StructType, only: Mapping[str, str]) -> str:
    wanted = ", ".join(f"{COLUMNS[name].sql} as {name}" for name in columns.fieldNames()) or "stream_position"
    conditions = " and ".join(f'{name} collate "C" = {quote_text(value)}' for name, value in only.items())
    where = f" where {conditions}" if conditions else ""
    return f"select {wanted} from relaybox.read_stream({quote_text(stream)}, {after}, {count}){where}"  # noqa: S608  all are quoted or numbers
