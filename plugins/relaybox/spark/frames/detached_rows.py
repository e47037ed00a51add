"""Rows of a detached segment out of its Parquet files, by log position.

The store says which files there are. A file must have the size and the rows that it had when it was verified, and each page that is
read must have its checksum. `relaybox attach` compares every bit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import fs

from relaybox.errors import ConfigurationError, ContentDiffers, FilesFailed
from relaybox.retention.segment_archive import DetachedFile

LOG_POSITION = "log_position"
_OLD_POSITION = "position"
"""Its name in files of versions before 0.1.0."""
_BATCH_ROWS = 5_000
_BUFFER_BYTES = 1 << 20
"""Of each column that is read: a row group is never whole in memory."""


@dataclass(frozen=True)
class DetachedSegmentFiles:
    """What the store says of a directory.

    Attributes:
        store: the libpq service.
        hop: whose log it is of.
        directory: a path or URI.
        row_count: of the segment.
        files: in the order of their log positions; None: an earlier version wrote them, and the store does not know their names.
    """

    store: str
    hop: str
    directory: str
    row_count: int
    files: Sequence[DetachedFile] | None

    @property
    def next_step(self) -> str:
        """What to do about files that are not as they should be."""
        return (
            "Every executor of Spark must reach the files. If they were changed, restore them from a backup. "
            f"This compares all of them and brings the messages back: relaybox attach {self.store} {self.hop}"
        )


class DetachedRows:
    """Reads forward through the files of one segment; a position before those of the last call begins anew at its row group.

    Args:
        segment: of the store.
        columns: names of columns of a log that are read beside the log position.
    """

    def __init__(self, segment: DetachedSegmentFiles, columns: Collection[str]) -> None:
        self.segment = segment
        self._columns = columns
        self._files: Sequence[DetachedFile] | None = None
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._held: list[pa.RecordBatch] = []
        self._open = ExitStack()
        with _file_errors(segment):
            self._system, self._path = _file_system(segment.directory)

    def close(self) -> None:
        """Closes the file that is open."""
        self._open.close()

    def take(self, positions: Any) -> pa.Table:
        """The rows at log positions, in their order.

        Args:
            positions: an array of int64, ascending.

        Raises:
            FileNotFoundError: a file is gone.
            FilesFailed: the files can't be read.
            ContentDiffers: they are not what was detached.
            ConfigurationError: pyarrow has no file system for the directory.
        """
        first, last = int(positions[0]), int(positions[-1])
        with _file_errors(self.segment):
            if not self._held or _first(self._held[0]) > first:
                self._begin(first)
            self._held = [batch for batch in self._held if _last(batch) >= first]
            while not self._held or _last(self._held[-1]) < last:
                batch = next(self._batches, None)
                if batch is None:
                    break
                if batch.num_rows and _last(batch) >= first:
                    self._held.append(batch)
        found = pa.Table.from_batches(self._held) if self._held else None
        have = np.concatenate([_positions(batch) for batch in self._held] or [np.empty(0, "i8")])
        at = np.searchsorted(have, positions)
        if found is None or at[-1] >= len(have) or not np.array_equal(have[at], positions):
            raise ContentDiffers(
                f"store {self.segment.store}, hop {self.segment.hop}: the files in {self.segment.directory} do not have each of "
                f"the log positions {first} to {last}.",
                next_step=self.segment.next_step,
            )
        return found.take(pa.array(at))

    def _begin(self, first: int) -> None:
        self._held = []
        if self._files is None:
            self._files = self.segment.files if self.segment.files is not None else self._list()
        self._batches = self._read(self._files, first)

    def _list(self) -> list[DetachedFile]:
        """The files of a segment that an earlier version detached: their footers have what the ledger has not."""
        found = self._system.get_file_info(fs.FileSelector(self._path))
        names = [entry for entry in found if entry.base_name.endswith(".parquet") and not entry.base_name.startswith((".", "_"))]
        files = []
        for entry in names:
            with closing(pq.ParquetFile(self._system.open_input_file(entry.path))) as file:
                groups = [_bounds(file, number) for number in range(file.num_row_groups)]
                if groups:
                    lowest, highest = min(low for low, _ in groups), max(high for _, high in groups)
                    files.append(DetachedFile(entry.base_name, entry.size, file.metadata.num_rows, lowest, highest))
        if (row_count := sum(file.row_count for file in files)) != self.segment.row_count:
            raise ContentDiffers(
                f"store {self.segment.store}, hop {self.segment.hop}: {self.segment.directory} has {len(files)} files with "
                f"{row_count} rows, the store detached {self.segment.row_count}.",
                next_step=self.segment.next_step,
            )
        return sorted(files, key=lambda file: file.first)

    def _read(self, files: Sequence[DetachedFile], first: int) -> Iterator[pa.RecordBatch]:
        """Batches of ascending log positions, from the row group of the first position on."""
        for expected in files:
            if expected.last < first:
                continue
            path = f"{self._path}/{expected.name}"
            size = self._system.get_file_info(path).size
            if size is None:
                raise FileNotFoundError(f"{expected.name} is not there")
            self._require(expected, "bytes", size, expected.size_bytes)
            self._open.close()
            source = self._open.enter_context(self._system.open_input_file(path))
            file = pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
            self._require(expected, "rows", file.metadata.num_rows, expected.row_count)
            groups = [number for number in range(file.num_row_groups) if _bounds(file, number)[1] >= first]
            read = [name for name in file.schema_arrow.names if name in self._columns or name in (LOG_POSITION, _OLD_POSITION)]
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=groups, columns=read):
                names = [LOG_POSITION if name == _OLD_POSITION else name for name in batch.schema.names]
                yield pa.RecordBatch.from_arrays(batch.columns, names=names)

    def _require(self, file: DetachedFile, unit: str, found: int, expected: int) -> None:
        if found != expected:
            raise ContentDiffers(
                f"store {self.segment.store}, hop {self.segment.hop}: file {file.name} in {self.segment.directory} has {found} "
                f"{unit}, it had {expected} when it was verified.",
                next_step=self.segment.next_step,
            )


def _file_system(directory: str) -> tuple[fs.FileSystem, str]:
    uri = re.sub("^s3[an]://", "s3://", directory)
    try:
        return fs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    except ValueError as error:  # pyarrow's ArrowInvalid is one
        raise ConfigurationError(
            f"the files in {directory} can't be read into a DataFrame: {error}.",
            next_step="DataFrames read detached messages from a path, from S3, and from what else pyarrow has a file system for. "
            "Bring them back into the store: relaybox attach STORE HOP",
        ) from error


def gone(segment: DetachedSegmentFiles, error: FileNotFoundError) -> FilesFailed:
    """The error of files that the store counts on."""
    where = f"store {segment.store}, hop {segment.hop}: the files in {segment.directory}"
    return FilesFailed(f"{where} are not all there: {error}.", next_step=segment.next_step)


@contextmanager
def _file_errors(segment: DetachedSegmentFiles) -> Iterator[None]:
    """Turns what pyarrow raises into ours, but for a file that is gone."""
    where = f"store {segment.store}, hop {segment.hop}: the files in {segment.directory}"
    try:
        yield
    except FileNotFoundError:
        raise
    except pa.ArrowInvalid as error:
        raise ContentDiffers(f"{where} are damaged: {error}.", next_step=segment.next_step) from error
    except OSError as error:  # a page without its checksum is one too
        kind = ContentDiffers if "checksum" in str(error).lower() or "CRC" in str(error) else FilesFailed
        raise kind(f"{where} can't be read: {error}.", next_step=segment.next_step) from error


def _bounds(file: pq.ParquetFile, group: int) -> tuple[int, int]:
    """Lowest and highest log position of a row group, by its statistics."""
    found = file.metadata.row_group(group)
    for number in range(found.num_columns):
        column = found.column(number)
        if (
            column.path_in_schema in (LOG_POSITION, _OLD_POSITION)
            and column.statistics is not None
            and column.statistics.has_min_max
        ):
            return int(column.statistics.min), int(column.statistics.max)
    return 0, 2**63 - 1


def _positions(batch: pa.RecordBatch) -> Any:
    return batch.column(batch.schema.get_field_index(LOG_POSITION)).to_numpy()


def _first(batch: pa.RecordBatch) -> int:
    return int(_positions(batch)[0])


def _last(batch: pa.RecordBatch) -> int:
    return int(_positions(batch)[-1])
