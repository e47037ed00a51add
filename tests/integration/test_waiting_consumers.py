"""A consumer that waits: what wakes it, when it looks by itself, and what becomes of it if a notification is lost."""

from __future__ import annotations

import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any

import psycopg2
import pytest
import sqlalchemy

from relaybox import errors
from relaybox.consumer import Consumer, session
from relaybox.consumer.stopping import StopEvent
from relaybox.local.clusters import create_cluster
from relaybox.streams import delivering
from tests.support.patience import patience
from tests.support.streams import STORE
from tests.support.world import World, wait_until

FOREVER = 3600.0
"""Seconds: longer than any test, so that nothing but what it tests ends a rest."""


@pytest.fixture
def shop(world: World) -> World:
    world.send("first")
    world.transfer()
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', 'latest')")
    return world


class Worker:
    """A consumer in a thread of its own. `handled` has the payloads, `rests` counts."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer, self.handled, self.rests = consumer, Queue[str | None](), 0
        self._thread = threading.Thread(target=self._consume)

    def _consume(self) -> None:
        with self.consumer as consumer:
            for message in consumer:
                self.handled.put(message.payload)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.consumer.stop()
        self._thread.join(patience(30))
        assert not self._thread.is_alive(), "the rest did not end at stop()"

    def next(self) -> str | None:
        return self.handled.get(timeout=patience(30))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Runs a consumer that rests now, and in each rest until it is told."""

    @contextmanager
    def run(store: str | sqlalchemy.Engine = STORE, subscription: str = "billing", **options: object) -> Iterator[Worker]:
        settings = {"poll_seconds": FOREVER, "backoff_seconds": 0.01, **options}
        worker = Worker(Consumer(store, subscription, **settings))
        wait = StopEvent.wait_for_notification

        def counted(event: StopEvent, *arguments: object) -> None:
            worker.rests += 1
            wait(event, *arguments)

        monkeypatch.setattr(StopEvent, "wait_for_notification", counted)
        worker.start()
        try:
            wait_until(lambda: worker.rests > 0, "the worker rests")
            yield worker
        finally:
            worker.end()

    return run


def test_a_waiting_consumer_gets_each_batch_when_it_is_delivered(shop: World, waiting) -> None:
    with waiting() as worker:
        for payload in ("a", "b", "c"):
            shop.send(payload)
            shop.transfer()
            assert worker.next() == payload


