"""Spark runs the slices: the real spark-submit, the real application, local mode."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pyspark
import pytest

from relaybox import errors
from relaybox.spark.application import exit_code
from tests.spark.submit import spark_submit
from tests.support.world import World


def test_spark_moves_a_hop_in_slices_and_logs_its_batches(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One application moves two batches of three slices each; its log tells numbers, counts and rates.

    The task that starts it is told its id, and that its workers have started.
    """
    monkeypatch.setenv("RELAYBOX_APPLICATION_FILE", str(tmp_path / "application"))
    world.change_route(limits={"batch_rows": 3000, "slice_rows": 1000})
    world.send_many(6000)
    done = spark_submit("transfer.py", "--hop", "flights/1", "--recorded-by", "spark test")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert world.payloads() == [f"m{n}" for n in range(1, 6001)]
    assert world.query("hub", "select batch, slice_count, row_count from relaybox_internal.arrival order by batch") == [
        (batch, slice_count, row_count)
        for batch, slice_count, row_count in world.query(
            "airline", "select batch, jsonb_array_length(slices), row_count from relaybox_internal.batch order by batch"
        )
    ]
    assert world.value("airline", "select max(jsonb_array_length(slices)) from relaybox_internal.batch") >= 2
    assert world.query("airline", "select distinct recorded_by from relaybox_internal.confirmation") == [("spark test",)]
    events = [line.split(" ", 1)[0] for line in done.stdout.splitlines()]
    assert events.count("batch_published") == world.value("airline", "select count(*) from relaybox_internal.batch")
    assert "rows_per_second=" in done.stdout
    assert (tmp_path / "application").read_text().startswith("local-")
    assert (tmp_path / "ready").exists()


def test_a_store_out_of_reach_ends_the_application_with_the_code_for_a_retry(world: World, tmp_path: Path) -> None:
    """Exit code 75 (try again), one line that says which store, no traceback."""
    service_file = tmp_path / "unreachable.conf"
    service_file.write_text(
        "[airline]\nhost=127.0.0.1\nport=1\nuser=x\ndbname=x\n[hub]\nhost=127.0.0.1\nport=1\nuser=x\ndbname=x\n"
    )
    done = spark_submit("transfer.py", "--hop", "flights/1", service_file=str(service_file))
    assert done.returncode == 75
    assert "store airline: no connection" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), 78),
        (errors.HistoryLost("x"), 65),
        (errors.StoreUnusable("x"), 65),
        (errors.StoreBusy("x"), 75),
        (errors.NotDurable("x"), 75),
    ],
)
def test_each_error_has_the_exit_code_that_the_retry_policy_reads(error: errors.RelayboxError, code: int) -> None:
    """65 and 78 are not retried, 75 is."""
    assert exit_code(error) == code


def test_pyspark_and_pyspark_client_install_the_same_files() -> None:
    """Both wheels write into pyspark/: a file that differs would be a mixture of two versions."""

    def hashes(name: str) -> dict[str, str]:
        files: Sequence[object] = distribution(name).files or ()
        return {str(file): file.hash.value for file in files if file.hash and str(file).startswith("pyspark/")}  # type: ignore[attr-defined]

    ours, theirs = hashes("pyspark"), hashes("pyspark-client")
    shared = set(ours) & set(theirs)
    assert len(shared) > 300
    assert {file for file in shared if ours[file] != theirs[file]} == set()
    assert pyspark.__version__ == distribution("pyspark").version
