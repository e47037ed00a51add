"""A folder of Parquet files as the table of an export: what its manifests name is in it, and nothing else.

A commit creates the next manifest, if there is none of its number. So of two runs at the same position one commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.errors import LakeChanged, LakeFailed, LakeRefused
from relaybox.spark.lake.attempts import attempt_of
from relaybox.spark.lake.columns import MESSAGE_SCHEMA
from relaybox.spark.lake.files import flush_new_directory, list_files, open_lake, remove_files
from relaybox.spark.lake.new_files import TEMPORARY, create_file, require_conditional_puts
from relaybox.spark.lake.parquet_manifest import (
    DIRECTORY,
    Manifest,
    ManifestFile,
    decode_manifest,
    encode_manifest,
    find_missing,
    find_versions,
    manifest_name,
)
from relaybox.spark.lake.table import (
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

COLUMNS = {field.name: str(field.type) for field in MESSAGE_SCHEMA}
_READERS = 16
"""Manifests that are read at the same time."""


class ParquetLakeTable:
    """A LakeTable of Parquet files with manifests; LakeTable says what each method guarantees."""

    splits_empty_keys = True
    hides_attempts = True

    def __init__(self, export: Export, store_id: str) -> None:
        self.export = export
        self.store_id = store_id
        self.directory = f"{export.path.rstrip('/')}/{DIRECTORY}"
        self._known: dict[int, Manifest] = {}

    def read(self) -> TableState | None:
        manifests = self.load()
        return None if manifests is None else self._state(manifests)

    def create(self, first: int) -> TableState:
        require_empty_path(self, first, log=DIRECTORY)
        require_conditional_puts(self.directory)
        if not create_file(self._path(0), encode_manifest(self._manifest(0, first, first - 1))):
            state = self.read()
            if state is None or state.version or state.first != first:
                raise superseded(self.export, first, state)
        return require_created(self.export, self.read())

    def commit(self, attempt: Attempt, last: int, files: Sequence[WrittenFile]) -> TableState:
        manifests = self.load()
        before = None if manifests is None else self._state(manifests)
        if before is None or before.position != attempt.position:
            raise superseded(self.export, attempt.position + 1, before)
        manifest = self._manifest(before.version + 1, attempt.position + 1, last, attempt.name, files)
        try:
            if not create_file(self._path(manifest.version), encode_manifest(manifest)):
                return settle_commit(self, attempt, last, FileExistsError(f"manifest {manifest.version} is there already"))
        except (LakeFailed, LakeRefused) as error:
            return settle_commit(self, attempt, last, error)
        state = self.read()
        if state is None or state.position < last:
            raise superseded(self.export, attempt.position + 1, state)
        self._remove_temporary_files(state.version)
        return state

    def committed_attempts(self, state: TableState) -> set[str]:
        return {attempt for file in state.files if (attempt := attempt_of(file.path)) is not None}

    def load(self) -> tuple[Manifest, ...] | None:
        """All manifests, from version 0 on; None if there is none."""
        versions = self._list_versions()
        if not versions:
            return None
        flush_new_directory(self.directory)  # what a run acknowledges is durable, also if a killed run has committed it
        unknown = [version for version in versions if version not in self._known]
        with ThreadPoolExecutor(_READERS) as readers:
            self._known.update(zip(unknown, readers.map(self._read_manifest, unknown), strict=True))
        return tuple(self._known[version] for version in versions)

    def _list_versions(self) -> list[int]:
        with self._errors("listing its manifests"):
            versions = find_versions(list_files(self.directory))
            if find_missing(versions) is not None:  # a list that was read while two were created may have the later one alone
                versions = find_versions(list_files(self.directory))
        if (missing := find_missing(versions)) is not None:
            raise LakeChanged(
                f"{describe_table(self.export)}: manifest {DIRECTORY}/{manifest_name(missing)} is gone; the newest version is "
                f"{versions[-1]}. The files of version {missing} can't be told from those of dead attempts.",
                next_step="Restore the manifest, or begin with a new path.",
            )
        return versions

    def _read_manifest(self, version: int) -> Manifest:
        name = f"{DIRECTORY}/{manifest_name(version)}"
        try:
            with self._errors(f"reading manifest {name}"):
                system, inner = open_lake(self._path(version))
                with system.open_input_stream(inner) as stream:
                    content = stream.readall()
            manifest = decode_manifest(content)
        except ValueError as error:
            raise LakeChanged(
                f"{describe_table(self.export)}: manifest {name} is damaged: {error}.",
                next_step="Restore the manifest, or begin with a new path.",
            ) from error
        self._require_own(manifest, name)
        if manifest.version != version:
            raise LakeChanged(
                f"{describe_table(self.export)}: manifest {name} is that of version {manifest.version}. Others renamed or copied it.",
                next_step="Restore the manifest, or begin with a new path.",
            )
        return manifest

    def _require_own(self, manifest: Manifest, name: str) -> None:
        if (manifest.export, manifest.stream, manifest.store_id) != (self.export.name, self.export.stream, self.store_id):
            raise LakeChanged(
                f"{describe_table(self.export)}: the table is not of this export of store id {self.store_id}, but of export "
                f"{manifest.export}, stream {manifest.stream}, store id {manifest.store_id} (manifest {name}).",
                next_step="Give the export a path of its own. After a store was made anew, or renamed, begin with a new path.",
            )
        if manifest.partition_by != self.export.partition_by or manifest.columns != COLUMNS:
            differences = [
                f"{column} is {manifest.columns.get(column, 'missing')}, expected {COLUMNS.get(column, 'none')}"
                for column in sorted(manifest.columns.keys() | COLUMNS.keys())
                if manifest.columns.get(column) != COLUMNS.get(column)
            ]
            raise LakeChanged(
                f"{describe_table(self.export)}: the columns of the table differ from those of the export: "
                f"{', '.join(differences) or 'none by name'}. It is partitioned by {manifest.partition_by}; relaybox.yaml says "
                f"partition_by: {self.export.partition_by} (manifest {name}).",
                next_step="Set partition_by as it was, or begin with a new path.",
            )

    def _state(self, manifests: Sequence[Manifest]) -> TableState:
        position = manifests[0].first - 1
        for manifest in manifests:
            if manifest.first != position + 1:
                raise LakeChanged(
                    f"{describe_table(self.export)}: manifest {DIRECTORY}/{manifest_name(manifest.version)} begins at stream position "
                    f"{manifest.first}; expected {position + 1}, after the one before. Others changed the table.",
                    next_step="Restore the manifests, or begin with a new path.",
                )
            position = manifest.last
        files = tuple(
            LakeFile(file.path, file.messages, file.first, file.last, file.partition)
            for manifest in manifests
            for file in manifest.files
        )
        return require_count(self.export, TableState(manifests[-1].version, manifests[0].first, position, files))

    def _manifest(
        self, version: int, first: int, last: int, attempt: str | None = None, files: Sequence[WrittenFile] = ()
    ) -> Manifest:
        return Manifest(
            version=version,
            export=self.export.name,
            stream=self.export.stream,
            store_id=self.store_id,
            first=first,
            last=last,
            partition_by=self.export.partition_by,
            columns=COLUMNS,
            attempt=attempt,
            files=[
                ManifestFile(
                    path=file.path,
                    bytes=file.size_bytes,
                    messages=file.message_count,
                    first=file.first,
                    last=file.last,
                    partition=file.partition,
                )
                for file in files
            ],
        )

    def _path(self, version: int) -> str:
        return f"{self.directory}/{manifest_name(version)}"

    def _remove_temporary_files(self, version: int) -> None:
        """Those of killed runs: the name that each was about to create is taken."""
        with self._errors("removing temporary files"):
            left = [name for name in list_files(self.directory) if name.endswith(TEMPORARY) and name < manifest_name(version)]
            remove_files(self.directory, left)

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = LakeRefused if isinstance(error, PermissionError) else LakeFailed
            raise kind(
                f"{describe_table(self.export)}: while {doing}: {' '.join(str(error).split()).rstrip('.')}.",
                next_step="See that the driver of Spark reaches the path, and may read and write there; then run the export again.",
            ) from error
