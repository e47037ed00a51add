"""Which directories of attempts are garbage: those that another attempt from the same stream position has overtaken, and no others."""

from __future__ import annotations

import pytest

from relaybox.spark.lake.attempts import Attempt, attempt_of, find_dead_attempts, find_older_attempts, new_attempt


def name_of(position: int, number: int, *, is_hidden: bool = False) -> str:
    return Attempt(position, f"{number:032x}", is_hidden).name


@pytest.mark.parametrize("is_hidden", [False, True])
def test_an_attempt_is_dead_once_another_one_has_committed_from_its_position(*, is_hidden: bool) -> None:
    """One at a position from which none is known to have committed may still commit: it is alive, however old it is."""
    committed = [name_of(0, 1, is_hidden=is_hidden), name_of(10, 2, is_hidden=is_hidden)]
    dead = [name_of(0, 3, is_hidden=is_hidden), name_of(10, 4, is_hidden=is_hidden), name_of(0, 5, is_hidden=is_hidden)]
    alive = [name_of(20, 6, is_hidden=is_hidden), name_of(5, 7, is_hidden=is_hidden)]
    names = ["_delta_log", *committed, *dead, *alive, "theirs.parquet"]
    assert find_dead_attempts(names, set(committed)) == dead
    assert find_dead_attempts(names, set()) == []
    assert find_older_attempts(names, 20) == {*committed, *dead, alive[1]}


def test_a_file_names_its_attempt() -> None:
    attempt = new_attempt(7)
    assert attempt_of(f"{attempt.name}/sent_day=2026-01-01/part.parquet") == attempt.name
    assert attempt_of("part-0001.parquet") is None
    assert new_attempt(7).name != attempt.name
