"""JSON that others sent: read and written without a change, and without an error, whatever is in it.

A number becomes an int; or a float if that has the value as it is written; or else a Decimal. Nothing limits the digits of a number or
the depth of a value. Values of Relaybox itself need none of this.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

_SURELY_EXACT = 16
"""A number of at most 15 digits and a point has its value as a float, unless it has an exponent."""

_TOKEN = re.compile(
    r'[ \t\n\r]*(?:(?P<mark>[][{}:,"])|(?P<number>-?[0-9]+(?P<fraction>[.eE][-+.eE0-9]*)?)|(?P<word>true|false|null))'
)
_WORDS = {"true": True, "false": False, "null": None}


def read_json(text: str) -> Any:
    """Returns the value of a JSON text, as a store has it.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return _read_deep(text)


def write_json(value: Any, *, ensure_ascii: bool = False) -> str:
    """Returns the JSON text of a value, in one line and with each Decimal in all its digits.

    Args:
        value: of the kinds that json.dumps takes, a mapping of any kind, or a Decimal.
        ensure_ascii: write other characters as escapes.

    Raises:
        ValueError: it has a number that JSON has not (NaN, an infinity), or contains itself.
        TypeError: it has something else that JSON has not.
    """
    try:
        return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False)
    except (TypeError, RecursionError):  # a Decimal, or too deep for the recursion of json
        return "".join(_write_deep(value, ensure_ascii=ensure_ascii))


def _integer(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:  # more digits than sys.get_int_max_str_digits()
        return Decimal(text)


def _number(text: str) -> float | Decimal:
    number = float(text)
    if len(text) <= _SURELY_EXACT and "e" not in text and "E" not in text:
        return number
    exact = Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


_DECODER = json.JSONDecoder(parse_float=_number, parse_int=_integer)


def _read_deep(text: str) -> Any:
    """As the decoder of json, with a list instead of recursion. Postgres has checked that the text is JSON."""
    around: list[list[Any]] = [[]]  # the values so far of each container around the position; those of an object with its names
    position = 0
    while (token := _TOKEN.match(text, position)) is not None:
        position, mark = token.end(), token["mark"]
        if mark == '"':
            value, position = _DECODER.raw_decode(text, position - 1)
            around[-1].append(value)
        elif mark in ("{", "["):
            around.append([])
        elif mark in ("}", "]") and len(around) > 1:
            values = around.pop()
            around[-1].append(values if mark == "]" else dict(zip(values[::2], values[1::2], strict=True)))
        elif mark is None:
            around[-1].append(_plain_value(token))
        elif mark in ("}", "]"):
            raise ValueError(f"not JSON: {mark} at character {position} of {len(text)}")
    if text[position:].strip() or len(around) != 1 or len(around[0]) != 1:
        raise ValueError(f"not JSON: character {position} of {len(text)}")
    return around[0][0]


def _plain_value(token: re.Match[str]) -> Any:
    if token["word"] is not None:
        return _WORDS[token["word"]]
    return _integer(token["number"]) if token["fraction"] is None else _number(token["number"])


def _write_deep(value: Any, *, ensure_ascii: bool) -> Iterator[str]:
    """The parts of the text, with a list instead of recursion."""
    around: dict[int, str] = {}  # by the id of a container: what closes it
    iterators: list[Iterator[tuple[str, Any]]] = [iter([("", value)])]
    while iterators:
        for before, member in iterators[-1]:
            yield before
            if not isinstance(member, Mapping | list | tuple):
                yield _scalar(member, ensure_ascii=ensure_ascii)
                continue
            if id(member) in around:
                raise ValueError("a value that contains itself is no JSON")
            around[id(member)] = "}" if isinstance(member, Mapping) else "]"
            yield "{" if isinstance(member, Mapping) else "["
            iterators.append(_members(member, ensure_ascii=ensure_ascii))
            break
        else:
            iterators.pop()
            if around:
                yield around.popitem()[1]


def _members(container: Mapping[Any, Any] | list[Any] | tuple[Any, ...], *, ensure_ascii: bool) -> Iterator[tuple[str, Any]]:
    """Each member, and what comes before it."""
    comma = ""
    if isinstance(container, Mapping):
        for name, member in container.items():
            # json writes 1, True and None as names too, and refuses other kinds
            (key,) = json.loads(json.dumps({name: 0}, allow_nan=False))
            yield f"{comma}{_scalar(key, ensure_ascii=ensure_ascii)}: ", member
            comma = ", "
    else:
        for member in container:
            yield comma, member
            comma = ", "


def _scalar(value: Any, *, ensure_ascii: bool) -> str:
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is no number of JSON")
        return str(value)
    return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False)
