"""An open connection of asyncpg as a consumer's session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from asyncpg import InternalClientError

from relaybox.clients.listening import open_async_listener
from relaybox.clients.raw import is_closed, is_idle
from relaybox.clients.statements import arguments, render

if TYPE_CHECKING:
    from asyncpg import Connection
    from asyncpg.transaction import Transaction


CLOSE_SECONDS = 5.0


class AsyncpgSession:
    """Each statement is in a transaction of asyncpg's: `connection.transaction()` of a handler is a savepoint in it."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection = connection
        self._transaction: Transaction | None = None

    async def run(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Runs a statement in the open transaction, or begins one; returns its rows."""
        if self._transaction is None:
            transaction = self.connection.transaction()
            await transaction.start()
            self._transaction = transaction
        text, names = render(statement, "numeric_dollar")
        return [tuple(row) for row in await self.connection.fetch(text, *arguments(names, values))]

    async def commit(self) -> None:
        """Commits what `run` began."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.commit()

    async def rollback(self) -> None:
        """Takes back what `run` began."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.rollback()

    async def close(self) -> None:
        """Ends the session; what was not committed is rolled back. asyncpg ends it at once if the server does not answer."""
        if is_closed(self.connection):
            return
        try:
            await self.connection.close(timeout=CLOSE_SECONDS)
        except InternalClientError:
            self.connection.terminate()  # the server has ended the session

    async def open_listener(self, channel: str) -> Any:
        """Begins to take the notifications of a session that listens."""
        return await open_async_listener(self.connection, channel)

    def driver_connection(self) -> Any:
        """The library's own connection."""
        return self.connection

    def is_lost(self) -> bool:
        return is_closed(self.connection)

    def is_aborted(self) -> bool:
        """Not known here: the next statement gets 25P02."""
        return False

    def has_ended(self) -> bool:
        return is_closed(self.connection) or is_idle(self.connection)
