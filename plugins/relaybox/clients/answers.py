"""What a library says when a store refuses: SQLSTATE and words, from whichever exception it raised."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """The error of a store or of the way to it.

    Attributes:
        sqlstate: None if the server did not answer.
        said: in the words of the server or the library.
        hint: the server's.
        is_broken: there is no SQLSTATE because the connection broke or was never made.
        login: as in "login shop", or "the login" where the library does not say.
    """

    sqlstate: str | None
    said: str
    hint: str | None
    is_broken: bool
    login: str = "the login"


def read_answer(error: BaseException) -> StoreAnswer | None:
    """Reads an exception of psycopg2, psycopg, asyncpg, or of SQLAlchemy or Django above them; None if it is no error of a store."""
    for cause in _causes(error):
        if _is_of(cause, "psycopg2", "Error"):
            return _read_libpq(cause, cause.pgcode)  # type: ignore[attr-defined]
        if _is_of(cause, "psycopg", "Error"):
            return _read_libpq(cause, cause.sqlstate)  # type: ignore[attr-defined]
        if _is_of(cause, "asyncpg", "PostgresError"):
            # asyncpg knows a broken connection as 08003, which no server sent
            return StoreAnswer(cause.sqlstate, str(cause), getattr(cause, "hint", None), is_broken=False)  # type: ignore[attr-defined]
        # InternalClientError: the server has ended the session, and asyncpg has not read the end of the socket yet
        is_of_asyncpg = _is_of(cause, "asyncpg", "InterfaceError") or _is_of(cause, "asyncpg", "InternalClientError")
        if is_of_asyncpg or isinstance(cause, OSError):
            return StoreAnswer(None, _in_one_line(cause), None, is_broken=True)
    return None


def _read_libpq(error: Any, sqlstate: str | None) -> StoreAnswer:
    cursor = getattr(error, "cursor", None)  # of psycopg2
    login = "the login" if cursor is None else f"login {cursor.connection.info.user}"
    said = error.diag.message_primary or _in_one_line(error)
    return StoreAnswer(sqlstate, said, error.diag.message_hint, _is_broken(error), login)


def _is_broken(error: Any) -> bool:
    """Without an SQLSTATE the connection broke; in the middle of a COPY psycopg2 has no class for it either.

    InternalError without one is of the library: the answers it got fit no statement. So psycopg meets two farewells at once, the server's
    and that of the pooler between.
    """
    names = [kind.__name__ for kind in type(error).__mro__]
    return "OperationalError" in names or "InterfaceError" in names or names[0] in ("DatabaseError", "InternalError")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, that of the library below, and what that one was made of."""
    yield error
    below = getattr(error, "orig", None) or error.__cause__
    if isinstance(below, BaseException):
        yield below
        if isinstance(below.__cause__, BaseException):
            yield below.__cause__


def _is_of(error: BaseException, library: str, name: str) -> bool:
    """Whether it is an error of a library; one that was never imported has raised nothing."""
    module = sys.modules.get(library)
    kind = getattr(module, name, None)
    return isinstance(kind, type) and isinstance(error, kind)


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
