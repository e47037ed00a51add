"""Sessions to stores, by libpq service name, and what an error of a store means.

No DSN and no password passes through this code: libpq reads them from the service file that PGSERVICEFILE names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg2

from relaybox import errors
from relaybox.failpoints import reach
from relaybox.stores.parallel_reads.deadlines import current_inquiry
from relaybox.stores.sessions.answer_limits import ANSWER_GRACE_SECONDS, LimitedConnection
from relaybox.stores.sessions.credentials import Renewal, note_admitted, renew_credentials
from relaybox.stores.sessions.poolers import (
    CONNECTING_NAME,
    in_service_file,
    lends_transactions,
    refuse_pooler,
    refuse_statement_mode,
)
from relaybox.stores.sessions.refusal_errors import refusal_error
from relaybox.stores.sessions.refusals import REFUSAL_SECONDS, Refusal, ask_again
from relaybox.stores.sessions.settings import STATEMENT_TIMEOUT_SECONDS, pin_settings, session_settings
from relaybox.stores.sessions.sqlstates import NO_RIGHT, store_error

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

LINK_PARAMETERS: Mapping[str, int] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Of libpq: no session waits for a dead network. Seconds, the last one milliseconds."""


def connect(service: str, *, application_name: str, statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS) -> Connection:
    """Opens a session whose every wait ends, and in which no setting of the server, database or role changes what we do.

    Raises:
        StoreUnreachable: no answer, or not now; a retry may help.
        StoreUnusable: the server refused, and a retry gives the same answer (password, database, role).
        ConfigurationError: the service leads to a connection pooler.
    """
    if (inquiry := current_inquiry()) is not None:
        statement_timeout_seconds = min(
            statement_timeout_seconds, inquiry.seconds
        )  # a server that works ends a statement whose client has gone
    settings = session_settings(statement_timeout_seconds=statement_timeout_seconds)
    return open_session(
        service, application_name=application_name, settings=settings, statement_timeout_seconds=statement_timeout_seconds
    )


def open_session(
    service: str,
    *,
    application_name: str,
    settings: Mapping[str, str],
    statement_timeout_seconds: float,
    accepts_pooler: bool = False,
) -> LimitedConnection:
    """Opens a session with these settings of the server's; raises as connect().

    A server that has not answered ANSWER_GRACE_SECONDS after `statement_timeout_seconds` is taken for frozen: the statement fails.

    Args:
        service: of libpq.
        application_name: as the server's views show the session. Where it accepts no pooler, its name is CONNECTING_NAME until it has
            found none.
        settings: values as `SHOW` gives them.
        statement_timeout_seconds: the limit of each statement.
        accepts_pooler: the caller works through a pooler too. Then `is_pooled` of the session says whether it does, and its transactions
            have none of the settings.

    Raises:
        ConfigurationError: a pooler is in between that the caller can't work through.
    """
    name = application_name if accepts_pooler else CONNECTING_NAME
    parameters: dict[str, Any] = {**LINK_PARAMETERS, "application_name": name, "client_encoding": "UTF8"}
    pinned = {"application_name": application_name, **settings}
    connection = _open_pinned(service, parameters, pinned)
    if connection.is_pooled and not accepts_pooler:
        connection.close()
        raise refuse_pooler(service, target=in_service_file(service))
    if connection.is_pooled and not lends_transactions(connection):
        connection = _open_pinned(service, parameters, pinned)  # the pooler may have been restarted just then
        if not lends_transactions(connection):
            raise refuse_statement_mode(service)
    connection.answer_seconds = statement_timeout_seconds + ANSWER_GRACE_SECONDS
    return connection


def _open_pinned(service: str, parameters: Mapping[str, Any], settings: Mapping[str, str]) -> LimitedConnection:
    connection = _connect(service, parameters)
    # psycopg2 quotes parameters for as long as the session lives by what this was when it began: another value would alter a backslash
    strings = {"standard_conforming_strings": connection.get_parameter_status("standard_conforming_strings") or "on"}
    try:
        with store_errors(service, "pinning the settings of the session"):
            connection.is_pooled = pin_settings(connection, {**settings, **strings}, store=service)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(service: str, parameters: Mapping[str, Any]) -> LimitedConnection:
    inquiry = current_inquiry()
    if inquiry is None:
        opened, renewal = _attempt_renewed(service, {"service": service, **parameters}, refusal_seconds=REFUSAL_SECONDS)
        if isinstance(opened, _Refused):
            raise refusal_error(service, opened.said, opened.refusal, renewal)
        return opened
    with inquiry.connecting(service) as given:
        full, seconds = {**parameters, **given}, min(REFUSAL_SECONDS, inquiry.seconds_left)
        renewal = None
        if "service" in given:  # of libpq: the file may have nothing yet
            opened, renewal = _attempt_renewed(service, full, refusal_seconds=seconds)
        else:
            opened = _attempt(full, refusal_seconds=seconds)
        if isinstance(opened, _Refused):
            error = refusal_error(service, opened.said, opened.refusal, renewal)
            if isinstance(error, errors.StoreUnreachable):
                inquiry.silent[service] = error
            raise error
    inquiry.watch(service, opened)
    return opened


