"""Airflow in the test process: an empty home, and a metadata database that cannot be opened, so that nothing here leans on one."""

from __future__ import annotations

import atexit
import configparser
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from relaybox.local.scratch import make_scratch, remove_scratch
from tests.world import World

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
