"""Airflow is upgraded from the lowest version that pyproject.toml takes to the highest, in the middle of transfers: `make test-airflow-upgrade`.

Not in the default suite: it installs two Airflows and starts each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from relaybox.local.clusters import Cluster
from relaybox.verification.route_verification import verify_route
from tests.support.bare_airflow import build_wheel
from tests.support.patience import patience
from tests.support.world import World, wait_until
from tests.upgrades.running_airflow import (
    ROUTE,
    STEP_SECONDS,
    SliceGate,
    Traffic,
    install,
    metadata_database,
    require_each_once_in_order,
    running,
    settled,
    standalone,
    wait_until_settled,
)


def test_an_upgrade_of_airflow_in_the_middle_of_transfers_loses_doubles_and_reorders_nothing(
    world: World, clusters: Mapping[str, Cluster], tmp_path: Path
) -> None:
    """A slice is half copied when the older Airflow is killed; its runs are still `running` for the newer one, which goes on."""
    wheel = build_wheel(tmp_path)
    lowest, highest = (install(tmp_path, level, wheel) for level in ("lowest", "highest"))
    world.change_route(**ROUTE)
    gate = SliceGate(tmp_path)
    with metadata_database(clusters["hub"]) as url:
        older = standalone(world, tmp_path, url, gate.directory, lowest.bin)
        newer = replace(older, programs=highest.bin)
        with older:
            older.wait_until_healthy(deadline_seconds=patience(STEP_SECONDS))
            assert older.command("version").strip() == lowest.versions()["apache-airflow"]
            world.send_many(1000, sender="before")
            wait_until_settled(world, 1000)
            traffic = Traffic(world)
            with traffic:
                gate.close()
                open_runs = running(older)
                assert any(dag.startswith("relaybox_transfer__") for dag in open_runs)
                older.stop()
                between = settled(world)
                gate.open()
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
    require_each_once_in_order(world, traffic, sent)
    assert verify_route(world.route).outcome == "delivered"
