"""Exports into an object store: the same steps, commits by conditional puts, and a store that is slow, refuses or dies."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from relaybox.errors import LakeFailed, LakeRefused
from relaybox.routes.export_rules import FORMATS
from relaybox.spark.lake.exporting import Exported
from relaybox.spark.lake.verifying import verify_lake
from tests.faults.proxy import Proxy
from tests.support.lake import CATALOG, EXPORT, InProcess, Lake, section_program
from tests.support.object_store import SECRET, ObjectStore, running_object_store
from tests.support.patience import patience
from tests.support.streams import deliver
from tests.support.world import World


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with running_object_store() as running:
        yield running


def use(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, port: int | None = None) -> None:
    for name, value in store.environment(port).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=FORMATS)
def lake(
    request: pytest.FixtureRequest, world: World, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Lake:
    use(store, monkeypatch)
    monkeypatch.setenv(CATALOG, f"sqlite:///{tmp_path}/catalog.db")
    made = Lake(world, f"s3://lake/{tmp_path.name}/flights", request.param)
    made.configure()
    return made


def first_with(*quick: str) -> pytest.MarkDecorator:
    """All formats; those beside the quick ones are thorough."""
    marked = [pytest.param(name, marks=[] if name in quick else [pytest.mark.thorough]) for name in FORMATS]
    return pytest.mark.parametrize("lake", marked, indirect=True)


def assert_equal(lake: Lake) -> None:
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    for positions in lake.positions_of_versions():
        assert positions == list(range(1, len(positions) + 1))
    assert verify_lake(lake.export, InProcess()).is_equal


def test_an_object_store_has_the_rows_of_the_stream_and_no_secret(lake: Lake) -> None:
    deliver(lake.world, 25)
    assert lake.run() == Exported(EXPORT, lake.path, 1, 25, 3, batches=3, messages=25, files=8)
    deliver(lake.world, 3)
    assert lake.run().first_stream_position == 26
    assert lake.done() == 28
    assert_equal(lake)
    assert lake.found_files() == lake.named_files()
    assert not [name for name, content in lake.objects().items() if SECRET.encode() in content]


@pytest.mark.parametrize("step", ["lake.created", "lake.written", "lake.collected", "lake.committed", "lake_ack.committed"])
@pytest.mark.thorough
def test_g3_an_export_that_is_killed_writes_each_message_once(lake: Lake, step: str) -> None:
    deliver(lake.world, 25)
    lake.kill_at(step)
    lake.run()
    assert_equal(lake)
    assert lake.done() == 25
    assert lake.found_files() == lake.named_files()


@first_with("parquet")
def test_g3_two_runs_at_once_write_each_message_once(lake: Lake) -> None:
    deliver(lake.world, 25)
    with lake.stopped_at("lake.collected") as said:
        lake.run()
    assert "ExportSuperseded" in "".join(said)
    lake.run()
    assert_equal(lake)
    assert lake.found_files() == lake.named_files()


@pytest.mark.parametrize("lake", ["delta", "parquet"], indirect=True)
def test_a_store_that_ignores_the_condition_of_a_put_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(lake.world, 3)
    with running_object_store(ignores_conditions=True) as careless:
        use(careless, monkeypatch)
        with pytest.raises(LakeRefused, match="the object store has no conditional put"):
            lake.run()
        assert lake.objects() == {}
    assert lake.done() == 0


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize(("name", "value"), [("AWS_S3_ALLOW_UNSAFE_RENAME", "true"), ("aws_conditional_put", "disabled")])
def test_a_setting_that_lets_two_runs_commit_is_refused(
    lake: Lake, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(LakeRefused, match=f"{name} is {value}. Then two runs at once could both commit"):
        lake.run()


def failed(lake: Lake, match: str) -> None:
    """The run fails within four minutes, and no secret is in what it says."""
    began = time.monotonic()
    with pytest.raises((LakeFailed, LakeRefused), match=match) as told:
        lake.run()
    assert time.monotonic() - began < patience(240)
    assert SECRET not in f"{told.value!r} {told.value} {told.value.__cause__!r}"


@first_with("delta")
def test_a_store_that_refuses_connections_is_named(lake: Lake, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the beginning, and in the middle of a stream."""
    deliver(lake.world, 5)
    with Proxy("127.0.0.1", store.port) as proxy:
        use(store, monkeypatch, proxy.port)
        lake.run()
        deliver(lake.world, 5)
    failed(lake, r"(lake|table) s3://lake/")
    assert lake.done() == 5
    use(store, monkeypatch)
    assert lake.run().messages == 5
    assert_equal(lake)


def test_a_bucket_that_is_not_there_is_named(lake: Lake) -> None:
    deliver(lake.world, 3)
    lake.configure(path="s3://nowhere/flights")
    failed(lake, "nowhere")


@first_with()
def test_a_store_that_dies_before_a_commit_is_named(lake: Lake, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    deliver(lake.world, 5)
    with ExitStack() as network:
        proxy = network.enter_context(Proxy("127.0.0.1", store.port))
        use(store, monkeypatch, proxy.port)
        with lake.stopped_at("lake.collected") as said:
            network.close()
    assert "LakeFailed" in said[0]
    assert SECRET not in said[0]
    use(store, monkeypatch)
    assert lake.run().messages == 5
    assert_equal(lake)
    assert lake.found_files() == lake.named_files()


@pytest.mark.thorough
def test_g3_a_connection_that_is_cut_anywhere_loses_and_doubles_nothing(
    lake: Lake, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each so many bytes of a run, both directions together: also between a commit and its answer."""
    with Proxy("127.0.0.1", store.port) as proxy:
        use(store, monkeypatch, proxy.port)
        for cut, byte_count in enumerate(range(200, 60_000, 1_500), start=1):
            deliver(lake.world, 5)
            proxy.reset_after(byte_count)
            with suppress(LakeFailed, LakeRefused):
                lake.run()
            proxy.heal()
            lake.run()
            assert lake.done() == 5 * cut
    use(store, monkeypatch)
    assert_equal(lake)


@pytest.mark.thorough
def test_a_store_that_answers_no_more_is_named(lake: Lake, store: ObjectStore) -> None:
    """It accepts connections and answers nothing."""
    deliver(lake.world, 5)
    lake.run()
    deliver(lake.world, 5)
    with store.frozen():
        failed(lake, r"(lake|table) s3://lake/")
    assert lake.done() == 5
    assert lake.run().messages == 5
    assert_equal(lake)


@pytest.mark.parametrize("lake", ["parquet"], indirect=True)
def test_the_program_of_the_page_reads_an_object_store(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The one that reads a directory too."""
    deliver(lake.world, 12)
    lake.run()
    exec(section_program("Parquet").replace("/srv/lake/flights_parquet", lake.path), {})  # noqa: S102
    assert "{'topic': 'flights', 'stream_position_count': 12}" in capsys.readouterr().out
