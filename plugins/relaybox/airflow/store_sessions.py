"""Sessions of the triggerer and of Airflow's "Test" button, by the name of an Airflow connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import psycopg2

from relaybox.stores.sessions.answer_limits import ANSWER_GRACE_SECONDS, LimitedConnection
from relaybox.stores.sessions.connections import LINK_PARAMETERS
from relaybox.stores.sessions.poolers import CONNECTING_NAME, refuse_pooler
from relaybox.stores.sessions.settings import pin_settings, session_settings

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Session

STATEMENT_TIMEOUT_SECONDS = 10


def open_session(connection_id: str, parameters: Mapping[str, str], application_name: str) -> Session:
    """A session in autocommit, with the settings that the protocol needs.

    The credentials go straight to libpq: a service file's path is one per process, and these processes work for all stores.

    Raises:
        RelayboxError: a setting did not take, or a pooler that lends transactions is in between.
        psycopg2.Error: the store was not reached.
    """
    everything: dict[str, Any] = {
        **parameters,
        **LINK_PARAMETERS,
        "application_name": CONNECTING_NAME,
        "client_encoding": "UTF8",
    }
    session: LimitedConnection = psycopg2.connect(connection_factory=LimitedConnection, **everything)
    session.answer_seconds = STATEMENT_TIMEOUT_SECONDS + ANSWER_GRACE_SECONDS
    session.autocommit = True
    settings = session_settings(statement_timeout_seconds=STATEMENT_TIMEOUT_SECONDS)
    try:
        is_pooled = pin_settings(session, {"application_name": application_name, **settings}, store=connection_id)
    except BaseException:
        session.close()
        raise
    if is_pooled:
        session.close()
        raise refuse_pooler(connection_id, target=f"the Airflow connection {connection_id}")
    return session
