"""Lost messages and restored messages, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.terminal.tables import NAMED_DEFECTS, new_table, open_console, show_count, styled

if TYPE_CHECKING:
    from relaybox.recovery.reanchor_result import ReanchorResult
    from relaybox.recovery.rebuilding import Rebuild
    from relaybox.recovery.restoring import RestoredSubscription


def show_reanchored(found: ReanchorResult, *, origin: str, done: bool) -> None:
    """Prints what reanchoring found, and what it did or would do. `origin`: the store whose applications send."""
    console = open_console()
    will = "" if done else "would be "
    arrived = amount(found.arrived_batch, "batch has arrived", "batches have arrived")
    console.print(styled((found.hop, "bold"), f": batch {found.common_batch} is the last that both stores have; {arrived}"))
    if found.cause is not None:
        console.print(f"{found.cause}.")
    for store in found.other_stores:
        console.print(f"{will}recorded: {store} is another database from now on; the one before gets nothing more".capitalize())
    if found.loss == "none":
        console.print("No store lost history." if found.other_stores else "No store lost history. There is nothing to do.")
    elif found.loss == "destination":
        console.print(
            f"The destination lost history: {will}sent again: {amount(found.resend_count, 'batch', 'batches')}, to the same positions"
        )
    else:
        if found.loss == "both":
            console.print("Both stores lost history: the destination lost batches that the source has no plan of")
        lost = "Everything that arrived is in the ledger of the source" if found.may_be_attested else "The source lost history"
        ghosts = amount(len(found.ghosts), "of them a ghost", "of them ghosts")
        console.print(f"{lost}: {will}adopted: {amount(found.adopted_count, 'message')}, {ghosts}")
        console.print(f"  {will}delivered first in generation {found.generation}: {amount(found.undelivered_count, 'message')}")
        if found.removed_count:
            console.print(
                f"  {will}removed: {amount(found.removed_count, 'message')} of slices that were copied but never "
                "published; the source sends again those that it still has"
            )
        for ghost in found.ghosts[:NAMED_DEFECTS]:
            console.print(f"  ghost: {ghost.message_id} of {ghost.sender}, topic {ghost.topic}, at position {ghost.log_position}")
        if len(found.ghosts) > NAMED_DEFECTS:
            console.print(f"  and {len(found.ghosts) - NAMED_DEFECTS:,} more; --json names all")
        _show_held_indexes(found, origin)


def _show_held_indexes(found: ReanchorResult, origin: str) -> None:
    console = open_console()
    for held in found.held_indexes[:NAMED_DEFECTS]:
        indexes = (
            f"index {held.first_index}" if held.ghost_count == 1 else f"indexes from {held.first_index} to {held.last_index}"
        )
        ghosts = amount(held.ghost_count, f"ghost of sender {held.sender} holds", f"ghosts of sender {held.sender} hold")
        what = f"{ghosts} {indexes} of epoch {held.epoch}"
        then = "messages that come later with one of these indexes are set aside (other_content)"
        console.print(styled("  ", (what, "yellow"), f": {then}, {held.undelivered_count:,} of those to be delivered first"))
        console.print(
            f"    before {held.sender} sends again: relaybox senders new-epoch {origin} {held.sender}; then send again what is set aside"
        )
    if len(found.held_indexes) > NAMED_DEFECTS:
        console.print(f"  and {len(found.held_indexes) - NAMED_DEFECTS:,} more senders; --json names all")


def show_rebuild(found: Rebuild, restored: Sequence[RestoredSubscription]) -> None:
    """Prints what a rebuild restores or restored, then what it can't restore."""
    console = open_console()
    table = new_table("hop", "neighbour", "messages", "present", "action", right=("messages", "present"))
    for hop in found.hops:
        what = "sent again, to the same positions" if hop.arrives else "adopted; no message is sent twice"
        if hop.known_count >= hop.message_count:
            what = "nothing"
        table.add_row(hop.hop, hop.other_store, show_count(hop.message_count), show_count(hop.known_count), what)
    console.print(table)
    for loss in found.losses:
        console.print(styled(("lost", "red"), f": {loss}"))
    for stream, doubt in found.doubts.items():
        said = (f"stream {stream}", "yellow")
        console.print(styled(said, f": its stream positions may differ from the lost ones ({doubt})"))
    for one in restored:
        where = (
            f"continues at stream position {one.first_stream_position:,}"
            if one.doubt is None
            else f"starts at the beginning: {one.doubt}"
        )
        console.print(f"subscription {one.subscription}: {where}")
        if one.dead_letter_stream_positions:
            stream_positions = ", ".join(map(str, one.dead_letter_stream_positions[:NAMED_DEFECTS]))
            lost = amount(len(one.dead_letter_stream_positions), "dead letter is lost", "dead letters are lost")
            console.print(f"  {lost}; of messages at stream positions {stream_positions}")
    if found.outcomes is not None:
        console.print(f"{found.store}: {amount(found.moved_count, 'message')} restored in {found.duration_seconds:.1f} s")
        for route, outcome in found.outcomes.items():
            console.print(f"route {route}: {outcome}")
