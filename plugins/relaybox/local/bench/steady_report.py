"""What `relaybox bench steady` measured: one window of the clock after the other, and what grew from the first to the last ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

GROUP = 3
"""So many windows at the start (after the first one) are compared with as many at the end."""


@dataclass(frozen=True)
class Window:
    """A part of the run, of equal length.

    Attributes:
        number: from 1; the first one fills the stores, and is compared with nothing.
        seconds: how long it was.
        sent, read: messages that were committed, and that the consumer got.
        p50_seconds, p99_seconds: from the producer's insert to the consumer's handler.
        source_bytes, destination_bytes: of each store's database, at the end of the window.
        wal_bytes: of both clusters' write-ahead log, at the end.
        ledger_bytes: of all tables of both stores that hold no messages, by name, at the end.
        driver_bytes, consumer_bytes, session_bytes: memory that no other process shares, at the end: of the hop's driver, of the
            process that sends and reads, of all sessions of both stores together.
        cpu_seconds: of the stores, the driver, and of the process that sends and reads.
        autovacuum_seconds: CPU seconds of autovacuum, a part of the stores'.
        load_average: of the machine, in the minute before the end.
    """

    number: int
    seconds: float
    sent: int
    read: int
    p50_seconds: float
    p99_seconds: float
    source_bytes: int
    destination_bytes: int
    wal_bytes: int
    ledger_bytes: Mapping[str, int]
    driver_bytes: int
    consumer_bytes: int
    session_bytes: int
    cpu_seconds: Mapping[str, float]
    autovacuum_seconds: float
    load_average: float

    def figures(self) -> dict[str, float]:
        """What must stay flat, by name."""
        return {
            "latency p50, ms": self.p50_seconds * 1e3,
            "latency p99, ms": self.p99_seconds * 1e3,
            "disk of the outbox's store, MB": self.source_bytes / 1e6,
            "disk of the log's store, MB": self.destination_bytes / 1e6,
            "ledgers, MB": sum(self.ledger_bytes.values()) / 1e6,
            "write-ahead log, MB": self.wal_bytes / 1e6,
            "memory of the driver, MB": self.driver_bytes / 1e6,
            "memory of sender and consumer, MB": self.consumer_bytes / 1e6,
            "memory of the stores' sessions, MB": self.session_bytes / 1e6,
            "CPU, ms per 1,000 messages": sum(self.cpu_seconds.values()) / max(self.read, 1) * 1e6,
            "autovacuum's share of the stores' CPU, %": self.autovacuum_seconds / max(self.cpu_seconds["stores"], 1e-9) * 100,
        }


@dataclass(frozen=True)
class SteadyReport:
    """All windows of one run, and in what circumstances they were measured."""

    rate: int
    hours: float
    window_seconds: float
    environment: Mapping[str, Any]
    windows: tuple[Window, ...]

    def medians(self, windows: Sequence[Window]) -> dict[str, float]:
        figures = [window.figures() for window in windows]
        return {name: median(each[name] for each in figures) for name in figures[0]}

    def groups(self) -> tuple[Sequence[Window], Sequence[Window]]:
        """The windows at the start and at the end; the same ones in a run that is too short to compare."""
        compared = self.windows[1:] or self.windows
        return compared[:GROUP], compared[-GROUP:]

    def ratios(self) -> dict[str, float]:
        """The last windows' medians over the first ones'; flat is 1."""
        first, last = map(self.medians, self.groups())
        return {name: last[name] / value if value else math.nan for name, value in first.items()}

    def grown_ledgers(self) -> dict[str, tuple[int, int]]:
        """Tables that hold no messages and are larger by a tenth and 64 kB at the end: bytes at the start and at the end."""
        first, last = self.groups()[0][0].ledger_bytes, self.windows[-1].ledger_bytes
        before = {name: first.get(name, 0) for name in last}
        return {name: (before[name], size) for name, size in last.items() if size > before[name] * 1.1 + 65536}

    def as_json(self) -> dict[str, Any]:
        """Every raw value, and the figures drawn from them."""
        first, last = map(self.medians, self.groups())
        return {
            **asdict(self),
            "first": first,
            "last": last,
            "ratios": {name: None if math.isnan(ratio) else ratio for name, ratio in self.ratios().items()},
            "grown_ledgers": self.grown_ledgers(),
        }


def print_window(window: Window, console: Console) -> None:
    """One line: how the run goes."""
    megabytes = (window.source_bytes + window.destination_bytes) / 1e6
    console.print(
        f"window {window.number}: {window.read / window.seconds:,.0f} messages/s, p50 {window.p50_seconds * 1e3:.0f} ms, "
        f"p99 {window.p99_seconds * 1e3:.0f} ms, {megabytes:,.0f} MB in both stores, load {window.load_average:.1f}"
    )


def print_report(report: SteadyReport, console: Console) -> None:
    """The first windows beside the last ones, and each table that grew."""
    first, last = map(report.medians, report.groups())
    total = sum(window.read for window in report.windows)
    table = Table(
        "must stay flat",
        "first\nwindows",
        "last\nwindows",
        "last / first",
        title=f"{total:,} messages in {sum(window.seconds for window in report.windows) / 3600:.2f} hours",
        caption=f"Medians of {GROUP} windows of {report.window_seconds:g} s, without the first one. Good: about 1.",
    )
    for name, ratio in report.ratios().items():
        table.add_row(name, f"{first[name]:,.1f}", f"{last[name]:,.1f}", "" if math.isnan(ratio) else f"{ratio:.2f}")
    console.print(table)
    for name, (before, after) in report.grown_ledgers().items():
        console.print(f"{name} grew from {before / 1e3:,.0f} to {after / 1e3:,.0f} kB.")
