"""`relaybox bench workers` measures what it says: a small run on a real master with two workers, its JSON, and its refusals."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.workers import WORKERS, run_bench_workers

pytestmark = pytest.mark.thorough

MESSAGES, MEGABYTES_PER_SECOND = 20_000, 1.5


def test_two_workers_share_what_one_does_alone(tmp_path: Path) -> None:
    """The rate of a session holds, so one worker takes the time that it gives; two take less. All messages arrive each time."""
    path, printed = tmp_path / "workers.json", io.StringIO()
    run_bench_workers(
        messages=MESSAGES,
        rounds=1,
        megabytes_per_second=MEGABYTES_PER_SECOND,
        json_path=path,
        console=Console(file=printed, width=160),
    )
    report = json.loads(path.read_text())
    seconds = {m["workers"]: m["copy_seconds"] for m in report["measurements"]}
    assert set(seconds) == set(WORKERS)
    at_that_rate = MESSAGES * 370 / (MEGABYTES_PER_SECOND * 1e6)
    assert seconds[1] > 0.9 * at_that_rate
    assert seconds[2] > 0.45 * at_that_rate
    assert report["speedup_of_copying"]["median"] == seconds[1] / seconds[2] > 1.2
    assert report["speedup"]["median"] < 2.1
    assert "simulated" in printed.getvalue()


@pytest.mark.parametrize("wrong", [{"messages": 15}, {"rounds": 0}, {"megabytes_per_second": 0.0}])
def test_a_wrong_argument_is_refused_before_anything_is_made(wrong: dict[str, int]) -> None:
    with pytest.raises(errors.ConfigurationError, match="bench workers: "):
        run_bench_workers(**{"messages": 100, "rounds": 1, "megabytes_per_second": 1.0, **wrong})  # type: ignore[arg-type]
