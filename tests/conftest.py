"""Real Postgres clusters, made once; three fresh databases for each test, cloned from initialised templates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg2
import pytest

from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from tests.logins import make_logins_cheap
from tests.world import STORES, World, routes_file

CLUSTER_SETTINGS = {
    "max_prepared_transactions": "600",
    "track_commit_timestamp": "on",
    "shared_buffers": "64MB",
    "max_wal_size": "2GB",
}
_database_numbers = itertools.count(1)

Parameters = Mapping[str, Mapping[str, str]]


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Cluster]]:
    """Three running clusters, one per store."""
    directory = tmp_path_factory.mktemp("clusters")
    clusters = {store: create_cluster(store, directory / store, settings=CLUSTER_SETTINGS) for store in STORES}
    try:
        for cluster in clusters.values():
            cluster.start()
            make_logins_cheap(cluster)
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.remove()


@pytest.fixture(scope="session")
def template(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database in each cluster that is an initialised, empty store."""
    directory = tmp_path_factory.mktemp("template")
    _administer_all(clusters, "create database template_store")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _serve(clusters, "template_store", directory, monkeypatch)
        World(routes_file(directory)).initialise()
    return "template_store"


@pytest.fixture
def databases(clusters: Mapping[str, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parameters]:
    """An empty database in each cluster, and a service file that names them; gone after the test."""
    name = f"test_{next(_database_numbers)}"
    _administer_all(clusters, f"create database {name}")
    yield _serve(clusters, name, tmp_path, monkeypatch)
    _administer_all(clusters, f"drop database {name} with (force)")


@pytest.fixture
def world(clusters: Mapping[str, Cluster], template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The route `flights` over three initialised, empty stores."""
    name = f"test_{next(_database_numbers)}"
    _administer_all(clusters, f"create database {name} template {template}")
    _serve(clusters, name, tmp_path, monkeypatch)
    path = routes_file(tmp_path)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    yield World(path)
    _administer_all(clusters, f"drop database {name} with (force)")


def _serve(clusters: Mapping[str, Cluster], database: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Parameters:
    """Writes the service file for one database per cluster and points libpq to it."""
    parameters = {store: cluster.parameters(database) for store, cluster in clusters.items()}
    service_file = directory / "services.conf"
    write_service_file(service_file, parameters)
    monkeypatch.setenv("PGSERVICEFILE", str(service_file))
    return parameters


def _administer_all(clusters: Mapping[str, Cluster], statement: str) -> None:
    with ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(lambda cluster: _administer(cluster, statement), clusters.values()))


def _administer(cluster: Cluster, statement: str) -> None:
    connection = psycopg2.connect(**cluster.parameters("postgres"))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()
