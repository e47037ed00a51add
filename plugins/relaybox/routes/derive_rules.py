"""The rules of a route's section `derive`: what makes its messages, and of which stream.

Looks at the values as they were read: one of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name
from relaybox.routes.raw_values import delivered_streams, first_store, member, stream_of, texts

DERIVE_BATCH_ROWS = 100_000
DEAD_LETTER_LIMIT = 100
ROW_ERRORS = ("stop", "dead_letter")
CHANGED_SOURCES = ("refuse", "warn")


def derive_contradictions(routes: Mapping[str, object]) -> Iterator[Problem]:
    """A derivation has one source, and reads a stream that the first store of its path delivers; no stream is derived from itself."""
    for name, route in routes.items():
        derive = member(route, "derive")
        if not isinstance(derive, dict):
            continue
        yield from _source_contradictions(("routes", name, "derive"), derive)
        candidate = derive.get("next")
        if isinstance(candidate, dict):
            yield from _source_contradictions(("routes", name, "derive", "next"), candidate)
            version, next_version = derive.get("version"), candidate.get("version")
            if type(version) is int and type(next_version) is int and next_version <= version:  # true is no version
                text = f"got {next_version}; expected a version above {version}, that of derive"
                yield Problem(("routes", name, "derive", "next", "version"), text)
        stream, first = derive.get("from"), first_store(route)
        if not isinstance(stream, str) or not isinstance(first, str):
            continue
        if stream not in delivered_streams(routes, first):
            text = f"got {show(stream)}, which store {show_name(first)} does not deliver"
            yield Problem(
                ("routes", name, "derive", "from"), f"{text}; expected a stream that arrives in the first store of the path"
            )
        elif _feeds_itself(routes, route):
            text = f"got {show(stream)}, to which the derived messages come back"
            yield Problem(("routes", name, "derive", "from"), f"{text}; expected no loop: each message would make more for ever")


def _source_contradictions(section: tuple[str, ...], values: Mapping[str, object]) -> Iterator[Problem]:
    if (values.get("with") is None) == (values.get("sql") is None):
        found = "neither" if values.get("sql") is None else "both"
        yield Problem(section, f"got {found} of with and sql; expected one of them")


def _feeds_itself(routes: Mapping[str, object], derived: object) -> bool:
    """Whether messages that are derived come back, by routes and other derivations, to the stream of which they are derived."""
    found: list[str] = []
    streams = [member(member(derived, "derive"), "from")]
    while streams:
        stream = streams.pop()
        for name, route in routes.items():
            if name in found or stream_of(name, route) != stream:
                continue
            if _sends_to(derived, route):
                return True
            found.append(name)
            streams += [member(member(other, "derive"), "from") for other in routes.values() if _sends_to(other, route)]
    return False


def _sends_to(derived: object, route: object) -> bool:
    """Whether a route moves messages that a derivation puts into the outbox: its own, or one with a topic of it from the same store."""
    if not isinstance(member(derived, "derive"), dict):
        return False
    return derived is route or (first_store(derived) == first_store(route) and not _topics(derived).isdisjoint(_topics(route)))


def _topics(route: object) -> set[str]:
    return set(texts(member(route, "topics")))
