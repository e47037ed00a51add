"""Rows of a Spark task on their way into a temporary table: numbered in their order, and never all in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from relaybox.stores.sessions.settings import STATEMENT_TIMEOUT_SECONDS, duration, session_settings

SENDING_SETTINGS = {
    **{name: value for name, value in session_settings().items() if name != "row_security"},  # owners may give producers a policy
    "statement_timeout": "0",  # rows come as fast as Spark makes them
    "lock_timeout": duration(STATEMENT_TIMEOUT_SECONDS),  # for a task that sends the same rows
}
"""Of a transaction in which a task sends."""


def numbered_rows(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader | None:
    """The rows with a column n, their number from 1; None: there are none. Reads them as they are asked for."""
    numbered = _numbered(batches)
    first = next(numbered, None)
    return None if first is None else pa.RecordBatchReader.from_batches(first.schema, _chained(first, numbered))


def one_row(cursor: Any, statement: str) -> tuple[Any, ...]:
    """The row of a statement that always gives one."""
    cursor.execute(statement)
    row: tuple[Any, ...] = cursor.fetchone()
    return row


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen = 0
    for batch in batches:
        if batch.num_rows:
            numbers = pa.array(np.arange(seen + 1, seen + batch.num_rows + 1, dtype=np.int64))
            yield pa.RecordBatch.from_arrays([*batch.columns, numbers], names=[*batch.schema.names, "n"])
            seen += batch.num_rows


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
