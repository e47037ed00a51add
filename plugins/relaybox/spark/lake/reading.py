"""Reads files of a table in tasks of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from relaybox.errors import LakeChanged, SparkFailed
from relaybox.spark.failures import SPARK_ERRORS, failure_line
from relaybox.spark.lake.files import open_lake
from relaybox.spark.tasks import run_tasks

if TYPE_CHECKING:
    from relaybox.routes import Export
    from relaybox.spark.lake.table import LakeFile
    from relaybox.spark.tasks import TaskSession

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_reading(export: Export, session: TaskSession, items: Sequence[Item], task: Callable[[Item], Result]) -> list[Result]:
    """The results of a task for each item, in their order.

    Raises:
        SparkFailed, and what the task raises.
    """
    try:
        return list(run_tasks(session, f"relaybox verify-lake {export.name}", items, task))
    except SPARK_ERRORS as error:
        raise SparkFailed(f"export {export.name}: Spark failed while it compared: {failure_line(error).rstrip('.')}.") from error


def read_file(
    path: str, version: int, file: LakeFile, columns: Sequence[str], within: list[tuple[str, str, int]] | None = None
) -> pa.Table:
    """Columns of a file, of all rows or of those within a range. Runs in a task.

    Raises:
        LakeChanged: the file is gone.
        OSError: it can't be read.
    """
    system, inner = open_lake(path)
    try:
        return pq.read_table(f"{inner}/{file.path}", columns=list(columns), filesystem=system, filters=within, partitioning=None)
    except FileNotFoundError as error:
        raise LakeChanged(
            f"lake {path}: file {file.path} of version {version} is gone, with {file.message_count} messages, stream positions "
            f"{file.first} to {file.last}.",
            next_step="Restore the file, or export into a new path.",
        ) from error
    except pa.ArrowInvalid as error:
        raise LakeChanged(
            f"lake {path}: file {file.path} of version {version} is damaged, with {file.message_count} messages, stream positions "
            f"{file.first} to {file.last}: {error}.",
            next_step="Restore the file, or export into a new path.",
        ) from error
