"""An open connection of psycopg 3 as a consumer's session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from psycopg.rows import tuple_row

from relaybox.clients.listening import open_async_listener, open_listener
from relaybox.clients.raw import is_aborted, is_closed, is_idle
from relaybox.clients.statements import render

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class _State:
    connection: Any

    def driver_connection(self) -> Any:
        """The library's own connection."""
        return self.connection

    def is_lost(self) -> bool:
        return is_closed(self.connection)

    def is_aborted(self) -> bool:
        return is_aborted(self.connection)

    def has_ended(self) -> bool:
        return is_closed(self.connection) or is_idle(self.connection)


class PsycopgSession(_State):
    """Statements are never prepared: behind a pooler the next transaction may have another session of the server."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection

    def run(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Runs a statement in the open transaction, or begins one; returns its rows."""
        with self.connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(render(statement, "pyformat")[0], values, prepare=False)
            return list(cursor.fetchall())

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()

    def open_listener(self, _channel: str) -> Any:
        """Begins to take the notifications of a session that listens."""
        return open_listener(self.connection)


class AsyncPsycopgSession(_State):
    """The same in an event loop."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection

    async def run(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Runs a statement in the open transaction, or begins one; returns its rows."""
        async with self.connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(render(statement, "pyformat")[0], values, prepare=False)
            return list(await cursor.fetchall())

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def close(self) -> None:
        await self.connection.close()

    async def open_listener(self, channel: str) -> Any:
        """Begins to take the notifications of a session that listens."""
        return await open_async_listener(self.connection, channel)
