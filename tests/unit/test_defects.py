"""Verify names every message that is not as it was sent: property tests against what was broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from relaybox.verification.defects import Defect, DefectKind, Row, compare_slice, reconcile, twice_read


def message(number: int) -> UUID:
    return UUID(int=number)


def sent(count: int) -> list[Row]:
    return [
        Row(log_position, message(log_position), f"S{log_position % 3}", f"hash {log_position}")
        for log_position in range(1, count + 1)
    ]


def defects(expected: Sequence[Row], found: Sequence[Row]) -> list[Defect]:
    return reconcile(compare_slice(expected, found), doubled=frozenset())


def kinds(found: Sequence[Defect]) -> Counter[DefectKind]:
    return Counter(defect.kind for defect in found)


def at(log_position: int, row: Row) -> Row:
    return Row(log_position, row.message_id, row.sender, row.message_hash)


def slices(rows: Sequence[Row], bounds: Sequence[int]) -> list[list[Row]]:
    edges = [0, *sorted(bounds), 10**6]
    return [[row for row in rows if low < row.log_position <= high] for low, high in pairwise(edges)]


def test_a_message_that_is_not_there_is_missing() -> None:
    rows = sent(3)
    assert defects(rows, [rows[0], rows[2]]) == [Defect(DefectKind.MISSING, message(2), "S2", 2, None)]


def test_a_message_with_other_content_is_changed() -> None:
    rows = sent(3)
    changed = Row(2, message(2), "S2", "other")
    assert defects(rows, [rows[0], changed, rows[2]]) == [Defect(DefectKind.CHANGED, message(2), "S2", 2, 2)]


def test_two_messages_that_changed_places_are_misplaced() -> None:
    rows = sent(2)
    assert defects(rows, [at(1, rows[1]), at(2, rows[0])]) == [
        Defect(DefectKind.MISPLACED, message(1), "S1", 1, 2),
        Defect(DefectKind.MISPLACED, message(2), "S2", 2, 1),
    ]


def test_a_message_that_was_moved_and_changed_is_both() -> None:
    rows = sent(2)
    found = [Row(5, message(1), "S1", "other"), rows[1]]
    assert kinds(defects(rows, found)) == {DefectKind.MISPLACED: 1, DefectKind.CHANGED: 1}


def test_a_second_copy_is_doubled_and_a_stranger_is_unexpected() -> None:
    rows = sent(2)
    stranger = Row(4, message(99), "S9", "hash")
    assert defects(rows, [*rows, at(3, rows[0]), stranger]) == [
        Defect(DefectKind.DOUBLED, message(1), "S1", None, 3),
        Defect(DefectKind.UNEXPECTED, message(99), "S9", None, 4),
    ]


def test_an_id_that_a_producer_used_twice_is_no_defect() -> None:
    twice = [Row(1, message(7), "S1", "first"), Row(2, message(7), "S1", "second")]
    assert defects(twice, twice) == []


def test_a_copy_in_another_slice_than_its_original_is_doubled() -> None:
    rows = sent(4)
    found = [*compare_slice(rows[2:], [rows[2], at(4, rows[0])])]
    assert reconcile(found, doubled={message(1)}) == [
        Defect(DefectKind.DOUBLED, message(1), "S1", None, 4),
        Defect(DefectKind.MISSING, message(4), "S1", 4, None),
    ]


def test_a_copy_that_two_slices_have_read_differs_nowhere_and_is_named_by_its_second_position() -> None:
    """A copy that was added to a log by hand is named by the slice that did not expect it; it is not named again."""
    read = Defect(DefectKind.DOUBLED, message(1), "S1", None, 7)
    put = Defect(DefectKind.DOUBLED, message(2), "S2", None, 9)
    assert twice_read([read, put], [put]) == (read,)


@given(st.integers(0, 30), st.data())
def test_every_break_is_named_once_wherever_slices_are_cut(count: int, data: st.DataObject) -> None:
    """Rows are dropped, changed, moved, copied; whatever the slices, exactly these messages are named."""
    rows = sent(count)
    fates = data.draw(st.lists(st.sampled_from(["keep", "drop", "change", "move", "copy"]), min_size=count, max_size=count))
    found, next_position = [], 1000
    for row, fate in zip(rows, fates, strict=True):
        if fate in ("keep", "copy"):
            found.append(row)
        if fate == "change":
            found.append(Row(row.log_position, row.message_id, row.sender, "other"))
        if fate in ("move", "copy"):
            next_position += 1
            found.append(at(next_position, row))
    bounds = data.draw(st.lists(st.integers(1, 1100), max_size=4))
    pieces = zip(slices(rows, bounds), slices(found, bounds), strict=True)
    copies = {row.message_id for row, fate in zip(rows, fates, strict=True) if fate == "copy"}

    named = reconcile([defect for should, here in pieces for defect in compare_slice(should, here)], doubled=copies)

    meaning = {"drop": "missing", "change": "changed", "move": "misplaced", "copy": "doubled"}
    assert {(str(defect.kind), defect.message_id) for defect in named} == {
        (meaning[fate], row.message_id) for row, fate in zip(rows, fates, strict=True) if fate != "keep"
    }
    assert len(named) == sum(fate != "keep" for fate in fates)


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), max_size=12),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 6)), max_size=12),
)
def test_defects_balance_what_was_sent_against_what_is_there(should: list[tuple[int, int]], here: list[tuple[int, int]]) -> None:
    """For any two sets of rows: missing minus too many is the difference of the counts, and none means equal."""
    expected = [Row(log_position, message(number), "S", "hash") for log_position, number in dict(should).items()]
    found = [Row(log_position, message(number), "S", "hash") for log_position, number in dict(here).items()]
    named = defects(expected, found)
    tally = kinds(named)
    too_many = tally[DefectKind.DOUBLED] + tally[DefectKind.UNEXPECTED]
    assert tally[DefectKind.MISSING] - too_many == len(expected) - len(found)
    assert (named == []) == (set(expected) == set(found))
