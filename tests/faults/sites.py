"""Where a cell runs: two clusters that live long, and for each cell three fresh databases, cloned from empty stores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from relaybox.env_vars import environment
from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from relaybox.routes import Hop, Route, Routes, load_routes
from relaybox.stores.init.one_store import initialise_store
from tests.faults import adopted, derived
from tests.faults.drivers import Mission
from tests.faults.proxy import Proxy
from tests.faults.stores import UNDISTURBED
from tests.support.administration import copy_database
from tests.support.disposal import discard
from tests.support.logins import make_logins_cheap

STORES = ("airline", "hub", "analytics")

LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "outbox": {"airline": "source", "hub": "destination", "analytics": "destination"},
    "log": {"airline": "source", "hub": "source", "analytics": "destination"},
    "processed": {"airline": "source", "hub": "source", "analytics": "destination"},
    "topics": {"airline": "source", "hub": "destination", "analytics": "destination"},
    "derived": {"airline": "source", "hub": "destination", "analytics": "source"},
    "adopted": {"airline": "source", "hub": "destination", "analytics": "destination"},
}
"""Which cluster holds which store, so that the hop under test always goes from `source` to `destination`."""

TESTED_HOP = {
    "outbox": "flights/1",
    "log": "flights/2",
    "processed": "flights/2",
    "topics": "flights/1",
    "derived": "flights/1",
    "adopted": "flights/1",
}
"""The first hop of a site of kind `derived` brings the messages from which is derived at its destination."""

RULES: Mapping[str, Mapping[str, Any]] = {
    "outbox": {},
    "log": {},
    "processed": {"policy": "processed", "processed_by": ["billing", "audit"]},
    "topics": {"topics_by_subscription": True},
    "derived": {},
    "adopted": {},
}
"""What the route says beside its path: nothing, that subscriptions settle it, or that they choose its topics."""

DERIVED_ROUTE: Mapping[str, Any] = {
    "topics": [derived.ROUTE],
    "path": ["hub", "analytics"],
    "derive": {"from": "flights", "with": derived.FUNCTION, "version": 1, "row_errors": "dead_letter"},
}
"""The second route of a site of kind `derived`."""

SETTINGS = {
    "shared_buffers": "32MB",
    "max_wal_size": "2GB",
    "max_prepared_transactions": "20",
    "wal_writer_delay": "10s",  # a killed cluster loses every commit that nobody waited for
    "autovacuum": "off",  # thousands of short-lived databases would keep it busy
}

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Clusters:
    """The clusters `source` and `destination`, each with a proxy in front that the drivers under test go through."""

    clusters: Mapping[str, Cluster]
    proxies: Mapping[str, Proxy]
    segment_rows: int
    templates: set[tuple[str, str]] = field(default_factory=set)
    """Initialised, empty databases that were made so far, as (side, database)."""


@dataclass(frozen=True)
class Site:
    """Three empty stores with the route `flights`; PGSERVICEFILE of this process names them, past the proxies."""

    sides: Clusters
    kind: str  # of LAYOUTS
    directory: Path
    databases: Mapping[str, str]
    undo: ExitStack = field(default_factory=ExitStack)
    """What a fault has changed for long; taken back when the site is left, with both clusters running."""

    @property
    def routes(self) -> Routes:
        return load_routes(self.routes_file)

    @property
    def route(self) -> Route:
        return self.routes.route("flights")

    @property
    def hop(self) -> Hop:
        """The hop under test."""
        return self.routes.hop(TESTED_HOP[self.kind])

    @property
    def hops(self) -> tuple[Hop, ...]:
        """All hops, each route's in its order: the derived route after the one whose messages it derives from."""
        return tuple(hop for route in ("flights", derived.ROUTE)[: 1 + self.derives] for hop in self.routes.route(route).hops)

    @property
    def derives(self) -> bool:
        """Whether a derivation is under test, and not a hop."""
        return self.kind == "derived"

    @property
    def adopts(self) -> bool:
        """Whether the producers write into adopted tables."""
        return self.kind == "adopted"

    @property
    def work(self) -> str:
        """What the driver under test does, as mission() takes it."""
        return derived.ROUTE if self.derives else self.hop.name

    def raise_version(self) -> None:
        """Gives the derivation its next version in relaybox.yaml."""
        content = yaml.safe_load(self.routes_file.read_text(encoding="utf-8"))
        content["routes"][derived.ROUTE]["derive"]["version"] += 1
        self.routes_file.write_text(yaml.safe_dump(content), encoding="utf-8")

    @property
    def routes_file(self) -> Path:
        return self.directory / "relaybox.yaml"

    @property
    def services_file(self) -> Path:
        return self.directory / "services.conf"

    @property
    def proxied_services_file(self) -> Path:
        return self.directory / "proxied.conf"

    def mission(self, work: str, *, proxied: bool = False, repair: str = "", fails_first: bool = False) -> Mission:
        """To move a hop and settle it; where `work` is the route of the derivation, to derive; or a command of adoption."""
        services = self.proxied_services_file if proxied else self.services_file
        if work == derived.ROUTE:
            return Mission(self.routes_file, services, "", derives=work, fails_first=fails_first)
        if work in adopted.COMMANDS:
            return Mission(self.routes_file, services, "", adoption=work)
        return Mission(self.routes_file, services, work, repair)

    def administer(self, side: str, statement: str, *arguments: object) -> list[tuple[object, ...]]:
        """Runs a statement in the database `postgres` of a cluster."""
        return administer(self.sides.clusters[side], statement, *arguments)

    def cluster_of(self, store: str) -> Cluster:
        return self.sides.clusters[LAYOUTS[self.kind][store]]

    def database(self, side: str) -> str:
        """The database of the hop under test in a cluster."""
        return self.databases[self.hop.source.name if side == "source" else self.hop.destination.name]


