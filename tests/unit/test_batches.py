"""The plan as a pure function: batches are cut so that every row is in exactly one, in order, at dense positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from relaybox.hops.batches import HOLE_FACTOR, Bucket, Cut, Slice, bucket_seqs, cut_batch, cut_log, share_slices

LIMITS = st.tuples(st.integers(1, 50), st.integers(1, 50))


def buckets_of(seqs: Sequence[int], width: int, after: int, max_rows: int | None = None) -> list[Bucket]:
    """What outbox_buckets (and _after, with max_rows) counts, by brute force."""
    groups: dict[int, list[int]] = {}
    for seq in sorted(seq for seq in seqs if seq > after)[:max_rows]:
        groups.setdefault(seq // width, []).append(seq)
    return [Bucket(min(group), max(group), len(group)) for _, group in sorted(groups.items())]


def cut_all(seqs: Sequence[int], batch_rows: int, slice_rows: int) -> list[Cut]:
    """All batches of one pair, planned one after the other as planning.py does."""
    width, cuts, after, log_position, max_rows = bucket_seqs(batch_rows, slice_rows), [], 0, 1, None
    while True:
        cut = cut_batch(
            buckets_of(seqs, width, after, max_rows),
            reads_after=after,
            first_position=log_position,
            batch_rows=batch_rows,
            slice_rows=slice_rows,
        )
        if cut is None:
            return cuts
        cuts.append(cut)
        if cut.pair_exhausted:
            return cuts
        after, log_position, max_rows = cut.reads_through, log_position + cut.row_count, batch_rows + 1


@given(st.sets(st.integers(1, 5000), max_size=300), LIMITS)
def test_every_row_of_a_pair_is_in_exactly_one_slice_at_its_rank(seqs: set[int], limits: tuple[int, int]) -> None:
    """However a pair is cut into batches and slices, reading them gives the rows in seq order at positions 1..N."""
    ordered = sorted(seqs)
    log_positions: dict[int, int] = {}
    for cut in cut_all(ordered, *limits):
        for slice_ in cut.slices:
            rows = [seq for seq in ordered if slice_.first_read <= seq <= slice_.last_read]
            assert len(rows) == slice_.row_count
            assert all(cut.reads_after < seq <= cut.reads_through for seq in rows)
            for rank, seq in enumerate(rows):
                assert seq not in log_positions
                log_positions[seq] = slice_.first_position + rank
    assert log_positions == {seq: rank for rank, seq in enumerate(ordered, start=1)}


@given(st.sets(st.integers(1, 5000), max_size=300), LIMITS)
def test_no_batch_is_larger_than_its_limit_and_only_the_last_exhausts_the_pair(seqs: set[int], limits: tuple[int, int]) -> None:
    """The cap is kept to the row; the pair ends when its last row is taken."""
    cuts = cut_all(sorted(seqs), *limits)
    assert all(1 <= cut.row_count <= limits[0] for cut in cuts)
    assert [cut.pair_exhausted for cut in cuts] == [False] * (len(cuts) - 1) + [True] * bool(cuts)


@given(st.sets(st.integers(1, 5000), max_size=300), LIMITS)
def test_a_slice_has_its_wished_size_and_spans_no_wide_hole(seqs: set[int], limits: tuple[int, int]) -> None:
    """At most one bucket more than wished, and no gap of seq wider than HOLE_FACTOR slices inside."""
    batch_rows, slice_rows = limits
    ordered = sorted(seqs)
    for cut in cut_all(ordered, batch_rows, slice_rows):
        for slice_ in cut.slices:
            rows = [seq for seq in ordered if slice_.first_read <= seq <= slice_.last_read]
            assert slice_.row_count < slice_rows + bucket_seqs(batch_rows, slice_rows)
            assert all(b - a <= HOLE_FACTOR * slice_rows + bucket_seqs(batch_rows, slice_rows) for a, b in pairwise(rows))


@given(st.integers(0, 500), st.integers(0, 500), LIMITS)
def test_a_log_is_cut_into_dense_ranges(reads_after: int, more: int, limits: tuple[int, int]) -> None:
    """Positions after the last read one, up to the published one or the cap, each in one slice."""
    cut = cut_log(
        reads_after=reads_after,
        published_position=reads_after + more,
        first_position=reads_after + 1,
        batch_rows=limits[0],
        slice_rows=limits[1],
    )
    if more == 0:
        assert cut is None
        return
    assert cut is not None
    read = [log_position for s in cut.slices for log_position in range(s.first_read, s.last_read + 1)]
    assert read == list(range(reads_after + 1, reads_after + 1 + min(more, limits[0])))
    assert [log_position for s in cut.slices for log_position in range(s.first_position, s.last_position + 1)] == read
    assert all(s.row_count <= limits[1] for s in cut.slices)


@dataclass(frozen=True)
class Row:
    seq: int
    xid: int


@dataclass(frozen=True)
class Snapshot:
    """All transactions below `xmin` are over; those from `xmax` on had not begun; between them `open_xids` were running."""

    xmin: int
    xmax: int
    open_xids: tuple[int, ...] = ()

    def sees(self, xid: int) -> bool:
        """The rule of pg_visible_in_snapshot."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.open_xids)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Row], list[Snapshot]]:
    """Transactions that insert rows in any order and end at any time, and the snapshots of pollers between them."""
    snapshots, rows, running, next_xid = [Snapshot(1, 1)], [], set(), 1
    for action in draw(st.lists(st.sampled_from(["begin", "insert", "end", "poll"]), max_size=120)):
        if action == "begin":
            running.add(next_xid)
            next_xid += 1
        elif action == "insert" and running:
            rows.append(Row(len(rows) + 1, draw(st.sampled_from(sorted(running)))))
        elif action == "end" and running:
            running.discard(draw(st.sampled_from(sorted(running))))
        elif action == "poll":
            snapshots.append(Snapshot(min(running, default=next_xid), next_xid, tuple(sorted(running))))
    return rows, [*snapshots, Snapshot(next_xid, next_xid)]


