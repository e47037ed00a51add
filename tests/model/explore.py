"""Visits every state that can be reached, nearest first, and stops at the first that breaks a guarantee."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.model.invariants import Liveness, violations
from tests.model.protocol import Protocol
from tests.model.state import State

REPORT_EVERY = 20_000
ASKS_LIVENESS = ("", "G2", "liveness")
"""What is looked for when liveness has to be asked as well: a lost message shows in nothing else."""


@dataclass(frozen=True)
class Result:
    """What a search found. `violation` is None when every reachable state (`exhausted`) holds every guarantee."""

    states: int
    depth: int
    exhausted: bool
    seconds: float
    violation: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{self.states:,} states, {self.depth} steps deep, {self.seconds:.1f} s"
        if self.violation is None:
            return f"{head}: {'no violation, every reachable state seen' if self.exhausted else 'no violation so far'}"
        steps = "\n".join(f"  {number:2}. {step}" for number, step in enumerate(self.trace, 1))
        return f"{head}: {self.violation}\n{steps}"


def explore(
    protocol: Protocol, *, only: str = "", at_most: int | None = None, progress: Callable[[int, int, int], None] = lambda *_: None
) -> Result:
    """Breadth first, so that the trace to a violation is a shortest one.

    Args:
        protocol: the protocol, correct or broken, with its bounds.
        only: looks for a violation of this guarantee and passes over others: a broken rule may be noticed by a second
            one long before it does the harm that it would do alone.
        at_most: ends after this number of states, unexhausted.
        progress: called now and then with the states seen, the states waiting, the depth.
    """
    started = time.monotonic()
    liveness = Liveness(protocol)
    start = protocol.start()
    came_from: dict[State, State | None] = {start: None}
    layer, depth = [start], 0
    while layer:
        following: list[State] = []
        for state in layer:
            found = next(
                (
                    text
                    for text in _broken_by(state, protocol, liveness if only in ASKS_LIVENESS else None)
                    if not only or text.startswith(f"{only}:")
                ),
                None,
            )
            if found:
                trace = _trace(protocol, came_from, state)
                return Result(len(came_from), depth, False, time.monotonic() - started, found, trace)
            for _, after in protocol.steps(state):
                if after not in came_from:
                    came_from[after] = state
                    following.append(after)
                    if len(came_from) % REPORT_EVERY == 0:
                        progress(len(came_from), len(following), depth)
            if at_most is not None and len(came_from) >= at_most:
                return Result(len(came_from), depth, False, time.monotonic() - started)
        layer, depth = following, depth + 1
    return Result(len(came_from), depth - 1, True, time.monotonic() - started)


def _broken_by(state: State, protocol: Protocol, liveness: Liveness | None) -> Iterator[str]:
    yield from violations(state, protocol)
    if liveness and (text := liveness.violated(state)) is not None:
        yield text


def _trace(protocol: Protocol, came_from: dict[State, State | None], state: State) -> tuple[str, ...]:
    """The steps from the start to a state. Labels are made again here: keeping them would cost more than the states."""
    labels: list[str] = []
    while (before := came_from[state]) is not None:
        labels.append(next(label for label, after in protocol.steps(before) if after == state))
        state = before
    return tuple(reversed(labels))
