"""The columns of a stream in a DataFrame: their types, and how a store gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from relaybox.errors import ConfigurationError


@dataclass(frozen=True)
class Column:
    """A column of relaybox.read_stream(): its SQL, its type in Spark, and in Arrow."""

    sql: str
    spark_type: DataType
    arrow_type: pa.DataType
    nullable: bool = False


_LONG = (LongType(), pa.int64())
_TEXT = (StringType(), pa.string())

COLUMNS: Mapping[str, Column] = {
    "stream_position": Column("stream_position", *_LONG),
    "topic": Column("topic", *_TEXT),
    "sender": Column("sender", *_TEXT),
    "key": Column("key", *_TEXT, nullable=True),
    "payload": Column("payload", *_TEXT, nullable=True),
    "payload_bytes": Column("payload_bytes", BinaryType(), pa.binary(), nullable=True),
    "headers": Column("headers::text", *_TEXT, nullable=True),
    "sent_at": Column("sent_at", TimestampType(), pa.timestamp("us", tz="UTC")),
    "message_id": Column("message_id::text", *_TEXT),
    "epoch": Column("epoch", IntegerType(), pa.int32()),
    "index": Column("index", *_LONG),
    "clock": Column("clock::text", *_TEXT, nullable=True),
    "hop": Column("hop", *_TEXT),
    "log_position": Column("log_position", *_LONG),
}
"""By name, in the order of a DataFrame. headers and clock are JSON texts."""

SCHEMA = StructType([StructField(name, column.spark_type, column.nullable) for name, column in COLUMNS.items()])


def require_columns(schema: StructType) -> StructType:
    """Returns a schema whose columns a stream has; the store sends these alone.

    Raises:
        ConfigurationError: a stream has no such column, or not of that type.
    """
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None:
            raise ConfigurationError(f"a stream has no column {field.name}.", next_step=f"Its columns: {', '.join(COLUMNS)}.")
        if field.dataType != column.spark_type:
            raise ConfigurationError(
                f"column {field.name} of a stream is {column.spark_type.simpleString()}, not {field.dataType.simpleString()}.",
                next_step="Correct the schema, and cast the column, or read its JSON by from_json(), in the query.",
            )
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """Of the record batches that Spark takes for a schema: it wants the same types, and the same columns that may be null."""
    return pa.schema([pa.field(field.name, COLUMNS[field.name].arrow_type, field.nullable) for field in schema.fields])
