"""An export of the stream flights at the store hub into a table of each format, and what is in its versions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable
from pyarrow import fs
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from relaybox.routes import Export, load_routes
from relaybox.spark.lake.columns import MESSAGE_SCHEMA
from relaybox.spark.lake.exporting import Exported, export_stream
from relaybox.spark.lake.files import list_files, open_lake
from relaybox.spark.lake.iceberg_files import s3_properties
from tests.support.patience import patience
from tests.support.world import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE = "hub"
EXPORT = "flights_lake"
SUBSCRIPTION = f"export.{EXPORT}"
TABLE = "lake.flights"
CATALOG = "PYICEBERG_CATALOG__DEFAULT__URI"


_PAGE = Path(__file__).parents[2] / "docs" / "lake.md"


class InProcess:
    """Runs tasks in this process, one after the other, so that a child of a test has all steps of an export and no JVM."""

    application = "in-process"

    @property
    def dataframes(self) -> SparkSession:
        raise NotImplementedError

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        return [task(item) for item in items]

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        yield

    def remove_directory(self, directory: str) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Lake:
    """The stores of a test, and the table of its export. An Iceberg table is in the catalog that the environment names."""

    world: World
    path: str
    format: str = "delta"
    name: str = EXPORT

    @property
    def export(self) -> Export:
        return self.world.routes.export(self.name)

    def configure(self, **keys: object) -> None:
        """Writes relaybox.yaml with the export; stores need no init for that."""
        document = yaml.safe_load(self.world.path.read_text(encoding="utf-8"))
        given = {
            "stream": "flights",
            "store": STORE,
            "to": self.format,
            "path": self.path,
            "batch_messages": 10,
            "file_messages": 4,
        }
        if self.format == "iceberg":
            given["table"] = TABLE
        document["exports"] = {EXPORT: given | keys}
        self.world.path.write_text(yaml.safe_dump(document), encoding="utf-8")

    def run(self) -> Exported:
        return export_stream(self.export, InProcess())

    def is_killed_at_call(self, number: int) -> bool:
        """Runs in a process of its own, which gets SIGKILL before call number `number` for a file or directory of the table.

        Returns:
            Whether it came to that call.
        """
        command = [sys.executable, "-m", "tests.support.lake", str(self.world.path), str(number)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=patience(60), check=False)
        assert run.returncode in {0, -signal.SIGKILL}, run.stderr
        return run.returncode != 0

    def kill_at(self, step: str) -> None:
        """The same in a process of its own, since deltalake lives in no forked one; it gets SIGKILL where it first reaches the step."""
        with self._begun(f"{step}=kill") as run:
            _, errors = run.communicate(timeout=patience(60))
        assert run.returncode == -signal.SIGKILL, f"not killed at {step}: {errors}"

    @contextmanager
    def stopped_at(self, step: str) -> Iterator[list[str]]:
        """A run in a process of its own that stands still where it first reaches the step, and goes on when the block ends.

        Then the list has what it said about its failure, if it failed.
        """
        said: list[str] = []
        with self._begun(f"{step}=stop") as run:
            _, status = os.waitpid(run.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), f"not stopped at {step}"
            try:
                yield said
            finally:
                run.send_signal(signal.SIGCONT)
                said.append(run.communicate(timeout=patience(60))[1])

    def _begun(self, failpoints: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "RELAYBOX_FAILPOINTS": failpoints, "RELAYBOX_ENVIRONMENT": "test"}
        environment["RELAYBOX_FAILPOINTS_DIRECTORY"] = str(self.world.path.parent)
        command = [sys.executable, "-m", "tests.support.lake", str(self.world.path)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def iceberg(self) -> Table:
        properties = {} if self.path.startswith("/") else s3_properties({})
        return load_catalog("default", uri=os.environ[CATALOG], **properties).load_table(TABLE)

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        """Of a version, in the order of the stream, with the columns of a message."""
        table: pa.Table
        if self.format == "iceberg":
            iceberg = self.iceberg()
            numbers = {snapshot.sequence_number: snapshot.snapshot_id for snapshot in iceberg.snapshots()}
            if version == 0:
                return []
            table = iceberg.scan(snapshot_id=None if version is None else numbers[version]).to_arrow()
        elif self.format == "parquet":
            table = pa.concat_tables([MESSAGE_SCHEMA.empty_table(), *map(self._read_parquet, self.parquet_files(version))])
        else:
            table = DeltaTable(self.path, version=version).to_pyarrow_table()
        return table.sort_by("stream_position").to_pylist()

    def version(self) -> int:
        """The newest one, as the format counts."""
        if self.format == "parquet":
            return len(self._manifests()) - 1
        return self.iceberg().last_sequence_number if self.format == "iceberg" else DeltaTable(self.path).version()

    def manifests(self) -> list[Path]:
        """Of a Parquet table on a disk, in their order."""
        return sorted(Path(self.path, "_manifests").glob("*.json"))

    def _manifests(self) -> list[dict[str, Any]]:
        system, inner = open_lake(self.path)
        names = sorted(name for name in list_files(f"{self.path}/_manifests") if name.endswith(".json"))
        return [json.loads(system.open_input_stream(f"{inner}/_manifests/{name}").readall()) for name in names]

    def parquet_files(self, version: int | None = None) -> list[str]:
        """What the manifests of a version name, below the path of the table."""
        manifests = self._manifests()
        return [
            file["path"]
            for manifest in manifests
            if version is None or manifest["version"] <= version
            for file in manifest["files"]
        ]

    def _read_parquet(self, file: str) -> pa.Table:
        system, inner = open_lake(self.path)
        return pq.read_table(f"{inner}/{file}", filesystem=system, partitioning=None)

    def positions_of_versions(self) -> list[list[int]]:
        """The stream positions of each version, with repetitions if it had any."""
        return [[row["stream_position"] for row in self.rows(version)] for version in range(self.version() + 1)]

    def named_files(self) -> set[str]:
        """The files of the newest version, below the path of the table."""
        if self.format == "parquet":
            return set(self.parquet_files())
        if self.format == "iceberg":
            uris = [task.file.file_path.removeprefix("file://") for task in self.iceberg().scan().plan_files()]
        else:
            uris = DeltaTable(self.path).file_uris()
        return {uri.removeprefix(f"{self.path}/") for uri in uris}

    def found_files(self) -> set[str]:
        """The files of messages that are there, below the path of the table."""
        return {name for name in self.objects() if name.endswith(".parquet") and not name.startswith("_delta_log/")}

    def objects(self) -> dict[str, bytes]:
        """All files below the path of the table, with their content."""
        system, inner = open_lake(self.path)
        found = system.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True))
        files = [file.path for file in found if file.type == fs.FileType.File]
        return {path.removeprefix(f"{inner}/"): system.open_input_stream(path).readall() for path in files}

    def done(self) -> int:
        """What the store knows as acknowledged."""
        done: int = self.world.value(STORE, "select done_stream_position from relaybox.lag(%s)", SUBSCRIPTION)
        return done

    def stream(self) -> list[tuple[Any, ...]]:
        """The messages of the stream, as the store has them."""
        return self.world.query(
            STORE,
            "select stream_position, topic, sender, key, payload, payload_bytes, headers::text, sent_at, message_id::text, epoch, index, "
            "clock::text, hop, log_position from relaybox.read_stream('flights', 0, 1000000) order by stream_position",
        )


def section_program(section: str, number: int = 0, language: str = "python") -> str:
    """A program of a section of docs/lake.md."""
    section = _PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    program: str = re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)[number]
    return program


def _kill_at_call(path: str, number: int) -> None:
    """Of the calls of Python: what C++ and Rust do themselves lies between two of them, or between two failpoints."""
    calls = iter(range(1, number))

    def see(event: str, arguments: tuple[object, ...]) -> None:
        if event in _CALLS and any(str(argument).startswith(path) for argument in arguments) and next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(see)


_CALLS = ("open", "os.link", "os.mkdir", "os.remove", "os.rename")

if __name__ == "__main__":
    _export = load_routes(sys.argv[1]).export(EXPORT)
    if len(sys.argv) > 2:
        _kill_at_call(_export.path, int(sys.argv[2]))
    export_stream(_export, InProcess())
