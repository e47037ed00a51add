"""What docs/getting-started.md shows is run, as it stands there: from a venv with nothing but Airflow to the first delivered message.

Airflow comes from the package registry, in the versions of tests/versions/airflow-highest.txt; the wheel of Relaybox is built of the tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGTERM

import psycopg2
import pytest

from relaybox.local.airflow_client import AirflowClient
from relaybox.local.airflow_standalone import AirflowPorts
from relaybox.local.binaries import postgres_binaries
from relaybox.local.clusters import Cluster, create_cluster
from relaybox.local.processes import spawn
from tests.support.bare_airflow import VERSIONS, BareAirflow, make_bare_airflow
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[2] / "docs" / "getting-started.md"
BLOCK = re.compile(r"^```sh(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
APPLICATIONS = {"shop": "webshop", "billing": "invoices"}
"""Store -> the login of the application that uses its database already."""

COMPONENTS = {
    "scheduler": "tasks.env",
    "triggerer": "page.env",
    "api-server": "page.env",
    "dag-processor": None,
}
"""Component of Airflow -> the file of variables that the page gives to it."""

STEP_SECONDS = 300.0


@dataclass(frozen=True)
class Team:
    """What the reader of the page has: Airflow with a metadata database, two databases of applications, a directory, a shell."""

    airflow: BareAirflow
    home: Path
    directory: Path
    databases: Mapping[str, Cluster]
    variables: Mapping[str, str] = field(repr=False)
    ports: AirflowPorts

    def run(self, commands: str, *, may_fail: bool = False) -> str:
        """What a shell prints that stops at the first failure."""
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            env=dict(self.variables),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=patience(STEP_SECONDS),
        )
        assert may_fail or ran.returncode == 0, f"{commands}\n{ran.stdout}"
        return ran.stdout

    def run_until(self, commands: str, is_done: Callable[[str], object]) -> str:
        """Runs the commands again and again, as one does who waits, until they print what is expected."""
        printed = ""

        def done() -> bool:
            nonlocal printed
            printed = self.run(commands, may_fail=True)
            return bool(is_done(printed))

        try:
            wait_until(done, "the page's commands print what it says", deadline_seconds=STEP_SECONDS, poll_seconds=0.5)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{commands}\n{printed}\n{self.logs()}") from late
        return printed

    def logs(self) -> str:
        """The end of what each component said."""
        ends = [f"{path.name}:\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(self.home.glob("*.log"))]
        return "\n".join(ends)

    @contextmanager
    def running(self) -> Iterator[AirflowClient]:
        """All components of Airflow, each with the variables of its file."""
        with ExitStack() as started:
            for component, file in COMPONENTS.items():
                guard = spawn(
                    [sys.executable, "-m", "relaybox.local.guard", self.airflow.bin / "airflow", component],
                    env={**self.variables, **self._variables_of(file)},
                    log=self.home / f"{component}.log",
                    cwd=self.home,
                    death_signal=SIGTERM,
                )
                started.callback(guard.wait)
                started.callback(guard.terminate)
            yield AirflowClient(self.ports.api)

    def _variables_of(self, file: str | None) -> dict[str, str]:
        if file is None:
            return {"RELAYBOX_CONFIG": str(self.directory / "relaybox.yaml")}
        lines = (self.directory / file).read_text(encoding="utf-8").splitlines()
        return dict(line.split("=", 1) for line in lines)


def administer(cluster: Cluster, *statements: str, database: str = "postgres") -> None:
    with closing(psycopg2.connect(**cluster.parameters(database))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


def value(cluster: Cluster, database: str, query: str) -> object:
    with closing(psycopg2.connect(**cluster.parameters(database))) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        (row,) = cursor.fetchall()
        return row[0]


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[dict[str, Cluster]]:
    """A server per database. Each database belongs to its team, has a table, and a login that uses it; nothing is Relaybox's."""
    with ExitStack() as made:
        found = {}
        for store, login in APPLICATIONS.items():
            cluster = create_cluster(store, tmp_path / store, settings={"fsync": "on", "full_page_writes": "on"})
            made.callback(cluster.remove)
            cluster.start()
            administer(
                cluster,
                "create role dba superuser login password 'dba'",
                f"create role {store}_team login password 'team'",
                f"create role {login} login password 'application'",
                f"create database {store} owner {store}_team",
            )
            cluster = replace(cluster, user="dba", password="dba")
            administer(cluster, "alter role relaybox rename to postgres")  # a name that the page gives to a login of its own
            table = f"create table purchase (id integer primary key); grant select, insert on purchase to {login}"
            administer(replace(cluster, user=f"{store}_team", password="team"), table, database=store)
            found[store] = cluster
        administer(found["billing"], "create role airflow login password 'airflow'", "create database airflow owner airflow")
        yield found


