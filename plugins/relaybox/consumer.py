"""Consumers in Python: `for message in consumer:`, with the handler's work and the acknowledgement in one transaction.

```python
with Consumer("analytics", "billing") as consumer:
    for message in consumer:
        consumer.connection.execute(text("insert into invoice ..."), {...})
```

What the handler writes through `consumer.connection` exists exactly once (G10), whatever is killed. What it does elsewhere happens at
least once: deduplicate by `message.message_id`, which never changes.
"""

from __future__ import annotations

import functools
import signal
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg2
import sqlalchemy
from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from relaybox import errors
from relaybox.failpoints import reach
from relaybox.log_events import emit, warn
from relaybox.stores.connections import open_session, translate

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

STATEMENT_TIMEOUT_SECONDS = 300
LOCK_TIMEOUT_SECONDS = 30
IDLE_IN_TRANSACTION_SECONDS = 300

Answer = TypeVar("Answer")

_REFETCH_HELPS = (errors.StoreUnreachable, errors.StoreBusy, errors.LaneLost, errors.NotFetched)
_FAULTS_OF_THE_SERVER = ("57", "58", "F0", "XX")
"""Classes of SQLSTATE that are never the work's fault, among those that no retry mends."""

_FETCH = """
select
    stream_position, lane, token, replayed, attempt, hop, "log_position", message_id, topic, sender, epoch, index, key,
    payload, payload_bytes, headers, clock, sent_at
from relaybox.fetch(%s, %s, %s, %s, %s, %s)
"""

