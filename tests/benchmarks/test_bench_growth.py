"""`relaybox bench growth` measures what it says: a small run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.growth import run_bench_growth

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(900)
def test_each_operation_is_measured_before_and_after_the_stores_have_grown(tmp_path: Path) -> None:
    printed = io.StringIO()
    run_bench_growth(
        messages=1_000_000,
        segments=50,
        batches=12,
        hops=3,
        lanes=130,
        big_messages=1,
        times=1,
        with_spark=False,
        json_path=tmp_path / "bench.json",
        console=Console(file=printed, width=160),
    )
    document = json.loads((tmp_path / "bench.json").read_text())
    before, after = document["sizes"]["before"], document["sizes"]["after"]
    assert (before["hops"], before["lanes"], before["batches"]) == (1, 1, 1)
    assert (after["hops"], after["lanes"]) == (3, 130)
    assert after["messages"] >= 1_000_000
    assert after["batches"] >= 12
    assert after["segments"] >= 45 > before["segments"]
    operations = {moment: {one["operation"] for one in readings} for moment, readings in document["readings"].items()}
    assert operations["before"] == operations["after"] == document["ratios"].keys()
    assert all(one["pages"] > 0 and one["seconds"] > 0 for one in document["readings"]["after"])
    assert all(driven["driver_mb"] > 10 for driven in document["memory"].values())
    assert "drop of a segment of the log" in printed.getvalue()


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError):
        run_bench_growth(messages=10)