@pytest.fixture
def team(databases: Mapping[str, Cluster], wheel: Path, tmp_path: Path) -> Team:
    """The variables are those that the page tells its reader to set, and nothing of this repository's."""
    airflow = make_bare_airflow(tmp_path / "venv", VERSIONS / "airflow-highest.txt")
    directory, home, ports = tmp_path / "relaybox-files", tmp_path / "airflow", AirflowPorts()
    directory.mkdir(mode=0o700)
    (home / "dags").mkdir(parents=True)
    billing = databases["billing"]
    metadata = f"postgresql+psycopg2://airflow:airflow@{billing.host}:{billing.port}/airflow"
    (home / "airflow.cfg").write_text(configuration(metadata, home, ports), encoding="utf-8")
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:dba:dba\n" + "".join(f"*:*:*:{login}:application\n" for login in APPLICATIONS.values()))
    passwords.chmod(0o600)
    places: dict[str, str] = {}
    for store, cluster in databases.items():
        name = store.upper()
        places |= {
            f"{name}_HOST": cluster.host,
            f"{name}_PORT": str(cluster.port),
            f"{name}_DATABASE": store,
            f"{name}_ADMIN": "dba",
        }
    inherited = {name: text for name, text in os.environ.items() if name.startswith("PIP_") or name in {"HOME", "LANG"}}
    variables = {
        **inherited,
        **places,
        **{login.upper(): login for login in APPLICATIONS.values()},
        "AIRFLOW_HOME": str(home),
        "PATH": f"{airflow.bin}:{postgres_binaries()}:{os.defpath}",
        "PGPASSFILE": str(passwords),
        "PIP_FIND_LINKS": f"{inherited.get('PIP_FIND_LINKS', '')} {wheel.parent}".strip(),  # instead of the registry
        "COLUMNS": "200",
    }
    return Team(airflow, home, directory, databases, variables, ports)


def configuration(metadata_url: str, home: Path, ports: AirflowPorts) -> str:
    """The team's airflow.cfg: as Airflow is by default, but for ports, the database, and an API server without logins."""
    return f"""\
[core]
dags_folder = {home}/dags
load_examples = False
execution_api_server_url = http://127.0.0.1:{ports.api}/execution/
simple_auth_manager_all_admins = True
[database]
sql_alchemy_conn = {metadata_url}
[api]
host = 127.0.0.1
port = {ports.api}
base_url = http://127.0.0.1:{ports.api}
workers = 1
secret_key = of-the-test
[api_auth]
jwt_secret = of-the-test-and-long-enough-for-the-signature-of-tokens-of-tasks-64
[logging]
worker_log_server_port = {ports.worker_log}
trigger_log_server_port = {ports.triggerer_log}
[dag_processor]
refresh_interval = 5
"""


@pytest.mark.timeout(1800)
def test_the_page_leads_from_a_bare_airflow_to_the_first_delivered_message(team: Team) -> None:
    """Every block exits 0, what the page shows is what it prints, and what the team had is as it was."""
    page = PAGE.read_text(encoding="utf-8")
    blocks = BLOCK.findall(page)
    marks = [mark for mark, _ in blocks]
    assert [mark for mark in marks if mark] == ["dags", "arrives", "settles"]
    before, after = blocks[: marks.index("dags")], blocks[marks.index("dags") :]
    team.run("airflow db migrate")
    printed = [team.run(commands) for _, commands in before]
    assert any("shop" in text and "billing" in text for text in printed)
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    (_, dags), (_, send), (_, arrives), (_, consume), (_, settles) = after
    with team.running() as client:
        team.run_until(dags, lambda text: re.search(r"relaybox_transfer__orders_1 +\| False", text))
        assert client.get("importErrors")["import_errors"] == []
        assert "relaybox" in {plugin["name"] for plugin in client.get("plugins")["plugins"]}
        team.run(send)
        team.run_until(arrives, lambda text: shown in text)
        assert '{"purchase": 1}' in team.run(consume)
        status = team.run_until(settles, lambda text: re.search(r"orders/1\b.*\b1\b.*\b1\b", text) and is_settled(team))
    assert "orders/1" in status
    assert_as_before(team)


def is_settled(team: Team) -> bool:
    """Whether the first database knows that its message was delivered."""
    query = "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where state = 'settled'"
    return value(team.databases["shop"], "shop", query) == 1


def assert_as_before(team: Team) -> None:
    """The databases belong to whom they belonged to; the new logins have the rights that the page says, and no others."""
    for store, cluster in team.databases.items():
        assert (
            value(cluster, store, "select pg_get_userbyid(datdba) from pg_database where datname = current_database()")
            == f"{store}_team"
        )
        assert value(cluster, store, "select has_database_privilege('public', current_database(), 'connect')") is True
        powers = "select count(*) from pg_roles where rolname ~ '^relaybox' and (rolsuper or rolcreaterole or rolcreatedb or rolbypassrls)"
        assert value(cluster, store, powers) == 0
        assert value(cluster, store, "select has_table_privilege('relaybox_tasks', 'purchase', 'select')") is False
        assert (
            value(cluster, store, "select has_column_privilege('relaybox_page', 'relaybox.inbox', 'payload', 'select')") is False
        )
        assert value(cluster, store, "select has_table_privilege('relaybox', 'purchase', 'select')") is False
    for path in team.directory.iterdir():
        secret = path.suffix in {".env", ".conf"}
        assert not secret or path.stat().st_mode & 0o077 == 0, path
