"""Tables, counts and times on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from relaybox.cli.printable import printable

PIPED_WIDTH = 120

NAMED_DEFECTS = 20
"""This many defects of a hop are named on a terminal; --json names all."""


class PrintableConsole(Console):
    """A console that writes the styles of its tables, and no control character of a text in them."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def open_console(*, stderr: bool = False) -> Console:
    """Returns a console; without a terminal it has 120 columns."""
    console = PrintableConsole(stderr=stderr, highlight=False)
    return console if console.is_terminal else PrintableConsole(stderr=stderr, highlight=False, width=PIPED_WIDTH)


def new_table(*columns: str, right: Iterable[str] = ()) -> Table:
    """Returns an empty table; columns named in `right` hold numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", no_wrap=column in numbers, overflow="fold")
    return table


def show_count(number: int | None) -> str:
    """Returns 1,234,567; ? if the number is unknown."""
    return "?" if number is None else f"{number:,}"


def show_time(moment: datetime | None) -> str:
    """Returns the time in UTC, to the millisecond; - for none."""
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"


def show_seconds(seconds: float) -> str:
    """Returns a duration in its largest sensible unit: 0.2 s, 35 s, 12 min, 5 h, 3 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
