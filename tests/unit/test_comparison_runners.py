"""How the slices of a verification are spread over Spark tasks."""

from __future__ import annotations

import pytest

from relaybox.routes import Store
from relaybox.verification import comparison_runners
from relaybox.verification.comparison_runners import group_reads
from relaybox.verification.reading import SliceRead, StoreRead

HUB, ANALYTICS = (Store(name, service=name, connection=name) for name in ("hub", "analytics"))


def reads(store: Store, *row_counts: int) -> list[StoreRead]:
    """Slices of a log, one behind the other."""
    firsts = [1 + sum(row_counts[:number]) for number in range(len(row_counts))]
    return [
        StoreRead(store, SliceRead.of_log(1, first, first + count - 1)) for first, count in zip(firsts, row_counts, strict=True)
    ]


def sizes(groups: list[list[StoreRead]]) -> list[tuple[str, list[int]]]:
    return [(group[0].store.name, [one.read.row_count for one in group]) for group in groups]


def test_groups_are_of_one_store_and_bounded_and_stores_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice above the bound is a group of its own; nothing is left out."""
    monkeypatch.setattr(comparison_runners, "GROUP_ROWS", 10)
    monkeypatch.setattr(comparison_runners, "GROUP_READS", 3)
    groups = group_reads([*reads(HUB, 4, 6, 1, 25, 1, 1, 1, 1), *reads(ANALYTICS, 10, 1)])
    assert sizes(groups) == [
        ("hub", [4, 6]),
        ("analytics", [10]),
        ("hub", [1]),
        ("analytics", [1]),
        ("hub", [25]),
        ("hub", [1, 1, 1]),
        ("hub", [1]),
    ]
    assert {one for group in groups for one in group} == {*reads(HUB, 4, 6, 1, 25, 1, 1, 1, 1), *reads(ANALYTICS, 10, 1)}


def test_nothing_to_read_is_no_group() -> None:
    assert group_reads([]) == []
