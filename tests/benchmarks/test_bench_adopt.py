"""`relaybox bench adopt` measures what it says: a small run and its JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.adopt import CONTESTANTS, PLAIN, run_bench_adopt
from relaybox.local.bench.pgbench import SIZES

pytestmark = pytest.mark.thorough


def test_every_contestant_sends_every_message_in_every_round(tmp_path: Path) -> None:
    """The benchmark counts the outbox itself; a message that an adopted table does not send ends it."""
    printed = io.StringIO()
    run_bench_adopt(messages=800, rounds=2, json_path=tmp_path / "bench.json", console=Console(file=printed, width=200))
    document = json.loads((tmp_path / "bench.json").read_text())
    turns = {(one["contestant"], one["size"], one["round"]) for one in document["sendings"]}
    assert turns == {(name, size, round_) for name in CONTESTANTS for size in SIZES for round_ in (1, 2)}
    assert {one["messages"] for one in document["sendings"]} == {800}
    assert set(document["ratios"]) == {f"{name}/{PLAIN}, {size}" for name in CONTESTANTS if name != PLAIN for size in SIZES}
    assert (document["backlog_rows"], document["locked_seconds"] > 0) == (800, True)
    assert "Backlog of 800 rows: writers were kept out for" in printed.getvalue()


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError):
        run_bench_adopt(messages=1)
