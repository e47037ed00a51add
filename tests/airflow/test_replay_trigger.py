"""The trigger in which a replay waits, on real stores: one session for all replays of a store, whatever becomes of it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import aclosing
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.shared_stream import SharedStreamManager

from relaybox.airflow.operators.replay import ReplayOperator
from relaybox.airflow.replay_trigger import ReplayTrigger
from relaybox.subscriptions.subscriptions import cancel_replay
from tests.airflow.connections import change_connection
from tests.airflow.deferred import execute
from tests.support.patience import patience
from tests.support.streams import ack, deliver, fetch
from tests.support.world import World, wait_until

STORE = "hub"
SESSIONS = (
    "select count(*) from pg_stat_activity where application_name = 'relaybox replay watch' and datname = current_database()"
)
POLL_SECONDS, LONG_SECONDS = 0.05, 3600.0
CURSORS = 20


@pytest.fixture
def five(connected: World) -> World:
    """5 messages that `billing` has acknowledged."""
    deliver(connected, 5)
    connected.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    fetch(connected, 5)
    ack(connected, 5)
    return connected


def begin(world: World, cursor: str = "again") -> int:
    """A second cursor reads 1 to 3; returns the number of the range."""
    query = "select replay from relaybox_internal.ask_replay('billing', %s, '1', '3', 'a test', %s)"
    return int(world.value(STORE, query, cursor, f"asker of {cursor}"))


def read_through(world: World, stream_position: int, cursor: str = "again") -> None:
    fetch(world, stream_position, cursor)
    ack(world, stream_position, cursor)


def trigger(replay: int, cursor: str = "again", **options: Any) -> ReplayTrigger:
    pace = {"poll_seconds": POLL_SECONDS, "max_poll_seconds": POLL_SECONDS, "backoff": 2.0, **options}
    return ReplayTrigger(connection="relaybox_hub", cursor=cursor, replay=replay, **pace)


def fires_after(waiting: ReplayTrigger, *moments: Callable[[], object]) -> dict[str, Any]:
    """Does one thing after the other while the trigger waits; it fires after the last one, and not before."""

    async def run() -> Any:
        async with aclosing(waiting.run()) as events:
            pending = asyncio.ensure_future(anext(events))
            for moment in moments:
                done, _ = await asyncio.wait({pending}, timeout=20 * POLL_SECONDS)
                assert not done, "it fired while its range is read"
                await asyncio.to_thread(moment)
            return (await asyncio.wait_for(pending, patience(20))).payload

    fired: dict[str, Any] = asyncio.run(run())
    return fired


def test_it_fires_when_the_last_message_is_acknowledged(five: World) -> None:
    replay = begin(five)
    fired = fires_after(trigger(replay), lambda: read_through(five, 2), lambda: read_through(five, 3))
    assert fired == {"cursor": "again", "replay": replay}


def test_it_fires_when_the_replay_is_cancelled(five: World) -> None:
    replay = begin(five)
    store = five.routes.store(STORE)
    assert fires_after(trigger(replay), lambda: cancel_replay(store, "again", reason="a mistake"))["replay"] == replay


def test_it_fires_at_once_for_a_range_that_was_read_while_no_triggerer_ran(five: World) -> None:
    """It is asked what the store says now, and waits for no event: a triggerer that was killed has missed nothing."""
    replay = begin(five)
    read_through(five, 3)
    assert fires_after(trigger(replay))["replay"] == replay


def test_a_store_that_ends_the_session_or_refuses_it_is_asked_again(five: World, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = begin(five)
    good = os.environ["AIRFLOW_CONN_RELAYBOX_HUB"]
    end = f"select pg_terminate_backend(pid) from pg_stat_activity where {SESSIONS.partition('where ')[2]}"
    monkeypatch.setattr("relaybox.airflow.store_watch.FIRST_DELAY_SECONDS", POLL_SECONDS)

    def lose_session() -> None:
        wait_until(lambda: five.value(STORE, SESSIONS) == 1, "the store is watched")
        change_connection(monkeypatch, "RELAYBOX_HUB", password="wrong", login="nobody_of_this_name")
        assert five.query(STORE, end) == [(True,)]

    def repair() -> None:
        monkeypatch.setenv("AIRFLOW_CONN_RELAYBOX_HUB", good)

    assert fires_after(trigger(replay), lose_session, lambda: read_through(five, 3), repair)["replay"] == replay


def test_all_replays_of_a_store_cost_one_session(five: World) -> None:
    """In Airflow's own manager of shared streams. Each fires for its own range; the session ends with the last one."""
    replays = {f"again{number}": begin(five, f"again{number}") for number in range(CURSORS)}

    async def run() -> list[str]:
        manager = SharedStreamManager()
        keys, waiting = [], {}
        for number, (cursor, replay) in enumerate(replays.items()):
            one = trigger(replay, cursor)
            keys.append(one.shared_stream_key())
            stream = manager.subscribe(trigger_id=number, trigger=one, key=one.shared_stream_key())
            waiting[cursor] = asyncio.ensure_future(anext(one.filter_shared_stream(stream)))
        await asyncio.to_thread(wait_until, lambda: five.value(STORE, SESSIONS) == 1, "the store is watched")
        await asyncio.to_thread(read_through, five, 3, "again7")
        await asyncio.wait_for(waiting["again7"], patience(20))
        assert await asyncio.to_thread(five.value, STORE, SESSIONS) == 1
        fired = [cursor for cursor, one in waiting.items() if one.done()]
        for one in waiting.values():
            one.cancel()
        await manager.stop_all()
        assert len(set(keys)) == 1
        return fired

    assert asyncio.run(run()) == ["again7"]
    wait_until(lambda: five.value(STORE, SESSIONS) == 0, "the session is closed")


