"""One JSON Schema as statements of PL/pgSQL, which leave in a variable what is wrong with a payload."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaybox.contracts.schema_documents import Schema, SchemaDocument
from relaybox.contracts.sql_patterns import UntranslatablePattern, translate_pattern
from relaybox.errors import ConfigurationError
from relaybox.exact_json import write_json

MOST_CHARACTERS = 1024 * 1024
"""Of one function."""

_DIALECTS = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")
_IGNORED = frozenset({
    "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "discriminator", "examples",
    "format", "readOnly", "title", "writeOnly",
})  # fmt: skip


def compile_schema(topic: str, version: int, document: Schema) -> str:
    """Returns statements that set problem_0 to what the schema says against value_0, a jsonb, or to null.

    Args:
        topic: of the schema, for the errors.
        version: as topic.
        document: the schema.

    Raises:
        ConfigurationError: a keyword can't be checked in SQL; the message names topic, version and place.
    """
    return "\n".join(_Compiler(topic, version, document).compile())


def literal(text: str) -> str:
    """A text as SQL writes it, whatever standard_conforming_strings is; `$` can't end the body around it."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("$", "\\x24")
    return f"e'{escaped}'"


@dataclass(frozen=True)
class _Target:
    """The variables of PL/pgSQL that have a part of the payload, its place in the payload, and what is wrong with it."""

    value: str
    at: str
    problem: str


@dataclass(frozen=True)
class _Spot:
    """Where a keyword is checked: the variables, the block to leave, the place in the document, and the $ref that led there."""

    target: _Target
    label: str
    place: str
    refs: tuple[str, ...]

    @property
    def value(self) -> str:
        return self.target.value

    @property
    def at(self) -> str:
        return self.target.at

    @property
    def problem(self) -> str:
        return self.target.problem

    def unless(self, condition: str, told: str, *, step: str | None = None) -> list[str]:
        """Leaves the block with a problem unless the condition is true."""
        at = self.at if step is None else _deeper(self.at, step)
        return [f"if ({condition}) is not true then {self.problem} := {_told(at, told)}; exit {self.label}; end if;"]


