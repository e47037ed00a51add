"""The demo on a terminal: live bars; elsewhere the same as plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

PLAIN_LINE_SECONDS = 5.0
PLAIN_WIDTH = 120


def open_console() -> Console:
    """Standard output; where it is no terminal, as wide as the report's tables."""
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)


@dataclass(frozen=True)
class Bar:
    """How far something is: `done` of `total`, with a remark."""

    done: int
    total: int
    note: str = ""


class DemoDisplay:
    """Lines with the time since the start, and bars below them."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Writes one line; from any thread."""
        passed = (f"{time.monotonic() - self._started:6.1f} s", "dim")
        self.console.print(Text.assemble(passed, f"  {text}"), highlight=False, soft_wrap=True)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Shows that something goes on while the block runs; on a terminal only."""
        with self.console.status(text) if self.console.is_terminal else nullcontext():
            yield

    @contextmanager
    def bars(self) -> Iterator[Bars]:
        """Shows bars while the block runs."""
        if not self.console.is_terminal:
            yield Bars(self, None)
            return
        columns = (
            TextColumn("{task.description:>12}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim"),
        )
        with Progress(*columns, console=self.console, expand=True, transient=True) as progress:
            yield Bars(self, progress)


class Bars:
    """Bars that appear in the order in which they are first shown."""

    def __init__(self, display: DemoDisplay, progress: Progress | None) -> None:
        self._display, self._progress = display, progress
        self._tasks: dict[str, TaskID] = {}
        self._plain_line_at = 0.0

    def show(self, bars: Mapping[str, Bar]) -> None:
        if self._progress is None:
            self._show_plainly(bars)
            return
        for name, bar in bars.items():
            if name not in self._tasks:
                self._tasks[name] = self._progress.add_task(name, note="")
            self._progress.update(self._tasks[name], completed=bar.done, total=bar.total, note=bar.note)

    def _show_plainly(self, bars: Mapping[str, Bar]) -> None:
        if time.monotonic() >= self._plain_line_at:
            self._plain_line_at = time.monotonic() + PLAIN_LINE_SECONDS
            self._display.say(", ".join(f"{name} {bar.done:,} of {bar.total:,}" for name, bar in bars.items()))
