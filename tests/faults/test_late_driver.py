"""A driver that slept between asking the destination and planning: what it was told has become old."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.patience import patience
from tests.support.world import World, wait_until


def test_an_old_answer_is_no_lost_history(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G11 is not cried falsely: another driver planned, published and confirmed meanwhile, and the late one asks again."""
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", "plan.begin:1=pause")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    world.send("a")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(world.transfer)
        try:
            wait_until((tmp_path / "hits.jsonl").exists, "the late driver has asked")
            world.transfer()
            world.send("b")
        finally:
            (tmp_path / "plan.begin.go").touch()
        assert late.result(timeout=patience(30)).row_count == 1
    assert world.payloads() == ["a", "b"]
