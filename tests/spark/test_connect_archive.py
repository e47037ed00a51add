"""Detaching, attaching and verifying through a Spark Connect server: the files are the same, bit by bit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from relaybox.errors import FilesFailed
from relaybox.retention.detaching import DetachPart
from relaybox.spark.archive import SparkArchive
from relaybox.spark.comparison_runner import SparkComparisonRunner
from relaybox.spark.connect import TaskTry, connect_session
from relaybox.verification.route_verification import verify_route
from tests.airflow.connect_server import connect_server
from tests.spark.test_detach import LOG, attach, detach, directories, log_rows, refusal, retain, stopped  # noqa: F401
from tests.support.cli import invoke
from tests.support.world import World


def test_g8_a_connect_server_detaches_attaches_and_verifies(
    stopped: World,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through the command too, by Spark's own variable SPARK_REMOTE. Files are removed by the file systems of the server."""
    before = log_rows(stopped)
    retain(stopped)
    with connect_server(tmp_path / "server.log", service_file=Path(os.environ["PGSERVICEFILE"])) as port:
        address = f"sc://127.0.0.1:{port}/"
        with connect_session(address, TaskTry("dag", str(tmp_path), "detach", 1), {}) as session:
            archive = SparkArchive(session)
            done = detach(stopped, archive)
            assert [(one.first, one.row_count) for one in done.segments] == [(0, 9), (10, 10), (20, 10), (30, 10)]
            assert directories(tmp_path) == {one.directory for one in done.segments}
            assert log_rows(stopped) == before[39:]
            assert refusal(stopped, "select * from relaybox.fetch('dead')").pgcode == "RB038"
            assert attach(stopped, archive, count=1, remove=True) == [30]
            assert directories(tmp_path) == {one.directory for one in done.segments[:3]}
            archive.remove(done.segments[3].directory)  # it is gone already
            with pytest.raises(FilesFailed, match=r"reading the files in /nowhere: .*PATH_NOT_FOUND"):
                archive.copy_back(DetachPart("hub", "log_1", 1, 2, "/nowhere"))
            runner = SparkComparisonRunner(session, session_name="relaybox flights verify")
            assert verify_route(stopped.route, runner=runner).outcome == "delivered"
        monkeypatch.setenv("SPARK_REMOTE", address)
        assert invoke("attach", "hub", LOG).exit_code == 0
        monkeypatch.delenv("SPARK_REMOTE")
    assert log_rows(stopped) == before
