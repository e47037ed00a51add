"""`relaybox bench steady` measures what it says: a short run and its JSON, and what it does when its driver fails."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench import steady
from relaybox.local.bench.steady import run_bench_steady
from relaybox.local.bench.steady_report import SteadyReport, Window


@pytest.mark.thorough
def test_every_message_is_sent_moved_confirmed_read_and_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "CLEANING_SECONDS", 1.0)
    printed = io.StringIO()
    report = run_bench_steady(
        rate=200, hours=12 / 3600, window_seconds=3, json_path=tmp_path / "steady.json", console=Console(file=printed, width=160)
    )
    assert [window.number for window in report.windows] == list(range(1, len(report.windows) + 1))
    assert sum(window.read for window in report.windows) > 200
    measured = report.windows[-1]
    assert 0 < measured.p50_seconds <= measured.p99_seconds
    assert min(measured.driver_bytes, measured.consumer_bytes, measured.session_bytes, measured.wal_bytes) > 1_000_000
    assert all(seconds > 0 for seconds in measured.cpu_seconds.values())
    assert {"source.batch", "destination.arrival"} <= set(measured.ledger_bytes)
    document = json.loads((tmp_path / "steady.json").read_text())
    assert set(document["ratios"]) == set(measured.figures())
    assert "must stay flat" in printed.getvalue()


@pytest.mark.thorough
def test_a_driver_that_fails_ends_the_run_with_what_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "LINGER_SECONDS", -1)
    with pytest.raises(errors.StackFailed, match=r"(?s)relaybox transfer ended with 2:.*--linger-seconds"):
        run_bench_steady(rate=200, hours=1, window_seconds=3, console=Console(file=io.StringIO()))


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="rate must be 25 or more"):
        run_bench_steady(rate=1)


WINDOW = Window(
    1, 10.0, 100, 100, 0.1, 0.2, 10**6, 10**6, 10**6, {"source.batch": 10**6}, 10**6, 10**6, 10**6, {"stores": 1.0}, 0.1, 1.0
)


def test_what_grows_is_named() -> None:
    """A disk that doubles has the ratio 2, a ledger that grew by half is listed; the first window is compared with nothing."""
    grown = replace(WINDOW, source_bytes=2 * 10**6, ledger_bytes={"source.batch": 15 * 10**5})
    report = SteadyReport(25, 1.0, 10.0, {}, (replace(WINDOW, source_bytes=1), WINDOW, WINDOW, WINDOW, grown, grown, grown))
    assert report.ratios()["disk of the outbox's store, MB"] == 2.0
    assert report.ratios()["disk of the log's store, MB"] == 1.0
    assert report.grown_ledgers() == {"source.batch": (10**6, 15 * 10**5)}
