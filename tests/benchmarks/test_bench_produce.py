"""`relaybox bench produce` measures what it says: a small run and its JSON. Without the packages of others it says so."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.produce import CONTESTANTS, OUTBOX, PLAIN, PUTS, SIZES, run_bench_produce
from relaybox.local.bench.rivals import PGMQ

pytestmark = pytest.mark.thorough


def test_every_contestant_sends_every_message_in_every_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # no package of others is here
    run_bench_produce(messages=800, rounds=2, json_path=tmp_path / "bench.json", console=Console(file=printed, width=200))
    document = json.loads((tmp_path / "bench.json").read_text())
    turns = {(one["contestant"], one["size"], one["round"]) for one in document["sendings"]}
    assert document["left_out"] == ["pgmq", "pgq"]
    names = {*CONTESTANTS, *PUTS} - {"pgmq", "pgq"}
    assert turns == {(name, size, round_) for name in names for size in SIZES for round_ in (1, 2)}
    assert {one["messages"] for one in document["sendings"] if one["contestant"] in CONTESTANTS} == {800}
    assert {f"{OUTBOX}/{PLAIN}, 1", f"{OUTBOX}/{PLAIN}, 100", "put/sql, 1"} <= set(document["ratios"])
    assert "pgmq.send is left out: its SQL is not here. Run: make rivals" in printed.getvalue()
    assert CONTESTANTS[OUTBOX].title in printed.getvalue()


def test_another_text_than_that_of_the_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert PGMQ.read() is None
    PGMQ.path.parent.mkdir()
    PGMQ.path.write_text("select 1")
    with pytest.raises(errors.ConfigurationError, match="its SHA-256 is"):
        PGMQ.read()


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError):
        run_bench_produce(messages=1)
