"""A batch is decided on while the slices of the next one are copied: side by side in fact, and safe wherever the driver ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml

from relaybox import errors, failpoints
from relaybox.hops.confirmations import settle_hop
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.senders import declare, send_numbered, stream
from tests.support.world import STORES, World

EXPECTED = [f"a{index}" for index in range(1, 31)]


@pytest.fixture
def behind(world: World) -> World:
    """Three batches of ten wait. Neighbouring messages have come in the wrong order, also across the cuts."""
    world.change_route(order="fifo", limits={"batch_rows": 10, "slice_rows": 5})
    declare(world, "a")
    send_numbered(world, "a", 1, *(index + (1 if index % 2 == 0 else -1) for index in range(2, 30)), 30)
    return world


def decided_batches(world: World) -> list[int]:
    return [batch for (batch,) in world.query("hub", "select batch from relaybox_internal.decision order by batch")]


def test_a_batch_is_decided_on_while_the_next_one_is_copied(behind: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decisions on the first two batches wait for a slice of the next batch; the last one has nothing beside it."""
    reach, copied, decisions = failpoints.reach, threading.Semaphore(0), []

    def wait_for_slice(failpoint: str, connection: object) -> None:
        if failpoint == "slice.copied":
            copied.release()
        elif failpoint == "publish.begin":
            while copied.acquire(blocking=False):
                pass
        elif failpoint == "deliver.begin":
            decisions.append(copied.acquire(timeout=patience(20) if len(decisions) < 2 else 0))
        reach(failpoint, connection)  # type: ignore[arg-type]

    monkeypatch.setattr(failpoints, "reach", wait_for_slice)
    behind.transfer()
    assert decisions == [True, True, False]
    assert stream(behind) == EXPECTED


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.parametrize(
    "failpoint",
    [
        "publish.committed",
        "confirm.committed",
        "plan.committed",
        "deliver.begin",
        "deliver.decided",
        "deliver.committed",
        "slice.copied",
    ],
)
def test_a_driver_that_ends_anywhere_leaves_every_batch_to_the_next_one(
    behind: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failpoint: str, time: int
) -> None:
    _end_at(behind, monkeypatch, tmp_path, f"{failpoint}:{time}")
    behind.transfer()
    assert decided_batches(behind) == [1, 2, 3]
    assert stream(behind) == EXPECTED


def test_a_batch_that_was_confirmed_and_not_decided_on_is_delivered_by_the_confirming_task(
    behind: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its driver died when it was confirmed. What else was to move may be gone by then, so that no driver comes."""
    _end_at(behind, monkeypatch, tmp_path, "confirm.committed:1")
    assert decided_batches(behind) == []
    settle_hop(behind.route, behind.first_hop, recorded_by="test")
    assert decided_batches(behind) == [1]


@pytest.mark.parametrize("command", [("retire", "flights", "--reason", "gone"), ("retention",)], ids=" ".join)
def test_a_batch_of_a_route_that_is_gone_is_delivered_all_the_same(
    behind: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Its driver died when it was confirmed, and the route was taken out of the file: no driver comes."""
    _end_at(behind, monkeypatch, tmp_path, "confirm.committed:1")
    path = behind.path.with_name("without-flights.yaml")
    routes = {"cargo": {"topics": ["cargo"], "path": ["airline", "hub"]}}
    path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    assert invoke("init").exit_code == 0
    assert invoke(*command).exit_code == 0
    assert decided_batches(behind) == [1]


def test_an_index_that_has_arrived_is_not_skipped_before_it_is_decided_on(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The list of held messages says that it is missing, until the decision; after a skip it would be refused as skipped."""
    world.change_route(order="fifo", limits={"batch_rows": 10, "slice_rows": 5})
    declare(world, "a", "b")
    send_numbered(world, "a", 1, 2, 4)
    world.transfer()
    send_numbered(world, "a", 3)
    send_numbered(world, "b", *range(1, 15))
    _end_at(world, monkeypatch, tmp_path, "confirm.committed:1")
    refused = invoke("skip", "flights", "a", "--reason", "lost")
    assert refused.exit_code != 0
    assert "index 3 is not missing: it is at log position 4 of hop flights/1" in refused.stdout + refused.stderr
    world.transfer()
    assert [payload for payload in stream(world) if payload[0] == "a"] == ["a1", "a2", "a3", "a4"]


def _end_at(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failpoint: str) -> None:
    with monkeypatch.context() as patch, pytest.raises(errors.StoreBusy):
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
        patch.setenv("RELAYBOX_FAILPOINTS", f"{failpoint}=raise 40001")
        failpoints._armed.cache_clear()  # noqa: SLF001  # an earlier test of this process has counted its hits
        world.transfer()
