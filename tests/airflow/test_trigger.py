"""The trigger that starts a hop when messages lie there, on real stores."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, aclosing, closing
from functools import partial

import pytest
import yaml
from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager

from relaybox.airflow import store_sessions
from relaybox.airflow.triggers import HopWorkTrigger
from relaybox.local.clusters import find_free_port
from relaybox.stores.opening import open_store
from tests.support.patience import patience
from tests.support.world import STORES, World, wait_until

POLL_SECONDS = 0.05
SILENCE_SECONDS = 20 * POLL_SECONDS
DEADLINE_SECONDS = 20.0

Events = AsyncGenerator[TriggerEvent]


def watch(test: Callable[[Events], Awaitable[None]], *, hop: str = "flights/1", connection: str = "relaybox_airline") -> None:
    """Runs a test beside a trigger."""

    async def run() -> None:
        trigger = HopWorkTrigger(hop=hop, connection=connection, poll_seconds=POLL_SECONDS)
        async with aclosing(trigger.run()) as events:
            await test(events)

    asyncio.run(run())


async def next_event(events: Events) -> TriggerEvent:
    return await asyncio.wait_for(anext(events), patience(DEADLINE_SECONDS))


async def nothing_until(events: Events, moment: Callable[[], object]) -> TriggerEvent:
    """Awaits an event while nothing is due; `moment` then makes it due. The event must come after that."""
    pending = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait({pending}, timeout=SILENCE_SECONDS)
    assert not done, "an event that nobody needs"
    await asyncio.to_thread(moment)
    return await asyncio.wait_for(pending, patience(DEADLINE_SECONDS))


def test_stores_that_hang_delay_no_look_at_another(
    connected: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Forty servers take a connection and never answer; the healthy store fires although none of them is given up."""
    monkeypatch.setattr(store_sessions, "LINK_PARAMETERS", {**store_sessions.LINK_PARAMETERS, "connect_timeout": 3600})
    caplog.set_level("INFO", logger="relaybox")
    healthy = json.loads(os.environ["AIRFLOW_CONN_RELAYBOX_AIRLINE"])

    async def run(listener: socket.socket) -> None:
        port, accept = listener.getsockname()[1], partial(asyncio.get_running_loop().sock_accept, listener)
        hung = [f"hung_{number}" for number in range(40)]
        for name in hung:
            monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({**healthy, "port": port}))
        triggers = [
            HopWorkTrigger(hop="flights/1", connection=name, poll_seconds=POLL_SECONDS).run()
            for name in (*hung, "relaybox_airline")
        ]
        pending = [asyncio.ensure_future(anext(events)) for events in triggers]
        try:
            for _ in hung:
                clients.enter_context((await asyncio.wait_for(accept(), patience(DEADLINE_SECONDS)))[0])
            await asyncio.to_thread(connected.send, "one")
            await asyncio.wait_for(pending[-1], patience(DEADLINE_SECONDS))
            assert not [line for line in caplog.messages if line.startswith("store_watch_interrupted")]
        finally:
            for one in pending:
                one.cancel()

    with ExitStack() as clients, socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        listener.setblocking(False)
        asyncio.run(run(listener))


def test_messages_fire_the_trigger_and_an_empty_hop_does_not(connected: World) -> None:
    """Nobody clicks: an insert is enough. The event tells the hop, and no credential."""

    async def test(events: Events) -> None:
        event = await nothing_until(events, lambda: connected.send("one"))
        assert event.payload == {"hop": "flights/1"}

    watch(test)


def test_a_log_that_grew_fires_the_trigger_of_the_hop_that_reads_it(connected: World) -> None:
    """The second hop is watched at the hub."""

    async def test(events: Events) -> None:
        connected.send("one")
        await nothing_until(events, connected.transfer)

    watch(test, hop="flights/2", connection="relaybox_hub")


def test_a_driven_hop_is_left_alone(connected: World) -> None:
    """While a driver is connected there is no event; when it leaves work behind there is one."""

    async def test(events: Events) -> None:
        driver = open_store(connected.first_hop.source, application_name="relaybox flights/1 driver")
        with closing(driver):
            connected.send("one")
            await nothing_until(events, driver.close)

    watch(test)


