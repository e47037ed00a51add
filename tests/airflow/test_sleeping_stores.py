"""A store without work is looked at less and less often; a message, a NOTIFY and a repaired server end the wait in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing

import pytest

from relaybox.airflow import store_watch
from relaybox.airflow.run_triggers import HopPoll
from relaybox.airflow.store_watch import WORK_OF_HOPS, poll_store
from relaybox.airflow.triggers import HopWorkTrigger
from relaybox.routes import Watch
from tests.support.patience import patience
from tests.support.world import World, routes_file, wait_until

SESSIONS = "select count(*) from pg_stat_activity where application_name = 'relaybox watch' and datname = current_database()"
LONG_SECONDS = 3600.0
"""A pause that no test waits for: whatever comes before its end was not waited for."""

Polls = AsyncGenerator[Mapping[str, HopPoll]]


def watch(test: Callable[[Polls], Awaitable[None]], how: Watch) -> None:
    """Runs a test beside the watch of the first store."""

    async def run() -> None:
        async with aclosing(poll_store("relaybox_airline", WORK_OF_HOPS, watch=how)) as polls:
            await test(polls)

    asyncio.run(run())


async def next_poll(polls: Polls) -> HopPoll:
    return (await asyncio.wait_for(anext(polls), patience(20)))["flights/1"]


async def after_a_pause_began(polls: Polls, moment: Callable[[], object]) -> HopPoll:
    """The poll that follows `moment`, which happens while the watch waits."""
    pending = asyncio.ensure_future(anext(polls))
    done, _ = await asyncio.wait({pending}, timeout=0.3)
    assert not done, "the watch does not wait"
    await asyncio.to_thread(moment)
    return (await asyncio.wait_for(pending, patience(20)))["flights/1"]


def test_a_notify_ends_the_wait(connected: World) -> None:
    """With the message, in one transaction of the application, or alone; also the second and the third time."""

    def send_and_notify() -> None:
        with connected.session() as session, session.cursor() as cursor:
            cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'a')")
            cursor.execute("notify relaybox_work")
            session.commit()

    async def test(polls: Polls) -> None:
        assert not (await next_poll(polls)).has_work
        assert (await after_a_pause_began(polls, send_and_notify)).has_work
        await asyncio.to_thread(connected.transfer)
        for _ in range(2):
            assert not (await after_a_pause_began(polls, lambda: connected.query("airline", "notify relaybox_work"))).has_work

    watch(test, Watch(LONG_SECONDS, LONG_SECONDS))


def test_a_notify_on_another_channel_or_of_another_database_does_not(connected: World) -> None:
    async def test(polls: Polls) -> None:
        await next_poll(polls)
        pending = asyncio.ensure_future(anext(polls))
        await asyncio.to_thread(connected.query, "airline", "notify relaybox_walk")
        await asyncio.to_thread(connected.query, "hub", "notify relaybox_work")
        done, _ = await asyncio.wait({pending}, timeout=0.5)
        assert not done
        pending.cancel()
        await asyncio.wait({pending})

    watch(test, Watch(LONG_SECONDS, LONG_SECONDS))


def test_many_notifies_are_few_polls(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that notifies with each message does not make the triggerer spin."""
    monkeypatch.setattr(store_watch, "NOTIFIED_GAP_SECONDS", LONG_SECONDS)

    async def test(polls: Polls) -> None:
        await next_poll(polls)
        for _ in range(100):
            await asyncio.to_thread(connected.query, "airline", "notify relaybox_work")
        first = asyncio.ensure_future(anext(polls))
        done, _ = await asyncio.wait({first}, timeout=0.5)
        assert not done, "it waits for more before it looks"
        first.cancel()
        await asyncio.wait({first})

    watch(test, Watch(LONG_SECONDS, LONG_SECONDS))


