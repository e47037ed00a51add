"""A server that is frozen under a session (SIGSTOP) ends nothing and breaks nothing: the session itself gives it up."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox import errors, failpoints
from relaybox.clients.sqlalchemy import SqlalchemySession
from relaybox.clients.steps import drive
from relaybox.consumer.services import open_engine
from relaybox.consumer.session import ConsumerSession
from relaybox.local.clusters import Cluster
from relaybox.stores.sessions import connections
from relaybox.stores.sessions.answer_limits import LimitedConnection
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.settings import STATEMENT_TIMEOUT_SECONDS
from tests.support.freezing import frozen
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

NO_ANSWER = r"the server did not answer within .* s; it may be frozen\. The session was ended\.$"


@pytest.fixture
def limit_seconds(monkeypatch: pytest.MonkeyPatch) -> float:
    """What each answer of a session has: a quarter of an hour is too long for a test."""
    seconds = patience(1)
    monkeypatch.setattr(connections, "ANSWER_GRACE_SECONDS", seconds - STATEMENT_TIMEOUT_SECONDS)
    return seconds


@contextmanager
def paused(failpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> Iterator[Future[Any]]:
    """Work of another thread has come to a failpoint, and goes on from there when the block lets it."""
    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS", f"{failpoint}=pause")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
        failpoints._armed.cache_clear()  # noqa: SLF001  # an earlier test of this process has counted its hits
        going = pool.submit(work)
        wait_until(lambda: going.done() or (tmp_path / "hits.jsonl").exists(), f"{failpoint} is reached")
        assert not going.done()
        try:
            yield going
        finally:
            (tmp_path / f"{failpoint}.go").touch()


@pytest.mark.parametrize(
    ("failpoint", "store"),
    [
        ("plan.begin", "airline"),
        ("slice.piping", "airline"),
        ("slice.piping", "hub"),
        ("publish.committing", "hub"),
    ],
)
def test_a_transfer_ends_when_a_store_is_frozen_under_it(  # noqa: PLR0917  # fixtures
    world: World,
    clusters: Mapping[str, Cluster],
    limit_seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failpoint: str,
    store: str,
) -> None:
    """At its limit, with an error that names the store and that a retry may repair; after it has thawed the next one finishes."""
    world.send_many(2000, prefix="x" * 2000)
    with paused(failpoint, tmp_path, monkeypatch, world.transfer) as going, frozen(clusters[store]):
        (tmp_path / f"{failpoint}.go").touch()
        with pytest.raises(errors.StoreUnreachable, match=rf"^store {store}: while .*: {NO_ANSWER}"):
            going.result(limit_seconds + patience(60))
    world.transfer()
    assert world.value("hub", "select count(*) from relaybox.inbox") == 2000


@pytest.fixture
def consumer(world: World) -> Iterator[ConsumerSession]:
    world.query("hub", "select relaybox.subscribe('billing', 'flights')")
    engine = open_engine("hub", "billing")
    opened = ConsumerSession(SqlalchemySession(engine), store="hub", subscription="billing")
    drive(opened.begin())
    yield opened
    drive(opened.close())
    engine.dispose()


@pytest.mark.parametrize(
    ("doing", "do"),
    [
        ("fetching", lambda consumer: consumer.fetch("worker", 1, None)),
        ("committing", lambda consumer: consumer.commit()),
    ],
)
def test_a_consumer_gives_up_what_a_frozen_store_does_not_answer(
    consumer: ConsumerSession, clusters: Mapping[str, Cluster], doing: str, do: Callable[[ConsumerSession], object]
) -> None:
    held: LimitedConnection = consumer.connection.connection.driver_connection
    assert held.answer_seconds == 330
    held.answer_seconds = 0.5
    with (
        frozen(clusters["hub"]),
        pytest.raises(errors.StoreUnreachable, match=rf"^store hub: while {doing} for subscription billing: {NO_ANSWER}"),
    ):
        drive(do(consumer))


def test_a_handler_may_take_its_time(consumer: ConsumerSession) -> None:
    """It may have lifted statement_timeout: the client does not limit its statements."""
    held: LimitedConnection = consumer.connection.connection.driver_connection
    held.answer_seconds = 0.2
    consumer.connection.exec_driver_sql("select pg_sleep(1)")
    drive(consumer.fetch("worker", 1, None))
    consumer.connection.exec_driver_sql("select pg_sleep(1)")
    assert not consumer.is_lost()


def test_the_shortest_limit_is_kept_beside_longer_ones(world: World) -> None:
    """A wait of a quarter of an hour is under way when a shorter one begins; the longer one is not touched."""
    with closing(connect("airline", application_name="long")) as long, closing(connect("hub", application_name="short")) as short:
        short.answer_seconds = 0.5
        with ThreadPoolExecutor(1) as pool, long.cursor() as cursor:
            lasting = pool.submit(cursor.execute, "select pg_sleep(1)")
            with pytest.raises(psycopg2.OperationalError, match=r"did not answer within 0\.5 s"), short.cursor() as late:
                late.execute("select pg_sleep(600)")
            lasting.result(patience(30))
            assert (bool(long.closed), bool(short.closed)) == (False, True)


def test_an_error_of_the_server_stays_the_servers(world: World) -> None:
    """Only a session that was cut did not answer; the session of a refused statement goes on."""
    with closing(connect("hub", application_name="wrong")) as opened, opened.cursor() as cursor:
        with pytest.raises(psycopg2.errors.DivisionByZero):
            cursor.execute("select 1 / 0")
        opened.rollback()
        cursor.execute("select 1")
        assert cursor.fetchall() == [(1,)]


def test_a_forked_process_watches_its_own_sessions(world: World) -> None:
    """Spark and Airflow fork their workers: no thread of the parent goes on in them."""
    ended = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=patience(60), check=False)
    assert ended.returncode == 0, ended.stderr
    assert re.match(r"the server did not answer within 0\.5 s", ended.stdout)


FORKS = """
import os
import psycopg2
from relaybox.stores.sessions.connections import connect

with connect("airline", application_name="parent") as parent:
    parent.cursor().execute("select 1")
child = os.fork()
if child:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
session = connect("hub", application_name="child")
session.answer_seconds = 0.5
try:
    session.cursor().execute("select pg_sleep(600)")
except psycopg2.OperationalError as error:
    print(error)
"""
