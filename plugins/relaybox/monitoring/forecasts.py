"""When a backlog will be gone: a decision from measured rates, without I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Forecast:
    """How a backlog drains.

    Attributes:
        backlog: messages sent and not received.
        arriving_per_second: new messages, on average since the oldest of the backlog was sent.
        moving_per_second: messages that the hop moves while it moves; None: it has moved nothing yet.
        seconds_to_empty: None: it does not drain at these rates, or nothing is known.
        worst_delay_seconds: the age that one of the waiting messages will at least have had when it arrives, if the hop moves
            from now on: the oldest has its age already, the newest waits for all before it. None: nothing is known.
    """

    backlog: int
    arriving_per_second: float
    moving_per_second: float | None
    seconds_to_empty: float | None
    worst_delay_seconds: float | None

    def misses(self, target_seconds: float) -> bool:
        """Whether a message that waits now will have waited for longer than that when it arrives, or has already."""
        return self.worst_delay_seconds is None or self.worst_delay_seconds > target_seconds


def forecast_drain(*, backlog: int, oldest_seconds: float | None, moving_per_second: float | None) -> Forecast:
    """The backlog shrinks by what is moved less what arrives.

    What arrives is measured by Little's law: the backlog is everything that was sent since its oldest message,
    so it divided by that message's age is the rate of sending.

    Args:
        backlog: messages sent and not received, 0 or more.
        oldest_seconds: age of the oldest of them; None if there is none.
        moving_per_second: how fast the hop moves while it moves; None if it never did.
    """
    if backlog == 0:
        return Forecast(0, 0.0, moving_per_second, 0.0, 0.0)
    arriving = backlog / oldest_seconds if oldest_seconds else 0.0
    spare = (moving_per_second or 0.0) - arriving
    worst = max(oldest_seconds or 0.0, backlog / moving_per_second) if moving_per_second else None
    return Forecast(backlog, arriving, moving_per_second, backlog / spare if spare > 0 else None, worst)
