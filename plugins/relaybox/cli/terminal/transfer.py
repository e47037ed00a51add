"""Moved messages and settled log positions, on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.terminal.bars import new_bar
from relaybox.cli.terminal.tables import open_console, show_seconds

if TYPE_CHECKING:
    from relaybox.hops.confirmations import SettleResult
    from relaybox.hops.transfer import Progress, TransferSummary
    from relaybox.routes import Hop


def show_transfer(summary: TransferSummary) -> None:
    """What a transfer moved."""
    resumed = f", {summary.resumed_count} of them resumed" if summary.resumed_count else ""
    open_console().print(
        f"{summary.hop}: {amount(summary.row_count, 'message')} in {amount(summary.batch_count, 'batch', 'batches')}{resumed}, "
        f"{summary.byte_count / 1e6:,.1f} MB, {show_seconds(summary.duration_seconds)}, {summary.rows_per_second:,.0f} messages/s"
    )


def show_settled(hops: Sequence[SettleResult]) -> None:
    """How far each hop is settled."""
    for hop in hops:
        open_console().print(
            f"{hop.hop}: settled through position {hop.through_position:,}, {amount(hop.newly_settled, 'message')} newly settled"
        )


@contextmanager
def transfer_bar(hop: Hop) -> Iterator[Callable[[Progress], None]]:
    """Shows a bar over the rows of the current batch."""
    with new_bar() as bar:
        task = bar.add_task(hop.name, total=None)
        yield lambda progress: bar.update(
            task, description=f"{hop.name} batch {progress.batch}", completed=progress.copied, total=progress.row_count
        )
