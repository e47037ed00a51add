"""A verification whose slices Spark compares: the real spark-submit, the real application and command, local mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relaybox.verification.defects import DefectKind
from relaybox.verification.results import read_verification
from relaybox.verification.route_verification import verify_route
from tests.spark.submit import spark_submit
from tests.support.cli import invoke, run
from tests.support.world import World

DOUBLE = """
    insert into relaybox_internal.log
    select log_id, epoch, 5001, index, message_id, sent_at, topic, sender, key, headers, payload, payload_bytes, clock
    from relaybox_internal.log where log_position = 600
"""
DAMAGE = {
    "hub": [
        "delete from relaybox_internal.log where log_position = 150",
        "update relaybox_internal.log set log_position = 5000 where log_position = 420",
        "update relaybox_internal.log set message_id = gen_random_uuid() where log_position = 870",
    ],
    "analytics": ["update relaybox_internal.log set payload = payload || ' ' where log_position in (10, 250)", DOUBLE],
}


def test_spark_verifies_the_same_as_sessions(world: World, tmp_path: Path) -> None:
    """Messages lost, changed, misplaced, doubled and strange, in several slices of both hops: every name and number is the same."""
    world.change_route(limits={"batch_rows": 300, "slice_rows": 100})
    world.send_many(900)
    world.transfer_all()
    for store, statements in DAMAGE.items():
        world.query(store, "select relaybox_internal.ensure_log_segments(1, 6000)")
        for statement in statements:
            world.query(store, statement)
    by_sessions = verify_route(world.route)
    result = tmp_path / "verification.json"

    done = spark_submit("verify.py", "--route", "flights", "--result", str(result))

    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "spark_application_started route=flights application=local-" in done.stdout
    assert "route_verified route=flights outcome=defects sent=900" in done.stdout
    by_spark = read_verification(result)
    assert replace(by_spark, verified_at=by_sessions.verified_at, duration_seconds=by_sessions.duration_seconds) == by_sessions
    kinds = {defect.kind for leg in by_spark.hops for defect in leg.defects}
    assert kinds == set(DefectKind) - {DefectKind.UNBATCHED}


def test_the_command_has_spark_compare_what_is_much(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--runner auto` from `limits.spark_from_rows` on, where Spark's configuration says; the document is that of threads."""
    world.change_route(limits={"batch_rows": 300, "slice_rows": 100, "spark_from_rows": 301})
    world.send_many(300)
    world.transfer_all()
    world.query("hub", "delete from relaybox_internal.log where log_position = 150")
    conf = {"spark.master": "local[2]", "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
    conf["spark.eventLog.dir"] = tmp_path.as_uri()
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in conf.items()))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    by_threads = invoke("verify", "flights", "--runner", "auto", "--json")
    assert not list(tmp_path.glob("eventlog*"))
    world.change_route(limits={"batch_rows": 300, "slice_rows": 100, "spark_from_rows": 300})

    by_spark = run("verify", "flights", "--runner", "auto", "--json")

    assert (by_spark.exit_code, by_threads.exit_code) == (1, 1), by_spark.stderr
    assert without_times(by_spark.document) == without_times(by_threads.document)
    told = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("eventlog*/events*"))
    assert "hashing " in told
    assert "slices row by row" in told


def test_a_spark_that_fails_is_no_defect(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 4, not 1, with what Spark said; and its master is the one that its configuration names."""
    world.send("a")
    world.transfer_all()
    (tmp_path / "spark-defaults.conf").write_text("spark.master spark:/nowhere\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    done = run("verify", "flights", "--runner", "spark")
    assert done.exit_code == 4, done.stderr
    assert "Spark failed: " in done.stderr
    assert "Could not parse Master URL: 'spark:/nowhere'" in done.stderr


def without_times(verification: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in verification.items() if name not in {"verified_at", "duration_seconds"}}


def test_a_route_that_is_not_in_the_file_ends_the_application_for_good(world: World) -> None:
    """Exit code 78, which is not retried; the nearest name is told."""
    done = spark_submit("verify.py", "--route", "fligths")
    assert done.returncode == 78
    assert 'there is no route "fligths". Did you mean' in done.stdout
    assert "verify_failed route=fligths error=ConfigurationError retry=False" in done.stdout
