"""How long to wait between two looks at a store: a pure decision, fed with what each look found."""

from __future__ import annotations


class PollPace:
    """The shortest pause after a look that found work; without work each pause is longer than the one before, up to a limit.

    Args:
        seconds: the shortest pause.
        max_seconds: the longest pause; not below `seconds`. Equal: the pace never changes.
        backoff: the factor from one pause to the next, at least 1.
    """

    def __init__(self, seconds: float, max_seconds: float, backoff: float) -> None:
        self._shortest, self._longest, self._factor = seconds, max_seconds, backoff
        self._next = seconds

    def pause(self, *, has_work: bool) -> float:
        """The seconds until the next look, after one that found work or none."""
        if has_work:
            self.reset()
            return self._shortest
        pause, self._next = self._next, min(self._longest, self._next * self._factor)
        return pause

    def reset(self) -> None:
        """Begins with the shortest pause again: an application said that it has sent messages."""
        self._next = self._shortest
