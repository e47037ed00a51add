"""Sessions whose statements end at a limit, also where the server never answers.

A frozen server ends nothing, so its own timeouts do not help. Its kernel still acknowledges what it
receives, so keepalives and tcp_user_timeout do not help either. libpq waits for it without end.
Here one thread of the process cuts the socket of each session whose limit has passed. The thread
that waits then gets an error from libpq.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

ANSWER_GRACE_SECONDS = 30.0
"""How long after its statement_timeout a server may still answer. Later it is taken for frozen."""


class LimitedConnection(Connection):
    """A connection whose statements, commits and rollbacks fail with an OperationalError at their limit.

    Attributes:
        answer_seconds: the limit of each of them.
        limits_statements: False where the statements of others run in this session; commits and rollbacks keep their limit.
        is_pooled: a connection pooler is in between (stores.sessions.poolers).
    """

    answer_seconds = ANSWER_GRACE_SECONDS
    limits_statements = True
    is_pooled = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_factory = LimitedCursor

    def commit(self) -> None:
        with _answered(self):
            super().commit()

    def rollback(self) -> None:
        with _answered(self):
            super().rollback()


class LimitedCursor(Cursor):
    """A cursor of a LimitedConnection."""

    def execute(self, *arguments: Any, **options: Any) -> None:
        with _statement_answered(self.connection):
            super().execute(*arguments, **options)

    def executemany(self, *arguments: Any, **options: Any) -> None:
        with _statement_answered(self.connection):
            super().executemany(*arguments, **options)

    def copy_expert(self, *arguments: Any, **options: Any) -> None:
        with _statement_answered(self.connection):
            super().copy_expert(*arguments, **options)


@contextmanager
def limiting_statements(session: Any) -> Iterator[None]:
    """Within the block the statements of a session have their limit too. A connection of another class has none."""
    if not isinstance(session, LimitedConnection):
        yield
        return
    session.limits_statements = True
    try:
        yield
    finally:
        session.limits_statements = False


@contextmanager
def answering_within(session: Any, seconds: float) -> Iterator[None]:
    """Within the block each answer of a session has at most this limit. A connection of another class has none."""
    if not isinstance(session, LimitedConnection):
        yield
        return
    before = session.answer_seconds
    session.answer_seconds = min(before, seconds)
    try:
        yield
    finally:
        session.answer_seconds = before


def cut_session(connection: Connection) -> None:
    """Cuts the socket under a session that another thread may be waiting in, unless its server or libpq has cut it before."""
    if not connection.closed:
        _cut(os.dup(connection.fileno()))


def _cut(descriptor: int) -> None:
    """Takes a copy of a socket's descriptor over."""
    try:
        with socket.socket(fileno=descriptor) as link:
            link.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        # the other thread sees the end of the session at the same time: libpq has closed the socket
        if error.errno not in (errno.ENOTCONN, errno.EBADF):
            raise


@contextmanager
def _statement_answered(connection: Any) -> Iterator[None]:
    if not connection.limits_statements:
        yield
        return
    with _answered(connection):
        yield


@contextmanager
def _answered(connection: LimitedConnection) -> Iterator[None]:
    descriptor = -1 if connection.closed else connection.fileno()
    if descriptor < 0:  # nothing can be waited for
        yield
        return
    seconds, watch = connection.answer_seconds, _watch
    wait = watch.begin(descriptor, seconds)
    try:
        yield
    except (psycopg2.Error, SystemError):  # psycopg2 stumbles over a server that goes away during COPY FROM
        if wait.is_cut:
            raise psycopg2.OperationalError(
                f"the server did not answer within {seconds:g} s; it may be frozen. The session was ended"
            ) from None
        raise
    finally:
        watch.end(wait)


@dataclass(eq=False)
class _Wait:
    """`descriptor` is a copy made by the thread that waits: its number can't come to mean another socket."""

    ends_at: float
    descriptor: int
    is_cut: bool = False


class _Watch:
    """The waits of this process, and the thread that cuts those whose limit has passed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waits: set[_Wait] = set()
        self._wakes_at = math.inf
        self._runs = False

    def begin(self, descriptor: int, seconds: float) -> _Wait:
        wait = _Wait(time.monotonic() + seconds, os.dup(descriptor))
        with self._changed:
            self._waits.add(wait)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="relaybox-answer-limits", daemon=True).start()
            elif wait.ends_at < self._wakes_at:
                self._changed.notify()
        return wait

    def end(self, wait: _Wait) -> None:
        with self._changed:
            self._waits.discard(wait)
            if not wait.is_cut:
                os.close(wait.descriptor)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for wait in [wait for wait in self._waits if wait.ends_at <= now]:
                    self._waits.remove(wait)
                    wait.is_cut = True
                    _cut(wait.descriptor)
                self._wakes_at = min((wait.ends_at for wait in self._waits), default=math.inf)
                self._changed.wait(None if self._wakes_at == math.inf else max(0.0, self._wakes_at - now))


_watch = _Watch()


def _begin_anew() -> None:
    """A forked process has none of the threads, and a lock that one of them held stays locked in it."""
    global _watch  # noqa: PLW0603
    _watch = _Watch()


os.register_at_fork(after_in_child=_begin_anew)
