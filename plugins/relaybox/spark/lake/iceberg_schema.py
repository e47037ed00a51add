"""The columns and the partitions of an Iceberg table of an export."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pyarrow as pa  # type: ignore[import-untyped]
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, IntegerType, LongType, NestedField, PrimitiveType, StringType, TimestamptzType

from relaybox.spark.lake.columns import MESSAGE_SCHEMA, partition_text

_TYPES: Mapping[pa.DataType, PrimitiveType] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.timestamp("us", tz="UTC"): TimestamptzType(),
}
_EPOCH_DAY = date(1970, 1, 1).toordinal()

ICEBERG_SCHEMA = Schema(
    *(
        NestedField(number, field.name, _TYPES[field.type], required=not field.nullable)
        for number, field in enumerate(MESSAGE_SCHEMA, start=1)
    )
)
"""Of a new table. A catalog numbers the columns of a new table from 1, in their order, as they are here."""
POSITION_ID = ICEBERG_SCHEMA.find_field("stream_position").field_id


def partition_spec(partition_by: str) -> PartitionSpec:
    """Hidden partitions: derived from columns of the messages, so that a filter of these skips files."""
    if partition_by == "day":
        sent_at = ICEBERG_SCHEMA.find_field("sent_at").field_id
        return PartitionSpec(PartitionField(sent_at, 1000, DayTransform(), "sent_day"))
    if partition_by == "key":
        key = ICEBERG_SCHEMA.find_field("key").field_id
        return PartitionSpec(PartitionField(key, 1000, IdentityTransform(), "key_partition"))
    return PartitionSpec()


def partition_record(partition_by: str, value: str | None) -> Record:
    """The partition of a file, as its manifest has it; `value` as WrittenFile says."""
    if partition_by == "none":
        return Record()
    if partition_by == "day" and value is not None:
        return Record(date.fromisoformat(value).toordinal() - _EPOCH_DAY)
    return Record(value)


def partition_value(partition_by: str, record: Record) -> str | None:
    """The value that partition_record() was given."""
    value = None if partition_by == "none" else record[0]
    return partition_text(date.fromordinal(_EPOCH_DAY + value) if isinstance(value, int) else value)


def describe_columns(schema: Schema) -> dict[str, str]:
    """The type of each column, in their order."""
    return {field.name: f"{field.field_type}{' not null' if field.required else ''}" for field in schema.fields}


def describe_partitions(spec: PartitionSpec, schema: Schema) -> str:
    """The transforms that partition a table."""
    return ", ".join(f"{field.transform}({schema.find_column_name(field.source_id)})" for field in spec.fields) or "nothing"
