"""docs/logins.md: the statements that make the owner, its database and the logins, run as a superuser and as a login with createrole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg2
import psycopg2.errors
import pytest

from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from tests.support.cli import invoke

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logins.md"
INIT = "relaybox init"
LOGINS = {
    "relaybox": {"pg_read_all_stats"},
    "relaybox_tasks": {"relaybox_driver", "pg_read_all_stats", "pg_signal_backend"},
    "relaybox_page": {"relaybox_viewer", "pg_read_all_stats"},
    "shop": {"relaybox_producer"},
    "billing": {"relaybox_consumer"},
    "ada": {"relaybox_operator", "relaybox_consumer", "relaybox_viewer"},
}
"""Login -> the roles whose rights it has."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own, without the roles of Relaybox."""
    cluster = create_cluster("logins", tmp_path / "cluster", settings={"fsync": "on", "full_page_writes": "on"})
    cluster.start()
    run(cluster, "create role other superuser login password 'other'")
    run(replace(cluster, user="other", password="other"), f"alter role {cluster.user} rename to postgres")
    run(replace(cluster, user="other", password="other"), f"alter role postgres password '{cluster.password}'")
    yield replace(cluster, user="postgres")
    cluster.remove()


@pytest.fixture
def dba(cluster: Cluster) -> Cluster:
    """The login of a managed service; its provider lets it grant the predefined roles."""
    run(cluster, "create role dba login createrole createdb password 'dba'")
    run(cluster, "grant pg_read_all_stats, pg_signal_backend to dba with admin option")
    return replace(cluster, user="dba", password="dba")


def steps_of(column: int) -> list[list[str]]:
    """The cells of a column of the table; column 1 is the superuser's. Each cell has one or more statements."""
    table = PAGE.read_text(encoding="utf-8").split("<!-- statements:")[1].split("<!-- end of statements -->")[0]
    rows = [line.split(" | ") for line in table.splitlines() if re.match(r"\| \d+\. ", line)]
    return [re.findall(r"`([^`]+)`", row[column]) for row in rows]


def run(cluster: Cluster, statement: str, database: str = "postgres") -> Sequence[tuple[str, ...]]:
    connection = psycopg2.connect(**cluster.parameters(database))
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.description else []
    connection.close()
    return rows


def follow(cluster: Cluster, administrator: Cluster, column: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the whole column; init logs in as the owner that the column made."""
    services, routes = path / "services.conf", path / "relaybox.yaml"
    owner = {**cluster.parameters("hub"), "user": "relaybox", "password": "..."}
    write_service_file(services, {"hub": owner})
    routes.write_text("stores: {hub: {}}\nroutes: {flights: {topics: [flights], path: [hub, hub]}}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(routes))
    for statement in [statement for step in steps_of(column) for statement in step]:
        if statement == INIT:
            done = invoke("init")
            assert done.exit_code == 0, done.stderr
        else:
            run(administrator, statement)
    rights = run(
        cluster,
        "select l.rolname, array_agg(r.rolname::text) from pg_roles l join pg_roles r on pg_has_role(l.oid, r.oid, 'usage')"
        " and r.oid <> l.oid and r.rolname ~ '^(relaybox_[a-z]+r|pg_.*)$' where l.rolname !~ '^pg_' and not l.rolsuper"
        " and l.rolname <> 'dba' group by l.rolname",
    )
    assert {login: set(roles) for login, roles in rights} == LOGINS
    sending = "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', '1')"
    run(replace(cluster, user="shop", password="..."), sending, "hub")
    write_service_file(services, {"hub": {**owner, "user": "relaybox_tasks"}})
    assert invoke("transfer", "flights/1").exit_code == 0
    write_service_file(services, {"hub": {**owner, "user": "relaybox_page"}})
    assert invoke("status").exit_code == 0
    assert run(replace(cluster, user="billing", password="..."), "select relaybox.subscribe('b', 'flights')", "hub") == [(1,)]


def test_the_statements_that_make_the_logins_work(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow(cluster, cluster, 1, tmp_path, monkeypatch)


def test_the_statements_for_a_managed_service_work(
    cluster: Cluster, dba: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login with createrole and createdb runs all of them; another login with createrole has no role to grant."""
    follow(cluster, dba, 2, tmp_path, monkeypatch)
    run(cluster, "create role third login createrole password 'third'")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="ADMIN option"):
        run(replace(cluster, user="third", password="third"), "grant relaybox_consumer to third")


def test_each_statement_of_a_managed_service_is_needed(cluster: Cluster, dba: Cluster) -> None:
    """Without the membership no database is given to the owner; without the admin option no right to watch."""
    (owner, membership), (database,), (watching,), *_ = steps_of(2)
    run(dba, owner)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="must be able to SET ROLE"):
        run(dba, database)
    run(dba, membership)
    run(dba, database)
    run(cluster, "revoke pg_read_all_stats from dba")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="ADMIN option"):
        run(dba, watching)
    held = "select pg_has_role('dba', 'pg_read_all_stats', 'member with admin option')"
    assert run(cluster, held) == [(False,)]
    run(cluster, "grant pg_read_all_stats to dba with admin option")
    assert run(cluster, held) == [(True,)]
