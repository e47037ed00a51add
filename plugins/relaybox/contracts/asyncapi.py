"""The AsyncAPI 3.0 document of a relaybox.yaml: which topics there are, where they are sent and read, and what their messages hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relaybox.contracts.sql_check import check_function
from relaybox.contracts.topic_schemas import VERSION_HEADER
from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from relaybox.contracts.topic_schemas import TopicSchemas
    from relaybox.routes import Route, Routes

ASYNCAPI = "3.0.0"
_FORMATS = {
    "http://json-schema.org/draft-07/schema#": "application/schema+json;version=draft-07",
    "http://json-schema.org/draft-07/schema": "application/schema+json;version=draft-07",
}
_DEFAULT_FORMAT = "application/schema+json;version=2020-12"


def build_asyncapi(routes: Routes, schemas: TopicSchemas, *, title: str, version: str) -> dict[str, Any]:
    """Builds the document. Connects to nothing; names no host: a server is the libpq service of a store.

    Args:
        routes: of relaybox.yaml.
        schemas: of its topics; a topic without schemas takes every payload.
        title: of the document.
        version: of the document, not of Relaybox.
    """
    topics = {topic: [route for route in routes.routes.values() if topic in route.topics] for topic in _topics(routes)}
    messages = {topic: _messages(topic, schemas) for topic in topics}
    return {
        "asyncapi": ASYNCAPI,
        "info": {
            "title": title,
            "version": version,
            "description": "Producers insert into relaybox.outbox of the first store. Consumers fetch from a subscription of a later one.",
        },
        "servers": {
            store.name: {
                "host": store.service,
                "protocol": "postgresql",
                "description": f"Store {store.name}: the libpq service {store.service}.",
            }
            for store in routes.used_stores
        },
        "channels": {topic: _channel(topic, passing, list(messages[topic])) for topic, passing in topics.items()},
        "operations": {
            name: operation
            for topic, passing in topics.items()
            for name, operation in _operations(topic, passing, list(messages[topic])).items()
        },
        "components": {"messages": {name: message for found in messages.values() for name, message in found.items()}},
    }


def _topics(routes: Routes) -> list[str]:
    return sorted({topic for route in routes.routes.values() for topic in route.topics})


def _channel(topic: str, passing: list[Route], messages: list[str]) -> dict[str, Any]:
    stores = dict.fromkeys(store.name for route in passing for store in route.path)
    paths = "; ".join(f"route {route.name}: {' -> '.join(store.name for store in route.path)}" for route in passing)
    return {
        "address": topic,
        "description": f"Topic {topic}. {paths}.",
        "servers": [{"$ref": f"#/servers/{store}"} for store in stores],
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
    }


def _operations(topic: str, passing: list[Route], messages: list[str]) -> dict[str, Any]:
    """Producers send at the first store of a route, consumers receive from its stream at each later one."""

    def refer() -> list[dict[str, str]]:
        """A list of its own for each operation: YAML would write one that comes twice as an alias."""
        return [{"$ref": f"#/channels/{topic}/messages/{name}"} for name in messages]

    operations: dict[str, Any] = {}
    for route in passing:
        first = route.path[0].name
        operations[f"send.{topic}.{first}"] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{topic}"},
            "summary": f"Insert into relaybox.outbox of store {first}, with topic {topic}.",
            "messages": refer(),
        }
        for store in route.path[1:]:
            operations[f"receive.{topic}.{route.stream}.{store.name}"] = {
                "action": "receive",
                "channel": {"$ref": f"#/channels/{topic}"},
                "summary": f"Subscribe to stream {route.stream} in store {store.name}, or to topic {topic} of it.",
                "description": f"Order: {route.order}.",
                "messages": refer(),
            }
    return operations


def _messages(topic: str, schemas: TopicSchemas) -> dict[str, Any]:
    """By a name that no other topic's message has: a topic may be called `flights.v1`, so none is a name as it is."""
    versions = schemas.documents.get(topic)
    if not versions:
        name = f"{topic}.any"
        return {name: {"name": name, "title": topic, "summary": "Text or bytes: no schema is known."}}
    return {
        f"{topic}.v{version}": {
            "name": f"{topic}.v{version}",
            "title": f"{topic}, version {version}",
            "description": _describe_check(topic, version, document),
            "contentType": "application/json",
            "headers": {"type": "object", "properties": {VERSION_HEADER: {"const": version}}},
            "payload": {"schemaFormat": _format(document), "schema": document},
        }
        for version, document in sorted(versions.items())
    }


def _describe_check(topic: str, version: int, document: Any) -> str:
    """Where a payload is checked, for producers in other languages."""
    try:
        function = check_function(topic, version, document)
    except ConfigurationError as error:
        return f"Producers check it. Postgres can't: {error}"
    return (
        f"In stores where the script of `relaybox schemas --sql` was run, {function}(payload) says what is wrong with a payload."
    )


def _format(document: Any) -> str:
    return _FORMATS.get(document.get("$schema", ""), _DEFAULT_FORMAT) if isinstance(document, dict) else _DEFAULT_FORMAT