class _Compiler:
    """Of one document. Each part of it becomes a block that leaves its problem in a variable, null if there is none."""

    def __init__(self, topic: str, version: int, document: Schema) -> None:
        self._topic, self._version, self._root = topic, version, document
        self._count, self._characters = 0, 0
        self._is_draft_7 = isinstance(document, Mapping) and "draft-07" in str(document.get("$schema", ""))

    def compile(self) -> list[str]:
        dialect = self._root.get("$schema", _DIALECTS[0]) if isinstance(self._root, Mapping) else _DIALECTS[0]
        if str(dialect).rstrip("#") not in _DIALECTS:
            raise self._refused("/$schema", f"got {dialect}; expected {' or '.join(_DIALECTS)}")
        return self._block(self._root, _Target("value_0", "at_0", "problem_0"), "", ())

    def _refused(self, place: str, reason: str) -> ConfigurationError:
        return ConfigurationError(
            f"topic {self._topic}, schema version {self._version}: {place or 'the document'}: {reason}.",
            next_step="Postgres can't check this schema: docs/contracts.md lists the keywords that it can. Check it in the producers.",
        )

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _block(self, schema: Schema, target: _Target, place: str, refs: tuple[str, ...]) -> list[str]:
        """Statements that set the problem to what the schema says against the value, or to null."""
        if not isinstance(schema, Mapping) or not schema:
            return [f"{target.problem} := {_told(target.at, 'nothing is allowed here') if schema is False else 'null'};"]
        label = f"block_{self._number()}"
        lines = [f"<<{label}>> begin", f"{target.problem} := null;"]
        for keyword, argument in schema.items():
            where = f"{place}/{_step(keyword)}"
            if keyword in _IGNORED and (keyword != "$id" or not place):  # below the root it is where a $ref begins
                continue
            compile_ = _KEYWORDS.get(keyword)
            if compile_ is None:
                raise self._refused(where, "this keyword can't be checked in SQL")
            if self._is_draft_7 and "$ref" in schema and keyword != "$ref":
                raise self._refused(where, "it stands beside $ref, where draft-07 ignores it")
            lines += compile_(self, schema, argument, _Spot(target, label, where, refs))
        lines.append(f"end {label};")
        self._characters += sum(map(len, lines))
        if self._characters > 20 * MOST_CHARACTERS:
            raise self._refused(place, "its $ref lead to too many copies of one schema")
        return lines

    def type_(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        types = [argument] if isinstance(argument, str) else list(argument)
        plain = [name for name in types if name != "integer"]
        conditions = [f"jsonb_typeof({spot.value}) = any(array[{', '.join(map(literal, plain))}]::text[])"] if plain else []
        if "integer" in types and "number" not in types:
            conditions.append(
                f"case when jsonb_typeof({spot.value}) = 'number' then {_numeric(spot.value)} % 1 = 0 else false end"
            )
        return spot.unless(" or ".join(conditions), f"its type is not {' or '.join(types)}")

    def enum(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        values = ", ".join(f"{_json(value)}" for value in argument)
        shown = ", ".join(write_json(value) for value in argument)
        return spot.unless(f"{spot.value} = any(array[{values}]::jsonb[])", f"it is none of {_short(shown)}")

    def const(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        return spot.unless(f"{spot.value} = {_json(argument)}", f"it is not {_short(write_json(argument))}")

    def required(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        lines = [
            line for name in argument for line in spot.unless(f"{spot.value} ? {literal(name)}", "it is required", step=name)
        ]
        return _if_type(spot.value, "object", lines)

    def properties(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        lines: list[str] = []
        for name, schema in argument.items():
            inner = self._inner(schema, f"{spot.value} -> {literal(name)}", _deeper(spot.at, name), spot, f"/{_step(name)}")
            lines += [f"if {spot.value} ? {literal(name)} then", *inner, "end if;"]
        return _if_type(spot.value, "object", lines)

    def additional_properties(self, schema: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        known = ", ".join(literal(name) for name in schema.get("properties", {}))
        members = f"select m.key, m.value from jsonb_each({spot.value}) m where m.key <> all(array[{known}]::text[])"  # noqa: S608
        return self._each(argument, spot, "object", members)

    def items(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        if isinstance(argument, list):
            raise self._refused(spot.place, "a list of schemas can't be checked in SQL")
        elements = f"select e.place - 1 as key, e.value from jsonb_array_elements({spot.value}) with ordinality e (value, place)"  # noqa: S608
        return self._each(argument, spot, "array", elements)

    def _each(self, schema: Any, spot: _Spot, type_: str, parts: str) -> list[str]:
        """The schema for each of some members of an object, or for each element of a list."""
        one = f"one_{self._number()}"
        inner = self._inner(schema, f"{one}.value", f"{spot.at} || '/' || {one}.key", spot, "")
        return _if_type(
            spot.value, type_, [f"declare {one} record; begin", f"for {one} in {parts} loop", *inner, "end loop;", "end;"]
        )

    def _inner(self, schema: Any, value: str, at: str, spot: _Spot, step: str) -> list[str]:
        """The check of a part of the value; its problem is the problem of the whole."""
        number = self._number()
        names = f"value_{number}", f"at_{number}"
        return [
            f"declare {names[0]} jsonb := {value}; {names[1]} text := {at}; begin",
            *self._block(schema, _Target(*names, spot.problem), spot.place + step, spot.refs),
            f"if {spot.problem} is not null then exit {spot.label}; end if;",
            "end;",
        ]

    def all_of(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        return [
            line
            for number, schema in enumerate(argument)
            for line in self._inner(schema, spot.value, spot.at, spot, f"/{number}")
        ]

    def any_of(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        return self._count_matches(argument, spot, "= 0", "none of the schemas of anyOf takes it")

    def one_of(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        return self._count_matches(argument, spot, "<> 1", "not exactly one of the schemas of oneOf takes it")

    def not_(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        return self._count_matches([argument], spot, "> 0", "the schema of not takes it", is_list=False)

    def _count_matches(self, schemas: Any, spot: _Spot, condition: str, told: str, *, is_list: bool = True) -> list[str]:
        number = self._number()
        lines = [f"declare count_{number} integer := 0; tried_{number} text; begin"]
        for place, schema in enumerate(schemas):
            step = f"/{place}" if is_list else ""
            lines += self._block(schema, _Target(spot.value, spot.at, f"tried_{number}"), spot.place + step, spot.refs)
            lines.append(f"count_{number} := count_{number} + (tried_{number} is null)::integer;")
        return [*lines, *spot.unless(f"not (count_{number} {condition})", told), "end;"]

    def ref(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        if argument in spot.refs:
            raise self._refused(spot.place, f"{argument} leads to itself")
        if not argument.startswith("#/"):
            raise self._refused(spot.place, f"{argument} does not lead to a part of the document")
        found = SchemaDocument(self._root).find(argument)
        if not isinstance(found, bool | Mapping):
            raise self._refused(spot.place, f"{argument} leads to nothing")
        return [
            *self._block(found, spot.target, argument[1:], (*spot.refs, argument)),
            f"if {spot.problem} is not null then exit {spot.label}; end if;",
        ]

    def pattern(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        try:
            translated = translate_pattern(argument)
        except UntranslatablePattern as error:
            raise self._refused(spot.place, str(error)) from None
        found = f"({spot.value} #>> '{{}}') collate \"C\" ~ {literal(translated)}"
        return _if_type(spot.value, "string", spot.unless(found, f"it does not match {argument}"))

    def unique_items(self, _: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        if not argument:
            return []
        counted = f"(select count(*) = count(distinct e.value) from jsonb_array_elements({spot.value}) e (value))"  # noqa: S608
        return _if_type(spot.value, "array", spot.unless(counted, "it has an element twice"))


def _limit(type_: str, measured: str, operator: str, told: str) -> Any:
    """A keyword that compares a number of the value: itself, a length or a count."""

    def compile_(_: _Compiler, __: Mapping[str, Any], argument: Any, spot: _Spot) -> list[str]:
        number = write_json(argument)
        condition = f"{measured.format(value=spot.value)} {operator} {literal(number)}::numeric"
        return _if_type(spot.value, type_, spot.unless(condition, f"{told} {number}"))

    return compile_


_VALUE = "({value} #>> '{{}}')::numeric"
_KEYWORDS: dict[str, Any] = {
    "type": _Compiler.type_,
    "enum": _Compiler.enum,
    "const": _Compiler.const,
    "$ref": _Compiler.ref,
    "required": _Compiler.required,
    "properties": _Compiler.properties,
    "additionalProperties": _Compiler.additional_properties,
    "items": _Compiler.items,
    "uniqueItems": _Compiler.unique_items,
    "pattern": _Compiler.pattern,
    "allOf": _Compiler.all_of,
    "anyOf": _Compiler.any_of,
    "oneOf": _Compiler.one_of,
    "not": _Compiler.not_,
    "minimum": _limit("number", _VALUE, ">=", "it is less than the minimum of"),
    "maximum": _limit("number", _VALUE, "<=", "it is greater than the maximum of"),
    "exclusiveMinimum": _limit("number", _VALUE, ">", "it is not greater than"),
    "exclusiveMaximum": _limit("number", _VALUE, "<", "it is not less than"),
    "minLength": _limit("string", "length({value} #>> '{{}}')", ">=", "it has fewer characters than"),
    "maxLength": _limit("string", "length({value} #>> '{{}}')", "<=", "it has more characters than"),
    "minItems": _limit("array", "jsonb_array_length({value})", ">=", "it has fewer elements than"),
    "maxItems": _limit("array", "jsonb_array_length({value})", "<=", "it has more elements than"),
    "minProperties": _limit("object", "(select count(*) from jsonb_object_keys({value}))", ">=", "it has fewer members than"),
    "maxProperties": _limit("object", "(select count(*) from jsonb_object_keys({value}))", "<=", "it has more members than"),
}


def _if_type(value: str, type_: str, lines: list[str]) -> list[str]:
    return [f"if jsonb_typeof({value}) = '{type_}' then", *lines, "end if;"] if lines else []


def _numeric(value: str) -> str:
    return f"({value} #>> '{{}}')::numeric"


def _told(at: str, told: str) -> str:
    return f"coalesce(nullif({at}, ''), 'the payload') || {literal(f': {told}')}"


def _deeper(at: str, name: str) -> str:
    return f"{at} || {literal(f'/{name}')}"


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _json(value: Any) -> str:
    return f"{literal(json.dumps(value))}::jsonb"
