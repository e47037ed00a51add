"""What differs between what a hop should have delivered and what is there, message by message: decisions only, no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class DefectKind(StrEnum):
    """What is wrong with a message."""

    UNBATCHED = "unbatched"  # committed, passed by a batch, and in none
    MISSING = "missing"  # sent, not there
    CHANGED = "changed"  # there, with other content
    MISPLACED = "misplaced"  # there, at another position
    DOUBLED = "doubled"  # there once more
    UNEXPECTED = "unexpected"  # there, and never sent


LOSSES = frozenset({DefectKind.UNBATCHED, DefectKind.MISSING, DefectKind.CHANGED})
"""A message with one of these did not arrive as it was sent."""


@dataclass(frozen=True)
class Row:
    """A message at a position, with the hash of all its other columns."""

    log_position: int
    message_id: UUID
    sender: str
    message_hash: str


@dataclass(frozen=True)
class Defect:
    """One message that is not as it was sent: where it should be and where it is, None for nowhere."""

    kind: DefectKind
    message_id: UUID
    sender: str
    log_position: int | None
    found_at: int | None


def compare_slice(expected: Iterable[Row], found: Iterable[Row]) -> Iterator[Defect]:
    """Every difference between the rows that a slice should have and those at its positions.

    A message that is found where it should be is compared by content; what is left over of an id on both sides is
    misplaced, on one side missing or too many.
    """
    should, here = _by_message(expected), _by_message(found)
    for message_id in should.keys() | here.keys():
        yield from _compare_message(should[message_id], here[message_id])


def _by_message(rows: Iterable[Row]) -> defaultdict[UUID, list[Row]]:
    by_message: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        by_message[row.message_id].append(row)
    return by_message


def _compare_message(should: list[Row], here: list[Row]) -> Iterator[Defect]:
    by_position = {row.log_position: row for row in here}
    yield from (
        Defect(DefectKind.CHANGED, row.message_id, row.sender, row.log_position, row.log_position)
        for row in should
        if row.log_position in by_position and by_position[row.log_position].message_hash != row.message_hash
    )
    expected_positions = {row.log_position for row in should}
    absent = [row for row in should if row.log_position not in by_position]
    extra = [row for row in here if row.log_position not in expected_positions]
    moved = min(len(absent), len(extra))
    for row, other in zip(absent[:moved], extra[:moved], strict=True):
        yield Defect(DefectKind.MISPLACED, row.message_id, row.sender, row.log_position, other.log_position)
        if row.message_hash != other.message_hash:
            yield Defect(DefectKind.CHANGED, row.message_id, row.sender, row.log_position, other.log_position)
    for row in absent[moved:]:
        yield Defect(DefectKind.MISSING, row.message_id, row.sender, row.log_position, None)
    for row in extra[moved:]:
        kind = DefectKind.DOUBLED if should else DefectKind.UNEXPECTED
        yield Defect(kind, row.message_id, row.sender, None, row.log_position)


def reconcile(defects: Iterable[Defect], *, doubled: AbstractSet[UUID]) -> list[Defect]:
    """Joins what the slices of one hop said: missing in one and too many in another is misplaced.

    Args:
        defects: of all slices.
        doubled: ids that stand in the log more than once; an unexpected one of these is a copy, not a stranger.

    Returns:
        The defects in the order of positions.
    """
    missing: defaultdict[UUID, list[Defect]] = defaultdict(list)
    extra, joined = [], []
    for defect in defects:
        if defect.kind is DefectKind.MISSING:
            missing[defect.message_id].append(defect)
        elif defect.log_position is None:
            extra.append(defect)
        else:
            joined.append(defect)
    for defect in extra:
        absent = missing[defect.message_id]
        joined.append(_moved(absent.pop(), defect) if absent else _copy_or_stranger(defect, doubled))
    joined += (defect for absent in missing.values() for defect in absent)
    return sorted(joined, key=_sort_key)


def twice_read(copies: Iterable[Defect], differing: Iterable[Defect]) -> tuple[Defect, ...]:
    """Of the copies in a log, those that a hop was told to make: two of its slices read the same message, and nothing differs there."""
    told = {defect.found_at for defect in differing}
    return tuple(copy for copy in copies if copy.found_at not in told)


def _moved(absent: Defect, extra: Defect) -> Defect:
    return Defect(DefectKind.MISPLACED, absent.message_id, absent.sender, absent.log_position, extra.found_at)


def _copy_or_stranger(defect: Defect, doubled: AbstractSet[UUID]) -> Defect:
    if defect.kind is DefectKind.UNEXPECTED and defect.message_id in doubled:
        return Defect(DefectKind.DOUBLED, defect.message_id, defect.sender, None, defect.found_at)
    return defect


def _sort_key(defect: Defect) -> tuple[int, str]:
    return (defect.log_position or defect.found_at or 0, defect.kind)
