"""The brute force itself, on histories short enough to be checked by eye.

`A2` is sender A's index 2, `A2.1` index 1 of its epoch 2, `m` a message without an index of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.delivery.brute import Declaration, Row, Stream

GAPLESS = [Declaration("shop", sender, epoch, "gapless") for sender in "ABC" for epoch in (1, 2, 3)]
SPARSE = [Declaration("shop", "S", epoch, "sparse") for epoch in (1, 2)]


def rows(text: str, *, clocks: Mapping[str, Any] | None = None, log: str = "log", after: int = 0) -> list[Row]:
    """Rows at positions after + 1, after + 2, ...; `clocks` by the row's name."""
    found = []
    for log_position, name in enumerate(text.split(), start=after + 1):
        sender, epoch, index = named(name)
        row = Row(log, log_position, sender, epoch, index or log_position, message_id=f"{log} {log_position}", content=(name,))
        found.append(replace(row, clock=(clocks or {}).get(name)))
    return found


def named(name: str) -> tuple[str, int, int]:
    """`A2.1` -> ("A", 2, 1), `A7` -> ("A", 1, 7), `m` -> ("m", 0, 0)."""
    found = re.fullmatch(r"([A-Za-z])(?:(\d+)\.)?(\d+)?", name)
    assert found
    sender, epoch, index = found.groups()
    return (sender, int(epoch or 1), int(index)) if index else (sender, 0, 0)


def stream(order: str, *origins: str, window: int = 0) -> Stream:
    logs = {f"log {origin}": origin for origin in origins} or {"log": "shop"}
    made = Stream(order, logs, message_id_window=window)
    made.declare(*GAPLESS, *SPARSE)
    return made


def run(order: str, text: str, **options: Any) -> Stream:
    made = stream(order, window=options.pop("window", 0))
    made.take_all(rows(text, **options))
    return made


def names(found: list[Row]) -> str:
    return " ".join(row.content[0] for row in found)


def reasons(made: Stream) -> dict[str, str]:
    return {row.content[0]: reason for row, reason in made.dead_letters.items()}


def held(made: Stream) -> str:
    return names([held.row for held in made.held])


@pytest.mark.parametrize("order", ["none", "total"])
def test_without_a_senders_order_everything_is_delivered_as_it_came(order: str) -> None:
    made = run(order, "A2 m A1 S9 S1 S4 m")
    assert names(made.delivered) == "A2 m A1 S9 S1 S4 m"
    assert (made.duplicates, made.dead_letters, made.held) == ([], {}, [])


def test_fifo_holds_a_message_back_until_the_one_before_it_has_come() -> None:
    made = run("fifo", "A2 A3 B1 m A1 A5 B2")
    assert names(made.delivered) == "B1 m A1 A2 A3 B2"
    assert held(made) == "A5"


def test_fifo_knows_of_no_other_sender() -> None:
    assert names(run("fifo", "B1 A1", clocks={"B1": {"A": 1}}).delivered) == "B1 A1"


def test_a_repetition_is_a_duplicate_held_or_delivered() -> None:
    made = run("fifo", "A2 A2 A1 A1 A2")
    assert names(made.delivered) == "A1 A2"
    assert [row.log_position for row in made.duplicates] == [2, 4, 5]


def test_the_same_index_with_other_content_is_set_aside() -> None:
    made = stream("none")
    first, second = rows("S7 S7")
    made.take_all([first, replace(second, content=("other",))])
    assert made.delivered == [first]
    assert reasons(made) == {"other": "other_content"}


def test_a_message_id_repeats_within_the_window_only() -> None:
    made = stream("none", window=2)
    again = [replace(row, message_id="same", content=("m",)) for row in rows("m m m m m m")]
    different = [replace(row, message_id=str(row.log_position)) for row in again]
    made.take_all([again[0], different[1], again[2], different[3], different[4], again[5]])
    assert [row.log_position for row in made.duplicates] == [3]
    assert [row.log_position for row in made.delivered] == [1, 2, 4, 5, 6]


