"""An Airflow that moves messages while something is upgraded under it, and an application that sends all the time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import psycopg2

from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.clusters import Cluster
from tests.support.bare_airflow import REPOSITORY, VERSIONS, BareAirflow, make_bare_airflow
from tests.support.services import read_service
from tests.support.world import STORES, World, wait_until

METADATA = "airflow_upgraded"
FAILPOINT = "slice.piping"
STEP_SECONDS = 300.0
ROUTE = {
    "runner": "threads",
    "order": "fifo",
    "limits": {"batch_rows": 500, "slice_rows": 100},
    "retries": {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1},
}


class Traffic:
    """An application that sends a message every 50 ms, whatever happens to Airflow."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic")
        self.count = 0

    def _run(self) -> None:
        while not self._ended.wait(0.05):
            self._world.send(f"t{self.count + 1}", sender="traffic")
            self.count += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def metadata_database(cluster: Cluster) -> Iterator[str]:
    """The URL of an empty database, which is dropped afterwards."""
    administer(cluster, f"create database {METADATA}")
    try:
        yield "postgresql+psycopg2://{user}:{password}@{host}:{port}/{dbname}".format(**cluster.parameters(METADATA))
    finally:
        administer(cluster, f"drop database {METADATA} with (force)")


def administer(cluster: Cluster, statement: str) -> None:
    with closing(psycopg2.connect(**cluster.parameters())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


def install(directory: Path, level: str, wheel: Path) -> BareAirflow:
    airflow = make_bare_airflow(directory / level, VERSIONS / f"airflow-{level}.txt")
    airflow.install(f"relaybox[airflow] @ {wheel.as_uri()}")
    return airflow


def settled(world: World) -> int:
    """How many messages the first store knows as delivered to the last."""
    query = "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = 'flights/1' and state = 'settled'"
    return int(world.value("airline", query))


def wait_until_settled(world: World, count: int) -> None:
    wait_until(
        lambda: settled(world) >= count, f"{count} settled", deadline_seconds=STEP_SECONDS, progress=lambda: settled(world)
    )


def connection(store: str) -> dict[str, object]:
    """As Airflow writes it, of the service of this name."""
    parameters = read_service(store)
    return {
        "conn_type": "relaybox",
        "host": parameters["host"],
        "port": int(parameters["port"]),
        "login": parameters["user"],
        "password": parameters["password"],
        "schema": parameters["dbname"],
    }


def hits(failpoints: Path) -> int:
    """How often a driver came to the failpoint."""
    try:
        return len((failpoints / "hits.jsonl").read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return 0


def running(airflow: AirflowStandalone) -> set[str]:
    """The DAGs that have a run which is not over."""
    found = [airflow.client.get("dags/~/dagRuns", state=state, limit=100)["dag_runs"] for state in ("running", "queued")]
    return {run["dag_id"] for runs in found for run in runs}


def standalone(world: World, directory: Path, metadata_url: str, failpoints: Path, programs: Path) -> AirflowStandalone:
    """An Airflow of these programs, whose slices wait at the failpoint while it is not released."""
    return AirflowStandalone(
        home=directory / "airflow",
        metadata_url=metadata_url,
        dags=REPOSITORY / "dags",
        connections={f"relaybox_{store}": json.dumps(connection(store)) for store in STORES},
        environment={
            "RELAYBOX_CONFIG": str(world.path),
            "PGSERVICEFILE": "/nowhere/at/all",
            "RELAYBOX_ENVIRONMENT": "test",
            "RELAYBOX_FAILPOINTS": f"{FAILPOINT}=pause",
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(failpoints),
        },
        programs=programs,
    )


class SliceGate:
    """Lets slices pass, or holds each where the first bytes of its COPY have arrived."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "failpoints"
        self.directory.mkdir()
        self.open()

    def open(self) -> None:
        self._released.touch()

    def close(self) -> None:
        """Returns when a slice is held."""
        self._released.unlink()
        already = hits(self.directory)
        wait_until(lambda: hits(self.directory) > already, "a slice is being copied", deadline_seconds=STEP_SECONDS)

    @property
    def _released(self) -> Path:
        return self.directory / f"{FAILPOINT}.go"


def require_each_once_in_order(world: World, traffic: Traffic, sent: int) -> None:
    """Both logs have every message once, and those of the traffic in their order."""
    for hop in ("flights/1", "flights/2"):
        assert sorted(world.payloads(hop)) == sorted(world.sent())
        assert world.log_positions(hop) == list(range(1, sent + 1))
        numbers = [int(payload[1:]) for payload in world.payloads(hop) if payload.startswith("t")]
        assert numbers == list(range(1, traffic.count + 1)), "the order of the sender"
