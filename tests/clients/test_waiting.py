"""A consumer of each library waits for a notification: what wakes it, what ends its rest, and where it polls instead."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import Queue
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from relaybox import aio, consumer
from relaybox.aio import stopping as aio_stopping
from relaybox.consumer import Message, session, stopping
from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from tests.support.libraries import LIBRARIES, Library, each, finish, url, with_each_async_library, with_each_library
from tests.support.patience import patience
from tests.support.services import break_service
from tests.support.streams import STORE, deliver
from tests.support.world import World, routes_file, wait_until

FOREVER = 3600.0
"""Seconds: longer than any test, so that nothing but what it tests ends a rest."""
DELAY_SECONDS = 1800
LET_THE_DELAY_PASS = (
    (
        "update relaybox_internal.log set headers = jsonb_build_object("
        "'relaybox-deliver-after', (headers ->> 'relaybox-deliver-after')::numeric - %s)"
    ),
    "update relaybox_internal.cursor set due_at = due_at - make_interval(secs => %s)",
    "update relaybox_internal.dead_letter set due_at = due_at - make_interval(secs => %s)",
)
"""Of the one message that is delayed, wherever the store keeps when it is due."""
SESSIONS = (
    "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
)


@pytest.fixture
def shop(world: World) -> World:
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', 'latest')")
    return world


class Rests(list[float]):
    """How long each rest that waits for a notification may last, in seconds, as they begin; `before` is called first."""

    def begin(self, seconds: float) -> float:
        """Returns how long the rest lasts at most."""
        self.append(seconds)
        self.before()
        return seconds if seconds == FOREVER else self.shorten(seconds)

    def before(self) -> None:
        pass

    def shorten(self, seconds: float) -> float:
        return seconds


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> Rests:
    begun = Rests()
    wait, wait_async = stopping.StopEvent.wait_for_notification, aio_stopping.StopEvent.wait_for_notification

    def rest(event: stopping.StopEvent, listener: Any, seconds: float) -> None:
        wait(event, listener, begun.begin(seconds))

    async def rest_async(event: aio_stopping.StopEvent, listener: Any, seconds: float) -> None:
        await wait_async(event, listener, begun.begin(seconds))

    monkeypatch.setattr(stopping.StopEvent, "wait_for_notification", rest)
    monkeypatch.setattr(aio_stopping.StopEvent, "wait_for_notification", rest_async)
    return begun


class Worker:
    """A consumer in a thread of its own. `handled` has the payloads."""

    def __init__(self, library: Library, store: Any = None, **options: Any) -> None:
        self._library, self._store = library, store
        self._options = {"poll_seconds": FOREVER, "backoff_seconds": 0.01, **options}
        self.handled = Queue[str | None]()
        self.failure: BaseException | None = None
        self._stop: Callable[[], object] = lambda: None
        self.is_begun = threading.Event()
        self._thread = threading.Thread(target=self._consume)

    async def _handle(self, connection: Any, message: Message) -> None:
        await self._library.execute(connection, "select 1")
        self.handled.put(message.payload)

    def _consume(self) -> None:
        try:
            self._library.run(self._run())
        except BaseException as error:  # noqa: BLE001  # told by the test
            self.failure = error
            self.is_begun.set()

    async def _run(self) -> None:
        store = self._store or self._library.store(STORE, pooled=True)  # in this thread: Django's connections are a thread's own
        if self._library.is_async:
            async with aio.Consumer(store, "billing", **self._options) as worker:
                loop = asyncio.get_running_loop()
                self._begin(lambda: loop.call_soon_threadsafe(worker.stop))
                await worker.run(self._handle)
        else:
            with consumer.Consumer(store, "billing", **self._options) as worker:
                self._begin(worker.stop)
                worker.run(lambda connection, message: finish(self._handle(connection, message)))

    def _begin(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self.is_begun.set()

    def start(self) -> None:
        self._thread.start()
        assert self.is_begun.wait(patience(30))

    def end(self) -> None:
        if self.failure is None:
            self._stop()
        self._thread.join(patience(30))
        assert not self._thread.is_alive(), "the rest did not end at stop()"
        if self.failure is not None:
            raise self.failure

    def next(self) -> str | None:
        return self.handled.get(timeout=patience(30))


@contextmanager
def working(library: Library, store: Any = None, **options: Any) -> Iterator[Worker]:
    """Runs a worker; its rests last for an hour. Behind a pooler it prepares nothing."""
    worker = Worker(library, store, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.end()


def begin_rest(rests: Rests, count: int = 0) -> None:
    """Waits until more than so many rests have begun."""
    wait_until(lambda: len(rests) > count, "the worker rests")


@with_each_library
def test_a_batch_wakes_a_consumer_of_each_library(shop: World, library: Library, rests: Rests) -> None:
    with working(library) as worker:
        begin_rest(rests)
        for payload in ("a", "b", "c"):
            shop.send(payload)
            shop.transfer()
            assert worker.next() == payload
    assert set(rests) == {FOREVER}


@with_each_library
@pytest.mark.parametrize("delayed", ["hold", "pass"])
def test_a_consumer_of_each_library_wakes_up_when_a_message_is_due(
    world: World, library: Library, rests: Rests, delayed: str
) -> None:
    """Nobody notifies then: the store says how long to rest. While the worker rests, the time of the delay passes in the store."""
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', 'latest', delayed => %s)", delayed)
    handled_before: list[int] = []

    def let_the_delay_pass(seconds: float) -> float:
        if not handled_before:
            handled_before.append(worker.handled.qsize())
            for statement in LET_THE_DELAY_PASS:
                world.query(STORE, statement, DELAY_SECONDS)
        return max(0.0, seconds - DELAY_SECONDS)

    rests.shorten = let_the_delay_pass
    with working(library) as worker:
        begin_rest(rests)
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', 'late',"
            " jsonb_build_object('relaybox-deliver-after', extract(epoch from clock_timestamp()) + %s))",
            DELAY_SECONDS,
        )
        world.transfer()
        assert worker.next() == "late"
    assert handled_before == [0]
    assert next(seconds for seconds in rests if seconds != FOREVER) <= DELAY_SECONDS + 0.1


@with_each_library
@pytest.mark.parametrize("moment", ["before it listens", "before it asks how long", "before it waits"])
def test_what_is_delivered_on_the_way_to_the_rest_ends_it(
    shop: World, library: Library, rests: Rests, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """After the fetch that found nothing. The store does not help: it says that a rest may last for an hour."""
    rest_forever = "select relaybox.listen(cast({subscription} as text)), cast({longest} as double precision)"
    monkeypatch.setattr(session, "_REST", rest_forever)
    is_delivered = threading.Event()
    listen, rest = session.ConsumerSession.listen, session.ConsumerSession.rest

    def deliver_once() -> None:
        if not is_delivered.is_set():
            is_delivered.set()
            shop.send("early")
            shop.transfer()

    def deliver_and_listen(of: session.ConsumerSession) -> Any:
        deliver_once()
        return listen(of)

    def deliver_and_rest(of: session.ConsumerSession, *given: Any) -> Any:
        deliver_once()
        return rest(of, *given)

    if moment == "before it listens":
        monkeypatch.setattr(session.ConsumerSession, "listen", deliver_and_listen)
    elif moment == "before it asks how long":
        monkeypatch.setattr(session.ConsumerSession, "rest", deliver_and_rest)
    else:
        monkeypatch.setattr(rests, "before", deliver_once)
    with working(library) as worker:
        assert worker.next() == "early"


@with_each_library
def test_a_session_that_ends_while_it_waits_is_followed_by_one_that_listens(shop: World, library: Library, rests: Rests) -> None:
    with working(library) as worker:
        begin_rest(rests)
        for payload in ("a", "b"):
            count = len(rests)
            assert shop.query(STORE, f"select pg_terminate_backend(pid, 10000) {SESSIONS}")
            begin_rest(rests, count)
            shop.send(payload)
            shop.transfer()
            assert worker.next() == payload
            begin_rest(rests, count + 1)


@with_each_library
@pytest.mark.parametrize("source", ["trains", "flights"])
def test_a_subscription_that_began_again_is_heard_on_its_new_stream(
    shop: World, library: Library, rests: Rests, source: str
) -> None:
    """It ended while its worker rested. On the same stream it begins at the start, so that there is something to fetch at once."""
    routes_file(shop.path.parent, more_routes={"trains": {"topics": ["trains"], "path": ["airline", STORE]}})
    shop.register()
    shop.send("old")
    shop.transfer()
    with working(library) as worker:
        assert worker.next() == "old"
        begin_rest(rests)
        count = len(rests)
        shop.query(STORE, "select relaybox.unsubscribe('billing')")
        shop.query(STORE, f"select relaybox.subscribe('billing', '{source}')")
        if source == "flights":
            assert worker.next() == "old"
        begin_rest(rests, count)
        for payload in ("a", "b"):
            shop.send(payload, topic=source)
            shop.transfer(shop.routes.hop(f"{source}/1"))
            assert worker.next() == payload


@with_each_library
def test_stop_ends_a_rest_and_leaves_no_session(shop: World, library: Library, rests: Rests) -> None:
    with working(library) as worker:
        begin_rest(rests)
    assert worker.failure is None
    wait_until(lambda: shop.value(STORE, f"select count(*) {SESSIONS}") == 0, "the session has ended")


@with_each_library
def test_sigterm_ends_a_rest(shop: World, library: Library, rests: Rests) -> None:
    """In the main thread, as a program of its own."""

    def terminate() -> None:
        begin_rest(rests)
        os.kill(os.getpid(), signal.SIGTERM)

    async def scenario() -> None:
        options = {"poll_seconds": FOREVER}
        store = library.store(STORE)
        if library.is_async:
            async with aio.Consumer(store, "billing", handles_signals=True, **options) as worker:
                await worker.run(fail)
        else:
            with consumer.Consumer(store, "billing", **options) as worker:
                worker.run(lambda connection, message: finish(fail(connection, message)))

    async def fail(connection: Any, message: Message) -> None:
        raise AssertionError("handled")

    sender = threading.Thread(target=terminate)
    sender.start()
    library.run(scenario())
    sender.join()
    assert len(rests) == 1


@with_each_async_library
def test_a_cancelled_rest_ends_at_once_and_its_session_too(shop: World, library: Library, rests: Rests) -> None:
    async def scenario() -> None:
        async def fail(connection: Any, message: Message) -> None:
            raise AssertionError("handled")

        task = asyncio.create_task(library.consume(STORE, fail, until_empty=False, poll_seconds=FOREVER))
        async with asyncio.timeout(patience(30)):
            while not rests:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    library.run(scenario())
    wait_until(lambda: shop.value(STORE, f"select count(*) {SESSIONS}") == 0, "the session has ended")


@with_each_library
def test_a_session_that_may_not_idle_for_long_looks_before_it_is_ended(shop: World, library: Library, rests: Rests) -> None:
    """idle_session_timeout of the role: half of it is the longest rest. The sessions that Relaybox opens have none."""
    database = shop.value(STORE, "select quote_ident(current_database())")
    shop.query(STORE, f"alter role current_user in database {database} set idle_session_timeout = '20min'")
    try:
        with working(library):
            begin_rest(rests)
    finally:
        shop.query(STORE, f"alter role current_user in database {database} reset idle_session_timeout")
    assert rests == [FOREVER if library.name == "psycopg2, libpq service" else 600.0]


@each(library for library in LIBRARIES)
def test_behind_a_pooler_nobody_listens_and_all_poll(
    shop: World, clusters: Mapping[str, Cluster], library: Library, rests: Rests
) -> None:
    """The pooler would give the session, with what it hears, to others."""
    pooler = PgBouncer(clusters[STORE], "transaction", pool_size=1)
    pooler.start()
    break_service(STORE, port=str(pooler.port))
    try:
        with working(library, poll_seconds=0.05) as worker:
            deliver(shop, 2)
            assert worker.next() is not None
            assert worker.next() is not None
            with psycopg.connect(service=STORE) as lent:
                assert lent.execute("select count(*) from pg_listening_channels()").fetchone() == (0,)
    finally:
        break_service(STORE, port=str(clusters[STORE].port))
        pooler.remove()
    assert rests == []


@with_each_library
def test_with_listen_false_a_consumer_polls(shop: World, library: Library, rests: Rests) -> None:
    with working(library, poll_seconds=0.05, listen=False) as worker:
        shop.send("polled")
        shop.transfer()
        assert worker.next() == "polled"
    assert rests == []


def test_a_session_that_listened_does_not_go_back_to_a_pool_of_an_event_loop(shop: World, rests: Rests) -> None:
    library = next(library for library in LIBRARIES if library.name == "SQLAlchemy with asyncpg")

    async def scenario() -> None:
        engine = create_async_engine(url(STORE, "asyncpg"), pool_size=1)
        async with aio.Consumer(engine, "billing", poll_seconds=FOREVER) as worker:
            task = asyncio.create_task(worker.run(fail))
            async with asyncio.timeout(patience(30)):
                while not rests:
                    await asyncio.sleep(0.01)
            worker.stop()
            await task
        async with engine.connect() as connection:
            channels = await connection.execute(sqlalchemy.text("select pg_listening_channels()"))
            assert channels.fetchall() == []
        await engine.dispose()

    async def fail(connection: Any, message: Message) -> None:
        raise AssertionError("handled")

    library.run(scenario())


def test_a_connection_of_asyncpg_s_pool_listens_too(shop: World, rests: Rests) -> None:
    async def scenario() -> None:
        pool = await asyncpg.create_pool(url(STORE, "asyncpg").replace("+asyncpg", ""), min_size=0, max_size=1)
        handled: list[str | None] = []

        async def handle(connection: Any, message: Message) -> None:
            handled.append(message.payload)

        async with aio.Consumer(pool.acquire, "billing", poll_seconds=FOREVER) as worker:
            task = asyncio.create_task(worker.run(handle))
            async with asyncio.timeout(patience(30)):
                while not rests:
                    await asyncio.sleep(0.01)
                shop.send("one")
                await asyncio.to_thread(shop.transfer)
                while not handled:
                    await asyncio.sleep(0.01)
            worker.stop()
            await task
        pool.terminate()

    asyncio.run(scenario())


def test_the_application_s_handlers_hear_what_ends_a_rest(shop: World, rests: Rests) -> None:
    """Of psycopg: the consumer takes the notifications of the session, and passes them on."""
    heard: list[str] = []

    def connect() -> Any:
        connection = psycopg.connect(service=STORE)
        connection.add_notify_handler(lambda notification: heard.append(notification.channel))
        return connection

    with working(LIBRARIES[0], connect) as worker:
        begin_rest(rests)
        shop.send("one")
        shop.transfer()
        assert worker.next() == "one"
    assert heard[0].startswith("relaybox_stream_")
