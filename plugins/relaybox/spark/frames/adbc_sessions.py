"""Sessions of ADBC to a store: settings, constants of SQL, and what an error of the store means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from relaybox import errors
from relaybox.spark.frames.logins import login_of
from relaybox.stores.sessions.connections import LINK_PARAMETERS
from relaybox.stores.sessions.settings import NEWER_SETTINGS
from relaybox.stores.sessions.sqlstates import error_class


def quote_text(value: str) -> str:
    """Returns a constant of SQL, whatever standard_conforming_strings is. A statement with parameters would be no COPY."""
    return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


_TEXTS = {"client_encoding": "UTF8"}
"""What ADBC takes every text for, whatever the role or the database sets."""


# until search_path is set, every name has its schema: an operator too
_SET = """
    select pg_catalog.set_config(s.name, s.value, {local}) from (values {values}) s (name, value)
    where s.name operator(pg_catalog.<>) all (array[{newer}]::pg_catalog.text[])
        or exists (select from pg_catalog.pg_settings p where p.name operator(pg_catalog.=) s.name)
"""


class _Database:
    """What ADBC knows of the types of a store, which costs 30 ms of this process and as many of the store. It holds no session.

    Kept for as long as the process lives: types that Postgres has itself have the same numbers in every store.
    """

    def __init__(self, uri: str) -> None:
        import adbc_driver_postgresql  # type: ignore[import-untyped]

        self.handle = adbc_driver_postgresql.connect(uri)

    def close(self) -> None:
        """What a connection calls when it is closed."""


_databases: dict[str, _Database] = {}


def _connect(uri: str, *, autocommit: bool) -> Any:
    from adbc_driver_manager import AdbcConnection, dbapi

    database = _databases.get(uri)
    if database is None:
        database = _databases[uri] = _Database(uri)
    return dbapi.Connection(database, AdbcConnection(database.handle), autocommit=autocommit)  # type: ignore[arg-type]


@contextmanager
def open_cursor(store: str, settings: Mapping[str, str], *, autocommit: bool = True) -> Iterator[Any]:
    """Opens a session with these settings of the server's, search_path among them.

    Without autocommit it is one transaction: nothing lasts that the caller does not commit, and the settings end with it, so that a
    pooler may lend the session of the server to others.
    """
    # libpq takes + for itself, and not for a space
    uri = f"postgresql:///?{urlencode({'service': store, **LINK_PARAMETERS, 'application_name': 'relaybox frame'}, quote_via=quote)}"
    with login_of(store), _connect(uri, autocommit=autocommit) as connection, connection.cursor() as cursor:
        if not autocommit:
            cursor.execute("set transaction isolation level read committed, read write")  # before anything has read
        cursor.execute("select pg_catalog.current_setting('quote_all_identifiers'), session_user")
        quotes, login = cursor.fetchone()
        if quotes == "on":
            _databases.pop(uri, None)  # it knows no types
            raise errors.StoreUnusable(
                f"store {store}: quote_all_identifiers is on for login {login}. ADBC, which reads and writes DataFrames, then finds no "
                "types.",
                next_step=f"alter role {login} set quote_all_identifiers = off; or take it out of options in the service file.",
            )
        values = ", ".join(f"('{name}', '{value}')" for name, value in {**settings, **_TEXTS}.items())
        newer = ", ".join(f"'{name}'" for name in NEWER_SETTINGS)
        cursor.execute(_SET.format(values=values, newer=newer, local=str(not autocommit).lower()))
        cursor.fetchall()
        yield cursor


@contextmanager
def adbc_errors(store: str, doing: str) -> Iterator[None]:
    """Turns errors of ADBC into ours, by SQLSTATE."""
    from adbc_driver_manager import Error

    try:
        yield
    except Error as error:
        kind = error_class(error.sqlstate) if error.sqlstate else errors.StoreUnreachable
        state = f" ({error.sqlstate})" if error.sqlstate else ""
        raise kind(
            f"store {store}: while {doing}: {primary_message(error)}{state}.",
            next_step=_diagnostics(error).get("PG_DIAG_MESSAGE_HINT", ""),
        ) from error


def primary_message(error: Any) -> str:
    """What the store says, on one line, without its detail, which may have a row."""
    said = _diagnostics(error).get("PG_DIAG_MESSAGE_PRIMARY") or str(error).partition("DETAIL:")[0]
    return " ".join(said.split())


def _diagnostics(error: Any) -> dict[str, str]:
    """The fields of the store's answer. ADBC gives names and values as text or as bytes."""
    return {_text(name): _text(value) for name, value in error.details or []}


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
