"""What the orders say of a history: which message every store delivered before which. Plain definitions, for few messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations

History = Mapping[str, Sequence[str]]
"""By store: the messages that it delivered, first one first."""


@dataclass(frozen=True)
class Sent:
    """Who sent a message, as the how manyth of the sender's own, having delivered which others before."""

    sender: str
    index: int
    after: frozenset[str] = field(default_factory=frozenset)


Sends = Mapping[str, Sent]


def keeps_fifo(sends: Sends, history: History) -> bool:
    """A store that delivers two messages of one sender delivers them in the order of their sending."""
    return not any(_is_sent_earlier(sends[later], sends[earlier]) for earlier, later in _delivered_pairs(history))


def keeps_causal(sends: Sends, history: History) -> bool:
    """If one message was sent before another (happened-before), each store delivers them in that order."""
    before = _happened_before(sends)
    return not any((later, earlier) in before for earlier, later in _delivered_pairs(history))


def keeps_total(history: History) -> bool:
    """If one store delivers a message before another, every store that delivers both does so."""
    pairs = set(_delivered_pairs(history))
    return not any((later, earlier) in pairs for earlier, later in pairs)


def _delivered_pairs(history: History) -> list[tuple[str, str]]:
    return [pair for delivered in history.values() for pair in combinations(delivered, 2)]


def _is_sent_earlier(one: Sent, other: Sent) -> bool:
    return one.sender == other.sender and one.index < other.index


def _happened_before(sends: Sends) -> set[tuple[str, str]]:
    """(cause, effect): sent earlier by one sender, or delivered before sending, or over messages between."""
    pairs = {(a, b) for a, b in permutations(sends, 2) if _is_sent_earlier(sends[a], sends[b]) or a in sends[b].after}
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    return pairs
