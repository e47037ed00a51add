"""The decisions of a consumer: which message is handled next, and what is said of it to the store. The same for every library.

They are steps (relaybox.clients.steps) that also hand out messages; relaybox.consumer.Consumer drives them in a thread, and
relaybox.aio.Consumer in an event loop.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from relaybox import errors
from relaybox.clients.answers import read_answer
from relaybox.clients.steps import Steps
from relaybox.consumer.messages import Message, UnreadLane
from relaybox.consumer.payloads import PayloadMismatch, payload_reader
from relaybox.consumer.session import TRANSACTION_GONE, ConsumerSession
from relaybox.failpoints import reach
from relaybox.log_events import emit, warn

Answer = TypeVar("Answer")

_REFETCH_HELPS = (errors.StoreUnreachable, errors.StoreBusy, errors.LaneLost, errors.NotFetched)
_FAULTS_OF_THE_SERVER = ("57", "58", "F0", "XX")
"""Classes of SQLSTATE that are never the work's fault, among those that no retry repairs."""
_ABORTED = "25P02"


class _WorkFailed(Exception):
    """The store refused what the handler did in it: `error` tells it, `reason` is for the dead letter."""

    def __init__(self, error: errors.RelayboxError, reason: str) -> None:
        super().__init__(str(error))
        self.error, self.reason = error, reason


