"""Everything that the demo runs on: four Postgres clusters, three initialised stores, the airline's tables, Airflow."""

from __future__ import annotations

import fcntl
import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from psycopg2 import sql
from psycopg2.extensions import encrypt_password
from sqlalchemy import URL

from relaybox.env_vars import environment
from relaybox.errors import ConfigurationError
from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.checkout import find_checkout
from relaybox.local.clusters import STOP_SECONDS, Cluster, create_cluster, write_service_file
from relaybox.local.demo.airline import open_engine
from relaybox.local.demo.flights import TOPIC, metadata
from relaybox.local.processes import processes_in, wait_until_gone
from relaybox.local.scratch import AbandonedScratch, bytes_below, remove_abandoned, remove_scratch, scratch_removed, tell_of_older
from relaybox.routes import Export, Route, Routes, load_routes
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

STORES = ("airline", "hub", "analytics")
ROUTE = "flights"
APPLICATION = "airline_application"
"""The role that producers connect as, and the libpq service that says so. It may insert, and nothing else."""
DERIVED_ROUTE = "delays"
EXPORT = "flights_lake"

_RETRIES = {"delay_seconds": 2}  # Airflow may start a task before it can serve it
DELAYS = """
select
    sender as key,
    to_json(named_struct('airline', sender, 'day', day, 'flights', count(*), 'late', count_if(minutes > 15))) as payload
from (
    select
        sender,
        left(get_json_object(payload, '$.scheduled_at'), 10) as day,
        cast(get_json_object(payload, '$.departure_delay_minutes') as int) as minutes
    from flights
)
group by sender, day
"""
"""Delays by airline and day, of the flights of one attempt."""
_STORE_SETTINGS = {
    "track_commit_timestamp": "on",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
}
_METADATA_SETTINGS = {"fsync": "off", "shared_buffers": "64MB"}  # Airflow's own records of the demo may be lost
_DAG_FILES_STAY = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "300",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
}
"""Reading the DAG files again and again would take a good part of a core."""
_DATA = ".data"
_SERVICES, _CONNECTIONS = "services.conf", "connections.json"

Say = Callable[[str], None]
"""Told what has been achieved, from any thread."""


@dataclass(frozen=True)
class DemoStack:
    """The running demo. `directory` keeps the logs after it has ended."""

    directory: Path
    routes: Routes
    airflow: AirflowStandalone

    @property
    def route(self) -> Route:
        return self.routes.route(ROUTE)

    @property
    def derived_route(self) -> Route:
        return self.routes.route(DERIVED_ROUTE)

    @property
    def export(self) -> Export:
        return self.routes.export(EXPORT)


@contextmanager
def run_stack(say: Say) -> Iterator[DemoStack]:
    """Starts everything; when the block ends, stops everything, and deletes the data and the credentials.

    What `.relaybox/demo` in the checkout holds is deleted before. The stores are ready then, Airflow still starts. Sets PGSERVICEFILE
    for this process and those that it starts.

    Args:
        say: is told each step that is done.

    Raises:
        ConfigurationError: this is no checkout, or a demo runs in it already.
        StoreUnreachable: a server did not start.
    """
    home = find_checkout()
    with ExitStack() as stack:
        directory = stack.enter_context(_own_directory(home / ".relaybox" / "demo", say))
        stack.enter_context(environment(PGSERVICEFILE=str(directory / _SERVICES)))
        routes = _write_routes(directory / "relaybox.yaml")
        clusters: list[Cluster] = []
        stack.callback(_remove_all, clusters)
        with ThreadPoolExecutor(1) as pool:
            stores = pool.submit(_start_stores, directory, routes, clusters, say)
            airflow = _prepare_airflow(home, directory, routes, _start_cluster("airflow", directory, clusters))
            stack.callback(airflow.stop)
            airflow.start()
            stores.result()
        yield DemoStack(directory, routes, airflow)


@contextmanager
def _own_directory(directory: Path, say: Say) -> Iterator[Path]:
    """An empty directory that belongs to this process while it lives; what a killed demo left is deleted, and told."""
    directory.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"a demo runs already in {directory}.", next_step="Stop it with Ctrl-C, or use another checkout."
            ) from None
        for cluster in sorted(directory.glob(f"*{_DATA}")):
            _remove_left(cluster, say)
        remove_abandoned(say)
        tell_of_older(say)
        shutil.rmtree(directory)
        directory.mkdir()
        try:
            with scratch_removed():
                yield directory
        finally:
            for credentials in (_SERVICES, _CONNECTIONS):
                (directory / credentials).unlink(missing_ok=True)


def _remove_left(cluster: Path, say: Say) -> None:
    """Removes a cluster's files as soon as its server has ended, as it does when its demo is killed."""
    data = cluster.resolve()  # of root's demo it is a link to a scratch directory
    if wait_until_gone(processes_in(data), deadline_seconds=STOP_SECONDS):
        raise ConfigurationError(
            f"processes still use {data}, which a killed demo left.", next_step="End them, then start again."
        )
    if cluster.is_symlink():
        remove_abandoned(say, data.parent)
    else:
        say(str(AbandonedScratch(data, bytes_below(data))))
        remove_scratch(data)


