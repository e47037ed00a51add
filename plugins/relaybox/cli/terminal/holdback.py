"""Held messages on a terminal: which senders wait, and for which messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from relaybox.amounts import amount
from relaybox.cli.printable import printable_line
from relaybox.cli.terminal.tables import new_table, open_console, show_count, show_time, styled

if TYPE_CHECKING:
    from relaybox.streams.holdback import Cause, Gap, HeldSender, StoreHoldback


NAMED_GAPS = 5
"""This many gaps of a sender are named on a terminal; --json names all."""


def show_holdback(stores: Sequence[StoreHoldback]) -> None:
    """For each store: a table of the senders that wait and for how long, then what they wait for and the command that helps."""
    out = open_console()
    for store in stores:
        if store.error is not None:
            out.print(styled((store.store, "bold"), f" stream {store.stream}: ", ("see the error below", "red")))
            continue
        if not store.senders:
            out.print(styled((store.store, "bold"), f" stream {store.stream}, order {store.order}: no message is held"))
            continue
        out.print(styled((store.store, "bold"), f" stream {store.stream}, order {store.order}"))
        rows = new_table(
            "sender", "epoch", "delivered", "held", "in log", "since", right=("epoch", "delivered", "held", "in log")
        )
        for sender in store.senders:
            counts = (
                str(sender.epoch),
                show_count(sender.delivered_through),
                show_count(sender.held_count),
                show_count(sender.waiting_count),
            )
            rows.add_row(sender.sender, *counts, show_time(sender.held_since))
        out.print(rows)
        held = {sender.sender for sender in store.senders}
        for sender in store.senders:
            for line in _waits_for(sender, held):
                out.print("  ", line, sep="", soft_wrap=True)


def _waits_for(sender: HeldSender, held: Collection[str]) -> Iterator[str | Text]:
    name = printable_line(sender.sender)
    if sender.missing:
        more = len(sender.missing) - NAMED_GAPS
        named = ", ".join(map(_indexes, sender.missing[:NAMED_GAPS])) + (f" and {more:,} more gaps" if more > 0 else "")
        yield f"{name}: index {named} is missing"
    for cause in sender.causes:
        yield f"{name} waits for {_cause(cause, is_held=cause.sender in held)}"
    if sender.stalled_reason is not None:
        after = f"after log position {sender.stalled_after:,}"
        waiting = amount(sender.waiting_count, f"message {after} waits", f"messages {after} wait")
        yield styled((f"{name} stalled: {sender.stalled_reason}", "red"), f"; {waiting} in the log")
    for repair in sender.repairs:
        yield f"  if the missing messages never arrive, run: {repair}"


def _indexes(gap: Gap) -> str:
    return f"{gap.first_index}" if gap.first_index == gap.last_index else f"{gap.first_index} to {gap.last_index}"


def _cause(cause: Cause, *, is_held: bool) -> str:
    wanted = f"{printable_line(cause.sender)} through index {cause.last_index}"
    if cause.origin is None:
        return f"{wanted}; no store has declared this sender: the message is set aside when all stores have confirmed that"
    waits = f"{amount(cause.waiting_count, 'message waits for it', 'messages wait for it')}"
    if is_held:
        waits += f"; messages of {printable_line(cause.sender)} are held too: see what it waits for"
    return f"{wanted}, epoch {cause.epoch}; delivered through {cause.delivered_through or 0}; {waits}"
