"""A version of a schema takes each message of the one before it, or it is named where it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from relaybox.contracts.evolution import Schema, list_breaks

FLIGHT = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "maxLength": 8},
        "seats": {"type": "integer", "minimum": 0},
        "state": {"enum": ["planned", "gone"]},
        "crew": {"type": "array", "items": {"$ref": "#/$defs/person"}},
    },
    "required": ["number"],
    "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


def changed(at: str, value: object) -> dict[str, Any]:
    """FLIGHT with another value at a path; None: without it."""

    def change(schema: Any, steps: list[str]) -> Any:
        step, *rest = steps
        inner = dict(schema)
        if rest:
            inner[step] = change(inner.get(step, {}), rest)
        elif value is None:
            inner.pop(step)
        else:
            inner[step] = value
        return inner

    return change(FLIGHT, at.split("."))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("title", "Flight"),
        ("properties.gate", {"type": "string"}),
        ("properties.number.maxLength", 10),
        ("properties.number.maxLength", None),
        ("properties.seats.type", "number"),
        ("properties.seats.minimum", -1),
        ("properties.seats.minimum", None),
        ("properties.state.enum", ["planned", "gone", "cancelled"]),
        ("properties.state", None),
        ("required", []),
        ("$defs.person.required", []),
        ("properties.crew.items", {"type": "object"}),
    ],
)
def test_a_version_may_take_more(at: str, value: object) -> None:
    assert list_breaks(FLIGHT, changed(at, value)) == []


@pytest.mark.parametrize(
    ("at", "value", "told"),
    [
        ("required", ["number", "seats"], "/seats: it is required now, and earlier messages may be without it"),
        ("properties.number.maxLength", 6, "/number: maxLength is 6 now"),
        ("properties.number.minLength", 1, "/number: minLength is 1 now"),
        ("properties.number.pattern", "^[A-Z]", '/number: pattern is new or another one: "^[A-Z]"'),
        ("properties.number.type", "integer", "/number: its type can't be string any more"),
        ("properties.seats.minimum", 1, "/seats: minimum is 1 now"),
        ("properties.seats.exclusiveMinimum", 0, "/seats: exclusiveMinimum is 0 now"),
        ("properties.state.enum", ["planned"], '/state: "gone" is not allowed any more'),
        ("properties.state", False, "/state: it is not allowed any more"),
        ("additionalProperties", False, "/*: it is not allowed any more"),
        ("$defs.person.required", ["name", "age"], "/crew/items/age: it is required now, and earlier messages may be without it"),
        ("$defs.person", None, "/crew/items: a $ref leads out of the document, or to nothing: it can't be compared"),
        ("oneOf", [{}], "the message: oneOf is another one: it can't be compared, so it has to stay the same"),
        ("type", "array", "the message: its type can't be object any more"),
    ],
)
def test_what_a_version_refuses_is_named_with_its_place(at: str, value: object, told: str) -> None:
    assert told in [str(found) for found in list_breaks(FLIGHT, changed(at, value))]


def test_a_schema_that_refers_to_itself_is_compared_once() -> None:
    tree: Schema = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    }
    closed = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"next": False}}}}
    assert list_breaks(tree, tree) == []
    assert [str(found) for found in list_breaks(tree, closed)] == ["/next: it is not allowed any more"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)
NUMBERS = st.integers(-2, 2)
KEYWORDS = {
    "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object", ["string", "null"]]),
    "enum": st.lists(VALUES, min_size=1, max_size=3, unique_by=repr),
    "const": VALUES,
    "minimum": NUMBERS,
    "maximum": NUMBERS,
    "exclusiveMinimum": NUMBERS,
    "exclusiveMaximum": NUMBERS,
    "minLength": st.integers(0, 2),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(0, 2),
    "pattern": st.sampled_from(["a", "b"]),
    "uniqueItems": st.booleans(),
    "required": st.lists(st.sampled_from("ab"), unique=True),
}
SCHEMAS = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional=KEYWORDS),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **KEYWORDS,
            "items": inner,
            # closed: an open one may get new properties, of which nothing was said before
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "additionalProperties": st.just(False) | inner,
        },
    ),
    max_leaves=4,
)


@given(before=SCHEMAS, after=SCHEMAS, value=VALUES)
def test_a_version_without_a_break_takes_what_the_one_before_took(before: Any, after: Any, value: Any) -> None:
    """By a validator that others wrote."""
    if not list_breaks(before, after) and Draft202012Validator(before).is_valid(value):
        assume(not names_new_properties(before, after))
        assert Draft202012Validator(after).is_valid(value), (before, after, value)


def names_new_properties(before: Any, after: Any) -> bool:
    """Whether `after` says of a property, at any depth, what an open `before` did not."""
    if not isinstance(after, dict):
        return False
    before = before if isinstance(before, dict) else {}
    old, new = before.get("properties", {}), after.get("properties", {})
    is_open = before.get("additionalProperties", True) is True
    return (
        (is_open and bool(new.keys() - old.keys()))
        or any(names_new_properties(old[name], new.get(name, after.get("additionalProperties", True))) for name in old)
        or names_new_properties(before.get("items"), after.get("items"))
        or any(names_new_properties(before.get("additionalProperties", True), each) for each in new.values())
        or names_new_properties(before.get("additionalProperties", True), after.get("additionalProperties", True))
    )
