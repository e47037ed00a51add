"""The cascade of each batch as a row of bars: copied, published, received, processed, settled, each from the moment before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from markupsafe import Markup

from relaybox.airflow.page import formatting
from relaybox.airflow.page.svg import drawing, element, text
from relaybox.airflow.page.urls import run_address
from relaybox.amounts import amount
from relaybox.monitoring.hop_history import BatchTimes
from relaybox.monitoring.spark_pages import application_address

WIDTH, ROW, LEFT, RIGHT, TOP = 860.0, 26.0, 190.0, 120.0, 26.0
TICKS = (0.1, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 86_400.0)

STEPS = ("copied", "published", "received", "processed", "settled")


@dataclass(frozen=True)
class Bar:
    """A step of a batch, in seconds since it was planned."""

    step: str
    start: float
    end: float


def bars(batch: BatchTimes) -> Iterator[Bar]:
    """The steps that happened, in their order. Two clocks are at work: a step that seems to end before it began has no length."""
    before = 0.0
    for step, moment in zip(
        STEPS,
        (
            *(batch.copied_at[-1] if batch.copied_at else None, batch.published_at, batch.received_at),
            *(batch.processed_at, batch.settled_at),
        ),
        strict=True,
    ):
        if moment is None:
            continue
        end = max(before, (moment - batch.planned_at).total_seconds())
        yield Bar(step, before, end)
        before = end


def draw_timeline(batches: Sequence[BatchTimes], *, airflow: str = "") -> Markup:
    """One row per batch, newest first; time is drawn as its square root, so that seconds are seen beside minutes.

    A batch's name leads to the DAG run that moved it, below `airflow`; its first bar to the Spark application that copied it.
    """
    drawn = [(batch, list(bars(batch))) for batch in batches]
    longest = max((each[-1].end for _, each in drawn if each), default=0.0) or 1.0
    height = TOP + ROW * len(drawn) + 4
    return drawing(
        *_ticks(longest, height),
        *(row for number, (batch, steps) in enumerate(drawn) for row in _row(batch, steps, TOP + number * ROW, longest, airflow)),
        width=WIDTH,
        height=height,
        label="Batches, from plan to settlement",
        class_="timeline",
        has_links=True,
    )


def _x(seconds: float, longest: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * sqrt(min(seconds, longest) / longest)


def _ticks(longest: float, height: float) -> Iterator[Markup]:
    yield element("line", x1=LEFT, y1=TOP - 6, x2=LEFT, y2=height, class_="grid")
    yield text("planned", LEFT, TOP - 12, "tick", "middle")
    shown = [tick for tick in TICKS if longest / 40 <= tick <= longest][-5:]
    for tick in shown:
        x = _x(tick, longest)
        yield element("line", x1=x, y1=TOP - 6, x2=x, y2=height, class_="grid")
        yield text(f"+{formatting.duration(tick)}", x, TOP - 12, "tick", "middle")


def _row(batch: BatchTimes, steps: Sequence[Bar], y: float, longest: float, airflow: str) -> Iterator[Markup]:
    yield _linked(text(f"{batch.batch:,}: {amount(batch.row_count, 'message')}", 8, y + 16), run_address(airflow, batch.moved_by))
    for bar in steps:
        start, end = _x(bar.start, longest), _x(bar.end, longest)
        title = (
            f"batch {batch.batch} {bar.step} {formatting.duration(bar.end)} after its plan ({formatting.clock(batch.planned_at)})"
        )
        by_spark = batch.application if bar.step == "copied" else None
        if by_spark:
            title += f" by Spark application {by_spark}"
        drawn = element(
            "rect",
            element("title", title),
            x=start,
            y=y + 4,
            width=max(2.0, end - start),
            height=ROW - 9,
            rx=2,
            class_=f"step {bar.step}",
        )
        yield _linked(drawn, application_address(by_spark))
    for moment in batch.copied_at:
        x = _x(max(0.0, (moment - batch.planned_at).total_seconds()), longest)
        yield element("line", x1=x, y1=y + 4, x2=x, y2=y + ROW - 5, class_="slice")
    yield text(_end(batch, steps), WIDTH - 8, y + 16, "small", "end")


def _linked(drawn: Markup, address: str | None) -> Markup:
    return element("a", drawn, href=address, data_leave="") if address else drawn


def _end(batch: BatchTimes, steps: Sequence[Bar]) -> str:
    if batch.published_at is None:
        return f"{len(batch.copied_at)} of {amount(batch.slice_count, 'slice')}"
    return f"{steps[-1].step} +{formatting.duration(steps[-1].end)}"
