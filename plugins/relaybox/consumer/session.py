"""The session of a consumer: the handler's transaction, and the SQL functions of a subscription in it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import psycopg2
import sqlalchemy
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INERROR
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from relaybox import errors
from relaybox.consumer.messages import Message, UnreadLane, read_message
from relaybox.stores.answer_limits import LimitedConnection, limiting_statements
from relaybox.stores.connections import open_session, translate
from relaybox.stores.settings import duration

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, RootTransaction

    from relaybox.consumer.stopping import StopEvent

STATEMENT_TIMEOUT_SECONDS = 300
LOCK_TIMEOUT_SECONDS = 30
IDLE_IN_TRANSACTION_SECONDS = 300

LISTENING_SECONDS = 10.0
"""The longest rest of a session that listens: a notification may be lost."""

UPGRADE_CODES = frozenset({"0A000", "42703", "42804", "42883", "42P01", "XX000"})
"""What a call may fail with once when `relaybox init` upgrades the store under it: it had begun with the functions of before.

A cached plan, a column, a type, a function, a table or an object's number is no longer there.
"""

TRANSACTION_GONE = "the handler committed or rolled back the transaction that its message is acknowledged in"

_FETCH = """
select
    stream_position, lane, token, replayed, attempt, hop, "log_position", message_id, topic, sender, epoch, index, key,
    payload, payload_bytes, headers::text, clock::text, sent_at
from relaybox.fetch(%s, %s, %s, %s, %s, %s)
"""

_ACK_AND_FETCH = """
select
    current_setting('relaybox.consumer_transaction', true), stream_position, lane, token, replayed, attempt, hop, "log_position",
    message_id, topic, sender, epoch, index, key, payload, payload_bytes, headers::text, clock::text,
    sent_at
from (select) as one_row
left join relaybox.fetch(%s, %s, %s, %s, %s, %s) on true
"""

_CAN_LISTEN = "select pg_backend_pid(), to_regprocedure('relaybox.listen(text)') is not null"

_ACK = "select current_setting('relaybox.consumer_transaction', true), relaybox.ack(%s, %s, %s)"

_UNREAD = """
select
    lane, stream_positions_behind, case when leased_until > clock_timestamp() then worker end,
    case when leased_until > clock_timestamp() then leased_until end
