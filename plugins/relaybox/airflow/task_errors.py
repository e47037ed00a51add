"""Relaybox's errors in Airflow's words: the one place where they are translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from relaybox.errors import CredentialsUnavailable, Terminal


@contextmanager
def terminal_errors_fail_at_once(*, missing: str = "Add the connection in Airflow") -> Iterator[None]:
    """A terminal error fails the task without a retry; a transient one passes through, and is retried.

    A connection that is missing may be back in seconds: a secrets backend restarts, somebody replaces the connection.

    Args:
        missing: what to do where Airflow has no such connection.

    Raises:
        AirflowFailException: the error was terminal.
        CredentialsUnavailable: Airflow has no such connection now.
    """
    try:
        yield
    except Terminal as error:
        raise AirflowFailException(str(error)) from error
    except AirflowNotFoundException as error:
        raise CredentialsUnavailable(f"{error}.", next_step=f"{missing}: the next attempt reads it.") from error
