"""Declared senders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import new_table, open_console, show_count, show_time

if TYPE_CHECKING:
    from relaybox.streams.senders import DeclaredSender


def show_senders(senders: Sequence[DeclaredSender]) -> None:
    """One line per sender of each store, in its newest epoch."""
    if not senders:
        open_console().print("No sender is declared. The first log numbers all messages.")
        return
    table = new_table(
        "store", "sender", "origin", "kind", "epoch", "counter", "declared", "by", "roles", right=("epoch", "counter")
    )
    for sender in senders:
        table.add_row(
            *(sender.store, sender.sender, sender.origin, sender.kind),
            *(str(sender.epoch), "-" if sender.last_index is None else show_count(sender.last_index)),
            *(show_time(sender.declared_at), sender.declared_by or "-", ", ".join(sender.roles) or "-"),
        )
    open_console().print(table)
