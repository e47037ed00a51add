"""Engines of SQLAlchemy as a consumer's sessions, one at a time: opened by the first statement, and anew after a close."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

from relaybox.clients.listening import open_async_listener, open_listener
from relaybox.clients.raw import is_aborted, is_closed, is_idle
from relaybox.clients.statements import arguments, render

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine


class _State:
    """What is known of the open connection without I/O."""

    def __init__(self, paramstyle: Any) -> None:
        self._style = paramstyle
        self._transaction: Any = None

    def _sync(self) -> Connection | None:
        raise NotImplementedError

    def driver_connection(self) -> Any:
        """The connection of the library below, or None where it was given up or closed."""
        connection = self._sync()
        return (
            None if connection is None or connection.closed or connection.invalidated else connection.connection.driver_connection
        )

    def is_lost(self) -> bool:
        connection = self._sync()
        if connection is None or connection.invalidated:
            return True
        raw = self.driver_connection()
        return raw is not None and is_closed(raw)

    def is_aborted(self) -> bool:
        raw = self.driver_connection()
        return raw is not None and is_aborted(raw)

    def note_transaction(self) -> None:
        """The transaction that is open now is the handlers'."""
        connection = self._sync()
        self._transaction = None if connection is None else connection.get_transaction()

    def has_ended(self) -> bool:
        connection, raw = self._sync(), self.driver_connection()
        if connection is None or raw is None or connection.get_transaction() is not self._transaction:
            return True
        return is_idle(raw)


class SqlalchemySession(_State):
    """Where Relaybox opened the connection, its own statements have a limit of the client too, and its settings behind a pooler."""

    def __init__(self, engine: Engine, *, pooled_settings: str = "") -> None:
        super().__init__(engine.dialect.paramstyle)
        self._engine = engine
        self._pooled_settings = pooled_settings
        self._connection: Connection | None = None

    @property
    def connection(self) -> Connection | None:
        return self._connection

    def _sync(self) -> Connection | None:
        return self._connection

    def open_listener(self, _channel: str) -> Any:
        """Begins to take the notifications of a session that listens."""
        return open_listener(self.driver_connection())

    def run(self, statement: str, values: Mapping[str, object]) -> list[Any]:
        """Runs a statement in the open transaction, or begins one; returns its rows."""
        if self._connection is None:
            self._connection = self._engine.connect()
        raw = self._connection.connection.driver_connection
        text, names = render(statement, self._style)
        if getattr(raw, "is_pooled", False) and not self._connection.in_transaction():
            text = self._pooled_settings + text
        with _limited(raw):
            return list(self._connection.exec_driver_sql(text, arguments(names, values)).fetchall())

    def commit(self) -> None:
        if self._connection is not None:
            self._connection.commit()

    def rollback(self) -> None:
        """A session that is broken has rolled back by itself, and is closed."""
        if self._connection is not None and self._connection.closed:
            self._connection = None  # a handler closed it
        if self._connection is not None:
            try:
                self._connection.rollback()
            except DBAPIError:
                self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()

    def discard(self) -> None:
        """Ends the session itself: no pool hands out what a handler changed in it."""
        if self._connection is not None:
            with suppress(DBAPIError):
                self._connection.invalidate()
        self.close()


class AsyncSqlalchemySession(_State):
    """The same in an event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine.dialect.paramstyle)
        self._engine = engine
        self._connection: AsyncConnection | None = None

    @property
    def connection(self) -> AsyncConnection | None:
        return self._connection

    def _sync(self) -> Connection | None:
        return None if self._connection is None else self._connection.sync_connection

    async def open_listener(self, channel: str) -> Any:
        """Begins to take the notifications of a session that listens."""
        return await open_async_listener(self.driver_connection(), channel)

    async def run(self, statement: str, values: Mapping[str, object]) -> list[Any]:
        """Runs a statement in the open transaction, or begins one; returns its rows."""
        if self._connection is None:
            self._connection = await self._engine.connect()
        text, names = render(statement, self._style)
        return list((await self._connection.exec_driver_sql(text, arguments(names, values))).fetchall())

    async def commit(self) -> None:
        if self._connection is not None:
            await self._connection.commit()

    async def rollback(self) -> None:
        """A session that is broken has rolled back by itself, and is closed."""
        if self.is_lost() or (self._connection is not None and self._connection.closed):
            await self.close()
        if self._connection is not None:
            try:
                await self._connection.rollback()
            except DBAPIError:
                await self.close()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                await connection.close()

    async def discard(self) -> None:
        """Ends the session itself: no pool hands out what a handler changed in it."""
        if self._connection is not None:
            await self._connection.invalidate()
        await self.close()


@contextmanager
def _limited(raw: Any) -> Iterator[None]:
    """Limits the statements of Relaybox in a session that Relaybox opened; a handler's own have no limit of the client."""
    if not hasattr(raw, "limits_statements"):
        yield
        return
    from relaybox.stores.sessions.answer_limits import limiting_statements

    with limiting_statements(raw):
        yield
