"""Airflow in the test process: an empty home, and a metadata database that cannot be opened, so that nothing here leans on one."""

from __future__ import annotations

import atexit
import configparser
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from relaybox.local.scratch import make_scratch, remove_scratch
from tests.airflow.page_client import PageServer, page_server
from tests.support.world import World

REPOSITORY = Path(__file__).resolve().parents[2]

HOME = make_scratch("airflow-tests")
atexit.register(remove_scratch, HOME)

# Airflow reads its configuration when it is first imported, hence before any test module.
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(REPOSITORY / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(REPOSITORY / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="sqlite:////nowhere/at/all.db",
)


@pytest.fixture
def connected(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three initialised stores, each with its Airflow connection."""
    services = configparser.ConfigParser(interpolation=None)
    services.read(os.environ["PGSERVICEFILE"])
    for store in world.routes.stores.values():
        monkeypatch.setenv(*connection_variable(store.connection, services[store.service]))
    return world


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A whole API server with the page; the tests of a module share it."""
    with page_server(tmp_path_factory.mktemp("page")) as server:
        yield server


@pytest.fixture
def page(server: PageServer, connected: World) -> PageServer:
    """The page over this test's stores, which it has not asked yet."""
    from relaybox.airflow.page.store_overview import StoreOverview  # imports Airflow

    server.page.state.gathering = StoreOverview()
    return server


def connection_variable(connection: str, parameters: Mapping[str, str]) -> tuple[str, str]:
    """The environment variable that gives Airflow a connection."""
    return f"AIRFLOW_CONN_{connection.upper()}", json.dumps(connection_fields(parameters))


def connection_fields(parameters: Mapping[str, str]) -> dict[str, object]:
    """libpq's words for a database in Airflow's."""
    return {
        "conn_type": "postgres",
        "host": parameters["host"],
        "port": int(parameters["port"]),
        "login": parameters["user"],
        "password": parameters["password"],
        "schema": parameters["dbname"],
    }
