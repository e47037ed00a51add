"""The map of an adopted table: which column is which part of a message, as relaybox.yaml and `relaybox adopt --map` write it.

A text of a map is the name of a column (`aggregateid`), a text in quotes that is always the same (`'orders'`), or a pattern with columns in
braces (`outbox.{aggregatetype:lower}`). `none`: the message has no such part. `*`, of payload: the whole row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from relaybox.routes.problems import Problem, show
from relaybox.routes.raw_values import entries

ON_UNMAPPED = ("fail", "set_aside")
MAPPED_FIELDS = ("message_id", "topic", "sender", "key", "payload", "headers")
HEADER = "header."
FILTERS = ("lower", "base64")

_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
_PLACE = re.compile(r"\{([^{}:]{1,63})(?::([a-z0-9]+))?\}")
_TABLE = re.compile(r"[^\s.\"'\x00-\x1f]{1,63}(\.[^\s.\"'\x00-\x1f]{1,63})?")
_HEADER_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")

TEXT_RULE = "a column, a text in quotes such as 'orders', or a pattern such as outbox.{aggregatetype:lower}"
TABLE_RULE = "a table as SCHEMA.TABLE, or TABLE for one of schema public, written as in the catalog, without quotes"

Mapped = Mapping[str, Any]
"""A parsed text: {"column": NAME}, {"parts": [TEXT or {"column": NAME, "filter": NAME}, ...]}, {"row": True}, or {}: none."""


class BrokenMap(ValueError):
    """A text of a map breaks this rule."""


def parse_mapped(text: object, *, field: str) -> Mapped:
    """What a text of a map says.

    Raises:
        BrokenMap: the rule that it breaks.
    """
    if not isinstance(text, str) or not text:
        raise BrokenMap(TEXT_RULE)
    if text == "none":
        if field in ("topic", "sender", "payload"):
            raise BrokenMap(f"{TEXT_RULE}; each message has a {field}")
        return {}
    if text == "*":
        if field != "payload":
            raise BrokenMap(f"{TEXT_RULE}; * is for payload, the whole row as JSON")
        return {"row": True}
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return {"parts": [text[1:-1].replace("''", "'")]}
    if "{" in text or "}" in text:
        return {"parts": _parse_parts(text)}
    if _COLUMN.fullmatch(text) is None:
        raise BrokenMap(f"{TEXT_RULE}. A column with other characters is written in braces")
    return {"column": text}


def _parse_parts(text: str) -> list[Any]:
    parts: list[Any] = []
    reached = 0
    for place in _PLACE.finditer(text):
        parts += [text[reached : place.start()]] if place.start() > reached else []
        if place[2] is not None and place[2] not in FILTERS:
            raise BrokenMap(f"{TEXT_RULE}; behind the colon stands one of {', '.join(FILTERS)}")
        parts.append({"column": place[1], "filter": place[2]})
        reached = place.end()
    parts += [text[reached:]] if reached < len(text) else []
    if any(isinstance(part, str) and ("{" in part or "}" in part) for part in parts):
        raise BrokenMap(f"{TEXT_RULE}; each brace has a column and its other brace")
    return parts


def parse_headers(value: object) -> Mapped:
    """Of the key `headers`: a column of JSON objects, or a section with one text for each header.

    Raises:
        BrokenMap: the rule that it breaks.
    """
    if isinstance(value, Mapping):
        return {"headers": {name: parse_header(name, text) for name, text in value.items()}}
    mapped = parse_mapped(value, field="headers")
    if "parts" in mapped:
        raise BrokenMap("a column of jsonb or json, none, or a section with a column for each header")
    return mapped


def parse_header(name: object, text: object) -> Mapped:
    """Of one header.

    Raises:
        BrokenMap: the rule that its name or its text breaks.
    """
    if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
        raise BrokenMap("a header of 1 to 100 of A-Z a-z 0-9 _ . : -")
    return parse_mapped(text, field="header")


def broken_mapped(field: str, value: object) -> str | None:
    """The rule that the value of a key of the map breaks, or None."""
    try:
        parse_headers(value) if field == "headers" else parse_mapped(value, field=field)
    except BrokenMap as broken:
        return str(broken)
    return None


def broken_table(value: object) -> str | None:
    """The rule that the name of a table breaks, or None."""
    return None if isinstance(value, str) and _TABLE.fullmatch(value) else TABLE_RULE


def adopt_contradictions(stores: Mapping[str, object]) -> Iterator[Problem]:
    """A table is adopted once: `orders` and `public.orders` are one."""
    for store, section in stores.items():
        first: dict[tuple[str, str], str] = {}
        for name in entries(section, "adopt"):
            if broken_table(name) is None and first.setdefault(split_table(name), name) != name:
                text = f"got {show(name)}, which is {show(first[split_table(name)])} too; expected each table once"
                yield Problem(("stores", store, "adopt", name), text)


def split_table(name: str) -> tuple[str, str]:
    """Schema and table."""
    schema, dot, table = name.partition(".")
    return (schema, table) if dot else ("public", schema)


def parse_map_options(options: list[str]) -> Mapping[str, Mapped]:
    """What `--map FIELD=TEXT` says, several times; of a header FIELD is header.NAME. In the form that AdoptedTable.mapped has.

    Raises:
        BrokenMap: which option, and the rule.
    """
    mapped: dict[str, Any] = {}
    headers: dict[str, Mapped] = {}
    for option in options:
        field, equals, text = option.partition("=")
        name = field.removeprefix(HEADER)
        try:
            _refuse_field(field, known=field in mapped or name in headers, has_text=bool(equals))
            if name != field:
                headers[name] = parse_header(name, text)
            else:
                mapped[field] = parse_headers(text) if field == "headers" else parse_mapped(text, field=field)
        except BrokenMap as broken:
            raise BrokenMap(f"--map {option}: expected {broken}") from None
    if headers and "headers" in mapped:
        raise BrokenMap(
            "--map headers and --map header.NAME: expected one of them, as in relaybox.yaml: a column of objects, or single headers"
        )
    if headers:
        mapped["headers"] = {"headers": headers}
    return mapped


def _refuse_field(field: str, *, known: bool, has_text: bool) -> None:
    if not has_text or not (field in MAPPED_FIELDS or field.startswith(HEADER)):
        raise BrokenMap(f"FIELD=TEXT with one of {', '.join(MAPPED_FIELDS)} or header.NAME as FIELD")
    if known:
        raise BrokenMap("each field once")


def write_mapped(mapped: Mapped) -> str:
    """The text of a map that means this."""
    if "column" in mapped:
        name = str(mapped["column"])
        return name if _COLUMN.fullmatch(name) and name != "none" else "{" + name + "}"
    if "row" in mapped:
        return "*"
    if "parts" not in mapped:
        return "none"
    parts = mapped["parts"]
    if all(isinstance(part, str) for part in parts):
        return "'" + "".join(parts).replace("'", "''") + "'"
    return "".join(part if isinstance(part, str) else _write_place(part) for part in parts)


def _write_place(part: Mapping[str, Any]) -> str:
    return f"{{{part['column']}{':' if part['filter'] else ''}{part['filter'] or ''}}}"
