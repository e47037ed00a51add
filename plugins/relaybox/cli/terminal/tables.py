"""Tables, counts and times on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 120

NAMED_DEFECTS = 20
"""This many defects of a hop are named on a terminal; --json names all."""


def open_console(*, stderr: bool = False) -> Console:
    """A console; 120 columns where there is no terminal."""
    console = Console(stderr=stderr, highlight=False)
    return console if console.is_terminal else Console(stderr=stderr, highlight=False, width=PIPED_WIDTH)


def new_table(*columns: str, right: Iterable[str] = ()) -> Table:
    """An empty table; columns named in `right` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=column in numbers, overflow="fold")
    return table


def show_count(number: int | None) -> str:
    """1,234,567; ? for what is not known."""
    return "?" if number is None else f"{number:,}"


def show_time(moment: datetime | None) -> str:
    """In UTC, to the millisecond; - for never."""
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"


def show_seconds(seconds: float) -> str:
    """A duration in its largest sensible unit: 0.2 s, 35 s, 12 min, 5 h, 3 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