def _attempt_renewed(
    service: str, parameters: Mapping[str, Any], *, refusal_seconds: float
) -> tuple[LimitedConnection | _Refused, Renewal | None]:
    """Logs in with what the service file has after it was renewed; where that is refused, with what it has after it was renewed again."""
    renewal = renew_credentials(service)
    opened = _attempt(parameters, refusal_seconds=refusal_seconds)
    if renewal is not None and isinstance(opened, _Refused) and opened.refusal.rejects_login:
        renewal = renew_credentials(service, refused=renewal)
        opened = _attempt(parameters, refusal_seconds=refusal_seconds)
    if renewal is not None and not isinstance(opened, _Refused) and not renewal.was_admitted:
        note_admitted(service)
    return opened, renewal


class _Refused(NamedTuple):
    said: str
    refusal: Refusal


def _attempt(parameters: Mapping[str, Any], *, refusal_seconds: float) -> LimitedConnection | _Refused:
    started_at = time.monotonic()
    try:
        connection: LimitedConnection = psycopg2.connect(connection_factory=LimitedConnection, **parameters)
    except psycopg2.Error as error:
        was_answered = time.monotonic() - started_at < refusal_seconds
        refusal = ask_again(parameters, seconds=refusal_seconds) if was_answered else Refusal()
        return _Refused(" ".join(str(error).split()), refusal)
    return connection


@contextmanager
def store_errors(store: str, doing: str) -> Iterator[None]:
    """Turns an error of psycopg2 into one of ours, by SQLSTATE: `store hub: while publishing batch 3 ...`."""
    try:
        yield
    except psycopg2.Error as error:
        raise translate(error, store=store, doing=doing) from error


def translate(error: psycopg2.Error, *, store: str, doing: str) -> errors.RelayboxError:
    """The error of ours for an error of a store; terminal unless the SQLSTATE says that a retry may help."""
    # psycopg2 has no SQLSTATE when the connection itself broke; in the middle of a COPY it has no class for it either
    is_broken = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or type(error) is psycopg2.DatabaseError
    return store_error(
        store=store,
        doing=doing,
        sqlstate=error.pgcode,
        said=error.diag.message_primary or " ".join(str(error).split()),
        hint=error.diag.message_hint,
        login=_login_of(error),
        is_broken=is_broken,
    )


def lacks_right(error: errors.RelayboxError) -> bool:
    """Whether the store answered, and refused its login a right."""
    return isinstance(error.__cause__, psycopg2.Error) and error.__cause__.pgcode == NO_RIGHT


def _login_of(error: psycopg2.Error) -> str:
    return f"login {error.cursor.connection.info.user}" if error.cursor is not None else "the login"


def commit(connection: Connection, step: str) -> None:
    """Commits a step of the protocol; its failpoints are before and after."""
    reach(f"{step}.committing", connection)
    connection.commit()
    reach(f"{step}.committed", connection)


def commit_durably(connection: Connection, step: str) -> None:
    """Commits a step of the protocol, flushed as this store promises, and refuses a COMMIT that came back with any message.

    A cancelled wait for a synchronous standby is reported only so: the commit is visible, but a failover may lose it. The server may
    say it in any language; that it says it is settled in the transaction itself, whatever the role, the database or a function set
    before. Postgres shows the state of its standbys to monitoring roles only.

    Raises:
        NotDurable: nothing may be read or sent on the strength of this transaction.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DURABLY_AND_TOLD)
    reach(f"{step}.committing", connection)
    messages: list[str] = []
    connection.notices = messages  # a list of its own: nothing else empties it, and psycopg2 keeps the last fifty
    connection.commit()
    if messages:
        raise errors.NotDurable(
            f"COMMIT returned with: {messages[0].strip()}", next_step="Run the transfer again once the standby answers."
        )
    reach(f"{step}.committed", connection)


_DURABLY_AND_TOLD = "set local synchronous_commit = on; set local client_min_messages = warning"
"""Directly before COMMIT: both hold until the transaction has ended."""
