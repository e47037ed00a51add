"""The runbooks of derivations and exports are true: the fault is made, the commands run as written, and then it is over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from relaybox.local.clusters import postgres_binaries
from relaybox.spark.derivations.publishing import send
from tests.spark.command import relaybox
from tests.support.derivations import ROUTE, STORE, DerivedWorld
from tests.support.lake import Lake
from tests.support.runbooks import run_blocks
from tests.support.streams import deliver
from tests.support.trials import batches, derive_all, late, sending, trial, with_next
from tests.support.world import World

pytestmark = pytest.mark.thorough

FUNCTION = """
from pyspark.sql import functions as f


def late(flights):
    return flights.select("stream_position", {payload}.alias("payload"))
"""
STRICT = FUNCTION.format(payload='f.col("payload").cast("int").cast("string")')
REPAIRED = FUNCTION.format(payload='f.coalesce(f.try_to_number("payload", f.lit("999")).cast("string"), f.lit("none"))')


@pytest.fixture
def delays(world: World, tmp_path: Path) -> DerivedWorld:
    made = DerivedWorld(world)
    made.configure(**{"with": "numbers_of_flights:late", "row_errors": "dead_letter"})
    (tmp_path / "numbers_of_flights.py").write_text(STRICT, encoding="utf-8")
    world.register()
    return made


def blocks(world: World, runbook: str) -> Iterator[str]:
    variables = {"RELAYBOX_CONFIG": str(world.path), "PYTHONPATH": str(world.path.parent), **os.environ}
    return run_blocks(runbook, variables=variables, binaries=postgres_binaries(), directory=world.path.parent)


def test_a_stopped_derivation(delays: DerivedWorld, tmp_path: Path) -> None:
    """One message is a dead letter, a later one stops it; the repaired function derives from both, each once."""
    world = delays.world
    world.send("1", "two", "3")
    world.transfer(world.first_hop)
    assert relaybox(world, tmp_path, "derive", ROUTE).returncode == 0
    delays.configure(**{"with": "numbers_of_flights:late"})
    world.send("four", "5")
    world.transfer(world.first_hop)
    assert relaybox(world, tmp_path, "derive", ROUTE).returncode == 5
    steps = blocks(world, "stopped-derivation")
    checked = next(steps)
    assert "failed" in checked
    assert "numbers_of_flights:late failed" in checked
    (tmp_path / "numbers_of_flights.py").write_text(REPAIRED, encoding="utf-8")
    delays.configure(**{"with": "numbers_of_flights:late", "version": 2})
    shown = next(steps)
    assert "makes 2 messages of 2 messages, stream positions 4 to 5. Nothing was sent." in " ".join(shown.split())
    assert "2 messages derived from 2 messages" in next(steps)
    assert delays.sent() == ["1", "3", "none", "5"]
    for _ in steps:
        pass
    assert delays.sent() == ["1", "3", "none", "5", "none"]


def test_an_open_trial(world: World) -> None:
    """Nobody answered: it is seen, compared and dropped."""
    delays = with_next(world)
    deliver(world, 6)
    derive_all(delays)
    with trial(delays) as opened:
        attempt = opened.begin_attempt(4, "relaybox_promote__delays manual")
        assert attempt is not None
        send(sending(attempt, version=2, is_trial=True), batches(attempt, late))
    steps = blocks(world, "open-trial")
    checked = next(steps)
    assert "of which it has derived up to 4 so far" in " ".join(checked.split())
    assert next(steps) == "delays: trial 1 of version 2 is dropped\n"
    assert list(steps) == [""]


def test_a_damaged_table(world: World, tmp_path: Path) -> None:
    """A lost file; the new table equals the stream."""
    lake = Lake(world, str(tmp_path / "lake"))
    lake.configure()
    deliver(world, 6)
    lake.run()
    Path(DeltaTable(lake.path).file_uris()[0]).unlink()
    steps = blocks(world, "damaged-lake-table")
    assert "is gone, with 4 messages, stream positions 1 to 4" in next(steps)
    document = yaml.safe_load(world.path.read_text())
    document["exports"]["flights_lake"]["path"] = str(tmp_path / "new")
    world.path.write_text(yaml.safe_dump(document))
    *_, said = steps
    assert "equals the stream: 6 messages compared" in " ".join(said.split())
    assert (
        world.value(STORE, "select done_stream_position from relaybox.subscriptions where subscription = 'export.flights_lake'")
        == 6
    )
