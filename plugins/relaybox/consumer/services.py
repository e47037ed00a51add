"""Stores by the names of libpq services: engines of SQLAlchemy with psycopg2, whose sessions' waits all end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy.pool import NullPool

from relaybox.consumer.settings import SETTINGS, STATEMENT_TIMEOUT_SECONDS
from relaybox.stores.sessions.connections import open_session

if TYPE_CHECKING:
    from sqlalchemy import Engine


def open_engine(
    service: str, subscription: str, *, connecting: Callable[[], AbstractContextManager[object]] = nullcontext
) -> Engine:
    """An engine for a libpq service whose sessions' waits all end; one session at a time, never pooled.

    A handler may change statement_timeout for its own statements: only what is not a handler's has a limit of the client too.

    Args:
        service: of libpq; the name of the engine's database too, for messages.
        subscription: for the name of the session.
        connecting: entered while a session is opened: makes the service known, where nothing else does.
    """

    def create() -> Any:
        with connecting():
            session = open_session(
                service,
                application_name=f"relaybox consumer {subscription}",
                settings=SETTINGS,
                statement_timeout_seconds=STATEMENT_TIMEOUT_SECONDS,
                accepts_pooler=True,
            )
        session.limits_statements = False
        return session

    url = sqlalchemy.URL.create("postgresql+psycopg2", database=service)
    return sqlalchemy.create_engine(url, creator=create, poolclass=NullPool)
