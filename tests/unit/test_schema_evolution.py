"""A version of a schema takes each message of the one before it, or it is named where it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for

from relaybox.contracts.evolution import list_breaks
from relaybox.contracts.schema_documents import Schema

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

    return dict(change(FLIGHT, at.split(".")))


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


DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
PERSON: dict[str, Any] = {"type": "object", "properties": {"name": {"type": ["integer", "string"]}}}
CAT = {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]}
DOG = {"type": "object", "properties": {"kind": {"const": "dog"}}, "required": ["kind"]}


def crew(model: object, also: object = None) -> dict[str, Any]:
    """As pydantic writes `captain: Model | None = None`."""
    alternatives = [{"$ref": "#/$defs/Model"}, {"type": "null"}, *([also] if also else [])]
    return {"type": "object", "properties": {"captain": {"anyOf": alternatives, "default": None}}, "$defs": {"Model": model}}


def pets(*models: dict[str, Any]) -> dict[str, Any]:
    """As pydantic writes a union with a discriminator."""
    return {
        "discriminator": {"propertyName": "kind", "mapping": {model["properties"]["kind"]["const"]: "" for model in models}},
        "oneOf": [{"$ref": f"#/$defs/{number}"} for number in range(len(models))],
        "$defs": {str(number): model for number, model in enumerate(models)},
    }


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param(
            {"allOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {"type": "object"}}},
            {"allOf": [{"$ref": "#/$defs/b"}], "$defs": {"b": {"type": "object", "required": ["seats"]}}},
            {"number": 1},
            id="a definition behind allOf",
        ),
        pytest.param(
            crew(PERSON), crew({**PERSON, "required": ["age"]}), {"captain": {"name": "old"}}, id="a model that may be null"
        ),
        pytest.param(
            {"prefixItems": [{"$ref": "#/$defs/i"}], "$defs": {"i": {}}},
            {"prefixItems": [{"$ref": "#/$defs/i"}], "$defs": {"i": {"type": "string"}}},
            [1],
            id="a definition behind prefixItems",
        ),
        pytest.param(
            {"not": {"$ref": "#/$defs/i"}, "$defs": {"i": {"$ref": "#/$defs/j"}, "j": {"type": "null"}}},
            {"not": {"$ref": "#/$defs/i"}, "$defs": {"i": {"$ref": "#/$defs/j"}, "j": {"type": "integer"}}},
            1,
            id="a definition behind a definition",
        ),
        pytest.param(
            {"$schema": DRAFT_7, "items": [{"type": "integer"}]},
            {"$schema": DRAFT_7, "items": [{"type": "string"}]},
            [1],
            id="a list of items",
        ),
        pytest.param(
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"unevaluatedProperties": False},
            {"a": 1},
            id="unevaluatedProperties",
        ),
        pytest.param(
            {"patternProperties": {"^a": {"type": "integer"}}},
            {"patternProperties": {"^a": {"type": "integer"}}, "properties": {"a1": {"type": "string"}}},
            {"a1": 5},
            id="a new property that a pattern named",
        ),
        pytest.param({"const": 1}, {"const": 1, "enum": [2]}, 1, id="an enum without the constant"),
        pytest.param(
            {"const": 1, "enum": [1.0]}, {"const": 2, "enum": [1.0, 2]}, 1, id="a constant that is written as another number"
        ),
        pytest.param(
            {"dependencies": {"a": ["b"]}}, {"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": 1}, id="another draft"
        ),
        pytest.param(
            {"$schema": DRAFT_4, "minimum": 1},
            {"$schema": DRAFT_4, "minimum": 1, "exclusiveMinimum": True},
            1,
            id="a draft that can't be compared",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": {"type": "string"}}}]},
            {"allOf": [{"properties": {"a": {"type": "string"}}}], "properties": {"a": {"type": "integer"}}},
            {"a": "x"},
            id="a new property that allOf named",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": {"properties": {"b": {}}}}}], "properties": {"a": {}}},
            {
                "allOf": [{"properties": {"a": {"properties": {"b": {}}}}}],
                "properties": {"a": {"properties": {"b": {"type": "null"}}}},
            },
            {"a": {"b": 1}},
            id="a new property that allOf named further in",
        ),
        pytest.param(
            {"required": ["a"]},
            {"required": ["a"], "properties": {"a": {"type": "integer"}}},
            {"a": "x"},
            id="a new property that was required",
        ),
        pytest.param(
            {"$defs": {"x": {"$id": "https://x.example/x", "$ref": "#/$defs/y", "$defs": {"y": {}}}}, "$ref": "#/$defs/x"},
            {
                "$defs": {"x": {"$id": "https://x.example/x", "$ref": "#/$defs/y", "$defs": {"y": False}}, "y": {}},
                "$ref": "#/$defs/x",
            },
            1,
            id="a definition with an address of its own",
        ),
        pytest.param(
            {"$dynamicRef": "#d", "$defs": {"d": {"$dynamicAnchor": "d"}}},
            {"$dynamicRef": "#d", "$defs": {"d": {"$dynamicAnchor": "d", "type": "null"}}},
            1,
            id="$dynamicRef",
        ),
        pytest.param(
            {"$ref": "#/$defs/a%20b", "$defs": {"a b": {}, "a%20b": False}},
            {"$ref": "#/$defs/a%20b", "$defs": {"a b": False, "a%20b": {}}},
            1,
            id="a $ref with an escaped name",
        ),
        pytest.param(
            {"oneOf": [CAT, {"type": "integer"}]},
            {"oneOf": [CAT, {"type": "integer"}, {"type": "number"}]},
            1,
            id="an alternative of oneOf that is not apart",
        ),
        pytest.param(
            {"$schema": DRAFT_7, "$ref": "#/definitions/a", "definitions": {"a": {}}, "type": "integer"},
            {"$schema": DRAFT_7, "$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}},
            "x",
            id="what draft-07 ignores beside a $ref",
        ),
    ],
)
def test_a_message_that_the_version_after_refuses_is_told(before: Any, after: Any, refused: Any) -> None:
    """The validator of others takes it before, and refuses it afterwards."""
    assert takes(before, refused)
    assert not takes(after, refused)
    assert list_breaks(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(crew(PERSON), {**crew(PERSON), "title": "Flight"}, id="a note beside a model that may be null"),
        pytest.param(crew(PERSON), crew({**PERSON, "description": "of the crew"}), id="a note in a model that may be null"),
        pytest.param(
            crew(PERSON),
            crew({**PERSON, "properties": {**PERSON["properties"], "age": {"type": "integer"}}}),
            id="a new property of a model that may be null",
        ),
        pytest.param(crew(PERSON), crew(PERSON, {"type": "string"}), id="one more alternative"),
        pytest.param(
            {"properties": {"a": {"type": "integer"}}},
            {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
            id="it may be null now",
        ),
        pytest.param(
            {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
            {"properties": {"a": {}}},
            id="it may be any",
        ),
        pytest.param(
            crew({"enum": ["a"], "type": "string"}), crew({"enum": ["a", "b"], "type": "string"}), id="an enum that may be null"
        ),
        pytest.param(pets(CAT), pets(CAT, DOG), id="one more model of a union with a discriminator"),
        pytest.param(
            pets(CAT, DOG),
            pets({**CAT, "properties": {"kind": {"const": "cat"}, "name": {"type": "string"}}}, DOG),
            id="a new property in a union with a discriminator",
        ),
        pytest.param(
            {"allOf": [{"$ref": "#/$defs/p"}], "$defs": {"p": PERSON}},
            {"allOf": [{"$ref": "#/$defs/p"}], "$defs": {"p": PERSON}, "properties": {"age": {"type": "integer"}}},
            id="a new property beside allOf",
        ),
        pytest.param(
            {"properties": {"a": {"$ref": "#/$defs/p", "minProperties": 1}}, "$defs": {"p": PERSON}},
            {"properties": {"a": {"$ref": "#/$defs/p", "minProperties": 1}, "b": {}}, "$defs": {"p": PERSON}},
            id="beside a $ref stands the same",
        ),
        pytest.param(
            {"patternProperties": {"^a": {"type": "integer"}}},
            {"patternProperties": {"^a": {"type": "integer"}}, "properties": {"b": {"type": "string"}}},
            id="a new property that no pattern named",
        ),
        pytest.param({"$schema": DRAFT_7}, {"$schema": DRAFT_7.rstrip("#"), "title": "x"}, id="one draft in two ways"),
        pytest.param(
            {"type": "object"}, {"type": "object", "$schema": Draft202012Validator.META_SCHEMA["$id"]}, id="the usual draft"
        ),
        pytest.param(
            {"$schema": DRAFT_4, "id": "x", "type": "object"},
            {"type": "object", "id": "x", "$schema": DRAFT_4},
            id="the same of another draft",
        ),
    ],
)
def test_what_a_version_usually_adds_is_no_break(before: Any, after: Any) -> None:
    assert [str(found) for found in list_breaks(before, after)] == []


def test_a_break_in_a_model_that_may_be_null_names_its_place() -> None:
    told = [str(found) for found in list_breaks(crew(PERSON), crew({**PERSON, "required": ["age"]}))]
    assert "/captain/age: it is required now, and earlier messages may be without it" in told


def test_alternatives_in_each_other_end_with_a_break() -> None:
    """By a limit of steps, not by hours: six levels have 32 ** 6 pairs, and short texts, which are compared first."""

    def nested(depth: int, last: object) -> Any:
        return {"anyOf": [{"items": nested(depth - 1, last)}] * 4} if depth else last

    assert "too many alternatives" in str(list_breaks(nested(6, {"type": "integer"}), nested(6, {"type": "string"}))[0])


def test_a_ref_that_leads_to_itself_is_a_break() -> None:
    """A validator never ends with it."""
    assert list_breaks({}, {"anyOf": [{"type": "string"}, {"$ref": "#"}]})


def test_a_ref_to_what_is_no_schema_is_a_break() -> None:
    """Draft-07 does not know `$defs`, so its meta-schema lets anything stand there."""
    before: dict[str, Any] = {"$schema": DRAFT_7, "items": {"$ref": "#/$defs/d"}, "$defs": {"d": {"properties": {}}}}
    after = {**before, "$defs": {"d": {"properties": False}}}
    assert "no JSON Schema" in str(list_breaks(before, after)[0])


def takes(schema: Any, value: Any) -> bool:
    return bool(validator_for(schema, Draft202012Validator)(schema).is_valid(value))


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


REFERRING = st.recursive(
    st.booleans()
    | st.sampled_from([{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/d"}])
    | st.fixed_dictionaries({}, optional=KEYWORDS),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": KEYWORDS["type"],
            "const": KEYWORDS["const"],
            "enum": KEYWORDS["enum"],
            "required": KEYWORDS["required"],
            "$ref": st.sampled_from(["#/$defs/c", "#/$defs/d"]),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b$", ""]), inner, max_size=1),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
            "propertyNames": inner,
            "dependentSchemas": st.dictionaries(st.sampled_from("ab"), inner, max_size=1),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    ),
    max_leaves=6,
)


def spots(part: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all schemas in a schema, and of some that are none."""
    steps = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    inner = [
        found for step, each in steps for found in spots(each, (*path, step)) if step not in ("type", "required", "enum", "const")
    ]
    return [path, *inner] if isinstance(part, dict | bool) else inner


