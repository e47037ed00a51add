"""The tasks of the DAGs, each with a login that is a member of relaybox_driver and owns nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.context import OutletEventAccessors

from relaybox.airflow.dags.retention import build_retention_dag
from relaybox.airflow.dags.verify import build_verify_dag
from relaybox.airflow.naming import APPROVE_TASK_ID, SHOW_TASK_ID
from relaybox.airflow.operators.redrive import DeadLettersOperator, RedriveOperator
from relaybox.airflow.operators.replay import ReplayCountOperator, ReplayOperator
from relaybox.airflow.operators.settle import HopSettleOperator
from relaybox.airflow.operators.skip import GapOperator, SkipOperator
from relaybox.airflow.operators.transfer import HopTransferOperator
from relaybox.subscriptions import replays, subscriptions
from relaybox.subscriptions.replays import ReplayRequest, ask_replay, second_cursor
from tests.airflow.answers import APPROVED, answered
from tests.airflow.connections import change_connection
from tests.airflow.deferred import execute
from tests.support.senders import declare, send_numbered
from tests.support.services import break_service
from tests.support.world import STORES, World

DRIVER = "driver_of_the_dags"
STORE = "analytics"
FORM = {"store": STORE, "subscription": "billing", "reason": "a test", "start": "1", "rows_per_second": 1000}


@pytest.fixture
def driven(connected: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Small segments and a subscription; every connection of Airflow logs in as the driver, services as the owner."""
    connected.cut_small_segments()
    connected.change_route(retention={"replay_window_seconds": 0})
    connected.query(STORE, "select relaybox.subscribe('billing', 'flights', start => 'earliest')")
    for store in STORES:
        connected.query(
            store,
            f"drop role if exists {DRIVER}; "
            f"create role {DRIVER} login password 'p' in role relaybox_driver, pg_read_all_stats, pg_signal_backend",
        )
    for store in connected.routes.stores.values():
        change_connection(monkeypatch, store.connection.upper(), login=DRIVER, password="p")
    return connected


def run(operator: Any, pulled: Mapping[str, Any] | None = None, run_id: str = "a_run", **params: object) -> Any:
    """Executes one task of a run whose earlier tasks gave what is `pulled`."""
    found = answered({APPROVE_TASK_ID: APPROVED, **(pulled or {})})
    ti = SimpleNamespace(
        dag_id="a_dag",
        run_id=run_id,
        try_number=1,
        get_previous_ti=lambda **_: None,
        xcom_pull=lambda *, task_ids: found[task_ids],
    )
    dag_run = SimpleNamespace(dag_id="a_dag", run_id=run_id, run_type="manual", clear_number=0, triggering_user_name="ada")
    context = {"ti": ti, "outlet_events": OutletEventAccessors(), "params": {**FORM, **params}, "dag_run": dag_run}
    return execute(operator, context)


def move(world: World) -> None:
    for hop in world.route.hops:
        run(HopTransferOperator(task_id="transfer", hop=hop, routes_text=world.routes.text), linger_seconds=0)


@contextmanager
def reading(world: World, cursor_name: str) -> Iterator[list[int]]:
    """A consumer beside the task, in a session of its own login: the task's service file counts for the whole process."""
    read: list[int] = []
    ended = threading.Event()

    def consume() -> None:
        while not ended.wait(0.05):
            cursor.execute("select count(*) from relaybox.subscriptions where subscription = %s", (cursor_name,))
            if cursor.fetchone() == (0,):
                continue
            cursor.execute("select stream_position, token from relaybox.fetch(%s, 100, worker => 'reader')", (cursor_name,))
            for stream_position, token in cursor.fetchall():
                read.append(stream_position)
                cursor.execute("select relaybox.ack(%s, %s, token => %s)", (cursor_name, stream_position, token))

    with world.session(STORE, autocommit=True) as session, session.cursor() as cursor:
        reader = threading.Thread(target=consume, name=f"reader of {cursor_name}")
        reader.start()
        try:
            yield read
        finally:
            ended.set()
            reader.join()


