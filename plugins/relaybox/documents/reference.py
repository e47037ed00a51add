"""The schemas of JSON answers as Markdown, for docs/json.md and for the page of the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from relaybox.documents.document import Document

Schema = Mapping[str, Any]


def definitions_of(models: Iterable[type[Document]]) -> Mapping[str, Schema]:
    """The JSON schemas of these documents and of all that they hold, by name."""
    _, schema = models_json_schema([(model, "serialization") for model in models])
    return dict(schema["$defs"])


def link_to(name: str) -> str:
    """A link to the heading of a document."""
    return f"[{name}](#{name.lower()})"


def describe_requests(openapi: Schema) -> Iterator[str]:
    """A table of the requests of an API."""
    yield "| request | does | parameters | body | answer |"
    yield "|---|---|---|---|---|"
    for path, methods in openapi["paths"].items():
        for method, request in methods.items():
            given = ", ".join(f"`{one['name']}`" for one in request.get("parameters", ()) if one["in"] == "query")
            body, answer = _body(request.get("requestBody")), _body(_success(request["responses"]))
            yield f"| `{method.upper()} {path}` | {_prose(request.get('description', ''))} | {given} | {body} | {answer} |"


def _success(responses: Mapping[str, Schema]) -> Schema:
    return next(answer for code, answer in responses.items() if code.startswith("2"))


def _body(of: Schema | None) -> str:
    return "" if of is None else _type(of["content"]["application/json"]["schema"])


def describe_documents(definitions: Mapping[str, Schema]) -> Iterator[str]:
    """A section for each document, with its members."""
    for name, schema in sorted(definitions.items()):
        yield ""
        yield f"### {name}"
        yield ""
        yield _prose(schema.get("description", ""))
        if "enum" in schema:
            yield ""
            yield f"One of {_type(schema)}."
        elif schema.get("properties"):
            yield ""
            yield "| member | type | meaning |"
            yield "|---|---|---|"
            for member, its in schema["properties"].items():
                yield f"| `{member}` | {_type(its)} | {_prose(its.get('description', ''))} |"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return link_to(_name(schema))
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema['items'])}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, Mapping) else "object"
    return {"date-time": "time", "uuid": "uuid"}.get(schema.get("format", ""), kind or "any")


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
