"""The rules of the section `exports`: which stream of which store goes into which table of a lake.

Looks at the values as they were read: one of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name, suggest
from relaybox.routes.raw_values import delivered_streams, member

FORMATS = ("delta", "iceberg", "parquet")
PARTITIONINGS = ("none", "day", "key")
BATCH_MESSAGES = 1_000_000
FILE_MESSAGES = 250_000


def broken_format(value: object) -> str | None:
    """The rule that the format of a table breaks, or None."""
    if isinstance(value, str) and value in FORMATS:
        return None
    formats = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
    return f"the format of the table, {formats}. {suggest(value, FORMATS)}" if isinstance(value, str) else f"a text, {formats}"


def export_contradictions(
    stores: Mapping[str, object], routes: Mapping[str, object], exports: Mapping[str, object]
) -> Iterator[Problem]:
    """An export reads a stream that its store delivers, and each has a table of its own."""
    paths: dict[str, str] = {}
    tables: dict[str, str] = {}
    for name, export in exports.items():
        stream, store, path = (member(export, key) for key in ("stream", "store", "path"))
        if isinstance(store, str) and store not in stores:
            yield Problem(
                ("exports", name, "store"), f"got {show(store)}; expected a store of this file", unknown=store, known=list(stores)
            )
        elif isinstance(stream, str) and isinstance(store, str) and stream not in delivered_streams(routes, store):
            text = f"got {show(stream)}, which store {show_name(store)} does not deliver; expected a stream that arrives there"
            yield Problem(("exports", name, "stream"), text, unknown=stream, known=delivered_streams(routes, store))
        yield from _table_contradictions(name, member(export, "to"), member(export, "table"), tables)
        if not isinstance(path, str):
            continue
        if "://" in path and ("@" in path or "?" in path):
            text = "a URI with a login or options (it has @ or ?); expected one without: the environment of Spark has the login"
            yield Problem(("exports", name, "path"), text)
        elif "%" in path or "\\" in path:
            text = f"got {show(path)}; expected a path without % and backslashes, which formats read as letters of a URL"
            yield Problem(("exports", name, "path"), text)
        table = path.rstrip("/")
        for other_table, other in paths.items():
            if f"{table}/".startswith(f"{other_table}/") or f"{other_table}/".startswith(f"{table}/"):
                text = f"got {show(path)}, which is, or lies in or around, the path of export {show_name(other)}"
                yield Problem(("exports", name, "path"), f"{text}; expected a directory of its own for each table")
        paths.setdefault(table, name)


def _table_contradictions(name: str, to: object, table: object, tables: dict[str, str]) -> Iterator[Problem]:
    """Iceberg finds a table by its name in a catalog, and other formats by their path alone."""
    if to == "iceberg" and table is None:
        yield Problem(("exports", name, "table"), "missing; expected what the catalog knows the table as: namespace.name")
    if to in FORMATS and to != "iceberg" and table is not None:
        yield Problem(
            ("exports", name, "table"), f"got {show(table)}; expected no such key: only an Iceberg table is in a catalog"
        )
    if isinstance(table, str) and (other := tables.setdefault(table, name)) != name:
        text = f"got {show(table)}, the table of export {show_name(other)}"
        yield Problem(("exports", name, "table"), f"{text}; expected a table of its own for each export")
