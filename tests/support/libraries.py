"""Every library of Postgres that a client of ours takes, behind one interface: the tests of clients are written once.

Scenarios are coroutines. What a library of threads does in one never waits for the event loop.
"""

from __future__ import annotations

import asyncio
import configparser
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
import django
import psycopg
import psycopg2
import pytest
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from relaybox import aio, consumer, outbox

if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["django.contrib.admin", "django.contrib.contenttypes", "django.contrib.auth", "relaybox.django"],
        DATABASES={},
        USE_TZ=True,
    )
    django.setup()


def parameters(service: str) -> dict[str, str]:
    """Of the service file of the test, by the names of libpq."""
    services = configparser.ConfigParser()
    services.read(os.environ["PGSERVICEFILE"])
    return dict(services[service])


def url(service: str, driver: str) -> str:
    at = parameters(service)
    return f"postgresql+{driver}://{at['user']}:{at['password']}@{at['host']}:{at['port']}/{at['dbname']}"


def django_database(service: str, **options: Any) -> Any:
    """Django's connection of a service, under the service's name."""
    at = parameters(service)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": at["host"],
        "PORT": at["port"],
        "USER": at["user"],
        "PASSWORD": at["password"],
        "NAME": at["dbname"],
        **options,
    }
    if service in connections.settings:
        connections[service].close()
        del connections[service]
    connections.settings[service] = connections.configure_settings({"default": {}, service: database})[service]
    return connections[service]


def connect_asyncpg(service: str, **options: Any) -> Coroutine[Any, Any, Any]:
    at = parameters(service)
    given = {"host": at["host"], "port": int(at["port"]), "user": at["user"], "password": at["password"]}
    return asyncpg.connect(**given, database=at["dbname"], **options)


@dataclass(frozen=True)
class Producer:
    """A session that an application has open, and how it ends its transaction."""

    session: Any
    commit: Callable[[], Awaitable[None]]
    rollback: Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Library:
    """One library.

    Args:
        name: of the library.
        is_async: it waits in an event loop.
        producing: opens the session of a producer at a store.
        store: what a Consumer takes to consume at a store; `autocommit` and `pooled` are wishes.
        execute: runs a statement in the connection of a consumer.
        savepoint: a block whose error takes back what was done in it.
    """

    name: str
    is_async: bool
    producing: Callable[[str], AbstractAsyncContextManager[Producer]]
    store: Callable[..., Any]
    execute: Callable[[Any, str], Awaitable[None]]
    savepoint: Callable[[Any], AbstractAsyncContextManager[Any]]

    def run(self, scenario: Coroutine[Any, Any, Any]) -> Any:
        """Runs a scenario: in an event loop only where the library needs one. Django refuses to work in one."""
        return asyncio.run(scenario) if self.is_async else finish(scenario)

    async def put(self, session: Any, *given: Any, **options: Any) -> Any:
        return await aio.put(session, *given, **options) if self.is_async else outbox.put(session, *given, **options)

    async def put_once(self, session: Any, *given: Any, **options: Any) -> Any:
        return await aio.put_once(session, *given, **options) if self.is_async else outbox.put_once(session, *given, **options)

    async def causal_put(self, session: Any, sender: str, *given: Any, **options: Any) -> Any:
        return (
            await aio.CausalSender(sender).put(session, *given, **options)
            if self.is_async
            else outbox.CausalSender(sender).put(session, *given, **options)
        )

    async def consume(
        self, store: str, handle: Callable[[Any, Any], Coroutine[Any, Any, None]], *, pooled: bool = False, **options: Any
    ) -> Any:
        """Runs a consumer of `billing` until it is empty; returns it."""
        given = {"until_empty": True, "backoff_seconds": 0.01, "poll_seconds": 0.01, **options}
        if self.is_async:
            async with aio.Consumer(self.store(store, pooled=pooled), "billing", **given) as worker:
                await worker.run(handle)
        else:
            with consumer.Consumer(self.store(store, pooled=pooled), "billing", **given) as worker:
                worker.run(lambda connection, message: finish(handle(connection, message)))
        return worker


