"""The trigger that fires when messages wait for a subscription: it only looks, and one look serves all triggers of a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from airflow.providers.common.messaging.triggers.msg_queue import MessageQueueTrigger
from airflow.providers_manager import ProvidersManager
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager

from relaybox.airflow.subscription_trigger import SubscriptionTrigger
from relaybox.consumer import Consumer
from tests.airflow.connections import change_connection
from tests.support.patience import patience
from tests.support.streams import STORE, deliver
from tests.support.world import World

POLL_SECONDS = 0.05
LOOKS = 20
SILENCE_SECONDS = LOOKS * POLL_SECONDS
DEADLINE_SECONDS = 20.0

Events = AsyncGenerator[TriggerEvent]


def made(subscription: str = "billing") -> BaseEventTrigger:
    """As a DAG author makes it, by the scheme of the queue."""
    return MessageQueueTrigger(
        scheme="relaybox", relaybox_conn_id="relaybox_hub", subscription=subscription, poll_seconds=POLL_SECONDS
    ).trigger


async def next_event(events: Events) -> TriggerEvent:
    return await asyncio.wait_for(anext(events), patience(DEADLINE_SECONDS))


def fires(trigger: BaseEventTrigger) -> bool:
    """Whether one of the first twenty looks fires. They are counted: how long they take says how busy the machine is."""

    async def first_looks() -> AsyncIterator[Any]:
        _, kwargs = trigger.serialize()
        async with aclosing(trigger.open_shared_stream(kwargs)) as looks:  # type: ignore[type-var]
            for _ in range(LOOKS):
                yield await anext(looks)  # type: ignore[call-overload]

    async def run() -> bool:
        async with (
            asyncio.timeout(patience(DEADLINE_SECONDS)),
            aclosing(first_looks()) as looks,
            aclosing(trigger.filter_shared_stream(looks)) as events,  # type: ignore[type-var]
        ):
            async for _ in events:
                return True
        return False

    return asyncio.run(run())


@pytest.fixture
def subscribed(connected: World) -> World:
    deliver(connected, 2)
    for subscription in ("billing", "audit"):
        connected.query(STORE, "select relaybox.subscribe(%s, 'flights', lanes => 4)", subscription)
    with Consumer(STORE, "billing", until_empty=True) as consumer:
        consumer.run(lambda connection, message: None)
    return connected


def test_messages_that_wait_fire_and_nothing_is_fetched(subscribed: World) -> None:
    """The event tells the subscription. A consumer that has done everything, in all four lanes, ends the firing."""

    async def run() -> None:
        async with aclosing(made().run()) as events:  # type: ignore[type-var]
            pending = asyncio.ensure_future(next_event(events))
            done, _ = await asyncio.wait({pending}, timeout=SILENCE_SECONDS)
            assert not done, "an event although nothing waits"
            await asyncio.to_thread(deliver, subscribed, 3)
            assert (await pending).payload == {"subscription": "billing"}

    cursors = "select * from relaybox_internal.cursor order by subscription_id, lane"
    asyncio.run(run())
    before = subscribed.query(STORE, cursors)
    assert fires(made())
    assert subscribed.query(STORE, cursors) == before
    with Consumer(STORE, "billing", until_empty=True) as consumer:
        consumer.run(lambda connection, message: None)
    assert consumer.acknowledged_count == 3
    assert not fires(made())


def test_messages_that_a_worker_has_do_not_fire(subscribed: World) -> None:
    subscribed.query(STORE, "select relaybox.subscribe('single', 'flights', start => 'earliest')")
    subscribed.query(STORE, "select relaybox.fetch('single', 1, worker => 'w')")
    assert not fires(made("single"))
    token = subscribed.value(STORE, "select token from relaybox.fetch('single', 1, worker => 'w')")
    subscribed.query(STORE, "select relaybox.release('single', %s)", token)
    assert fires(made("single"))


def test_a_worker_that_has_one_lane_silences_no_other(subscribed: World) -> None:
    """It may be dead, or busy for hours."""
    subscribed.query(STORE, "select relaybox.fetch('audit', 1, worker => 'w')")
    assert subscribed.value(STORE, "select leased_lanes from relaybox.subscriptions where subscription = 'audit'") == 1
    assert fires(made("audit"))


def test_a_subscription_that_is_not_there_is_said_once_and_waited_for(
    subscribed: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="relaybox")
    assert not fires(made("later"))
    assert [line for line in caplog.messages if line.startswith("subscription_not_seen")] == [
        "subscription_not_seen connection=relaybox_hub subscription=later"
    ]
    subscribed.query(STORE, "select relaybox.subscribe('later', 'flights')")
    assert fires(made("later"))


@pytest.mark.parametrize("role", ["relaybox_consumer", "relaybox_viewer", "relaybox_driver"])
def test_each_login_that_sees_the_subscription_will_do(subscribed: World, monkeypatch: pytest.MonkeyPatch, role: str) -> None:
    subscribed.query(STORE, f"create role tests_watcher login password 'p' in role {role}")
    change_connection(monkeypatch, "RELAYBOX_HUB", login="tests_watcher", password="p")
    try:
        assert fires(made("audit"))
    finally:
        subscribed.query(STORE, "drop owned by tests_watcher; drop role tests_watcher")


def test_many_triggers_of_a_store_share_one_session(connected: World) -> None:
    """In Airflow's own manager of shared streams."""
    names = [f"s{number}" for number in range(50)]
    for name in names:
        connected.query(STORE, "select relaybox.subscribe(%s, 'flights')", name)
    deliver(connected, 1)
    sessions = "select count(*) from pg_stat_activity where application_name = 'relaybox subscription watch' and datname = current_database()"

    async def run() -> int:
        manager = SharedStreamManager()
        triggers = [made(name) for name in names]
        streams = [
            trigger.filter_shared_stream(manager.subscribe(trigger_id=number, trigger=trigger, key=trigger.shared_stream_key()))
            for number, trigger in enumerate(triggers)
        ]
        events = await asyncio.wait_for(asyncio.gather(*(anext(one) for one in streams)), patience(DEADLINE_SECONDS))
        assert [event.payload["subscription"] for event in events] == names
        count = await asyncio.to_thread(connected.value, STORE, sessions)
        await manager.stop_all()
        return int(count)

    assert asyncio.run(run()) == 1


def test_the_trigger_comes_back_from_its_serialized_form() -> None:
    """What is kept of the author's trigger is ours: the triggerer needs no common.messaging."""
    trigger = MessageQueueTrigger(scheme="relaybox", relaybox_conn_id="relaybox_hub", subscription="billing")
    path, kwargs = trigger.serialize()
    assert path == "relaybox.airflow.subscription_trigger.SubscriptionTrigger"
    assert SubscriptionTrigger(**kwargs).serialize() == trigger.serialize()


def test_the_provider_names_the_queue() -> None:
    assert "relaybox.airflow.messaging.RelayboxMessageQueueProvider" in ProvidersManager().queue_class_names
