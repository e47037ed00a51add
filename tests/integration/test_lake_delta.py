"""What only a Delta table has: a log that is cleaned, compaction, and statistics that others write."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from relaybox.errors import LakeChanged, StoreUnusable
from relaybox.spark.lake.verifying import verify_lake
from tests.support.lake import InProcess, Lake, section_program
from tests.support.services import break_service, read_service
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def lake(world: World, tmp_path: Path) -> Lake:
    made = Lake(world, str(tmp_path / "lake" / "flights"), "delta")
    made.configure()
    return made


def test_a_table_that_was_compacted_and_whose_log_was_cleaned_keeps_its_older_versions(lake: Lake) -> None:
    """The history names their attempts no more, and the newest version has other files."""
    deliver(lake.world, 25)
    lake.run()
    table = DeltaTable(lake.path)
    version = table.version()
    table.create_checkpoint()
    long_ago = time.time() - 40 * 86_400
    for log in Path(lake.path, "_delta_log").glob("*.json"):
        os.utime(log, (long_ago, long_ago))
    DeltaTable(lake.path).cleanup_metadata()
    DeltaTable(lake.path).optimize.compact()
    deliver(lake.world, 5)
    assert lake.run().messages == 5
    assert [row["stream_position"] for row in lake.rows(version)] == list(range(1, 26))
    assert verify_lake(lake.export, InProcess()).is_equal


def test_a_batch_that_a_compaction_came_before_is_in_the_table_once(lake: Lake) -> None:
    """By the program of the page, between the files of the batch and its commit."""
    deliver(lake.world, 25)
    lake.run()
    deliver(lake.world, 5)
    with lake.stopped_at("lake.collected") as said:
        exec(section_program("Compact", 0).replace("/srv/lake/flights", lake.path), {})  # noqa: S102
        assert len(lake.named_files()) == 1
    assert said == [""]
    assert lake.run().messages == 0
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    assert verify_lake(lake.export, InProcess()).is_equal


def send_with_key(world: World, key: str) -> None:
    world.query("airline", "insert into relaybox.outbox (topic, sender, key, payload) values ('flights', 'UA', %s, 'p')", key)
    world.transfer(world.first_hop)


@pytest.mark.parametrize("partition_by", ["none", "day", "key"])
def test_a_compacted_table_is_verified_by_the_names_of_its_files(lake: Lake, partition_by: str) -> None:
    """Which have the keys in them, in the letters of URLs."""
    lake.configure(partition_by=partition_by)
    for key in ("a/b é%", "__HIVE_DEFAULT_PARTITION__") * 2:
        send_with_key(lake.world, key)
        lake.run()
    assert DeltaTable(lake.path).optimize.compact()["numFilesAdded"] > 0
    assert verify_lake(lake.export, InProcess()).is_equal


def test_a_damaged_file_is_named(lake: Lake) -> None:
    deliver(lake.world, 4)
    lake.run()
    os.truncate(DeltaTable(lake.path).file_uris()[0], 100)
    with pytest.raises(LakeChanged, match=r"file relaybox-after-0-.* is damaged, with 4 messages, stream positions 1 to 4"):
        verify_lake(lake.export, InProcess())


def add_file(lake: Lake, rows: pa.Table, statistics: dict[str, object], partition: dict[str, str | None]) -> None:
    """As somebody does who writes the log of Delta."""
    path = Path(lake.path) / "theirs.parquet"
    pq.write_table(rows, path)
    add = AddAction(path.name, path.stat().st_size, partition, 0, data_change=True, stats=json.dumps(statistics))
    table = DeltaTable(lake.path)
    table.create_write_transaction([add], "append", table.schema(), table.metadata().partition_columns)


@pytest.mark.parametrize("position", [1, 10**9])
def test_rows_of_others_that_the_table_does_not_count_are_found(lake: Lake, position: int) -> None:
    deliver(lake.world, 6)
    lake.run()
    row = pq.read_table(DeltaTable(lake.path).file_uris()[0], partitioning=None).slice(0, 1)
    index = row.column_names.index("stream_position")
    row = row.set_column(index, row.schema.field(index), pa.array([position], pa.int64()))
    limits = {"stream_position": position}
    add_file(lake, row, {"numRecords": 0, "minValues": limits, "maxValues": limits, "nullCount": {"stream_position": 0}}, {})
    with pytest.raises(LakeChanged, match=r"file theirs.parquet has 1 messages, stream positions .*; version 2 says 0"):
        verify_lake(lake.export, InProcess())


def test_a_file_in_a_partition_of_others_is_found(lake: Lake) -> None:
    lake.configure(partition_by="key")
    send_with_key(lake.world, "k1")
    lake.run()
    table = DeltaTable(lake.path)
    (file,) = pa.table(table.get_add_actions()).to_pylist()
    log = Path(lake.path) / "_delta_log" / f"{table.version():020}.json"
    log.write_text(log.read_text().replace('"key_partition":"k1"', '"key_partition":"k2"'))
    with pytest.raises(LakeChanged, match=rf"file {file['path']} has messages of partitions k1; version 1 says k2"):
        verify_lake(lake.export, InProcess())


def test_the_login_of_an_export_needs_the_roles_that_the_pages_name(lake: Lake) -> None:
    """docs/lake.md and docs/rights.md: an export a driver and consumer, `verify-lake` a consumer alone."""
    deliver(lake.world, 5)
    owner, role = read_service(STORE), f"exporter_{os.getpid()}"
    lake.world.query(STORE, f"create role {role} login password 'secret'")

    def log_in(*roles: str) -> None:
        """As the login with these roles and no others."""
        break_service(STORE, user=owner["user"], password=owner["password"])
        lake.world.query(STORE, f"revoke relaybox_driver, relaybox_consumer from {role}")
        lake.world.query(STORE, f"grant {', '.join(roles)} to {role}")
        break_service(STORE, user=role, password="secret")

    try:
        log_in("relaybox_driver")
        with pytest.raises(StoreUnusable, match="permission denied"):
            lake.run()
        log_in("relaybox_driver", "relaybox_consumer")
        assert lake.run().messages == 5
        log_in("relaybox_consumer")
        assert verify_lake(lake.export, InProcess()).is_equal
    finally:
        break_service(STORE, user=owner["user"], password=owner["password"])
        lake.world.query(STORE, f"drop role {role}")
