"""How batches and slices are cut, and defects told, to the number: what properties over all inputs would let pass."""

from __future__ import annotations

from uuid import UUID

import pytest

from relaybox.hops.batches import HOLE_FACTOR, MAX_BUCKET_SEQS, Bucket, Cut, Slice, bucket_seqs, cut_batch, cut_log
from relaybox.verification.defects import Defect, DefectKind, Row, compare_slice, reconcile


@pytest.mark.parametrize(
    ("batch_rows", "slice_rows", "width"),
    [
        (1, 1, 1),
        (1000, 7, 1),
        (1000, 8, 1),
        (1000, 16, 2),
        (3, 1000, 2),
        (4, 1000, 4),
        (100, 100, 8),
        (40_000, 32_767, 2048),
        (40_000, 32_768, 4096),
        (10_000_000, 10_000_000, MAX_BUCKET_SEQS),
    ],
)
def test_a_bucket_is_an_eighth_of_a_slice_at_most_and_never_more_than_a_batch(
    batch_rows: int, slice_rows: int, width: int
) -> None:
    """The largest power of two below all three limits."""
    assert bucket_seqs(batch_rows, slice_rows) == width


def test_a_batch_takes_whole_buckets_up_to_its_limit() -> None:
    """Nine rows in three buckets, cut at nine, at eight, and at one less than the first."""
    buckets = [Bucket(1, 4, 4), Bucket(5, 8, 4), Bucket(9, 9, 1)]
    slices = (Slice(1, 1, 4, 101, 4), Slice(2, 5, 8, 105, 4), Slice(3, 9, 9, 109, 1))
    assert cut_batch(buckets, reads_after=0, first_position=101, batch_rows=9, slice_rows=4) == Cut(0, 9, 9, slices, True)
    assert cut_batch(buckets, reads_after=0, first_position=101, batch_rows=8, slice_rows=4) == Cut(0, 8, 8, slices[:2], False)
    assert cut_batch(buckets, reads_after=0, first_position=101, batch_rows=3, slice_rows=4) is None
    assert cut_batch([], reads_after=0, first_position=1, batch_rows=9, slice_rows=4) is None


def test_a_slice_ends_before_a_hole_that_is_wider_than_the_factor() -> None:
    """At the factor the hole is still read over, one seq more and it is not."""
    for distance, slice_count in ((HOLE_FACTOR * 4, 1), (HOLE_FACTOR * 4 + 1, 2)):
        buckets = [Bucket(1, 2, 2), Bucket(2 + distance, 2 + distance, 1)]
        cut = cut_batch(buckets, reads_after=0, first_position=1, batch_rows=100, slice_rows=4)
        assert cut is not None
        assert [slice_.slice for slice_ in cut.slices] == list(range(1, slice_count + 1))


def test_every_slice_takes_buckets_until_it_has_the_wished_rows() -> None:
    """The second and the third as well as the first; the last has what is left."""
    buckets = [Bucket(seq, seq, 1) for seq in range(1, 12)]
    cut = cut_batch(buckets, reads_after=0, first_position=1, batch_rows=100, slice_rows=3)
    assert cut is not None
    assert [(one.first_read, one.last_read) for one in cut.slices] == [(1, 3), (4, 6), (7, 9), (10, 11)]


def test_a_slice_knows_its_last_position_and_whether_it_has_holes() -> None:
    """Ten rows from position 101 end at 110; ten rows in eleven seqs have a hole."""
    assert Slice(1, 1, 10, 101, 10).last_position == 110
    assert Slice(1, 1, 10, 101, 10).is_dense
    assert not Slice(1, 1, 11, 101, 10).is_dense


def test_a_log_is_cut_from_where_it_was_read() -> None:
    """Positions 11 to 17 are published: a batch of five, a batch of exactly two slices, the rest, and none."""
    five = cut_log(reads_after=10, published_position=17, first_position=3, batch_rows=5, slice_rows=2)
    assert five == Cut(10, 15, 5, (Slice(1, 11, 12, 3, 2), Slice(2, 13, 14, 5, 2), Slice(3, 15, 15, 7, 1)), True)
    four = cut_log(reads_after=10, published_position=17, first_position=3, batch_rows=4, slice_rows=2)
    assert four == Cut(10, 14, 4, (Slice(1, 11, 12, 3, 2), Slice(2, 13, 14, 5, 2)), True)
    rest = cut_log(reads_after=16, published_position=17, first_position=9, batch_rows=5, slice_rows=2)
    assert rest == Cut(16, 17, 1, (Slice(1, 17, 17, 9, 1),), True)
    assert cut_log(reads_after=17, published_position=17, first_position=10, batch_rows=5, slice_rows=2) is None


MESSAGE = UUID(int=1)


def test_a_message_that_was_moved_and_changed_is_told_with_both_positions() -> None:
    """Two defects of one message, each with its sender and both positions."""
    assert list(compare_slice([Row(3, MESSAGE, "UA", "hash")], [Row(5, MESSAGE, "UA", "other")])) == [
        Defect(DefectKind.MISPLACED, MESSAGE, "UA", 3, 5),
        Defect(DefectKind.CHANGED, MESSAGE, "UA", 3, 5),
    ]


def test_missing_in_one_slice_and_too_many_in_another_is_misplaced() -> None:
    """One defect instead of two, with the sender and both positions."""
    missing = Defect(DefectKind.MISSING, MESSAGE, "UA", 3, None)
    unexpected = Defect(DefectKind.UNEXPECTED, MESSAGE, "UA", None, 8)
    assert reconcile([missing, unexpected], doubled=frozenset()) == [Defect(DefectKind.MISPLACED, MESSAGE, "UA", 3, 8)]


def test_defects_are_told_in_the_order_of_positions() -> None:
    """By where a message should be, else by where it is; a row before position 1 comes first."""
    before = Defect(DefectKind.UNEXPECTED, UUID(int=9), "UA", None, 0)
    changed = Defect(DefectKind.CHANGED, UUID(int=1), "UA", 1, 1)
    stranger = Defect(DefectKind.UNEXPECTED, UUID(int=8), "UA", None, 4)
    missing = Defect(DefectKind.MISSING, UUID(int=5), "UA", 5, None)
    assert reconcile([missing, stranger, changed, before], doubled=frozenset()) == [before, changed, stranger, missing]


def test_a_log_is_read_around_what_the_destination_has_already() -> None:
    """No slice reads across it; a batch that ends before it reads through it, and one that ends within a run does not."""
    ahead = [(12, 13), (17, 18)]
    ask = {"reads_after": 10, "published_position": 20, "first_position": 31, "slice_rows": 2, "read_ahead": ahead}
    whole = cut_log(batch_rows=9, **ask)  # type: ignore[arg-type]
    assert whole is not None
    assert whole.slices == (Slice(1, 11, 11, 31, 1), Slice(2, 14, 15, 32, 2), Slice(3, 16, 16, 34, 1), Slice(4, 19, 20, 35, 2))
    assert (whole.reads_through, whole.row_count) == (20, 6)
    ends = {rows: cut.reads_through for rows in range(1, 6) if (cut := cut_log(batch_rows=rows, **ask)) is not None}  # type: ignore[arg-type]
    assert ends == {1: 13, 2: 14, 3: 15, 4: 18, 5: 19}
    assert (
        cut_log(reads_after=10, published_position=12, first_position=1, batch_rows=5, slice_rows=2, read_ahead=[(11, 12)])
        is None
    )
