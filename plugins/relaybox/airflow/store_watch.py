"""Polls a store from the triggerer: for hops with work, or for another question that many triggers share.

Index lookups for each hop, and one look at the outbox for all of them; nothing in producers' transactions.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import psycopg2
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSecretsBackendAccessDenied

from relaybox.airflow.credentials import session_parameters
from relaybox.airflow.poll_pace import PollPace
from relaybox.airflow.run_triggers import HopPoll
from relaybox.airflow.store_sessions import open_session
from relaybox.errors import RelayboxError
from relaybox.hops.idle_hops import pass_idle_hops
from relaybox.log_events import emit
from relaybox.routes import Watch
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Session

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 30.0
MAX_IDLE_SECONDS = 10.0
"""A session that does not listen is closed before a longer pause, so that the store may sleep."""

CHANNEL = "relaybox_work"
"""`notify relaybox_work` ends the pause."""

NOTIFIED_GAP_SECONDS = 0.2
"""The shortest time between two polls, however often an application notifies."""

SLOW_ANSWER_SECONDS = 0.5
"""An answer that takes longer is worth a look for what makes it long."""

SHORTENING_SECONDS = 30.0
"""So long the polls of a store wait for that at most."""

Answer = TypeVar("Answer")

_REPAIRABLE = (psycopg2.Error, RelayboxError, AirflowNotFoundException, AirflowSecretsBackendAccessDenied)


@dataclass(frozen=True)
class StoreQuestion(Generic[Answer]):
    """What the polls of a store ask.

    Attributes:
        application_name: of the session.
        ask: one query, in the session.
        is_busy: whether the next poll comes after the shortest pause; asked once for each answer.
        shorten: makes the next answers faster; called before the first one of a session, and after one that took long.
    """

    application_name: str
    ask: Callable[[Session], Answer]
    is_busy: Callable[[Answer], bool]
    shorten: Callable[[str, Session], object] | None = None


async def poll_store(connection_id: str, question: StoreQuestion[Answer], *, watch: Watch) -> AsyncGenerator[Answer]:
    """Yields the answer of each poll, without end.

    A store that cannot be reached, has no schema yet or has no connection in Airflow is tried again with growing delays,
    so that repairing it is all there is to do. A store that has no work is polled less and less often, as `watch` says.
    """
    delay = FIRST_DELAY_SECONDS
    pace = PollPace(watch.interval_seconds, watch.max_interval_seconds, watch.backoff)
    while True:
        pause = 0.0
        try:
            async with aclosing(_polls(connection_id, question, watch, pace)) as polls:
                async for answer, pause in polls:  # noqa: B007  the last one says how long the store may sleep
                    delay = FIRST_DELAY_SECONDS
                    yield answer
            await asyncio.sleep(pause)
        except _REPAIRABLE as error:
            emit("store_watch_interrupted", connection=connection_id, retry_in_seconds=delay, error=" ".join(str(error).split()))
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_DELAY_SECONDS)


async def _polls(
    connection_id: str, question: StoreQuestion[Answer], watch: Watch, pace: PollPace
) -> AsyncGenerator[tuple[Answer, float]]:
    """Yields the answer of each poll in one session, and the pause after it. Ends where the session must not outlast the pause."""
    with _thread_of(connection_id) as call:
        async with aclosing(_polls_of_session(connection_id, question, watch, pace, call)) as polls:
            async for poll in polls:
                yield poll


async def _polls_of_session(
    connection_id: str, question: StoreQuestion[Answer], watch: Watch, pace: PollPace, call: Callable[..., Awaitable[Any]]
) -> AsyncGenerator[tuple[Answer, float]]:
    parameters = await call(session_parameters, await BaseHook.aget_connection(connection_id))
    with closing(await call(open_session, connection_id, parameters, question.application_name)) as session:
        if watch.listen:
            await call(_listen, session)
        emit("store_watched", connection=connection_id, question=question.application_name, **_fields_of(watch))
        answer_seconds = math.inf
        while True:
            if question.shorten is not None and answer_seconds > SLOW_ANSWER_SECONDS:
                await call(question.shorten, connection_id, session)
            asked_at = time.monotonic()
            answer = await call(question.ask, session)
            answer_seconds = time.monotonic() - asked_at
            pause = pace.pause(has_work=question.is_busy(answer))
            yield answer, pause
            if not watch.listen and pause > MAX_IDLE_SECONDS:
                return
            if await _notified(session, pause):
                pace.reset()
                await asyncio.sleep(min(NOTIFIED_GAP_SECONDS, pause))


@contextmanager
def _thread_of(connection_id: str) -> Iterator[Callable[..., Awaitable[Any]]]:
    """What calls a function in a thread that the looks at one store share with nobody.

    Those of asyncio.to_thread are few, and shared by all triggers: a few stores that hang would hold them all.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix=f"relaybox {connection_id}")

    async def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(executor, partial(copy_context().run, function, *arguments))

    try:
        yield call
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _fields_of(watch: Watch) -> dict[str, float | bool]:
    return {
        "poll_seconds": watch.interval_seconds,
        "max_poll_seconds": watch.max_interval_seconds,
        "backoff": watch.backoff,
        "listen": watch.listen,
    }