def finish(steps: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never waits; returns its result."""
    try:
        steps.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a handler of threads waits for the event loop")


def waitless(function: Callable[..., Any]) -> Callable[..., Awaitable[None]]:
    async def call(*given: Any) -> None:
        function(*given)

    return call


# --- producers ------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def produce_by_psycopg(store: str) -> AsyncIterator[Producer]:
    with psycopg.connect(service=store) as session:
        yield Producer(session, waitless(session.commit), waitless(session.rollback))


@asynccontextmanager
async def produce_by_psycopg2(store: str) -> AsyncIterator[Producer]:
    session = psycopg2.connect(service=store)
    yield Producer(session.cursor(), waitless(session.commit), waitless(session.rollback))
    session.close()


@asynccontextmanager
async def produce_by_sqlalchemy(store: str, driver: str) -> AsyncIterator[Producer]:
    engine = create_engine(url(store, driver), poolclass=NullPool)
    with Session(engine) as session:
        yield Producer(session, waitless(session.commit), waitless(session.rollback))


@asynccontextmanager
async def produce_by_django(store: str) -> AsyncIterator[Producer]:
    connection = django_database(store)
    block = [transaction.atomic(using=store)]
    block[0].__enter__()

    def end(*, commits: bool) -> None:
        block[0].__exit__(*((None, None, None) if commits else (ValueError, ValueError(), None)))
        block[0] = transaction.atomic(using=store)
        block[0].__enter__()

    yield Producer(connection, waitless(partial(end, commits=True)), waitless(partial(end, commits=False)))
    end(commits=False)
    block[0].__exit__(None, None, None)
    connection.close()


@asynccontextmanager
async def produce_by_asyncpg(store: str) -> AsyncIterator[Producer]:
    session = await connect_asyncpg(store)
    begun = [session.transaction()]
    await begun[0].start()

    async def end(*, commits: bool) -> None:
        await (begun[0].commit() if commits else begun[0].rollback())
        begun[0] = session.transaction()
        await begun[0].start()

    yield Producer(session, partial(end, commits=True), partial(end, commits=False))
    await session.close()


@asynccontextmanager
async def produce_by_async_psycopg(store: str) -> AsyncIterator[Producer]:
    async with await psycopg.AsyncConnection.connect(service=store) as session:
        yield Producer(session, session.commit, session.rollback)


@asynccontextmanager
async def produce_by_async_sqlalchemy(store: str, driver: str) -> AsyncIterator[Producer]:
    engine = create_async_engine(url(store, driver), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        yield Producer(session, session.commit, session.rollback)
    await engine.dispose()


# --- consumers ------------------------------------------------------------------------------------------------------------


def store_of_psycopg(store: str, *, autocommit: bool = False, pooled: bool = False) -> Any:
    return partial(psycopg.connect, service=store, autocommit=autocommit)


def store_of_sqlalchemy(store: str, driver: str, *, autocommit: bool = False, pooled: bool = False) -> Any:
    level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    prepares = {"prepare_threshold": None} if pooled and driver == "psycopg" else {}
    return create_engine(url(store, driver), poolclass=NullPool, connect_args=prepares, **level)


def store_of_async_sqlalchemy(store: str, driver: str, *, autocommit: bool = False, pooled: bool = False) -> Any:
    level = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    prepares: dict[str, Any] = {}
    if pooled:
        prepares = {
            "asyncpg": {"statement_cache_size": 0, "prepared_statement_cache_size": 0},
            "psycopg": {"prepare_threshold": None},
        }[driver]
    return create_async_engine(url(store, driver), poolclass=NullPool, connect_args=prepares, **level)


def store_of_asyncpg(store: str, *, autocommit: bool = False, pooled: bool = False) -> Any:
    return partial(connect_asyncpg, store, **({"statement_cache_size": 0} if pooled else {}))


def store_of_async_psycopg(store: str, *, autocommit: bool = False, pooled: bool = False) -> Any:
    return partial(psycopg.AsyncConnection.connect, service=store, autocommit=autocommit)


def store_of_django(store: str, *, autocommit: bool = False, pooled: bool = False) -> Any:
    return django_database(store)


async def execute_plainly(connection: Any, statement: str) -> None:
    connection.execute(statement)


async def execute_and_wait(connection: Any, statement: str) -> None:
    await connection.execute(statement)


async def execute_by_sqlalchemy(connection: Any, statement: str) -> None:
    connection.execute(text(statement))


async def execute_by_async_sqlalchemy(connection: Any, statement: str) -> None:
    await connection.execute(text(statement))


async def execute_by_django(connection: Any, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@asynccontextmanager
async def in_thread(block: Any) -> AsyncIterator[None]:
    with block:
        yield


LIBRARIES = (
    Library(
        "psycopg",
        False,
        produce_by_psycopg,
        store_of_psycopg,
        execute_plainly,
        lambda connection: in_thread(connection.transaction()),
    ),
    Library(
        "psycopg2, libpq service",
        False,
        produce_by_psycopg2,
        lambda store, **_: store,
        execute_by_sqlalchemy,
        lambda connection: in_thread(connection.begin_nested()),
    ),
    Library(
        "SQLAlchemy with psycopg",
        False,
        partial(produce_by_sqlalchemy, driver="psycopg"),
        partial(store_of_sqlalchemy, driver="psycopg"),
        execute_by_sqlalchemy,
        lambda connection: in_thread(connection.begin_nested()),
    ),
    Library(
        "Django",
        False,
        produce_by_django,
        store_of_django,
        execute_by_django,
        lambda connection: in_thread(transaction.atomic(using=connection.alias)),
    ),
    Library(
        "asyncpg",
        True,
        produce_by_asyncpg,
        store_of_asyncpg,
        execute_and_wait,
        lambda connection: connection.transaction(),
    ),
    Library(
        "psycopg in an event loop",
        True,
        produce_by_async_psycopg,
        store_of_async_psycopg,
        execute_and_wait,
        lambda connection: connection.transaction(),
    ),
    Library(
        "SQLAlchemy with asyncpg",
        True,
        partial(produce_by_async_sqlalchemy, driver="asyncpg"),
        partial(store_of_async_sqlalchemy, driver="asyncpg"),
        execute_by_async_sqlalchemy,
        lambda connection: connection.begin_nested(),
    ),
    Library(
        "SQLAlchemy with psycopg in an event loop",
        True,
        partial(produce_by_async_sqlalchemy, driver="psycopg"),
        partial(store_of_async_sqlalchemy, driver="psycopg"),
        execute_by_async_sqlalchemy,
        lambda connection: connection.begin_nested(),
    ),
)

_OFTEN = {"psycopg", "Django", "asyncpg", "SQLAlchemy with asyncpg"}
"""Those that `make test` runs."""


def each(libraries: Iterable[Library]) -> Any:
    """A test of each of these libraries."""
    return pytest.mark.parametrize(
        "library",
        [
            pytest.param(library, id=library.name, marks=() if library.name in _OFTEN else pytest.mark.thorough)
            for library in libraries
        ],
    )


with_each_library = each(LIBRARIES)
with_each_async_library = each(library for library in LIBRARIES if library.is_async)