def replaced(part: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = part.copy()
    copy[path[0]] = replaced(part[path[0]], path[1:], value)
    return copy


@st.composite
def pairs_of_versions(draw: st.DrawFn) -> tuple[Any, Any]:
    """A schema, and the same one with one part of it exchanged, with a keyword more, or with one less."""
    before: Any = {
        "allOf": [draw(REFERRING)],
        "$defs": {"c": draw(REFERRING), "d": draw(REFERRING)},
        "$schema": draw(st.sampled_from([DRAFT_7, Draft202012Validator.META_SCHEMA["$id"]])),
    }
    if draw(st.booleans()):
        before |= before.pop("allOf")[0] if isinstance(before["allOf"][0], dict) else {}
    path = draw(st.sampled_from([path for path in spots(before) if path and path not in (("$defs",), ("properties",))] or [()]))
    part = before
    for step in path:
        part = part[step]
    other = draw(REFERRING)
    if isinstance(part, dict) and isinstance(other, dict) and draw(st.booleans()):
        other = {**part, **other}
        for word in draw(st.sets(st.sampled_from(sorted(other)))) if other else ():
            del other[word]
    return before, replaced(before, path, other)


@settings(max_examples=400, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(pair=pairs_of_versions(), values=st.lists(VALUES, min_size=5, max_size=20))
def test_no_message_is_refused_where_no_break_was_told(pair: tuple[Any, Any], values: list[Any]) -> None:
    """Also of schemas that refer to parts of themselves, by a validator that others wrote."""
    before, after = pair
    kind = validator_for(before)
    assume(all(is_schema(document) and all(ends(document, document["$defs"].get(name)) for name in "cd") for document in pair))
    if list_breaks(before, after, new_properties=False):
        return
    for value in values:
        if kind(before).is_valid(value):
            assert kind(after).is_valid(value), (before, after, value)


def ends(document: Any, part: Any, path: tuple[str, ...] = ()) -> bool:
    """Whether no `$ref` below a part leads to itself for the same value: a validator would not end."""
    if isinstance(part, list):
        return all(ends(document, each, path) for each in part)
    if not isinstance(part, dict):
        return True
    reference = part.get("$ref")
    inner = [part.get(word) for word in ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")]
    dependent = part.get("dependentSchemas")
    inner += dependent.values() if isinstance(dependent, dict) else ()
    if reference is not None:
        if reference in path:
            return False
        inner.append({"then": document["$defs"].get(reference[-1])})
    return all(ends(document, each, (*path, reference) if reference and each is inner[-1] else path) for each in inner)


def is_schema(document: Any) -> bool:
    kind = validator_for(document)
    parts = [document, *document["$defs"].values()]  # draft-07 does not know $defs
    return all(kind(kind.META_SCHEMA).is_valid(part) for part in parts)