def test_a_store_that_may_sleep_has_no_session_while_nobody_reads(five: World) -> None:
    """Pauses grow while no replay moves; a long one closes the session."""
    replay = begin(five)

    async def run() -> None:
        sleepy = trigger(replay, max_poll_seconds=LONG_SECONDS, backoff=100_000.0)
        async with aclosing(sleepy.run()) as events:
            pending = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(wait_until, lambda: five.value(STORE, SESSIONS) == 1, "the store is watched")
            await asyncio.to_thread(wait_until, lambda: five.value(STORE, SESSIONS) == 0, "the session is closed")
            assert not pending.done()
            pending.cancel()
            await asyncio.wait({pending})

    asyncio.run(run())


def test_the_trigger_comes_back_from_its_serialized_form() -> None:
    """What the triggerer reads from Airflow's database: the name of a connection, never what is in it."""
    path, kwargs = trigger(7).serialize()
    assert path == "relaybox.airflow.replay_trigger.ReplayTrigger"
    assert ReplayTrigger(**kwargs).serialize() == (path, kwargs)
    assert "password" not in str(kwargs)


def task(world: World, **options: Any) -> tuple[ReplayOperator, dict[str, Any]]:
    """The task of a replay of 1 to 3, and its context."""
    run = SimpleNamespace(dag_id="a_dag", run_id="a_run", run_type="manual", clear_number=0, triggering_user_name="ada")
    form = {"store": STORE, "subscription": "billing", "cursor": "again", "start": "1", "through": "3", "reason": "a test"}
    context = {"params": {**form, "rows_per_second": 1000}, "dag_run": run, "ti": SimpleNamespace(try_number=1)}
    return ReplayOperator(task_id="replay", route=world.route, **options), context


def test_a_replay_that_was_cancelled_while_it_waited_fails_and_begins_nothing(five: World) -> None:
    """The trigger's event says nothing of the outcome: the task asks the store, which remembers."""
    operator, context = task(five)
    store = five.routes.store(STORE)
    with pytest.raises(AirflowFailException, match="the replay again was cancelled at stream position 0 of 3"):
        execute(operator, context, deferred=lambda _: cancel_replay(store, "again", reason="a mistake"))
    assert five.value(STORE, "select count(*) from relaybox_internal.replay_range") == 1


def test_a_replay_that_airflow_executes_from_its_start_again_goes_on_or_fails(five: World) -> None:
    """The DAG was not there for a moment while the trigger fired. What was cancelled stays so, until the run is cleared."""
    operator, context = task(five)
    context["params"]["through"] = "latest"
    with pytest.raises(TaskDeferred) as first:
        operator.execute(context)
    deliver(five, 2)
    with pytest.raises(TaskDeferred) as again:
        operator.execute(context)
    assert again.value.kwargs["begun"] == first.value.kwargs["begun"]
    cancel_replay(five.routes.store(STORE), "again", reason="a mistake")
    with pytest.raises(AirflowFailException, match="the replay again was cancelled at stream position 0 of 5"):
        operator.execute(context)
    assert five.value(STORE, "select count(*) from relaybox_internal.replay_range") == 1
    context["dag_run"].clear_number = 1
    with pytest.raises(TaskDeferred):
        operator.execute(context)
    assert five.value(STORE, "select count(*) from relaybox_internal.replay_range") == 2
    read_through(five, 7)
    assert operator.execute(context)["done_stream_position"] == 7
    deliver(five, 2)
    assert operator.execute(context)["done_stream_position"] == 7


def test_a_replay_waits_in_the_triggerer_no_longer_than_its_attempt_may(five: World) -> None:
    """However often it wakes in between: Airflow itself limits each wait alone."""
    operator, context = task(five, execution_timeout=timedelta(hours=1))
    with pytest.raises(TaskDeferred) as first:
        operator.execute(context)
    assert timedelta(minutes=59) < first.value.timeout <= timedelta(hours=1)
    kwargs = {**first.value.kwargs, "ends_at": first.value.kwargs["ends_at"] - 3540}
    with pytest.raises(TaskDeferred) as second:
        operator.resume(context, event={}, **kwargs)
    assert second.value.timeout <= timedelta(minutes=1)
    assert second.value.kwargs == kwargs
