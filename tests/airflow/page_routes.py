"""Every route of the page, with values that it accepts."""

from __future__ import annotations

import re

from fastapi import FastAPI
from fastapi.routing import APIRoute

PATH_VALUES = {"route": "flights", "number": "1", "name": None, "kind": "replay"}
"""What stands in a path; `name` differs by route."""
NAMES = {"/runbooks/{name}": "lossy-failover", "/static/{name}": "page.js"}
QUERIES = {"/of-dag": "?dag=relaybox_transfer__flights_1", "/api/where": "?sender=UA&index=1"}


def every_route(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route of the page, found by itself: one that is added is tested from then on."""
    found = [(method, route) for route in app.routes if isinstance(route, APIRoute) for method in sorted(route.methods)]
    assert len(found) == len([route for route in app.routes if isinstance(route, APIRoute)])
    assert len(found) > 10
    return [(method, _filled(route.path)) for method, route in found]


def _filled(path: str) -> str:
    for name in re.findall(r"{(\w+)}", path):
        assert name in PATH_VALUES, f"{path}: say in PATH_VALUES what stands for {name}"
    values = {**PATH_VALUES, "name": NAMES.get(path)}
    return f"/relaybox{path.format(**values)}{QUERIES.get(path, '')}"
