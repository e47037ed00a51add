"""The Delta table of an export: its position, its files, and the commit that moves both.

The position is an application transaction of Delta. Two commits that move it from the same version conflict, so the second fails.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from relaybox.errors import LakeChanged, LakeFailed, LakeRefused
from relaybox.spark.lake.attempts import attempt_of
from relaybox.spark.lake.columns import partition_columns, partition_text, table_schema
from relaybox.spark.lake.files import flush, flush_new_directory, open_lake
from relaybox.spark.lake.new_files import is_object_store, require_conditional_puts
from relaybox.spark.lake.table import (
    ATTEMPT,
    EXPORT,
    FIRST,
    OWNER,
    STORE_ID,
    STREAM,
    LakeFile,
    TableState,
    describe_table,
    require_count,
    require_created,
    require_empty_path,
    settle_commit,
    superseded,
)

if TYPE_CHECKING:
    from relaybox.routes import Export
    from relaybox.spark.lake.attempts import Attempt
    from relaybox.spark.lake.writing import WrittenFile

_UNSAFE = {"AWS_S3_ALLOW_UNSAFE_RENAME": {"true", "1", "yes", "on", "y", "t", "ok"}, "AWS_CONDITIONAL_PUT": {"disabled"}}


class DeltaLakeTable:
    """A LakeTable of Delta; LakeTable says what each method guarantees."""

    splits_empty_keys = False  # Delta has no empty text as a partition
    hides_attempts = False

    def __init__(self, export: Export, store_id: str) -> None:
        self.export = export
        self.store_id = store_id
        self.transaction = f"relaybox/{store_id}/{export.stream}/{export.name}"

    def read(self) -> TableState | None:
        table = self.load()
        return None if table is None else self._state(table)

    def create(self, first: int) -> TableState:
        require_empty_path(self, first, log="_delta_log")
        require_conditional_puts(f"{self.export.path}/_delta_log")
        about = {EXPORT: self.export.name, STORE_ID: self.store_id, STREAM: self.export.stream, FIRST: str(first)}
        with self._errors("making the table"):
            DeltaTable.create(
                self.export.path,
                Schema.from_arrow(table_schema(self.export.partition_by)),
                partition_by=partition_columns(self.export.partition_by),
                name=self.export.name,
                description=f"Stream {self.export.stream} of the Relaybox store {self.export.store.name}",
                configuration={"delta.appendOnly": "true", **about},
                raise_if_key_not_exists=False,
                commit_properties=self._properties(first - 1, {}),
            )
        self._flush(0)
        return require_created(self.export, self.read())

    def commit(self, attempt: Attempt, last: int, files: Sequence[WrittenFile]) -> TableState:
        table = self.load()
        before = None if table is None else self._state(table)
        if table is None or before is None or before.position != attempt.position:
            raise superseded(self.export, attempt.position + 1, before)
        schema = Schema.from_arrow(table_schema(self.export.partition_by))
        columns = partition_columns(self.export.partition_by)
        about = {ATTEMPT: attempt.name, "relaybox.first": attempt.position + 1, "relaybox.last": last}
        try:
            table.create_write_transaction(
                [_add_action(file, columns) for file in files],
                "append",
                schema,
                columns,
                commit_properties=self._properties(last, about),
            )
        except (DeltaError, OSError) as error:
            state = settle_commit(self, attempt, last, error)
        else:
            state = self._require(last, attempt)
        self._flush(state.version)
        return state

    def committed_attempts(self, state: TableState) -> set[str]:
        table = self.load()
        with self._errors("reading its history"):
            history = [] if table is None else table.history()
        named = {commit[ATTEMPT] for commit in history if ATTEMPT in commit}
        return named | {attempt for file in state.files if (attempt := attempt_of(file.path)) is not None}

    def _require(self, last: int, attempt: Attempt) -> TableState:
        state = self.read()
        if state is None or state.position < last:
            raise superseded(self.export, attempt.position + 1, state)
        return state

    def load(self) -> DeltaTable | None:
        _require_safe_commits(self.export)
        with self._errors("reading its log"):
            try:
                return DeltaTable(self.export.path)
            except TableNotFoundError:
                open_lake(self.export.path)
                return None

    def _state(self, table: DeltaTable) -> TableState:
        with self._errors("reading its log"):
            position = table.transaction_version(self.transaction)
            configuration = table.metadata().configuration
        if position is None or FIRST not in configuration:
            owner = ", ".join(f"{name} {configuration[key]}" for name, key in OWNER.items() if key in configuration)
            raise LakeChanged(
                f"{self._where}: the table is not of this export of store id {self.store_id}, but of {owner or 'others'}.",
                next_step="Give the export a path of its own. After a store was made anew, or renamed, begin with a new path.",
            )
        self._require_schema(table)
        state = TableState(table.version(), int(configuration[FIRST]), position, tuple(self._files(table)))
        return require_count(self.export, state)

    def _require_schema(self, table: DeltaTable) -> None:
        expected = Schema.from_arrow(table_schema(self.export.partition_by))
        found, by = table.schema(), table.metadata().partition_columns
        if found != expected or by != partition_columns(self.export.partition_by):
            columns = {field.name: _column(field) for field in found.fields}
            wanted = {field.name: _column(field) for field in expected.fields}
            differences = [
                f"{name} is {columns.get(name, 'missing')}, expected {wanted.get(name, 'none')}"
                for name in sorted(columns.keys() | wanted.keys())
                if columns.get(name) != wanted.get(name)
            ]
            raise LakeChanged(
                f"{self._where}: the columns of the table differ from those of the export: {', '.join(differences) or 'none by name'}. It "
                f"is partitioned by {', '.join(by) or 'nothing'}; relaybox.yaml says partition_by: {self.export.partition_by}.",
                next_step="Set partition_by as it was, undo the change of the table, or begin with a new path.",
            )

    def _files(self, table: DeltaTable) -> Iterator[LakeFile]:
        with self._errors("reading its log"):
            actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        for action in actions:
            values = [action.get(name) for name in ("num_records", "min.stream_position", "max.stream_position")]
            if None in values:
                raise LakeChanged(
                    f"{self._where}: file {action['path']} has no statistics, as each file of an export has. Others added it.",
                    next_step="Restore the version before that change, or begin with a new path.",
                )
            partition = [action[f"partition.{name}"] for name in partition_columns(self.export.partition_by)]
            count, first, last = values
            yield LakeFile(unquote(action["path"]), count, first, last, partition_text(partition[0]) if partition else None)

    def _properties(self, position: int, about: Mapping[str, Any]) -> CommitProperties:
        return CommitProperties(custom_metadata=dict(about), app_transactions=[Transaction(self.transaction, position)])

    def _flush(self, version: int) -> None:
        """The log of this machine's disk: the acknowledgement that follows lets the store forget."""
        log = f"{self.export.path}/_delta_log"
        flush(f"{log}/{version:020}.json")
        flush_new_directory(log)

    @property
    def _where(self) -> str:
        return describe_table(self.export)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            raise LakeFailed(
                f"{self._where}: while {doing}: {' '.join(str(error).split())}.",
                next_step="See that the driver of Spark reaches the path, and may write there; then run the export again.",
            ) from error


def _require_safe_commits(export: Export) -> None:
    """Refuses settings of deltalake by which a commit replaces the one of another run."""
    if not is_object_store(export.path):
        return
    for name, values in _UNSAFE.items():
        for written in (name, name.lower()):
            if os.environ.get(written, "").lower() in values:
                raise LakeRefused(
                    f"{describe_table(export)}: {written} is {os.environ[written]}. Then two runs at once could both commit.",
                    next_step=f"Remove {written} from the environment of the driver of Spark.",
                )


def _column(field: Any) -> str:
    return f"{getattr(field.type, 'type', field.type)}{'' if field.nullable else ' not null'}"


def _add_action(file: WrittenFile, columns: Sequence[str]) -> AddAction:
    statistics = {
        "numRecords": file.message_count,
        "minValues": {"stream_position": file.first},
        "maxValues": {"stream_position": file.last},
        "nullCount": {"stream_position": 0},
    }
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=dict.fromkeys(columns, file.partition),
        modification_time=0,
        data_change=True,
        stats=json.dumps(statistics),
    )
