"""Runs in a Spark task: writes a range of a stream into Parquet files of an attempt."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from relaybox.errors import ContentDiffers, LakeRefused
from relaybox.failpoints import reach
from relaybox.spark.frames.batch_reader import read_partition
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.options import ReadOptions
from relaybox.spark.frames.ranges import StreamPartition
from relaybox.spark.lake.columns import MESSAGE_SCHEMA, split_by_partition
from relaybox.spark.lake.files import flush, flush_new_directory, lake_errors, open_lake

GROUP_BYTES = 64 << 20
"""Messages that a task holds before it writes them, one row group for each open file."""
MAX_PARTITIONS = 1_000
"""Files that a task may have open."""


@dataclass(frozen=True)
class Writing:
    """What a task needs, beside its range.

    Attributes:
        store: the libpq service.
        stream: its name.
        path: of the table.
        attempt: the name of its directory.
        partition_by: as in relaybox.yaml.
        splits_empty_keys: as LakeTable says.
    """

    store: str
    stream: str
    path: str
    attempt: str
    partition_by: str
    splits_empty_keys: bool


@dataclass(frozen=True)
class WrittenFile:
    """A complete file, durable where it lies.

    Attributes:
        path: in the table.
        partition: the value that partitions the table: a day as 2026-07-01, or a key; None: null, or not partitioned.
        first, last: its lowest and its highest stream position. Others between may be in other files.
    """

    path: str
    partition: str | None
    size_bytes: int
    message_count: int
    first: int
    last: int


def write_range(writing: Writing, messages: StreamPartition) -> list[WrittenFile]:
    """Reads the range from the store and writes it: one file, or one for each value that partitions the table.

    Two tasks with the same range write different files; the driver commits those of the one that it hears of.

    Raises:
        NoLongerKept, Detached, HistoryLost, TopicNotGranted, Transient, Terminal: the store refuses the range, or failed.
        ContentDiffers: the store gave fewer or more messages than the range has stream positions.
        LakeFailed: the lake can't be written; LakeRefused: a message does not fit.
    """
    directory = f"{writing.path}/{writing.attempt}"
    options = ReadOptions(writing.store, writing.stream)
    files = _OpenFiles(writing, f"{messages.first:019}-{uuid.uuid4().hex}")
    with lake_errors(directory, f"writing stream positions {messages.first} to {messages.last}"):
        system, inner = open_lake(directory)
        system.create_dir(inner, recursive=True)
        reach("lake.opened", None)
        try:
            for batch in read_partition(options, messages, columns=SCHEMA):
                files.add(batch)
            written = files.finish()
        finally:
            files.close()
    count, expected = sum(file.message_count for file in written), messages.last - messages.first + 1
    if count != expected:
        raise ContentDiffers(
            f"store {writing.store}, stream {writing.stream}: stream positions {messages.first} to {messages.last} gave {count} messages, "
            f"expected {expected}. Nothing is committed.",
            next_step="Run relaybox verify: it names the messages that are missing or doubled.",
        )
    flush(*(f"{writing.path}/{file.path}" for file in written))
    flush_new_directory(directory)
    reach("lake.written", None)
    return written


@dataclass
class _OpenFile:
    path: str
    sink: Any
    writer: Any
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    message_count: int = 0
    first: int = 0
    last: int = 0


class _OpenFiles:
    """The files of a task, by the value that partitions the table."""

    def __init__(self, writing: Writing, name: str) -> None:
        self.writing = writing
        self.name = name
        self.system, self.root = open_lake(writing.path)
        self.files: dict[str | None, _OpenFile] = {}
        self.waiting_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        parts = split_by_partition(batch, self.writing.partition_by, splits_empty_keys=self.writing.splits_empty_keys)
        for value, messages in parts:
            file = self.files.get(value) or self._open(value)
            positions = messages.column("stream_position")
            file.first = file.first or positions[0].as_py()
            file.last = positions[-1].as_py()
            file.message_count += messages.num_rows
            file.waiting.append(messages)
        self.waiting_bytes += batch.nbytes
        if self.waiting_bytes >= GROUP_BYTES:
            self._write()

    def finish(self) -> list[WrittenFile]:
        self._write()
        self.close()
        return list(self._written())

    def close(self) -> None:
        for file in self.files.values():
            file.writer.close()
            file.sink.close()

    def _written(self) -> Iterator[WrittenFile]:
        for value, file in self.files.items():
            size = self.system.get_file_info(f"{self.root}/{file.path}").size
            yield WrittenFile(file.path, value, size, file.message_count, file.first, file.last)

    def _open(self, value: str | None) -> _OpenFile:
        if len(self.files) == MAX_PARTITIONS:
            raise LakeRefused(
                f"lake {self.writing.path}: more than {MAX_PARTITIONS} values of partition_by: {self.writing.partition_by} among the "
                "messages of one task. So many small files slow every reader down.",
                next_step="Export with partition_by: day or none into another path, or lower file_messages.",
            )
        path = f"{self.writing.attempt}/{self.name}-{len(self.files):05}.parquet"
        sink = self.system.open_output_stream(f"{self.root}/{path}")
        file = _OpenFile(path, sink, pq.ParquetWriter(sink, MESSAGE_SCHEMA, compression="zstd"))
        self.files[value] = file
        return file

    def _write(self) -> None:
        for file in self.files.values():
            if file.waiting:
                file.writer.write_table(pa.Table.from_batches(file.waiting, MESSAGE_SCHEMA))
                file.waiting = []
        self.waiting_bytes = 0
