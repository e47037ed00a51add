"""Views and functions that hide messages from hops: each transfer and status name them, and after init every message arrives."""

from __future__ import annotations

import time

import psycopg2
import pytest

from relaybox import errors
from relaybox.hops.changed_readers import refuse_changed_readers
from relaybox.stores.opening import open_store
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.world import World

HIDE_ROWS = """
do $$ begin execute 'create or replace view relaybox_internal.sent_rows as '
    || rtrim(pg_get_viewdef('relaybox_internal.sent_rows'::regclass), ';') || ' where o.payload <> ''hidden'''; end $$
"""
VIEW = "view relaybox_internal.sent_rows"


def test_a_hop_moves_nothing_while_the_view_of_the_outbox_hides_messages(world: World) -> None:
    """Before, transfer and status exited with 0, and the hidden message was passed by. After init the hop moves it."""
    world.send("before")
    world.transfer_all()
    world.query("airline", HIDE_ROWS)
    world.send("hidden", "seen")
    with pytest.raises(errors.OutboxChanged, match=VIEW) as refused:
        world.transfer()
    assert refused.value.next_step == "Run: relaybox init airline"
    done = invoke("transfer", "flights/1")
    assert (done.exit_code, f"{VIEW}. No hop moves its messages" in " ".join(done.stderr.split())) == (5, True)
    status = invoke("status")
    assert status.exit_code != 0
    assert VIEW in " ".join((status.stdout + status.stderr).split())
    assert invoke("init", "airline").exit_code == 0
    world.transfer_all()
    assert world.payloads("flights/2") == ["before", "hidden", "seen"]
    assert invoke("verify", "flights").exit_code == 0


def test_a_driver_that_runs_looks_at_the_view_before_each_batch(world: World) -> None:
    """Its session began before the change: the server itself refuses, with the SQLSTATE of it."""
    lock = "select batch from relaybox_internal.lock_hop('flights/1')"
    assert world.value("airline", lock) == 0
    world.query("airline", HIDE_ROWS)
    with pytest.raises(psycopg2.Error, match=r"relaybox_internal.sent_rows is not as init made it") as refused:
        world.value("airline", lock)
    assert refused.value.pgcode == "RB009"
    world.query("airline", "update relaybox_internal.installed_object set made_on = 13 where kind = 'view'")
    assert world.value("airline", lock) == 0, "another version of Postgres writes views in its own way"


@pytest.mark.parametrize(
    ("store", "function"), [("airline", "scan_fresh_rows"), ("hub", "deliver_next"), ("airline", "refuse_changed_view")]
)
def test_a_hop_moves_nothing_while_a_function_that_finds_messages_is_changed(world: World, store: str, function: str) -> None:
    """Of either store of the hop. A function that no hop uses stops none."""
    world.send("a")
    world.query(store, "alter function relaybox.lag(text) volatile")
    world.transfer()
    signature = world.value(store, "select oid::regprocedure::text from pg_proc where proname = %s", function)
    world.query(store, f"alter function {signature} set enable_indexscan = off")
    world.send("b")
    with pytest.raises(errors.OutboxChanged, match=rf"store {store}: .*function relaybox_internal.{function}\("):
        world.transfer()
    assert invoke("init", store).exit_code == 0
    world.transfer()
    assert world.payloads() == ["a", "b"]


def test_the_look_costs_a_driver_little(world: World) -> None:
    """Once for each of its two sessions."""
    session = open_store(world.routes.store("airline"), application_name="test")
    try:
        best = min(_seconds(session) for _ in range(5))
    finally:
        session.close()
    print(f"{best * 1000:.1f} ms")
    assert best < patience(0.1), best


def _seconds(session: StoreSession) -> float:
    began = time.perf_counter()
    refuse_changed_readers(session)
    return time.perf_counter() - began
