"""The libraries of Postgres with which a benchmark consumes: each in the consumer that an application would have with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import psycopg2

from relaybox import errors
from relaybox.aio import Consumer as AsyncConsumer
from relaybox.consumer import Consumer, Message


@dataclass(frozen=True)
class BenchLibrary:
    """One library.

    Attributes:
        packages: what it needs, by the names of the modules.
        extra: how to install them: of `pip install 'relaybox[...]'`.
        store: what a consumer takes, for the name of a libpq service. Called in the thread that consumes.
        is_async: it waits in an event loop.
    """

    packages: tuple[str, ...]
    extra: str
    store: Callable[[str], Any]
    is_async: bool = False

    def is_installed(self) -> bool:
        return all(find_spec(package) for package in self.packages)


def _service(service: str) -> Any:
    return service


def _psycopg(service: str) -> Any:
    import psycopg

    return partial(psycopg.connect, service=service)


def _async_psycopg(service: str) -> Any:
    import psycopg

    return partial(psycopg.AsyncConnection.connect, service=service)


def _asyncpg(service: str) -> Any:
    import asyncpg

    at = _parameters(service)
    given = {"host": at["host"], "port": int(at["port"]), "user": at["user"], "password": at.get("password")}
    return partial(asyncpg.connect, **given, database=at["dbname"])


def _sqlalchemy(driver: str) -> Callable[[str], Any]:
    def store(service: str) -> Any:
        from sqlalchemy import URL, create_engine
        from sqlalchemy.ext.asyncio import create_async_engine

        at = _parameters(service)
        url = URL.create(f"postgresql+{driver}", at["user"], at.get("password"), at["host"], int(at["port"]), at["dbname"])
        return create_async_engine(url) if driver == "asyncpg" else create_engine(url)

    return store


def _django(service: str) -> Any:
    import django
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    at = _parameters(service)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": at["host"],
        "PORT": at["port"],
        "USER": at["user"],
        "PASSWORD": at.get("password", ""),
        "NAME": at["dbname"],
    }
    connections.settings[service] = connections.configure_settings({"default": {}, service: database})[service]
    return connections[service]


def _parameters(service: str) -> Mapping[str, str]:
    connection = psycopg2.connect(service=service)
    try:
        password = {"password": connection.info.password} if connection.info.password else {}
        return {**connection.info.dsn_parameters, **password}
    finally:
        connection.close()


LIBRARIES: Mapping[str, BenchLibrary] = {
    "psycopg2": BenchLibrary(("psycopg2", "sqlalchemy"), "cli", _service),
    "psycopg": BenchLibrary(("psycopg",), "psycopg", _psycopg),
    "Django": BenchLibrary(("django", "psycopg"), "django,psycopg", _django),
    "SQLAlchemy, psycopg": BenchLibrary(("sqlalchemy", "psycopg"), "sqlalchemy,psycopg", _sqlalchemy("psycopg")),
    "asyncpg": BenchLibrary(("asyncpg",), "asyncpg", _asyncpg, is_async=True),
    "psycopg, event loop": BenchLibrary(("psycopg",), "psycopg", _async_psycopg, is_async=True),
    "SQLAlchemy, asyncpg": BenchLibrary(("sqlalchemy", "asyncpg"), "sqlalchemy,asyncpg", _sqlalchemy("asyncpg"), is_async=True),
}
"""By the names in tables; psycopg2 as of a libpq service."""


def installed_libraries() -> list[str]:
    """The names of those that can be measured here."""
    return [name for name, library in LIBRARIES.items() if library.is_installed()]


def lacking_libraries() -> list[str]:
    """One sentence for each that can't."""
    return [
        f"{name}: left out, it is not installed. Run: pip install 'relaybox[{library.extra}]'"
        for name, library in LIBRARIES.items()
        if not library.is_installed()
    ]


def consume(
    library: str,
    service: str,
    subscription: str,
    handle: Callable[[Message], None],
    *,
    begun: Callable[[Callable[[], object]], None] = lambda _: None,
    **options: Any,
) -> Any:
    """Consumes until it is empty or stopped; returns the consumer, with its counts. The handler does no I/O.

    Args:
        library: of LIBRARIES.
        service: of libpq: the store.
        subscription: its name.
        handle: called with each message.
        begun: called with what stops the consumer, from any thread.
        options: of the consumer.
    """
    chosen = LIBRARIES[library]
    if not chosen.is_async:
        with Consumer(chosen.store(service), subscription, **options) as worker:
            begun(worker.stop)
            worker.run(lambda _, message: handle(message))
        return worker
    return asyncio.run(_consume_async(chosen.store(service), subscription, handle, begun, options))


async def _consume_async(
    store: Any,
    subscription: str,
    handle: Callable[[Message], None],
    begun: Callable[[Callable[[], object]], None],
    options: Mapping[str, Any],
) -> Any:
    async def handle_async(_connection: Any, message: Message) -> None:
        handle(message)

    handler: Callable[[Any, Message], Awaitable[None]] = handle_async
    async with AsyncConsumer(store, subscription, **options) as worker:
        loop = asyncio.get_running_loop()
        begun(lambda: loop.call_soon_threadsafe(worker.stop))
        await worker.run(handler)
    return worker


@contextmanager
def consuming(library: str, service: str, subscription: str, handle: Callable[[Message], None], **options: Any) -> Iterator[None]:
    """Runs a consumer in a thread of its own.

    Raises:
        StackFailed: it failed; the cause is its error.
    """
    stops: list[Callable[[], object]] = []
    is_begun = threading.Event()

    def begin(stop: Callable[[], object]) -> None:
        stops.append(stop)
        is_begun.set()

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(partial(consume, library, service, subscription, handle, begun=begin, **options))
        running.add_done_callback(lambda _: is_begun.set())
        is_begun.wait()
        try:
            yield
        finally:
            if stops and not running.done():
                stops[0]()
    if failure := running.exception():
        raise errors.StackFailed(f"the consumer with {library} failed: {failure}") from failure
