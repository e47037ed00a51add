"""An Iceberg table of an export: what others do to it, and how its catalog decides between commits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import Table

from relaybox.errors import ExportSuperseded, LakeChanged, LakeFailed, LakeRefused
from relaybox.spark.frames.ranges import StreamPartition
from relaybox.spark.lake.attempts import Attempt, new_attempt
from relaybox.spark.lake.formats import open_table
from relaybox.spark.lake.iceberg_table import IcebergLakeTable
from relaybox.spark.lake.verifying import verify_lake
from relaybox.spark.lake.writing import Writing, WrittenFile, write_range
from tests.support.lake import CATALOG, STORE, SUBSCRIPTION, TABLE, InProcess, Lake, section_program
from tests.support.streams import deliver
from tests.support.world import World


@pytest.fixture
def lake(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv(CATALOG, f"sqlite:///{tmp_path}/catalog.db")
    made = Lake(world, str(tmp_path / "lake" / "flights"), "iceberg")
    made.configure()
    return made


def open_iceberg(lake: Lake) -> IcebergLakeTable:
    table = open_table(lake.export, lake.world.value(STORE, "select store_id::text from relaybox_internal.store"))
    assert isinstance(table, IcebergLakeTable)
    return table


def written(lake: Lake, first: int, last: int) -> tuple[Attempt, list[WrittenFile]]:
    """The files of an attempt at a range, not committed."""
    store_id = lake.world.value(STORE, "select store_id::text from relaybox_internal.store")
    attempt = new_attempt(first - 1)
    writing = Writing(STORE, "flights", lake.path, attempt.name, "none", splits_empty_keys=True)
    return attempt, write_range(writing, StreamPartition(store_id, first, last))


def compact(table: Table) -> None:
    """As others do it: the same rows in other files."""
    table.overwrite(table.scan().to_arrow())


def assert_equal(lake: Lake) -> None:
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    assert verify_lake(lake.export, InProcess()).is_equal


@pytest.mark.parametrize("partition_by", ["day", "key"])
def test_hidden_partitions_have_each_row(lake: Lake, partition_by: str) -> None:
    """No key, an empty key and odd keys are partitions of their own, and a reader's filter finds each of them."""
    deliver(lake.world, 9)
    for position, key in ((4, None), (5, ""), (6, "a b/c=%20é" + 40 * "x")):
        lake.world.query(STORE, "update relaybox_internal.log set key = %s where log_position = %s", key, position)
    lake.world.query(STORE, "update relaybox_internal.log set sent_at = '1969-12-31 23:59:59.999999+00' where log_position = 7")
    lake.configure(partition_by=partition_by)
    lake.run()
    assert_equal(lake)
    scan = lake.iceberg().scan(row_filter="key = ''").to_arrow()
    assert scan.column("stream_position").to_pylist() == [5]
    old = lake.iceberg().scan(row_filter="sent_at < '1970-01-01T00:00:00+00:00'").to_arrow()
    assert old.column("stream_position").to_pylist() == [7]


def test_g3_a_commit_that_a_compaction_came_before_is_in_the_table_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog refuses the first try, since the branch moved. The second one finds the same position, and commits."""
    deliver(lake.world, 20)
    lake.configure(batch_messages=10)
    lake.kill_at("lake_ack.committed")
    table = open_iceberg(lake)
    attempt, files = written(lake, 11, 20)
    looks = iter([table.load()])
    compact(lake.iceberg())
    newest = table.load
    monkeypatch.setattr(table, "load", lambda: next(looks, None) or newest())
    assert table.commit(attempt, 20, files).position == 20
    assert next(looks, None) is None
    assert lake.run().messages == 0
    assert_equal(lake)


def test_g3_a_commit_after_another_one_is_refused_by_the_catalog(lake: Lake) -> None:
    """pyiceberg alone would append the batch after that of the other run."""
    deliver(lake.world, 10)
    lake.kill_at("lake.created")
    table = open_iceberg(lake)
    attempt, files = written(lake, 1, 10)
    stale = table.load()
    assert stale is not None
    staged = table._stage(stale, attempt, 10, files)  # noqa: SLF001
    lake.run()
    with pytest.raises(CommitFailedException, match="main was created concurrently"):
        staged.commit_once()
    with pytest.raises(ExportSuperseded):
        table.commit(attempt, 10, files)
    assert_equal(lake)


def test_the_position_outlives_compaction_and_expired_snapshots(lake: Lake) -> None:
    deliver(lake.world, 25)
    lake.run()
    compact(lake.iceberg())
    deliver(lake.world, 1)
    assert lake.run().first_stream_position == 26
    compact(lake.iceberg())
    table = lake.iceberg()
    newest = table.current_snapshot()
    old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot != newest]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    deliver(lake.world, 2)
    assert lake.run().first_stream_position == 27
    assert_equal(lake)


def test_g3_a_compaction_that_a_batch_came_before_keeps_the_batch(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the page reads the table, then a batch commits, then the program commits."""
    deliver(lake.world, 25)
    lake.run()
    deliver(lake.world, 5)
    overwrite = Table.overwrite

    def after_a_batch(table: Table, *arguments: Any, **keys: Any) -> None:
        lake.run()
        overwrite(table, *arguments, **keys)

    with monkeypatch.context() as patched:
        patched.setattr(Table, "overwrite", after_a_batch)
        program = section_program("Compact", 1)
        exec(program.replace('"default"', f'"default", uri="{os.environ[CATALOG]}"'), {})  # noqa: S102
    assert len(lake.named_files()) == 3
    assert_equal(lake)
    deliver(lake.world, 2)
    assert lake.run().first_stream_position == 31
    assert_equal(lake)


