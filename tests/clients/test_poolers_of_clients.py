"""Every library works through a PgBouncer that lends a session of the server for one transaction, and is told what it lacks."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg2
import pytest
from sqlalchemy import create_engine

from relaybox import aio, errors
from relaybox.consumer import Message
from relaybox.consumer.session import ConsumerSession
from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from tests.support.libraries import LIBRARIES, Library, connect_asyncpg, django_database, each, url
from tests.support.services import break_service
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def pooled(request: pytest.FixtureRequest, world: World, clusters: Mapping[str, Cluster]) -> Iterator[World]:
    """Six messages behind a pooler with one session of the server, or as many as the test asks for."""
    world.query(STORE, "create table public.effect (stream_position bigint primary key)")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    deliver(world, 6)
    pooler = PgBouncer(clusters[STORE], "transaction", pool_size=getattr(request, "param", 1))
    pooler.start()
    break_service(STORE, port=str(pooler.port))
    yield world
    break_service(STORE, port=str(clusters[STORE].port))
    pooler.remove()


@each(LIBRARIES)
def test_g10_consumers_work_through_a_pooler(pooled: World, library: Library) -> None:
    """Two consumers in turn get the same session of the server: the second meets no statement that the first prepared."""

    async def handle(connection: Any, message: Message) -> None:
        await library.execute(connection, f"insert into public.effect values ({message.stream_position})")

    for _ in range(2):
        library.run(library.consume(STORE, handle, pooled=True, max_count=2, commit_every=2))
        deliver(pooled, 6)
    assert pooled.query(STORE, "select count(*), max(stream_position) from public.effect") == [(12, 12)]
    assert pooled.value(STORE, "select done_stream_position from relaybox.subscriptions") == 12


@contextmanager
def through(world: World, cluster: Cluster, mode: str) -> Iterator[Callable[[], None]]:
    """A pooler before the store, with six messages; calling ends its sessions of the server, and waits until they have ended."""
    world.query(STORE, "create table public.effect (stream_position bigint primary key)")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    deliver(world, 6)
    database = world.value(STORE, "select current_database()")
    pooler = PgBouncer(cluster, mode, pool_size=2)
    pooler.start()
    break_service(STORE, port=str(pooler.port))
    try:
        with closing(psycopg2.connect(**cluster.parameters(database))) as administrator:
            administrator.autocommit = True

            def end_sessions() -> None:
                with administrator.cursor() as cursor:
                    cursor.execute(END_SESSIONS)

            yield end_sessions
    finally:
        break_service(STORE, port=str(cluster.port))
        pooler.remove()


END_SESSIONS = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


async def prepare_by_name(connection: Any, _: Message) -> None:
    await connection.fetch("select 1")


def test_statements_that_the_next_session_lacks_are_told_how_to_switch_them_off(
    world: World, clusters: Mapping[str, Cluster]
) -> None:
    """asyncpg prepares each statement by name unless it is told not to. The pooler's next session of the server has no such name."""
    worker = aio.Consumer(partial(connect_asyncpg, STORE), "billing", until_empty=True, max_count=1, retries=0)
    with (
        through(world, clusters[STORE], "transaction") as end_sessions,
        before_each_transaction(lambda _: end_sessions()),
        pytest.raises(errors.ConfigurationError, match=r"\(26000\).*statement_cache_size=0"),
    ):
        asyncio.run(worker.run(prepare_by_name))


def test_statements_whose_names_are_taken_are_told_how_to_switch_them_off(pooled: World) -> None:
    """Another client of the pooler has prepared what asyncpg's next names are, in the one session of the server."""
    worker = aio.Consumer(partial(connect_asyncpg, STORE), "billing", until_empty=True, max_count=1, retries=0)

    async def scenario() -> None:
        other = await connect_asyncpg(STORE, statement_cache_size=0)
        newest = (await other.prepare("select 1", name=True)).get_name()
        await other.execute(";".join(f"prepare {name} as select 1" for name in next_names(newest, 100)))
        await other.close()
        await worker.run(prepare_by_name)

    with pytest.raises(errors.ConfigurationError, match=r"\(42P05\).*statement_cache_size=0"):
        asyncio.run(scenario())


