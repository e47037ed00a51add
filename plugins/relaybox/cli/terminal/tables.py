"""Tables, counts and times on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from relaybox.cli.printable import printable

PIPED_WIDTH = 120

NAMED_DEFECTS = 20
"""This many defects of a hop are named on a terminal; --json names all."""


class PrintableConsole(Console):
    """A console that writes the texts it is given as they are: `[red]` is no style and `:car:` no picture, in a table neither.

    Control characters become escapes before a cell is measured, so none is cut off. What has a style is made by styled().
    """

    def __init__(self, *, stderr: bool, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def styled(*parts: str | tuple[str, str]) -> Text:
    """Returns a text of several parts; those with a style are pairs: `("stuck", "red")`. Control characters are escapes."""
    return Text.assemble(*(printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts))


def open_console(*, stderr: bool = False) -> Console:
    """Returns a console; without a terminal it has 120 columns."""
    console = PrintableConsole(stderr=stderr)
    return console if console.is_terminal else PrintableConsole(stderr=stderr, width=PIPED_WIDTH)


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
