"""Rows of an atomic write: tasks hand them to the driver, which sends all of them in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import WriterCommitMessage

from relaybox.errors import SparkFailed

MAX_HELD_MIB = 256
"""Of all partitions of an atomic write: the driver has all of them in memory."""


@dataclass
class Held(WriterCommitMessage):
    """The rows of a partition, on their way to the driver.

    Attributes:
        write_id: names the write, in the store.
        run: a uuid.
        number: of the partition, from 0.
        rows: record batches as an IPC stream of Arrow.
    """

    write_id: str
    run: str
    number: int
    rows: bytes


def hold(write_id: str, run: str, number: int, batches: Iterable[pa.RecordBatch]) -> Held:
    """Runs in a task. Sends nothing.

    Raises:
        SparkFailed: the partition alone is larger than an atomic write may be.
    """
    sink, writer, size = pa.BufferOutputStream(), None, 0
    for batch in batches:
        size += batch.nbytes
        _require_size(size)
        if writer is None:
            writer = pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()
    return Held(write_id, run, number, sink.getvalue().to_pybytes())


def held_partitions(held: Sequence[Held]) -> list[Iterator[pa.RecordBatch]]:
    """Runs in the driver: the rows of each partition, in the order of partitions.

    Raises:
        SparkFailed: together they are larger than an atomic write may be.
    """
    _require_size(sum(len(one.rows) for one in held))
    return [_batches(one.rows) for one in sorted(held, key=lambda one: one.number)]


def _batches(rows: bytes) -> Iterator[pa.RecordBatch]:
    if rows:
        yield from pa.ipc.open_stream(rows)


def _require_size(size: int) -> None:
    if size > MAX_HELD_MIB << 20:
        raise SparkFailed(
            f"an atomic write has at most {MAX_HELD_MIB} MiB of rows: the driver holds them. Nothing was sent.",
            next_step="Leave out atomic and write one partition, coalesce(1): a partition is one transaction of any size.",
        )
