"""What is done to relaybox.yaml while messages are in flight: a file as a value, its changes, and `init` that ends anywhere."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from relaybox import errors
from relaybox.routes import Routes, load_routes
from relaybox.stores.init.all_stores import initialise_stores
from relaybox.stores.init.one_store import initialise_store
from tests.faults.drivers import forked
from tests.faults.stores import UNDISTURBED
from tests.support.world import STORES

BOTH = ("flights", "weather")


@dataclass(frozen=True)
class RouteFile:
    """What a relaybox.yaml says of the route `flights`; everything that retention may drop, it drops at once.

    Attributes:
        topics: of the route.
        path: its stores.
        policy: when a batch is settled.
        order: of its streams.
        limits: of its batches and slices.
        is_there: whether the file has the route at all.
        names: what it calls the stores; their services stay.
        rules: further keys of the route.
    """

    topics: tuple[str, ...] = ("flights",)
    path: tuple[str, ...] = STORES
    policy: str = "cascade"
    order: str = "none"
    limits: Mapping[str, int] = field(default_factory=lambda: {"batch_rows": 3, "slice_rows": 2})
    is_there: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> Routes:
        """Writes it, and returns what Relaybox reads in it."""
        stores: dict[str, dict[str, str]] = {
            self.names.get(store, store): {"service": store} if store in self.names else {} for store in STORES
        }
        route = {
            "topics": list(self.topics),
            "path": [self.names.get(store, store) for store in self.path],
            "policy": self.policy,
            "order": self.order,
            "limits": dict(self.limits),
            "retention": {"replay_window_seconds": 0},
            **self.rules,
        }
        hub = self.names.get("hub", "hub")
        spare = {"topics": ["spare"], "path": [hub, hub]}  # a file has at least one route
        routes = {"spare": spare, "flights": route} if self.is_there else {"spare": spare}
        path.write_text(yaml.safe_dump({"stores": stores, "routes": routes}))
        return load_routes(path)


def _other_limits(batch_rows: int, slice_rows: int) -> Mapping[str, int]:
    """Of nearly the same size, so that the next batches are cut elsewhere."""
    return {
        "batch_rows": batch_rows + 1 if batch_rows % 2 else batch_rows - 1,
        "slice_rows": max(1, min(slice_rows, batch_rows - 1)),
    }


Change = Callable[[RouteFile], RouteFile]

CHANGES: Mapping[str, Change] = {
    "topic_added": lambda file: replace(file, topics=BOTH),
    "topic_removed": lambda file: replace(file, topics=("flights",)),
    "topics_swapped": lambda file: replace(file, topics=("weather",) if "flights" in file.topics else ("flights",)),
    "route_removed": lambda file: replace(file, is_there=False),
    "route_brought_back": lambda file: replace(file, is_there=True),
    "path_cut": lambda file: replace(file, path=STORES[:2]),
    "path_extended": lambda file: replace(file, path=STORES),
    "policy_changed": lambda file: replace(file, policy="received" if file.policy == "cascade" else "cascade"),
    "limits_changed": lambda file: replace(file, limits=_other_limits(**file.limits)),
}
"""What a running route goes through, by name. `store_renamed` and `order_changed` are refused, see REFUSED."""

REFUSED: Mapping[str, Change] = {
    "store_renamed": lambda file: replace(file, names={"hub": "hub-2"}),
    "order_changed": lambda file: replace(file, order="fifo" if file.order == "none" else "none"),
}
"""What `init` refuses once something was delivered, at every store and before anything is changed."""


def initialise(routes: Routes) -> list[errors.RelayboxError]:
    """`relaybox init`; what it refused."""
    return list(initialise_stores(list(routes.stores.values()), routes).failures.values())


def initialise_each(routes: Routes) -> None:
    """`relaybox init`, without its checks of all stores: half the time, enough for what no store refuses."""
    for store in routes.stores.values():
        initialise_store(store, routes)


def initialise_and_die(path: Path, after_statements: int) -> bool:
    """`relaybox init` in a process of its own that is killed after this number of statements; false when it ended before.

    What a transaction had not committed by then is gone; the stores that came earlier have the new file.
    """
    return killed_after(after_statements, _initialise, path)


def _initialise(path: Path) -> None:
    initialise(load_routes(path))


def killed_after(statements: int, work: Callable[..., object], *arguments: object) -> bool:
    """Does the work, a function of a module, in a process that is killed after this number of statements; false when it ended before.

    Raises:
        AssertionError: the work failed.
    """
    code = forked(_work_and_die, os.environ["PGSERVICEFILE"], statements, work, arguments)
    assert code in (0, -signal.SIGKILL), f"{work.__name__} ended with code {code}"
    return code == -signal.SIGKILL


def _work_and_die(services: str, after_statements: int, work: Callable[..., object], arguments: Sequence[object]) -> None:
    left = after_statements

    class Dying(psycopg2.extensions.cursor):
        def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002, psycopg2's own name for it
            nonlocal left
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            super().execute(query, vars)

    os.environ["PGSERVICEFILE"] = services
    real_connect = psycopg2.connect
    psycopg2.connect = lambda *given, **options: real_connect(*given, **{"cursor_factory": Dying, **options})
    work(*arguments)


def tables_of(stores: Sequence[str]) -> dict[str, list[tuple[Any, ...]]]:
    """What the stores have registered: equal before and after something that was refused."""
    query = """
        select 'out ' || hop, to_jsonb(o) - 'attempt' from relaybox_internal.hop_out o
        union all select 'in ' || hop, to_jsonb(i) from relaybox_internal.hop_in i
        union all select 'stream ' || stream, to_jsonb(s) from relaybox_internal.stream s
        order by 1
        """
    found: dict[str, list[tuple[Any, ...]]] = {}
    for store in stores:
        connection = psycopg2.connect(service=store, options=UNDISTURBED)
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                found[store] = cursor.fetchall()
        finally:
            connection.close()
    return found