_UNREAD = """
select
    lane, stream_positions_behind, case when leased_until > clock_timestamp() then worker end,
    case when leased_until > clock_timestamp() then leased_until end
from relaybox.lag(%s) where stream_positions_behind > 0 and (%s::integer is null or lane = %s)
"""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was sent, with its stream position in the stream.

    Attributes:
        stream position: in the stream of this store; rises.
        token: proves in an acknowledgement which fetch gave the message; the same for all messages of a fetch.
        replayed: it was acknowledged before, and is read again because of a replay.
        attempt: 1 the first time; more if it was fetched or refused before.
        message_id: stable in every store and every replay: what a foreign system deduplicates by.
    """

    stream_position: int
    lane: int
    token: str
    replayed: bool
    attempt: int
    hop: str
    log_position: int
    message_id: uuid.UUID
    topic: str
    sender: str
    epoch: int
    index: int
    key: str | None
    payload: str | None
    payload_bytes: bytes | None
    headers: dict[str, Any] | None
    clock: dict[str, Any] | None
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class UnreadLane:
    """A lane that has stream positions to read although a fetch gave nothing of it.

    Attributes:
        stream positions: from where the lane is done to the end of the stream, of all lanes and topics.
        worker: who has leased it, until `leased_until`. None: nobody; then a refused message waits for its next attempt, a replay for
            its rate, an open transaction holds the lane, or messages were delivered just now.
    """

    lane: int
    stream_positions: int
    worker: str | None
    leased_until: datetime | None


class _WorkFailed(Exception):
    """The store refused what the handler did in it: `error` tells it, `reason` is for the dead letter."""

    def __init__(self, error: errors.RelayboxError, reason: str) -> None:
        super().__init__(str(error))
        self.error, self.reason = error, reason


class Consumer:
    """A worker of one subscription. Iterating gives its messages and acknowledges each when the next one is asked for.

    An exception in the loop's body refuses the message (it comes again, after nack_limit times it is a dead letter) and goes on to the
    caller; `run` goes on with the next message instead. `break` leaves the message unacknowledged; `stop` ends the loop after it.
    Work that fails only at COMMIT, or a failed statement that the body ignored, refuses the message too.
    A session that broke refuses no message. It is opened anew, three times with growing pauses, and what was not committed comes again.

    Args:
        store: a libpq service name, or an engine of psycopg2; its sessions need the role relaybox_consumer.
        subscription: its name; it must exist in the store.
        max_count: messages fetched at once.
        commit_every: messages per transaction. With more than one, a failure takes back the work on those before it too; it comes again.
        lane: consume this lane only; None: any that is free.
        worker: a name that is this worker's alone; by default one is made.
        poll_seconds: how long to rest when nothing is there.
        until_empty: end instead of resting. What other workers have leased is not waited for: `unread` says then what it is.
        retries: how often a broken session is opened anew before the error is raised.
        backoff_seconds: pause before the first of them; each further one is twice as long.
    """

    def __init__(
        self,
        store: str | Engine,
        subscription: str,
        *,
        max_count: int = 100,
        commit_every: int = 1,
        lane: int | None = None,
        worker: str | None = None,
        poll_seconds: float = 1.0,
        until_empty: bool = False,
        retries: int = 3,
        backoff_seconds: float = 1.0,
    ) -> None:
        self.subscription = subscription
        self.worker = worker or f"consumer {uuid.uuid4()}"
        self._engine = open_engine(store, subscription) if isinstance(store, str) else store
        self._store = store if isinstance(store, str) else str(store.url.database)
        self._max_count, self._commit_every, self._lane = max_count, commit_every, lane
        self._poll_seconds, self._until_empty = poll_seconds, until_empty
        self._retries, self._backoff_seconds = retries, backoff_seconds
        self._stop = threading.Event()
        self._connection: Connection | None = None
        self._current: Message | None = None
        self._refused: str | None = None
        self._interrupted: str | None = None  # the transient error of the handler
        self._alone_through = 0  # through this stream position each message has its own transaction
        self.unread: tuple[UnreadLane, ...] = ()

    @property
    def connection(self) -> Connection:
        """The open transaction that the current message is acknowledged in: the handler's work on this store belongs here."""
        if self._connection is None:
            raise errors.RequestRefused(
                f"subscription {self.subscription}: the consumer has no session now; it is not in its loop."
            )
        return self._connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Refuses the current message if the body failed on it, gives the lane back, closes the session."""
        current, self._current = self._current, None
        if current is None or (isinstance(error, Exception) and self._has_lost_session()):
            pass  # the message comes again with the same worker, or when the lease ends; crash_limit finds one that breaks sessions
        elif isinstance(error, Exception) and not isinstance(error, errors.Transient):
            with suppress(errors.RelayboxError):  # the body's error is the one to tell; the lease ends by itself
                self._refuse(current, _reason(error))
        else:
            self._release(current)
        self._close()

    def __iter__(self) -> Iterator[Message]:
        return self._iterate(goes_on=False)

    def _iterate(self, *, goes_on: bool) -> Iterator[Message]:
        """Yields messages; where the store refuses the work on one, the message is refused, and the error raised unless it `goes_on`."""
        with self._graceful():
            fetched: list[Message] = []
            while not self._stop.is_set():
                fetched = fetched or self._patiently(self._fetch)
                if not fetched:
                    if self._until_empty:
                        self._tell_unread()
                        return
                    self._stop.wait(self._poll_seconds)
                    continue
                fetched = yield from self._hand_out(fetched, goes_on=goes_on)
            if fetched:
                self._release(fetched[0])

    def run(self, handle: Callable[[Connection, Message], None]) -> None:
        """Calls the handler for every message until `stop`; one that raises has its message refused, and the rest goes on.

        Raises:
            StoreUnreachable: the session broke, and could not be opened anew after all retries.
        """
        for message in self._iterate(goes_on=True):
            try:
                handle(self.connection, message)
            except (
                errors.Transient
            ) as error:  # no fault of the message: without a session it is not acknowledged, and comes again
                self._interrupted = str(error)
                if not self._has_lost_session():
                    self._release(message)
                self._close()
                self._stop.wait(self._backoff_seconds)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is the message's reason
                self.refuse(_reason(error))

    def refuse(self, reason: str) -> None:
        """Refuses the current message when the loop goes on: its work is rolled back, and it comes again or is set aside."""
        self._refused = reason

    def stop(self, *_: object) -> None:
        """Ends the loop after the current message, with all that was handled acknowledged. SIGTERM and SIGINT call it."""
        self._stop.set()

    def _hand_out(  # noqa: C901  # one turn of the loop, with each way that it can end
        self, fetched: list[Message], *, goes_on: bool
    ) -> Generator[Message, None, list[Message]]:
        """Yields messages, and commits; returns what was fetched along with the last acknowledgement."""
        unacknowledged = 0
        for message in fetched:
            self._begin()
            self._current = message
            yield message
            self._current = None
            unacknowledged += 1
            is_last, stops = message is fetched[-1], self._stop.is_set()
            reason, failure = self._refusal(), None
            if self._has_lost_session():
                cause, self._interrupted = self._interrupted or "the session broke while the message was handled", None
                self._prepare_fetched_again(message, cause)
                return []
            is_due = is_last or stops or unacknowledged >= self._commit_every or message.stream_position <= self._alone_through
            if reason is None and not is_due and not self._is_aborted():
                continue
            following: list[Message] = []
            try:
                if reason is None:
                    following = self._acknowledge(message, fetch=is_last and not stops)
            except _WorkFailed as failed:
                if unacknowledged > 1:  # the work on any of them may be at fault: they come again, one per transaction
                    self._alone_through = message.stream_position
                    self._prepare_fetched_again(message, str(failed))
                    return []
                reason, failure = failed.reason, failed.error
            except _REFETCH_HELPS as error:
                # committed or not: the next fetch tells, since it begins after what was acknowledged
                self._prepare_fetched_again(message, str(error))
                return []
            if reason is not None:
                try:
                    self._patiently(functools.partial(self._refuse, message, reason))
                except _REFETCH_HELPS as error:
                    self._prepare_fetched_again(message, str(error))
                if failure is not None and not goes_on:
                    raise failure
                return []
            unacknowledged = 0
            if stops and not is_last:
                self._release(message)
            if stops or is_last:
                return following
        return []

    def _prepare_fetched_again(self, message: Message, cause: str) -> None:
        """Closes the session, so that the next fetch has a new one and gets what was not committed again."""
        self._close()
        emit(
            "consumer_fetches_anew",
            subscription=self.subscription,
            worker=self.worker,
            stream_position=message.stream_position,
            error=cause,
        )

    def _has_lost_session(self) -> bool:
        """Whether there is no session, or a statement found it broken; asks the driver, not the server."""
        connection = self._connection
        if connection is None or connection.invalidated:
            return True
        session: Any = None if connection.closed else connection.connection.driver_connection
        return session is not None and bool(session.closed)

    def _is_aborted(self) -> bool:
        """Whether a statement failed in the open transaction, so that it can't commit; asks the driver, not the server."""
        connection = self.connection
        session: Any = None if connection.closed else connection.connection.driver_connection
        return session is not None and session.get_transaction_status() == TRANSACTION_STATUS_INERROR

    def _refusal(self) -> str | None:
        """The reason that was given for refusing the current message, once."""
        reason, self._refused = self._refused, None
        return reason

    def _begin(self) -> None:
        """Begins the transaction before the handler does: a Session bound to the connection joins it and never commits it."""
        if not self.connection.in_transaction():
            self.connection.begin()

    def _fetch(self) -> list[Message]:
        reach("consume.begin", None)
        messages = self._call_fetch(None)
        reach("consume.fetched", None)
        self._commit()
        reach("consume.leased", None)
        return messages

    def _tell_unread(self) -> None:
        """Notes the lanes that still have stream positions when a fetch gave nothing, and says so in one event."""
        self.unread = self._patiently(self._find_unread)
        if not self.unread:
            return
        leased = [lane for lane in self.unread if lane.worker is not None]
        warn(
            "consumer_leaves_unread",
            subscription=self.subscription,
            worker=self.worker,
            lanes=len(self.unread),
            stream_positions=max(lane.stream_positions for lane in self.unread),
            leased_lanes=len(leased),
            leased_to=", ".join(sorted({str(lane.worker) for lane in leased})),
            leased_until=max((lane.leased_until for lane in leased if lane.leased_until is not None), default=""),
        )

    def _find_unread(self) -> tuple[UnreadLane, ...]:
        rows = self._execute(_UNREAD, (self.subscription, self._lane, self._lane), "looking for unread lanes").fetchall()
        self._commit()
        return tuple(UnreadLane(*row) for row in rows)

    def _acknowledge(self, message: Message, *, fetch: bool) -> list[Message]:
        """Acknowledges through a message and commits the handler's work with it; fetches what follows in the same round trip."""
        reach("consume.handled", None)
        if self._is_aborted():
            said = "a statement failed and the handler ignored it: the transaction is aborted and can't commit (25P02)"
            raise _WorkFailed(
                errors.StoreFailed(
                    f"store {self._store}: subscription {self.subscription}, stream position {message.stream_position}: {said}.",
                    next_step="Let the handler raise the error, or roll back to a savepoint (connection.begin_nested()).",
                ),
                said,
            )
        following: list[Message] = []
        if fetch:
            following = self._call_fetch(message)
        else:
            self._execute(
                "select relaybox.ack(%s, %s, %s)", (self.subscription, message.stream_position, message.token), "acknowledging"
            )
        reach("consume.acknowledged", None)
        try:
            self._commit()
        except errors.Terminal as error:
            if (refusal := _refusal_at_commit(error)) is not None:
                raise _WorkFailed(error, _reason(refusal)) from error
            raise
        reach("consume.committed", None)
        return following

    def _call_fetch(self, acked: Message | None) -> list[Message]:
        verification = (acked.stream_position, acked.token) if acked else (None, None)
        arguments = (self.subscription, self._max_count, *verification, self._lane, self.worker)
        return [_message(row) for row in self._execute(_FETCH, arguments, "fetching").fetchall()]

    def _refuse(self, message: Message, reason: str) -> None:
        self._rollback()
        arguments = (self.subscription, message.stream_position, reason, message.token)
        is_dead_letter = self._execute("select relaybox.nack(%s, %s, %s, %s)", arguments, "refusing a message").scalar()
        reach("consume.refused", None)
        self._commit()
        emit(
            "message_refused",
            subscription=self.subscription,
            stream_position=message.stream_position,
            attempt=message.attempt,
            dead_letter=bool(is_dead_letter),
            reason=reason,
        )

    def _release(self, fetched: Message) -> None:
        """Gives the lane back; if that fails, its lease ends by itself."""
        with suppress(errors.RelayboxError):
            self._rollback()
            self._execute("select relaybox.release(%s, %s)", (self.subscription, fetched.token), "releasing the lane")
            self._commit()

    def _execute(self, statement: str, arguments: tuple[object, ...], doing: str) -> Any:
        with self._translated(doing):
            if self._connection is None:
                self._connection = self._engine.connect()
            return self._connection.exec_driver_sql(statement, arguments)

    def _commit(self) -> None:
        with self._translated("committing"):
            self.connection.commit()

    def _rollback(self) -> None:
        """Takes back the handler's work; a session that broke has done so by itself, and the next statement opens another."""
        if self._connection is not None:
            try:
                self._connection.rollback()
            except DBAPIError:
                self._close()

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            self._close()
            cause = error.orig
            if not isinstance(cause, psycopg2.Error):
                raise
            raise translate(cause, store=self._store, doing=f"{doing} for subscription {self.subscription}") from error

    def _patiently(self, call: Callable[[], Answer]) -> Answer:
        """Calls, and again after a pause while the store can't be reached; each call begins with a new session."""
        for retry in range(self._retries + 1):
            try:
                return call()
            except (errors.StoreUnreachable, errors.StoreBusy) as error:
                if retry == self._retries or self._stop.is_set():
                    raise
                pause = self._backoff_seconds * 2**retry
                emit(
                    "consumer_retries", subscription=self.subscription, retry=retry + 1, retry_in_seconds=pause, error=str(error)
                )
                self._stop.wait(pause)
        raise AssertionError("range() has at least one value")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()

    @contextmanager
    def _graceful(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop the loop after its message, where this is the main thread; afterwards they are what they were."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def open_engine(service: str, subscription: str) -> Engine:
    """An engine for a libpq service whose sessions' waits all end; one session at a time, never pooled."""
    settings = {
        "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
        "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
        "idle_session_timeout": "0",  # a worker rests between fetches
        "default_transaction_read_only": "off",  # it acknowledges
        "restrict_nonsystem_relation_kind": "",
        "datestyle": "ISO",
        "standard_conforming_strings": "on",
    }

    def create() -> Any:
        return open_session(service, application_name=f"relaybox consumer {subscription}", settings=settings)

    return sqlalchemy.create_engine("postgresql+psycopg2://", creator=create, poolclass=NullPool)


_COLUMNS = [field.name for field in fields(Message)]
_MESSAGE_ID, _PAYLOAD_BYTES = _COLUMNS.index("message_id"), _COLUMNS.index("payload_bytes")
"""Where a row of _FETCH has them: its columns are the fields of a message, in their order."""


def _message(row: Sequence[Any]) -> Message:
    values = list(row)
    values[_MESSAGE_ID] = uuid.UUID(str(values[_MESSAGE_ID]))
    if values[_PAYLOAD_BYTES] is not None:
        values[_PAYLOAD_BYTES] = bytes(values[_PAYLOAD_BYTES])
    return Message(*values)


def _reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:1000]


def _refusal_at_commit(error: errors.RelayboxError) -> psycopg2.Error | None:
    """What the store said at COMMIT, if the transaction's work is at fault: a deferred constraint or trigger."""
    cause = error.__cause__
    refusal = cause.orig if isinstance(cause, DBAPIError) else None
    if not isinstance(refusal, psycopg2.Error) or refusal.pgcode is None or refusal.pgcode.startswith(_FAULTS_OF_THE_SERVER):
        return None
    return refusal
