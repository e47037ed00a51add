"""Spark Connect: nothing goes on after a task that was killed or lost, and a server that dies is told. A real server each."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors

from relaybox.airflow.assets import log_asset
from relaybox.airflow.operators.transfer import HopTransferOperator
from relaybox.errors import SparkFailed
from relaybox.local.clusters import find_free_port
from tests.airflow.conftest import REPOSITORY
from tests.airflow.connect_server import connect_server
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

SLICES = 60
RUN_ENDS_SECONDS = 30.0
"""No work goes on so long after its task."""

SLOW_RECEIPTS = """
create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(1); return new; end $$;
create trigger slow before insert on relaybox_internal.receipt for each row execute function public.slow();
"""
SLOWER_RECEIPTS = """
create or replace function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(6); return new; end $$
"""
FAST_RECEIPTS = "drop trigger slow on relaybox_internal.receipt"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service file of the module's server; each test writes its own there."""
    return tmp_path_factory.mktemp("connect") / "services"


@pytest.fixture(scope="module")
def server(services: Path) -> Iterator[int]:
    """Its settings are Spark's own: work whose client vanished is kept for five minutes."""
    with connect_server(services.with_name("server.log"), service_file=services) as port:
        yield port


@pytest.fixture
def slow(connected: World, services: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One batch of 60 slices, each of which takes a second: half a minute on the two cores of the server."""
    shutil.copy(os.environ["PGSERVICEFILE"], services)
    connected.change_route(runner="spark", limits={"batch_rows": 600, "slice_rows": 10})
    connected.send_many(10 * SLICES)
    connected.query("hub", SLOW_RECEIPTS)
    return connected


def lead_to(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark_connect", "host": "127.0.0.1", "port": port})
    )


@contextmanager
def task_process(world: World, *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The first try of the transfer task, in a process of its own, that has copied slices."""
    command = [sys.executable, "-m", "tests.airflow.connect_task", str(world.path), "1"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=output, stderr=output)
    try:
        wait_until(lambda: copied(world) >= 2, "slices are copied", deadline_seconds=patience(120))
        yield process
    finally:
        process.kill()
        process.wait()


def copied(world: World) -> int:
    return int(world.value("hub", "select count(*) from relaybox_internal.receipt"))


def copying(world: World) -> int:
    """Sessions that copy a slice."""
    return int(
        world.value("hub", "select count(*) from pg_stat_activity where application_name like 'relaybox flights/1 b%% s%% a%%'")
    )


def assert_work_ends(world: World, *, within_seconds: float = RUN_ENDS_SECONDS) -> None:
    """No session copies any more, and no slice comes after that; and it was not just that all was done."""
    started = time.monotonic()
    quiet_since, before = started, copied(world)
    while time.monotonic() - quiet_since < 4:  # a slice takes one second
        now = copied(world)
        if now != before or copying(world):
            quiet_since, before = time.monotonic(), now
        assert time.monotonic() - started < within_seconds + 4, f"{now} of {SLICES} slices are copied, and it goes on"
        time.sleep(0.1)
    assert before < SLICES


def run_next_try(world: World) -> HopTransferOperator:
    hop = world.first_hop
    task = HopTransferOperator(task_id="transfer", hop=hop, routes_text=world.routes.text, outlets=[log_asset(hop)])
    instance = SimpleNamespace(dag_id="killed", run_id=str(world.path), try_number=2)
    task.execute({"ti": instance, "outlet_events": OutletEventAccessors(), "params": {}})
    return task


def test_a_task_that_is_told_to_end_leaves_no_work_on_the_server(
    slow: World, server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it is marked failed: Airflow sends SIGTERM, and SIGKILL five seconds later."""
    lead_to(server, monkeypatch)
    with task_process(slow, log=tmp_path / "task.log") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience(20)) != 0
        assert_work_ends(slow)
    log = (tmp_path / "task.log").read_text()
    assert "spark_work_interrupted" in log
    assert "SparkFailed" in log


def test_the_next_try_ends_the_work_of_a_task_that_was_killed(
    slow: World, server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that is killed with -9 can't; its try left a session that the next one names."""
    lead_to(server, monkeypatch)
    with task_process(slow, log=tmp_path / "task.log") as process:
        process.kill()
        process.wait()
        slow.query("hub", FAST_RECEIPTS)
        caplog.set_level("INFO", logger="relaybox")
        run_next_try(slow)
    assert [line for line in caplog.messages if line.startswith("spark_work_interrupted") and "of_try=1" in line]
    assert copying(slow) == 0
    assert slow.log_positions() == list(range(1, 10 * SLICES + 1))


def test_a_server_with_our_setting_ends_the_work_of_a_task_that_nobody_follows(
    slow: World, services: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time that docs/spark.md gives: no next try is needed."""
    settings = {
        "spark__connect__execute__manager__detachedTimeout": "15s",
        "spark__connect__execute__manager__maintenanceInterval": "5s",
    }
    with connect_server(tmp_path / "server.log", service_file=services, **settings) as port:
        lead_to(port, monkeypatch)
        with task_process(slow, log=tmp_path / "task.log") as process:
            process.kill()
            process.wait()
            slow.query("hub", SLOWER_RECEIPTS)
            assert_work_ends(slow, within_seconds=patience(RUN_ENDS_SECONDS))


def test_a_server_that_dies_fails_the_task_and_the_next_try_succeeds(
    slow: World, services: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not after minutes: the log says that it is silent, the limit ends the wait, and a server that is back has lost the session."""
    monkeypatch.setattr("relaybox.spark.connect.SERVER_PATIENCE_SECONDS", 6.0)
    monkeypatch.setattr("relaybox.spark.connect.LOGGED_EVERY_SECONDS", 1.0)
    caplog.set_level("INFO", logger="relaybox")
    port = find_free_port()
    lead_to(port, monkeypatch)
    with ExitStack() as stack:
        stack.enter_context(connect_server(tmp_path / "server.log", port=port, service_file=services))

        def kill() -> None:
            wait_until(lambda: copied(slow) >= 2, "slices are copied", deadline_seconds=patience(120))
            os.kill(int((tmp_path / "server.pid").read_text()), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        hop = slow.first_hop
        task = HopTransferOperator(task_id="transfer", hop=hop, routes_text=slow.routes.text, outlets=[log_asset(hop)])
        instance = SimpleNamespace(dag_id="killed", run_id=str(slow.path), try_number=1)
        with pytest.raises(SparkFailed, match=rf"Spark Connect server 127\.0\.0\.1:{port}: .*") as failed:
            task.execute({"ti": instance, "outlet_events": OutletEventAccessors(), "params": {}})
        killer.join()
    assert "If the server is down, start it" in str(failed.value)
    assert [line for line in caplog.messages if line.startswith("spark_server_silent")]
    slow.query("hub", FAST_RECEIPTS)
    with connect_server(tmp_path / "server2.log", port=port, service_file=services):
        run_next_try(slow)
    assert slow.log_positions() == list(range(1, 10 * SLICES + 1))


def test_a_setting_that_the_server_refuses_is_told(
    connected: World, server: int, services: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of executors is the server's; and so are deploy mode and queue of no server."""
    shutil.copy(os.environ["PGSERVICEFILE"], services)
    lead_to(server, monkeypatch)
    connected.send("one")
    connected.change_route(runner="spark", spark={"conf": {"spark.executor.memory": "2g"}})
    with pytest.raises(
        AirflowFailException, match=r"it refused spark\.conf\.spark\.executor\.memory: .*Take it out of relaybox\.yaml"
    ):
        run_next_try(connected)
    connected.change_route(runner="spark", spark={"queue": "etl"})
    with pytest.raises(AirflowFailException, match=r"spark\.deploy_mode and spark\.queue are for spark-submit"):
        run_next_try(connected)
    connected.change_route(runner="spark", spark={"conf": {"spark.sql.shuffle.partitions": "3"}})
    run_next_try(connected)
    assert connected.payloads() == ["one"]
