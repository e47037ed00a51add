"""An export by a real Spark: tables equal to their streams, whatever partitions them; errors that name the numbers and the next step."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from relaybox.errors import (
    HistoryLost,
    LakeChanged,
    LakeFailed,
    LakeRefused,
    NoLongerKept,
    RelayboxError,
)
from relaybox.failpoints import LAKE_FAILPOINTS
from relaybox.routes.export_rules import FORMATS
from relaybox.spark.frames.ranges import StreamPartition
from relaybox.spark.lake.exporting import Exported, export_stream
from relaybox.spark.lake.verifying import verify_lake
from relaybox.spark.lake.writing import Writing, write_range
from relaybox.spark.tasks import ContextSession
from tests.spark.frames import serve
from tests.support.lake import CATALOG, EXPORT, STORE, SUBSCRIPTION, InProcess, Lake, section_program
from tests.support.patience import patience
from tests.support.streams import deliver
from tests.support.world import World

PAGE = Path(__file__).parents[2] / "docs" / "lake.md"


@pytest.fixture
def lake(request: pytest.FixtureRequest, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Of Delta, or of the format that a test names as a parameter."""
    monkeypatch.setenv(CATALOG, f"sqlite:///{tmp_path}/catalog.db")
    made = Lake(world, str(tmp_path / "lake" / "flights"), getattr(request, "param", "delta"))
    made.configure()
    return made


def spark_run(frames: SparkSession, lake: Lake) -> Exported:
    serve(frames)
    return export_stream(lake.export, ContextSession(frames.sparkContext))


@pytest.mark.parametrize("partition_by", ["none", "day", "key"])
def test_spark_reads_the_rows_of_the_stream(frames: SparkSession, lake: Lake, partition_by: str) -> None:
    """Spark reads the files that the table names; deltalake adds the column that partitions them. Odd keys and times are as sent."""
    deliver(lake.world, 30)
    lake.world.query(
        STORE, "update relaybox_internal.log set sent_at = '2026-06-30 23:59:59.999999+00' where mod(log_position, 3) = 0"
    )
    lake.world.query(STORE, "update relaybox_internal.log set sent_at = '1969-12-31 23:59:59.999999+00' where log_position = 7")
    lake.world.query(STORE, "update relaybox_internal.log set key = null where log_position = 4")
    lake.world.query(STORE, "update relaybox_internal.log set key = '' where log_position = 5")
    odd = "update relaybox_internal.log set key = %s, payload = null, payload_bytes = %s where log_position = 6"
    lake.world.query(STORE, odd, "a b/c=%20é", b"\x00\xff")
    lake.configure(partition_by=partition_by)
    assert spark_run(frames, lake).messages == 30
    table = DeltaTable(lake.path)
    read = frames.read.parquet(*table.file_uris()).orderBy("stream_position").collect()
    stream = lake.stream()
    utc = [tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row) for row in read]
    expected = [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in stream]
    assert [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in utc] == expected
    rows = lake.rows()
    if partition_by == "day":
        assert {row["sent_day"] for row in rows if row["stream_position"] % 3 == 0} == {date(2026, 6, 30)}
        assert all(row["sent_day"] == row["sent_at"].date() for row in rows)
    if partition_by == "key":
        assert all(row["key_partition"] == (row["key"] or None) for row in rows)
    serve(frames)
    found = verify_lake(lake.export, ContextSession(frames.sparkContext))
    assert (found.is_equal, found.compared_count) == (True, 30)


@pytest.mark.parametrize("lake", FORMATS, indirect=True)
def test_spark_writes_what_a_process_writes_and_goes_on(frames: SparkSession, lake: Lake) -> None:
    deliver(lake.world, 12)
    assert spark_run(frames, lake) == Exported(EXPORT, lake.path, 1, 12, 2, batches=2, messages=12, files=4)
    deliver(lake.world, 2)
    assert spark_run(frames, lake).first_stream_position == 13
    assert lake.done() == 14
    serve(frames)
    found = verify_lake(lake.export, ContextSession(frames.sparkContext))
    assert (found.is_equal, found.version, found.compared_count) == (True, 3, 14)


@pytest.mark.parametrize("lake", ["parquet"], indirect=True)
def test_spark_reads_what_the_manifests_name_and_nothing_of_the_folder(frames: SparkSession, lake: Lake) -> None:
    """By the function of the page; beside files of a run that was killed before its commit."""
    deliver(lake.world, 20)
    lake.run()
    deliver(lake.world, 5)
    lake.kill_at("lake.collected")
    names: dict[str, Any] = {}
    exec(section_program("Parquet").partition("\n\nlake = ")[0], names)  # noqa: S102
    rows = frames.read.parquet(*names["lake_files"](lake.path)).orderBy("stream_position").select("stream_position", "payload")
    assert [tuple(row) for row in rows.collect()] == [(position, f"m{position}") for position in range(1, 21)]
    with pytest.raises(AnalysisException, match="UNABLE_TO_INFER_SCHEMA"):
        frames.read.parquet(lake.path)


