"""The circuit breaker of an endpoint, which all lanes of a process share: a decision without I/O, fed with what happened."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from relaybox.sinks.outcomes import EndpointFailure

FIRST_PAUSE_SECONDS = 1.0
PROBE_POLL_SECONDS = 0.1
"""How long a lane waits while another one tries whether the endpoint answers."""


@dataclass(frozen=True)
class Pause:
    """How long to wait before the next attempt, after which failures."""

    seconds: float
    failure_count: int


class Breaker:
    """Lets every lane send while the endpoint answers. After a failure nobody sends for a pause, then one lane tries one message.

    The pause doubles with each failure, with jitter, up to a longest; what the endpoint asks for with Retry-After is waited for.
    From `open_after` failures on, one after the other, the breaker is open: a run that does not wait for messages ends then.
    """

    def __init__(
        self,
        *,
        open_after: int,
        max_pause_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,  # noqa: S311  # no secret hangs on it
    ) -> None:
        self._open_after, self._max_pause_seconds = open_after, max_pause_seconds
        self._clock, self._jitter = clock, jitter
        self._lock = threading.Lock()
        self._failure_count, self._retry_at = 0, 0.0
        self._prober: object = None
        self.failure: EndpointFailure | None = None

    @property
    def is_open(self) -> bool:
        """Whether the endpoint failed so often that messages wait for it to be repaired."""
        return self._failure_count >= self._open_after

    @property
    def is_failing(self) -> bool:
        """Whether the newest attempt failed."""
        return self._failure_count > 0

    def restore(self, failure: EndpointFailure, failure_count: int, rest_seconds: float) -> None:
        """Goes on where an earlier process ended."""
        with self._lock:
            self.failure, self._failure_count = failure, failure_count
            self._retry_at = self._clock() + rest_seconds

    def seconds_until_turn(self, lane: object) -> float:
        """Returns 0 if this lane may send now, else how long it waits at least before it asks again.

        A lane that may send while the endpoint fails is the only one, until succeeded(), failed() or leave().
        """
        with self._lock:
            if not self._failure_count or self._prober is lane:
                return 0.0
            if self._prober is not None:
                return PROBE_POLL_SECONDS
            rest = self._retry_at - self._clock()
            if rest <= 0:
                self._prober = lane
            return max(0.0, rest)

    def leave(self, lane: object) -> None:
        """The lane had nothing to send: another one may try."""
        with self._lock:
            if self._prober is lane:
                self._prober = None

    def succeeded(self) -> bool:
        """The endpoint took a message. Returns whether it had failed before."""
        with self._lock:
            had_failed, self._failure_count, self._prober, self.failure = self._failure_count > 0, 0, None, None
            return had_failed

    def failed(self, failure: EndpointFailure) -> Pause:
        """The endpoint took none. Failures of lanes that were on their way together count as one."""
        with self._lock:
            now = self._clock()
            if now >= self._retry_at or not self._failure_count:
                self._failure_count += 1
                longest = min(self._max_pause_seconds, FIRST_PAUSE_SECONDS * 2 ** min(self._failure_count - 1, 30))
                self._retry_at = now + longest * (0.5 + self._jitter() / 2)
            if failure.retry_after_seconds is not None:
                self._retry_at = max(self._retry_at, now + failure.retry_after_seconds)
            self.failure, self._prober = failure, None
            return Pause(self._retry_at - now, self._failure_count)
