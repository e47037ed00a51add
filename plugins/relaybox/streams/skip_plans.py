"""How far a gap of a sender may be given up at one store, from what the stores before it on the way have: a decision, without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

LAST_INDEX = 2**63 - 2


class SenderGap(NamedTuple):
    """How far a sender is at a store (sender_gap.sql).

    Attributes:
        origin: the store that declared the sender.
        first_held: the lowest index that is held; None: nothing is held.
        skipped: ranges of indexes that were given up, both ends included.
    """

    epoch: int
    origin: str
    delivered_through: int
    first_held: int | None
    skipped: list[tuple[int, int]]


def plan_skip(
    state: SenderGap | None, earlier: Sequence[tuple[str, SenderGap | None]], *, sender: str, origin: str, through: int | None
) -> int | str:
    """The last index to give up at a store, or why nothing is to be given up there.

    Args:
        state: how far the sender is at the store, None for a sender that it has not heard of.
        earlier: names and states of the stores before it on the way.
        sender: for the text.
        origin: where the route's messages are sent.
        through: the last index asked for.
    """
    first = 1 if state is None else state.delivered_through + 1
    first_held = None if state is None else state.first_held
    if state is not None and state.origin != origin:
        return f"sender {sender} sends at store {state.origin}; skip along a route from there"
    given_up = (end for _, there in reversed(earlier) if there for begin, end in there.skipped if begin <= first <= end)
    last = through or (next(given_up, None) if first_held is None else first_held - 1)
    if last is None or last < first:
        come = "nothing of it has come" if state is None else f"delivered through index {first - 1}"
        waits = "none held" if first_held is None else f"index {first_held} waits for something else"
        return f"no such gap: {come}, {waits}"
    for store, there in reversed(earlier):
        if there is None:
            continue
        if state is not None and there.epoch != state.epoch:
            return f"epoch {there.epoch} of {sender}, which {store} has, is on its way"
        end = next((end for begin, end in _absent(there) if begin <= first <= end), None)
        if end is None:
            return f"no such gap: index {first}, which {store} has, is on its way"
        return min(last, end)
    return last


def _absent(state: SenderGap) -> Iterator[tuple[int, int]]:
    """Index ranges that a store has not got, or gave up."""
    yield from state.skipped
    yield state.delivered_through + 1, LAST_INDEX if state.first_held is None else state.first_held - 1
