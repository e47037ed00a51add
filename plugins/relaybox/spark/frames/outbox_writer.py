"""The writers of the format `relaybox`: what Spark calls in the tasks and in the driver of a write."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import TaskContext

from relaybox.errors import ConfigurationError, SparkFailed
from relaybox.log_events import emit
from relaybox.spark.frames.held_rows import Held, held_partitions, hold
from relaybox.spark.frames.sending import Partition, Sent, complete_write, send_partition, send_write

try:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
except ImportError as error:  # before Spark 4.1
    raise ConfigurationError("format relaybox writes with Spark 4.1 or later.", next_step="Upgrade pyspark.") from error

if TYPE_CHECKING:
    from relaybox.spark.frames.write_options import WriteOptions

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells the tasks of a micro-batch; the id of the query is in its checkpoint."""


class OutboxWriter(DataSourceArrowWriter):
    """Writes a batch under its write_id. One object is one run of the write: its tasks have copies of it."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.run = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent | Held:
        return _write(self.options, f"write/{self.options.write_id}", self.run, _task().partitionId(), iterator)

    def commit(self, messages: Sequence[Sent | Held | None]) -> None:  # type: ignore[override]
        done = _complete(self.options, messages)
        if not done:  # a DataFrame without partitions has no task
            complete_write(self.options, f"write/{self.options.write_id}", self.run, 0)
        _tell(self.options, f"write {self.options.write_id}", done)

    def abort(self, messages: Sequence[Sent | Held | None]) -> None:  # type: ignore[override]
        _tell_failed(self.options, f"write {self.options.write_id}", messages)


class OutboxStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query, each as a write of its own. One object is one run of the query."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options
        self.run = str(uuid.uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent | Held:
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if not query or not batch:
            raise SparkFailed("Spark did not say which micro-batch of which query a task is of. Nothing was sent.")
        return _write(self.options, f"query/{query}/{batch}", self.run, task.partitionId(), iterator)

    def commit(self, messages: Sequence[Sent | Held | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        _tell(self.options, f"micro-batch {batchId}", _complete(self.options, messages))

    def abort(self, messages: Sequence[Sent | Held | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803
        _tell_failed(self.options, f"micro-batch {batchId}", messages)


def _write(options: WriteOptions, write_id: str, run: str, number: int, batches: Iterator[pa.RecordBatch]) -> Sent | Held:
    """Runs in a task."""
    if options.atomic:
        return hold(write_id, run, number, batches)
    return send_partition(options, Partition(write_id, run, number), batches)


def _complete(options: WriteOptions, messages: Sequence[Sent | Held | None]) -> list[Sent]:
    """Runs in the driver, when each task has ended: sends what tasks have not, and completes the write.

    Spark calls it on another object than the tasks have copies of; their messages say which run of which write they were.
    """
    held = [message for message in messages if isinstance(message, Held)]
    sent = [message for message in messages if isinstance(message, Sent)]
    if held:
        return send_write(options, held[0].write_id, held[0].run, held_partitions(held))
    if sent:
        complete_write(options, sent[0].write_id, sent[0].run, len(sent))
    return sent


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise SparkFailed("Spark did not say which task this is. Nothing was sent.")
    return task


def _tell(options: WriteOptions, what: str, done: Sequence[Sent]) -> None:
    emit(
        "frame_written",
        store=options.store,
        sender=options.sender,
        write=what,
        partitions=len(done),
        messages=sum(one.messages for one in done),
        sent_before=sum(one.messages for one in done if not one.sent_now),
    )


def _tell_failed(options: WriteOptions, what: str, messages: Sequence[Sent | Held | None]) -> None:
    """Partitions that were sent stay sent: the next run of the write sends the others. Of an atomic write none was."""
    done = [message for message in messages if isinstance(message, Sent)]
    emit(
        "frame_write_failed",
        store=options.store,
        sender=options.sender,
        write=what,
        sent_partitions=len(done),
        messages=sum(one.messages for one in done),
    )
