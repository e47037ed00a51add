"""`relaybox bench waiting` measures what it says: a short run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.libraries import LIBRARIES
from relaybox.local.bench.waiting import POLLS, run_bench_waiting


@pytest.mark.thorough
def test_each_message_of_each_library_and_of_one_that_polls_is_measured(tmp_path: Path) -> None:
    printed = io.StringIO()
    report = run_bench_waiting(
        samples=5, idle_seconds=1, json_path=tmp_path / "waiting.json", console=Console(file=printed, width=80)
    )
    assert list(report.kinds) == [*LIBRARIES, POLLS]
    assert all(len(figures.seconds) == 5 and min(figures.seconds) > 0 for figures in report.kinds.values())
    assert set(json.loads((tmp_path / "waiting.json").read_text())["percentiles"]) == {*LIBRARIES, POLLS}
    assert "milliseconds from publication to handler" in printed.getvalue()


def test_a_library_that_does_not_exist_is_refused_before_anything_is_made() -> None:
    with pytest.raises(errors.ConfigurationError, match="no library 'pg8000'"):
        run_bench_waiting(samples=1, idle_seconds=1, libraries=["pg8000"])
