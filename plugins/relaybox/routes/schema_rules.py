"""The rules of the sections `schemas` and `schema_checks`: which files have the JSON Schemas of a topic, and who checks its messages.

The files are not read here.

Looks at the values as they were read: one of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name
from relaybox.routes.raw_values import texts

OUTBOX_CHECKS = ("none", "refuse")
FIRST_HOP_CHECKS = ("none", "warn", "set_aside")


def broken_first_hop_check(value: object) -> str | None:
    """The rule that a value of `first_hop` breaks; None: it breaks none."""
    if value in FIRST_HOP_CHECKS:
        return None
    if value in ("refuse", "reject"):
        return "none, warn or set_aside. What arrives was sent: a hop that refused it would stop. Refuse it before, with outbox: refuse"
    return "none, warn or set_aside"


def schema_contradictions(
    routes: Mapping[str, object], schemas: Mapping[str, object], checks: Mapping[str, object]
) -> Iterator[Problem]:
    """A topic with schemas is one of a route, each of its versions has a file of its own, and a topic that is checked has schemas."""
    for topic in checks:
        if topic not in schemas:
            text = f"schemas has no topic {show_name(topic)}; expected a topic of schemas"
            yield Problem(("schema_checks", topic), text, unknown=topic, known=sorted(schemas))
    sections = [route for route in routes.values() if isinstance(route, Mapping)]
    topics = {topic for route in sections for topic in texts(route.get("topics"))}
    is_open = any(route.get("topics_by_subscription") is True for route in sections)
    for topic, files in schemas.items():
        if topic not in topics and not is_open:
            text = f"no route has topic {show_name(topic)}; expected a topic of a route"
            yield Problem(("schemas", topic), text, unknown=topic, known=sorted(topics))
        seen: dict[str, int] = {}
        for index, path in enumerate(texts(files)):
            if path in seen:
                text = f"got {show(path)}, which is version {seen[path] + 1} too; expected a file of its own for each version"
                yield Problem(("schemas", topic, index), text)
            seen.setdefault(path, index)
