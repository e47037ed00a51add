"""Polls a store for hops with work, from the triggerer. Two index lookups per hop and poll; nothing in producers' transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, closing
from typing import TYPE_CHECKING, Any

import psycopg2
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from relaybox.airflow.libpq_parameters import libpq_parameters
from relaybox.airflow.run_triggers import HopPoll
from relaybox.errors import RelayboxError
from relaybox.log_events import emit
from relaybox.stores.answer_limits import ANSWER_GRACE_SECONDS, LimitedConnection
from relaybox.stores.connections import LINK_PARAMETERS
from relaybox.stores.settings import pin_settings, session_settings

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Session

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 30.0
STATEMENT_TIMEOUT_SECONDS = 10

_MENDABLE = (psycopg2.Error, RelayboxError, AirflowNotFoundException, AirflowSecretsBackendAccessDenied)

_QUERY = """
select h.hop, h.has_work, h.has_work and relaybox_internal.hop_is_driven(h.hop)
from (select hop, relaybox_internal.hop_has_work(hop) as has_work from relaybox_internal.hop_out offset 0) h
"""


async def watch_store(connection_id: str, *, poll_seconds: float) -> AsyncGenerator[Mapping[str, HopPoll]]:
    """Yields what each poll saw of every hop that leaves the store, without end.

    A store that cannot be reached, has no schema yet or has no connection in Airflow is tried again with growing delays,
    so that mending it is all there is to do.
    """
    delay = FIRST_DELAY_SECONDS
    while True:
        try:
            async with aclosing(_polls(connection_id, poll_seconds)) as polls:
                async for sightings in polls:
                    delay = FIRST_DELAY_SECONDS
                    yield sightings
        except _MENDABLE as error:
            emit("store_watch_interrupted", connection=connection_id, retry_in_seconds=delay, error=" ".join(str(error).split()))
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_DELAY_SECONDS)


async def _polls(connection_id: str, poll_seconds: float) -> AsyncGenerator[Mapping[str, HopPoll]]:
    parameters = libpq_parameters(await BaseHook.aget_connection(connection_id))
    with closing(await asyncio.to_thread(_open_session, connection_id, parameters)) as session:
        emit("store_watched", connection=connection_id, poll_seconds=poll_seconds)
        while True:
            yield await asyncio.to_thread(_poll, session)
            await asyncio.sleep(poll_seconds)


def _open_session(connection_id: str, parameters: Mapping[str, str]) -> Session:
    """The credentials go straight to libpq: a service file's path is one per process, and the triggerer is one process for all."""
    everything: dict[str, Any] = {
        **parameters,
        **LINK_PARAMETERS,
        "application_name": "relaybox watch",
        "client_encoding": "UTF8",
    }
    session: LimitedConnection = psycopg2.connect(connection_factory=LimitedConnection, **everything)
    session.answer_seconds = STATEMENT_TIMEOUT_SECONDS + ANSWER_GRACE_SECONDS
    session.autocommit = True
    pin_settings(session, session_settings(statement_timeout_seconds=STATEMENT_TIMEOUT_SECONDS), store=connection_id)
    return session


def _poll(session: Session) -> dict[str, HopPoll]:
    with session.cursor() as cursor:
        cursor.execute(_QUERY)
        return {hop: HopPoll(has_work, is_driven) for hop, has_work, is_driven in cursor.fetchall()}
