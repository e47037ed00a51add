"""What a relaybox.yaml has at a key, as it was read: for rules that compare values with each other.

A value of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def member(section: object, key: str) -> object:
    """The value at a key of a section; None: there is no such key, or no section."""
    return section.get(key) if isinstance(section, dict) else None


def entries(section: object, key: str) -> dict[str, object]:
    """The entries of the section at a key, by name."""
    found = member(section, key)
    return found if isinstance(found, dict) else {}


def texts(values: object) -> list[str]:
    """The texts of a list."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def repeats(values: object) -> Iterator[tuple[int, str, int]]:
    """Each text of a list that stood in it before: its index, the text, the index of the first."""
    first: dict[str, int] = {}
    for index, value in enumerate(values if isinstance(values, list) else []):
        if isinstance(value, str) and first.setdefault(value, index) != index:
            yield index, value, first[value]


def stream_of(name: str, route: object) -> object:
    """The stream as which consumers read the messages of a route."""
    return member(route, "stream") or name


def first_store(route: object) -> object:
    """The store in which the messages of a route are sent."""
    path = member(route, "path")
    return path[0] if isinstance(path, list) and path else None


def reached_stores(route: object) -> list[str]:
    """The stores in which a route has a log, and delivers its stream."""
    path = member(route, "path")
    return texts(path[1:]) if isinstance(path, list) else []


def delivered_streams(routes: Mapping[str, object], store: str) -> list[str]:
    """The streams that a store delivers, each once."""
    streams = (stream_of(name, route) for name, route in routes.items() if store in reached_stores(route))
    return list(dict.fromkeys(stream for stream in streams if isinstance(stream, str)))
