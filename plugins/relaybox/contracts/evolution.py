"""Whether a schema takes each message that the version before it took: consumers that replay a stream read both.

A pure comparison of two JSON Schemas. It is strict: what it can't compare has to stay the same. One thing it allows that a validator
would not: a new property that is not required, where the version before said nothing of it. Nobody sends what no version names.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = bool | Mapping[str, Any]

_NOTES = frozenset({
    "$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "examples", "format",
    "readOnly", "title", "writeOnly",
})  # fmt: skip
"""Keywords that refuse no value."""

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_SAME = {"pattern": "string", "multipleOf": "integer", "uniqueItems": "array"}
"""Keywords that may go, and otherwise stay the same, and the type of value that each is for; a number may be an integer."""

_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_COMPARED = frozenset({
    "type", "enum", "const", "items", *_OF_OBJECTS, *_SAME, *_NUMBERS, *(word for words in _LENGTHS.values() for word in words),
})  # fmt: skip


@dataclass(frozen=True)
class Break:
    """A message that the version before took may be refused.

    Attributes:
        at: where in the message, as in `/passengers/0/name`; empty: the whole message.
        reason: what the new version asks, and the one before did not.
    """

    at: str
    reason: str

    def __str__(self) -> str:
        return f"{self.at or 'the message'}: {self.reason}"


def list_breaks(before: Schema, after: Schema) -> list[Break]:
    """What a message that `before` takes may be refused for by `after`; none: each is taken."""
    return list(_Comparison(before, after).compare(before, after, ""))


class _Comparison:
    """Of two documents, whose `$ref` are resolved within each."""

    def __init__(self, before: Schema, after: Schema) -> None:
        self._roots = before, after
        self._compared: set[tuple[str, str]] = set()  # a schema may refer to itself

    def compare(self, before: Schema, after: Schema, at: str) -> Iterator[Break]:
        pair = _text(before), _text(after)
        if pair in self._compared or after is True or before is False:
            return
        self._compared.add(pair)
        if after is False:
            yield Break(at, "it is not allowed any more")
            return
        resolved = [_resolve(root, schema) for root, schema in zip(self._roots, (before, after), strict=True)]
        if None in resolved:
            yield Break(at, "a $ref leads out of the document, or to nothing: it can't be compared")
            return
        before, after = (_as_mapping(schema) for schema in resolved)
        types = _types(before)
        yield from _compare_others(before, after, at)
        yield from _compare_types(before, after, at)
        yield from _compare_values(before, after, at)
        for type_, compare in _LIMITS.items():
            if type_ in types:
                yield from compare(before, after, at)
        yield from (
            Break(at, f"{word} is new or another one: {_text(after[word])}")
            for word, type_ in _SAME.items()
            if type_ in types and after.get(word, False) is not False and after[word] != before.get(word)
        )
        if "array" in types:
            yield from self.compare(before.get("items", True), after.get("items", True), f"{at}/items")
        if "object" in types:
            yield from self._compare_objects(before, after, at)

    def _compare_objects(self, before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
        for name in sorted(set(after.get("required", ())) - set(before.get("required", ()))):
            yield Break(f"{at}/{name}", "it is required now, and earlier messages may be without it")
        old, new = before.get("properties", {}), after.get("properties", {})
        old_others, new_others = before.get("additionalProperties", True), after.get("additionalProperties", True)
        for name in old:
            yield from self.compare(old[name], new.get(name, new_others), f"{at}/{name}")
        for name in new.keys() - old.keys():
            if old_others is not True and old_others != {}:
                yield from self.compare(old_others, new[name], f"{at}/{name}")
        yield from self.compare(old_others, new_others, f"{at}/*")


def _compare_others(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
    for word in sorted((before.keys() | after.keys()) - _COMPARED - _NOTES):
        if before.get(word) != after.get(word):
            yield Break(at, f"{word} is another one: it can't be compared, so it has to stay the same")


def _compare_types(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
    gone = _types(before) - _types(after)
    if gone:
        yield Break(at, f"its type can't be {' or '.join(sorted(gone))} any more")


def _compare_values(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
    old, new = _values(before), _values(after)
    if new is None:
        return
    if old is None:
        yield Break(at, f"only {', '.join(sorted(new))} is allowed now")
    elif gone := old - new:
        yield Break(at, f"{', '.join(sorted(gone))} is not allowed any more")


def _compare_numbers(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
    """A bound may be moved outwards, or go."""
    for bound, exclusive, is_within in (
        ("minimum", "exclusiveMinimum", operator.ge),
        ("maximum", "exclusiveMaximum", operator.le),
    ):
        old, old_exclusive = before.get(bound), before.get(exclusive)
        if (new := after.get(bound)) is not None and not any(
            value is not None and is_within(value, new) for value in (old, old_exclusive)
        ):
            yield Break(at, f"{bound} is {new} now")
        if (new := after.get(exclusive)) is not None and not (
            (old_exclusive is not None and is_within(old_exclusive, new))
            or (old is not None and old != new and is_within(old, new))
        ):
            yield Break(at, f"{exclusive} is {new} now")


def _compare_lengths(type_: str) -> Callable[[Mapping[str, Any], Mapping[str, Any], str], Iterator[Break]]:
    least, most = _LENGTHS[type_]

    def compare(before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
        if after.get(least, 0) > before.get(least, 0):
            yield Break(at, f"{least} is {after[least]} now")
        if most in after and after[most] < before.get(most, float("inf")):
            yield Break(at, f"{most} is {after[most]} now")

    return compare


_LIMITS = {"integer": _compare_numbers, **{type_: _compare_lengths(type_) for type_ in _LENGTHS}}


def _types(schema: Mapping[str, Any]) -> set[str]:
    """The types of the values that it takes; a number may be an integer."""
    given = schema.get("type", list(_TYPES))
    types = {given} if isinstance(given, str) else set(given)
    return types | {"integer"} if "number" in types else types


def _values(schema: Mapping[str, Any]) -> set[str] | None:
    """The only values that it takes, as texts; None: any."""
    if "const" in schema:
        return {_text(schema["const"])}
    return {_text(value) for value in schema["enum"]} if "enum" in schema else None


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _as_mapping(schema: Schema | None) -> Mapping[str, Any]:
    return schema if isinstance(schema, Mapping) else {}


def _resolve(root: Schema, schema: Schema) -> Schema | None:
    """What a `$ref` within the document leads to; None if it leads nowhere."""
    seen = 0
    while isinstance(schema, Mapping) and "$ref" in schema:
        seen += 1
        reference = schema["$ref"]
        if seen > 100 or not isinstance(reference, str) or not reference.startswith("#") or schema.keys() - {"$ref"} - _NOTES:
            return None
        found: Any = root
        for step in filter(None, reference[1:].split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                return None
            found = found[name]
        schema = found
    return schema