from relaybox.lag(%s) where stream_positions_behind > 0 and (%s::integer is null or lane = %s)
"""


_SETTINGS = {
    "statement_timeout": duration(STATEMENT_TIMEOUT_SECONDS),
    "lock_timeout": duration(LOCK_TIMEOUT_SECONDS),
    "idle_in_transaction_session_timeout": duration(IDLE_IN_TRANSACTION_SECONDS),
    "idle_session_timeout": "0",  # a worker rests between fetches
    "default_transaction_read_only": "off",  # it acknowledges
    "restrict_nonsystem_relation_kind": "",
    "datestyle": "ISO",
}

_SETTINGS_OF_A_TRANSACTION = f"""
set local transaction_read_only = off;
set local statement_timeout = '{_SETTINGS["statement_timeout"]}';
set local lock_timeout = '{_SETTINGS["lock_timeout"]}';
set local idle_in_transaction_session_timeout = '{_SETTINGS["idle_in_transaction_session_timeout"]}';
set local datestyle = 'ISO';
"""
"""Behind a pooler, in one round trip with the first statement: the next transaction may have another session of the server."""


class ConsumerSession:
    """One session at a time: opened by the first statement, closed by `close` and by each error of the store."""

    def __init__(self, engine: Engine, *, store: str, subscription: str) -> None:
        self.store, self.subscription = store, subscription
        self._engine = engine
        self._connection: Connection | None = None
        self._transaction: RootTransaction | None = None
        self._mark = ""
        self._maybe_upgraded_while: set[str] = set()
        self._asked: Any = None
        self._listens = False

    @property
    def connection(self) -> Connection:
        """The open connection."""
        if self._connection is None:
            raise errors.RequestRefused(
                f"subscription {self.subscription}: the consumer has no session now; it is not in its loop."
            )
        return self._connection

    def is_lost(self) -> bool:
        """Whether there is no session, or a statement found it broken; asks the driver, not the server."""
        connection = self._connection
        if connection is None or connection.invalidated:
            return True
        session: Any = None if connection.closed else connection.connection.driver_connection
        return session is not None and bool(session.closed)

    def is_aborted(self) -> bool:
        """Whether a statement failed in the open transaction, so that it can't commit; asks the driver, not the server."""
        connection = self.connection
        session: Any = None if connection.closed else connection.connection.driver_connection
        return session is not None and session.get_transaction_status() == TRANSACTION_STATUS_INERROR

    def begin(self) -> None:
        """Begins the handlers' transaction and marks it: a Session bound to the connection joins it and never commits it.

        The mark is a setting of this transaction only. Every COMMIT and ROLLBACK removes it.

        Raises:
            RequestRefused: the sessions of the engine commit each statement.
        """
        self._mark_transaction()
        if self.has_ended_transaction():  # an earlier handler left the session in autocommit
            self.discard()
            self._mark_transaction()
        if self.has_ended_transaction():
            self.discard()
            raise errors.RequestRefused(
                f"store {self.store}: subscription {self.subscription}: the engine's sessions commit each statement (autocommit), "
                "so work and acknowledgement can't be one transaction.",
                next_step="Give the consumer an engine without autocommit.",
            )

    def _mark_transaction(self) -> None:
        self._mark = str(uuid.uuid4())
        self._execute("select set_config('relaybox.consumer_transaction', %s, true)", (self._mark,), "beginning the work")
        self._transaction = self.connection.get_transaction()

    def has_ended_transaction(self) -> bool:
        """Whether the transaction that `begin` began has ended; asks the driver, which does not see all: the mark does."""
        connection = self.connection
        if connection.closed or connection.get_transaction() is not self._transaction:
            return True
        session: Any = connection.connection.driver_connection
        return bool(session.get_transaction_status() == TRANSACTION_STATUS_IDLE)

    def discard(self) -> None:
        """Rolls back and ends the session itself: no pool hands out what a handler changed in it."""
        self.rollback()
        if self._connection is not None:
            self._connection.invalidate()
        self.close()

    def fetch(self, worker: str, max_count: int, lane: int | None) -> list[Message]:
        """Leases the next messages, in a transaction of its own."""
        rows = self._execute(_FETCH, (self.subscription, max_count, None, None, lane, worker), "fetching").fetchall()
        return [read_message(row) for row in rows]

    def ack_and_fetch(self, message: Message, worker: str, max_count: int, lane: int | None) -> list[Message]:
        """Acknowledges through a message and leases those that follow.

        Raises:
            TransactionEnded: this is not the transaction that `begin` began. It must not be committed.
        """
        arguments = (self.subscription, max_count, message.stream_position, message.token, lane, worker)
        rows = self._execute_marked(message, _ACK_AND_FETCH, arguments, "acknowledging and fetching")
        return [read_message(row) for row in rows if row[0] is not None]

    def ack(self, message: Message) -> None:
        """Acknowledges through a message.

        Raises:
            TransactionEnded: as ack_and_fetch().
        """
        arguments = (self.subscription, message.stream_position, message.token)
        self._execute_marked(message, _ACK, arguments, "acknowledging")

    def _execute_marked(self, message: Message, statement: str, arguments: tuple[object, ...], doing: str) -> list[Sequence[Any]]:
        """Runs a statement in the handlers' transaction, and compares the mark that it returns in its first column."""
        rows: list[Sequence[Any]] = []
        is_gone = self.has_ended_transaction()
        if not is_gone:
            rows = self._execute(statement, arguments, doing).fetchall()
            is_gone = rows[0][0] != self._mark
        if is_gone:
            raise errors.TransactionEnded(
                f"store {self.store}: subscription {self.subscription}, stream position {message.stream_position}: "
                f"{TRANSACTION_GONE}.",
                next_step="Leave both to the consumer; take work back with a savepoint (connection.begin_nested()).",
            )
        return [row[1:] for row in rows]

    def nack(self, message: Message, reason: str) -> bool:
        """Refuses a message; whether it is a dead letter now."""
        arguments = (self.subscription, message.stream_position, reason, message.token)
        return bool(self._execute("select relaybox.nack(%s, %s, %s, %s)", arguments, "refusing a message").scalar())

    def release(self, message: Message) -> None:
        """Gives the lane of a fetched message back."""
        self._execute("select relaybox.release(%s, %s)", (self.subscription, message.token), "releasing the lane")

    def find_unread(self, lane: int | None) -> tuple[UnreadLane, ...]:
        """Returns the lanes that have stream positions to read."""
        rows = self._execute(_UNREAD, (self.subscription, lane, lane), "looking for unread lanes").fetchall()
        return tuple(UnreadLane(*row) for row in rows)

    def listen(self) -> bool:
        """Has the session listen; whether it does so only now: what was delivered before is still to be fetched.

        A session of a pooler does not listen: the pooler would give its notifications to others, or to nobody.
        """
        if self._connection is not None and self._asked is self._connection.connection.driver_connection:
            return False
        server_process, can_listen = self._execute(_CAN_LISTEN, (), "asking whether the session can listen").one()
        session: Any = self.connection.connection.driver_connection
        self._asked = session
        self._listens = can_listen and session.info.backend_pid == server_process
        if self._listens:
            self._execute("select relaybox.listen(%s)", (self.subscription,), "listening")
        self.commit()
        return self._listens

    def rest(self, stop: StopEvent, lane: int | None, poll_seconds: float) -> None:
        """Waits until something may be there to fetch: for a notification, if the session listens, else for `poll_seconds`.

        Raises:
            StoreUnreachable: the server ended the session.
        """
        if not self._listens:
            stop.wait(poll_seconds)
            return
        longest = max(poll_seconds, LISTENING_SECONDS)
        arguments = (self.subscription, lane, longest)
        seconds = self._execute("select relaybox.rest_seconds(%s, %s, %s)", arguments, "asking how long to rest").scalar()
        self.commit()
        session: Any = self.connection.connection.driver_connection
        try:
            stop.wait_for_notification(session, seconds)
        except psycopg2.Error as error:
            self.close()
            raise translate(error, store=self.store, doing=f"waiting for messages of subscription {self.subscription}") from error

    def _execute(self, statement: str, arguments: tuple[object, ...], doing: str) -> Any:
        with self._translated(doing):
            if self._connection is None:
                self._connection = self._engine.connect()
            session = self._connection.connection.driver_connection
            if isinstance(session, LimitedConnection) and session.is_pooled and not self._connection.in_transaction():
                statement = _SETTINGS_OF_A_TRANSACTION + statement
            with limiting_statements(session):
                answer = self._connection.exec_driver_sql(statement, arguments)
        self._maybe_upgraded_while.discard(doing)
        return answer

    def commit(self) -> None:
        """Commits the handler's work with what was said of its messages."""
        with self._translated("committing"):
            self.connection.commit()

    def rollback(self) -> None:
        """Takes back the handler's work; a session that broke has done so by itself, and the next statement opens another."""
        if self._connection is not None and self._connection.closed:
            self._connection = None  # a handler closed it
        if self._connection is not None:
            try:
                self._connection.rollback()
            except DBAPIError:
                self.close()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            self.close()
            cause = error.orig
            if not isinstance(cause, psycopg2.Error):
                raise
            translated = translate(cause, store=self.store, doing=f"{doing} for subscription {self.subscription}")
            if cause.pgcode in UPGRADE_CODES and doing not in self._maybe_upgraded_while:
                self._maybe_upgraded_while.add(doing)  # the same call with a new session tells
                raise errors.StoreBusy(f"{translated} The store may have been upgraded under this call.") from error
            raise translated from error

    def close(self) -> None:
        """Closes the session, if there is one; what was not committed is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                if self._listens:
                    connection.invalidate()  # no pool of the engine gives a session that listens to others
                connection.close()
        self._asked, self._listens = None, False


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
                settings=_SETTINGS,
                statement_timeout_seconds=STATEMENT_TIMEOUT_SECONDS,
                accepts_pooler=True,
            )
        session.limits_statements = False
        return session

    url = sqlalchemy.URL.create("postgresql+psycopg2", database=service)
    return sqlalchemy.create_engine(url, creator=create, poolclass=NullPool)
