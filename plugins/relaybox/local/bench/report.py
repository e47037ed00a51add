"""What a benchmark measured: raw values, medians with spread, ratios per round; as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from relaybox.amounts import amount
from relaybox.local.bench.cpu_times import PARTS

HOP = "hop"
PIPES = {"binary": "pipe-binary", "text": "pipe-text"}
SYNCS = {"binary": "sync-binary", "text": "sync-text"}
TITLES = {
    HOP: "this hop",
    **{name: f"psql copy to | psql copy from, {format_}" for format_, name in PIPES.items()},
    **{name: f"logical replication's initial sync, {format_}" for format_, name in SYNCS.items()},
}
STEPS = ("plan", "copy", "publish", "confirm")


@dataclass(frozen=True)
class Measurement:
    """One contestant moved all messages once; how many arrived was counted afterwards."""

    contestant: str  # a key of TITLES
    round: int
    seconds: float
    row_count: int
    byte_count: int | None = None  # of the binary COPY stream; known of a hop
    steps: Mapping[str, float] = field(default_factory=dict)  # seconds per step of a hop
    cpu: Mapping[str, float] = field(default_factory=dict)  # CPU seconds per part (cpu_times.PARTS)


@dataclass(frozen=True)
class BenchReport:
    """All measurements of one run, and in what circumstances they were made."""

    messages: int
    rounds: int
    runner: str
    rollback_every: int
    limits: Mapping[str, int]
    environment: Mapping[str, Any]
    measurements: tuple[Measurement, ...]
    step_cpu: Mapping[str, Mapping[str, float]]  # of one more run of the hop: step, part, CPU seconds

    def seconds(self, contestant: str) -> list[float]:
        """Seconds of a contestant, by round."""
        return [m.seconds for m in sorted(self.measurements, key=lambda m: m.round) if m.contestant == contestant]

    def ratios(self, baseline: str) -> list[float]:
        """The hop's seconds over the baseline's, by round: both saw the machine in about the same state."""
        return [hop / other for hop, other in zip(self.seconds(HOP), self.seconds(baseline), strict=True)]

    def faster(self, contestants: Mapping[str, str]) -> str:
        """The contestant with the lower median: so the comparison is with the better format."""
        return min(contestants.values(), key=lambda contestant: median(self.seconds(contestant)))

    @property
    def bytes_per_message(self) -> float:
        """In the binary COPY stream."""
        return next(m.byte_count / m.row_count for m in self.measurements if m.byte_count)

    def cpu_per_million(self, contestant: str, part: str) -> float:
        """CPU seconds per million messages, the median of the rounds."""
        return median(m.cpu[part] / m.row_count * 1e6 for m in self.measurements if m.contestant == contestant)

    def step_seconds(self, step: str) -> list[float]:
        return [m.steps[step] for m in self.measurements if m.contestant == HOP]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        return {
            **asdict(self),
            "bytes_per_message": self.bytes_per_message,
            "seconds": {contestant: spread(self.seconds(contestant)) for contestant in TITLES},
            "steps": {step: spread(self.step_seconds(step)) for step in STEPS},
            "cpu_seconds_per_million": {
                contestant: {part: self.cpu_per_million(contestant, part) for part in PARTS} for contestant in TITLES
            },
            "ratios": {f"{HOP}/{baseline}": spread(self.ratios(baseline)) for baseline in TITLES if baseline != HOP},
            "baselines": {"pipe": self.faster(PIPES), "sync": self.faster(SYNCS)},
        }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def write_json(document: Mapping[str, Any], path: Path | None) -> None:
    """Every raw value of a benchmark, where it was asked for."""
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def show_seconds(seconds: Sequence[float]) -> str:
    """`1.50 (1.40 to 1.70)`: median, smallest and largest."""
    return f"{median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def print_report(report: BenchReport, console: Console) -> None:
    """Rates, then ratios, then where the hop's time went."""
    console.print(_rates(report), _ratios(report), _cpu(report), _steps(report), sep="\n")


def _rates(report: BenchReport) -> Table:
    title = f"{amount(report.messages, 'message')} of {report.bytes_per_message:.0f} bytes, {amount(report.rounds, 'round')}"
    table = Table(
        "who moves all messages once",
        "seconds: median\n(min to max)",
        "messages\nper second",
        "MB per\nsecond",
        title=title,
        caption="Fewer seconds are better. MB are of the binary COPY stream.",
    )
    for contestant, name in TITLES.items():
        seconds = report.seconds(contestant)
        rows_per_second = report.messages / median(seconds)
        megabytes_per_second = rows_per_second * report.bytes_per_message / 1e6
        table.add_row(name, show_seconds(seconds), f"{rows_per_second:,.0f}", f"{megabytes_per_second:.0f}")
    return table


def _ratios(report: BenchReport) -> Table:
    table = Table(
        "seconds of the hop / seconds of",
        "by round",
        "median",
        caption="Below 1 the hop is faster. Of each kind the faster format is compared.",
    )
    for baseline in (report.faster(PIPES), report.faster(SYNCS)):
        ratios = report.ratios(baseline)
        table.add_row(TITLES[baseline], " ".join(f"{ratio:.2f}" for ratio in ratios), f"{median(ratios):.2f}")
    return table


def _cpu(report: BenchReport) -> Table:
    table = Table(
        "CPU seconds per million messages",
        *PARTS,
        "all",
        caption="Fewer are better. Medians; clients: the processes that move the messages.",
    )
    for contestant, name in TITLES.items():
        parts = [report.cpu_per_million(contestant, part) for part in PARTS]
        table.add_row(name, *(f"{seconds:.2f}" for seconds in (*parts, sum(parts))))
    return table


def _steps(report: BenchReport) -> Table:
    table = Table(
        "step of the hop",
        "seconds: median\n(min to max)",
        *(f"CPU seconds:\n{part}" for part in PARTS),
        caption="Where the hop's time goes. Fewer seconds are better. CPU seconds are of one more run.",
    )
    for step in STEPS:
        cpu = report.step_cpu[step]
        table.add_row(step, show_seconds(report.step_seconds(step)), *(f"{cpu[part]:.2f}" for part in PARTS))
    return table
