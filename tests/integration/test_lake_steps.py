"""The steps of an export: files, one commit of the table that moves its position, the acknowledgement. Killed at each, none is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from relaybox.errors import ExportSuperseded, HistoryLost, LakeFailed
from relaybox.failpoints import LAKE_FAILPOINTS
from relaybox.routes.export_rules import FORMATS
from relaybox.spark.frames.ranges import StreamPartition
from relaybox.spark.lake.attempts import new_attempt
from relaybox.spark.lake.exporting import Exported, export_stream
from relaybox.spark.lake.formats import open_table
from relaybox.spark.lake.verifying import verify_lake
from relaybox.spark.lake.writing import Writing, write_range
from tests.support.backups import Backups
from tests.support.lake import CATALOG, EXPORT, STORE, SUBSCRIPTION, InProcess, Lake
from tests.support.streams import deliver
from tests.support.world import World

STEPS_OF_TWO_RUNS = ("lake_subscription.committed", "lake.created", "lake.written", "lake.collected", "lake.committed")
STEPS_OF_FORMATS = ("lake.created", "lake.collected", "lake.committed")
"""Before and after a commit of the table. In the other steps of an export no format does anything of its own."""


def cells(steps: Iterable[str]) -> Iterator[Any]:
    """Each step with each format. Those that test nothing of a second format again are thorough."""
    for of_format in FORMATS:
        for step in steps:
            is_same = of_format != FORMATS[0] and step not in STEPS_OF_FORMATS
            yield pytest.param(of_format, step, marks=[pytest.mark.thorough] if is_same else [])


@pytest.fixture(params=FORMATS)
def lake(request: pytest.FixtureRequest, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setenv(CATALOG, f"sqlite:///{tmp_path}/catalog.db")
    made = Lake(world, str(tmp_path / "lake" / "flights"), request.param)
    made.configure()
    return made


def test_the_table_has_each_column_of_each_message_as_the_stream_has_it(lake: Lake) -> None:
    deliver(lake.world, 25)
    assert lake.run() == Exported(EXPORT, lake.path, 1, 25, 3, batches=3, messages=25, files=8)
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    assert lake.done() == 25
    deliver(lake.world, 3, backwards=True)
    assert lake.run() == Exported(EXPORT, lake.path, 26, 28, 4, batches=1, messages=3, files=1)
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    assert lake.run() == Exported(EXPORT, lake.path, 29, 28, 4)


@pytest.mark.parametrize(("lake", "step"), list(cells(LAKE_FAILPOINTS)), indirect=["lake"])
def test_g3_an_export_that_is_killed_at_any_step_writes_each_message_once(lake: Lake, step: str) -> None:
    """In every version of the table, the stream positions are dense and distinct. What dead attempts left is removed."""
    deliver(lake.world, 25)
    lake.kill_at(step)
    lake.run()
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    for positions in lake.positions_of_versions():
        assert positions == list(range(1, len(positions) + 1))
    assert lake.done() == 25
    assert lake.found_files() == lake.named_files()


@pytest.mark.thorough
def test_g3_an_export_that_is_killed_before_any_call_for_a_file_writes_each_message_once(lake: Lake) -> None:
    """Each file that it opens, flushes, links or removes. The first kills are in the making of the table."""
    number = 0
    while True:
        deliver(lake.world, 13)
        number += 1
        is_killed = lake.is_killed_at_call(number)
        lake.run()
        assert [row["stream_position"] for row in lake.rows()] == list(range(1, 13 * number + 1)), f"killed at call {number}"
        assert lake.done() == 13 * number
        assert lake.found_files() == lake.named_files()
        if not is_killed:
            break
    assert number > 5
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    for positions in lake.positions_of_versions():
        assert positions == list(range(1, len(positions) + 1))
    assert verify_lake(lake.export, InProcess()).is_equal


@pytest.mark.parametrize(("lake", "step"), list(cells(STEPS_OF_TWO_RUNS)), indirect=["lake"])
def test_g3_two_runs_at_once_write_each_message_once(lake: Lake, step: str) -> None:
    """One run stands still while the other one does it all. Each removes what is dead, and nothing of the other."""
    deliver(lake.world, 25)
    with lake.stopped_at(step) as said:
        lake.run()
        assert lake.done() == 25
    assert "ExportSuperseded" in "".join(said)
    lake.run()
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    for positions in lake.positions_of_versions():
        assert positions == list(range(1, len(positions) + 1))
    assert lake.found_files() == lake.named_files()


def test_g3_a_run_whose_batch_another_run_has_committed_commits_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it sees that before its commit, or the format does at the commit."""
    deliver(lake.world, 10)
    export, store_id = lake.export, lake.world.value("hub", "select store_id::text from relaybox_internal.store")
    table = open_table(export, store_id)
    lake.kill_at("lake.created")
    state = table.read()
    assert state is not None
    attempt = new_attempt(state.position)
    writing = Writing("hub", "flights", lake.path, attempt.name, "none", splits_empty_keys=table.splits_empty_keys)
    files = write_range(writing, StreamPartition(store_id, 1, 10))
    stale = table.load()
    lake.run()
    with pytest.raises(ExportSuperseded, match="began at stream position 1, but the table ends at stream position 10"):
        table.commit(attempt, 10, files)
    looks = iter([stale])  # the same between its look at the table and its commit: the format refuses
    newest = table.load
    monkeypatch.setattr(table, "load", lambda: next(looks, None) or newest())
    with pytest.raises(ExportSuperseded, match="the table ends at stream position 10"):
        table.commit(attempt, 10, files)
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    assert not (Path(lake.path) / attempt.name).exists()