def test_a_lost_session_is_opened_again(connected: World) -> None:
    """A restart of the store costs a moment, not the watch."""

    async def test(events: Events) -> None:
        await nothing_until(events, lambda: connected.send("one"))
        connected.transfer()
        await nothing_until(events, lambda: (_end_watchers(connected), connected.send("two")))

    watch(test)


def _end_watchers(world: World) -> None:
    ended = world.query(
        "airline",
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'relaybox watch' and datname = current_database()",
    )
    assert ended == [(True,)]


def test_a_connection_that_is_repaired_is_enough(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing Airflow connection, a dead port and an uninitialised store are waited for, with growing delays."""
    variable = "AIRFLOW_CONN_RELAYBOX_AIRLINE"
    good = os.environ[variable]
    monkeypatch.delenv(variable)

    async def test(events: Events) -> None:
        connected.send("one")
        pending = asyncio.ensure_future(next_event(events))
        await asyncio.sleep(0)
        for fields in (
            {**json.loads(good), "port": find_free_port()},
            {**json.loads(good), "schema": "postgres"},
            json.loads(good),
        ):
            await asyncio.wait({pending}, timeout=SILENCE_SECONDS)
            assert not pending.done()
            monkeypatch.setenv(variable, json.dumps(fields))
        assert (await pending).payload == {"hop": "flights/1"}

    watch(test)


def test_hops_of_one_store_share_one_session(connected: World) -> None:
    """The stream of one trigger shows every hop that leaves the store, so that siblings need none of their own."""
    trigger = HopWorkTrigger(hop="flights/1", connection="relaybox_airline", poll_seconds=POLL_SECONDS)
    sibling = HopWorkTrigger(hop="other/1", connection="relaybox_airline", poll_seconds=POLL_SECONDS, patience_seconds=9.0)
    assert trigger.shared_stream_key() == sibling.shared_stream_key()
    assert trigger.shared_stream_key() != HopWorkTrigger(hop="flights/2", connection="relaybox_hub").shared_stream_key()


def test_a_hundred_hops_of_a_store_cost_one_session(connected: World) -> None:
    """In Airflow's own manager of shared streams: each hop gets its event, and one session looks for all."""
    routes = {f"r{number}": {"topics": ["flights"], "path": ["airline", "hub"]} for number in range(100)}
    connected.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    connected.register()
    sessions = "select count(*) from pg_stat_activity where application_name = 'relaybox watch' and datname = current_database()"

    async def run() -> int:
        manager = SharedStreamManager()
        triggers = [
            HopWorkTrigger(hop=hop.name, connection="relaybox_airline", poll_seconds=POLL_SECONDS)
            for hop in connected.routes.hops
        ]
        streams = [
            trigger.filter_shared_stream(manager.subscribe(trigger_id=number, trigger=trigger, key=trigger.shared_stream_key()))
            for number, trigger in enumerate(triggers)
        ]
        await asyncio.to_thread(connected.send, "one")
        events = await asyncio.wait_for(asyncio.gather(*(anext(stream) for stream in streams)), patience(DEADLINE_SECONDS))
        assert [event.payload["hop"] for event in events] == [hop.name for hop in connected.routes.hops]
        count = await asyncio.to_thread(connected.value, "airline", sessions)
        await manager.stop_all()
        return int(count)

    assert asyncio.run(run()) == 1


def test_the_trigger_comes_back_from_its_serialized_form() -> None:
    """What the triggerer reads from Airflow's database: the name of a connection, never what is in it."""
    trigger = HopWorkTrigger(hop="flights/1", connection="relaybox_airline", patience_seconds=3.0)
    path, kwargs = trigger.serialize()
    assert path == "relaybox.airflow.triggers.HopWorkTrigger"
    assert HopWorkTrigger(**kwargs).serialize() == trigger.serialize()
    assert "password" not in str(kwargs)


def test_the_watch_ends_with_its_trigger(connected: World) -> None:
    """A closed trigger leaves no session behind."""

    async def test(events: Events) -> None:
        connected.send("one")
        await next_event(events)

    watch(test)
    watchers = "select count(*) from pg_stat_activity where application_name = 'relaybox watch' and datname = current_database()"
    wait_until(lambda: connected.value("airline", watchers) == 0, "the session is closed")
