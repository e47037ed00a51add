"""`relaybox --airflow`: a command reaches its stores by what Airflow has, and nothing else has a copy of a password."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import run
from tests.support.patience import patience
from tests.support.world import World


def airflow(*arguments: str) -> None:
    """Runs a command of Airflow in a process of its own: in this one it would set up the logging of all tests."""
    command = [sys.executable, "-m", "airflow", *arguments]
    subprocess.run(command, check=True, capture_output=True, timeout=patience(120))


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's database, without a connection."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path}/airflow.db")
    airflow("db", "migrate")


@pytest.fixture
def logins(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, object]]:
    """What each store's connection has to say, by its name; from here on no service file says it."""
    world.initialise()
    services = configparser.ConfigParser(interpolation=None)
    services.read(os.environ["PGSERVICEFILE"])
    monkeypatch.delenv("PGSERVICEFILE")
    monkeypatch.setenv("HOME", str(world.path.parent))
    return {
        store.connection: {
            "conn_type": "postgres",
            "host": services[store.service]["host"],
            "port": int(services[store.service]["port"]),
            "schema": services[store.service]["dbname"],
            "login": services[store.service]["user"],
            "password": services[store.service].get("password"),
        }
        for store in world.routes.stores.values()
    }


def test_connections_of_airflows_database(
    database: None, logins: dict[str, dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """stdout is the command's document alone: what Airflow logs is not on it. No file with a password is left behind.

    A store without a connection is named, and stops no other.
    """
    file = tmp_path / "connections.json"
    file.write_text(json.dumps({name: fields for name, fields in logins.items() if name != "relaybox_analytics"}))
    airflow("connections", "import", str(file))
    file.unlink()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    moved = run("--airflow", "transfer", "flights/1", "--json")
    assert moved.exit_code == 0
    assert moved.document
    refused = run("--airflow", "transfer", "flights/2", "--json")
    assert refused.exit_code == 2
    assert refused.document["error"]["kind"] == "ConfigurationError"
    assert "Airflow has no connection relaybox_analytics" in refused.document["error"]["message"]
    assert "airflow connections add relaybox_analytics" in refused.document["error"]["next_step"]
    assert list(scratch.iterdir()) == []


def test_a_secrets_backend(logins: dict[str, dict[str, object]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "connections.json"
    file.write_text(json.dumps(logins))
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "airflow.secrets.local_filesystem.LocalFilesystemBackend")
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"connections_file_path": str(file)}))
    monkeypatch.setenv("RELAYBOX_AIRFLOW", "1")
    assert run("transfer", "flights/1").exit_code == 0
    examined = run("doctor", "--all", "--json").document["stores"]
    assert [result for store in examined for result in store["results"] if result["check"] == "connection"] == []
    assert all(len(store["results"]) > 5 for store in examined)


def test_without_airflow_it_says_so(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package alone is installed for the command line of many."""
    package = tmp_path / "airflow"
    package.mkdir()
    (package / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'airflow'\", name='airflow')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    refused = run("--airflow", "status")
    assert refused.exit_code == 2
    assert "--airflow: Airflow can't be imported here" in refused.stderr
