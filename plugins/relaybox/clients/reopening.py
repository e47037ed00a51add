"""Sessions that a callable of the application opens, one at a time: by the first statement, and anew after a close."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from relaybox.clients.answers import read_answer


class _Reopening:
    """What is known of the open session; without one it is lost."""

    def __init__(self) -> None:
        self._opened: Any = None

    @property
    def connection(self) -> Any:
        """The open connection, or None."""
        return None if self._opened is None else self._opened.connection

    def driver_connection(self) -> Any:
        """As `connection`: they are the library's own."""
        return self.connection

    def is_lost(self) -> bool:
        return self._opened is None or self._opened.is_lost()

    def is_aborted(self) -> bool:
        return self._opened is not None and self._opened.is_aborted()

    def has_ended(self) -> bool:
        return self._opened is None or self._opened.has_ended()


class ReopeningSession(_Reopening):
    """Sessions of psycopg."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        super().__init__()
        self._connect = connect

    def run(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        if self._opened is None:
            self._opened = _wrap(self._connect())
        rows: list[tuple[Any, ...]] = self._opened.run(statement, values)
        return rows

    def commit(self) -> None:
        if self._opened is not None:
            self._opened.commit()

    def rollback(self) -> None:
        """A session that is broken has rolled back by itself, and is closed."""
        if self._opened is None:
            return
        if self._opened.is_lost():
            self._opened = None  # a handler closed it
            return
        try:
            self._opened.rollback()
        except Exception as error:
            self.close()
            if read_answer(error) is not None:
                return
            raise

    def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def open_listener(self, channel: str) -> Any:
        """Begins to take the notifications of the open session, which listens."""
        return self._opened.open_listener(channel)

    discard = close


class AsyncReopeningSession(_Reopening):
    """Sessions of asyncpg or psycopg, in an event loop."""

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self._connect = connect

    async def run(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        if self._opened is None:
            self._opened = _wrap_async(await self._connect())
        rows: list[tuple[Any, ...]] = await self._opened.run(statement, values)
        return rows

    async def commit(self) -> None:
        if self._opened is not None:
            await self._opened.commit()

    async def rollback(self) -> None:
        """A session that is broken has rolled back by itself, and is closed."""
        if self._opened is None:
            return
        if self._opened.is_lost():
            self._opened = None  # a handler closed it
            return
        try:
            await self._opened.rollback()
        except Exception as error:
            await self.close()
            if read_answer(error) is not None:
                return
            raise

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def open_listener(self, channel: str) -> Any:
        """Begins to take the notifications of the open session, which listens."""
        return await self._opened.open_listener(channel)

    discard = close


def _wrap(connection: Any) -> Any:
    library = _library(connection)
    if library == "psycopg" and not inspect.iscoroutinefunction(connection.commit):
        from relaybox.clients.psycopg import PsycopgSession

        return PsycopgSession(connection)
    raise TypeError(
        f"relaybox.consumer.Consumer: the callable returned {_named(connection)}. Give one that opens a connection of psycopg 3, "
        "an engine of SQLAlchemy, a connection of Django, or the name of a libpq service. In an event loop: relaybox.aio.Consumer."
    )


def _wrap_async(connection: Any) -> Any:
    library = _library(connection)
    if library == "asyncpg":
        from relaybox.clients.asyncpg import AsyncpgSession

        return AsyncpgSession(connection)
    if library == "psycopg" and inspect.iscoroutinefunction(connection.commit):
        from relaybox.clients.psycopg import AsyncPsycopgSession

        return AsyncPsycopgSession(connection)
    raise TypeError(
        f"relaybox.aio.Consumer: the callable returned {_named(connection)}. Give an async one that opens a connection of asyncpg or an "
        "AsyncConnection of psycopg, or an AsyncEngine of SQLAlchemy."
    )


def _library(connection: Any) -> str:
    """The package of the connection's class, or of the class that it is made of."""
    packages = [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]
    return next((package for package in packages if package in ("asyncpg", "psycopg")), "")


def _named(connection: Any) -> str:
    return f"a {type(connection).__module__}.{type(connection).__qualname__}"
