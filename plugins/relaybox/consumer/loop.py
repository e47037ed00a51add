"""The loop of a consumer: which message is handled next, and what is said of it to the store."""

from __future__ import annotations

import functools
import signal
import threading
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast

import psycopg2
from sqlalchemy.exc import DBAPIError

from relaybox import errors
from relaybox.consumer.handlers import require_finished, require_plain_handler
from relaybox.consumer.messages import Message, UnreadLane
from relaybox.consumer.session import TRANSACTION_GONE, ConsumerSession, open_engine
from relaybox.consumer.stopping import StopEvent
from relaybox.failpoints import reach
from relaybox.log_events import emit, warn

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

Answer = TypeVar("Answer")

_REFETCH_HELPS = (errors.StoreUnreachable, errors.StoreBusy, errors.LaneLost, errors.NotFetched)
_FAULTS_OF_THE_SERVER = ("57", "58", "F0", "XX")
"""Classes of SQLSTATE that are never the work's fault, among those that no retry mends."""


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
        poll_seconds: how long to rest when nothing is there and the session does not listen.
        listen: rest until the store notifies the session, and at most ten seconds or `poll_seconds`, if that is more. Behind a pooler
            the session does not listen.
        until_empty: end instead of resting. What other workers have leased is not waited for: `unread` says then what it is.
        retries: how often a broken session is opened anew before the error is raised.
        backoff_seconds: pause before the first of them; each further one is twice as long.

    Attributes:
        unread: the lanes that still had stream positions when the loop ended with `until_empty`.
        acknowledged_count: messages of which the work was committed.
        refused_count: refusals, several of one message too.
        dead_letter_count: those of them that made a dead letter.
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
        listen: bool = True,
        until_empty: bool = False,
        retries: int = 3,
        backoff_seconds: float = 1.0,
    ) -> None:
        self.subscription = subscription
        self.worker = worker or f"consumer {uuid.uuid4()}"
        self._session = ConsumerSession(
            open_engine(store, subscription) if isinstance(store, str) else store,
            store=store if isinstance(store, str) else str(store.url.database),
            subscription=subscription,
        )
        self._max_count, self._commit_every, self._lane = max_count, commit_every, lane
        self._poll_seconds, self._listen, self._until_empty = poll_seconds, listen, until_empty
        self._retries, self._backoff_seconds = retries, backoff_seconds
        self._stop = StopEvent()
        self._current: Message | None = None
        self._refused: str | None = None
        self._interrupted: str | None = None  # the transient error of the handler
        self.acknowledged_count = self.refused_count = self.dead_letter_count = 0
        self._alone_through = 0  # through this stream position each message has its own transaction
        self.unread: tuple[UnreadLane, ...] = ()

    @property
    def connection(self) -> Connection:
        """The open transaction that the current message is acknowledged in: the handler's work on this store belongs here."""
        return self._session.connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Refuses the current message if the body failed on it, gives the lane back, closes the session.

        What ends the body and is no Exception (SystemExit, Airflow's timeout of a task) counts as a crash of the current message: the
        lane is not given back, since that would take the fetch out of the count. Its lease ends.
        """
        current, self._current = self._current, None
        if current is None or (isinstance(error, Exception) and self._session.is_lost()):
            pass  # the message comes again with the same worker, or when the lease ends; crash_limit finds one that breaks sessions
        elif isinstance(error, Exception) and not isinstance(error, errors.Transient):
            with suppress(errors.RelayboxError):  # the body's error is the one to tell; the lease ends by itself
                self._refuse(current, _reason(error))
        elif error is None or isinstance(error, Exception):
            self._release(current)
        self._session.close()

    def __iter__(self) -> Iterator[Message]:
        return self._iterate(goes_on=False)

    def _iterate(self, *, goes_on: bool) -> Iterator[Message]:
        """Yields messages; where the store refuses the work on one, the message is refused, and the error raised unless it `goes_on`."""
        with self._graceful():
            fetched: list[Message] = []
            while not self._stop.is_set():
                fetched = fetched or self._patiently(self._fetch)
                if not fetched:
                    if self._until_empty and not self._waits_for_lease():
                        self._tell_unread()
                        return
                    self._patiently(self._rest)
                    continue
                fetched = yield from self._hand_out(fetched, goes_on=goes_on)
            if fetched:
                self._release(fetched[0])

    def run(self, handle: Callable[[Connection, Message], None]) -> None:
        """Calls the handler for every message until `stop`; if the handler raises, its message is refused and the loop goes on.

        Raises:
            StoreUnreachable: the session broke, and could not be opened anew after all retries.
            HandlerRefused: the handler is async or a generator, or returned such work. The message is not refused: it comes again.
        """
        require_plain_handler(handle)
        call = cast("Callable[[Connection, Message], object]", handle)
        for message in self._iterate(goes_on=True):
            try:
                answer = call(self.connection, message)
            except (
                errors.Transient
            ) as error:  # no fault of the message: without a session it is not acknowledged, and comes again
                self._interrupted = str(error)
                if not self._session.is_lost():
                    self._release(message)
                self._session.close()
                self._stop.wait(self._backoff_seconds)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is the message's reason
                self.refuse(_reason(error))
            else:
                self._require_finished(call, answer, message)

    def _require_finished(self, handle: Callable[[Connection, Message], object], answer: object, message: Message) -> None:
        """Ends the worker without a word about the message if the handler's work has yet to run: the program is at fault."""
        try:
            require_finished(handle, answer, f"subscription {self.subscription}, stream position {message.stream_position}")
        except errors.HandlerRefused:
            self._current = None
            self._release(message)
            self._session.close()
            raise

    def refuse(self, reason: str) -> None:
        """Refuses the current message when the loop goes on: its work is rolled back, and it comes again or is set aside."""
        self._refused = reason

    def stop(self, *_: object) -> None:
        """Ends the loop after the current message, with all that was handled acknowledged. SIGTERM and SIGINT call it."""
        self._stop.set()

    def _hand_out(  # noqa: C901, PLR0911, PLR0912  # one turn of the loop, with each way that it can end
        self, fetched: list[Message], *, goes_on: bool
    ) -> Generator[Message, None, list[Message]]:
        """Yields messages, and commits; returns what was fetched along with the last acknowledgement."""
        unacknowledged = 0
        for message in fetched:
            if unacknowledged == 0:
                try:
                    self._session.begin()
                except _REFETCH_HELPS as error:
                    self._prepare_fetched_again(message, str(error))
                    return []
            self._current = message
            yield message
            self._current = None
            unacknowledged += 1
            is_last, stops = message is fetched[-1], self._stop.is_set()
            reason, failure = self._refusal(), None
            if self._session.is_lost():
                cause, self._interrupted = self._interrupted or "the session broke while the message was handled", None
                self._prepare_fetched_again(message, cause)
                return []
            is_due = is_last or stops or unacknowledged >= self._commit_every or message.stream_position <= self._alone_through
            can_commit = not (self._session.is_aborted() or self._session.has_ended_transaction())
            if reason is None and not is_due and can_commit:
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
            self.acknowledged_count += unacknowledged
            unacknowledged = 0
            if stops and not is_last:
                self._release(message)
            if stops or is_last:
                return following
        return []

    def _prepare_fetched_again(self, message: Message, cause: str) -> None:
        """Closes the session, so that the next fetch has a new one and gets what was not committed again."""
        self._session.close()
        emit(
            "consumer_fetches_anew",
            subscription=self.subscription,
            worker=self.worker,
            stream_position=message.stream_position,
            error=cause,
        )

    def _refusal(self) -> str | None:
        """The reason that was given for refusing the current message, once."""
        reason, self._refused = self._refused, None
        return reason

    def _fetch(self) -> list[Message]:
        reach("consume.begin", None)
        messages = self._session.fetch(self.worker, self._max_count, self._lane)
        reach("consume.fetched", None)
        self._session.commit()
        reach("consume.leased", None)
        return messages

    def _rest(self) -> None:
        """Rests, or returns at once where the session has only now begun to listen."""
        if not (self._listen and self._session.listen()):
            self._session.rest(self._stop, self._lane, self._poll_seconds)

    def _waits_for_lease(self) -> bool:
        """Whether to go on resting with `until_empty`, since a lane will be free that this worker has to read."""
        return False

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
        unread = self._session.find_unread(self._lane)
        self._session.commit()
        return unread

    def _acknowledge(self, message: Message, *, fetch: bool) -> list[Message]:
        """Acknowledges through a message and commits the handler's work with it; fetches what follows in the same round trip."""
        reach("consume.handled", None)
        if self._session.is_aborted():
            said = "a statement failed and the handler ignored it: the transaction is aborted and can't commit (25P02)"
            raise _WorkFailed(
                errors.StoreFailed(
                    f"store {self._session.store}: subscription {self.subscription}, stream position {message.stream_position}: {said}.",
                    next_step="Let the handler raise the error, or roll back to a savepoint (connection.begin_nested()).",
                ),
                said,
            )
        following: list[Message] = []
        try:
            if fetch:
                following = self._session.ack_and_fetch(message, self.worker, self._max_count, self._lane)
            else:
                self._session.ack(message)
        except errors.TransactionEnded as ended:
            self._session.discard()
            raise _WorkFailed(ended, TRANSACTION_GONE) from ended
        reach("consume.acknowledged", None)
        try:
            self._session.commit()
        except errors.Terminal as error:
            if (refusal := _refusal_at_commit(error)) is not None:
                raise _WorkFailed(error, _reason(refusal)) from error
            raise
        reach("consume.committed", None)
        return following

    def _refuse(self, message: Message, reason: str) -> None:
        self._session.rollback()
        is_dead_letter = self._session.nack(message, reason)
        reach("consume.refused", None)
        self._session.commit()
        self.refused_count += 1
        self.dead_letter_count += is_dead_letter
        emit(
            "message_refused",
            subscription=self.subscription,
            stream_position=message.stream_position,
            attempt=message.attempt,
            dead_letter=is_dead_letter,
            reason=reason,
        )

    def _release(self, fetched: Message) -> None:
        """Gives the lane back; if that fails, its lease ends by itself."""
        with suppress(errors.RelayboxError):
            self._session.rollback()
            self._session.release(fetched)
            self._session.commit()

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


def _reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:1000]


def _refusal_at_commit(error: errors.RelayboxError) -> psycopg2.Error | None:
    """What the store said at COMMIT, if the transaction's work is at fault: a deferred constraint or trigger."""
    cause = error.__cause__
    refusal = cause.orig if isinstance(cause, DBAPIError) else None
    if not isinstance(refusal, psycopg2.Error) or refusal.pgcode is None or refusal.pgcode.startswith(_FAULTS_OF_THE_SERVER):
        return None
    return refusal
