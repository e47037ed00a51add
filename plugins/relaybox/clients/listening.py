"""How the notifications of a session are heard: one listener for each library, which takes what the session got without asking the server.

A connection is the library's own: of SQLAlchemy and Django the one below.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def server_process_told(connection: Any) -> int | None:
    """The process id of the server's session, as it was told at connecting; None: of a library that is not known here.

    A pooler tells a number of its own.
    """
    if hasattr(connection, "get_server_pid"):  # asyncpg
        return int(connection.get_server_pid())
    if hasattr(connection, "notifies") and hasattr(connection, "info"):  # psycopg2, psycopg
        return int(connection.info.backend_pid)
    return None


def open_listener(connection: Any) -> Any:
    """A listener of a connection of threads that listens already, by LISTEN."""
    return PsycopgListener(connection) if hasattr(connection, "add_notify_handler") else Psycopg2Listener(connection)


async def open_async_listener(connection: Any, channel: str) -> Any:
    """A listener of a connection of an event loop that listens to the channel already."""
    if hasattr(connection, "add_notify_handler"):
        return AsyncPsycopgListener(connection)
    listener = AsyncpgListener(connection)
    connection.add_termination_listener(listener.note_end)
    await connection.add_listener(channel, listener.note)
    return listener


class Psycopg2Listener:
    """psycopg2 keeps notifications in a list, also those that came with the answers to statements."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """The socket: readable when something came."""
        return int(self._connection.fileno())

    def take_notification(self) -> bool:
        """Reads what came, without waiting; whether there was a notification since the last call.

        Raises:
            psycopg2.Error: the server ended the session.
        """
        self._connection.poll()
        is_notified = bool(self._connection.notifies)
        self._connection.notifies.clear()
        return is_notified


class PsycopgListener:
    """psycopg tells its handlers of those that come with the answers to statements; at rest, somebody has to read them."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_notified = False
        connection.add_notify_handler(self._note)

    def _note(self, _notification: object) -> None:
        self._is_notified = True

    def fileno(self) -> int:
        """The socket: readable when something came."""
        return int(self._connection.fileno())

    def take_notification(self) -> bool:
        """As Psycopg2Listener's.

        Raises:
            psycopg.Error: the server ended the session.
        """
        pgconn = self._connection.pgconn
        pgconn.consume_input()
        while (notification := pgconn.notifies()) is not None:
            pgconn.notify_handler(notification)  # all handlers of the connection, as psycopg does it
        is_notified, self._is_notified = self._is_notified, False
        return is_notified


class AsyncPsycopgListener(PsycopgListener):
    """The same in an event loop."""

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """While it is entered, `wake` is called when something came. No statement may run meanwhile."""
        loop, socket = asyncio.get_running_loop(), self.fileno()
        loop.add_reader(socket, wake)
        try:
            yield
        finally:
            loop.remove_reader(socket)


class AsyncpgListener:
    """asyncpg reads by itself, and calls."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_notified = False
        self._wake: Callable[[], None] = _do_nothing

    def note(self, *_: object) -> None:
        """A notification came."""
        self._is_notified = True
        self._wake()

    def note_end(self, _connection: object) -> None:
        """The session has ended."""
        self._wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """While it is entered, `wake` is called when something came."""
        self._wake = wake
        try:
            yield
        finally:
            self._wake = _do_nothing

    def take_notification(self) -> bool:
        """Whether there was a notification since the last call.

        Raises:
            ConnectionResetError: the server ended the session.
        """
        if self._connection.is_closed():
            raise ConnectionResetError("the server closed the connection while it waited for a notification")
        is_notified, self._is_notified = self._is_notified, False
        return is_notified


def _do_nothing() -> None:
    pass
