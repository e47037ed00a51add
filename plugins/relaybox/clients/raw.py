"""What a connection of psycopg2, psycopg or asyncpg knows of its session without asking the server."""

from __future__ import annotations

from typing import Any

_IDLE, _IN_ERROR = 0, 3
"""Of libpq's transaction status."""


def is_closed(connection: Any) -> bool:
    """Whether the connection was closed, or a statement found it broken."""
    if hasattr(connection, "is_closed"):  # asyncpg
        from asyncpg import InterfaceError

        try:
            return bool(connection.is_closed())
        except InterfaceError:
            return True  # its pool has taken it back, since it was closed
    return bool(connection.closed)


def is_idle(connection: Any) -> bool:
    """Whether no transaction is open."""
    if hasattr(connection, "is_in_transaction"):  # asyncpg
        return not connection.is_in_transaction()
    return bool(connection.info.transaction_status == _IDLE)


def is_aborted(connection: Any) -> bool:
    """Whether a statement failed in the open transaction. asyncpg does not say: there the next statement gets 25P02."""
    return not hasattr(connection, "is_in_transaction") and bool(connection.info.transaction_status == _IN_ERROR)
