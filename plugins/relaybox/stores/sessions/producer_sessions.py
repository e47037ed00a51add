"""Sessions that send: of a task that puts messages, directly or through a pooler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.stores.sessions.connections import open_session, store_errors
from relaybox.stores.sessions.settings import duration

if TYPE_CHECKING:
    from relaybox.stores.sessions.answer_limits import LimitedConnection

STATEMENT_TIMEOUT_SECONDS = 60
IDLE_IN_TRANSACTION_SECONDS = 60

_SETTINGS = {
    "statement_timeout": duration(STATEMENT_TIMEOUT_SECONDS),
    "lock_timeout": duration(STATEMENT_TIMEOUT_SECONDS),
    "idle_in_transaction_session_timeout": duration(IDLE_IN_TRANSACTION_SECONDS),
    "default_transaction_read_only": "off",
    "default_transaction_isolation": "read committed",
}


def open_producer_session(service: str) -> LimitedConnection:
    """Opens a session in which each wait ends; the first statement begins the transaction of the caller, who commits it.

    Raises:
        StoreUnreachable: no answer, or not now; a retry may help.
        StoreUnusable: the server refused, and a retry gives the same answer.
        ConfigurationError: a pooler in between lends statements, not transactions.
    """
    session = open_session(
        service,
        application_name="relaybox put",
        settings=_SETTINGS,
        statement_timeout_seconds=STATEMENT_TIMEOUT_SECONDS,
        accepts_pooler=True,
    )
    if session.is_pooled:
        with store_errors(service, "beginning to put"), session.cursor() as cursor:
            cursor.execute("; ".join(f"set local {name} = '{value}'" for name, value in _SETTINGS_OF_A_TRANSACTION.items()))
    return session


_SETTINGS_OF_A_TRANSACTION = {name.removeprefix("default_"): value for name, value in _SETTINGS.items()}
"""Behind a pooler, where the next transaction may have another session of the server."""
