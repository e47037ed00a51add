"""When a hop's pending work is worth an event: a pure decision, fed with what each poll saw."""

from __future__ import annotations

from dataclasses import dataclass

REPEAT_SECONDS = 60.0


@dataclass(frozen=True)
class HopPoll:
    """What one poll saw of a hop: whether something waits to be moved, and whether a driver is at that work already."""

    has_work: bool
    is_driven: bool


class RunTriggers:
    """One event when a hop gets work and has no driver; another each minute until it has one."""

    def __init__(self, *, patience_seconds: float = 0.0) -> None:
        self._patience_seconds = patience_seconds
        self._next_at: float | None = None

    def due(self, sighting: HopPoll, now: float) -> bool:
        """Whether to emit an event now; `now` is a monotonic clock in seconds."""
        if not sighting.has_work or sighting.is_driven:
            self._next_at = None
            return False
        if self._next_at is None:
            self._next_at = now + self._patience_seconds
        if now < self._next_at:
            return False
        self._next_at = now + REPEAT_SECONDS
        return True
