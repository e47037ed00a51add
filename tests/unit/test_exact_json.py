"""JSON of others is read and written without a change: by the decoder of json, and by the one that takes any depth."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relaybox.exact_json import read_json, write_json

DEEP = 20_000
NUMBERS = {
    "7": 7,
    "-0": 0,
    "1.5": 1.5,
    "1.10": 1.1,
    "0.1": 0.1,
    "0.00001": 0.00001,
    "9007199254740993": 9007199254740993,
    "9007199254740993.0": Decimal("9007199254740993.0"),
    "0.1234567890123456789": Decimal("0.1234567890123456789"),
    "1e400": Decimal("1e400"),
    "1e-400": Decimal("1e-400"),
    "5e-324": 5e-324,
    "1" + "0" * 4299: 10**4299,
    "1" + "0" * 4300: Decimal(10) ** 4300,
}


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.parametrize("depth", [0, DEEP])
def test_a_number_has_the_value_that_was_written(text: str, depth: int) -> None:
    """As an int or a float where these have it, else as a Decimal; written again it is the same number."""
    value = read_json("[" * depth + text + "]" * depth)
    written = write_json(value)
    for _ in range(depth):
        (value,) = value
    assert (type(value), value) == (type(NUMBERS[text]), NUMBERS[text])
    assert Decimal(written.strip("[]")) == Decimal(text)


def test_a_setting_of_python_changes_no_number() -> None:
    """PYTHONINTMAXSTRDIGITS and sys.set_int_max_str_digits() lower what int() reads; 640 is the least."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert write_json(read_json('{"n": 1' + "0" * 1000 + "}")) == '{"n": 1' + "0" * 1000 + "}"
    finally:
        sys.set_int_max_str_digits(before)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda members: st.lists(members) | st.dictionaries(st.text(), members),
)


@given(value=VALUES, ensure_ascii=st.booleans())
def test_a_deep_value_is_read_and_written_as_one_that_is_not(value: Any, ensure_ascii: bool) -> None:
    """A value within many lists, and a Decimal beside it: then json can do neither."""
    text = json.dumps(value, ensure_ascii=ensure_ascii)
    assert write_json(value, ensure_ascii=ensure_ascii) == text
    assert write_json([value, Decimal("0.10")], ensure_ascii=ensure_ascii) == f"[{text}, 0.10]"
    read = read_json("[" * DEEP + text + "]" * DEEP)
    for _ in range(DEEP):
        (read,) = read
    assert json.dumps(read, ensure_ascii=ensure_ascii) == text


@pytest.mark.parametrize(
    "text", ["]", '{"a": 1', '"', "nul", "[" * DEEP, "[" * DEEP + "]" * (DEEP + 1), "[" * DEEP + "]" * DEEP + "1"]
)
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # of json, or ours
        read_json(text)


def test_what_json_has_not_is_refused() -> None:
    """Beside a Decimal too, and a value that contains itself ends."""
    cycle: list[Any] = [Decimal(1)]
    cycle.append(cycle)
    for value in (cycle, [Decimal("nan")], [Decimal(1), float("inf")], float("nan")):
        with pytest.raises(ValueError):  # of json, or ours
            write_json(value)
    for other in ([Decimal(1), object()], {(1, 2): Decimal(1)}, b"bytes"):
        with pytest.raises(TypeError):
            write_json(other)
