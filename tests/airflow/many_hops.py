"""200 hops: 80 routes over twelve real stores, the databases of one cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.routes import Routes, load_routes
from relaybox.stores.init.one_store import initialise_store
from tests.support import disposal
from tests.support.administration import administer

SENDING = ("booking", "cargo", "crew", "fleet")
BETWEEN = ("hub_east", "hub_north", "hub_west")
READING = ("analytics", "billing", "claims", "loyalty", "planning")
STORES = (*SENDING, *BETWEEN, *READING)
ROUTE_COUNT, HOP_COUNT = 80, 200

_numbers = itertools.count(1)


def paths() -> dict[str, list[str]]:
    """The path of each route: half of them have two hops, half have three."""
    found = {}
    for number in range(ROUTE_COUNT):
        sending, reading = SENDING[number % len(SENDING)], READING[number % len(READING)]
        between = [BETWEEN[number % len(BETWEEN)], BETWEEN[(number + 1) % len(BETWEEN)]]
        found[f"{sending}_{number:02}"] = [sending, *between[: 1 + number // 40], reading]
    return found


def write_routes(directory: Path) -> Path:
    """Writes relaybox.yaml."""
    path = directory / "relaybox.yaml"
    # what waits is busy, and never late, however long a test takes
    limits = {"target_lag_seconds": 604_800}
    routes = {name: {"topics": [f"{name}.events"], "path": stores, "limits": limits} for name, stores in paths().items()}
    path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}, sort_keys=False))
    return path


@dataclass(frozen=True)
class ManyHops:
    """The stores, initialised; `parameters` of libpq, by store."""

    path: Path
    parameters: Mapping[str, Mapping[str, str]]

    @property
    def routes(self) -> Routes:
        return load_routes(self.path)

    def send(self, route: str, count: int) -> None:
        """Commits this number of messages of the route's topic."""
        statement = "insert into relaybox.outbox (topic, sender, payload) select %s, 'S', 'm' || n from generate_series(1, %s) n"
        given: dict[str, Any] = {**self.parameters[self.routes.route(route).path[0].name]}
        with closing(psycopg2.connect(**given)) as session, session, session.cursor() as cursor:
            cursor.execute(statement, (f"{route}.events", count))

    def transfer(self, route: str, *, hops: int) -> None:
        """Moves what waits through the first hops of a route."""
        for hop in self.routes.route(route).hops[:hops]:
            transfer_hop(hop, ThreadRunner(1), recorded_by="test")


@contextmanager
def many_hops(cluster: Cluster, directory: Path) -> Iterator[ManyHops]:
    """The stores exist while the block runs; PGSERVICEFILE and RELAYBOX_CONFIG lead to them."""
    names = {store: f"many_{next(_numbers)}_{store}" for store in STORES}
    administer(cluster, *(f"create database {name}" for name in names.values()))
    parameters = {store: cluster.parameters(name) for store, name in names.items()}
    try:
        write_service_file(directory / "services.conf", parameters)
        path = write_routes(directory)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("PGSERVICEFILE", str(directory / "services.conf"))
            environment.setenv("RELAYBOX_CONFIG", str(path))
            routes = load_routes(path)
            for store in routes.stores.values():
                initialise_store(store, routes)
            yield ManyHops(path, parameters)
    finally:
        disposal.discard((cluster, name) for name in names.values())
