"""The columns of the table of an export: those of a stream, and one that partitions it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from relaybox.errors import LakeRefused
from relaybox.spark.frames.columns import SCHEMA, arrow_schema

PARTITION_COLUMNS = {"day": pa.field("sent_day", pa.date32()), "key": pa.field("key_partition", pa.string())}
"""By `partition_by`. A partition is named in the table alone, so the files have each column of a message as it was sent.

Delta has no empty text as a partition: key_partition is null for it, and key is not. So for the text that stands for null in paths.
"""

_NO_PARTITIONS = pa.array(["", "__HIVE_DEFAULT_PARTITION__"])
"""Keys that Delta has no partition for: a compaction of deltalake takes both for null."""

MESSAGE_SCHEMA: pa.Schema = arrow_schema(SCHEMA)
"""Of the files."""


def table_schema(partition_by: str) -> pa.Schema:
    """Of the table."""
    column = PARTITION_COLUMNS.get(partition_by)
    return MESSAGE_SCHEMA if column is None else MESSAGE_SCHEMA.append(column)


def partition_columns(partition_by: str) -> list[str]:
    """Their names; at most one."""
    column = PARTITION_COLUMNS.get(partition_by)
    return [] if column is None else [column.name]


def split_by_partition(
    messages: pa.RecordBatch, partition_by: str, *, splits_empty_keys: bool
) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """The messages of each partition, in their order, with the value that names it: a day as 2026-07-01, a key, or None.

    Raises:
        LakeRefused: a message has a sent_at beyond the years 1 to 9999.
    """
    if partition_by == "none" or not messages.num_rows:
        yield None, messages
        return
    if partition_by == "day":
        values = pc.floor_temporal(messages.column("sent_at").cast(pa.timestamp("us")), unit="day").cast(pa.date32())
    else:
        values = messages.column("key")
        if not splits_empty_keys:
            values = pc.if_else(pc.is_in(values, _NO_PARTITIONS), pa.scalar(None, pa.string()), values)
    for value in pc.unique(values):
        is_its = pc.is_null(values) if not value.is_valid else pc.fill_null(pc.equal(values, value), False)  # noqa: FBT003
        part = messages.filter(is_its)
        yield _name(value, part), part


def _name(value: pa.Scalar, messages: pa.RecordBatch) -> str | None:
    try:
        named = value.as_py()
    except (OverflowError, ValueError) as error:
        position = messages.column("stream_position")[0].as_py()
        raise LakeRefused(
            f"the message at stream position {position} was sent at a time that is no day of the years 1 to 9999.",
            next_step="Export the stream with partition_by: none.",
        ) from error
    return partition_text(named)


def partition_text(value: object) -> str | None:
    """The value of a partition as files and commits name it: a day as 2026-07-01."""
    return None if value is None else value.isoformat() if isinstance(value, date) else str(value)
