"""No row of a batch is read before its plan is durable (hazard E4b: a cancelled wait for a standby looks like success)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from relaybox import errors
from tests.world import World, wait_until

WAITING = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and application_name like '%% driver'"


@pytest.fixture
def dead_standby(world: World) -> Iterator[World]:
    """The source waits for a synchronous standby that does not exist."""
    world.send("a", "b")
    _set_standby(world, "'nobody'")
    try:
        yield world
    finally:
        _set_standby(world, "''")


def _set_standby(world: World, names: str) -> None:
    with world.session("airline", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("set synchronous_commit = local")
        cursor.execute(f"alter system set synchronous_standby_names = {names}")
        cursor.execute("select pg_reload_conf()")
    wait_until(
        lambda: world.value("airline", "select current_setting('synchronous_standby_names')") == names.strip("'"),
        "the setting is in force",
    )


def test_commit_that_returns_with_a_warning_is_refused(dead_standby: World) -> None:
    """The wait is cancelled: COMMIT returns, the plan is visible, and still nothing of the batch is read."""
    world = dead_standby
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(world.transfer)
        wait_until(lambda: world.value("airline", WAITING) == 1, "the plan's COMMIT waits for the standby")
        world.query(
            "airline",
            "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep' and application_name like '%% driver'",
        )
        with pytest.raises(errors.NotDurable, match="canceling wait for synchronous replication"):
            run.result(30)
    assert world.value("airline", "select count(*) from relaybox.batch") == 1
    assert world.value("hub", "select count(*) from relaybox.log") == 0
    _set_standby(world, "''")
    summary = world.transfer()
    assert summary.resumed_count == 1
    assert world.payloads() == ["a", "b"]