def _listen(session: Session) -> None:
    with session.cursor() as cursor:
        cursor.execute(f"listen {CHANNEL}")


async def _notified(session: Session, seconds: float) -> bool:
    """Waits for a notification, at most these seconds; whether one came. Raises psycopg2.Error where the server ends the session.

    libpq is asked before each wait: what it has read already makes the socket no longer readable.
    """
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    ends_at = loop.time() + seconds
    descriptor = session.fileno()
    loop.add_reader(descriptor, arrived.set)
    try:
        while not _take_notifications(session):
            arrived.clear()
            try:
                await asyncio.wait_for(arrived.wait(), max(0.0, ends_at - loop.time()))
            except TimeoutError:
                return False
    finally:
        loop.remove_reader(descriptor)
    return True


def _take_notifications(session: Session) -> bool:
    session.poll()
    notified = bool(session.notifies)
    session.notifies.clear()
    return notified


def _question(
    application_name: str, query: str, *, shorten: Callable[[str, Session], object] | None = None
) -> StoreQuestion[Mapping[str, HopPoll]]:
    def ask(session: Session) -> dict[str, HopPoll]:
        with session.cursor() as cursor:
            cursor.execute(query)
            return {name: HopPoll(has_work, is_driven) for name, has_work, is_driven in cursor.fetchall()}

    return StoreQuestion(application_name, ask, lambda found: any(one.has_work for one in found.values()), shorten)


def _pass_idle_hops(connection_id: str, session: Session) -> None:
    """Where no driver does it: a hop that nobody drives, with millions of messages that wait, would make each poll read them."""
    session.autocommit = False
    try:
        pass_idle_hops(StoreSession(session, connection_id), seconds=SHORTENING_SECONDS)
    finally:
        if not session.closed:
            session.rollback()
            session.autocommit = True


WORK_OF_HOPS = _question(
    "relaybox watch",
    """
    select h.hop, h.has_work, h.has_work and relaybox_internal.hop_is_driven(h.hop)
    from relaybox_internal.hops_with_work() h
    """,
    shorten=_pass_idle_hops,
)

WORK_OF_SUBSCRIPTIONS = _question(
    "relaybox subscription watch",
    """
    select s.subscription, w.lanes > 0, s.leased_lanes >= w.lanes
    from relaybox.subscriptions s
    cross join lateral (
        select greatest(
            (select count(*) from unnest(s.lane_stream_positions) p where p < s.last_stream_position) - s.held_lanes,
            case when s.delayed_messages > 0 and s.due_at <= clock_timestamp() then 1 else 0 end
        ) as lanes
    ) w
    """,
)
"""What waits for each subscription. It has its driver if as many lanes are leased as are behind. What is not due does not wait."""
