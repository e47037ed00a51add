"""Where the messages of a route's first log stand in its last one: positions are equal until a store on the way was restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.hops.ledgers import Destination, Source


@dataclass(frozen=True)
class Run:
    """Positions first to last of one log, which stand `shift` positions further on in another.

    `is_adopted`: a hop between the two found them delivered when its source had lost the ledger of it. A message without an index of its
    own may then have another one in the two logs: each time its position in the first log that gave it one.
    """

    first: int
    last: int
    shift: int
    is_adopted: bool = False


def carry(hops: Sequence[tuple[Source, Destination]], through_position: int) -> list[Run]:
    """Follows positions of the first log through hops that read logs, one after the other.

    Args:
        hops: the ledgers of the hops after the first, in order.
        through_position: what the first of these hops may have read at most.

    Returns:
        The runs that arrived in the last log, in the order of the first log's positions.
    """
    runs = [Run(1, through_position, 0)]
    for source, destination in hops:
        runs = list(_compose(runs, list(_arrived(source, destination))))
    return [run for run in runs if run.first <= run.last]


def _arrived(source: Source, destination: Destination) -> Iterator[Run]:
    """What a hop brought, slice by slice; of batches that are no longer in the ledger it is known how many there were."""
    through = destination.published_position
    found = [Run(1, source.compacted_read, source.compacted_position - source.compacted_read)]
    for batch in source.planned:
        if batch.first_position <= through:
            found += (Run(s.first_read, s.last_read, s.first_position - s.first_read, batch.adopted) for s in batch.slices)
    for run in _joined(sorted(found, key=lambda run: run.first)):
        yield replace(run, last=min(run.last, through - run.shift))


def _joined(runs: Iterable[Run]) -> Iterator[Run]:
    joined: Run | None = None
    for run in runs:
        if run.first > run.last:
            continue
        if joined and (run.first, run.shift, run.is_adopted) == (joined.last + 1, joined.shift, joined.is_adopted):
            joined = replace(joined, last=run.last)
            continue
        if joined:
            yield joined
        joined = run
    if joined:
        yield joined


def _compose(runs: Sequence[Run], further: Sequence[Run]) -> Iterator[Run]:
    for run in runs:
        for other in further:
            first, last = max(run.first, other.first - run.shift), min(run.last, other.last - run.shift)
            if first <= last:
                yield Run(first, last, run.shift + other.shift, run.is_adopted or other.is_adopted)