def test_what_is_delivered_before_a_session_listens_is_fetched_before_it_rests(
    shop: World, waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the fetch that finds nothing and LISTEN."""
    listen = session.ConsumerSession.listen
    is_first = threading.Event()

    def deliver_and_listen(consumer_session: session.ConsumerSession) -> bool:
        if not is_first.is_set():
            is_first.set()
            shop.send("early")
            shop.transfer()
        return listen(consumer_session)

    monkeypatch.setattr(session.ConsumerSession, "listen", deliver_and_listen)
    with waiting() as worker:
        assert worker.next() == "early"


def test_a_consumer_finds_by_itself_what_nobody_announced(shop: World, waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver is killed between its decision and the notification."""

    def die(*_: object) -> None:
        raise errors.StoreUnreachable("killed here")

    monkeypatch.setattr(session, "LISTENING_SECONDS", 0.2)
    with waiting(poll_seconds=0.1) as worker:
        monkeypatch.setattr(delivering, "_announce", die)
        shop.send("unannounced")
        with pytest.raises(errors.StoreUnreachable, match="killed here"):
            shop.transfer()
        assert worker.next() == "unannounced"


def test_a_waiting_consumer_whose_session_ends_listens_in_a_new_one(shop: World, waiting) -> None:
    with waiting() as worker:
        rests = worker.rests
        shop.query(
            STORE, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'relaybox consumer billing'"
        )
        wait_until(lambda: worker.rests > rests, "the worker rests again")
        shop.send("after")
        shop.transfer()
        assert worker.next() == "after"


def test_redrive_replay_and_release_wake_a_waiting_consumer(shop: World, waiting) -> None:
    shop.send("one")
    shop.transfer()
    fetch = "select stream_position, token from relaybox.fetch('billing', 10, worker => 'other')"
    [(stream_position, token)] = shop.query(STORE, fetch)
    with waiting() as worker:
        assert shop.value(STORE, "select relaybox.release('billing', %s)", token)
        assert worker.next() == "one"
        wait_until(
            lambda: shop.value(STORE, "select min(done_stream_position) from relaybox.lag('billing')") == 2, "acknowledged"
        )
        shop.query(STORE, "select relaybox.replay('billing', %s, 'once more')", str(stream_position))
        assert worker.next() == "one"
    shop.query(STORE, "select relaybox.subscribe('strict', 'flights', 'latest', nack_limit => 1)")
    shop.send("refused")
    shop.transfer()
    [(stream_position, token)] = shop.query(STORE, fetch.replace("billing", "strict"))
    assert shop.value(STORE, "select relaybox.nack('strict', %s, 'broken', %s)", stream_position, token)
    with waiting(subscription="strict") as worker:
        shop.query(STORE, "select relaybox.redrive('strict', 'repaired')")
        assert worker.next() == "refused"


def test_a_waiting_consumer_waits_for_the_end_of_a_lease_and_no_longer(shop: World, waiting) -> None:
    shop.query(STORE, "select relaybox.subscribe('leased', 'flights', 'latest', lease_seconds => 2)")
    shop.send("one")
    shop.transfer()
    shop.query(STORE, "select relaybox.fetch('leased', 10, worker => 'dead')")
    assert 0 < shop.value(STORE, "select relaybox.rest_seconds('leased', null, 3600)") <= 2
    with waiting(subscription="leased") as worker:
        assert worker.next() == "one"


def test_a_waiting_consumer_waits_for_the_lease_of_a_redriven_message_too(shop: World, waiting) -> None:
    """Everything else is acknowledged: the lane is not behind."""
    shop.query(STORE, "select relaybox.subscribe('leased', 'flights', 'latest', lease_seconds => 2, nack_limit => 1)")
    shop.send("refused", "taken")
    shop.transfer()
    fetch = "select stream_position, token from relaybox.fetch('leased', 10, worker => '{}')"
    first, token = shop.query(STORE, fetch.format("other"))[0]
    shop.query(STORE, "select relaybox.nack('leased', %s, 'broken', %s)", first, token)
    (last, token) = shop.query(STORE, fetch.format("other"))[-1]
    shop.query(STORE, "select relaybox.ack('leased', %s, %s)", last, token)
    shop.query(STORE, "select relaybox.redrive('leased', 'repaired')")
    assert len(shop.query(STORE, fetch.format("dead"))) == 1
    assert 0 < shop.value(STORE, "select relaybox.rest_seconds('leased', null, 3600)") <= 2
    with waiting(subscription="leased") as worker:
        assert worker.next() == "refused"


def test_rest_seconds_tells_when_to_look(shop: World) -> None:
    def rest(lane: int | None = None) -> float:
        return float(shop.value(STORE, "select relaybox.rest_seconds('lanes', %s, 3600)", lane))

    shop.query(
        STORE, "select relaybox.subscribe('lanes', 'flights', 'latest', lanes => 2, lease_seconds => 60, retry_seconds => 30)"
    )
    assert rest() == 3600
    assert shop.value(STORE, "select relaybox.rest_seconds('lanes')") == 10
    shop.send("one")
    shop.transfer()
    assert rest() == rest(1) == rest(2) == 1
    [(lane, stream_position, token)] = shop.query(
        STORE, "select lane, stream_position, token from relaybox.fetch('lanes', 10, worker => 'other')"
    )
    assert 30 < rest(lane) <= 60
    shop.query(STORE, "select relaybox.nack('lanes', %s, 'later', %s)", stream_position, token)
    assert 1 < rest(lane) <= 30


def test_a_session_of_another_engine_is_not_left_listening_in_its_pool(shop: World, waiting) -> None:
    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(service=STORE), pool_size=1)
    with waiting(engine) as worker:
        shop.send("one")
        shop.transfer()
        assert worker.next() == "one"
    with engine.connect() as connection:
        assert connection.exec_driver_sql("select pg_listening_channels()").fetchall() == []
    engine.dispose()


def test_a_store_without_the_functions_is_polled(shop: World) -> None:
    """Its functions are of an older version."""
    shop.query(STORE, "drop function relaybox.listen(text)")
    worker = Worker(Consumer(STORE, "billing", poll_seconds=0.05))
    worker.start()
    try:
        shop.send("polled")
        shop.transfer()
        assert worker.next() == "polled"
    finally:
        worker.end()


@contextmanager
def listening(channel: str) -> Iterator[Callable[[], bool]]:
    """A session that listens; calling tells whether it was notified."""
    with closing(psycopg2.connect(service=STORE)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"listen {channel}")

        def is_notified() -> bool:
            select.select([connection], [], [], 0)
            connection.poll()
            notified = bool(connection.notifies)
            connection.notifies.clear()
            return notified

        yield is_notified