def as_driver() -> None:
    break_service(STORE, user=DRIVER, password="p")


def test_transfer_confirm_verify_and_retention(driven: World) -> None:
    driven.send_many(25)
    move(driven)
    driven.query(STORE, "select relaybox.unsubscribe('billing', 'read it all')")
    for hop in reversed(driven.route.hops):
        assert run(HopSettleOperator(task_id="settle", route=driven.route, hop=hop))["through_position"] == 25
    verified = run(build_verify_dag(driven.routes)["relaybox_verify"].get_task("verification.flights"), route="flights")
    assert (verified["outcome"], verified["sent"]) == ("delivered", 25)
    retention = build_retention_dag(driven.routes)["relaybox_retention"]
    dropped = [
        line["dropped_count"]
        for store in STORES
        for line in run(retention.get_task(f"retain_{store}"), store="every store", dry_run=False)
    ]
    assert sum(dropped) > 0


def test_a_replay_is_counted_read_and_read_again(driven: World) -> None:
    """A second cursor counts for no quota of the driver: none is left to a login without rights of its own."""
    driven.query(STORE, "select relaybox.set_consumer_quota(0, 0)")
    driven.send_many(5)
    move(driven)
    counted = run(ReplayCountOperator(task_id="count", route=driven.route), through="3")
    assert (counted["first_stream_position"], counted["last_stream_position"], counted["message_count"]) == (1, 3, 3)
    for through in ("3", "5"):
        with reading(driven, second_cursor("billing")) as stream_positions:
            done = run(ReplayOperator(task_id="replay", route=driven.route), run_id=f"through {through}", through=through)
        assert (done["replayed_as"], done["done_stream_position"]) == ("billing.replay", int(through))
        assert stream_positions == list(range(1, int(through) + 1))
    assert driven.query(STORE, "select count(*) from relaybox_internal.consumer_quota where role_name = %s", DRIVER) == [(0,)]
    assert driven.value(STORE, "select array_agg(distinct done_by) from relaybox.consumer_action where action = 'replay'") == [
        DRIVER
    ]


def test_a_replay_is_cancelled(driven: World) -> None:
    driven.send_many(5)
    move(driven)
    as_driver()
    store = driven.routes.store(STORE)
    asked = ask_replay(store, ReplayRequest("billing", "1", "3", "a test", "billing.replay", "a run"))
    assert asked.state == "begun"
    subscriptions.cancel_replay(store, "billing.replay", reason="a mistake")
    assert replays.read_progress(store, asked.replay or 0).is_cancelled


def test_dead_letters_are_redriven(driven: World) -> None:
    driven.send("bad")
    move(driven)
    driven.query(STORE, "update relaybox_internal.subscription set nack_limit = 1")
    with driven.session(STORE, autocommit=True) as consumer, consumer.cursor() as cursor:
        cursor.execute("select token from relaybox.fetch('billing', 1, worker => 'w')")
        (token,) = cursor.fetchone()
        cursor.execute("select relaybox.nack('billing', 1, 'bad', %s)", (token,))
    shown = run(DeadLettersOperator(task_id=SHOW_TASK_ID, route=driven.route))
    assert run(RedriveOperator(task_id="redrive", route=driven.route), {SHOW_TASK_ID: shown}) == {"redriven": 1}


def test_a_gap_is_skipped(driven: World) -> None:
    driven.change_route(order="fifo")
    declare(driven, "pump")
    send_numbered(driven, "pump", 1, 3)
    move(driven)
    shown = run(GapOperator(task_id=SHOW_TASK_ID, routes=driven.routes, route=driven.route), sender="pump", through=None)
    assert shown["through"] == 2
    run(SkipOperator(task_id="skip", route=driven.route), {SHOW_TASK_ID: shown}, sender="pump")
    assert driven.value(STORE, "select last_stream_position from relaybox_internal.stream") == 2
