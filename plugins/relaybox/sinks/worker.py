"""The loop of a worker that delivers: fetch, send, acknowledge what the endpoint has confirmed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.clients.steps import Steps, drive
from relaybox.consumer import Consumer, Message
from relaybox.failpoints import reach
from relaybox.log_events import emit, warn
from relaybox.sinks.outcomes import EndpointFailure, Outcome, as_error
from relaybox.sinks.session import EndpointRecord, SinkSession

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from relaybox.routes import Sink
    from relaybox.sinks.breaker import Breaker
    from relaybox.sinks.outcomes import Sender
    from relaybox.sinks.pace import Pace

LOOK_SECONDS = 5.0
"""How often a worker that waits for its endpoint looks whether a person says that it is repaired."""

_FETCH_MESSAGES = 100

_REFETCH_HELPS = (errors.StoreUnreachable, errors.StoreBusy, errors.LaneLost, errors.NotFetched)


class SinkWorker(Consumer):
    """A worker of a sink's subscription, for one lane at a time. `run_sink` makes as many as the sink has lanes.

    No transaction is open while the endpoint is asked. A message that it refuses is refused as by every consumer. While the endpoint takes
    none, lanes are given back, so that no attempt is counted, and the store has a record of it.

    Args:
        engine: of the store.
        sink: of relaybox.yaml.
        sender: to its endpoint; it belongs to this worker.
        breaker: of the endpoint; all workers of the process share it.
        pace: likewise.
        until_empty: end when a fetch gives nothing, or when the breaker is open.
        worker: a name that is this worker's alone.
    """

    def __init__(
        self, engine: Engine, sink: Sink, sender: Sender, *, breaker: Breaker, pace: Pace, until_empty: bool, worker: str
    ) -> None:
        super().__init__(engine, sink.subscription, max_count=_FETCH_MESSAGES, until_empty=until_empty, worker=worker)
        self._session: SinkSession = SinkSession(self._client, store=sink.store.name, subscription=sink.subscription)
        self._sink, self._sender, self._breaker, self._pace = sink, sender, breaker, pace
        self._ends_when_empty = until_empty

    def deliver(self) -> None:
        """Delivers until `stop`, or until nothing is there.

        Raises:
            EndpointUnavailable: the breaker is open, and the run does not wait.
            StoreUnreachable: the session broke, and could not be opened anew after all retries.
        """
        drive(self._deliver())

    def _deliver(self) -> Steps[None]:
        try:
            while not self._stop.is_set():
                if seconds := self._breaker.seconds_until_turn(self):
                    yield from self._wait_for_endpoint(seconds)
                    continue
                messages = yield from self._patiently(self._fetch)
                if messages:
                    yield from self._send_all(messages)
                    continue
                self._breaker.leave(self)
                if self._ends_when_empty:
                    return
                yield from self._patiently(self._rest)
        finally:
            self._breaker.leave(self)

    def restore_breaker(self) -> None:
        """Goes on where an earlier process left the breaker."""
        found = drive(self._patiently(self._read_failure))
        if found is not None:
            self._breaker.restore(EndpointFailure(found.reason), found.failure_count, found.rest_seconds)

    def tell_unread(self) -> None:
        """Notes in `unread` which lanes have more.

        Only when all workers have ended: before, a lane has more because one of them reads it.
        """
        drive(self._tell_unread())

    def _fetch(self) -> Steps[list[Message]]:
        reach("sink.begin", None)
        most = 1 if self._breaker.is_failing else max(_FETCH_MESSAGES, self._sender.batch_messages)
        messages = yield from self._session.fetch(self.worker, most, self._lane)
        yield from self._session.commit()
        reach("sink.leased", None)
        return messages

    def _send_all(self, messages: list[Message]) -> Steps[None]:
        """Sends what was fetched, a batch at a time, as far as the endpoint takes it."""
        rest = messages
        while rest:
            is_alone = rest[0].stream_position <= self._alone_through or self._breaker.is_failing
            batch = rest[: 1 if is_alone else self._sender.batch_messages]
            if self._stop.wait(self._pace.take(len(batch))):
                yield from self._release(rest[0])
                return
            outcome = self._sender.send(batch)
            rest = rest[outcome.delivered_count :]
            if outcome.delivered_count and not (
                yield from self._acknowledge_delivered(batch[outcome.delivered_count - 1], outcome)
            ):
                return
            if outcome.failure is not None:
                yield from self._pause_after(outcome.failure, rest[0])
                return
            if outcome.refused is not None:
                yield from self._endpoint_answers()
                self._alone_through = batch[-1].stream_position
                yield from self._refuse_message(rest[0], outcome.refused)
                return

    def _acknowledge_delivered(self, message: Message, outcome: Outcome) -> Steps[bool]:
        """Acknowledges through a message; False: the lane is lost, and what was not acknowledged comes again."""
        reach("sink.delivered", None)
        try:
            yield from self._session.begin()
            yield from self._session.ack(message)
            reach("sink.acknowledged", None)
            yield from self._session.commit()
        except _REFETCH_HELPS as error:
            yield from self._prepare_fetched_again(message, str(error))
            return False
        reach("sink.committed", None)
        self.acknowledged_count += outcome.delivered_count
        yield from self._endpoint_answers()
        return True

    def _refuse_message(self, message: Message, reason: str) -> Steps[None]:
        try:
            yield from self._patiently(functools.partial(self._refuse, message, reason))
        except _REFETCH_HELPS as error:
            yield from self._prepare_fetched_again(message, str(error))

    def _endpoint_answers(self) -> Steps[None]:
        if self._breaker.succeeded():
            yield from self._patiently(self._clear_failure)
            emit("endpoint_recovered", subscription=self.subscription, endpoint=self._sink.endpoint)

    def _pause_after(self, failure: EndpointFailure, first: Message) -> Steps[None]:
        """Gives the lane back, so that nothing is counted against its messages, and records the failure."""
        reach("sink.failed", None)
        yield from self._release(first)
        pause = self._breaker.failed(failure)
        failed_attempts = yield from self._patiently(lambda: self._record_failure(failure, pause.seconds))
        warn(
            "endpoint_fails",
            subscription=self.subscription,
            endpoint=self._sink.endpoint,
            failed_attempts=failed_attempts,
            retry_in_seconds=pause.seconds,
            reason=failure.reason,
        )

    def _wait_for_endpoint(self, seconds: float) -> Steps[None]:
        """Waits a while for the endpoint; ends the run where it does not wait, and the breaker is open."""
        failure = self._breaker.failure
        if failure is not None and self._breaker.is_open and self._ends_when_empty:
            raise as_error(self._sink.endpoint, self.subscription, failure, next_step(self._sink))
        if self._stop.wait(min(seconds, LOOK_SECONDS)) or seconds <= LOOK_SECONDS:
            return
        if (yield from self._patiently(self._read_failure)) is None:
            self._breaker.succeeded()  # a person has cleared it

    def _read_failure(self) -> Steps[EndpointRecord | None]:
        found = yield from self._session.read_failure()
        yield from self._session.commit()
        return found

    def _record_failure(self, failure: EndpointFailure, pause_seconds: float) -> Steps[int]:
        """Returns the count that `list` and `status` show."""
        failed_attempts = yield from self._session.record_failure(self._sink.endpoint, failure.reason, pause_seconds)
        reach("sink.recorded", None)
        yield from self._session.commit()
        return failed_attempts

    def _clear_failure(self) -> Steps[None]:
        yield from self._session.clear_failure()
        yield from self._session.commit()


def next_step(sink: Sink) -> str:
    """What to do about an endpoint that fails."""
    return f"Repair it. Then run: relaybox {sink.kind} retry {sink.name}"