def test_a_delivery_wakes_the_polls_of_a_hop_that_nobody_drives(shop: World) -> None:
    """And of no hop that somebody drives: its driver looks by itself."""
    with listening("relaybox_work") as is_notified:
        shop.send("one")
        shop.transfer()
        wait_until(is_notified, "the polls of the second hop are notified")
        with closing(psycopg2.connect(service=STORE, application_name="relaybox flights/2 driver")):
            shop.send("two")
            shop.transfer()
            assert not is_notified()


def test_a_delivery_notifies_nobody_while_others_fill_the_queue(tmp_path: Path) -> None:
    """A queue that is full fails the COMMIT of each transaction that notifies, the driver's too."""
    cluster = create_cluster("queue", tmp_path / "queue", settings={"max_notify_queue_pages": "64"})
    cluster.start()
    try:
        with (
            closing(psycopg2.connect(**cluster.parameters())) as idle,
            closing(psycopg2.connect(**cluster.parameters())) as writer,
        ):
            with idle.cursor() as cursor:
                cursor.execute("listen anything")
                idle.commit()
                cursor.execute("select")  # a transaction that hears nothing
            writer.autocommit = True
            with writer.cursor() as cursor:
                source = Path(delivering.__file__).parents[3] / "sql/functions/streams"
                cursor.execute("create schema relaybox_internal")
                for name in ("channel_of", "wake_consumers"):
                    cursor.execute((source / f"{name}.sql").read_text())
                cursor.execute("listen relaybox_stream_7")
                cursor.execute("select relaybox_internal.wake_consumers(7)")
                assert len(writer.notifies) == 1
                while True:
                    cursor.execute("select pg_notification_queue_usage()")
                    if cursor.fetchone()[0] >= 0.5:
                        break
                    cursor.execute("select pg_notify('anything', repeat('x', 7000) || n) from generate_series(1, 10) n")
                writer.notifies.clear()
                cursor.execute("select relaybox_internal.wake_consumers(7)")
                cursor.execute("select")
                assert writer.notifies == []
    finally:
        cluster.stop("immediate")
        cluster.remove()


def test_who_wakes_consumers_while_a_standby_hangs_holds_up_no_other_application(tmp_path: Path) -> None:
    """Postgres holds one lock for all transactions that notify until the COMMIT ends; so does a release, redrive or replay."""
    cluster = create_cluster("standby", tmp_path / "standby", settings={"synchronous_standby_names": "nobody"})
    cluster.start()
    with (
        closing(psycopg2.connect(**cluster.parameters(), options="-c synchronous_commit=local")) as writer,
        closing(psycopg2.connect(**cluster.parameters(), options="-c synchronous_commit=off")) as other,
    ):
        hanging = threading.Thread(target=_commit_until_the_end, args=[writer])
        notified = threading.Thread(target=_commit_until_the_end, args=[other])
        try:
            with writer.cursor() as cursor:
                source = Path(delivering.__file__).parents[3] / "sql/functions/streams"
                cursor.execute("create schema relaybox_internal")
                cursor.execute("create table public.work (id integer)")
                for name in ("channel_of", "wake_consumers"):
                    cursor.execute((source / f"{name}.sql").read_text())
                cursor.execute("listen relaybox_stream_7")
                cursor.execute("select relaybox_internal.wake_consumers(7)")
                writer.commit()
                assert len(writer.notifies) == 1, "this COMMIT waits for no standby"
                cursor.execute("set synchronous_commit = on")
                cursor.execute("insert into public.work values (1)")
                cursor.execute("select relaybox_internal.wake_consumers(7)")
            hanging.start()
            wait_until(lambda: _rows(other, "select from pg_stat_activity where wait_event = 'SyncRep'") == 1, "the COMMIT hangs")
            with other.cursor() as cursor:
                cursor.execute("notify anything")
            notified.start()
            notified.join(patience(20))
            assert not notified.is_alive(), "the other application's COMMIT hangs as well"
        finally:
            cluster.stop("immediate")  # ends both commits: before that no connection can be closed
            cluster.remove()


def _rows(connection: Any, query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        connection.rollback()  # the next look sees what has happened since
        return int(cursor.rowcount)


def _commit_until_the_end(connection: Any) -> None:
    with suppress(psycopg2.OperationalError):  # the cluster is stopped
        connection.commit()


def test_the_program_of_the_docs_waits_for_its_messages(shop: World) -> None:
    """docs/examples/wait.py."""
    shop.query(STORE, "create table public.effect (stream_position bigint, payload text)")
    program = Path(__file__).parents[2] / "docs" / "examples" / "wait.py"
    process = subprocess.Popen([sys.executable, str(program), STORE, "billing"])
    try:
        for number in (1, 2, 3):
            shop.send(f"m{number}")
            shop.transfer()
            wait_until(
                lambda count=number: shop.value(STORE, "select count(*) from public.effect") == count, "the message is handled"
            )
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
