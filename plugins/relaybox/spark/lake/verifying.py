"""Proves that a table has the messages of its stream: each range is read from both, in one Spark task, and compared row by row."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from relaybox.errors import LakeChanged
from relaybox.spark.frames.batch_reader import read_partition
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.options import ReadOptions
from relaybox.spark.frames.ranges import StreamPartition, cut_range, pin_range
from relaybox.spark.lake.checking import require_files
from relaybox.spark.lake.columns import MESSAGE_SCHEMA
from relaybox.spark.lake.files import lake_errors
from relaybox.spark.lake.formats import open_table
from relaybox.spark.lake.reading import read_file, run_reading

if TYPE_CHECKING:
    from relaybox.routes import Export
    from relaybox.spark.lake.table import TableState
    from relaybox.spark.tasks import TaskSession

_POSITION = "stream_position"


@dataclass(frozen=True)
class RangeComparison:
    """A range of stream positions, both ends included, in the stream and in the table.

    Attributes:
        stream_count, lake_count: messages of the range. stream_count is None where the store does not keep the range any more.
        stream_digest, lake_digest: SHA-256 of all columns of these, in the order of the stream.
        first_difference: the first stream position that is missing, doubled or different; None: none.
    """

    first: int
    last: int
    stream_count: int | None
    lake_count: int
    stream_digest: str | None
    lake_digest: str
    first_difference: int | None


@dataclass(frozen=True)
class LakeVerification:
    """What a verification of an export found.

    Attributes:
        version: of the table.
        first_stream_position, last_stream_position: that the table has; none if last is below first.
        compared_from: the first stream position that the store still keeps: from there on rows are compared, before it only counted.
        ranges: in their order.
    """

    export: str
    path: str
    version: int
    first_stream_position: int
    last_stream_position: int
    compared_from: int
    ranges: list[RangeComparison]

    @property
    def differences(self) -> list[RangeComparison]:
        return [compared for compared in self.ranges if compared.first_difference is not None]

    @property
    def is_equal(self) -> bool:
        return not self.differences

    @property
    def compared_count(self) -> int:
        return sum(compared.stream_count or 0 for compared in self.ranges)


def verify_lake(export: Export, session: TaskSession) -> LakeVerification:
    """Compares the newest version of the table with the stream. Changes nothing.

    Raises:
        LakeChanged: there is no table, it is not this export's, or it says itself that it was changed.
        LakeFailed, LakeRefused, SparkFailed, NoLongerKept, Transient, Terminal: the lake, Spark or the store failed.
    """
    kept = pin_range(export.store.service, export.stream, "earliest", None)
    table = open_table(export, kept.store_id)
    state = table.read()
    if state is None:
        raise LakeChanged(
            f"export {export.name}: there is no table at {export.path}.", next_step=f"Run relaybox export {export.name} first."
        )
    require_files(export, session, state, splits_empty_keys=table.splits_empty_keys)
    compared = compare_ranges(export, session, state, state.first)
    compared_from = next((part.first for part in compared if part.stream_count is not None), state.position + 1)
    return LakeVerification(export.name, export.path, state.version, state.first, state.position, compared_from, compared)


def compare_ranges(export: Export, session: TaskSession, state: TableState, first: int) -> list[RangeComparison]:
    """Compares the messages of a table from a stream position on with those of the stream. Ranges that the store keeps no more it counts.

    Raises: as verify_lake().
    """
    kept = pin_range(export.store.service, export.stream, "earliest", None)
    compared_from = max(first, min(kept.first_stream_position, state.position + 1))
    ranges = [
        *cut_range(kept.store_id, first, compared_from - 1, export.file_messages),
        *cut_range(kept.store_id, compared_from, state.position, export.file_messages),
    ]
    compare = partial(_compare, _Comparing(export.store.service, export.stream, export.path, compared_from, state))
    return run_reading(export, session, ranges, compare)


@dataclass(frozen=True)
class _Comparing:
    store: str
    stream: str
    path: str
    compared_from: int
    state: TableState


def _compare(comparing: _Comparing, part: StreamPartition) -> RangeComparison:
    """Runs in a Spark task, which holds the range of both."""
    lake = _read_lake(comparing, part)
    if part.first < comparing.compared_from:
        expected = pa.table({_POSITION: pa.array(range(part.first, part.last + 1), pa.int64())})
        difference = _first_difference(expected, lake.select([_POSITION]))
        return RangeComparison(part.first, part.last, None, lake.num_rows, None, _digest(lake), difference)
    batches = read_partition(ReadOptions(comparing.store, comparing.stream), part, columns=SCHEMA)
    stream = pa.Table.from_batches(batches, MESSAGE_SCHEMA).sort_by(_POSITION)
    difference = _first_difference(stream, lake)
    return RangeComparison(part.first, part.last, stream.num_rows, lake.num_rows, _digest(stream), _digest(lake), difference)


def _read_lake(comparing: _Comparing, part: StreamPartition) -> pa.Table:
    """The rows of a range, from the files of the version that have any of it."""
    within = [(_POSITION, ">=", part.first), (_POSITION, "<=", part.last)]
    tables = [MESSAGE_SCHEMA.empty_table()]
    with lake_errors(comparing.path, f"reading stream positions {part.first} to {part.last}"):
        for file in comparing.state.files:
            if file.first <= part.last and file.last >= part.first:
                found = read_file(comparing.path, comparing.state.version, file, MESSAGE_SCHEMA.names, within)
                tables.append(found.cast(MESSAGE_SCHEMA))
    return pa.concat_tables(tables).sort_by(_POSITION)


def _first_difference(expected: pa.Table, found: pa.Table) -> int | None:
    """The first stream position at which two tables in the order of the stream differ; None: they are equal."""
    if expected.equals(found):
        return None
    rows = zip_longest(expected.to_pylist(), found.to_pylist(), fillvalue=None)
    for one, other in rows:
        if one != other:
            return min(int(row[_POSITION]) for row in (one, other) if row is not None)
    return None


def _digest(messages: pa.Table) -> str:
    """SHA-256 of the rows: of one record batch in Arrow's format for files, whose buffers are packed anew."""
    rows = messages.take(pa.array(range(messages.num_rows), pa.int64())).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, messages.schema) as writer:
        writer.write_table(rows)
    return hashlib.sha256(sink.getvalue()).hexdigest()