def test_g11_a_store_that_was_restored_and_has_grown_since_is_refused(lake: Lake, backups: Backups) -> None:
    """It has other messages at stream positions that the table has. A run that was killed before its acknowledgement is told apart."""
    deliver(lake.world, 12)
    lake.run()
    early = backups.take(STORE)
    deliver(lake.world, 8)
    lake.run()
    backups.restore(STORE, early)
    deliver(lake.world, 15, backwards=True)
    before = lake.rows()
    with pytest.raises(HistoryLost, match="stream positions 13 to 16, which the table of export flights_lake has, differ at 13"):
        lake.run()
    assert (lake.rows(), lake.done()) == (before, 12)
    lake.world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'a mistake')")
    with pytest.raises(HistoryLost, match="differ at"):
        lake.run()


def test_an_export_whose_subscription_was_ended_goes_on_where_the_table_ends(lake: Lake) -> None:
    deliver(lake.world, 6)
    lake.run()
    lake.world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'a mistake')")
    assert lake.run().messages == 0
    deliver(lake.world, 3)
    assert lake.run().first_stream_position == 7


@pytest.mark.parametrize("partition_by", ["day", "key"])
def test_a_partitioned_table_is_verified(lake: Lake, partition_by: str) -> None:
    """Keys with the letters of paths and URLs, no key, an empty key; a day before 1970."""
    lake.configure(partition_by=partition_by)
    deliver(lake.world, 5)
    keys = ["a/b é%=", None, "", "__HIVE_DEFAULT_PARTITION__", "k"]
    for position, key in enumerate(keys, 1):
        lake.world.query(STORE, "update relaybox_internal.log set key = %s where log_position = %s", key, position)
    lake.world.query(STORE, "update relaybox_internal.log set sent_at = '1969-12-31 23:59:59.5+00' where log_position = 2")
    lake.run()
    assert [row["key"] for row in lake.rows()] == keys
    assert verify_lake(lake.export, InProcess()).is_equal


class OnAnotherDisk(InProcess):
    """Executors for whom the path is another directory: the driver does not see what they have written there."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        done = super().collect(description, items, task)
        for directory in self.path.glob("*relaybox-after-*"):
            directory.rename(self.path.with_name(directory.name))
        return done


def test_files_that_the_driver_does_not_see_are_not_committed(lake: Lake) -> None:
    deliver(lake.world, 6)
    with pytest.raises(LakeFailed, match=r"an executor has written _?relaybox-after-0-.*does not see that"):
        export_stream(lake.export, OnAnotherDisk(lake.path))
    assert (lake.rows(), lake.done()) == ([], 0)
    assert lake.run().messages == 6


class Failing(InProcess):
    """The disk is full after the first file."""

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        task(items[0])
        raise LakeFailed("no space left")


def test_a_batch_that_failed_leaves_no_files(lake: Lake) -> None:
    deliver(lake.world, 6)
    for _ in range(3):
        with pytest.raises(LakeFailed, match="no space left"):
            export_stream(lake.export, Failing())
    assert not list(Path(lake.path).glob("*relaybox-after-*"))
    assert lake.run().messages == 6
