"""What `relaybox bench latency` measured: percentiles of the way from commit to arrival, and the CPU that idle hops take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from relaybox.amounts import amount

FIRST_P50_SECONDS, LINGERING_P50_SECONDS, LINGERING_P99_SECONDS = 3.0, 0.05, 0.25
"""The targets, with Airflow on 2 cores."""


@dataclass(frozen=True)
class HopCountFigures:
    """With this many hops in relaybox.yaml.

    Attributes:
        first_seconds: from commit to arrival, each of a message that came to an idle hop.
        idle_cores: CPU seconds per second while nothing is sent: of Airflow, its metadata database, and the two stores.
    """

    hops: int
    first_seconds: tuple[float, ...]
    idle_cores: Mapping[str, float]


@dataclass(frozen=True)
class LatencyReport:
    """Raw values, and in what circumstances they were measured; `load_average` is the machine's, at the start and at the end."""

    runner: str
    idle_seconds: float
    linger_seconds: int
    environment: Mapping[str, Any]
    load_average: tuple[float, float]
    counts: tuple[HopCountFigures, ...]
    lingering_seconds: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        return {
            **asdict(self),
            "first": {str(figures.hops): percentiles(figures.first_seconds) for figures in self.counts},
            "lingering": percentiles(self.lingering_seconds),
            "targets": self.targets(),
        }

    def targets(self) -> dict[str, bool]:
        """Whether each target was met; first messages by the worst of the hop counts."""
        lingering = percentiles(self.lingering_seconds)
        return {
            f"first message of an idle hop: p50 <= {FIRST_P50_SECONDS:g} s": all(
                percentiles(figures.first_seconds)["p50"] <= FIRST_P50_SECONDS for figures in self.counts
            ),
            f"while lingering: p50 <= {LINGERING_P50_SECONDS:g} s": lingering["p50"] <= LINGERING_P50_SECONDS,
            f"while lingering: p99 <= {LINGERING_P99_SECONDS:g} s": lingering["p99"] <= LINGERING_P99_SECONDS,
        }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Nearest-rank percentiles: each is a value that was measured."""
    ordered = sorted(seconds)
    return {
        name: ordered[math.ceil(share * len(ordered)) - 1]
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1))
    }


def print_report(report: LatencyReport, console: Console) -> None:
    """Latencies, idle CPU, targets."""
    console.print(_latencies(report), _idle(report), sep="\n")
    for target, met in report.targets().items():
        console.print(f"{'met' if met else 'MISSED'}: {target}")


def _latencies(report: LatencyReport) -> Table:
    table = Table(
        "seconds from commit to arrival",
        "messages",
        "p50",
        "p90",
        "p99",
        "max",
        title=f"runner {report.runner}",
        caption="Lower is better; the targets are below.",
    )
    for figures in report.counts:
        _add(table, f"first message of an idle hop, {amount(figures.hops, 'hop')}", figures.first_seconds)
    _add(table, "while lingering", report.lingering_seconds)
    return table


def _add(table: Table, title: str, seconds: Sequence[float]) -> None:
    table.add_row(title, str(len(seconds)), *(f"{value:.2f}" for value in percentiles(seconds).values()))


def _idle(report: LatencyReport) -> Table:
    parts = list(report.counts[0].idle_cores)
    table = Table(
        "CPU while no messages come, in % of one core",
        *parts,
        "all",
        title=f"measured for {report.idle_seconds:g} s each",
        caption="Lower is better. What a hop costs is the difference between the rows.",
    )
    for figures in report.counts:
        values = [*figures.idle_cores.values(), sum(figures.idle_cores.values())]
        table.add_row(amount(figures.hops, "hop"), *(f"{value:.1%}" for value in values))
    return table
