"""`relaybox bench sinks` measures what it says: a short run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox.local.bench.sinks import KAFKA, WEBHOOK, run_bench_sinks


@pytest.mark.thorough
def test_each_message_of_both_kinds_is_delivered_and_measured(tmp_path: Path) -> None:
    printed = io.StringIO()
    report = run_bench_sinks(
        messages=20, samples=3, lanes=[2], json_path=tmp_path / "sinks.json", console=Console(file=printed, width=80)
    )
    assert [(one.kind, one.lanes, one.messages) for one in report.figures] == [(WEBHOOK, 2, 20), (KAFKA, 2, 200)]
    assert all(len(one.latencies) == 3 and min(one.latencies) > 0 for one in report.figures)
    assert set(json.loads((tmp_path / "sinks.json").read_text())["per_second"]) == {"webhook, lanes 2", "Kafka, lanes 2"}
    assert "messages" in printed.getvalue()
