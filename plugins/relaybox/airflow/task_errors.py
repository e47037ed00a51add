"""Relaybox's errors in Airflow's words: the one place where they are translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from relaybox.errors import Terminal


@contextmanager
def terminal_errors_fail_at_once() -> Iterator[None]:
    """A terminal error fails the task without a retry; a transient one passes through, and is retried."""
    try:
        yield
    except Terminal as error:
        raise AirflowFailException(str(error)) from error
    except AirflowNotFoundException as error:
        raise AirflowFailException(f"{error}. Add the connection in Airflow, then clear the task.") from error
