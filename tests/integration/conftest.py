"""Fixtures of more than one test module of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from relaybox.local.clusters import write_service_file
from tests.support.bare_airflow import build_wheel
from tests.support.world import World, routes_file


@pytest.fixture
def owned(databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Three empty databases whose owner `app_owner` is all that the service file knows; `administer_*` are the superuser's sections."""
    services = {f"administer_{store}": parameters for store, parameters in databases.items()}
    for store, parameters in databases.items():
        services[store] = {**parameters, "user": "app_owner", "password": "secret"}
    write_service_file(tmp_path / "services.conf", services)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(routes_file(tmp_path)))
    world = World(tmp_path / "relaybox.yaml")
    for store, parameters in databases.items():
        world.query(f"administer_{store}", "create role app_owner login password 'secret' createrole")
        world.query(f"administer_{store}", f"alter database {parameters['dbname']} owner to app_owner")
    yield world
    for store in databases:
        world.query(f"administer_{store}", "drop owned by app_owner; reassign owned by app_owner to current_user")
        world.query(f"administer_{store}", "drop role app_owner")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))
