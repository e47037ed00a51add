"""Real Postgres clusters, made once; three fresh databases for each test, cloned from initialised templates."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
from hypothesis import HealthCheck, settings

from relaybox.local.clusters import Cluster, write_service_file
from relaybox.stores.init.one_store import apply_schema, init_transaction
from tests.support import disposal
from tests.support.administration import administer_all, copy_database
from tests.support.backups import Backups
from tests.support.clocks import shift_servers
from tests.support.kept_sessions import close_kept_sessions
from tests.support.memory import fast_temporary_directory, remove_left_directories
from tests.support.patience import patience
from tests.support.shared_classes import share_classes
from tests.support.stores import read_clusters, running_clusters
from tests.support.world import World, routes_file

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0"))

# How long an example takes says how busy the machine is. The default run is the same every time: what a run finds by chance, the
# change that it runs for has not made. Longer runs look further, and print how to repeat what they found.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not EXAMPLES,
    print_blob=True,
    **({"max_examples": EXAMPLES} if EXAMPLES else {}),
)
settings.load_profile("any machine")

_database_numbers = itertools.count(1)

Parameters = Mapping[str, Mapping[str, str]]


def pytest_configure() -> None:
    """What a killed run left is removed before this one starts.

    A shell starts what runs in the background with Ctrl-C ignored, and its children inherit that: some tests press it.
    """
    remove_left_directories()
    shift_servers(os.environ)
    share_classes(os.environ)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is imported now stays to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Before pytest-timeout reads it: a test's time limit follows the speed of the machine, as every wait in it does."""
    marked = item.get_closest_marker("timeout")
    asked = item.config.getoption("timeout")
    limit = marked.args[0] if marked else float(item.config.getini("timeout") if asked is None else asked)
    item.add_marker(pytest.mark.timeout(patience(limit)), append=False)
    return (yield)


@pytest.fixture(scope="session")
def clusters() -> Iterator[Mapping[str, Cluster]]:
    """Three running clusters, one per store: new ones, or those that RELAYBOX_TEST_CLUSTERS names."""
    if kept := os.environ.get("RELAYBOX_TEST_CLUSTERS"):
        yield read_clusters(Path(kept))
        return
    with fast_temporary_directory("clusters") as directory, running_clusters(directory) as clusters:
        yield clusters


@pytest.fixture(scope="session")
def template(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database in each cluster that is an initialised, empty store."""
    if _has_template(clusters["airline"]):
        return "template_store"
    directory = tmp_path_factory.mktemp("template")
    administer_all(clusters, "create database template_store")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _serve(clusters, "template_store", directory, monkeypatch)
        World(routes_file(directory)).initialise()
    return "template_store"


@pytest.fixture(scope="session")
def template_without_routes(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same, of stores whose routes are not registered yet, for make_world(): World.register() gives them whatever routes they have."""
    name, directory = _new_name(), tmp_path_factory.mktemp("template")
    administer_all(clusters, f"create database {name}")
    with pytest.MonkeyPatch.context() as monkeypatch:
        _serve(clusters, name, directory, monkeypatch)
        for store in World(routes_file(directory)).routes.stores.values():
            with init_transaction(store) as session:
                apply_schema(session, store, 10_000)
                session.commit("init")
    yield name
    disposal.discard((cluster, name) for cluster in clusters.values())


@pytest.fixture
def databases(clusters: Mapping[str, Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parameters]:
    """An empty database in each cluster, and a service file that names them; of no use after the test."""
    name = _new_name()
    administer_all(clusters, copy_database(name, "template1"))
    yield _serve(clusters, name, tmp_path, monkeypatch)
    disposal.discard((cluster, name) for cluster in clusters.values())


@pytest.fixture
def make_world(
    clusters: Mapping[str, Cluster], template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AbstractContextManager[World]]:
    """Makes the route `flights` over three stores, as often as a test wants; each ends at its exit. Empty ones, or copies of a template."""

    @contextmanager
    def make(source: str = template) -> Iterator[World]:
        name = _new_name()
        administer_all(clusters, copy_database(name, source))
        try:
            _serve(clusters, name, tmp_path, monkeypatch)
            path = routes_file(tmp_path)
            monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
            yield World(path)
        finally:
            close_kept_sessions()
            disposal.discard((cluster, name) for cluster in clusters.values())

    return make


@pytest.fixture(scope="session")
def make_template(
    clusters: Mapping[str, Cluster], template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Callable[[World], None]], str]]:
    """Fills three stores once, for make_world() to copy: the name of a database in each cluster, gone with the last test."""
    names = []

    def make(fill: Callable[[World], None]) -> str:
        name, directory = _new_name(), tmp_path_factory.mktemp("filled")
        administer_all(clusters, copy_database(name, template))
        names.append(name)
        with pytest.MonkeyPatch.context() as monkeypatch:
            _serve(clusters, name, directory, monkeypatch)
            world = World(routes_file(directory))
            monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
            fill(world)
        return name

    yield make
    if names:
        disposal.discard((cluster, name) for cluster in clusters.values() for name in names)


@pytest.fixture
def world(make_world: Callable[..., AbstractContextManager[World]]) -> Iterator[World]:
    """The route `flights` over three initialised, empty stores."""
    with make_world() as world:
        yield world


@pytest.fixture
def backups(clusters: Mapping[str, Cluster], world: World) -> Iterator[Backups]:
    """Takes copies of the world's stores and puts them back."""
    backups = Backups(clusters, world)
    yield backups
    backups.drop()


def _new_name() -> str:
    """Of a database; unique among processes that share kept clusters."""
    return f"test_{os.getpid()}_{next(_database_numbers)}"


def _has_template(cluster: Cluster) -> bool:
    with closing(psycopg2.connect(**cluster.parameters("postgres"))) as connection, connection.cursor() as cursor:
        cursor.execute("select from pg_database where datname = 'template_store'")
        return cursor.fetchone() is not None


def _serve(clusters: Mapping[str, Cluster], database: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Parameters:
    """Writes the service file for one database per cluster and points libpq to it."""
    parameters = {store: cluster.parameters(database) for store, cluster in clusters.items()}
    service_file = directory / "services.conf"
    write_service_file(service_file, parameters)
    monkeypatch.setenv("PGSERVICEFILE", str(service_file))
    return parameters