def _write_routes(path: Path) -> Routes:
    path.write_text(yaml.safe_dump(demo_routes(path.parent), sort_keys=False))
    return load_routes(path)


def demo_routes(directory: Path) -> dict[str, Any]:
    """What relaybox.yaml says: two hops, a derivation at the hub, and an export at the last store into a table of `directory`."""
    return {
        "stores": {store: {} for store in STORES},
        "routes": {
            ROUTE: {
                "topics": [TOPIC],
                "path": list(STORES),
                "policy": "cascade",
                "runner": "auto",  # while Spark starts, threads move the first flights
                "limits": {"linger_seconds": 5, "spark_from_rows": 1},  # one Spark application per hop moves the whole year
                "retries": _RETRIES,
            },
            DERIVED_ROUTE: {
                "topics": [DERIVED_ROUTE],
                "path": list(STORES[1:]),
                "derive": {"from": ROUTE, "sql": DELAYS, "version": 1},
                "limits": {"linger_seconds": 5},  # one run of the hop moves what several attempts derive
                "retries": _RETRIES,
            },
        },
        "exports": {
            EXPORT: {
                "stream": ROUTE,
                "store": STORES[-1],
                "to": "delta",
                "path": str(directory / "lake" / "flights"),
                "retries": _RETRIES,
            }
        },
    }


def _start_cluster(name: str, directory: Path, clusters: list[Cluster]) -> Cluster:
    """Makes and starts a cluster, and enters it in the list of those to remove."""
    settings = _METADATA_SETTINGS if name == "airflow" else _STORE_SETTINGS
    cluster = create_cluster(name, directory / f"{name}{_DATA}", settings=settings)
    clusters.append(cluster)
    cluster.start()
    return cluster


def _remove_all(clusters: Sequence[Cluster]) -> None:
    for cluster in clusters:
        cluster.remove()


def _start_stores(directory: Path, routes: Routes, clusters: list[Cluster], say: Say) -> None:
    """Starts the three stores, hands their credentials to libpq and to Airflow, initialises them, makes the airline's tables."""
    with ThreadPoolExecutor(2) as pool:
        started = dict(zip(STORES, pool.map(lambda store: _start_cluster(store, directory, clusters), STORES), strict=True))
        parameters = {store: cluster.parameters() for store, cluster in started.items()}
        password = secrets.token_urlsafe(24)
        application = {**parameters["airline"], "user": APPLICATION, "password": password}
        write_service_file(directory / _SERVICES, {**parameters, APPLICATION: application})
        _write_connections(directory / _CONNECTIONS, routes, parameters)
        say("three Postgres clusters run")
        list(pool.map(lambda store: initialise_store(store, routes), routes.stores.values()))
    _make_airline(password)
    say("stores airline, hub and analytics are initialised")


def _write_connections(path: Path, routes: Routes, parameters: Mapping[str, Mapping[str, str]]) -> None:
    """The Airflow connections of the stores, in a file that only this user can read."""
    connections = {store.connection: _airflow_connection(parameters[name]) for name, store in routes.stores.items()}
    path.touch(mode=0o600)
    path.write_text(json.dumps(connections))


def _airflow_connection(parameters: Mapping[str, str]) -> dict[str, str | int]:
    return {
        "conn_type": "postgres",
        "host": parameters["host"],
        "port": int(parameters["port"]),
        "schema": parameters["dbname"],
        "login": parameters["user"],
        "password": parameters["password"],
    }


def _make_airline(password: str) -> None:
    """The airline's business table, and the role that its application connects as."""
    engine = open_engine("airline", "airline tables")
    metadata.create_all(engine)
    engine.dispose()
    connection = connect("airline", application_name="airline tables")
    with closing(StoreSession(connection, "airline", "making a role")) as session:
        verifier = encrypt_password(password, APPLICATION, connection, "scram-sha-256")
        session.execute(
            sql.SQL("create role {} login password {} in role relaybox_producer").format(
                sql.Identifier(APPLICATION), sql.Literal(verifier)
            )
        )
        session.execute(sql.SQL("grant insert on public.flight to {}").format(sql.Identifier(APPLICATION)))
        session.commit()


def _prepare_airflow(home: Path, directory: Path, routes: Routes, metadata_cluster: Cluster) -> AirflowStandalone:
    parameters = metadata_cluster.parameters()
    url = URL.create(
        "postgresql+psycopg2",
        username=parameters["user"],
        password=parameters["password"],
        host=parameters["host"],
        port=int(parameters["port"]),
        database=parameters["dbname"],
    )
    return AirflowStandalone(
        home=directory / "airflow",
        metadata_url=url.render_as_string(hide_password=False),
        dags=home / "dags",
        plugins=home / "plugins",
        connections={"spark_default": json.dumps({"conn_type": "spark", "host": "local[2]"})},
        environment={
            **_DAG_FILES_STAY,
            "RELAYBOX_CONFIG": str(routes.path),
            "AIRFLOW__SECRETS__BACKEND": "airflow.secrets.local_filesystem.LocalFilesystemBackend",
            "AIRFLOW__SECRETS__BACKEND_KWARGS": json.dumps({"connections_file_path": str(directory / _CONNECTIONS)}),
        },
    )
