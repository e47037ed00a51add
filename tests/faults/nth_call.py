"""Makes one database call of a run fail, with an error that a real server or a real network gave.

A call is named by its store, its statement and how often that statement came before: the two ends of a pipe run side by side,
so a bare number would not mean the same call twice.
"""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any
from unittest import mock

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from relaybox.stores.sessions import connections
from relaybox.stores.sessions.answer_limits import LimitedConnection, LimitedCursor
from relaybox.stores.sessions.refusals import Refusal, ask_again
from tests.support.world import wait_until

_real_connect = psycopg2.connect


class How(Enum):
    """Who makes the error."""

    RAISED = auto()  # the server raises it in a statement; the transaction is aborted
    TERMINATED = auto()  # another session ends the backend
    IDLED_OUT = auto()  # the server ends the session by its idle-in-transaction timeout
    CUT = auto()  # the network ends the connection: no SQLSTATE arrives
    REFUSED = auto()  # nobody listens at the port
    REJECTED = auto()  # the server refuses the password


@dataclass(frozen=True)
class Fault:
    """An error for one call. `late`: the call takes effect, and its answer is lost."""

    sqlstate: str
    how: How
    late: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether a retry without repairing something first would be of no use."""
        return self.sqlstate[:2] in {"28", "42"}

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.how.name.lower()}{' late' if self.late else ''}"


FAULTS = (
    *(
        Fault(sqlstate, How.RAISED)
        for sqlstate in ("40001", "40P01", "55P03", "57014", "57P03", "53100", "53200", "58030", "42501")
    ),
    Fault("57P01", How.TERMINATED),
    Fault("25P03", How.IDLED_OUT),
    Fault("08006", How.CUT),
)
_ENDINGS = tuple(fault for fault in FAULTS if fault.how is not How.RAISED)
_LATE = tuple(Fault(fault.sqlstate, fault.how, late=True) for fault in FAULTS if fault.how in {How.TERMINATED, How.CUT})
_CONNECTING = (Fault("08001", How.REFUSED), Fault("28P01", How.REJECTED))


@dataclass(frozen=True)
class Call:
    """One database call of a run: the `occurrence`-th of its kind at its store."""

    store: str
    method: str
    statement: str
    occurrence: int

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What can happen to it: a rollback only loses its session, a commit may be lost after it took effect."""
        match self.method:
            case "connect":
                return _CONNECTING
            case "rollback":
                return _ENDINGS
            case "commit":
                return FAULTS + _LATE
            case _:
                return FAULTS

    def __str__(self) -> str:
        return f"{self.store}: {self.method} {self.statement} #{self.occurrence}"


@dataclass
class Run:
    """Watches all database calls while it is entered, and makes one of them fail."""

    target: Call | None = None
    fault: Fault | None = None
    calls: list[Call] = field(default_factory=list)
    _counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wrong: threading.local = field(default_factory=threading.local)

    @property
    def was_hit(self) -> bool:
        return self.target in self.calls

    @contextmanager
    def watching(self) -> Iterator[None]:
        with (
            mock.patch.object(psycopg2, "connect", self._connect),
            mock.patch.object(connections, "ask_again", self._ask_again),
        ):
            yield

    def make(self, connection: Watched, method: str, statement: str, call: Callable[[], Any]) -> Any:
        """Makes a call of a session, or lets it fail."""
        if not self._is_target(connection.store, method, statement):
            return call()
        assert self.fault is not None
        if self.fault.late:
            call()
        if self.fault.how is How.RAISED:
            _raise(connection, self.fault.sqlstate)
        else:
            _end(connection, self.fault.how)
        return Cursor(connection).execute("select") if self.fault.late else call()

    def _connect(self, *, service: str, **options: Any) -> Any:
        if self._is_target(service, "connect", ""):
            assert self.fault is not None
            wrong = {"port": 1} if self.fault.how is How.REFUSED else {"password": "wrong"}
            self._wrong.parameters = wrong
            return _real_connect(service=service, **options, **wrong)
        connection = _real_connect(service=service, **{**options, "connection_factory": Watched})
        connection.store, connection.run = service, self
        return connection

    def _ask_again(self, parameters: Mapping[str, object], **options: Any) -> Refusal:
        """The second attempt of a connection that was made to fail fails as the first one did."""
        wrong = self._wrong.__dict__.pop("parameters", {})
        return ask_again({**parameters, **wrong}, **options)

    def _is_target(self, store: str, method: str, statement: str) -> bool:
        with self._lock:
            kind = (store, method, statement)
            self._counts[kind] += 1
            call = Call(*kind, self._counts[kind])
            self.calls.append(call)
            return call == self.target


class Watched(LimitedConnection):
    """A session that tells its run of every call."""

    store: str
    run: Run

    def cursor(self, *arguments: Any, cursor_factory: type[Cursor] = LimitedCursor, **options: Any) -> Any:
        return super().cursor(*arguments, cursor_factory=_watched_cursor(cursor_factory), **options)

    def commit(self) -> None:
        self.run.make(self, "commit", "", super().commit)

    def rollback(self) -> None:
        self.run.make(self, "rollback", "", super().rollback)


def _watched_cursor(factory: type[Cursor]) -> type[Cursor]:
    class WatchedCursor(factory):  # type: ignore[misc, valid-type]
        def execute(self, query: Any, *arguments: Any) -> Any:
            return _make(self, "execute", query, lambda: factory.execute(self, query, *arguments))

        def copy_expert(self, query: Any, *arguments: Any, **options: Any) -> Any:
            return _make(self, "copy_expert", query, lambda: factory.copy_expert(self, query, *arguments, **options))

    return WatchedCursor


def _make(cursor: Any, method: str, query: Any, call: Callable[[], Any]) -> Any:
    text = query.as_string(cursor) if isinstance(query, sql.Composable) else query
    statement = re.sub(r"\d+", "N", " ".join(text.split()))[:60]
    return cursor.connection.run.make(cursor.connection, method, statement, call)


def _raise(connection: LimitedConnection, sqlstate: str) -> None:
    Cursor(connection).execute(f"do $$ begin raise exception 'failed by the test' using errcode = '{sqlstate}'; end $$")


def _end(connection: Watched, how: How) -> None:
    """Ends a session so that its client learns of it with its next call."""
    if how is How.CUT:
        with socket.socket(fileno=socket.dup(connection.fileno())) as link:
            link.shutdown(socket.SHUT_RDWR)
        return
    pid = connection.info.backend_pid
    if how is How.IDLED_OUT:
        limit = "idle_session_timeout" if connection.autocommit else "idle_in_transaction_session_timeout"
        Cursor(connection).execute(f"set {limit} = 1")
    with closing(_real_connect(service=connection.store)) as other:
        other.autocommit = True
        cursor = other.cursor()
        if how is How.TERMINATED:
            cursor.execute("select pg_terminate_backend(%s)", (pid,))
        wait_until(lambda: not _lives(cursor, pid), f"backend {pid} has ended")


def _lives(cursor: Any, pid: int) -> bool:
    cursor.execute("select from pg_stat_activity where pid = %s", (pid,))
    return cursor.rowcount > 0
