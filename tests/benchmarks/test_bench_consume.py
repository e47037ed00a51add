"""`relaybox bench consume` measures what it says: a small run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.consume import CONTESTANTS, run_bench_consume
from relaybox.local.bench.libraries import LIBRARIES
from relaybox.local.bench.loops import PLAIN

pytestmark = pytest.mark.thorough


def test_every_contestant_reads_every_message_in_every_round(tmp_path: Path) -> None:
    printed = io.StringIO()
    run_bench_consume(messages=5_000, rounds=2, json_path=tmp_path / "bench.json", console=Console(file=printed, width=160))
    document = json.loads((tmp_path / "bench.json").read_text())
    turns = {(reading["contestant"], reading["round"]) for reading in document["readings"]}
    assert turns == {(name, round_) for name in CONTESTANTS for round_ in (1, 2)}
    assert {reading["row_count"] for reading in document["readings"]} == {5_000}
    assert set(document["ratios"]) >= {
        "fetch-10000/select",
        "fetch-100/select",
        "queue-100/fetch-100",
        "fetch-100-crowded/fetch-100",
    }
    assert all(contestant.title in printed.getvalue() for contestant in CONTESTANTS.values())
    looped = {(loop["contestant"], loop["per_transaction"], loop["round"]) for loop in document["loops"]}
    assert looped == {(name, size, round_) for name in (PLAIN, *LIBRARIES) for size in (100, 1) for round_ in (1, 2)}
    assert "beside 20,032 lanes of others take" in printed.getvalue()


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError):
        run_bench_consume(messages=0)
