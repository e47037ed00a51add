"""Airflow is upgraded from the lowest version that pyproject.toml takes to the highest, in the middle of transfers: `make test-airflow-upgrade`.

Not in the default suite: it installs two Airflows and starts each.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

import psycopg2

from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.clusters import Cluster
from relaybox.verification.route_verification import verify_route
from tests.support.bare_airflow import REPOSITORY, VERSIONS, BareAirflow, build_wheel, make_bare_airflow
from tests.support.patience import patience
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


def test_an_upgrade_of_airflow_in_the_middle_of_transfers_loses_doubles_and_reorders_nothing(
    world: World, clusters: Mapping[str, Cluster], tmp_path: Path
) -> None:
    """A slice is half copied when the older Airflow is killed; its runs are still `running` for the newer one, which goes on."""
    wheel = build_wheel(tmp_path)
    lowest, highest = (install(tmp_path, level, wheel) for level in ("lowest", "highest"))
    world.change_route(**ROUTE)
    failpoints = tmp_path / "failpoints"
    failpoints.mkdir()
    released = failpoints / f"{FAILPOINT}.go"
    released.touch()
    with metadata_database(clusters["hub"]) as url:
        older = AirflowStandalone(
            home=tmp_path / "airflow",
            metadata_url=url,
            dags=REPOSITORY / "dags",
            connections={f"relaybox_{store}": json.dumps(connection(store)) for store in STORES},
            environment={
                "RELAYBOX_CONFIG": str(world.path),
                "PGSERVICEFILE": "/nowhere/at/all",
                "RELAYBOX_ENVIRONMENT": "test",
                "RELAYBOX_FAILPOINTS": f"{FAILPOINT}=pause",
                "RELAYBOX_FAILPOINTS_DIRECTORY": str(failpoints),
            },
            programs=lowest.bin,
        )
        newer = replace(older, programs=highest.bin)
        with older:
            older.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
            assert older.command("version").strip() == lowest.versions()["apache-airflow"]
            world.send_many(1000, sender="before")
            wait_until_settled(world, 1000)
            traffic = Traffic(world)
            with traffic:
                released.unlink()
                already = hits(failpoints)
                wait_until(lambda: hits(failpoints) > already, "a slice is being copied", deadline_seconds=STEP_SECONDS)
                open_runs = running(older)
                assert any(dag.startswith("relaybox_transfer__") for dag in open_runs)
                older.stop()
                between = settled(world)
                released.touch()
                newer.command("db", "migrate")
                with newer:
                    newer.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
                    assert (
                        newer.command("version").strip()
                        == highest.versions()["apache-airflow"]
                        != lowest.versions()["apache-airflow"]
                    )
                    wait_until_settled(world, between + 1)
                    traffic.__exit__()
                    sent = 1000 + traffic.count
                    wait_until_settled(world, sent)
                    wait_until(lambda: not running(newer), "no run is left", deadline_seconds=STEP_SECONDS, poll_seconds=0.5)
        print(f"{sent} messages, {between} settled before the upgrade; runs that were open: {sorted(open_runs)}")
    assert sent > 1000
    for hop in ("flights/1", "flights/2"):
        assert sorted(world.payloads(hop)) == sorted(world.sent())
        assert world.log_positions(hop) == list(range(1, sent + 1))
        numbers = [int(payload[1:]) for payload in world.payloads(hop) if payload.startswith("t")]
        assert numbers == list(range(1, traffic.count + 1)), "the order of the sender"
    assert verify_route(world.route).outcome == "delivered"


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
