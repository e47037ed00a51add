"""Charts over time: bars of a rate, and points of a delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from relaybox.airflow.page import formatting
from relaybox.airflow.page.svg import drawing, element, text
from relaybox.amounts import amount
from relaybox.monitoring.hop_history import HopFlow

WIDTH, HEIGHT = 620.0, 190.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 12.0, 26.0


def draw_rates(flow: HopFlow) -> Markup:
    """Messages published per second, one bar per interval."""
    rates = [interval.published_rows / flow.interval_seconds for interval in flow.intervals]
    top = nice_top(max(rates, default=0.0))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(rates))
    bars = (
        element(
            "rect",
            element(
                "title",
                f"{formatting.clock(interval.starts_at)}: {amount(interval.published_rows, 'message')}, {formatting.rate(rate)}",
            ),
            x=LEFT + number * step + 0.5,
            y=_y(rate, top),
            width=max(1.0, step - 1),
            height=HEIGHT - BOTTOM - _y(rate, top),
            class_="bar",
        )
        for number, (interval, rate) in enumerate(zip(flow.intervals, rates, strict=True))
        if rate
    )
    return _chart("Messages that arrived, per second", flow, top, formatting.rate, [*bars])


def draw_delays(flow: HopFlow, *, lag_seconds: float | None) -> Markup:
    """How old the oldest message of each interval's worst batch was when it arrived; last, the age of what still waits."""
    points = [
        (number, interval.worst_delay_seconds)
        for number, interval in enumerate(flow.intervals)
        if interval.worst_delay_seconds is not None
    ]
    top = nice_top(max([*(delay for _, delay in points), lag_seconds or 0.0]))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(flow.intervals))
    dots = [(LEFT + (number + 0.5) * step, _y(max(0.0, delay), top), delay, number) for number, delay in points]
    marks = [
        element(
            "circle",
            element("title", f"{formatting.clock(flow.intervals[number].starts_at)}: {formatting.duration(delay)}"),
            cx=x,
            cy=y,
            r=3.5,
            class_="point",
        )
        for x, y, delay, number in dots
    ]
    line = element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in dots), class_="line")
    waiting = []
    if lag_seconds is not None:
        x, y = WIDTH - RIGHT - 4, _y(lag_seconds, top)
        waiting = [
            element(
                "circle",
                element("title", f"waiting for {formatting.duration(lag_seconds)}"),
                cx=x,
                cy=y,
                r=5,
                class_="point late",
            )
        ]
    return _chart(
        "Age of the oldest message of a batch when it arrived", flow, top, formatting.duration, [line, *marks, *waiting]
    )


def nice_top(highest: float) -> float:
    """The end of an axis: 1, 2 or 5 times a power of ten, at least as high."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** (len(f"{int(highest)}") - 1) if highest >= 1 else 0.001
    while True:
        for factor in (1, 2, 5):
            if factor * power >= highest:
                return factor * power
        power *= 10


def _y(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(value, top) / top)


def _chart(label: str, flow: HopFlow, top: float, show: Callable[[float], str], marks: Sequence[Markup]) -> Markup:
    return drawing(*_grid(top, show), *_times(flow), *marks, width=WIDTH, height=HEIGHT, label=label, class_="chart")


def _grid(top: float, show: Callable[[float], str]) -> Iterator[Markup]:
    for part in (0.0, 0.5, 1.0):
        y = _y(part * top, top)
        yield element("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, class_="grid")
        yield text(show(part * top), LEFT - 8, y + 4, "tick", "end")


def _times(flow: HopFlow) -> Iterator[Markup]:
    start, end = flow.intervals[0].starts_at, flow.measured_at
    for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        moment = start + (end - start) * part
        yield text(_time(moment, end), LEFT + (WIDTH - LEFT - RIGHT) * part, HEIGHT - 8, "tick", anchor)


def _time(moment: datetime, now: datetime) -> str:
    moment, now = moment.astimezone(UTC), now.astimezone(UTC)
    return f"{moment:%H:%M}Z" if moment.date() == now.date() else f"{moment:%m-%d %H:%M}Z"
