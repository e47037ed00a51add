"""Derived messages, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.terminal.bars import new_bar
from relaybox.cli.terminal.tables import new_table, open_console

if TYPE_CHECKING:
    from relaybox.spark.derivations.deriving import Derived
    from relaybox.spark.derivations.previewing import Preview


def show_derived(done: Derived) -> None:
    """What a run did."""
    set_aside = f"; {amount(done.dead_letters, 'dead letter')}: relaybox dead-letters list" if done.dead_letters else ""
    open_console().print(
        f"{done.route}, version {done.version}: {amount(done.derived, 'message')} derived from {amount(done.messages, 'message')} "
        f"in {amount(done.attempts, 'attempt')}{set_aside}"
    )


def show_preview(preview: Preview) -> None:
    """What the function returned, with samples."""
    console = open_console()
    if preview.refused is not None:
        console.print(f"A run would be refused: {preview.refused}", style="yellow")
    if not preview.messages:
        console.print(
            f"{preview.route}, version {preview.version}: no message after stream position {preview.first_stream_position - 1}"
        )
        return
    console.print(
        f"{preview.route}, version {preview.version}: {preview.source} makes {amount(preview.derived, 'message')} of "
        f"{amount(preview.messages, 'message')}, stream positions {preview.first_stream_position:,} to {preview.last_stream_position:,}. "
        "Nothing was sent."
    )
    if preview.samples:
        table = new_table(*preview.samples[0])
        for sample in preview.samples:
            table.add_row(*("" if value is None else str(value) for value in sample.values()))
        console.print(table)


@contextmanager
def derivation_line(route: str) -> Iterator[Callable[[Derived], None]]:
    """Shows a line with how far the run is."""
    with new_bar() as bar:
        task = bar.add_task(f"{route} derive", total=None)
        yield lambda done: bar.update(task, description=f"{route} derive, attempt {done.attempts}", completed=done.messages)
