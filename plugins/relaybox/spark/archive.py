"""Detached segments as Parquet files: one task per range of positions, one file per task, nothing shuffled.

The columns are those of the log, under their names: uuid and jsonb as their text, times in microseconds, all else as it is. Rows go
from COPY to Arrow and back as bytes; what Spark reads back is hashed as the store hashes it (relaybox.stores.binary_copy.log_rows).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from psycopg2 import sql

from relaybox import errors
from relaybox.retention.segment_archive import DetachedFile
from relaybox.spark.failures import SPARK_ERRORS, failure_line
from relaybox.stores.binary_copy.log_rows import (
    BIGINT,
    BYTEA,
    COLUMN_LIST,
    INTEGER,
    JSONB,
    LOG_COLUMNS,
    TEXT,
    TIMESTAMPTZ,
    UUID,
    CopiedRow,
    CopyFile,
    RowsDigest,
    digest_rows,
    read_rows,
)
from relaybox.stores.binary_copy.pipe import PIPE_BYTES, CopySender
from relaybox.stores.sessions.connections import connect, translate
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from relaybox.retention.segment_archive import DetachPart
    from relaybox.spark.tasks import TaskSession

ROWS_PER_TASK = 100_000
ROWS_PER_BATCH = 5_000
BYTES_PER_BATCH = 16 << 20

_JSONB_VERSION = b"\x01"

_EPOCH_MICROSECONDS = 946_684_800_000_000
"""2000-01-01, from which Postgres counts; the sum may wrap around, as infinity does, and wraps back."""

_NUMBERS = {BIGINT: ">i8", INTEGER: ">i4", TIMESTAMPTZ: ">i8"}
_ARROW_TYPES = {
    BIGINT: pa.int64(),
    INTEGER: pa.int32(),
    UUID: pa.string(),
    TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    TEXT: pa.string(),
    JSONB: pa.string(),
    BYTEA: pa.binary(),
}
_SPARK_TYPES = {
    BIGINT: "bigint",
    INTEGER: "int",
    UUID: "string",
    TIMESTAMPTZ: "timestamp",
    TEXT: "string",
    JSONB: "string",
    BYTEA: "binary",
}
_ARROW_SCHEMA = pa.schema([pa.field(name, _ARROW_TYPES[oid]) for name, oid in LOG_COLUMNS])
_SPARK_SCHEMA = ", ".join(f"`{name}` {_SPARK_TYPES[oid]}" for name, oid in LOG_COLUMNS)

_OLD_POSITION = "position"

_COUNTS = {"max(size)": "size_bytes", "count(1)": "row_count", "min(first)": "first", "max(last)": "last"}
"""Of the rows of a file, as Spark names them."""

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


class SparkArchive:
    """Writes and reads in a session of the caller's; see relaybox.retention.segment_archive.SegmentArchive."""

    def __init__(self, session: TaskSession) -> None:
        self._session = session
        self._dataframes = session.dataframes
        for name, value in _SETTINGS.items():
            self._dataframes.conf.set(name, value)

    def write(self, part: DetachPart) -> None:
        ranges = split(part.first, part.last)
        with _files("writing", part.directory), self._session.described(f"detaching {part.table}: {len(ranges)} ranges"):
            numbers = self._dataframes.range(0, len(ranges), 1, len(ranges))
            numbers.mapInArrow(_reader(part, ranges), _SPARK_SCHEMA).write.parquet(part.directory)

    def digest(self, directory: str) -> RowsDigest:
        with _files("reading", directory), self._session.described(f"reading {directory} back"):
            sums = self._read(directory).mapInArrow(_digest, "row_count bigint, hash_sum string").collect()
        return sum((RowsDigest(row.row_count, int(row.hash_sum)) for row in sums), RowsDigest())

    def list_files(self, directory: str) -> list[DetachedFile]:
        columns = ("_metadata.file_name as name", "_metadata.file_size as size", "log_position as first", "log_position as last")
        with _files("reading", directory), self._session.described(f"listing {directory}"):
            rows = self._dataframes.read.schema(_SPARK_SCHEMA).parquet(directory).selectExpr(*columns)
            counts = rows.groupBy("name").agg({"size": "max", "*": "count", "first": "min", "last": "max"})
            found = counts.toDF("name", *(_COUNTS[name] for name in counts.columns[1:])).collect()
        return sorted((DetachedFile(**row.asDict()) for row in found), key=lambda file: file.first)

    def copy_back(self, part: DetachPart) -> None:
        with _files("reading", part.directory), self._session.described(f"attaching {part.table}"):
            self._read(part.directory).mapInArrow(_copier(part), "row_count bigint").collect()

    def remove(self, directory: str) -> None:
        with _files("removing", directory):
            self._session.remove_directory(directory)

    def _read(self, directory: str) -> DataFrame:
        """The rows of the files. Files of versions before 0.1.0 have `position` for `log_position`."""
        found = self._dataframes.read.schema(f"{_SPARK_SCHEMA}, `{_OLD_POSITION}` bigint").parquet(directory)
        log_position = f"coalesce(`log_position`, `{_OLD_POSITION}`) as `log_position`"
        return found.selectExpr(*(log_position if name == "log_position" else f"`{name}`" for name, _ in LOG_COLUMNS))


