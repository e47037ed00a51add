"""The benchmark measures what it says: a small run, its JSON, and its refusal of lost rows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from rich.console import Console

from relaybox import errors
from relaybox.local.bench.contestants import measure_pipe
from relaybox.local.bench.cpu_times import PARTS
from relaybox.local.bench.hop import run_bench
from relaybox.local.bench.report import HOP, PIPES, STEPS, SYNCS, TITLES
from relaybox.local.bench.stores import SETTINGS, open_bench_stores

pytestmark = pytest.mark.thorough

MESSAGES, ROUNDS = 20_000, 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The JSON and the printed text of one small run, with holes in the outbox and more than one batch and slice."""
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    printed = io.StringIO()
    run_bench(
        messages=MESSAGES,
        rounds=ROUNDS,
        json_path=path,
        runner="threads",
        rollback_every=5,
        limits={"batch_rows": 12_000, "slice_rows": 3_000},
        console=Console(file=printed, width=160),
    )
    return json.loads(path.read_text()), printed.getvalue()


def test_every_contestant_moves_every_message_in_every_round(run: tuple[dict[str, Any], str]) -> None:
    measurements = run[0]["measurements"]
    turns = {(m["contestant"], m["round"]) for m in measurements}
    assert turns == {(contestant, round_) for contestant in TITLES for round_ in range(1, ROUNDS + 1)}
    assert len(measurements) == len(turns)
    assert {m["row_count"] for m in measurements} == {MESSAGES}
    assert all(m["seconds"] > 0 for m in measurements)


def test_contestants_take_turns_and_another_one_begins_each_round(run: tuple[dict[str, Any], str]) -> None:
    measurements = run[0]["measurements"]
    assert [m["round"] for m in measurements] == sorted(m["round"] for m in measurements)
    assert len({next(m["contestant"] for m in measurements if m["round"] == n) for n in range(1, ROUNDS + 1)}) == ROUNDS


def test_the_steps_of_a_hop_add_up_to_its_time(run: tuple[dict[str, Any], str]) -> None:
    """The ledgers' times cover the run from its start to the last confirmation; closing the sessions is all that is left."""
    for m in (m for m in run[0]["measurements"] if m["contestant"] == HOP):
        assert set(m["steps"]) == set(STEPS)
        assert all(seconds > 0 for seconds in m["steps"].values())
        assert 0.5 * m["seconds"] < sum(m["steps"].values()) <= m["seconds"]


def test_each_part_has_its_cpu_seconds(run: tuple[dict[str, Any], str]) -> None:
    """Of every contestant, and of each step of one more hop. No part used more than all cores had while it was measured."""
    report, printed = run
    cores = report["environment"]["cores"]
    for m in report["measurements"]:
        assert set(m["cpu"]) == set(PARTS)
        assert all(seconds >= 0 for seconds in m["cpu"].values())
        assert 0 < sum(m["cpu"].values()) < cores * (m["seconds"] + 1)
    hops = [m["cpu"]["destination"] for m in report["measurements"] if m["contestant"] == HOP]
    assert report["cpu_seconds_per_million"][HOP]["destination"] == median(seconds / MESSAGES * 1e6 for seconds in hops)
    assert set(report["step_cpu"]) == set(STEPS)
    assert all(set(parts) == set(PARTS) for parts in report["step_cpu"].values())
    assert max(report["step_cpu"], key=lambda step: sum(report["step_cpu"][step].values())) == "copy"
    assert "CPU seconds per million messages" in printed


def test_figures_follow_from_the_raw_values(run: tuple[dict[str, Any], str]) -> None:
    report = run[0]
    seconds = {c: [m["seconds"] for m in report["measurements"] if m["contestant"] == c] for c in TITLES}
    for contestant, values in seconds.items():
        assert report["seconds"][contestant] == {"median": median(values), "min": min(values), "max": max(values)}
    for name, contestants in (("pipe", PIPES), ("sync", SYNCS)):
        baseline = min(contestants.values(), key=lambda c: median(seconds[c]))
        ratios = [hop / other for hop, other in zip(seconds[HOP], seconds[baseline], strict=True)]
        assert report["baselines"][name] == baseline
        assert report["ratios"][f"hop/{baseline}"]["median"] == median(ratios)


def test_the_circumstances_are_in_the_json(run: tuple[dict[str, Any], str]) -> None:
    report = run[0]
    assert (report["messages"], report["rounds"], report["runner"], report["rollback_every"]) == (MESSAGES, ROUNDS, "threads", 5)
    assert report["environment"]["postgres"]["settings"] == SETTINGS
    assert report["environment"]["cores"] >= 1
    assert 300 < report["bytes_per_message"] < 400
    assert report["limits"]["slice_rows"] == 3_000


def test_rates_and_ratios_are_printed(run: tuple[dict[str, Any], str]) -> None:
    report, printed = run
    for title in TITLES.values():
        assert title in printed
    ratio = report["ratios"][f"hop/{report['baselines']['pipe']}"]["median"]
    assert f"{ratio:.2f}" in printed


def test_a_contestant_that_lost_rows_fails_the_benchmark(tmp_path: Path) -> None:
    with open_bench_stores(tmp_path, {}) as stores:
        stores.new_route()
        stores.fill(1_500, rollback_every=0, filled=lambda _: None)
        assert measure_pipe(stores, messages=1_500, round_=1, format_="binary").row_count == 1_500
        with pytest.raises(errors.ContentDiffers, match="1500 rows arrived, 1501 were sent"):
            measure_pipe(stores, messages=1_501, round_=2, format_="binary")


@pytest.mark.parametrize("wrong", [{"messages": 0}, {"rounds": 0}, {"runner": "sparks"}, {"rollback_every": -1}])
def test_a_wrong_argument_is_refused_before_anything_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigurationError, match=next(iter(wrong))):
        run_bench(**{"messages": 1, **wrong})
