"""Who reads the slices of a verification again: the sessions of this process, or Spark tasks (relaybox.spark). Both ask the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

from relaybox.verification.defects import Defect, compare_slice
from relaybox.verification.reading import read_digest, read_rows

if TYPE_CHECKING:
    from relaybox.verification.reading import Digest, Pair, Sessions, StoreRead

GROUP_ROWS = 100_000
"""Slices are hashed in groups of this many rows, or one slice: a second of work, beside which a new session costs little."""

GROUP_READS = 1_000
"""Small slices, each a statement, are grouped up to here."""


class ComparisonRunner(Protocol):
    """Reads slices again, side by side. Changes nothing, and holds nothing between two calls."""

    def read_digests(self, reads: Sequence[StoreRead]) -> Iterator[tuple[StoreRead, Digest]]:
        """Yields each read with its digest, in any order; raises the first error of a store."""

    def compare_rows(self, pairs: Sequence[Pair]) -> Iterator[Defect]:
        """Yields what differs within each pair, in the order of the pairs; raises the first error of a store."""


class ComparisonTooLarge(Exception):
    """A verification has more messages to compare than its caller takes on. Nothing was compared: another runner may."""


class SessionComparisonRunner:
    """One session per store, each asked in its own thread: stores work side by side. Rows of one pair at a time are in memory."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def read_digests(self, reads: Sequence[StoreRead]) -> Iterator[tuple[StoreRead, Digest]]:
        """Asks at once, before the first one is waited for."""
        asked = {self._sessions.ask(one.store, "hashing a slice", read_digest(one.read)): one for one in reads}
        return ((asked[answer], answer.result()) for answer in as_completed(asked))

    def compare_rows(self, pairs: Sequence[Pair]) -> Iterator[Defect]:
        for pair in pairs:
            asked = [self._sessions.ask(one.store, "reading a slice that differs", read_rows(one.read)) for one in pair]
            expected, found = (answer.result() for answer in asked)
            yield from compare_slice(expected, found)


def group_reads(reads: Sequence[StoreRead]) -> list[list[StoreRead]]:
    """Cuts reads into groups of one store each, up to GROUP_ROWS and GROUP_READS. Stores take turns: all are at work from the start."""
    by_store: defaultdict[str, list[StoreRead]] = defaultdict(list)
    for one in reads:
        by_store[one.store.name].append(one)
    turns = zip_longest(*(_cut(of_store) for of_store in by_store.values()))
    return [group for turn in turns for group in turn if group is not None]


def _cut(reads: Sequence[StoreRead]) -> Iterator[list[StoreRead]]:
    group: list[StoreRead] = []
    row_count = 0
    for one in reads:
        if group and (row_count + one.read.row_count > GROUP_ROWS or len(group) == GROUP_READS):
            yield group
            group, row_count = [], 0
        group.append(one)
        row_count += one.read.row_count
    yield group
