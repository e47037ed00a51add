"""Dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import new_table, open_console, show_time

if TYPE_CHECKING:
    from relaybox.subscriptions.dead_letters import DeadLetter


def show_dead_letters(found: Sequence[DeadLetter]) -> None:
    table = new_table(
        "store",
        "dead_letter_id",
        "of",
        "stream_position",
        "sender",
        "attempts",
        "last",
        "reason",
        "state",
        right=("dead_letter_id", "stream_position", "attempts"),
    )
    for one in found:
        reason = f"{one.reason}: {one.detail}" if one.detail else one.reason
        table.add_row(
            *(
                one.store,
                str(one.dead_letter_id),
                one.subscription or f"stream {one.stream}",
                "-" if one.stream_position is None else str(one.stream_position),
            ),
            *(one.sender or "-", str(one.attempts), show_time(one.last_at), reason, one.state),
        )
    open_console().print(table if found else "No dead letters.")
