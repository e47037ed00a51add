"""`relaybox bench retention` measures what it says: a small run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.retention import PHASES, run_bench_retention

pytestmark = pytest.mark.thorough


def test_every_turn_drops_what_it_filled_in_every_phase(tmp_path: Path) -> None:
    printed = io.StringIO()
    run_bench_retention(messages=4_000, turns=20, json_path=tmp_path / "bench.json", console=Console(file=printed, width=160))
    document = json.loads((tmp_path / "bench.json").read_text())
    assert [turn["number"] for turn in document["turns"]] == list(range(20))
    assert {turn["phase"] for turn in document["turns"]} == set(PHASES)
    assert sum(turn["dropped_count"] for turn in document["turns"]) == 40, "twenty segments of the outbox, twenty of the log"
    assert set(document["phases"]["after"]["ratios"]) == {
        "source_bytes",
        "destination_bytes",
        "fetch_seconds",
        "fetch_over_select",
    }
    assert "while a snapshot is held" in printed.getvalue()


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError):
        run_bench_retention(messages=10)
