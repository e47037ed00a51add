"""`relaybox bench spark` measures what it says: a small run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench import frames
from relaybox.local.bench.frames import TITLES, run_bench_spark

pytestmark = pytest.mark.thorough


def test_every_contestant_reads_or_writes_every_message_in_every_round(tmp_path: Path) -> None:
    """Without a JDBC driver, which is Debian's, the command says what to install."""
    if not frames._JARS[0].exists():  # noqa: SLF001
        with pytest.raises(errors.ConfigurationError, match="apt-get install libpostgresql-jdbc-java"):
            run_bench_spark(messages=10)
        return
    printed = io.StringIO()
    run_bench_spark(messages=3_000, rounds=2, json_path=tmp_path / "bench.json", console=Console(file=printed, width=160))
    document = json.loads((tmp_path / "bench.json").read_text())
    assert {(turn["contestant"], turn["round"]) for turn in document["turns"]} == {(name, n) for name in TITLES for n in (1, 2)}
    assert set(document["rates"]) == {
        "frame/jdbc", "frame_sum/jdbc_sum", "frame_count/jdbc_count", "frame/hop", "write/append", "write/copy", "derive/hop", "export/parquet",
    }  # fmt: skip
    for turn in document["turns"]:
        parts = [turn[f"{part}_cpu_seconds"] for part in ("stores", "jvm", "python")]
        assert min(parts) >= 0, turn
        assert sum(parts) == pytest.approx(turn["cpu_seconds"]), turn
        assert turn["cpu_seconds"] > 0, turn
    assert all(title in printed.getvalue() for title in TITLES.values())


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError):
        run_bench_spark(messages=0)
