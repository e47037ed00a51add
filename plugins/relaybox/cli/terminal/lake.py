"""Exports into a lake, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.terminal.bars import new_bar
from relaybox.cli.terminal.tables import new_table, open_console

if TYPE_CHECKING:
    from relaybox.spark.lake.exporting import Exported, Waiting
    from relaybox.spark.lake.verifying import LakeVerification


def show_exported(done: Exported) -> None:
    """What a run did."""
    removed = f"; files of {amount(done.removed_attempts, 'dead attempt')} removed" if done.removed_attempts else ""
    if not done.messages:
        open_console().print(
            f"{done.export}: no message after stream position {done.last_stream_position:,}; {done.path} is at version "
            f"{done.version}{removed}",
            soft_wrap=True,
        )
        return
    open_console().print(
        f"{done.export}: {amount(done.messages, 'message')} written, stream positions {done.first_stream_position:,} to "
        f"{done.last_stream_position:,}, in {amount(done.batches, 'commit')} and {amount(done.files, 'file')}; {done.path} is at version "
        f"{done.version}{removed}",
        soft_wrap=True,
    )


def show_waiting(waiting: Waiting) -> None:
    """What a run would write."""
    what = (
        f"{amount(waiting.messages, 'message')} to write, stream positions {waiting.first_stream_position:,} to "
        f"{waiting.last_stream_position:,}"
        if waiting.messages
        else f"no message after stream position {waiting.first_stream_position - 1:,}"
    )
    open_console().print(f"{waiting.export}: {what}. Nothing was written.", soft_wrap=True)


def show_lake_verification(found: LakeVerification) -> None:
    """The outcome, and each range that differs."""
    console = open_console()
    counted = max(0, min(found.compared_from - 1, found.last_stream_position) - found.first_stream_position + 1)
    uncompared = f"; {amount(counted, 'message')} before {found.compared_from:,} counted only: the store keeps them no longer"
    console.print(
        f"{found.export}: version {found.version} of {found.path} "
        f"{'equals' if found.is_equal else 'DIFFERS from'} the stream: {amount(found.compared_count, 'message')} compared"
        f"{uncompared if counted else ''}",
        soft_wrap=True,
    )
    if found.differences:
        table = new_table("stream positions", "in the stream", "in the table", "first difference")
        for part in found.differences:
            stream = "not kept" if part.stream_count is None else f"{part.stream_count:,}"
            table.add_row(f"{part.first:,} to {part.last:,}", stream, f"{part.lake_count:,}", f"{part.first_difference:,}")
        console.print(table)


@contextmanager
def export_line(export: str) -> Iterator[Callable[[Exported], None]]:
    """Shows a line with how far the run is."""
    with new_bar() as bar:
        task = bar.add_task(f"{export} export", total=None)
        yield lambda done: bar.update(task, description=f"{export} export, commit {done.batches}", completed=done.messages)
