"""The rules of the section `schemas`: which files have the JSON Schemas of a topic. The files are not read here.

Looks at the values as they were read: one of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name


def schema_contradictions(routes: Mapping[str, object], schemas: Mapping[str, object]) -> Iterator[Problem]:
    """A topic with schemas is one of a route, and each of its versions has a file of its own."""
    sections = [route for route in routes.values() if isinstance(route, Mapping)]
    topics = {topic for route in sections for topic in _texts(route.get("topics"))}
    is_open = any(route.get("topics_by_subscription") is True for route in sections)
    for topic, files in schemas.items():
        if topic not in topics and not is_open:
            text = f"no route has topic {show_name(topic)}; expected a topic of a route"
            yield Problem(("schemas", topic), text, unknown=topic, known=sorted(topics))
        seen: dict[str, int] = {}
        for index, path in enumerate(_texts(files)):
            if path in seen:
                text = f"got {show(path)}, which is version {seen[path] + 1} too; expected a file of its own for each version"
                yield Problem(("schemas", topic, index), text)
            seen.setdefault(path, index)


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
