"""No row is read before its plan is durable, nothing confirmed before its arrival is (hazard E4b: a cancelled wait for a
standby looks like success).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from relaybox import errors
from relaybox.hops.batch_rows import read_batch
from relaybox.hops.publishing import ask_destination, publish_batch
from tests.support.patience import patience
from tests.support.world import World, wait_until

WAITING = "select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name like '%% driver'"

PROBE_WAITS = "select pid from pg_stat_activity where wait_event = 'SyncRep' and pid = %s"


@pytest.fixture(params=["airline", "hub"])
def dead_standby(world: World, request: pytest.FixtureRequest) -> Iterator[str]:
    """A store, the source or the destination, that waits for a synchronous standby that does not exist."""
    world.transfer()  # its stores record each other's id: COMMITs that only the first run makes
    world.send("a", "b")
    _set_standby(world, request.param, "'nobody'")
    try:
        yield request.param
    finally:
        _set_standby(world, request.param, "''")


def _set_standby(world: World, store: str, names: str) -> None:
    with world.session(store, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("set synchronous_commit = local")
        cursor.execute(f"alter system set synchronous_standby_names = {names}")
        cursor.execute("select pg_reload_conf()")
    is_waited_for = names != "''"
    wait_until(lambda: _commit_waits(world, store) == is_waited_for, "the setting is in force")


def _commit_waits(world: World, store: str) -> bool:
    """Whether a COMMIT waits for the standby: the checkpointer tells that to the others, some time after they have the setting."""
    with world.session(store, autocommit=True) as connection, ThreadPoolExecutor(1) as pool:
        pid, waits = connection.info.backend_pid, False
        with connection.cursor() as cursor:
            committed = pool.submit(cursor.execute, "select pg_logical_emit_message(true, 'probe', '')")

            def has_ended() -> bool:
                nonlocal waits
                waits = waits or bool(world.query(store, f"select pg_cancel_backend(pid) from ({PROBE_WAITS}) w", pid))
                return committed.done()

            wait_until(has_ended, "the COMMIT of the probe ends")
            committed.result()
    return waits


def _transfer_with_cancelled_wait(world: World, store: str) -> None:
    """Runs the first hop; every COMMIT of its driver that waits for the standby of a store is cancelled."""
    waits = []

    def cancel_waits() -> bool:
        waits.extend(world.query(store, f"select pg_cancel_backend(pid) from ({WAITING}) w"))
        return run.done()

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(world.transfer)
        wait_until(cancel_waits, "the run ends")
        with pytest.raises(errors.NotDurable, match="canceling wait for synchronous replication"):
            run.result()
    assert waits != []


@pytest.mark.parametrize("dead_standby", ["airline"], indirect=True)
def test_commit_that_returns_with_a_warning_is_refused(world: World, dead_standby: str) -> None:
    """The wait is cancelled: COMMIT returns, the plan is visible, and still nothing of the batch is read."""
    _transfer_with_cancelled_wait(world, dead_standby)
    assert world.value("airline", "select count(*) from relaybox_internal.batch") == 1
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 0
    _set_standby(world, dead_standby, "''")
    summary = world.transfer()
    assert summary.resumed_count == 1
    assert world.payloads() == ["a", "b"]


@pytest.mark.parametrize("dead_standby", ["hub"], indirect=True)
def test_an_arrival_that_may_not_be_durable_is_not_confirmed_by_the_next_driver_either(world: World, dead_standby: str) -> None:
    """The batch is visible at the destination; the next driver makes it durable before the source is told."""
    for _ in range(3):  # publishing waits first, then the decision on the batch, then only who confirms
        _transfer_with_cancelled_wait(world, dead_standby)
        assert world.payloads() == ["a", "b"]
        assert world.value("airline", "select count(*) from relaybox_internal.confirmation") == 0
    _set_standby(world, dead_standby, "''")
    world.transfer()
    assert world.value("airline", "select count(*) from relaybox_internal.confirmation where state = 'received'") == 1


HIDDEN = {
    "by the role": "alter role current_user in database {database} set client_min_messages = error",
    "by the database": "alter database {database} set client_min_messages = error",
    "by a function in the middle of the transaction": """
        create function relaybox.hide() returns trigger language plpgsql
        as 'begin perform set_config(''client_min_messages'', ''error'', false); return null; end';
        create trigger hides after insert or update on relaybox_internal.{table} for each statement execute function relaybox.hide()
        """,
}


@pytest.mark.parametrize("dead_standby", ["airline", "hub"], indirect=True)
@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_g7_a_cancelled_wait_can_not_be_hidden(world: World, dead_standby: str, hide: str) -> None:
    """A role, a database or a function that asks for errors only does not make `received` of a COMMIT that nobody waited for."""
    with world.session(dead_standby, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("set synchronous_commit = local")
        table = {"airline": "batch", "hub": "arrival"}[dead_standby]
        cursor.execute(hide.format(database=connection.info.dbname, table=table))
    _transfer_with_cancelled_wait(world, dead_standby)
    assert world.value("airline", "select count(*) from relaybox_internal.confirmation") == 0
    assert world.value("hub", "select count(*) from relaybox_internal.log") == {"airline": 0, "hub": 2}[dead_standby]


@pytest.mark.parametrize("dead_standby", ["hub"], indirect=True)
def test_publishing_again_waits_again(world: World, dead_standby: str) -> None:
    """An idempotent publish that found its arrival writes nothing new, and still must not be taken for durable."""
    _transfer_with_cancelled_wait(world, dead_standby)
    hop = world.first_hop
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        batch = read_batch(source, hop.name, 1)
        cancel = ThreadPoolExecutor(1).submit(_cancel_when_waiting, world, destination.connection.info.backend_pid)
        with pytest.raises(errors.NotDurable):
            publish_batch(destination, hop, batch, log_id=ask_destination(destination, hop).log_id)
        cancel.result(patience(30))


def _cancel_when_waiting(world: World, pid: int) -> None:
    waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and pid = %s"
    wait_until(lambda: world.value("hub", waiting, pid) == 1, "publish waits for the standby")
    world.query("hub", "select pg_cancel_backend(%s)", pid)
