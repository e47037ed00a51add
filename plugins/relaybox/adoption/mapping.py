"""The complete map of a table: what is written, and the columns of Debezium's outbox for the rest. No database.

The functions of the store take it as JSON: a parsed text (routes.adopt_rules) for each of `message_id`, `topic`, `sender`, `key`, `payload`
and `headers` (a column of objects) that the messages have, and `header` with one for each single header.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from relaybox.routes.adopt_rules import MAPPED_FIELDS, write_mapped

DEBEZIUM_HEADERS = ("type", "tracingspancontext", "timestamp")
"""Columns that become headers of the same name where the table has them, and the map says nothing of headers."""

CompleteMap = Mapping[str, Any]


def complete_map(mapped: Mapping[str, Any], columns: Collection[str], sender: str) -> CompleteMap:
    """The map with the defaults for what it does not name.

    Args:
        mapped: as relaybox.yaml or `--map` says it (AdoptedTable.mapped).
        columns: of the table.
        sender: who sends where the map does not say it.
    """
    defaults: dict[str, Any] = {
        "message_id": {"column": "id"} if "id" in columns else {},
        "topic": {"parts": [{"column": "aggregatetype", "filter": "lower"}]},
        "sender": {"parts": [sender]},
        "key": {"column": "aggregateid"} if "aggregateid" in columns else {},
        "payload": {"column": "payload"},
        "headers": {"headers": {name: {"column": name} for name in DEBEZIUM_HEADERS if name in columns}},
    }
    chosen = {**defaults, **mapped}
    complete = {field: chosen[field] for field in MAPPED_FIELDS if field != "headers" and chosen[field]}
    headers = chosen["headers"]
    if "column" in headers:
        complete["headers"] = {"column": headers["column"]}
    complete["header"] = {name: value for name, value in headers.get("headers", {}).items() if value}
    return complete


def write_map(complete: CompleteMap) -> dict[str, Any]:
    """A complete map as the keys of relaybox.yaml have it."""
    written: dict[str, Any] = {field: write_mapped(complete.get(field, {})) for field in MAPPED_FIELDS if field != "headers"}
    single = {name: write_mapped(value) for name, value in complete["header"].items()}
    written["headers"] = single or write_mapped(complete.get("headers", {}))
    return written
