"""The login that Relaybox is given owns its schema; it need be no superuser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox.local.clusters import write_service_file
from tests.support.cli import invoke
from tests.support.world import World, routes_file, wait_until

OLDEST = 'relaybox_store_oldest_transaction_seconds{store="airline"}'


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


def test_an_owner_that_is_no_superuser_does_everything(owned: World) -> None:
    """Init, moving, confirming, proving, dropping, repairing: every command ends well."""
    assert invoke("init").exit_code == 0
    owned.send_many(100)
    for command in (
        "transfer flights/1", "transfer flights/2", "confirm flights", "status", "verify flights", "metrics", "holdback",
        "retention", "retire", "subscriptions", "senders", "reanchor flights/1", "attest airline --reason looked",
    ):  # fmt: skip
        run = invoke(*command.split())
        assert run.exit_code == 0, (command, run.stderr)


def test_an_owner_sees_open_transactions_of_others_with_pg_read_all_stats(owned: World) -> None:
    """Without it Postgres hides when they began, and the alarm for them is blind."""
    assert invoke("init").exit_code == 0
    with psycopg2.connect(service="administer_airline") as applications, applications.cursor() as cursor:
        cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'open')")
        assert f"{OLDEST} 0\n" in invoke("metrics").stdout
        owned.query("administer_airline", "grant pg_read_all_stats to app_owner")
        wait_until(lambda: f"{OLDEST} 0\n" not in invoke("metrics").stdout, "the transaction is seen")
        applications.rollback()
    applications.close()
