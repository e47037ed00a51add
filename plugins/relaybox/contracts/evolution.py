"""Whether a schema takes each message that the version before it took: consumers that replay a stream read both.

A pure comparison of two JSON Schemas. It is strict: what it can't compare has to stay the same, with all that its `$ref` lead to. One thing
it allows that a validator would not: a new property that is not required, where the version before said nothing of it. Nobody sends what no
version names.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from relaybox.contracts.schema_documents import NOTES, Schema, SchemaDocument, below_items, below_property, text_of

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
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_COMPARED = frozenset({
    "type", "enum", "const", "items", "allOf", "anyOf", "oneOf", *_UNEVALUATED, *_OF_OBJECTS, *_SAME, *_NUMBERS,
    *(word for words in _LENGTHS.values() for word in words),
})  # fmt: skip
_DRAFTS = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
    }
)
_MOST_COMPARISONS = 5_000
"""Of parts of two documents; schemas whose alternatives nest deeply have more, and can't be compared."""


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


def list_breaks(before: Schema, after: Schema, *, new_properties: bool = True) -> list[Break]:
    """What a message that `before` takes may be refused for by `after`; none: each is taken.

    Args:
        before: the JSON Schema of a version.
        after: of the version after it.
        new_properties: a property of which `before` says nothing may have any schema in `after`. False: earlier messages may hold it with
            any value, and a schema that refuses one is a break.
    """
    if text_of(before) == text_of(after):
        return []
    documents = SchemaDocument(before), SchemaDocument(after)
    if reason := _say_why_not(*documents):
        return [Break("", reason)]
    comparison = _Comparison(*documents, new_properties=new_properties)
    try:
        return list(dict.fromkeys(comparison.compare(before, after, "", documents[0].in_place([before]))))
    except (AttributeError, TypeError):  # a place that the draft does not know as one of schemas, so nobody checked it
        return [Break("", "a $ref leads to what is no JSON Schema: it can't be compared")]
    except (_TooLargeError, RecursionError):
        return [
            Break(
                "", f"the schemas have too many alternatives in each other: they can't be compared ({_MOST_COMPARISONS:,} steps)"
            )
        ]


def _say_why_not(before: SchemaDocument, after: SchemaDocument) -> str | None:
    """Why two documents can't be compared at all; None: they can."""
    if before.draft != after.draft:
        return f"$schema is {after.draft} now, and was {before.draft}: versions of two drafts can't be compared"
    if after.draft not in _DRAFTS:
        return f"schemas of {after.draft} can't be compared, so they have to stay the same"
    if word := before.moving_word() or after.moving_word():
        return f"{word} changes what a $ref leads to: documents with it can't be compared, so they have to stay the same"
    return None


class _TooLargeError(Exception):
    """The comparison has more steps than it may have."""


_Applied = tuple[Mapping[str, Any], ...]
"""All parts of the version before that say something of one place of a message."""


