"""`relaybox init --dry-run`: says what an init would change, and changes nothing, sequences included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Run, invoke
from tests.support.database_dump import dump
from tests.support.services import add_route
from tests.support.world import STORES, World, routes_file


@pytest.fixture
def empty(databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three databases without a schema."""
    path = routes_file(tmp_path)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    return World(path)


def dry_run_leaves_all_as_it_is(*arguments: str) -> Run:
    before = {store: dump(store) for store in STORES}
    run = invoke("init", "--dry-run", *arguments)
    assert {store: dump(store) for store in STORES} == before
    return run


def test_a_dry_run_of_the_first_init_makes_nothing(empty: World) -> None:
    run = dry_run_leaves_all_as_it_is()
    assert run.exit_code == 1
    assert "hub, an init would change:" in run.stdout
    said = " ".join(run.stdout.split())
    assert "flights/1 in registered, flights/2 out registered" in said
    assert said.count("functions: created") == len(STORES)
    assert said.count("segments: those that the outbox lacks after these changes") == len(STORES)
    done = invoke("init")
    assert done.exit_code == 0
    made = " ".join(done.stdout.split())
    assert made.count("functions: created") == len(STORES)
    assert made.count("segments: outbox_s000000, ") == len(STORES)
    assert "replaced" not in made
    assert dry_run_leaves_all_as_it_is().exit_code == 0


def test_a_dry_run_says_what_the_next_init_does(world: World) -> None:
    """A route is added, another one gets a topic: the same hops are named, and numbers of the logs are not used up."""
    assert dry_run_leaves_all_as_it_is().exit_code == 0
    add_route(world.path, "bookings", topics=["bookings"], path=list(STORES))
    document = yaml.safe_load(world.path.read_text())
    document["routes"]["flights"]["topics"] = ["flights", "delays"]
    world.path.write_text(yaml.safe_dump(document))
    run = dry_run_leaves_all_as_it_is("--json")
    assert run.exit_code == 1
    planned = run.document
    done = invoke("init", "--json").document
    assert (planned["dry_run"], done["dry_run"]) == (True, False)
    assert {one["store"]: one["hops"] for one in planned["stores"]} == {one["store"]: one["hops"] for one in done["stores"]}
    assert planned["stores"][0]["hops"] == {"flights/1 out": "changed", "bookings/1 out": "registered"}
    logs = world.query("hub", "select hop, log_id from relaybox_internal.hop_in order by log_id")
    assert logs == [("flights/1", 1), ("bookings/1", 2)]


def test_a_dry_run_tells_what_would_refuse_an_init(world: World) -> None:
    """And what the other stores would get; nothing is changed."""
    document = yaml.safe_load(world.path.read_text())
    document["routes"]["flights"]["path"] = ["airline", "analytics", "hub"]
    world.path.write_text(yaml.safe_dump(document))
    run = dry_run_leaves_all_as_it_is()
    assert run.exit_code == 5
    assert "(RB006)" in run.stderr
    assert "Give the changed route a new name" in " ".join(run.stderr.split())
