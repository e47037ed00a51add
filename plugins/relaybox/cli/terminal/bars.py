"""Progress bars. They go to stderr, so that stdout has only the report."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from relaybox.cli.terminal.tables import open_console


def new_bar() -> Progress:
    """Returns an empty bar. Without a terminal nothing is drawn."""
    console = open_console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