def verified(lake: Lake) -> list[tuple[int, int, int | None, int, int | None]]:
    found = verify_lake(lake.export, InProcess())
    return [(part.first, part.last, part.stream_count, part.lake_count, part.first_difference) for part in found.ranges]


def test_a_verification_finds_a_row_that_differs(lake: Lake) -> None:
    deliver(lake.world, 10)
    lake.run()
    assert verified(lake) == [(1, 4, 4, 4, None), (5, 8, 4, 4, None), (9, 10, 2, 2, None)]
    lake.world.query(STORE, "update relaybox_internal.log set payload = 'other' where log_position = 6")
    assert verified(lake) == [(1, 4, 4, 4, None), (5, 8, 4, 4, 6), (9, 10, 2, 2, None)]
    found = verify_lake(lake.export, InProcess()).differences[0]
    assert found.stream_digest != found.lake_digest


def test_a_lost_file_is_named(lake: Lake) -> None:
    deliver(lake.world, 4)
    lake.run()
    Path(DeltaTable(lake.path).file_uris()[0]).unlink()
    with pytest.raises(LakeChanged, match=r"is gone, with 4 messages, stream positions 1 to 4\. Restore the file"):
        verify_lake(lake.export, InProcess())


def refused(lake: Lake, kind: type[RelayboxError], match: str) -> None:
    """And neither the table nor the subscription moves."""
    before = DeltaTable(lake.path).version() if DeltaTable.is_deltatable(lake.path) else None
    with pytest.raises(kind, match=match):
        lake.run()
    assert (DeltaTable(lake.path).version() if DeltaTable.is_deltatable(lake.path) else None) == before


def test_a_table_that_others_changed_is_refused(lake: Lake) -> None:
    """Rows added, rows deleted against delta.appendOnly, a column added, the table of somebody else."""
    deliver(lake.world, 6)
    lake.run()
    table = DeltaTable(lake.path)
    row = table.to_pyarrow_table().slice(0, 1)
    write_deltalake(lake.path, row, mode="append")
    refused(lake, LakeChanged, "version 2 has 7 messages; the export has written 6, stream positions 1 to 6. Others changed")
    DeltaTable(lake.path).restore(1)
    deliver(lake.world, 1)
    assert lake.run().messages == 1
    table = DeltaTable(lake.path)
    table.alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(lake.path).delete("stream_position = 2")
    refused(lake, LakeChanged, "has 6 messages; the export has written 7")
    lake.configure(partition_by="day")
    refused(lake, LakeChanged, "sent_day is missing, expected date")


def test_a_path_of_others_is_refused(lake: Lake, tmp_path: Path) -> None:
    deliver(lake.world, 3)
    Path(lake.path).mkdir(parents=True)
    (Path(lake.path) / "notes.txt").touch()
    refused(lake, LakeChanged, "there is no table, but 1 other files or directories, such as notes.txt")
    lake.configure(path=str(tmp_path / "lake" / "other"))
    other = lake.export
    export_stream(other, InProcess())
    shutil.copytree(other.path, tmp_path / "lake" / "copied")
    lake.configure(path=str(tmp_path / "lake" / "copied"), stream="flights")
    lake.world.query(STORE, "update relaybox_internal.store set store_id = gen_random_uuid()")
    with pytest.raises(
        LakeChanged, match=r"the table is not of this export of store id .*, but of export flights_lake, stream flights"
    ):
        lake.run()


def test_a_table_or_a_store_that_went_back_in_time_is_refused(lake: Lake) -> None:
    deliver(lake.world, 12)
    lake.run()
    kept = Path(lake.path).with_name("kept")
    Path(lake.path).rename(kept)
    refused(
        lake,
        LakeChanged,
        r"there is no table at .*, but subscription export.flights_lake in store hub has acknowledged stream positions 1 to 12",
    )
    kept.rename(lake.path)
    (Path(lake.path) / "_delta_log" / f"{2:020}.json").unlink()
    refused(
        lake, LakeChanged, "ends at stream position 10, but subscription export.flights_lake in store hub has acknowledged 12"
    )
    lake.world.query(STORE, "select relaybox.unsubscribe(%s, 'the table went back')", SUBSCRIPTION)
    assert lake.run().messages == 2
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    lake.world.query(STORE, "update relaybox_internal.stream set last_stream_position = 7")
    refused(lake, HistoryLost, "ends at stream position 7, the table of export flights_lake at 12")