def test_a_compaction_without_a_filter_is_refused_after_a_batch(lake: Lake) -> None:
    """pyiceberg repeats a refused commit on top of the batch, and would remove its rows."""
    deliver(lake.world, 10)
    lake.run()
    stale = lake.iceberg()
    rows = stale.scan().to_arrow()
    deliver(lake.world, 10)
    lake.run()
    with pytest.raises(ValidationException, match="Added data files were found"):
        stale.overwrite(rows)
    assert_equal(lake)


def test_a_snapshot_that_can_be_read_keeps_the_files_of_expired_ones(lake: Lake) -> None:
    """Others compacted the table and removed the oldest snapshots. The last one before that can still be read."""
    deliver(lake.world, 25)
    lake.run()
    table = lake.iceberg()
    *expired, readable = [snapshot.snapshot_id for snapshot in table.snapshots()]
    compact(table)
    table.maintenance.expire_snapshots().by_ids(expired).commit()
    deliver(lake.world, 1)
    assert lake.run().removed_attempts == 0
    before = lake.iceberg().scan(snapshot_id=readable).to_arrow().column("stream_position").to_pylist()
    assert sorted(before) == list(range(1, 26))


def test_all_files_that_the_catalog_names_are_flushed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[str] = set()
    flush = os.fsync

    def observed(descriptor: int) -> None:
        flush(descriptor)
        flushed.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", observed)
    deliver(lake.world, 3)
    lake.run()
    table = lake.iceberg()
    newest = table.current_snapshot()
    assert newest is not None
    named = {table.metadata_location, newest.manifest_list, *(manifest.manifest_path for manifest in newest.manifests(table.io))}
    named |= {f"{lake.path}/{file}" for file in lake.named_files()}
    assert len(named) == 4
    assert {path.removeprefix("file://") for path in named} <= flushed


def test_a_table_that_others_changed_is_refused(lake: Lake) -> None:
    """Rows added, rows deleted, a column added, the table of another export, another path."""
    deliver(lake.world, 6)
    lake.run()
    table = lake.iceberg()
    good = table.current_snapshot()
    assert good is not None
    table.append(table.scan().to_arrow().slice(0, 1))
    with pytest.raises(LakeChanged, match=r"has 7 messages; the export has written 6, stream positions 1 to 6. Others changed"):
        lake.run()
    table.manage_snapshots().rollback_to_snapshot(good.snapshot_id).commit()
    assert lake.run().messages == 0
    table.refresh()
    table.delete("stream_position = 2")
    with pytest.raises(LakeChanged, match="has 5 messages; the export has written 6"):
        lake.run()
    table.manage_snapshots().rollback_to_snapshot(good.snapshot_id).commit()
    lake.configure(partition_by="day")
    with pytest.raises(LakeChanged, match=r"partitioned by nothing; relaybox.yaml says partition_by: day"):
        lake.run()
    lake.configure(path=f"{lake.path}-moved")
    with pytest.raises(LakeChanged, match=r"the table lake.flights lies at file://.*; expected file://.*-moved"):
        lake.run()
    lake.configure()
    lake.world.query(STORE, "update relaybox_internal.store set store_id = gen_random_uuid()")
    with pytest.raises(
        LakeChanged, match=r"the table lake.flights is not of this export of store id .*, but of export flights_lake"
    ):
        lake.run()


def test_a_table_that_went_back_in_time_is_refused(lake: Lake) -> None:
    deliver(lake.world, 12)
    lake.run()
    table = lake.iceberg()
    first = table.snapshots()[0]
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    with pytest.raises(
        LakeChanged, match=r"ends at stream position 10, but subscription export.flights_lake .* has acknowledged 12"
    ):
        lake.run()
    lake.world.query(STORE, "select relaybox.unsubscribe(%s, 'the table went back')", SUBSCRIPTION)
    assert lake.run().messages == 2
    assert_equal(lake)
    table.catalog.drop_table(TABLE)
    with pytest.raises(
        LakeChanged, match=r"there is no table at .*, but subscription .* has acknowledged stream positions 11 to 12"
    ):
        lake.run()


def test_a_catalog_that_is_missing_or_cannot_be_reached_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(lake.world, 3)
    monkeypatch.setenv(CATALOG, "postgresql+psycopg2://127.0.0.1:1/none")
    with pytest.raises(LakeFailed, match=r"while reaching the catalog: .*Connection refused"):
        lake.run()
    monkeypatch.delenv(CATALOG)
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(LakeRefused, match="pyiceberg has no usable catalog: URI missing"):
        lake.run()
    assert lake.world.value(STORE, "select count(*) from relaybox.subscriptions where subscription = %s", SUBSCRIPTION) == 0


def test_g3_two_runs_at_once_with_a_catalog_in_postgres(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CATALOG, "postgresql+psycopg2:///?service=analytics")
    deliver(lake.world, 25)
    with lake.stopped_at("lake.collected") as said:
        lake.run()
    assert "ExportSuperseded" in "".join(said)
    lake.run()
    assert_equal(lake)
    assert lake.found_files() == lake.named_files()
