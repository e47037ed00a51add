"""What the pauses between two looks at a store contradict. Values of a wrong kind are the rules' business."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem
from relaybox.routes.raw_values import member

INTERVAL_SECONDS = 1
TARGET_LAG_SECONDS = 600


def watch_contradictions(stores: Mapping[str, object], routes: Mapping[str, object]) -> Iterator[Problem]:
    """The longest pause is not below the shortest, nor above the lag at which an alert fires."""
    for name, store in stores.items():
        watch = member(store, "watch")
        shortest, longest = _number(watch, "interval_seconds", INTERVAL_SECONDS), _number(watch, "max_interval_seconds", 0)
        key = "max_interval_seconds" if longest else "interval_seconds"
        pause = longest or shortest
        if longest and longest < shortest:
            text = f"got {longest:g}; expected at least interval_seconds, which is {shortest:g}"
            yield Problem(("stores", name, "watch", key), text)
        for route in [route for route in routes if name in _sources(routes[route])]:
            target = _number(member(routes[route], "limits"), "target_lag_seconds", TARGET_LAG_SECONDS)
            if pause > target:
                text = f"got {pause:g}; expected at most limits.target_lag_seconds of route {route}, which is {target:g}"
                yield Problem(("stores", name, "watch", key), text)


def _sources(route: object) -> list[object]:
    """The stores that a hop of the route leaves."""
    path = member(route, "path")
    return path[:-1] if isinstance(path, list) else []


def _number(section: object, key: str, default: float) -> float:
    value = member(section, key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
