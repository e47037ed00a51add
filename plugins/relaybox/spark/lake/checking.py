"""Proves that each file of a table has the rows that the table says of it.

Readers leave files out by what the table says of them. So a row that is not as the table says is in some results and not in others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc  # type: ignore[import-untyped]

from relaybox.errors import LakeChanged
from relaybox.spark.lake.columns import split_by_partition
from relaybox.spark.lake.files import lake_errors
from relaybox.spark.lake.reading import read_file, run_reading

if TYPE_CHECKING:
    import pyarrow as pa

    from relaybox.routes import Export
    from relaybox.spark.lake.table import LakeFile, TableState
    from relaybox.spark.tasks import TaskSession

_POSITION = "stream_position"
_PARTITIONED_BY = {"none": [], "day": ["sent_at"], "key": ["key"]}
_FILES_OF_A_TASK = 20
_SHOWN = 3


def require_files(export: Export, session: TaskSession, state: TableState, *, splits_empty_keys: bool) -> None:
    """Reads the stream positions of each file, and what partitions it, and compares them with what the table says.

    Raises:
        LakeChanged: a file is gone, or has other rows, or rows of another partition.
        LakeFailed, LakeRefused, SparkFailed: the lake or Spark failed.
    """
    chunks = [state.files[start : start + _FILES_OF_A_TASK] for start in range(0, len(state.files), _FILES_OF_A_TASK)]
    check = _Check(export.path, export.partition_by, splits_empty_keys, state.version)
    wrong = [told for found in run_reading(export, session, chunks, check) for told in found]
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more files" if len(wrong) > _SHOWN else ""
        raise LakeChanged(
            f"export {export.name}, table {export.path}: {'; '.join(wrong[:_SHOWN])}{more}. Others changed the table.",
            next_step="Restore the version before that change, or export into a new path.",
        )


@dataclass(frozen=True)
class _Check:
    path: str
    partition_by: str
    splits_empty_keys: bool
    version: int

    def __call__(self, files: Sequence[LakeFile]) -> list[str]:
        """Runs in a Spark task: what is wrong with each file that is not as the table says."""
        with lake_errors(self.path, "reading its files"):
            return [told for file in files if (told := self._wrong(file)) is not None]

    def _wrong(self, file: LakeFile) -> str | None:
        rows = read_file(self.path, self.version, file, [_POSITION, *_PARTITIONED_BY[self.partition_by]])
        positions = rows.column(_POSITION)
        count, first, last = rows.num_rows, pc.min(positions).as_py(), pc.max(positions).as_py()
        if (count, first, last) != (file.message_count, file.first, file.last):
            return (
                f"file {file.path} has {count} messages, stream positions {first} to {last}; version {self.version} says "
                f"{file.message_count}, {file.first} to {file.last}"
            )
        partitions = self._partitions(rows)
        if partitions != {file.partition}:
            found = ", ".join(sorted(map(str, partitions))[:_SHOWN])
            return f"file {file.path} has messages of partitions {found}; version {self.version} says {file.partition}"
        return None

    def _partitions(self, rows: pa.Table) -> set[str | None]:
        if self.partition_by == "none":
            return {None}
        batches = rows.combine_chunks().to_batches()
        return {
            value
            for batch in batches
            for value, _ in split_by_partition(batch, self.partition_by, splits_empty_keys=self.splits_empty_keys)
        }