def test_a_duplicate_in_the_window_is_an_original_to_the_next() -> None:
    made = stream("none", window=1)
    made.take_all([replace(row, message_id="same") for row in rows("m m m")])
    assert [row.log_position for row in made.duplicates] == [2, 3]


def test_a_message_id_repeated_with_other_content_is_set_aside() -> None:
    made = stream("none", window=1)
    made.take_all([replace(row, sender="m", message_id="same") for row in rows("m n")])
    assert reasons(made) == {"n": "other_content"}


def test_an_id_of_another_sender_repeats_nothing() -> None:
    made = stream("none", window=9)
    first, forged, other, again = (replace(row, message_id="same") for row in rows("m m n m"))
    sent = [first, replace(forged, sender="T"), replace(other, sender="U"), again]
    made.take_all(sent)
    assert (made.delivered, made.duplicates, made.dead_letters) == (sent[:3], sent[3:], {})


def test_a_declared_sender_must_give_an_index() -> None:
    made = stream("none")
    made.declare(Declaration("shop", "D", 1, "gapless", declared_at=2))
    made.take_all([replace(row, sender="D", epoch=0, sent_at=row.log_position) for row in rows("m n")])
    assert reasons(made) == {"n": "index_missing"}
    assert names(made.delivered) == "m"


def test_an_index_needs_a_declaration_that_was_there_before() -> None:
    made = stream("none")
    made.declare(Declaration("shop", "D", 1, "gapless", declared_at=2))
    made.take_all([replace(row, sent_at=row.log_position) for row in rows("D1 D2 D2.1 E1")])
    assert reasons(made) == {"D1": "sender_not_declared", "D2.1": "epoch_not_begun", "E1": "sender_not_declared"}
    assert names(made.delivered) == "D2"


def test_a_sender_belongs_to_the_store_that_it_was_first_heard_from() -> None:
    made = stream("causal", "shop", "bank")
    made.declare(Declaration("bank", "A", 1, "gapless"))
    made.take_all([*rows("A1", log="log bank"), *rows("A1", log="log shop")])
    assert names(made.delivered) == "A1"
    assert reasons(made) == {"A1": "sender_of_another_store"}


@pytest.mark.parametrize("order", ["fifo", "causal"])
def test_a_higher_epoch_gives_up_the_gaps_of_the_lower(order: str) -> None:
    made = run(order, "A1 A5 A3 B1 A2.2 A2.1 A2 A4")
    assert names(made.delivered) == "A1 B1 A3 A5 A2.1 A2.2"
    assert reasons(made) == {"A2": "epoch_fenced", "A4": "epoch_fenced"}


def test_a_refused_message_begins_no_epoch() -> None:
    made = stream("none")
    (far,) = rows("A2.2000000")
    made.take_all([far, *rows("A1", after=1)])
    assert names(made.delivered) == "A1"
    assert reasons(made) == {"A2.2000000": "index_too_far"}


@pytest.mark.parametrize("order", ["fifo", "causal"])
def test_sparse_senders_have_no_order(order: str) -> None:
    assert reasons(run(order, "S4")) == {"S4": "sender_not_gapless"}


def test_causal_wants_every_sender_to_count() -> None:
    assert reasons(run("causal", "m")) == {"m": "sender_not_gapless"}


def test_a_gapless_index_is_at_most_a_million_ahead_of_its_position() -> None:
    made = run("fifo", "A1000001 A1000003")
    assert held(made) == "A1000001"
    assert reasons(made) == {"A1000003": "index_too_far"}


def test_a_skipped_gap_counts_as_delivered_and_what_comes_late_is_set_aside() -> None:
    made = stream("fifo")
    made.take_all(rows("A1 A4 A6"))
    made.skip("A", 1, 2, 3)
    assert (names(made.delivered), held(made)) == ("A1 A4", "A6")
    made.take_all(rows("A2 A5", after=3))
    assert names(made.delivered) == "A1 A4 A5 A6"
    assert reasons(made) == {"A2": "index_skipped"}


