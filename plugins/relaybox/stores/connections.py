"""Sessions to stores, by libpq service name, and what an error of a store means.

No DSN and no password passes through this code: libpq reads them from the service file that PGSERVICEFILE names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2

from relaybox import errors
from relaybox.failpoints import reach
from relaybox.stores.answer_limits import ANSWER_GRACE_SECONDS, LimitedConnection
from relaybox.stores.inquiries import current_inquiry

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

LOCK_TIMEOUT_SECONDS = 10
IDLE_IN_TRANSACTION_SECONDS = 60
STATEMENT_TIMEOUT_SECONDS = 900

TEXT_SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO",  # what psycopg2 reads; it sets it only where another one is found, and a reload changes it later
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",  # init records the names of functions and views as text
}
"""How values and statements are written as text, from the first statement to the last."""

PLANNER_SETTINGS: Mapping[str, str] = {
    "jit": "off",
    "enable_seqscan": "off",  # every query has its index; statistics may lag far behind a burst of messages
    "enable_indexscan": "on",
    "enable_indexonlyscan": "on",
    "enable_bitmapscan": "on",
    "enable_nestloop": "on",
    "enable_partition_pruning": "on",
    "plan_cache_mode": "auto",
}
"""What the plans rely on that tests/integration/test_query_plans.py holds, whatever a database switches off for other work."""

_OWN_CODES: dict[str, type[errors.RelayboxError]] = {
    "RB001": errors.StoreUnusable,
    "RB002": errors.PlanRefused,
    "RB003": errors.StoreUnusable,
    "RB004": errors.UnknownHop,
    "RB005": errors.PlanRefused,
    "RB006": errors.HopChanged,
    "RB007": errors.InitUnfinished,
    "RB011": errors.HistoryLost,
    "RB012": errors.ContentDiffers,
    "RB013": errors.SliceMissing,
    "RB014": errors.HistoryLost,
    "RB015": errors.SliceSuperseded,
    "RB016": errors.HistoryLost,
    "RB017": errors.NoSuchGap,
    "RB021": errors.SenderRefused,
    "RB022": errors.SenderRefused,
    "RB023": errors.SenderRefused,
    "RB030": errors.AlreadySubscribed,
    "RB031": errors.NotSubscribed,
    "RB032": errors.UnknownStream,
    "RB033": errors.NotFetched,
    "RB034": errors.NoLongerKept,
    "RB035": errors.LaneLost,
    "RB036": errors.RequestRefused,
    "RB037": errors.DeadLetterNotOpen,
    "RB038": errors.Detached,
    "RB039": errors.QuotaExceeded,
}

_POSTGRES_CODES: dict[str, type[errors.RelayboxError]] = {
    "3F000": errors.StoreNotInitialised,  # invalid_schema_name: the store has no schema relaybox
    "42501": errors.StoreUnusable,  # insufficient_privilege
    "25006": errors.StoreUnusable,  # read_only_sql_transaction
    "25P03": errors.StoreUnreachable,  # idle_in_transaction_session_timeout
    "25P04": errors.StoreUnreachable,  # transaction_timeout
    "55006": errors.StoreBusy,  # object_in_use
    "55P03": errors.StoreBusy,  # lock_not_available
    "57014": errors.StoreBusy,  # query_canceled
    "57P04": errors.StoreUnusable,  # database_dropped
    "58P01": errors.StoreFailed,  # undefined_file: a file of the server is gone
    "58P02": errors.StoreFailed,  # duplicate_file
    "58P03": errors.StoreFailed,  # file_name_too_long
}

_NEXT_STEPS: dict[type[errors.RelayboxError], str] = {errors.StoreNotInitialised: "Run: relaybox init"}
"""Where the server gives no hint."""

_POSTGRES_CLASSES: dict[str, type[errors.RelayboxError]] = {
    "08": errors.StoreUnreachable,  # connection_exception
    "28": errors.StoreUnusable,  # invalid_authorization
    "40": errors.StoreBusy,  # serialization_failure, deadlock_detected
    "53": errors.StoreBusy,  # insufficient_resources, disk_full
    "57": errors.StoreUnreachable,  # admin_shutdown, crash_shutdown, cannot_connect_now
    "58": errors.StoreBusy,  # io_error
    "72": errors.StoreBusy,  # snapshot_too_old
}

_REFUSED_FOR_GOOD = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects|not permitted to log in|permission denied"
    r"|(role|database) \".*\" does not exist|(unrecognized|unsupported|invalid).* parameter|certificate|does not support SSL"
)
"""Any other refusal passes: a server that starts, recovers or stops, or has no connection to spare."""


NEWER_SETTINGS = frozenset({"transaction_timeout", "restrict_nonsystem_relation_kind"})
"""Of those that a session pins: what a server of a supported version may not know yet."""


def connect(service: str, *, application_name: str, statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS) -> Connection:
    """Opens a session whose every wait ends, and in which no setting of the server, database or role changes what we do.

    Raises:
        StoreUnreachable: no answer, or not now; a retry may help.
        StoreUnusable: the server refused, and a retry gives the same answer (password, database, role).
    """
    if (inquiry := current_inquiry()) is not None:
        statement_timeout_seconds = min(
            statement_timeout_seconds, inquiry.seconds
        )  # a server that works ends a statement whose client has gone
    settings = {
        "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
        "statement_timeout": f"{int(statement_timeout_seconds * 1000)}ms",
        "transaction_timeout": "0",  # the two above end every transaction
        "idle_session_timeout": "0",  # a driver's sessions rest while Spark copies
        "client_connection_check_interval": "5s",
        "default_transaction_isolation": "read committed",  # a batch is planned by a snapshot taken after its lock
        "default_transaction_read_only": "off",
        "default_transaction_deferrable": "off",
        "exit_on_error": "off",
        "client_min_messages": "warning",
        "row_security": "off",  # a policy must be an error, never fewer rows
        "restrict_nonsystem_relation_kind": "",  # our views are used
        "search_path": "pg_catalog",
        **TEXT_SETTINGS,
        **PLANNER_SETTINGS,
    }
    return open_session(
        service, application_name=application_name, settings=settings, statement_timeout_seconds=statement_timeout_seconds
    )


def open_session(
    service: str, *, application_name: str, settings: Mapping[str, str], statement_timeout_seconds: float
) -> LimitedConnection:
    """Opens a session with these settings of the server's; raises as connect().

    A server that has not answered ANSWER_GRACE_SECONDS after `statement_timeout_seconds` is taken for frozen: the statement fails.
    """
    parameters: dict[str, Any] = {**LINK_PARAMETERS, "application_name": application_name, "client_encoding": "UTF8"}
    connection = _connect(service, parameters)
    try:
        with store_errors(service, "pinning the settings of the session"):
            pin_settings(connection, settings)
    except BaseException:
        connection.close()
        raise
    connection.answer_seconds = statement_timeout_seconds + ANSWER_GRACE_SECONDS
    return connection


def _connect(service: str, parameters: Mapping[str, Any]) -> LimitedConnection:
    inquiry = current_inquiry()
    try:
        if inquiry is None:
            return _open(service=service, **parameters)
        with inquiry.connecting(service) as given:
            connection = _open(**{**parameters, **given})
    except psycopg2.Error as error:
        refused = _connect_error(service, error)
        if inquiry is not None and isinstance(refused, errors.StoreUnreachable):
            inquiry.silent[service] = refused
        raise refused from None
    inquiry.watch(service, connection)
    return connection


def _open(**parameters: Any) -> LimitedConnection:
    connection: LimitedConnection = psycopg2.connect(connection_factory=LimitedConnection, **parameters)
    return connection


def pin_settings(connection: Connection, settings: Mapping[str, str]) -> None:
    """Sets these for the whole session, in one statement that commits by itself.

    Not in the startup packet: poolers drop or refuse its options, and a service file may need them for something else. A value that
    the session sets stands above those of the server, database and role, also above those that change later.
    """
    was_autocommit = connection.autocommit
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(_PIN, (list(settings), list(settings.values()), [name in NEWER_SETTINGS for name in settings]))
    connection.autocommit = was_autocommit


_PIN = """
select pg_catalog.set_config(s.name, s.value, false)
from rows from (pg_catalog.unnest(%s), pg_catalog.unnest(%s), pg_catalog.unnest(%s)) s (name, value, may_be_unknown)
where pg_catalog.current_setting(s.name, s.may_be_unknown) is not null
"""


def _connect_error(service: str, error: psycopg2.Error) -> errors.RelayboxError:
    """libpq gives no SQLSTATE for a refused connection, only words; words in another language count as worth a retry."""
    said = _sentence(" ".join(str(error).split()))
    if said.startswith("service file "):
        return errors.ConfigurationError(
            f"store {service}: {said}",
            next_step="Set PGSERVICEFILE to the path of the service file, as this user may read it (default ~/.pg_service.conf).",
        )
    if "in service file" in said and "connection to server" not in said:
        return errors.ConfigurationError(f"store {service}: {said}", next_step="Correct this line of the service file.")
    if "definition of service" in said:
        return errors.ConfigurationError(
            f"store {service}: {said}",
            next_step=f"Add a section [{service}] to the file that PGSERVICEFILE names (default ~/.pg_service.conf).",
        )
    if _REFUSED_FOR_GOOD.search(said):
        return errors.StoreUnusable(
            f"store {service}: the server refused the connection: {said}",
            next_step=f"Correct user, password and dbname in section [{service}] of the service file.",
        )
    return errors.StoreUnreachable(
        f"store {service}: no connection: {said}",
        next_step=f"Check that the server runs, and host and port in section [{service}] of the service file.",
    )


def _sentence(said: str) -> str:
    """libpq ends some messages with a question, most with nothing."""
    return said if said.endswith((".", "?", "!")) else f"{said}."


@contextmanager
def store_errors(store: str, doing: str) -> Iterator[None]:
    """Turns an error of psycopg2 into one of ours, by SQLSTATE: `store hub: while publishing batch 3 ...`."""
    try:
        yield
    except psycopg2.Error as error:
        raise translate(error, store=store, doing=doing) from error


def translate(error: psycopg2.Error, *, store: str, doing: str) -> errors.RelayboxError:
    """The error of ours for an error of a store; terminal unless the SQLSTATE says that a retry may help."""
    code = error.pgcode
    if code is None:
        # psycopg2 has no SQLSTATE when the connection itself broke; in the middle of a COPY it has no class for it either
        broken = isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or type(error) is psycopg2.DatabaseError
        kind: type[errors.RelayboxError] = errors.StoreUnreachable if broken else errors.StoreFailed
    else:
        kind = _OWN_CODES.get(code) or _POSTGRES_CODES.get(code) or _POSTGRES_CLASSES.get(code[:2], errors.StoreFailed)
    said = (error.diag.message_primary or " ".join(str(error).split())).rstrip(".?")
    return kind(
        f"store {store}: while {doing}: {said}{f' ({code})' if code else ''}.",
        next_step=error.diag.message_hint or _NEXT_STEPS.get(kind, ""),
    )


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
