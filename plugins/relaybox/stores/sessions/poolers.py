"""A connection pooler between a client and a store: how it is found, and who may work through it.

A pooler answers with a backend number of its own. It lends a session of the server for one transaction or one statement, so nothing that
a session sets, locks or is named holds for the next one. Drivers need the server itself; consumers and producers do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg2

from relaybox import errors

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

CONNECTING_NAME = "relaybox"
"""Of a session until it has found no pooler: one that a pooler lends to others must never carry the name of a driver."""

POOLER_CODE = "08P01"
"""protocol_violation: PgBouncer refuses every connection with it."""


def refuse_pooler(store: str, *, target: str) -> errors.ConfigurationError:
    """The error of a driver whose connection leads to a pooler.

    Args:
        store: its name.
        target: where host and port are written, as in "section [hub] of the service file".
    """
    return errors.ConfigurationError(
        f"store {store}: a connection pooler stands between: the process id of the server's session differs from the one that was told at "
        "connecting. Through a pooler, settings and locks of a session do not last, and a session that hangs can't be ended.",
        next_step=f"{advise_direct(target)} Producers and consumers may use the pooler.",
    )


def advise_direct(target: str) -> str:
    """What to write instead of a pooler's address."""
    return f"Write host and port of the Postgres server itself into {target}."


def in_service_file(service: str) -> str:
    """Where host and port of a service are written, also in Airflow, which writes the service file from its connections."""
    return f"section [{service}] of the service file (in Airflow: into the connection of store {service})"


def lends_transactions(connection: Connection) -> bool:
    """Whether a whole transaction goes through the pooler. One in statement mode ends the connection at BEGIN.

    Args:
        connection: a session outside a transaction; closed, if the answer is no.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("select")
        connection.rollback()
    except psycopg2.Error:
        if not connection.closed:
            raise
        return False
    return True


def refuse_statement_mode(store: str) -> errors.ConfigurationError:
    """The error of a consumer whose pooler lends a session for one statement only."""
    return errors.ConfigurationError(
        f"store {store}: the connection pooler ends the connection at BEGIN, as PgBouncer does with pool_mode=statement. "
        "A consumer needs transactions: work and acknowledgement commit together.",
        next_step="Set pool_mode to transaction for this database, or connect to the Postgres server itself.",
    )
