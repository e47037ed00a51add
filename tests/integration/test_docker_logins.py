"""The logins that docker/store-logins.sql and docker/metadata-logins.sql make do what their containers do, and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from relaybox.local.clusters import Cluster, create_cluster, postgres_program, write_service_file
from tests.support.cli import invoke
from tests.support.world import STORES, World, routes_file

pytestmark = pytest.mark.thorough

DOCKER = Path(__file__).resolve().parents[2] / "docker"
LOGINS = ("relaybox", "relaybox_page", "relaybox_triggerer")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own: the scripts make roles and take rights from everybody in it."""
    cluster = create_cluster(
        "containers", tmp_path / "cluster", settings={"shared_buffers": "16MB", "fsync": "on", "full_page_writes": "on"}
    )
    cluster.start()
    administer(cluster, "create role other superuser login password 'other'")
    administer(replace(cluster, user="other", password="other"), f"alter role {cluster.user} rename to postgres")
    yield replace(cluster, user="postgres")
    cluster.remove()


def run_script(cluster: Cluster, script: str, database: str, logins: Path) -> None:
    """As the entrypoint of the image does, in a database of its own."""
    parameters = {**cluster.parameters(database)}
    conninfo = " ".join(f"{key}={value}" for key, value in parameters.items())
    command = [postgres_program("psql"), "--no-psqlrc", "--dbname", conninfo, "-v", f"logins={logins}", "--file", DOCKER / script]
    subprocess.run(command, check=True, capture_output=True, text=True)


def administer(cluster: Cluster, statement: str) -> None:
    connection = psycopg2.connect(**cluster.parameters())
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()


def serve_as(cluster: Cluster, login: str, path: Path) -> None:
    """Has the services of all stores log in as this role."""
    write_service_file(
        path, {store: {**cluster.parameters(store), "user": login, "password": f"{login}-secret"} for store in STORES}
    )


def test_each_login_of_a_store_does_its_work_and_no_more(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No superuser among them; a second run of the script changes passwords, and nothing else."""
    logins, services = tmp_path / "logins.sql", tmp_path / "services.conf"
    passwords = {"relaybox": "relaybox-secret", "page": "relaybox_page-secret", "triggerer": "relaybox_triggerer-secret"}
    logins.write_text("".join(f"\\set {name}_password '{password}'\n" for name, password in passwords.items()))
    for store in STORES:
        administer(cluster, f"create database {store}")
        run_script(cluster, "store-logins.sql", store, logins)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    world = World(routes_file(tmp_path))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))

    serve_as(cluster, "relaybox", services)
    for _ in range(2):
        first = invoke("init")
        assert (first.exit_code, "every login" in first.stdout) == (0, False), first.stderr
    world.send_many(10)
    for command in ("transfer flights/1", "transfer flights/2", "confirm flights", "verify flights", "retention"):
        assert invoke(*command.split()).exit_code == 0, command
    assert (
        world.value("hub", "select bool_or(rolsuper or rolcreaterole) from pg_roles where rolname = any(%s)", list(LOGINS))
        is False
    )

    for login in ("relaybox_page", "relaybox_triggerer"):
        serve_as(cluster, login, services)
        for command in ("status", "metrics", "subscriptions"):
            assert invoke(*command.split()).exit_code == 0, (login, command)
        for refused in ("insert into relaybox.outbox (topic, sender) values ('flights', 'UA')", "create temporary table t ()"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                world.query("hub", refused)
        with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
            psycopg2.connect(service="hub", dbname="postgres")


def test_the_login_of_airflow_owns_its_database_and_is_no_superuser(cluster: Cluster, tmp_path: Path) -> None:
    """It makes its tables there, and connects nowhere else."""
    logins = tmp_path / "logins.sql"
    logins.write_text("\\set airflow_password 'airflow-secret'\n")
    administer(cluster, "create database airflow")
    for _ in range(2):
        run_script(cluster, "metadata-logins.sql", "airflow", logins)
    parameters = {**cluster.parameters("airflow"), "user": "airflow", "password": "airflow-secret"}
    with psycopg2.connect(**parameters) as session, session.cursor() as cursor:
        cursor.execute("create table dag (dag_id text); select rolsuper from pg_roles where rolname = current_user")
        assert cursor.fetchone() == (False,)
    session.close()
    with pytest.raises(psycopg2.OperationalError, match="permission denied for database"):
        psycopg2.connect(**{**parameters, "dbname": "postgres"})