def test_a_store_that_may_sleep_has_no_session_while_it_does(connected: World) -> None:
    """Pauses grow; a short one keeps the session, a long one closes it."""

    async def test(polls: Polls) -> None:
        await next_poll(polls)
        assert await asyncio.to_thread(connected.value, "airline", SESSIONS) == 1
        await next_poll(polls)
        pending = asyncio.ensure_future(anext(polls))
        await asyncio.to_thread(wait_until, lambda: connected.value("airline", SESSIONS) == 0, "the session is closed")
        assert not pending.done()
        pending.cancel()
        await asyncio.wait({pending})

    watch(test, Watch(0.05, LONG_SECONDS, backoff=100_000.0, listen=False))


def test_a_store_that_listens_keeps_its_session_in_a_long_pause(connected: World) -> None:
    async def test(polls: Polls) -> None:
        await next_poll(polls)
        pending = asyncio.ensure_future(anext(polls))
        await asyncio.wait({pending}, timeout=0.5)
        assert await asyncio.to_thread(connected.value, "airline", SESSIONS) == 1
        pending.cancel()
        await asyncio.wait({pending})

    watch(test, Watch(LONG_SECONDS, LONG_SECONDS))


def test_a_message_in_a_sleeping_store_is_seen_at_the_end_of_the_pause(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any NOTIFY; the session was closed meanwhile."""
    monkeypatch.setattr(store_watch, "MAX_IDLE_SECONDS", 0.1)

    async def test(polls: Polls) -> None:
        assert not (await next_poll(polls)).has_work
        await asyncio.to_thread(connected.send, "a")
        while not (await next_poll(polls)).has_work:
            pass

    watch(test, Watch(0.3, 0.6, listen=False))


def test_a_session_that_ends_in_a_pause_is_opened_again(connected: World) -> None:
    """A provider that suspends a store ends its sessions. The watch notices at once, and does not wait for its next look."""
    end = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'relaybox watch' and datname = current_database()"

    async def test(polls: Polls) -> None:
        await next_poll(polls)

        def end_and_send() -> None:
            assert connected.query("airline", end) == [(True,)]
            connected.send("a")

        assert (await after_a_pause_began(polls, end_and_send)).has_work

    watch(test, Watch(LONG_SECONDS, LONG_SECONDS))


def test_a_trigger_of_before_the_pace_still_reads(connected: World) -> None:
    """A row of Airflow's database that an older version wrote, and one of each pace: an edit of the file makes a new stream."""
    old = HopWorkTrigger(hop="flights/1", connection="relaybox_airline", patience_seconds=0.0, poll_seconds=1.0)
    assert (old.max_poll_seconds, old.listen) == (1.0, True)
    keys = {
        HopWorkTrigger(hop="flights/1", connection="relaybox_airline", **pace).shared_stream_key()  # type: ignore[arg-type]
        for pace in ({}, {"max_poll_seconds": 60}, {"backoff": 3.0}, {"listen": False}, {"poll_seconds": 2})
    }
    assert len(keys) == 5


def test_a_watch_moves_idle_hops_on_where_no_driver_does(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it begins, and after a poll that took long: else each poll would read all that waits for a hop that nobody drives."""
    monkeypatch.setattr(store_watch, "SLOW_ANSWER_SECONDS", LONG_SECONDS)
    connected.send_many(1_200, topic="flights")
    routes_file(connected.path.parent, more_routes={"invoices": {"topics": ["invoices"], "path": ["airline", "hub"]}})
    connected.register()

    def seen() -> list[str]:
        newest = "select pg_snapshot_xmax(lower)::text from relaybox_internal.hop_out where hop in ('flights/1', 'invoices/1') order by hop"
        return [xmax for (xmax,) in connected.query("airline", newest)]

    async def test(polls: Polls) -> None:
        assert (await next_poll(polls)).has_work
        flights, invoices = await asyncio.to_thread(seen)
        assert int(invoices) > int(flights), "the hop that has nothing to move is moved on, and the other is not"
        await asyncio.to_thread(connected.send_many, 1_200, topic="flights")
        await next_poll(polls)
        assert await asyncio.to_thread(seen) == [flights, invoices], "the polls are fast"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_watch, "SLOW_ANSWER_SECONDS", 0.0)
            await next_poll(polls)
        assert int((await asyncio.to_thread(seen))[1]) > int(invoices)

    watch(test, Watch(0.05, 0.05))
