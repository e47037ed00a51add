"""What an installed Relaybox is to Airflow: a provider with a type of connection, and a plugin that is there once."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk import task

import relaybox
from relaybox.airflow import decorators, messaging
from relaybox.airflow.hook import StoreHook
from relaybox.airflow.libpq_parameters import EXTRAS, TOKEN_EXTRAS
from relaybox.airflow.plugin import RelayboxPlugin
from tests.airflow.conftest import REPOSITORY
from tests.airflow.connections import change_connection
from tests.support.world import World

PLUGIN = REPOSITORY / "plugins" / "relaybox_plugin.py"


def test_airflow_knows_the_provider_and_its_connection() -> None:
    """Airflow checks what the entry point gives against its schema, and leaves out what does not fit."""
    manager = ProvidersManager()
    assert manager.providers["relaybox"].version == relaybox.__version__
    hook = manager.hooks["relaybox"]
    assert hook is not None
    assert (hook.hook_class_name, hook.hook_name) == ("relaybox.airflow.hook.StoreHook", "Relaybox store")
    assert manager.field_behaviours["relaybox"]["relabeling"] == {"schema": "Database"}
    fields = {name.removeprefix("extra__relaybox__") for name in manager.connection_form_widgets if "__relaybox__" in name}
    assert fields
    assert fields <= EXTRAS | TOKEN_EXTRAS


def test_airflow_finds_the_decorator_and_the_queue() -> None:
    queue = messaging.RelayboxMessageQueueProvider
    assert f"{queue.__module__}.{queue.__qualname__}" in ProvidersManager().queue_class_names
    assert task.relaybox_consume is decorators.consume_task


def test_the_provider_costs_components_no_import_of_airflow() -> None:
    program = "import sys, relaybox.airflow.provider as p; p.get_provider_info(); print('airflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout == "False\n"


@pytest.mark.parametrize("conn_type", ["relaybox", "postgres"])
def test_the_test_button_says_what_the_login_may(connected: World, monkeypatch: pytest.MonkeyPatch, conn_type: str) -> None:
    login = f"tests_{conn_type}"
    connected.query("hub", f"create role {login} login password 'p'")
    change_connection(monkeypatch, "RELAYBOX_HUB", conn_type=conn_type, login=login, password="p")
    hook = StoreHook("relaybox_hub")
    works, told = hook.test_connection()
    assert not works
    assert f"grant relaybox_driver to {login};" in told
    connected.query("hub", f"grant relaybox_driver to {login}")
    works, told = hook.test_connection()
    assert works, told
    assert f"as {login}, on Postgres" in told
    assert told.endswith("The login has: relaybox_driver.")
    connected.query("hub", f"drop role {login}")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"password": "wrong"}, "password authentication failed"),
        ({"schema": "postgres"}, "It is no store yet. Run: relaybox init"),
        ({"schema": ""}, "it has no schema (the database)"),
        ({"extra": {"sslmod": "require"}}, "its extra sslmod is not passed on to libpq; Did you mean sslmode?"),
        ({"extra": {"sslmode": "verify-full"}}, "SSL"),
    ],
)
def test_the_test_button_says_why_it_does_not_work(
    connected: World, monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], problem: str
) -> None:
    change_connection(monkeypatch, "RELAYBOX_HUB", **fields)
    works, told = StoreHook("relaybox_hub").test_connection()
    assert not works
    assert problem in told
    assert "\n" not in told


def test_fields_of_the_form_that_are_empty_ask_for_nothing(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's form sends all of its fields."""
    extra = {"iam": None, "aws_conn_id": None, "azure_conn_id": "", "sslmode": "prefer", "sslrootcert": None}
    change_connection(monkeypatch, "RELAYBOX_HUB", conn_type="relaybox", extra=extra)
    works, told = StoreHook("relaybox_hub").test_connection()
    assert works, told


def test_a_plugin_that_is_installed_and_mounted_is_there_once(tmp_path: Path) -> None:
    assert plugin_names(REPOSITORY / "plugins").count("relaybox") == 1
    empty = tmp_path / "plugins"
    empty.mkdir()
    assert plugin_names(empty).count("relaybox") == 1


def plugin_names(folder: Path) -> list[str]:
    """What `airflow plugins` lists, when this is its plugins folder."""
    environment = {**os.environ, "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "plugins", "--output", "json"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Failed to import" not in done.stdout + done.stderr
    assert "already registered" not in done.stdout + done.stderr
    return [plugin["name"] for plugin in json.loads(done.stdout[done.stdout.index("[{") :])]


def test_a_mounted_package_beside_an_installed_one_is_an_error(tmp_path: Path) -> None:
    """Nothing uses it: whoever changes it would wait for ever for the change."""
    (tmp_path / "relaybox").mkdir()
    mounted = tmp_path / PLUGIN.name
    mounted.write_text(PLUGIN.read_text())
    with pytest.raises(ImportError, match=f"is installed in .*, and mounted in {tmp_path}/relaybox, which nothing uses"):
        runpy.run_path(str(mounted))


def test_a_mounted_checkout_brings_the_plugin_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the dependencies of Relaybox are installed."""
    found = metadata.entry_points
    monkeypatch.setattr(metadata, "entry_points", lambda **asked: () if asked["group"] == "airflow.plugins" else found(**asked))
    assert runpy.run_path(str(PLUGIN))["RelayboxPlugin"] is RelayboxPlugin
