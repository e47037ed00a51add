"""A batch of a stream: pinned when the query is planned, so it is the same however often it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from relaybox.errors import HistoryLost
from relaybox.spark.frames.arrow_copy import read_messages
from relaybox.spark.frames.ranges import StreamPartition, cut_range, pin_message, pin_range, require_message, require_range

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql.types import StructType

    from relaybox.spark.frames.options import ReadOptions


class BatchReader(DataSourceReader):
    """Reads the columns that the schema has.

    It takes no conditions of the query (pushFilters): Spark 4.2.0 keeps those of one query for the next query of the same DataFrame
    that has none, which then reads too little. Conditions that the store applies are options.
    """

    def __init__(self, options: ReadOptions, columns: StructType) -> None:
        self.options = options
        self.columns = columns
        pinned = pin_range(options.store, options.stream, options.start, options.through, with_files=True)
        self.store_id, self.first, self.last = pinned.store_id, pinned.first_stream_position, pinned.last_stream_position
        self.pinned = pin_message(options.store, options.stream, self.last)

    def partitions(self) -> Sequence[StreamPartition]:
        return cut_range(self.store_id, self.first, self.last, self.options.partition_messages, pinned=self.pinned)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self.options, partition, columns=self.columns)


def read_partition(options: ReadOptions, partition: InputPartition, *, columns: StructType) -> Iterator[pa.RecordBatch]:
    """Runs in a task: the messages of a partition. Retention that removes one of them meanwhile is an error, never fewer rows."""
    if not isinstance(partition, StreamPartition):
        return  # Spark makes one of its own where there is none
    require_range(options.store, options.stream, partition.store_id, partition.first, partition.last)
    row_count = 0
    for batch in read_messages(
        options.store, options.stream, partition.first, partition.last, columns=columns, only=options.only
    ):
        row_count += batch.num_rows
        yield batch
    expected = partition.last - partition.first + 1
    if not options.only and row_count != expected:
        raise HistoryLost(
            f"store {options.store}, stream {options.stream}: {row_count} of {expected} messages were read of stream positions "
            f"{partition.first} to {partition.last}. The service leads to servers that differ, or the store went back in time.",
            next_step="Let the service lead to the primary alone, and run the query again.",
        )
    require_message(options.store, options.stream, partition.pinned)
