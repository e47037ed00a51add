"""The Iceberg table of an export: its position, its files, and the commit that moves both.

The position is in the summary of each snapshot of an export. pyiceberg answers a refused commit with another attempt, which appends
the same files after the snapshot that was in its way: a batch would be in the table twice. So a commit is sent to the catalog once,
with the requirement that the branch is still at the snapshot whose position was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.types import LongType
from pyiceberg.utils.config import Config
from sqlalchemy.exc import SQLAlchemyError

from relaybox.errors import LakeChanged, LakeFailed, LakeRefused
from relaybox.spark.lake.attempts import attempt_of
from relaybox.spark.lake.iceberg_files import FlushingFileIO, s3_properties
from relaybox.spark.lake.iceberg_schema import (
    ICEBERG_SCHEMA,
    POSITION_ID,
    describe_columns,
    describe_partitions,
    partition_record,
    partition_spec,
    partition_value,
)
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

_POSITION = "relaybox.last_stream_position"
_CATALOG_ERRORS = (OSError, SQLAlchemyError, RESTError)
_COMMIT_TRIES = 5
"""How often a commit is sent while others, such as a compaction, commit before it and leave the position as it was."""


class IcebergLakeTable:
    """A LakeTable of Iceberg, in the default catalog of pyiceberg; LakeTable says what each method guarantees."""

    splits_empty_keys = True
    hides_attempts = False

    def __init__(self, export: Export, store_id: str) -> None:
        self.export = export
        self.owner = {EXPORT: export.name, STREAM: export.stream, STORE_ID: store_id}
        self.name = export.table or ""
        self.location = f"file://{export.path}" if export.path.startswith("/") else export.path

    def read(self) -> TableState | None:
        table = self.load()
        return None if table is None else self._state(table)

    def create(self, first: int) -> TableState:
        require_empty_path(self, first, log="metadata")
        about = {**self.owner, FIRST: str(first), _POSITION: str(first - 1)}
        try:
            with self._errors("making the table"):
                self._catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
                self._catalog.create_table(
                    self.name,
                    ICEBERG_SCHEMA,
                    location=self.location,
                    partition_spec=partition_spec(self.export.partition_by),
                    properties={
                        **about,
                        "commit.manifest-merge.enabled": "true",
                        "schema.name-mapping.default": ICEBERG_SCHEMA.name_mapping.model_dump_json(),
                        "write.metadata.delete-after-commit.enabled": "true",
                        "comment": f"Stream {self.export.stream} of the Relaybox store {self.export.store.name}",
                    },
                )
        except TableAlreadyExistsError as error:
            raise superseded(self.export, first, self.read()) from error
        return require_created(self.export, self.read())

    def commit(self, attempt: Attempt, last: int, files: Sequence[WrittenFile]) -> TableState:
        for tries_left in reversed(range(_COMMIT_TRIES)):
            table = self.load()
            before = None if table is None else self._state(table)
            if table is None or before is None or before.position != attempt.position:
                raise superseded(self.export, attempt.position + 1, before)
            try:
                with self._errors("preparing a commit"):
                    append = self._stage(table, attempt, last, files)
                append.commit_once()
            except CommitFailedException as error:
                if tries_left and self._is_at(attempt.position):
                    continue
                return settle_commit(self, attempt, last, error)
            except _CATALOG_ERRORS as error:
                return settle_commit(self, attempt, last, error)
            break
        state = self.read()
        if state is None or state.position < last:
            raise superseded(self.export, attempt.position + 1, state)
        return state

    def committed_attempts(self, state: TableState) -> set[str]:
        table = self.load()
        named = {attempt for file in state.files if (attempt := attempt_of(file.path)) is not None}
        if table is None:
            return named
        with self._errors("reading its history"):
            snapshots = table.snapshots()
            named |= {attempt for snapshot in snapshots if (attempt := _property(snapshot, ATTEMPT)) is not None}
            # A snapshot that can be read may have files of snapshots that can't be any more.
            manifests = {manifest.manifest_path: manifest for snapshot in snapshots for manifest in snapshot.manifests(table.io)}
            for manifest in manifests.values():
                for entry in manifest.fetch_manifest_entry(table.io):
                    if (attempt := attempt_of(entry.data_file.file_path.removeprefix(f"{self.location}/"))) is not None:
                        named.add(attempt)
        return named

    def _is_at(self, position: int) -> bool:
        state = self.read()
        return state is not None and state.position == position

    def _stage(self, table: Table, attempt: Attempt, last: int, files: Sequence[WrittenFile]) -> _SingleCommit:
        append = _SingleCommit(table)
        about = {ATTEMPT: attempt.name, "relaybox.first": str(attempt.position + 1), _POSITION: str(last)}
        with append.update_snapshot(snapshot_properties=about).merge_append() as snapshot:
            for file in files:
                snapshot.append_data_file(self._data_file(table, file))
        append.set_properties({_POSITION: str(last)})
        return append

    def _data_file(self, table: Table, file: WrittenFile) -> DataFile:
        made = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self.location}/{file.path}",
            file_format=FileFormat.PARQUET,
            partition=partition_record(self.export.partition_by, file.partition),
            record_count=file.message_count,
            file_size_in_bytes=file.size_bytes,
            value_counts={POSITION_ID: file.message_count},
            null_value_counts={POSITION_ID: 0},
            lower_bounds={POSITION_ID: to_bytes(LongType(), file.first)},
            upper_bounds={POSITION_ID: to_bytes(LongType(), file.last)},
        )
        made.spec_id = table.spec().spec_id
        return made

    @cached_property
    def _catalog(self) -> Catalog:
        try:
            configuration = Config()
            name = configuration.get_default_catalog_name()
            properties = {str(key): str(value) for key, value in (configuration.get_catalog_config(name) or {}).items()}
            if self.export.path.startswith("/"):
                properties["py-io-impl"] = f"{FlushingFileIO.__module__}.{FlushingFileIO.__qualname__}"
            else:
                properties |= s3_properties(properties)
            with self._errors("reaching the catalog"):
                return load_catalog(name, **properties)
        except (ValueError, ImportError) as error:
            raise LakeRefused(
                f"{describe_table(self.export)}: pyiceberg has no usable catalog: {error}.",
                next_step="Configure the default catalog of pyiceberg, in .pyiceberg.yaml or by PYICEBERG_CATALOG__DEFAULT__URI.",
            ) from error

    def load(self) -> Table | None:
        catalog = self._catalog
        with self._errors("reading its metadata"):
            try:
                return catalog.load_table(self.name)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def _state(self, table: Table) -> TableState:
        properties = table.properties
        if any(properties.get(key) != value for key, value in self.owner.items()) or FIRST not in properties:
            owner = ", ".join(f"{name} {properties[key]}" for name, key in OWNER.items() if key in properties)
            raise LakeChanged(
                f"{describe_table(self.export)}: the table {self.name} is not of this export of store id {self.owner[STORE_ID]}, but "
                f"of {owner or 'others'}.",
                next_step="Give the export a table and a path of its own. After a store was made anew, or renamed, begin with new ones.",
            )
        if table.location() != self.location:
            raise LakeChanged(
                f"{describe_table(self.export)}: the table {self.name} lies at {table.location()}; expected {self.location}.",
                next_step="Correct path of the export in relaybox.yaml.",
            )
        self._require_schema(table)
        with self._errors("reading its manifests"):
            files = tuple(self._files(table))
        state = TableState(table.last_sequence_number, int(properties[FIRST]), _position(table), files)
        return require_count(self.export, state)

    def _require_schema(self, table: Table) -> None:
        found, expected = describe_columns(table.schema()), describe_columns(ICEBERG_SCHEMA)
        by = describe_partitions(table.spec(), table.schema())
        if found != expected or by != describe_partitions(partition_spec(self.export.partition_by), ICEBERG_SCHEMA):
            differences = [
                f"{name} is {found.get(name, 'missing')}, expected {expected.get(name, 'none')}"
                for name in sorted(found.keys() | expected.keys())
                if found.get(name) != expected.get(name)
            ]
            raise LakeChanged(
                f"{describe_table(self.export)}: the columns of the table differ from those of the export: "
                f"{', '.join(differences) or 'none by name'}. It is partitioned by {by}; relaybox.yaml says partition_by: "
                f"{self.export.partition_by}.",
                next_step="Set partition_by as it was, undo the change of the table, or begin with a new table and path.",
            )

    def _files(self, table: Table) -> Iterator[LakeFile]:
        snapshot = table.current_snapshot()
        for manifest in [] if snapshot is None else snapshot.manifests(table.io):
            self._require_data(manifest)
            for entry in manifest.fetch_manifest_entry(table.io):
                yield self._lake_file(entry.data_file)

    def _require_data(self, manifest: ManifestFile) -> None:
        if manifest.content != ManifestContent.DATA:
            raise LakeChanged(
                f"{describe_table(self.export)}: the table has files that delete rows. Others changed the table.",
                next_step="Roll back to the snapshot before that change, or begin with a new table and path.",
            )

    def _lake_file(self, file: DataFile) -> LakeFile:
        low, high = (_bound(bounds) for bounds in (file.lower_bounds, file.upper_bounds))
        if low is None or high is None or not file.file_path.startswith(f"{self.location}/"):
            what = "has no bounds of stream_position" if low is None or high is None else f"lies outside {self.location}"
            raise LakeChanged(
                f"{describe_table(self.export)}: file {file.file_path} {what}, unlike the files of an export. Others added it.",
                next_step="Roll back to the snapshot before that change, or begin with a new table and path.",
            )
        partition = partition_value(self.export.partition_by, file.partition)
        return LakeFile(file.file_path.removeprefix(f"{self.location}/"), file.record_count, low, high, partition)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (PermissionError, ForbiddenError, UnauthorizedError) as error:
            raise LakeRefused(
                f"{describe_table(self.export)}: while {doing}: {_line(error)}.",
                next_step="Let the login of Spark's driver use the catalog, and read and write the path of the export.",
            ) from error
        except _CATALOG_ERRORS as error:
            raise LakeFailed(
                f"{describe_table(self.export)}: while {doing}: {_line(error)}.",
                next_step="See that the driver of Spark reaches the catalog and the path, and may write there; then run the export again.",
            ) from error


class _SingleCommit(Transaction):
    """A transaction that is sent to the catalog once.

    commit_transaction() of pyiceberg 0.12 drops the requirement of the snapshot when it is refused, and appends again.
    """

    def commit_once(self) -> None:
        """Raises CommitFailedException if the branch is not at the snapshot that the transaction read."""
        requirements = (*self._requirements, AssertTableUUID(uuid=self.table_metadata.table_uuid))
        self._table.catalog.commit_table(self._table, requirements, self._updates)


def _position(table: Table) -> int:
    """Of the nearest snapshot that an export wrote: others may have compacted the table since.

    Without one, they let it expire after a compaction, or the table is empty: then the property of the table says it, which the same
    commits move.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if (position := _property(snapshot, _POSITION)) is not None:
            return int(position)
        snapshot = None if snapshot.parent_snapshot_id is None else table.snapshot_by_id(snapshot.parent_snapshot_id)
    return int(table.properties[_POSITION])


def _property(snapshot: Snapshot, key: str) -> str | None:
    return None if snapshot.summary is None else snapshot.summary.additional_properties.get(key)


def _bound(bounds: Mapping[int, bytes] | None) -> int | None:
    value = (bounds or {}).get(POSITION_ID)
    return None if value is None else int(from_bytes(LongType(), value))


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
