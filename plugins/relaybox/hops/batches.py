"""A batch and its slices, and how a batch is cut: decisions only, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from uuid import UUID

MAX_BUCKET_SEQS = 4096
"""Rows are counted in buckets of this many seqs at most; a slice is a run of buckets."""

HOLE_FACTOR = 8
"""A slice is cut before a gap in seq that is wider than this many slices, so that no slice scans the gap."""


@dataclass(frozen=True)
class Bucket:
    """Rows of a pair counted together: `row_count` rows with seq in [first_seq, last_seq].

    Between two runs lie rows that were delivered before: no slice reads across.
    """

    first_seq: int
    last_seq: int
    row_count: int
    run: int = 0


@dataclass(frozen=True)
class Slice:
    """What one task copies: rows read in [first_read, last_read], at positions first_position .. + row_count - 1.

    `first_read` and `last_read` are outbox seqs, or positions of the log that the hop reads.
    """

    slice: int
    first_read: int
    last_read: int
    first_position: int
    row_count: int

    @property
    def last_position(self) -> int:
        return self.first_position + self.row_count - 1

    @property
    def is_dense(self) -> bool:
        """As many rows as numbers in the range: every row in it is the batch's, since no two share a number."""
        return self.row_count == self.last_read - self.first_read + 1


@dataclass(frozen=True)
class Cut:
    """The part of a pair (or log) that becomes the next batch."""

    reads_after: int
    reads_through: int
    row_count: int
    slices: tuple[Slice, ...]
    pair_exhausted: bool


@dataclass(frozen=True)
class Batch:
    """What a driver needs of one row of the source's batch ledger. Never changes once planned."""

    hop: str
    batch: int
    plan_id: UUID
    topics: tuple[str, ...] | None
    lower: str | None
    upper: str | None
    first_position: int
    last_position: int
    row_count: int
    slices: tuple[Slice, ...]
    digests: tuple[str, ...] | None
    generation: int
    system_identifier: int
    timeline: int


def bucket_seqs(batch_rows: int, slice_rows: int) -> int:
    """Width of a bucket in seqs: a power of two, small enough that buckets add up to slices and never exceed a batch."""
    width = 1
    while width * 2 <= min(MAX_BUCKET_SEQS, batch_rows, max(1, slice_rows // 8)):
        width *= 2
    return width


def cut_batch(
    buckets: Sequence[Bucket], *, reads_after: int, first_position: int, batch_rows: int, slice_rows: int
) -> Cut | None:
    """Takes the first rows of a pair, in seq order, up to `batch_rows`.

    Args:
        buckets: the pair's rows after `reads_after`, ordered by seq, disjoint, no bucket above `batch_rows` rows:
            all of them, or more than `batch_rows` rows of them.
        reads_after: seq after which this batch reads (exclusive).
        first_position: position of the batch's first row.
        batch_rows: most rows of a batch.
        slice_rows: wished rows of a slice; a slice has at most this plus one bucket, and ends with its run and before a wide hole.

    Returns:
        The cut, or None when there is no row.
    """
    chosen: list[Bucket] = []
    row_count = 0
    for bucket in buckets:
        if row_count + bucket.row_count > batch_rows:
            break
        chosen.append(bucket)
        row_count += bucket.row_count
    if not chosen:
        return None
    slices = tuple(_cut_slices(chosen, first_position=first_position, slice_rows=slice_rows))
    return Cut(
        reads_after=reads_after,
        reads_through=chosen[-1].last_seq,
        row_count=row_count,
        slices=slices,
        pair_exhausted=len(chosen) == len(buckets),
    )


def _cut_slices(buckets: Iterable[Bucket], *, first_position: int, slice_rows: int) -> Iterator[Slice]:
    for number, run in enumerate(_runs(list(buckets), slice_rows), start=1):
        row_count = sum(bucket.row_count for bucket in run)
        yield Slice(number, run[0].first_seq, run[-1].last_seq, first_position, row_count)
        first_position += row_count


def _runs(buckets: list[Bucket], slice_rows: int) -> Iterator[list[Bucket]]:
    run, row_count = [buckets[0]], buckets[0].row_count
    for before, bucket in pairwise(buckets):
        wide_hole = bucket.first_seq - before.last_seq > HOLE_FACTOR * slice_rows
        if row_count >= slice_rows or wide_hole or bucket.run != before.run:
            yield run
            run, row_count = [], 0
        run.append(bucket)
        row_count += bucket.row_count
    yield run


def share_slices(slices: Sequence[Slice], *, copiers: int, groups_each: int | None = None) -> list[tuple[Slice, ...]]:
    """Groups of slices, in the order in which to begin with them, so that slices that are copied at once are far from each other.

    Slices of one segment of the destination's log that are copied at once hinder each other: only one is at the right edge of its
    index. So each copier has its own run of neighbours, and the groups of all runs take turns.

    Args:
        slices: of a batch, or those of it that are left.
        copiers: how many groups are copied at once.
        groups_each: for each copier; None: each slice is a group.
    """
    each = -(-len(slices) // copiers)
    runs = [slices[start : start + each] for start in range(0, len(slices), max(1, each))]
    size = 1 if groups_each is None else max(1, -(-each // groups_each))
    groups = [[tuple(run[start : start + size]) for start in range(0, len(run), size)] for run in runs]
    return [group for turn in zip_longest(*groups) for group in turn if group is not None]


def cut_log(
    *,
    reads_after: int,
    published_position: int,
    first_position: int,
    batch_rows: int,
    slice_rows: int,
    read_ahead: Sequence[tuple[int, int]] = (),
) -> Cut | None:
    """Takes the next positions of a log: dense, so nothing needs to be counted. Returns None when there is none.

    Args:
        reads_after: position after which this batch reads (exclusive).
        published_position: the log's last position.
        first_position: position of the batch's first row, in the log that it fills.
        batch_rows: most rows of a batch.
        slice_rows: most rows of a slice; no slice reads across positions that are left out.
        read_ahead: runs of positions (both ends included, in order) that the destination has already: left out.
    """
    unread = list(_unread(reads_after, published_position, read_ahead))
    runs = list(_first_rows(unread, batch_rows))
    if not runs:
        return None
    row_count = sum(last - first + 1 for first, last in runs)
    reads_through = next((first - 1 for first, _ in unread if first > runs[-1][1]), published_position)
    if runs[-1] not in unread:
        reads_through = runs[-1][1]  # cut within a run
    slices = tuple(_cut_runs(runs, first_position=first_position, slice_rows=slice_rows))
    return Cut(reads_after, reads_through, row_count, slices, pair_exhausted=True)


def _unread(reads_after: int, published_position: int, read_ahead: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = reads_after + 1
    for first, last in read_ahead:
        if start < first and start <= published_position:
            yield start, min(first - 1, published_position)
        start = max(start, last + 1)
    if start <= published_position:
        yield start, published_position


def _first_rows(runs: Iterable[tuple[int, int]], row_count: int) -> Iterator[tuple[int, int]]:
    for first, last in runs:
        if row_count <= 0:
            return
        yield first, min(last, first + row_count - 1)
        row_count -= last - first + 1


def _cut_runs(runs: Iterable[tuple[int, int]], *, first_position: int, slice_rows: int) -> Iterator[Slice]:
    number = 0
    for first, last in runs:
        for start in range(first, last + 1, slice_rows):
            number += 1
            row_count = min(slice_rows, last - start + 1)
            yield Slice(number, start, start + row_count - 1, first_position, row_count)
            first_position += row_count