class ConsumerCore:
    """What the consumers of a thread and of an event loop have in common. `_stop` and `_rest` are theirs."""

    _stop: Any

    def __init__(
        self,
        client: Any,
        store: str,
        subscription: str,
        *,
        max_count: int,
        commit_every: int,
        lane: int | None,
        worker: str | None,
        poll_seconds: float,
        listen: bool,
        until_empty: bool,
        retries: int,
        backoff_seconds: float,
        payload_type: Any,
    ) -> None:
        self.subscription = subscription
        self.worker = worker or f"consumer {uuid.uuid4()}"
        self._client = client
        self._session = ConsumerSession(client, store=store, subscription=subscription)
        self._max_count, self._commit_every, self._lane = max_count, commit_every, lane
        self._poll_seconds, self._listen, self._until_empty = poll_seconds, listen, until_empty
        self._retries, self._backoff_seconds = retries, backoff_seconds
        self._payload_reader = None if payload_type is None else payload_reader(payload_type)
        self._current: Message | None = None
        self._handed_out: Message | None = None
        self._newest_fetched: Message | None = None  # of the newest fetch, whose commit may have been cut off
        self._refused: str | None = None
        self._has_timed_out = False  # the handler, in the middle of a statement: the library may have given up the session
        self._interrupted: str | None = None  # the transient error of the handler
        self.acknowledged_count = self.refused_count = self.dead_letter_count = 0
        self._alone_through = 0  # through this stream position each message has its own transaction
        self.unread: tuple[UnreadLane, ...] = ()

    @property
    def connection(self) -> Any:
        """The open transaction that the current message is acknowledged in: the handler's work on this store belongs here."""
        return self._session.connection

    def refuse(self, reason: str) -> None:
        """Refuses the current message when the loop goes on: its work is rolled back, and it comes again or is set aside."""
        self._refused = reason

    def _wait(self, seconds: float) -> Any:
        """Waits, or until it is stopped."""
        raise NotImplementedError

    def _rest(self) -> Steps[None]:
        """Rests, or returns at once where the session has only now begun to listen."""
        if not (self._listen and (yield from self._session.listen())):
            yield from self._session.rest(self._stop, self._lane, self._poll_seconds, self._wait)

    def _iterate(self, *, goes_on: bool) -> Steps[None]:
        """Hands out messages; where the store refuses the work on one, the message is refused, and the error raised unless it `goes_on`."""
        fetched: list[Message] = []
        while not self._stop.is_set():
            fetched = fetched or (yield from self._patiently(self._fetch))
            if not fetched:
                if self._until_empty and not (yield from self._waits_for_lease()):
                    yield from self._tell_unread()
                    return
                yield from self._patiently(self._rest)
                continue
            fetched = yield from self._hand_out(fetched, goes_on=goes_on)
        if fetched:
            yield from self._release(fetched[0])

    def _leave(self, error: BaseException | None) -> Steps[None]:
        """Refuses the current message if the body failed on it, gives the lane back, closes the session.

        What ends the body and is no Exception (SystemExit, Airflow's timeout of a task) counts as a crash of the current message: the
        lane is not given back, since that would take the fetch out of the count. Its lease ends.
        """
        current, self._current = self._current, None
        if current is None or (isinstance(error, Exception) and self._session.is_lost()):
            pass  # the message comes again with the same worker, or when the lease ends; crash_limit finds one that breaks sessions
        elif isinstance(error, Exception) and not isinstance(error, errors.Transient):
            with suppress(errors.RelayboxError):  # the body's error is the one to tell; the lease ends by itself
                yield from self._refuse(current, refusal_reason(error))
        elif error is None or isinstance(error, Exception):
            yield from self._release(current)
        yield from self._session.close()

    def _interrupt(self, message: Message, error: errors.Transient) -> Steps[None]:
        """The handler needs a retry, which is no fault of the message: without a session it is not acknowledged, and comes again."""
        self._interrupted = str(error)
        if not self._session.is_lost():
            yield from self._release(message)
        yield from self._session.close()
        yield functools.partial(self._wait, self._backoff_seconds)

    def _abandon(self, message: Message) -> Steps[None]:
        """Ends the worker without a word about the message: the program is at fault, or was told to end."""
        self._current = None
        yield from self._release(message)
        yield from self._session.close()

    def _read_payload(self, message: Message) -> tuple[Message, str | None]:
        """The message with its body, and the reason to refuse it if its payload is not of the type."""
        if self._payload_reader is None:
            return message, None
        payload = message.payload if message.payload is not None else message.payload_bytes
        try:
            return replace(message, body=self._payload_reader(payload or b"")), None
        except PayloadMismatch as error:
            return message, str(error)[:1000]

    def _hand_out(  # noqa: C901, PLR0911, PLR0912  # one turn of the loop, with each way that it can end
        self, fetched: list[Message], *, goes_on: bool
    ) -> Steps[list[Message]]:
        """Hands out messages, and commits; returns what was fetched along with the last acknowledgement."""
        unacknowledged = 0
        for row in fetched:
            message, mismatch = self._read_payload(row)
            if unacknowledged == 0:
                try:
                    yield from self._session.begin()
                except _REFETCH_HELPS as error:
                    yield from self._prepare_fetched_again(message, str(error))
                    return []
            if mismatch is None:
                self._current = self._handed_out = message
                yield message
                self._current = None
            unacknowledged += 1
            is_last, stops = row is fetched[-1], self._stop.is_set()
            reason, failure = mismatch or self._refusal(), None
            if self._session.is_lost() and not (reason is not None and self._has_timed_out):
                cause, self._interrupted = self._interrupted or "the session broke while the message was handled", None
                yield from self._prepare_fetched_again(message, cause)
                return []
            is_due = is_last or stops or unacknowledged >= self._commit_every or message.stream_position <= self._alone_through
            can_commit = not (self._session.is_aborted() or self._session.has_ended_transaction())
            if reason is None and not is_due and can_commit:
                continue
            following: list[Message] = []
            try:
                if reason is None:
                    following = yield from self._acknowledge(message, fetch=is_last and not stops)
            except _WorkFailed as failed:
                if unacknowledged > 1:  # the work on any of them may be at fault: they come again, one per transaction
                    self._alone_through = message.stream_position
                    yield from self._prepare_fetched_again(message, str(failed))
                    return []
                reason, failure = failed.reason, failed.error
            except _REFETCH_HELPS as error:
                # committed or not: the next fetch tells, since it begins after what was acknowledged
                yield from self._prepare_fetched_again(message, str(error))
                return []
            if reason is not None:
                self._has_timed_out = False
                try:
                    yield from self._patiently(functools.partial(self._refuse, message, reason))
                except _REFETCH_HELPS as error:
                    yield from self._prepare_fetched_again(message, str(error))
                if failure is not None and not goes_on:
                    raise failure
                return []
            self.acknowledged_count += unacknowledged
            unacknowledged = 0
            if stops and not is_last:
                yield from self._release(message)
            if stops or is_last:
                return following
        return []

    def _prepare_fetched_again(self, message: Message, cause: str) -> Steps[None]:
        """Closes the session, so that the next fetch has a new one and gets what was not committed again."""
        yield from self._session.close()
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

    def _fetch(self) -> Steps[list[Message]]:
        reach("consume.begin", None)
        messages = yield from self._session.fetch(self.worker, self._max_count, self._lane)
        reach("consume.fetched", None)
        self._note_fetched(messages)
        yield from self._session.commit()
        reach("consume.leased", None)
        return messages

    def _note_fetched(self, messages: list[Message]) -> None:
        self._newest_fetched = messages[0] if messages else self._newest_fetched

    def _waits_for_lease(self) -> Steps[bool]:
        """Whether to go on resting with `until_empty`, since a lane will be free that this worker has to read."""
        yield from ()
        return False

    def _tell_unread(self) -> Steps[None]:
        """Notes the lanes that still have stream positions when a fetch gave nothing, and says so in one event."""
        self.unread = yield from self._patiently(self._find_unread)
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

    def _find_unread(self) -> Steps[tuple[UnreadLane, ...]]:
        unread = yield from self._session.find_unread(self._lane)
        yield from self._session.commit()
        return unread

    def _acknowledge(self, message: Message, *, fetch: bool) -> Steps[list[Message]]:
        """Acknowledges through a message and commits the handler's work with it; fetches what follows in the same round trip."""
        reach("consume.handled", None)
        if self._session.is_aborted():
            raise self._aborted(message)
        following: list[Message] = []
        try:
            if fetch:
                following = yield from self._session.ack_and_fetch(message, self.worker, self._max_count, self._lane)
                self._note_fetched(following)
            else:
                yield from self._session.ack(message)
        except errors.TransactionEnded as ended:
            yield from self._session.discard()
            raise _WorkFailed(ended, TRANSACTION_GONE) from ended
        except errors.StoreFailed as error:
            if _sqlstate(error) == _ABORTED:  # asyncpg does not say it before
                raise self._aborted(message) from error
            raise
        reach("consume.acknowledged", None)
        try:
            yield from self._session.commit()
        except errors.Terminal as error:
            if (refusal := _refusal_at_commit(error)) is not None:
                raise _WorkFailed(error, refusal_reason(refusal)) from error
            raise
        reach("consume.committed", None)
        return following

    def _aborted(self, message: Message) -> _WorkFailed:
        said = "a statement failed and the handler ignored it: the transaction is aborted and can't commit (25P02)"
        return _WorkFailed(
            errors.StoreFailed(
                f"store {self._session.store}: subscription {self.subscription}, stream position {message.stream_position}: {said}.",
                next_step="Let the handler raise the error, or roll back to a savepoint (connection.begin_nested()).",
            ),
            said,
        )

    def _refuse(self, message: Message, reason: str) -> Steps[None]:
        yield from self._session.rollback()
        is_dead_letter = yield from self._session.nack(message, reason)
        reach("consume.refused", None)
        yield from self._session.commit()
        self.refused_count += 1
        self.dead_letter_count += is_dead_letter
        told = {
            "subscription": self.subscription,
            "stream_position": message.stream_position,
            "attempt": message.attempt,
            "dead_letter": is_dead_letter,
            "reason": reason,
        }
        if is_dead_letter:
            warn("message_refused", **told)
        else:
            emit("message_refused", **told)

    def _release(self, fetched: Message) -> Steps[None]:
        """Gives the lane back; if that fails, its lease ends by itself."""
        with suppress(errors.RelayboxError):
            yield from self._session.rollback()
            yield from self._session.release(fetched)
            yield from self._session.commit()

    def _patiently(self, call: Callable[[], Steps[Answer]]) -> Steps[Answer]:
        """Calls, and again after a pause while the store can't be reached; each call begins with a new session."""
        for retry in range(self._retries + 1):
            try:
                return (yield from call())
            except (errors.StoreUnreachable, errors.StoreBusy) as error:
                if retry == self._retries or self._stop.is_set():
                    raise
                pause = self._backoff_seconds * 2**retry
                emit(
                    "consumer_retries", subscription=self.subscription, retry=retry + 1, retry_in_seconds=pause, error=str(error)
                )
                yield functools.partial(self._wait, pause)
        raise AssertionError("range() has at least one value")


def refusal_reason(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:1000]


def _sqlstate(error: errors.RelayboxError) -> str | None:
    """What the store said, before it was one of our errors."""
    answer = None if error.__cause__ is None else read_answer(error.__cause__)
    return None if answer is None else answer.sqlstate


def _refusal_at_commit(error: errors.RelayboxError) -> BaseException | None:
    """The library's error at COMMIT, if the transaction's work is at fault: a deferred constraint or trigger."""
    sqlstate = _sqlstate(error)
    if error.__cause__ is None or sqlstate is None or sqlstate.startswith(_FAULTS_OF_THE_SERVER):
        return None
    return getattr(error.__cause__, "orig", None) or error.__cause__.__cause__ or error.__cause__
