"""What the path, the topics and the policy of a route contradict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Location, Problem, show
from relaybox.routes.raw_values import member, repeats

POLICIES = ("received", "cascade", "processed")
INTEGRITIES = ("count", "checksum")
RUNNERS = ("auto", "spark", "threads")


def route_contradictions(stores: Mapping[str, object], routes: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong between the values of each route, and between its path and the stores."""
    for name, route in routes.items():
        location = ("routes", name)
        yield from _path_contradictions((*location, "path"), member(route, "path"), stores)
        for index, topic, first in repeats(member(route, "topics")):
            text = f"got {show(topic)}, which is at [{first}] too; expected each topic once"
            yield Problem((*location, "topics", index), text)
        yield from _processing_contradictions(location, route)
        yield from _open_topics_contradictions(location, route)
    yield from _shared_subscriptions(routes)


def _path_contradictions(location: Location, path: object, stores: Mapping[str, object]) -> Iterator[Problem]:
    if not isinstance(path, list):
        return
    if len(path) < 2:
        yield Problem(location, f"got {show(path)}; expected two or more stores, the first with the outbox")
    for index, store in enumerate(path):
        if stores and isinstance(store, str) and store not in stores:
            text = f"got {show(store)}; expected a store of this file"
            yield Problem((*location, index), text, unknown=store, known=stores)
    for index, store, first in repeats(path):
        if index == 1:  # a local hop: from the outbox of the first store into a log of the same store
            continue
        yield Problem((*location, index), f"got {show(store)}, which is at [{first}] too; expected a path without a loop")


def _processing_contradictions(location: Location, route: object) -> Iterator[Problem]:
    """The policy processed names its subscriptions, each once; no other policy does."""
    policy, names = (member(route, key) for key in ("policy", "processed_by"))
    if policy == "processed" and not names:
        text = 'got "processed"; expected processed_by beside it: a list of one or more subscriptions at the last store'
        yield Problem((*location, "policy"), text)
    if policy != "processed" and names:
        yield Problem((*location, "processed_by"), f"got {show(names)}; expected policy: processed beside it, or nothing")
    for index, name, first in repeats(names):
        text = f"got {show(name)}, which is at [{first}] too; expected each subscription once"
        yield Problem((*location, "processed_by", index), text)


def _shared_subscriptions(routes: Mapping[str, object]) -> Iterator[Problem]:
    """A name is open in one stream of a store: of two routes with different streams that name it, one would never be settled."""
    named: dict[tuple[str, str], tuple[str, object]] = {}
    for route_name, route in routes.items():
        path, names = member(route, "path"), member(route, "processed_by")
        if not isinstance(path, list) or not path or not isinstance(path[-1], str) or not isinstance(names, list):
            continue
        stream = member(route, "stream") or route_name
        for index, name in enumerate(names):
            if isinstance(name, str):
                first, other = named.setdefault((path[-1], name), (route_name, stream))
                if other != stream:
                    text = (
                        f"got {show(name)}, which route {first} names at store {path[-1]} for stream {other}; expected another name: a "
                        "subscription reads one stream"
                    )
                    yield Problem(("routes", route_name, "processed_by", index), text)


def _open_topics_contradictions(location: Location, route: object) -> Iterator[Problem]:
    """Routes of a causal stream share their topics, and a total route shares none: both must be known when the file is read."""
    order = member(route, "order")
    if member(route, "topics_by_subscription") is True and order in ("causal", "total"):
        text = f"got true with order {order}; expected the topics of such a route in the file: others depend on them"
        yield Problem((*location, "topics_by_subscription"), text)
