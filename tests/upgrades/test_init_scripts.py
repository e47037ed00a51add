"""`relaybox init --sql` at stores that 892d821 made and that are at work: what `relaybox init` makes of them, and nothing is lost."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import invoke
from tests.support.database_dump import dump
from tests.support.init_scripts import init_by_script, picture_of, write_script
from tests.support.patience import patience
from tests.support.psql import run_psql
from tests.support.world import STORES, World, wait_until
from tests.upgrades.pictures import restore

pytestmark = pytest.mark.thorough


@pytest.fixture
def older(databases: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three stores of 892d821, with messages in flight."""
    assert set(databases) == set(STORES)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))
    return restore("892d821", tmp_path)


def test_a_script_upgrades_an_older_store_as_init_does(older: World, tmp_path: Path) -> None:
    """Schema, rights, comments and rows of each store; then the stores are put back and upgraded by init."""
    for store in STORES:
        init_by_script(tmp_path, store)
    by_script = {store: picture_of(older, store) for store in STORES}
    assert invoke("init", "--dry-run").exit_code == 0
    for store in STORES:
        older.query(store, "drop schema relaybox, relaybox_internal cascade")
    restore("892d821", tmp_path)
    done = invoke("init")
    assert done.exit_code == 0, done.stderr
    for store in STORES:
        schema, rows = picture_of(older, store)
        assert schema == by_script[store][0]
        for one, other in zip(rows, by_script[store][1], strict=True):
            assert one == other


def test_a_script_upgrades_beside_a_producer(older: World, tmp_path: Path) -> None:
    """No insert fails; messages in flight and those sent meanwhile arrive once."""
    enough = threading.Event()
    sent: list[str] = []

    def produce() -> None:
        with older.session("airline", autocommit=True) as connection, connection.cursor() as cursor:
            while not enough.wait(0.1):
                cursor.execute(
                    "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'DL', %s)", (f"looped {len(sent)}",)
                )
                sent.append(f"looped {len(sent)}")

    with ThreadPoolExecutor(1) as pool:
        producing = pool.submit(produce)
        try:
            wait_until(lambda: len(sent) > 2, "the producer is at work")
            for store in STORES:
                init_by_script(tmp_path, store)
            before = len(sent)
            wait_until(lambda: len(sent) > before + 2, "the producer goes on")
        finally:
            enough.set()
        producing.result(timeout=patience(60))
    for command in ("transfer flights/1", "transfer flights/2", "confirm flights"):
        done = invoke(*command.split())
        assert done.exit_code == 0, (command, done.stdout, done.stderr)
    assert set(sent) <= set(older.sent())
    assert sorted(older.payloads("flights/2")) == sorted(older.sent())


def test_a_script_refuses_beside_a_driver_of_the_older_version(older: World, tmp_path: Path) -> None:
    """It is named, and the store is as before but for the column that older code does not read."""
    with older.session("hub", autocommit=True) as driver, driver.cursor() as cursor:
        cursor.execute("set application_name = 'relaybox flights/2 driver'")
        first = refused(tmp_path)
        before = dump("hub")
        assert refused(tmp_path).stderr == first.stderr
        assert dump("hub") == before
    assert older.value("hub", "select max(number) from relaybox.migration") == 18
    init_by_script(tmp_path, "hub")


def refused(directory: Path) -> subprocess.CompletedProcess[str]:
    done = run_psql(write_script(directory, "hub"), "hub")
    assert done.returncode == 3
    assert "the previous version cannot go on after migration 0019 backlog" in done.stderr
    assert "it has sessions: relaybox flights/2 driver (pid " in done.stderr
    assert "Stop Airflow and the consumers of the previous version, then run this script again" in done.stderr
    return done
