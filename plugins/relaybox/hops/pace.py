"""How fast a driver that lingers looks for messages and plans batches. Pure: the clock is the caller's."""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.02, 0.25
QUIET_PER_POLL = 10
"""A look comes after a tenth of the time without a message: a message waits 5 % longer, and a quiet hop is not asked often."""

BATCHES_PER_SECOND = 4.0
BURST_BATCHES = 20.0
"""In the long run a lingering driver makes this many batches a second, of which each has rows in the ledgers of both stores.
The first ones of a burst go out at once; then messages gather for the next batch."""


def poll_pause(quiet_seconds: float) -> float:
    """How long to wait before the next look for messages, after this time without any."""
    return min(LONGEST_POLL_SECONDS, max(SHORTEST_POLL_SECONDS, quiet_seconds / QUIET_PER_POLL))


@dataclass
class BatchPace:
    """The batches that may still go out at once; it fills by BATCHES_PER_SECOND."""

    left: float = BURST_BATCHES
    counted_at: float | None = None

    def pause_after_batch(self, now: float) -> float:
        """Counts a batch; how long messages gather for the next one."""
        passed = 0.0 if self.counted_at is None else now - self.counted_at
        self.left = min(BURST_BATCHES, self.left + passed * BATCHES_PER_SECOND) - 1
        self.counted_at = now
        return max(0.0, -self.left / BATCHES_PER_SECOND)