@dataclass(frozen=True)
class SetUp:
    """What an administrator does to the stores of a site; each gets the site and a store."""

    before_init: Callable[[Site, str], None] | None = None  # with it each store is initialised for itself, not cloned
    after_init: Callable[[Site, str], None] | None = None


@contextmanager
def running_clusters(directory: Path, *, segment_rows: int) -> Iterator[Clusters]:
    """Both clusters with their proxies. They end with the context.

    Args:
        directory: for their data and files.
        segment_rows: small enough that segments are made while a cell runs.
    """
    with ExitStack() as stack:
        clusters = {side: create_cluster(side, directory / side, settings=SETTINGS) for side in ("source", "destination")}
        for cluster in clusters.values():
            stack.callback(cluster.remove)
            cluster.start()
            make_logins_cheap(cluster)
        proxies = {side: stack.enter_context(Proxy(cluster.host, cluster.port)) for side, cluster in clusters.items()}
        yield Clusters(clusters, proxies, segment_rows)


@contextmanager
def fresh_site(sides: Clusters, kind: str, directory: Path, *, batch_rows: int, set_up: SetUp | None = None) -> Iterator[Site]:
    """Three databases that are of no use afterwards; a batch has `batch_rows` messages at most, in two slices."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"cell_{next(_numbers)}"
    site = Site(sides, kind, directory, {store: f"{name}_{store}" for store in STORES})
    _write_routes(site.routes_file, batch_rows, kind)
    clone = set_up is None or set_up.before_init is None
    templates = {store: _template(site, store, side) if clone else "template1" for store, side in LAYOUTS[kind].items()}
    _each(
        LAYOUTS[kind],
        lambda store, side: site.administer(side, copy_database(f"{name}_{store}", templates[store])),
    )
    for path, proxied in ((site.services_file, False), (site.proxied_services_file, True)):
        write_service_file(path, {store: _parameters(site, store, proxied=proxied) for store in STORES})
    try:
        with environment(PGSERVICEFILE=str(site.services_file)):
            if set_up is not None:
                _set_up(site, set_up)
            if site.adopts:  # not in the template: a crash would set back a sequence that a clone was made with in the middle
                adopted.adopt_first_tables(site.routes.stores[STORES[0]])
            yield site
    finally:
        for side in ("source", "destination"):
            sides.proxies[side].reset()
            sides.proxies[side].heal()
            sides.clusters[side].start()
        site.undo.close()
        discard((sides.clusters[side], site.databases[store]) for store, side in LAYOUTS[kind].items())


def administer(cluster: Cluster, statement: str, *arguments: object) -> list[tuple[object, ...]]:
    return _ask(cluster, "postgres", statement, *arguments)


def _ask(cluster: Cluster, database: str, statement: str, *arguments: object) -> list[tuple[object, ...]]:
    with closing(psycopg2.connect(**cluster.parameters(database), options=UNDISTURBED)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments or None)
            return list(cursor.fetchall()) if cursor.description else []


def _parameters(site: Site, store: str, *, proxied: bool) -> dict[str, str]:
    side = LAYOUTS[site.kind][store]
    parameters = site.sides.clusters[side].parameters(site.databases[store])
    return parameters | {"port": str(site.sides.proxies[side].port)} if proxied else parameters


def _template(site: Site, store: str, side: str) -> str:
    """The initialised, empty database that a store of such a site begins as. Made once."""
    name = f"template_{'_'.join([*RULES[site.kind], *([site.kind] if site.derives or site.adopts else []), store])}"
    if (side, name) not in site.sides.templates:
        site.administer(side, f"create database {name}")
        services = site.directory / "template.conf"
        write_service_file(services, {store: site.sides.clusters[side].parameters(name)})
        with environment(PGSERVICEFILE=str(services)):
            _initialise(site, store, side, name)
        site.sides.templates.add((side, name))
    return name


def _set_up(site: Site, set_up: SetUp) -> None:
    for store, side in LAYOUTS[site.kind].items():
        if set_up.before_init is not None:
            set_up.before_init(site, store)
            _initialise(site, store, side, site.databases[store])
        if set_up.after_init is not None:
            set_up.after_init(site, store)


def _initialise(site: Site, store: str, side: str, database: str) -> None:
    """`relaybox init`, of the database that PGSERVICEFILE names for the store; its consumers subscribe."""
    initialise_store(site.routes.stores[store], site.routes, segment_rows=site.sides.segment_rows)
    for subscription in site.routes.route("flights").hops[-1].processed_by if store == STORES[-1] else ():
        _ask(site.sides.clusters[side], database, "select relaybox.subscribe(%s, 'flights')", subscription)
    if site.adopts and store == STORES[0]:
        _ask(site.sides.clusters[side], database, adopted.MAKE_TABLES)


def _write_routes(path: Path, batch_rows: int, kind: str) -> None:
    limits = {"batch_rows": batch_rows, "slice_rows": max(1, batch_rows // 2), "slice_timeout_seconds": 30}
    flights = {"topics": ["flights"], "path": list(STORES), "limits": limits, **RULES[kind]}
    routes: dict[str, Any] = {"flights": flights}
    if kind == "derived":
        derive = {**DERIVED_ROUTE["derive"], "batch_rows": max(2, batch_rows // 2)}
        routes[derived.ROUTE] = {**DERIVED_ROUTE, "derive": derive, "limits": limits}
    stores: dict[str, Any] = {store: {} for store in STORES}
    if kind == "adopted":
        stores[STORES[0]] = {"adopt": {table: dict(mapped) for table, mapped in adopted.ADOPT.items()}}
    path.write_text(yaml.safe_dump({"stores": stores, "routes": routes}))


def _each(layout: Mapping[str, str], act: Callable[[str, str], object]) -> None:
    with ThreadPoolExecutor(len(layout)) as pool:
        list(pool.map(act, layout.keys(), layout.values()))
