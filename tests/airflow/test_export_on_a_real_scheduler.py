"""A real scheduler exports a stream with real Spark: started by the messages themselves, each once, whatever is killed or cleared."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest

from relaybox.local.clusters import Cluster
from relaybox.routes.export_rules import FORMATS
from relaybox.spark.lake.verifying import verify_lake
from tests.airflow.system import ARRIVE_SECONDS, System, driver_jvms, running_system
from tests.support.lake import CATALOG, STORE, InProcess, Lake
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

HELD = "lake.collected"
RETRIES = {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1}
ROUTE = {"runner": "threads"}


def name_of(of_format: str) -> str:
    return f"flights_{of_format}"


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    lake = tmp_path_factory.mktemp("lake")
    exports = {
        name_of(of_format): {
            "stream": "flights",
            "store": STORE,
            "to": of_format,
            "path": str(lake / of_format),
            "batch_messages": 1000,
            "file_messages": 400,
            "retries": RETRIES,
            **({"table": "lake.flights"} if of_format == "iceberg" else {}),
        }
        for of_format in FORMATS
    }
    catalog = {CATALOG: f"sqlite:///{lake}/catalog.db"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(CATALOG, catalog[CATALOG])
        with running_system(
            clusters, tmp_path_factory.mktemp("system"), route=ROUTE, exports=exports, pauses=(HELD,), environment=catalog
        ) as running:
            yield running


def dag_id(of_format: str) -> str:
    return f"relaybox_export__{name_of(of_format)}"


def lake_of(system: System, of_format: str) -> Lake:
    return Lake(system.world, system.world.routes.export(name_of(of_format)).path, of_format, name_of(of_format))


def newest(system: System) -> int:
    query = "select coalesce(max(stream_position), 0) from relaybox.read_stream('flights', 0, 1000000)"
    return int(system.world.value(STORE, query))


def wait_until_acknowledged(system: System, of_format: str, last: int) -> None:
    query = "select coalesce(max(done_stream_position), 0) from relaybox.subscriptions where subscription = %s"

    def acknowledged() -> int:
        return int(system.world.value(STORE, query, f"export.{name_of(of_format)}"))

    wait_until(
        lambda: newest(system) >= last and acknowledged() >= last,
        f"{name_of(of_format)} is acknowledged through {last}",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.5,
        progress=acknowledged,
    )


def assert_once(system: System, of_format: str) -> None:
    lake = lake_of(system, of_format)
    assert [tuple(row.values()) for row in lake.rows()] == lake.stream()
    for positions in lake.positions_of_versions():
        assert positions == list(range(1, len(positions) + 1))
    assert verify_lake(lake.export, InProcess()).is_equal


def test_messages_start_the_exports_and_are_in_each_table(system: System) -> None:
    """An insert at the first store is all that an application does."""
    system.world.send_many(2500)
    for of_format in FORMATS:
        wait_until_acknowledged(system, of_format, 2500)
        assert_once(system, of_format)
    system.world.send_many(10, prefix="more-")
    for of_format in FORMATS:
        wait_until_acknowledged(system, of_format, 2510)
        assert_once(system, of_format)


@pytest.mark.parametrize("of_format", FORMATS)
@pytest.mark.parametrize("what", ["driver", "task"])
def test_g3_a_killed_run_writes_nothing_twice(system: System, of_format: str, what: str) -> None:
    """All processes of Spark's driver, or the process of the Airflow task, by SIGKILL: the next try writes the batch."""
    system.wait_until_quiet()
    last = newest(system) + 500
    with system.held(HELD):
        system.world.send_many(500, prefix=f"{what}-")
        driver = system.wait_for_driver(name_of(of_format))
        for pid in driver.processes if what == "driver" else [driver.task]:
            os.kill(pid, signal.SIGKILL)
    for other in FORMATS:
        wait_until_acknowledged(system, other, last)
        assert_once(system, other)
    system.wait_until_quiet()
    assert driver_jvms(name_of(of_format)) == []
    lake = lake_of(system, of_format)
    assert lake.found_files() == lake.named_files()


@pytest.mark.parametrize("of_format", FORMATS)
def test_g3_a_cleared_task_writes_nothing_twice(system: System, of_format: str) -> None:
    system.wait_until_quiet()
    before = lake_of(system, of_format).version()
    run = next(run["dag_run_id"] for run in reversed(system.runs(dag_id(of_format))) if run["state"] == "success")
    cleared = {"dag_run_id": run, "dry_run": False, "only_failed": False}
    system.client.post(f"dags/{dag_id(of_format)}/clearTaskInstances", cleared)
    wait_until(
        lambda: system.client.get(f"dags/{dag_id(of_format)}/dagRuns/{quote(run, safe='')}")["state"] == "success",
        "the cleared run has ended",
        deadline_seconds=patience(ARRIVE_SECONDS),
        poll_seconds=0.5,
    )
    assert lake_of(system, of_format).version() == before
    assert_once(system, of_format)