class _Comparison:
    """Of two documents, whose `$ref` are resolved within each."""

    def __init__(self, before: SchemaDocument, after: SchemaDocument, *, new_properties: bool) -> None:
        self._before, self._after = before, after
        self._new_properties = new_properties
        self._begun: dict[tuple[str, ...], str] = {}  # a schema may refer to itself; and where in the message each began
        self._steps = 0

    def compare(self, before: Schema, after: Schema, at: str, applied: _Applied) -> list[Break]:
        if after is True or before is False or self._is_same(before, after):
            return []
        if after is False:
            return [Break(at, "it is not allowed any more")]
        pair = self._before.text(before), self._after.text(after), *sorted(map(self._before.text, applied))
        if pair in self._begun:  # not kept beyond its end: what one alternative found must not count for another
            return [] if self._begun[pair] != at else [Break(at, "a $ref leads to itself: it can't be compared")]
        self._steps += 1
        if self._steps > _MOST_COMPARISONS:
            raise _TooLargeError
        self._begun[pair] = at
        try:
            old, new = self._before.resolve(before), self._after.resolve(after)
            if old is None or new is None:
                return [Break(at, "a $ref leads out of the document, or to nothing: it can't be compared")]
            if isinstance(old, bool) or isinstance(new, bool):
                return self.compare({} if old is True else old, new, at, applied)
            found = list(self._list_breaks(old, new, at, applied))
            return [] if found and self._fits_by_parts(old, new, at, applied) else found
        finally:
            del self._begun[pair]

    def _is_same(self, before: object, after: object) -> bool:
        old = self._before.whole_text(before)
        return old is not None and old == self._after.whole_text(after)

    def _fits_by_parts(self, before: Mapping[str, Any], after: Mapping[str, Any], at: str, applied: _Applied) -> bool:
        """Whether one part of allOf alone, or each alternative, allows only what `after` takes."""
        if any(not self.compare(part, after, at, applied) for part in before.get("allOf", ())):
            return True
        return any(
            word in before and all(not self.compare(part, after, at, applied) for part in before[word])
            for word in ("anyOf", "oneOf")
        )

    def _list_breaks(self, before: Mapping[str, Any], after: Mapping[str, Any], at: str, applied: _Applied) -> Iterator[Break]:
        types = _types(before)
        yield from self._compare_others(before, after, at)
        yield from self._compare_combined(before, after, at, applied)
        yield from _compare_types(before, after, at)
        yield from _compare_values(before, after, at)
        for type_, compare in _LIMITS.items():
            if type_ in types:
                yield from compare(before, after, at)
        yield from (
            Break(at, f"{word} is new or another one: {text_of(after[word])}")
            for word, type_ in _SAME.items()
            if type_ in types and after.get(word, False) is not False and after[word] != before.get(word)
        )
        if "array" in types:
            yield from self._compare_items(before, after, at, applied)
        if "object" in types:
            yield from self._compare_objects(before, after, at, applied)

    def _compare_others(self, before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> Iterator[Break]:
        for word in sorted((before.keys() | after.keys()) - _COMPARED - NOTES):
            if not (word in before and word in after and self._is_same({word: before[word]}, {word: after[word]})):
                yield Break(at, f"{word} is another one: it can't be compared, so it has to stay the same")
        for word in _UNEVALUATED:
            if word in after:
                yield Break(
                    at, f"{word} depends on all that stands beside it: it can't be compared, so all of it has to stay the same"
                )

    def _compare_combined(
        self, before: Mapping[str, Any], after: Mapping[str, Any], at: str, applied: _Applied
    ) -> Iterator[Break]:
        for part in after.get("allOf", ()):
            if not any(not self.compare(old, part, at, applied) for old in [*before.get("allOf", ()), _without(before, "allOf")]):
                yield Break(at, "allOf is another one: a part of it may refuse what was taken")
        if "anyOf" in after:
            yield from self._compare_alternatives("anyOf", before, after, at, applied)
        if "oneOf" in after and not self._is_same({"oneOf": before.get("oneOf")}, {"oneOf": after["oneOf"]}):
            if self._are_apart(after["oneOf"]):
                yield from self._compare_alternatives("oneOf", before, after, at, applied)
            else:
                yield Break(at, "oneOf is another one: it can't be compared, so it has to stay the same")

    def _compare_alternatives(
        self, word: str, before: Mapping[str, Any], after: Mapping[str, Any], at: str, applied: _Applied
    ) -> Iterator[Break]:
        alternatives = before.get(word) or [before]
        for number, old in enumerate(alternatives):
            tried = [self.compare(old, new, at, applied) for new in after[word]]
            if all(tried):
                yield Break(at, f"{word} is another one: each alternative may refuse what was taken")
                yield from tried[number] if len(alternatives) == len(tried) else ()

    def _are_apart(self, alternatives: Iterable[Schema]) -> bool:
        """Whether no value is taken by two: each is an object whose required properties share one name, with constants of its own."""
        constants: list[dict[str, set[str]]] = []
        for alternative in alternatives:
            schema = self._after.resolve(alternative)
            if not isinstance(schema, Mapping) or schema.get("type") != "object":
                return False
            named = {
                name: values
                for name in schema.get("required", ())
                if isinstance(part := schema.get("properties", {}).get(name), Mapping) and (values := _values(part)) is not None
            }
            constants.append(named)
        return any(
            all(name in each for each in constants)
            and sum(len(each[name]) for each in constants) == len(set[str]().union(*(each[name] for each in constants)))
            for name in (constants[0] if constants else ())
        )

    def _compare_items(self, before: Mapping[str, Any], after: Mapping[str, Any], at: str, applied: _Applied) -> Iterator[Break]:
        old, new = before.get("items", True), after.get("items", True)
        if isinstance(old, list) or isinstance(new, list):
            if not self._is_same({"items": old}, {"items": new}):
                yield Break(at, "items is another list of schemas: it can't be compared, so it has to stay the same")
            return
        yield from self.compare(old, new, f"{at}/items", self._before.in_place(below_items(applied)))

    def _compare_objects(
        self, before: Mapping[str, Any], after: Mapping[str, Any], at: str, applied: _Applied
    ) -> Iterator[Break]:
        for name in sorted(set(after.get("required", ())) - set(before.get("required", ()))):
            yield Break(f"{at}/{name}", "it is required now, and earlier messages may be without it")
        old, new = before.get("properties", {}), after.get("properties", {})
        old_others, new_others = before.get("additionalProperties", True), after.get("additionalProperties", True)

        def compare(old: Schema, new: Schema, name: str | None) -> list[Break]:
            at_name = f"{at}/{'*' if name is None else name}"
            return self.compare(old, new, at_name, self._before.in_place(below_property(applied, name)))

        for name in old:
            yield from compare(old[name], new.get(name, new_others), name)
        for name in sorted(new.keys() - old.keys()):
            if self._new_properties and not _says_something_of(applied, name):
                continue
            by_pattern = [part for pattern, part in before.get("patternProperties", {}).items() if _matches(pattern, name)]
            tried = [compare(part, new[name], name) for part in by_pattern or [old_others]]
            yield from min(tried, key=len)
        yield from compare(old_others, new_others, None)


def _says_something_of(applied: _Applied, name: str) -> bool:
    """Whether a part of the version before names a property, or limits each one that it does not name."""
    for schema in applied:
        named = {*schema.get("properties", ()), *schema.get("required", ())}
        for word in ("dependentRequired", "dependentSchemas", "dependencies"):
            for other, part in schema.get(word, {}).items():
                named |= {other, *(part if isinstance(part, list) else ())}
        others = schema.get("additionalProperties", True)
        if (
            name in named
            or not (isinstance(others, bool) or others == {})
            or schema.keys() & {"unevaluatedProperties", "propertyNames", "enum", "const"}
            or any(_matches(pattern, name) for pattern in schema.get("patternProperties", ()))
        ):
            return True
    return False


def _matches(pattern: str, name: str) -> bool:
    """As the package jsonschema does; a pattern that Python can't read matches nothing there either: it raises at the first message."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True


def _without(schema: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    return {key: value for key, value in schema.items() if key != word}


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
    of_enum = {text_of(value) for value in schema["enum"]} if "enum" in schema else None
    if "const" not in schema:
        return of_enum
    constant = {text_of(schema["const"])}
    return constant if of_enum is None else constant & of_enum
