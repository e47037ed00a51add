"""`relaybox bench waiting` measures what it says: a short run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox.local.bench.waiting import KINDS, run_bench_waiting


@pytest.mark.thorough
def test_each_message_of_both_consumers_is_measured(tmp_path: Path) -> None:
    printed = io.StringIO()
    report = run_bench_waiting(
        samples=5, idle_seconds=1, json_path=tmp_path / "waiting.json", console=Console(file=printed, width=80)
    )
    assert list(report.kinds) == list(KINDS)
    assert all(len(figures.seconds) == 5 and min(figures.seconds) > 0 for figures in report.kinds.values())
    assert set(json.loads((tmp_path / "waiting.json").read_text())["percentiles"]) == set(KINDS)
    assert "milliseconds from publication to handler" in printed.getvalue()
