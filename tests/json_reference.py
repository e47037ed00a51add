"""docs/json.md, written from the models of the answers and from the OpenAPI document of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from relaybox.documents.answers import ANSWERS
from relaybox.documents.consumers import MessageDocument
from relaybox.documents.document import Document
from relaybox.documents.errors import ErrorDocument

Schema = Mapping[str, Any]

HEAD = """# JSON answers

`make json-reference` writes this page from the models in `relaybox.documents`; a test compares them. The page in Airflow has the schema
of its API at `/relaybox/openapi.json`, and the same as a page at `/relaybox/docs`, for users who are logged in and may see it.

Times are ISO 8601 in UTC. Every member is always there; what is unknown, or has not happened, is `null`.

## Commands

With `--json` a command writes one document to stdout. A command that fails writes [ErrorDocument](#errordocument) instead.
`relaybox consume` writes one [MessageDocument](#messagedocument) a line.
"""


def json_reference(openapi: Schema) -> str:
    """The whole page.

    Args:
        openapi: of the page's API.
    """
    models: list[type[Document]] = [model for answers in ANSWERS.values() for model in answers]
    _, schema = models_json_schema([(model, "serialization") for model in (*models, MessageDocument, ErrorDocument)])
    definitions = {**schema["$defs"], **_answers_only(openapi)}
    return "\n".join([HEAD, *_commands(), "", *_requests(openapi), "", *_documents(definitions)]) + "\n"


def _answers_only(openapi: Schema) -> dict[str, Schema]:
    """Of the components of OpenAPI: documents; bodies of requests are not answers."""
    return {name: schema for name, schema in openapi["components"]["schemas"].items() if not _is_body(openapi, name)}


def _is_body(openapi: Schema, name: str) -> bool:
    bodies = (
        request["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        for methods in openapi["paths"].values()
        for request in methods.values()
        if "requestBody" in request
    )
    return any(body.endswith(f"/{name}") for body in bodies)


def _commands() -> Iterator[str]:
    yield "| command | document |"
    yield "|---|---|"
    for command, models in ANSWERS.items():
        yield f"| `relaybox {command}` | {' or '.join(_link(model.__name__) for model in models)} |"


def _requests(openapi: Schema) -> Iterator[str]:
    yield "## The page's API"
    yield ""
    yield "Below `/relaybox` of Airflow's API server, with Airflow's login. A request that is refused gets a [RefusalDocument](#refusaldocument)."
    yield ""
    yield "| request | answer | document |"
    yield "|---|---|---|"
    for path, methods in openapi["paths"].items():
        for method, request in methods.items():
            answer = next(answer for code, answer in request["responses"].items() if code.startswith("2"))
            model = _name(answer["content"]["application/json"]["schema"])
            yield f"| `{method.upper()} {path}` | {_prose(request.get('description', ''))} | {_link(model)} |"


def _documents(definitions: Mapping[str, Schema]) -> Iterator[str]:
    yield "## Documents"
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
        return _link(_name(schema))
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


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _prose(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
