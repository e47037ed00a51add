"""A connection of Django as a consumer's session: each transaction is an outermost `transaction.atomic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import DatabaseError, InterfaceError, transaction

from relaybox import errors
from relaybox.clients.listening import open_listener
from relaybox.clients.raw import is_aborted, is_closed, is_idle
from relaybox.clients.statements import render


class DjangoSession:
    """`transaction.atomic()` of a handler is a savepoint; `transaction.on_commit` runs when message and work are committed."""

    def __init__(self, wrapper: Any) -> None:
        self._wrapper = wrapper
        self._atomic: Any = None

    @property
    def connection(self) -> Any:
        """Django's connection while its session is open, or None."""
        return self._wrapper if self._wrapper.connection is not None else None

    def run(self, statement: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Runs a statement in the open transaction, or begins one; returns its rows.

        Raises:
            RequestRefused: a transaction is open that is not the consumer's.
        """
        if self._atomic is None:
            self._begin()
        with self._wrapper.cursor() as cursor:
            cursor.execute(render(statement, "pyformat")[0], values)
            return list(cursor.fetchall())

    def _begin(self) -> None:
        if self._wrapper.in_atomic_block or not self._wrapper.get_autocommit():
            raise errors.RequestRefused(
                f"Django's connection {self._wrapper.alias} has an open transaction that is not the consumer's, so the consumer could not "
                "commit.",
                next_step="Run the consumer outside of transaction.atomic, with AUTOCOMMIT on; in tests with TransactionTestCase.",
            )
        atomic = transaction.atomic(using=self._wrapper.alias)
        atomic.__enter__()
        self._atomic = atomic

    def commit(self) -> None:
        atomic, self._atomic = self._atomic, None
        if atomic is not None:
            atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        """A session that is broken has rolled back by itself, and is closed."""
        atomic, self._atomic = self._atomic, None
        if atomic is None:
            return
        try:
            atomic.__exit__(_TakenBack, _TakenBack(), None)
        except (DatabaseError, InterfaceError):
            self._wrapper.close()

    def close(self) -> None:
        self.rollback()
        self._wrapper.close()

    def discard(self) -> None:
        """Ends the session itself: no pool of Django's hands out what a handler changed in it."""
        self.rollback()
        if self._wrapper.connection is not None:
            self._wrapper.connection.close()
        self._wrapper.close()

    def driver_connection(self) -> Any:
        """The library's connection below Django's, or None."""
        return self._wrapper.connection

    def open_listener(self, _channel: str) -> Any:
        """Begins to take the notifications of a session that listens."""
        return open_listener(self._wrapper.connection)

    def is_lost(self) -> bool:
        return self._wrapper.connection is None or is_closed(self._wrapper.connection)

    def is_aborted(self) -> bool:
        if self._wrapper.connection is None:
            return False
        return bool(self._wrapper.needs_rollback) or is_aborted(self._wrapper.connection)

    def has_ended(self) -> bool:
        return self.is_lost() or not self._wrapper.in_atomic_block or is_idle(self._wrapper.connection)


class _TakenBack(Exception):
    """Ends an atomic block with a rollback."""
