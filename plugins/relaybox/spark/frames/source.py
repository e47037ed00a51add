"""The format `relaybox` of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from relaybox.spark.frames.batch_reader import BatchReader
from relaybox.spark.frames.columns import SCHEMA, require_columns
from relaybox.spark.frames.options import read_options
from relaybox.spark.frames.stream_reader import StreamReader
from relaybox.spark.frames.write_options import write_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from relaybox.spark.frames.outbox_writer import OutboxStreamWriter, OutboxWriter


class RelayboxSource(DataSource):
    """A stream as a DataFrame, or a DataFrame into an outbox. A schema that is given to read a stream chooses its columns."""

    @classmethod
    def name(cls) -> str:
        return "relaybox"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(read_options(self.options, streaming=False), require_columns(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802  the name is Spark's
        return StreamReader(read_options(self.options, streaming=True), require_columns(schema))

    def writer(self, schema: StructType, overwrite: bool) -> OutboxWriter:  # noqa: FBT001
        from relaybox.spark.frames.outbox_writer import OutboxWriter

        return OutboxWriter(write_options(self.options, schema, overwrite=overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OutboxStreamWriter:  # noqa: FBT001, N802
        from relaybox.spark.frames.outbox_writer import OutboxStreamWriter

        return OutboxStreamWriter(write_options(self.options, schema, overwrite=overwrite, streaming=True))