def test_a_position_that_is_no_longer_kept_is_an_error(lake: Lake) -> None:
    deliver(lake.world, 5)
    lake.run()
    deliver(lake.world, 5)
    lake.world.query(STORE, "select relaybox.unsubscribe(%s, 'a mistake')", SUBSCRIPTION)
    lake.world.query(STORE, "update relaybox_internal.stream set first_kept_stream_position = 8, dropped_stream_position = 7")
    refused(lake, NoLongerKept, "stream position 6 is no longer kept; the first one is 8")


def test_a_lake_that_is_full_is_named_with_the_range(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full is a disk without space: the file that the task opens is a link to it."""
    deliver(lake.world, 3)
    store_id = lake.world.value(STORE, "select store_id::text from relaybox_internal.store")
    directory = Path(lake.path) / "attempt"
    directory.mkdir(parents=True)
    monkeypatch.setattr("uuid.uuid4", type("Fixed", (), {"hex": "fixed"}))
    (directory / f"{1:019}-fixed-00000.parquet").symlink_to("/dev/full")
    with pytest.raises(LakeFailed, match=r"while writing stream positions 1 to 3: .*No space left on device.*Free space"):
        write_range(
            Writing(STORE, "flights", lake.path, "attempt", "none", splits_empty_keys=False), StreamPartition(store_id, 1, 3)
        )


def test_a_lake_that_cannot_be_reached_is_named(lake: Lake) -> None:
    deliver(lake.world, 3)
    lake.configure(path="/proc/lake/flights")
    with pytest.raises(LakeFailed, match=r"export flights_lake, table /proc/lake/flights: while making the table"):
        lake.run()
    assert lake.done() == 0
    lake.configure(path="gopher://lake/flights")
    with pytest.raises((LakeRefused, LakeFailed), match="gopher"):
        lake.run()


def test_a_time_that_is_no_day_does_not_fit(lake: Lake) -> None:
    deliver(lake.world, 3)
    lake.world.query(STORE, "update relaybox_internal.log set sent_at = '30000-01-01' where log_position = 2")
    lake.configure(partition_by="day")
    with pytest.raises(LakeRefused, match="the message at stream position 2 was sent at a time that is no day"):
        lake.run()


def relaybox(world: World, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("relaybox"), *arguments]
    given = {**os.environ, "RELAYBOX_CONFIG": str(world.path), **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=patience(180), check=False)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_page_shows_what_happens(lake: Lake, tmp_path: Path) -> None:
    """Its section of relaybox.yaml, its commands with their output, and its program; with the path of this test."""
    at_path = str(tmp_path / "lake" / "page")
    shown = yaml.safe_load(blocks("yaml")[0].replace("/srv/lake/flights", at_path))
    lake.world.path.write_text(yaml.safe_dump(yaml.safe_load(lake.world.path.read_text()) | shown))
    deliver(lake.world, 25)
    lake.world.query(STORE, "update relaybox_internal.log set sent_at = '2026-07-01 12:00+00'")
    for told in blocks("console")[0].replace("/srv/lake/flights", at_path).strip().split("\n\n"):
        command, expected = told.split("\n", 1)
        done = relaybox(lake.world, *command.removeprefix("$ relaybox ").split())
        assert (done.returncode, done.stdout) == (0, f"{expected}\n"), done.stderr
    program = blocks("python")[0].replace("/srv/lake/flights", at_path)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=patience(60), check=True)
    assert "datetime.date(2026, 7, 1), 'stream_position_count': 25" in ran.stdout


def test_the_commands_answer_in_json(lake: Lake) -> None:
    deliver(lake.world, 6)
    lake.run()
    again = json.loads(relaybox(lake.world, "export", EXPORT, "--json").stdout)
    assert (again["messages"], again["version"]) == (0, 1)
    lake.world.query(STORE, "update relaybox_internal.log set payload = 'other' where log_position = 6")
    differs = relaybox(lake.world, "verify-lake", EXPORT, "--json")
    assert (differs.returncode, json.loads(differs.stdout)["ranges"][1]["first_difference"]) == (1, 6)


@pytest.mark.thorough
@pytest.mark.parametrize("lake", FORMATS, indirect=True)
@pytest.mark.parametrize("step", LAKE_FAILPOINTS)
def test_g3_a_spark_export_that_is_killed_at_any_step_writes_each_message_once(lake: Lake, step: str) -> None:
    """The failpoints of tasks kill Spark's workers again and again, until Spark gives up."""
    deliver(lake.world, 25)
    killed = relaybox(
        lake.world,
        "export",
        EXPORT,
        RELAYBOX_FAILPOINTS=f"{step}=kill",
        RELAYBOX_ENVIRONMENT="test",
        RELAYBOX_FAILPOINTS_DIRECTORY=str(lake.world.path.parent),
    )
    assert killed.returncode != 0, killed.stdout
    done = relaybox(lake.world, "export", EXPORT)
    assert done.returncode == 0, done.stderr
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    for positions in lake.positions_of_versions():
        assert positions == list(range(1, len(positions) + 1))
    assert lake.done() == 25
