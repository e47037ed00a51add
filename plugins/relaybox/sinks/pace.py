"""How fast an endpoint gets messages: one schedule for all lanes of a process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Pace:
    """Gives each message its time, at least 1/rate seconds after the one before. What was not used is not saved up."""

    def __init__(self, messages_per_second: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap_seconds = 0.0 if messages_per_second is None else 1 / messages_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._next_at = clock()

    def take(self, message_count: int = 1) -> float:
        """Takes the turns of these messages; returns the seconds until the first of them."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next_at)
            self._next_at = turn + message_count * self._gap_seconds
            return turn - now
