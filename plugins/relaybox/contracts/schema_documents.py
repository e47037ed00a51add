"""One JSON Schema as a document: its draft, what its `$ref` lead to, and which of its parts say something of one place of a message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

Schema = bool | Mapping[str, Any]

NOTES = frozenset({
    "$anchor", "$comment", "$defs", "$id", "$schema", "default", "definitions", "deprecated", "description", "discriminator", "examples",
    "format", "readOnly", "title", "writeOnly",
})  # fmt: skip
"""Keywords that refuse no value."""

_USUAL_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFS_STAND_ALONE = ("http://json-schema.org/draft-07/schema", "http://json-schema.org/draft-06/schema")
"""Drafts that ignore what stands beside a `$ref`."""

_MOVING = frozenset({"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"})
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_SCHEMAS = frozenset({
    "additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not", "oneOf", "prefixItems",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
"""Keywords with a schema, or a list of schemas."""


class SchemaDocument:
    """A JSON Schema whose parts refer to each other.

    Attributes:
        root: the whole schema.
        draft: its `$schema`, without `#` at the end; 2020-12 if it has none, as for `TopicSchemas`.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.draft = str(root.get("$schema", _USUAL_DRAFT)).rstrip("#") if isinstance(root, Mapping) else _USUAL_DRAFT
        self._texts: dict[int, tuple[object, str]] = {}  # with the part: as long as it is held, no other one has its id
        self._whole_texts: dict[int, tuple[object, str | None]] = {}

    def moving_word(self) -> str | None:
        """A keyword by which a `$ref` leads elsewhere than its text says; None: it has none."""
        return next(_moving_words(self.root, is_root=True), None)

    def resolve(self, schema: Schema) -> Schema | None:
        """The schema that `$ref` lead to, with what stands beside them as a part of `allOf`; None: one leads nowhere."""
        seen = 0
        while isinstance(schema, Mapping) and "$ref" in schema:
            seen += 1
            beside = {word: value for word, value in schema.items() if word != "$ref" and word not in NOTES}
            if beside and self.draft not in _REFS_STAND_ALONE:
                return {**beside, "allOf": [*beside.get("allOf", ()), {"$ref": schema["$ref"]}]}
            found = self.find(schema["$ref"])
            if seen > 100 or not isinstance(found, bool | Mapping):
                return None
            schema = found
        return schema

    def text(self, part: object) -> str:
        """`text_of` a part, written once."""
        if id(part) not in self._texts:
            self._texts[id(part)] = part, text_of(part)
        return self._texts[id(part)][1]

    def whole_text(self, part: object) -> str | None:
        """A text of the part and of all that its `$ref` lead to, without notes; None: a `$ref` leads nowhere.

        Two parts of documents of one draft that have the same text take the same values.
        """
        if id(part) not in self._whole_texts:
            self._whole_texts[id(part)] = part, self._write_whole_text(part)
        return self._whole_texts[id(part)][1]

    def _write_whole_text(self, part: object) -> str | None:
        texts: dict[object, Any] = {}
        waiting = [_without_notes(part)]
        first = waiting[0]
        while waiting:
            for reference in _references(waiting.pop()):
                if reference in texts:
                    continue
                found = self.find(reference)
                if not isinstance(found, bool | Mapping):
                    return None
                texts[reference] = _without_notes(found)
                waiting.append(texts[reference])
        return text_of([first, texts])

    def in_place(self, schemas: Iterable[object]) -> tuple[Mapping[str, Any], ...]:
        """All parts that say something of the same value as one of the schemas does, each once."""
        found: dict[int, Mapping[str, Any]] = {}
        waiting = list(schemas)
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping) or id(schema) in found:
                continue
            found[id(schema)] = schema
            for word in ("allOf", "anyOf", "oneOf"):
                waiting += schema.get(word, ())
            waiting += [schema.get(word) for word in ("not", "if", "then", "else")]
            for word in ("dependentSchemas", "dependencies"):
                waiting += schema.get(word, {}).values()
            if "$ref" in schema:
                waiting.append(self.find(schema["$ref"]))
        return tuple(found.values())

    def find(self, reference: object) -> Any:
        """What a `$ref` leads to within the document; None: nothing."""
        if reference == "#":
            return self.root
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        found: Any = self.root
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found


def below_property(schemas: Iterable[Mapping[str, Any]], name: str | None) -> Iterator[object]:
    """All that the schemas say of the value of a property; None: of those that one of them does not name."""
    for schema in schemas:
        properties = schema.get("properties", {})
        yield from properties.values() if name is None else [properties[name]] if name in properties else ()
        yield from schema.get("patternProperties", {}).values()
        yield from (schema.get(word) for word in ("additionalProperties", "unevaluatedProperties"))


def below_items(schemas: Iterable[Mapping[str, Any]]) -> Iterator[object]:
    """All that the schemas say of an element of a list."""
    for schema in schemas:
        items = schema.get("items")
        yield from items if isinstance(items, list) else [items]
        yield from schema.get("prefixItems", ())
        yield from (schema.get(word) for word in ("additionalItems", "contains", "unevaluatedItems"))


def text_of(value: object) -> str:
    """One text for values that JSON Schema takes as equal, as 1 and 1.0, and different ones for others, as 1 and true."""
    return json.dumps(_with_whole_numbers(value), sort_keys=True)


def _with_whole_numbers(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    return {name: _with_whole_numbers(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _without_notes(schema: object) -> object:
    if isinstance(schema, list):
        return [_without_notes(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {word: _argument_without_notes(word, value) for word, value in schema.items() if word not in NOTES}


def _argument_without_notes(word: str, value: object) -> object:
    if word in _SCHEMA_MAPS and isinstance(value, Mapping):
        return {name: _without_notes(each) for name, each in value.items()}
    return _without_notes(value) if word in _SCHEMAS else value


def _references(part: object) -> Iterator[object]:
    """Each `$ref`, wherever it stands; a constant that looks like one counts too."""
    if isinstance(part, list):
        for each in part:
            yield from _references(each)
    elif isinstance(part, Mapping):
        for word, value in part.items():
            if word == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from _references(value)


def _moving_words(part: object, *, is_root: bool = False) -> Iterator[str]:
    if isinstance(part, list):
        for each in part:
            yield from _moving_words(each)
    elif isinstance(part, Mapping):
        for word, value in part.items():
            if word in _MOVING or (word in ("$id", "$schema") and isinstance(value, str) and not is_root):
                yield f"{word} below the top" if word in ("$id", "$schema") else word
            yield from _moving_words(value)
