"""The rules of the section `retention`, of a store or a route: what detaching has to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name
from relaybox.routes.raw_values import member, reached_stores

STOPPED_CONSUMERS = ("keep", "alarm", "detach")
DETACH_AFTER_SECONDS = 24 * 60 * 60

_DETACH_KEYS = {
    "stopped_consumer": "",
    "replay_window_seconds": ": without it everything is kept there, and nothing is detached",
    "detach_to": "",
}
"""What detaching wants to know, and why."""


def retention_contradictions(stores: Mapping[str, object], routes: Mapping[str, object]) -> Iterator[Problem]:
    """Detaching wants to know whereto, and a replay window: without one everything is kept, and nothing is ever detached."""
    for name, route in routes.items():
        location = ("routes", name, "retention")
        detached = detaching_stores(route, stores)
        for key, reason in _DETACH_KEYS.items():
            lacking = [store for store in detached if _said(key, route, stores.get(store)) is None]
            if missing := ", ".join(show_name(store) for store in lacking):
                text = f"the log in store {missing} is to be detached; expected {key}, of the route or the store{reason}"
                yield Problem((*location, key), text)
        value = member(member(route, "retention"), "detach_to")
        if value is not None and not detached:
            yield Problem((*location, "detach_to"), f"got {show(value)}; expected stopped_consumer: detach beside it, or nothing")


def detaching_stores(route: object, stores: Mapping[str, object]) -> list[str]:
    """The stores in which the log of a route may be detached."""
    stores_of_logs = dict.fromkeys(reached_stores(route))
    return [store for store in stores_of_logs if _said("stopped_consumer", route, stores.get(store)) == "detach"]


def _said(key: str, route: object, store: object) -> object:
    """What the route says of a key, else its store."""
    own, theirs = (member(member(section, "retention"), key) for section in (route, store))
    return theirs if own is None else own
