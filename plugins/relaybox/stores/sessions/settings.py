"""The settings of a session: what it needs, set and read back in one round trip.

Nothing travels in the startup packet: poolers drop or refuse its options, and a service file may need them for something else.
A value that the session sets stands above those of the server, the database and the role, also above those that change later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relaybox import errors

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

LOCK_TIMEOUT_SECONDS = 10
IDLE_IN_TRANSACTION_SECONDS = 60
STATEMENT_TIMEOUT_SECONDS = 900


def duration(seconds: float) -> str:
    """A time as Postgres shows it, so that what is read back can be compared: "15min" for 900, "0" for 0."""
    milliseconds = int(seconds * 1000)
    if not milliseconds:
        return "0"
    unit, size = next((unit, size) for unit, size in _UNITS if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))

TEXT_SETTINGS: Mapping[str, str] = {
    "timezone": "UTC",
    "datestyle": "ISO",  # what psycopg2 reads; it sets it only where another one is found, and a reload changes it later
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",  # a session of psycopg2 keeps what it began with (connections)
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
    "enable_hashjoin": "on",  # without it a verification of 60,000 messages did not end in three times its time
    "enable_mergejoin": "on",
    "enable_hashagg": "on",
    "enable_sort": "on",
    "enable_incremental_sort": "on",
    "enable_material": "on",
    "enable_memoize": "on",
    "from_collapse_limit": "8",
    "join_collapse_limit": "8",
    "enable_partition_pruning": "on",
    "plan_cache_mode": "auto",
}
"""What the plans rely on that tests/integration/test_query_plans.py holds, whatever a database switches off for other work."""

NEWER_SETTINGS = frozenset({"transaction_timeout", "restrict_nonsystem_relation_kind"})
"""What a server of a supported version may not know yet."""


def session_settings(*, statement_timeout_seconds: float = STATEMENT_TIMEOUT_SECONDS) -> dict[str, str]:
    """What each session of a driver, a command or the triggerer sets: every wait ends, and values mean one thing."""
    return {
        "lock_timeout": duration(LOCK_TIMEOUT_SECONDS),
        "idle_in_transaction_session_timeout": duration(IDLE_IN_TRANSACTION_SECONDS),
        "statement_timeout": duration(statement_timeout_seconds),
        "transaction_timeout": "0",  # the two above end every transaction
        "idle_session_timeout": "0",  # a driver's sessions rest while Spark copies, the triggerer's between polls
        "client_connection_check_interval": duration(5),
        "default_transaction_isolation": "read committed",  # a batch is planned by a snapshot taken after its lock
        "default_transaction_read_only": "off",
        "default_transaction_deferrable": "off",
        "exit_on_error": "off",
        "client_min_messages": "warning",
        "row_security": "off",  # a policy must be an error, never fewer rows
        "restrict_nonsystem_relation_kind": "",  # our views are used
        "search_path": "pg_catalog",
        "default_tablespace": "",  # that of the database: an owner may always create there
        **TEXT_SETTINGS,
        **PLANNER_SETTINGS,
    }


def pin_settings(connection: Connection, settings: Mapping[str, str], *, store: str) -> bool:
    """Sets these for the whole session and reads them back, in one round trip that commits by itself.

    Behind a pooler they hold in this round trip only: its next client gets the server's session as it was.

    Args:
        connection: a session outside a transaction.
        settings: values as `SHOW` gives them (see duration()).
        store: its name, for the error.

    Returns:
        Whether a pooler is in between (stores.sessions.poolers).

    Raises:
        StoreUnusable: a setting has another value than the one that was set.
        psycopg2.Error: the server refused a value, or does not know a setting.
    """
    was_autocommit = connection.autocommit
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(
            _PIN + _READ_BACK,
            {
                "names": list(settings),
                "values": list(settings.values()),
                "may_be_unknown": [name in NEWER_SETTINGS for name in settings],
                "told_pid": connection.info.backend_pid,
            },
        )
        rows = cursor.fetchall()
    found = {name: value for name, value, _ in rows}
    connection.autocommit = was_autocommit
    for name, value in settings.items():
        shown = found[name]
        if not _took(name, value, shown) and not (shown is None and name in NEWER_SETTINGS):
            raise errors.StoreUnusable(
                f"store {store}: the session set {name} to {value!r}, and reads back {shown!r}.",
                next_step="Connect to the server itself, without a pooler or proxy in between.",
            )
    return any(is_pooled for _, _, is_pooled in rows)


# Whoever owns the database sets its search_path, so until it is pinned every name has its schema: an operator too.
_PIN = """
select pg_catalog.set_config(s.name, s.value, pg_catalog.pg_backend_pid() operator(pg_catalog.<>) %(told_pid)s)
from rows from (
    pg_catalog.unnest(%(names)s), pg_catalog.unnest(%(values)s), pg_catalog.unnest(%(may_be_unknown)s)
) s (name, value, may_be_unknown)
where pg_catalog.current_setting(s.name, s.may_be_unknown) is not null;
"""

_READ_BACK = """
select s.name, pg_catalog.current_setting(s.name, true), pg_catalog.pg_backend_pid() operator(pg_catalog.<>) %(told_pid)s
from pg_catalog.unnest(%(names)s) s (name)
"""
"""A statement of its own, so that what it reads is what the next statement of the session meets."""


def _took(name: str, value: str, shown: str | None) -> bool:
    """`datestyle` shows the order of day and month behind the style; a long `application_name` is cut."""
    if shown is None or shown == value:
        return shown == value
    return (name == "datestyle" and shown.startswith(f"{value}, ")) or (name == "application_name" and shown == value[:63])
