"""What the routes of a stream must have in common, so that every store can keep the order that they promise.

Decided from the file alone, before anything moves. Looks at the values as they were read: one of a wrong kind is passed over
here, and refused by the rule of its key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise

from relaybox.routes.problems import Location, Problem, show, show_name
from relaybox.routes.raw_values import texts

ORDERS = ("none", "fifo", "causal", "total")

MESSAGE_ID_WINDOW, HOLDBACK_ROWS, FRAGMENTS = 0, 10_000, 1_000_000
"""Defaults of the values that a store keeps once per stream."""

_KEPT_PER_STREAM: Mapping[tuple[str, ...], int] = {
    ("message_id_window",): MESSAGE_ID_WINDOW,
    ("limits", "holdback_rows"): HOLDBACK_ROWS,
    ("limits", "fragments"): FRAGMENTS,
}
_MAX_NAMED = 5


@dataclass(frozen=True)
class _Route:
    """A route of the file, as far as streams are concerned. `ways`: its origin with each store that it arrives in."""

    name: str
    section: Mapping[str, object]
    order: object
    stream: str
    topics: frozenset[str]
    path: tuple[str, ...]

    @property
    def ways(self) -> Iterator[tuple[str, str]]:
        return ((self.path[0], destination) for _, destination in pairwise(self.path))

    def at(self, *keys: str) -> Location:
        return ("routes", self.name, *keys)


def stream_contradictions(routes: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong between the routes that share a stream, and between a total route and the others.

    Args:
        routes: the section `routes` of the file.
    """
    read = [_read(name, section) for name, section in routes.items() if isinstance(section, dict)]
    streams: dict[str, list[_Route]] = {}
    for route in read:
        streams.setdefault(route.stream, []).append(route)
    for group in streams.values():
        yield from _shared_stream(group)
        if all(route.order == "causal" for route in group):
            yield from _causal_group(group)
    yield from _second_sequencers(read)


def _read(name: str, section: Mapping[str, object]) -> _Route:
    stream = section.get("stream")
    return _Route(
        name=name,
        section=section,
        order=section.get("order", "none"),
        stream=stream if isinstance(stream, str) else name,
        topics=frozenset(texts(section.get("topics"))),
        path=tuple(texts(section.get("path"))),
    )


def _shared_stream(group: list[_Route]) -> Iterator[Problem]:
    first, *others = group
    for other in others:
        if not first.order == other.order == "causal":
            text = f"got {show(other.stream)}, the stream of route {show_name(first.name)} too"
            yield Problem(other.at("stream"), f"{text}; expected a stream of its own: only causal routes may share one")


def _causal_group(group: list[_Route]) -> Iterator[Problem]:
    """Every store that is arrived in is arrived in once from every origin; topics and limits are those of the first route."""
    first, *others = group
    stream = show_name(first.stream)
    for other in others:
        if other.topics != first.topics:
            text = f"got {_listed(other.topics)}; expected the topics of route {show_name(first.name)}, {_listed(first.topics)}"
            yield Problem(other.at("topics"), f"{text}: both are causal in stream {stream}")
        for keys, default in _KEPT_PER_STREAM.items():
            got, expected = (_value(route.section, keys, default) for route in (other, first))
            if got != expected:
                text = f"got {show(got)}; expected {show(expected)}, as in route {show_name(first.name)}"
                yield Problem(other.at(*keys), f"{text}: both are in stream {stream}")
    yield from _doubled_ways(group)
    yield from _missing_ways(group)


def _doubled_ways(group: list[_Route]) -> Iterator[Problem]:
    first: dict[tuple[str, str], str] = {}
    for route in group:
        for way in route.ways:
            if first.setdefault(way, route.name) != route.name:
                origin, store = map(show_name, way)
                text = f"store {store} gets the messages of {origin} by route {show_name(first[way])} too"
                expected = f"expected one way from {origin} to {store} in stream {show_name(route.stream)}"
                yield Problem(route.at("path"), f"{text}; {expected}: each message would be delivered twice")


def _missing_ways(group: list[_Route]) -> Iterator[Problem]:
    ways = {way: None for route in group for way in route.ways}
    origins, stores = ({way[side]: None for way in ways} for side in (0, 1))
    missing_count = len(origins) * len(stores) - len(ways)
    if missing_count == 0:
        return
    missing = ((origin, store) for origin in origins for store in stores if (origin, store) not in ways)
    named = [f"[{show_name(origin)}, {show_name(store)}]" for origin, store in islice(missing, _MAX_NAMED)]
    more = f" and {missing_count - len(named)} more" if missing_count > len(named) else ""
    text = f"stream {show_name(group[0].stream)} lacks causal routes with path {', '.join(named)}{more}"
    expected = "expected every store of a causal stream to get the messages of each of its origins"
    yield Problem(group[0].at("stream"), f"{text}; {expected}: else an answer could come without its question")


def _second_sequencers(routes: list[_Route]) -> Iterator[Problem]:
    """One problem for each total route that shares a topic; of two total routes, for the later one."""
    carriers: dict[str, list[_Route]] = {}
    rank = {route.name: number for number, route in enumerate(routes)}
    for route in routes:
        for topic in route.topics:
            carriers.setdefault(topic, []).append(route)
    for route in routes:
        if route.order != "total":
            continue
        for topic in sorted(route.topics):
            before_or_without_order = (
                other
                for other in carriers[topic]
                if other.name != route.name and (other.order != "total" or rank[other.name] < rank[route.name])
            )
            if other := next(before_or_without_order, None):
                text = f"topic {show(topic)} is carried by route {show_name(other.name)} too: it would need two sequencers"
                yield Problem(route.at("order"), f"{text}; expected a topic of its own. Put the stores on one path")
                break


def _listed(topics: Collection[str]) -> str:
    shown = [show(topic) for topic in sorted(topics)[:_MAX_NAMED]]
    more = [f"{len(topics) - _MAX_NAMED} more"] if len(topics) > _MAX_NAMED else []
    return ", ".join(shown + more) or "none"


def _value(section: Mapping[str, object], keys: tuple[str, ...], default: int) -> object:
    """The value at a place of a route, or its default where nothing is written."""
    found: object = section
    for key in keys:
        found = found.get(key, default) if isinstance(found, dict) else default
    return found
