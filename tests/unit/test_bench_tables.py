"""A table of `relaybox bench` fits a terminal of 80 columns: no word or number is cut, no column is missing."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from rich.console import Console

from relaybox.local.bench import (
    adopt,
    consume,
    frames,
    latency_report,
    loops,
    order,
    page,
    produce,
    report,
    retention,
    singles,
    sinks,
    waiting,
    workers,
)
from relaybox.local.bench.cpu_times import PARTS
from relaybox.local.bench.libraries import LIBRARIES
from relaybox.local.bench.pgbench import SIZES, Sending

WIDTH = 80
ROUNDS = tuple(range(1, 13))
MESSAGES = 2_000_000


def _hop(console: Console) -> None:
    measurements = tuple(
        report.Measurement(
            contestant=contestant,
            round=round_,
            seconds=113.86 + round_,
            row_count=MESSAGES,
            byte_count=373 * MESSAGES,
            steps=dict.fromkeys(report.STEPS, 103.2 + round_),
            cpu=dict.fromkeys(PARTS, 22.22),
        )
        for round_ in ROUNDS
        for contestant in report.TITLES
    )
    step_cpu = {step: dict.fromkeys(PARTS, 11.31) for step in report.STEPS}
    report.print_report(report.BenchReport(MESSAGES, len(ROUNDS), "spark", 0, {}, {}, measurements, step_cpu), console)


def _order(console: Console) -> None:
    measurements = tuple(
        order.OrderMeasurement(contestant, round_, 104.04 + round_, MESSAGES, MESSAGES, 0, 0.952416, 0.952416)
        for round_ in ROUNDS
        for contestant in order.TITLES
    )
    order.print_report(measurements, MESSAGES, len(ROUNDS), console)


def _spark(console: Console) -> None:
    turns = tuple(
        frames.Turn(contestant, round_, 103.25 + round_, 110.5, 120.5, 130.5) for round_ in ROUNDS for contestant in frames.TITLES
    )
    frames.print_report(frames.FrameReport(MESSAGES, len(ROUNDS), {}, turns), console)


def _consume(console: Console) -> None:
    readings = tuple(
        consume.Reading(contestant, round_, 113.48 + round_, 112.25, MESSAGES)
        for round_ in ROUNDS
        for contestant in consume.CONTESTANTS
    )
    singly = tuple(
        singles.Single(contestant, round_, 113.25 + round_, 111.25, 3000)
        for round_ in ROUNDS
        for contestant in singles.CONTESTANTS
    )
    looped = tuple(
        loops.Loop(contestant, size, round_, 113.25 + round_, 111.25, MESSAGES)
        for round_ in ROUNDS
        for contestant in (loops.PLAIN, *LIBRARIES)
        for size in loops.PER_TRANSACTION
    )
    consume.print_report(consume.ConsumeReport(MESSAGES, len(ROUNDS), {}, readings, singly, looped), console)


def _produce(console: Console) -> None:
    sendings = tuple(
        produce.Sending(contestant, size, round_, MESSAGES, 101.25 + round_, 102.5)
        for contestant in (*produce.CONTESTANTS, *produce.PUTS)
        for size in produce.SIZES
        for round_ in ROUNDS
    )
    produce.print_report(produce.ProduceReport(MESSAGES, len(ROUNDS), {}, (), sendings), console)


def _workers(console: Console) -> None:
    measurements = tuple(
        workers.WorkersMeasurement(count, round_, 116.32 + round_, 115.68 + round_, {})
        for count in workers.WORKERS
        for round_ in ROUNDS
    )
    workers.print_report(workers.WorkersReport(MESSAGES, 10.0, {}, measurements), console)


def _latency(console: Console) -> None:
    idle = {"Airflow": 0.233, "metadata": 0.054, "stores": 1.204}
    counts = tuple(latency_report.HopCountFigures(hops, (12.74, 13.19), idle) for hops in (1, 10, 100))
    latency_report.print_report(latency_report.LatencyReport("auto", 60.0, 5, {}, (0.2, 0.3), counts, (0.27, 10.83)), console)


def _waiting(console: Console) -> None:
    figures = waiting.WaitingFigures((0.4, 11.111), 0.1234)
    waiting.print_report(
        waiting.WaitingReport(600.5, None, {}, (1.0, 2.0), dict.fromkeys((*LIBRARIES, waiting.POLLS), figures)), console
    )


def _sinks(console: Console) -> None:
    figures = tuple(sinks.SinkFigures(kind, 64, 10_000, 123.4, (0.4, 11.111)) for kind in (sinks.WEBHOOK, sinks.KAFKA))
    sinks.print_report(sinks.SinksReport({}, (1.0, 2.0), figures), console)


def _page(console: Console) -> None:
    def beside(manner: str, looks: int) -> page.Beside:
        return page.Beside(manner, looks, dict.fromkeys(page.ENDPOINTS, (0.1027, 0.1127)), {"200": 1148, "503": 1136})

    besides = tuple(beside(manner, looks) for manner in page.MANNERS for looks in (50, 500))
    page.print_report(page.PageReport(beside("healthy", 0), besides, {}), console)


def _retention(console: Console) -> None:
    turns = tuple(
        retention.Turn(number, phase, 10.5, 1_262_000_000, 1_363_000_000, 0.1234, 0.1222, 4)
        for number, phase in enumerate(retention.PHASES, start=1)
    )
    retention.print_report(retention.RetentionReport(MESSAGES, 20_000, {}, turns), console)


def _adopt(console: Console) -> None:
    sendings = tuple(
        Sending(contestant, size, round_, MESSAGES, 113.25 + round_, 1234.5)
        for size in SIZES
        for round_ in ROUNDS
        for contestant in adopt.CONTESTANTS
    )
    adopt.print_report(adopt.AdoptReport(MESSAGES, len(ROUNDS), {}, sendings, MESSAGES, 10.25, 110.25), console)


REPORTS = (_adopt, _hop, _order, _spark, _consume, _produce, _workers, _latency, _waiting, _sinks, _page, _retention)


@pytest.mark.parametrize("show", REPORTS, ids=lambda show: show.__name__.strip("_"))
def test_a_report_fits_80_columns(show: Callable[[Console], None]) -> None:
    narrow, wide = _printed(show, WIDTH), _printed(show, 400)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= WIDTH
    assert sorted(re.findall(r"[\d.,]*\d%?", narrow)) == sorted(re.findall(r"[\d.,]*\d%?", wide))
    assert sorted(_words(narrow)) == sorted(_words(wide))


def _printed(show: Callable[[Console], None], width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)
