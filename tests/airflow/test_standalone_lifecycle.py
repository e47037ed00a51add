"""Airflow of the embedded stack: it becomes healthy, runs a DAG, and leaves no process behind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from relaybox.errors import StackFailed
from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.clusters import Cluster
from relaybox.local.processes import descendants, is_alive, working_directory
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

METADATA = "lifecycle_metadata"
DAG = """
import subprocess
from airflow.sdk import dag, task

@dag(schedule=None)
def leave_a_process():
    @task
    def leave() -> None:
        nothing = subprocess.DEVNULL  # an open pipe would keep the task's supervisor waiting
        subprocess.Popen(["sleep", "1000"], start_new_session=True, cwd={directory!r}, stdout=nothing, stderr=nothing)

    leave()

leave_a_process()
"""


@pytest.fixture
def metadata_url(clusters: Mapping[str, Cluster]) -> Iterator[str]:
    """An empty database for Airflow."""
    parameters = clusters["hub"].parameters(METADATA)
    _administer(clusters["hub"], f"create database {METADATA}")
    yield "postgresql+psycopg2://{user}:{password}@{host}:{port}/{dbname}".format(**parameters)
    _administer(clusters["hub"], f"drop database {METADATA} with (force)")


def _administer(cluster: Cluster, statement: str) -> None:
    with closing(psycopg2.connect(**cluster.parameters())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


def test_airflow_runs_a_dag_and_leaves_no_process_behind(metadata_url: str, tmp_path: Path) -> None:
    """stop() ends scheduler, DAG processor, triggerer and API server, and also what a task left running in a session of its own."""
    dags, left = tmp_path / "dags", tmp_path / "left"
    dags.mkdir()
    left.mkdir()
    (dags / "leave_a_process.py").write_text(DAG.format(directory=str(left)))
    before = set(descendants(os.getpid()))
    with AirflowStandalone(home=tmp_path / "home", metadata_url=metadata_url, dags=dags) as airflow:
        airflow.wait_until_healthy()
        client = airflow.client
        wait_until(lambda: client.get("dags")["total_entries"] == 1, "the DAG is known", deadline_seconds=60)
        run = client.trigger_dag("leave_a_process")
        assert client.wait_for_run("leave_a_process", run, deadline_seconds=patience(120)) == "success"
        started = set(descendants(os.getpid())) - before
        assert left in {working_directory(pid) for pid in started}
    assert [pid for pid in started if is_alive(pid)] == []


def test_an_airflow_that_cannot_start_tells_why(tmp_path: Path) -> None:
    """The error carries the end of the log."""
    url = "postgresql+psycopg2://nobody@127.0.0.1:1/none"
    airflow = AirflowStandalone(home=tmp_path, metadata_url=url, dags=tmp_path)
    with airflow, pytest.raises(StackFailed, match="Connection refused"):
        airflow.wait_until_healthy()