def split(rows: list[Row], lower: Snapshot, upper: Snapshot) -> list[Row]:
    """The split query of outbox_buckets: from lower's xmax on, plus lower's open transactions that are over."""
    finished = {xid for xid in lower.open_xids if upper.sees(xid)}
    return [row for row in rows if (lower.xmax <= row.xid < upper.xmax and upper.sees(row.xid)) or row.xid in finished]


@given(histories())
def test_pairs_of_snapshots_hold_every_row_exactly_once(history: tuple[list[Row], list[Snapshot]]) -> None:
    """Over any history, the split query gives what `visible in upper and not in lower` gives, and the pairs partition the rows."""
    rows, snapshots = history
    seen: list[Row] = []
    for lower, upper in pairwise(snapshots):
        naive = [row for row in rows if upper.sees(row.xid) and not lower.sees(row.xid)]
        assert split(rows, lower, upper) == naive
        seen += naive
    assert sorted(seen, key=lambda row: row.seq) == rows


def test_a_log_that_ends_where_read_ahead_begins_is_read_to_its_end() -> None:
    """One position is left between what was read and what the destination has already; and none is read twice."""
    limits = {"first_position": 1, "batch_rows": 10, "slice_rows": 10}
    cut = cut_log(reads_after=4, published_position=5, read_ahead=[(6, 8)], **limits)
    assert cut is not None
    assert (cut.reads_through, [(one.first_read, one.last_read) for one in cut.slices]) == (5, [(5, 5)])
    assert cut_log(reads_after=5, published_position=8, read_ahead=[(6, 8)], **limits) is None


def test_a_bucket_is_an_eighth_of_a_slice_and_no_larger_than_a_batch() -> None:
    """A power of two, at least 1."""
    assert [bucket_seqs(*limits) for limits in ((1_000, 8), (1_000, 15), (1_000, 16), (1_000, 80), (3, 80), (4, 80), (1, 1))] == [
        *(1, 1, 2, 8, 2, 4, 1)
    ]


def test_a_hole_is_wide_when_it_is_wider_than_it_may_be() -> None:
    """Exactly so wide is not; the buckets are one slice."""
    for hole, slice_count in ((HOLE_FACTOR * 10, 1), (HOLE_FACTOR * 10 + 1, 2)):
        buckets = [Bucket(1, 1, 1), Bucket(1 + hole, 1 + hole, 1)]
        cut = cut_batch(buckets, reads_after=0, first_position=1, batch_rows=100, slice_rows=10)
        assert cut is not None
        assert len(cut.slices) == slice_count, hole


@given(st.integers(0, 60), st.integers(1, 9), st.none() | st.integers(1, 5))
def test_each_slice_is_in_one_group_and_what_begins_together_is_far_apart(
    count: int, copiers: int, groups_each: int | None
) -> None:
    """A group has neighbours only; the first groups are one of each copier's run, so that each copier is in a part of its own."""
    slices = [Slice(number, number, number, number, 1) for number in range(1, count + 1)]
    groups = share_slices(slices, copiers=copiers, groups_each=groups_each)
    assert sorted(slice_.slice for group in groups for slice_ in group) == list(range(1, count + 1))
    for group in groups:
        assert group == tuple(slices[group[0].slice - 1 : group[-1].slice])
        assert len(group) == 1 or groups_each is not None
    each = -(-count // copiers)
    begun = [group[0].slice for group in groups[: -(-count // each) if each else 0]]
    assert begun == list(range(1, count + 1, each or 1))
    assert len(groups) <= (count if groups_each is None else copiers * groups_each)
