"""Bars of progress. They go to stderr, so that stdout holds the report alone."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from relaybox.cli.terminal.tables import open_console


def new_bar() -> Progress:
    """An empty one; nothing is drawn where there is no terminal."""
    console = open_console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
