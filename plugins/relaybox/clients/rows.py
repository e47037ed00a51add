"""One row of a statement in the session that an application has open: what `put` needs, for every library."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

from relaybox.clients.statements import Style, arguments, render

SYNC_KINDS = (
    "a session or connection of SQLAlchemy, a connection or cursor of psycopg 3, a cursor of psycopg2, or a connection of Django"
)
ASYNC_KINDS = "an AsyncSession or AsyncConnection of SQLAlchemy, an AsyncConnection of psycopg, or a connection of asyncpg"


def one_row(session: Any, statement: str, values: Mapping[str, object]) -> Any:
    """The one row of a statement whose {names} are values, in the session's transaction.

    Raises:
        TypeError: the session is of no library that is known here, or one of an event loop.
    """
    if _is_a(session, "psycopg2.extensions", "cursor"):
        session.execute(_text(statement, "pyformat"), values)
        return tuple(_values(session.fetchone()))
    if _is_a(session, "psycopg", "Connection"):
        return _psycopg_row(session, statement, values)
    if _is_a(session, "psycopg", "Cursor"):
        return _psycopg_row(session.connection, statement, values)
    if _is_a(session, "django.db.backends.base.base", "BaseDatabaseWrapper"):
        with session.cursor() as cursor:
            cursor.execute(_text(statement, "pyformat"), values)
            return cursor.fetchone()
    if is_async(session):
        raise TypeError(f"put() of relaybox.outbox got {_named(session)}, which waits in an event loop. Use relaybox.aio.put.")
    if "sqlalchemy" not in sys.modules or not hasattr(session, "execute"):
        raise TypeError(f"put() got {_named(session)}. It takes {SYNC_KINDS}.")
    return session.execute(_sqlalchemy_text(statement), dict(values)).one()


async def one_row_async(session: Any, statement: str, values: Mapping[str, object]) -> Any:
    """The same in an event loop.

    Raises:
        TypeError: the session is of no library that is known here, or none of an event loop.
    """
    if _is_a(session, "asyncpg", "Connection") or _is_a(session, "asyncpg.pool", "PoolConnectionProxy"):
        text, names = render(statement, "numeric_dollar")
        return tuple(await session.fetchrow(text, *arguments(names, values)))
    if _is_a(session, "psycopg", "AsyncConnection"):
        return await _async_psycopg_row(session, statement, values)
    if _is_a(session, "psycopg", "AsyncCursor"):
        return await _async_psycopg_row(session.connection, statement, values)
    if is_async(session):
        return (await session.execute(_sqlalchemy_text(statement), dict(values))).one()
    raise TypeError(f"put() of relaybox.aio got {_named(session)}. It takes {ASYNC_KINDS}.")


def is_async(session: Any) -> bool:
    """Whether a session waits in an event loop."""
    return (
        _is_a(session, "psycopg", "AsyncConnection")
        or _is_a(session, "psycopg", "AsyncCursor")
        or _is_a(session, "asyncpg", "Connection")
        or _is_a(session, "asyncpg.pool", "PoolConnectionProxy")
        or any(
            _is_a(session, "sqlalchemy.ext.asyncio", name) for name in ("AsyncSession", "AsyncConnection", "async_scoped_session")
        )
    )


def _psycopg_row(connection: Any, statement: str, values: Mapping[str, object]) -> Any:
    """With a cursor of its own, whose rows are tuples. Never prepared: behind a pooler each transaction may have another session."""
    from psycopg.rows import tuple_row

    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(_text(statement, "pyformat"), values, prepare=False).fetchone()


async def _async_psycopg_row(connection: Any, statement: str, values: Mapping[str, object]) -> Any:
    from psycopg.rows import tuple_row

    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_text(statement, "pyformat"), values, prepare=False)
        return await cursor.fetchone()


def _text(statement: str, style: Style) -> str:
    return render(statement, style)[0]


@functools.cache
def _sqlalchemy_text(statement: str) -> Any:
    from sqlalchemy import text

    return text(_text(statement, "named"))


def _is_a(session: Any, module: str, name: str) -> bool:
    """Whether it is an object of a library's class; of a library that was never imported there is none."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(session, kind)


def _values(row: Any) -> Any:
    """Cursors may give rows as mappings."""
    return row.values() if isinstance(row, Mapping) else row


def _named(session: Any) -> str:
    return f"a {type(session).__module__}.{type(session).__qualname__}"
