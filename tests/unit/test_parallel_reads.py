"""Stores read side by side: who waits for another one's word is not late, and who is late holds up nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relaybox.errors import StoreUnreachable
from relaybox.routes import Store
from relaybox.stores.parallel_reads.deadlines import Inquiry
from relaybox.stores.parallel_reads.exchange import ParallelRead, StoreReader
from tests.support.patience import Deadline, patience

FIRST, SECOND, THIRD = (Store(name, service=name, connection=name) for name in ("first", "second", "third"))
KEYS = {FIRST: ("said", "first"), SECOND: ("said", "second"), THIRD: ("said", "third")}


def read(stores: tuple[Store, ...], reading: Callable[[Store, StoreReader[Any]], Any]) -> ParallelRead[Any]:
    return ParallelRead(stores, reading, owed=lambda store: [KEYS[store]], otherwise=type)


def heard(reader: StoreReader[Any], *of: Store) -> dict[str, Any]:
    return {name: told for batch in reader.hear([KEYS[store] for store in of]) for (_, name), told in batch}


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """What a dead store waits for; threads that wait for it end with the test."""
    event = threading.Event()
    yield event
    event.set()


def test_each_hears_what_the_others_tell() -> None:
    """In whichever order they tell it; what a store owes and does not tell is None."""

    def reading(store: Store, reader: StoreReader[Any]) -> Any:
        if store == THIRD:
            return {}
        reader.tell({KEYS[store]: store.name.upper()})
        return heard(reader, *({FIRST, SECOND, THIRD} - {store}))

    readings = read((FIRST, SECOND, THIRD), reading)
    readings.wait()
    assert readings.answers == {FIRST: {"second": "SECOND", "third": None}, SECOND: {"first": "FIRST", "third": None}, THIRD: {}}


def test_a_store_that_is_late_is_given_up_and_those_that_wait_for_it_are_not_late(never: threading.Event) -> None:
    """Its seconds are over; theirs did not run meanwhile, and they go on without its word."""

    def reading(store: Store, reader: StoreReader[Any]) -> Any:
        if store == FIRST:
            never.wait()
        return heard(reader, FIRST)

    inquiry = Inquiry({}, 0.2)
    readings = inquiry.answer(lambda: read((FIRST, SECOND), reading))
    readings.wait()
    assert readings.answers == {FIRST: StoreUnreachable, SECOND: {"first": None}}
    assert list(inquiry.silent) == ["first"]


def test_a_look_goes_on_without_the_late_ones_and_has_what_the_others_said(never: threading.Event) -> None:
    """Also what a store said that waits for a late one."""

    def reading(store: Store, reader: StoreReader[Any]) -> Any:
        reader.so_far = "so far"
        if store == FIRST:
            never.wait()
        return heard(reader, FIRST) if store == SECOND else "ended"

    readings = read((FIRST, SECOND, THIRD), reading)
    deadline = Deadline(60)
    while readings.wait_for_prompt(least_seconds=0.2, most_seconds=0.2, times=0.0) != {FIRST}:  # the others have not come so far
        assert not deadline.is_over()
    assert readings.so_far == {FIRST: "so far", SECOND: "so far", THIRD: "ended"}
    assert readings.answers == {THIRD: "ended"}
    never.set()
    assert readings.wait_for_prompt(least_seconds=patience(60), most_seconds=patience(60), times=0.0) == frozenset()
    readings.wait()
    assert readings.answers[SECOND] == {"first": None}


def test_where_all_are_slow_none_is_late_until_the_last_moment(never: threading.Event) -> None:
    began = time.monotonic()
    readings = read((FIRST, SECOND), lambda store, reader: never.wait())
    assert readings.wait_for_prompt(least_seconds=0.0, most_seconds=0.3, times=1.0) == {FIRST, SECOND}
    assert time.monotonic() - began >= 0.3


def test_an_error_that_is_no_answer_is_told_to_who_asks_and_holds_nobody_up() -> None:
    def reading(store: Store, reader: StoreReader[Any]) -> Any:
        if store == FIRST:
            raise ValueError("broken")
        return heard(reader, FIRST)

    readings = read((FIRST, SECOND), reading)
    readings.wait()
    with pytest.raises(ValueError, match="broken"):
        _ = readings.answers
