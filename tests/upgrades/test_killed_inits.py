"""`relaybox init` killed between its transactions, in an upgrade of a store of an earlier version: the next init finishes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import invoke, start
from tests.support.patience import patience
from tests.support.world import STORES, World
from tests.upgrades.pictures import restore

pytestmark = pytest.mark.thorough

VERSIONS = "select (max(number) > 18, to_regclass('relaybox_internal.store') is not null)::text from relaybox.migration"
OLDER, UPGRADED = "(f,f)", "(t,t)"


@pytest.fixture
def older(databases: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three stores of 892d821, with messages in flight."""
    assert set(databases) == set(STORES)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    return restore("892d821", tmp_path)


def test_the_next_init_finishes(older: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first store is upgraded, without its new segments; the others are not. Both kinds work, and after the next init all arrives."""
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", "outbox_segments.made=kill")
    killed = start("init")
    killed.communicate(timeout=patience(120))
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    assert killed.returncode == -9
    assert [older.value(store, VERSIONS) for store in ("airline", "analytics", "hub")] == [UPGRADED, OLDER, OLDER]
    older.send("after the kill")
    older.query("analytics", "select count(*) from relaybox.fetch('billing', 1, worker => 'one')")
    for command in ("init", "transfer flights/1", "transfer flights/2", "confirm flights"):
        done = invoke(*command.split())
        assert done.exit_code == 0, (command, done.stdout, done.stderr)
    verified = invoke("verify", "flights")
    assert (verified.exit_code, "nothing is wrong" in verified.stdout) == (3, True), (
        "a held message waits for an index never sent"
    )
    assert sorted(older.payloads("flights/2")) == sorted(older.sent())