@contextmanager
def _files(doing: str, directory: str) -> Iterator[None]:
    """An error of Spark as one of ours, in a line; the rest is in Spark's log."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise errors.FilesFailed(
            f"{doing} the files in {directory}: {failure_line(error)}",
            next_step="No message was dropped. Correct what the error says, and run it again.",
        ) from error


def split(first: int, last: int, rows: int = ROWS_PER_TASK) -> list[tuple[int, int]]:
    """Ranges of positions, both ends included, that cover first to last."""
    return [(start, min(last, start + rows - 1)) for start in range(first, last + 1, rows)]


def _reader(part: DetachPart, ranges: list[tuple[int, int]]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs on an executor: its numbers are those of its ranges."""

    def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from _read_range(part, *ranges[number])

    return read


def _read_range(part: DetachPart, first: int, last: int) -> Iterator[pa.RecordBatch]:
    query = sql.SQL(
        "copy (select {} from relaybox_internal.{} where log_position between {} and {} order by log_position) to stdout (format binary)"
    )
    doing = f"reading positions {first} to {last} of {part.table}"
    with closing(connect(part.service, application_name="relaybox detach")) as session:
        read_end, write_end = os.pipe()
        sender = CopySender(
            session, query.format(COLUMN_LIST, sql.Identifier(part.table), sql.Literal(first), sql.Literal(last)), write_end
        )
        try:
            with os.fdopen(read_end, "rb", buffering=PIPE_BYTES) as file:
                sender.start()
                yield from to_arrow(read_rows(file))
        except errors.ContentDiffers:
            sender.join()
            if sender.has_sent_all:
                raise
            raise translate(sender.error, store=part.service, doing=doing) from sender.error
        finally:
            sender.join()


def to_arrow(rows: Iterable[CopiedRow]) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of a bounded size."""
    held: list[CopiedRow] = []
    byte_count = 0
    for row in rows:
        held.append(row)
        byte_count += sum(len(field) for field in row if field is not None)
        if len(held) >= ROWS_PER_BATCH or byte_count >= BYTES_PER_BATCH:
            yield _batch(held)
            held, byte_count = [], 0
    if held:
        yield _batch(held)


def from_arrow(batch: pa.RecordBatch) -> Iterator[CopiedRow]:
    """The rows of a record batch, with the fields that to_arrow() was given."""
    columns = (batch.column(batch.schema.get_field_index(name)) for name, _ in LOG_COLUMNS)
    return zip(*(_fields(column, oid) for column, (_, oid) in zip(columns, LOG_COLUMNS, strict=True)), strict=True)


def _batch(rows: Sequence[CopiedRow]) -> pa.RecordBatch:
    columns = [_array(fields, oid) for fields, (_, oid) in zip(zip(*rows, strict=True), LOG_COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


def _array(fields: Sequence[bytes | None], oid: int) -> pa.Array:
    if oid in _NUMBERS:
        numbers = np.frombuffer(b"".join(field or b"" for field in fields), _NUMBERS[oid])
        if oid == TIMESTAMPTZ:
            return pa.array(numbers.astype("i8") + _EPOCH_MICROSECONDS).cast(_ARROW_TYPES[oid])
        return pa.array(numbers.astype(_NUMBERS[oid][1:]))
    if oid == UUID:
        return pa.array([None if field is None else str(uuid.UUID(bytes=field)) for field in fields], pa.string())
    if oid == JSONB:
        return pa.array([None if field is None else _json_text(field) for field in fields], pa.binary()).cast(pa.string())
    return pa.array(fields, pa.binary()).cast(_ARROW_TYPES[oid])


def _json_text(field: bytes) -> bytes:
    if field[:1] != _JSONB_VERSION:
        raise errors.ContentDiffers(f"the store sent jsonb of version {field[:1]!r}, expected {_JSONB_VERSION!r}.")
    return field[1:]


def _fields(column: pa.Array, oid: int) -> list[bytes | None]:
    if oid in _NUMBERS:
        if column.null_count:
            raise errors.ContentDiffers("the files have a row without a number.")
        numbers = column.cast(pa.int64()).to_numpy()
        data = (numbers - _EPOCH_MICROSECONDS if oid == TIMESTAMPTZ else numbers).astype(_NUMBERS[oid]).tobytes()
        width = len(data) // max(1, len(numbers))
        return [data[start : start + width] for start in range(0, len(data), width or 1)]
    if oid == UUID:
        return [None if text is None else uuid.UUID(text).bytes for text in column.to_pylist()]
    texts: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return [None if text is None else _JSONB_VERSION + text for text in texts] if oid == JSONB else texts


def _digest(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = sum((digest_rows(from_arrow(batch)) for batch in batches), RowsDigest())
    yield pa.RecordBatch.from_pydict({"row_count": [found.row_count], "hash_sum": [str(found.hash_sum)]})


def _copier(part: DetachPart) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task runs on an executor: all its rows in one transaction."""

    def copy(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in from_arrow(batch))
        query = sql.SQL("copy relaybox_internal.{} ({}) from stdin (format binary)").format(
            sql.Identifier(part.table), COLUMN_LIST
        )
        connection = connect(part.service, application_name="relaybox attach")
        with closing(StoreSession(connection, part.service, f"copying into {part.table}")) as session:
            with session.cursor() as cursor:
                cursor.copy_expert(query, CopyFile(rows), size=PIPE_BYTES)
                row_count = cursor.rowcount
            session.commit()
        yield pa.RecordBatch.from_pydict({"row_count": [row_count]})

    return copy