def next_names(name: str, count: int) -> Iterator[str]:
    """What asyncpg calls the next statements of this process: the same name with the next hexadecimal numbers."""
    before, number, after = re.fullmatch(r"(.*_)([0-9a-f]+)(__)", name).groups()
    return (f"{before}{int(number, 16) + step:x}{after}" for step in range(1, count + 1))


MOMENTS = ("between transactions", "the handler", "the acknowledgement")


@each(LIBRARIES)
@pytest.mark.parametrize(("mode", "moment"), [(mode, moment) for mode in ("transaction", "session") for moment in MOMENTS])
def test_g10_a_session_that_the_server_ended_behind_a_pooler_is_lost_and_replaced(
    world: World, clusters: Mapping[str, Cluster], library: Library, mode: str, moment: str
) -> None:
    """The client gets two farewells, the server's and the pooler's, as two answers to one statement. It is a session that is lost."""
    with through(world, clusters[STORE], mode) as end_sessions:
        consume_while_sessions_end(library, end_sessions, moment)
    assert world.query(STORE, "select count(*), max(stream_position) from public.effect") == [(6, 6)]
    assert world.value(STORE, "select count(*) from relaybox.dead_letters") == 0


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kept", ["by a pool of SQLAlchemy", "by CONN_MAX_AGE of Django"])
def test_g10_a_session_that_its_library_keeps_is_lost_and_replaced_too(
    world: World, clusters: Mapping[str, Cluster], kept: str, moment: str
) -> None:
    """The one that the library keeps is the one that the server ended."""
    by_name = {library.name: library for library in LIBRARIES}
    library = (
        replace(by_name["SQLAlchemy with psycopg"], store=partial(pooled_engine, "psycopg"))
        if "SQLAlchemy" in kept
        else replace(by_name["Django"], store=lambda store, **_: django_database(store, CONN_MAX_AGE=None))
    )
    with through(world, clusters[STORE], "session") as end_sessions:
        consume_while_sessions_end(library, end_sessions, moment)
    assert world.query(STORE, "select count(*), max(stream_position) from public.effect") == [(6, 6)]
    assert world.value(STORE, "select count(*) from relaybox.dead_letters") == 0


def pooled_engine(driver: str, store: str, **_: object) -> Any:
    return create_engine(url(store, driver), pool_size=1, max_overflow=0, connect_args={"prepare_threshold": None})


def consume_while_sessions_end(library: Library, end_sessions: Callable[[], None], moment: str) -> None:
    """Handles six messages; at the third one, or before the third transaction, the sessions of the server end, once."""
    ended: list[int] = []

    def end_once(number: int) -> bool:
        if ended or number < 3:
            return False
        ended.append(number)
        end_sessions()
        return True

    async def handle(connection: Any, message: Message) -> None:
        await library.execute(connection, f"insert into public.effect values ({message.stream_position})")
        if moment != "between transactions" and end_once(message.stream_position) and moment == "the handler":
            await library.execute(connection, "select 1")

    with before_each_transaction(end_once) if moment == "between transactions" else nullcontext():
        worker = library.run(library.consume(STORE, handle, pooled=True, max_count=6))
    assert len(ended) == 1
    assert worker.refused_count == 0


@contextmanager
def before_each_transaction(call: Callable[[int], object]) -> Iterator[None]:
    """Calls with the number of the consumer's transaction, from 1, before it begins."""
    begin, begun = ConsumerSession.begin, itertools.count(1)

    def call_and_begin(of: ConsumerSession) -> Any:
        call(next(begun))
        return begin(of)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ConsumerSession, "begin", call_and_begin)
        yield