def test_causal_waits_for_what_the_sender_had_delivered() -> None:
    made = run("causal", "C1 B1 A1", clocks={"B1": {"A": 1}, "C1": {"B": 1}})
    assert names(made.delivered) == "A1 B1 C1"


def test_causal_keeps_fifo_though_no_clock_says_so() -> None:
    assert names(run("causal", "A3 A2 A1").delivered) == "A1 A2 A3"


def test_what_gets_ready_at_once_is_ordered_by_its_clocks() -> None:
    """B1 and C1 wait for A1; C1's clock is smaller."""
    made = run("causal", "B1 C1 A1", clocks={"B1": {"A": 1, "C": 1}, "C1": {"A": 1}})
    assert names(made.delivered) == "A1 C1 B1"


def test_a_chain_is_kept_though_its_clocks_shrink() -> None:
    made = run("causal", "B1 B2 A1", clocks={"B1": {"A": 1}, "A1": {}, "B2": {}})
    assert names(made.delivered) == "A1 B1 B2"


@pytest.mark.parametrize(
    "clock", [3, [], {"B": 0}, {"B": -1}, {"B": 1.5}, {"B": True}, {"B": "1"}, {"B": None}, {"B": [1]}, {"B": [1, 0]}, {"A": 3}]
)
def test_a_clock_that_is_none_is_set_aside_and_its_index_is_done(clock: Any) -> None:
    made = run("causal", "A2 A3 A1", clocks={"A2": clock})
    assert reasons(made) == {"A2": "clock_invalid"}
    assert names(made.delivered) == "A1 A3"


@pytest.mark.parametrize("clock", [None, {}, {"A": 1}, {"A": [1, 1]}])
def test_a_clock_may_name_its_own_index(clock: Any) -> None:
    assert names(run("causal", "A1", clocks={"A1": clock}).delivered) == "A1"


def test_a_clock_from_far_in_the_future_waits() -> None:
    """How far another sender is says another log, which may be late."""
    made = run("causal", "A1 A2 B1", clocks={"A1": {"B": 1_000_002}})
    assert (names(made.delivered), held(made)) == ("B1", "A1 A2")
    assert reasons(made) == {}


def test_a_clock_names_epochs() -> None:
    made = run("causal", "A1 B2.1 A2 A3", clocks={"A1": {"B": 4}, "A2": {"B": [2, 1]}, "A3": {"B": [2, 2]}})
    assert names(made.delivered) == "B2.1 A1 A2"
    assert held(made) == "A3"


def test_a_clock_that_names_an_unknown_sender_waits_until_an_operator_sets_the_message_aside() -> None:
    made = stream("causal", "shop", "bank")
    made.take_all(rows("A1 A2", log="log shop", clocks={"A1": {"X": 1}}))
    assert held(made) == "A1 A2"
    assert (made.gaps(), made.waiting()) == ({}, {"A": (1, 1)})
    made.skip("A", 1, 1, 1)
    assert reasons(made) == {"A1": "index_skipped"}
    assert names(made.delivered) == "A2"


def test_a_clock_may_name_a_sender_before_its_declaration() -> None:
    made = stream("causal", "shop", "bank")
    made.declare(Declaration("bank", "X", 1, "gapless", declared_at=5))
    made.take_all(rows("A1", log="log shop", clocks={"A1": {"X": 1}}))
    assert held(made) == "A1"
    made.take_all([replace(row, sent_at=6) for row in rows("X1", log="log bank")])
    assert names(made.delivered) == "X1 A1"


def test_causal_wants_an_index_whether_or_not_its_sender_is_declared() -> None:
    made = stream("causal")
    made.take_all([replace(row, sender=sender, epoch=0) for row, sender in zip(rows("m n"), "AX", strict=True)])
    assert set(reasons(made).values()) == {"sender_not_gapless"}
