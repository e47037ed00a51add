"""What only a Parquet table has: manifests that are its commits, and readers that know no format of tables."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from relaybox.errors import LakeChanged, LakeFailed, LakeRefused
from relaybox.spark.lake.new_files import create_file
from relaybox.spark.lake.verifying import verify_lake
from tests.support.lake import STORE, SUBSCRIPTION, InProcess, Lake, section_program
from tests.support.streams import deliver
from tests.support.world import World


@pytest.fixture
def lake(world: World, tmp_path: Path) -> Lake:
    made = Lake(world, str(tmp_path / "lake" / "flights"), "parquet")
    made.configure()
    return made


def read_by_duckdb(lake: Lake, columns: str) -> list[Any]:
    """By the macro of the page."""
    *prepare, _ = (
        section_program("Parquet", language="sql").replace("/srv/lake/flights_parquet", lake.path).strip().rstrip(";").split(";")
    )
    with duckdb.connect() as session:
        for statement in prepare:
            session.execute(statement)
        return session.execute(f"select {columns} from read_parquet(getvariable('files')) order by stream_position").fetchall()


def read_by_program(lake: Lake) -> list[str]:
    """The function of the page."""
    program, _, _ = section_program("Parquet").partition("\n\nlake = ")
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102
    files: list[str] = names["lake_files"](lake.path)
    return files


def damage(lake: Lake, number: int, /, **changed: object) -> None:
    manifest = lake.manifests()[number]
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changed))


def test_readers_of_the_page_see_what_is_committed_and_nothing_else(lake: Lake) -> None:
    """Beside files of a run that was killed before its commit. The folder itself has nothing for pyarrow."""
    deliver(lake.world, 20)
    lake.run()
    deliver(lake.world, 5)
    lake.kill_at("lake.collected")
    committed = [(position, f"m{position}") for position in range(1, 21)]
    assert lake.found_files() > lake.named_files()
    assert read_by_duckdb(lake, "stream_position, payload") == committed
    rows = pq.ParquetDataset(read_by_program(lake)).read().sort_by("stream_position").to_pylist()
    assert [(row["stream_position"], row["payload"]) for row in rows] == committed
    folder = ds.dataset(lake.path)
    assert (folder.count_rows(), folder.schema.names) == (0, [])
    lake.run()
    assert [position for (position,) in read_by_duckdb(lake, "stream_position")] == list(range(1, 26))


def test_duckdb_reads_each_column_as_the_stream_has_it(lake: Lake) -> None:
    deliver(lake.world, 12)
    odd = "update relaybox_internal.log set key = %s, payload = null, payload_bytes = %s where log_position = 6"
    lake.world.query(STORE, odd, "a b/c=%20é", b"\x00\xff")
    lake.run()
    found = [tuple(row) for row in read_by_duckdb(lake, "*")]
    expected = [tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in lake.stream()]
    assert found == expected


def test_the_programs_of_the_page_print_the_topics(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    deliver(lake.world, 12)
    lake.run()
    statements = section_program("Parquet", language="sql").replace("/srv/lake/flights_parquet", lake.path)
    with duckdb.connect() as session:
        assert session.execute(statements).fetchall() == [("flights", 12)]
    exec(section_program("Parquet").replace("/srv/lake/flights_parquet", lake.path), {})  # noqa: S102
    assert "{'topic': 'flights', 'stream_position_count': 12}" in capsys.readouterr().out


def test_a_manifest_that_is_gone_is_named_and_refused_by_readers(lake: Lake) -> None:
    deliver(lake.world, 30)
    lake.run()
    lake.manifests()[2].unlink()
    for attempt in (lake.run, lambda: verify_lake(lake.export, InProcess())):
        with pytest.raises(LakeChanged, match=r"manifest _manifests/0{19}2.json is gone; the newest version is 3"):
            attempt()
    with pytest.raises(duckdb.InvalidInputException, match="a manifest is missing"):
        read_by_duckdb(lake, "*")
    with pytest.raises(ValueError, match="a manifest is missing"):
        read_by_program(lake)


def test_the_newest_manifest_that_is_gone_is_found_by_the_acknowledgement(lake: Lake) -> None:
    deliver(lake.world, 20)
    lake.run()
    lake.manifests()[2].unlink()
    with pytest.raises(LakeChanged, match=rf"ends at stream position 10, but subscription {SUBSCRIPTION} .* has acknowledged 20"):
        lake.run()


def test_a_damaged_manifest_is_named(lake: Lake) -> None:
    """Cut off, of another version, with a gap, with a file less, without a key, of another export."""
    deliver(lake.world, 20)
    lake.run()
    second = lake.manifests()[2]
    whole = second.read_text()
    name = f"manifest _manifests/{second.name}"

    def refused(match: str) -> None:
        for attempt in (lake.run, lambda: verify_lake(lake.export, InProcess())):
            with pytest.raises(LakeChanged, match=match):
                attempt()
        second.write_text(whole)

    os.truncate(second, 40)
    refused(f"{name} is damaged: Invalid JSON")
    damage(lake, 2, version=1)
    refused(f"{name} is that of version 1")
    damage(lake, 2, first=12)
    refused(f"{name} begins at stream position 12; expected 11")
    damage(lake, 2, files=json.loads(whole)["files"][:-1])
    refused("version 2 has 18 messages; the export has written 20")
    damage(lake, 2, last="20")
    refused(f"{name} is damaged: last: Input should be a valid integer")
    damage(lake, 2, export="other")
    refused("the table is not of this export of store id .*, but of export other, stream flights")
    assert verify_lake(lake.export, InProcess()).is_equal


def test_a_table_of_other_columns_or_partitions_is_refused(lake: Lake) -> None:
    deliver(lake.world, 3)
    lake.run()
    lake.configure(partition_by="day")
    with pytest.raises(LakeChanged, match=r"partitioned by none; relaybox.yaml says partition_by: day"):
        lake.run()
    lake.configure()
    columns = json.loads(lake.manifests()[0].read_text())["columns"]
    damage(lake, 0, columns={**columns, "key": "int64"})
    with pytest.raises(LakeChanged, match="key is int64, expected string"):
        lake.run()


def test_a_lost_or_damaged_file_is_named(lake: Lake) -> None:
    deliver(lake.world, 8)
    lake.run()
    first, second = (Path(lake.path, file) for file in lake.parquet_files())
    os.truncate(first, 100)
    with pytest.raises(LakeChanged, match=r"file _relaybox-after-0-.* is damaged, with 4 messages, stream positions 1 to 4"):
        verify_lake(lake.export, InProcess())
    second.rename(first)
    with pytest.raises(LakeChanged, match=r"file _relaybox-after-0-.* is gone, with 4 messages, stream positions 5 to 8"):
        verify_lake(lake.export, InProcess())


def test_a_file_of_other_rows_is_found(lake: Lake) -> None:
    """The rows of another file under its name, and a row that differs from that of the store."""
    deliver(lake.world, 8)
    lake.run()
    first, second = (Path(lake.path, file) for file in lake.parquet_files())
    whole = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(LakeChanged, match=r"has 4 messages, stream positions 5 to 8; version 1 says 4, 1 to 4"):
        verify_lake(lake.export, InProcess())
    first.write_bytes(whole)
    rows = pq.read_table(first, partitioning=None)
    index = rows.column_names.index("payload")
    pq.write_table(rows.set_column(index, rows.schema.field(index), pa.array(["m1", "other", "m3", "m4"])), first)
    assert [part.first_difference for part in verify_lake(lake.export, InProcess()).ranges] == [2, None]


def test_a_file_of_another_partition_is_found(lake: Lake) -> None:
    lake.configure(partition_by="key")
    deliver(lake.world, 1)
    lake.run()
    (file,) = json.loads(lake.manifests()[1].read_text())["files"]
    damage(lake, 1, files=[file | {"partition": "other"}])
    with pytest.raises(LakeChanged, match=r"has messages of partitions k1; version 1 says other"):
        verify_lake(lake.export, InProcess())


def test_temporary_files_of_killed_runs_are_removed(lake: Lake) -> None:
    deliver(lake.world, 10)
    lake.run()
    left = Path(lake.path, "_manifests", f"{lake.manifests()[1].name}.0123.tmp")
    left.touch()
    deliver(lake.world, 1)
    lake.run()
    assert not left.exists()
    assert len(list(left.parent.iterdir())) == 3


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = str(tmp_path / "made" / "file")
    assert create_file(path, b"one")
    assert not create_file(path, b"two")
    assert [found.name for found in (tmp_path / "made").iterdir()] == ["file"]
    assert Path(path).read_bytes() == b"one"


def test_a_file_system_that_cannot_create_a_file_once_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without hard links, and one that is no directory and no object store."""
    deliver(lake.world, 3)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(LakeRefused, match=r"its file system has no hard links: .*Operation not supported"):
        lake.run()
    assert not list(Path(lake.path).rglob("*.json*"))
    with pytest.raises((LakeRefused, LakeFailed), match="hdfs"):
        create_file("hdfs://nowhere/lake/file", b"")


def test_a_manifest_that_is_read_is_durable(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its content is flushed before it has its name, and its name before the acknowledgement, also by the run after a kill."""
    flushed: list[str] = []
    flush = os.fsync

    def observed(descriptor: int) -> None:
        flush(descriptor)
        flushed.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    deliver(lake.world, 3)
    lake.kill_at("lake.committed")
    monkeypatch.setattr(os, "fsync", observed)
    lake.run()
    assert f"{lake.path}/_manifests" in flushed
    deliver(lake.world, 3)
    lake.run()
    assert any(path.startswith(f"{lake.path}/_manifests/{2:020}.json.") for path in flushed)
