"""Messages of a stream before the first one that its store keeps: the store says in which files each is, and gives those that it has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from relaybox.retention.segment_archive import DetachedFile
from relaybox.spark.frames.adbc_sessions import adbc_errors, quote_text
from relaybox.spark.frames.columns import COLUMNS, arrow_schema
from relaybox.spark.frames.detached_rows import DetachedRows, DetachedSegmentFiles, gone

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_LOCATION = ("stream_position", "hop", "log_position")
"""Of a message in files, what the store knows. The files know the rest."""


class DetachedMessages:
    """Reads with the cursor of the caller, who closes it.

    Args:
        cursor: of ADBC.
        store: the libpq service.
        stream: its name.
        columns: of the messages.
        only: values of topic, sender and key; those messages alone.
    """

    def __init__(self, cursor: Any, store: str, stream: str, columns: StructType, only: Mapping[str, str]) -> None:
        self._cursor = cursor
        self._store = store
        self._stream = stream
        self._schema = arrow_schema(columns)
        self._only = only
        self._names = [name for name in COLUMNS if name not in _LOCATION and (name in self._schema.names or name in only)]
        self._open: dict[str, DetachedRows] = {}

    def close(self) -> None:
        """Closes the files that are open."""
        for rows in self._open.values():
            rows.close()

    def read(self, after: int, count: int, doing: str) -> tuple[int, list[pa.RecordBatch]]:
        """The stream position through which it has read, and the messages. None were read: read_stream() has what comes next.

        Raises:
            FilesFailed, ContentDiffers, ConfigurationError: see DetachedRows.take().
            NoLongerKept, TopicNotGranted: the store refuses.
            Transient, Terminal: the store failed.
        """
        selected = [*_LOCATION, "directory", *(f"{COLUMNS[name].sql} as {name}" for name in self._names)]
        query = f"select {', '.join(selected)} from relaybox.read_detached({quote_text(self._stream)}, {after}, {count})"  # noqa: S608
        table = self._fetch(query, doing)
        if table.num_rows == 0:
            return after, []
        through = int(pc.max(table.column("stream_position")).as_py())
        here = table.filter(pc.is_null(table.column("directory"))).drop_columns("directory")
        parts = [here] if here.num_rows else []
        for directory in pc.unique(table.column("directory")).drop_null().to_pylist():
            located = table.filter(pc.equal(table.column("directory"), directory))
            part = self._from_files(directory, located, doing)
            if part is None:
                return after, []
            parts.append(part)
        found = pa.concat_tables(parts).sort_by("stream_position")
        for name, value in self._only.items():
            found = found.filter(pc.equal(found.column(name), value))
        found = found.combine_chunks()
        return through, [self._cut(batch) for batch in found.to_batches()]

    def _from_files(self, directory: str, located: pa.Table, doing: str) -> pa.Table | None:
        """The messages of a directory. None: it is gone, and the store knows why."""
        if directory not in self._open and not self._begin(directory, located.column("hop")[0].as_py(), doing):
            return None
        positions = located.column("log_position").to_numpy()
        order = np.argsort(positions, kind="stable")
        try:
            rows = self._open[directory].take(positions[order])
        except FileNotFoundError as error:
            if self._expected(directory, doing) is not None:
                raise gone(self._open[directory].segment, error) from error
            self._open.pop(directory).close()
            return None  # attached, or released, meanwhile
        columns = [rows.column(name).cast(COLUMNS[name].arrow_type) for name in self._names]
        where = located.select(_LOCATION).take(pa.array(order))
        return pa.table([*where.columns, *columns], names=[*_LOCATION, *self._names])

    def _begin(self, directory: str, hop: str, doing: str) -> bool:
        expected = self._expected(directory, doing)
        if expected is None:
            return False
        files = expected["files"]
        known = None if files is None else [DetachedFile(**file) for file in json.loads(files)]
        segment = DetachedSegmentFiles(self._store, hop, directory, expected["row_count"], known)
        self._open[directory] = DetachedRows(segment, self._names)
        return True

    def _expected(self, directory: str, doing: str) -> dict[str, Any] | None:
        query = f"select row_count, files::text as files from relaybox.detached_files({quote_text(self._stream)}, {quote_text(directory)})"  # noqa: S608
        found = self._fetch(query, doing).to_pylist()
        return found[0] if found else None

    def _fetch(self, query: str, doing: str) -> pa.Table:
        with adbc_errors(self._store, doing):
            self._cursor.execute(query)
            return self._cursor.fetch_arrow_table()

    def _cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(batch.schema.get_field_index(name)) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
