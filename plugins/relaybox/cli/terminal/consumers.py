"""Subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import new_table, open_console, show_count

if TYPE_CHECKING:
    from relaybox.consumers.subscriptions import Subscribed


def show_subscriptions(found: Sequence[Subscribed]) -> None:
    numbers = ("lanes", "leased", "done", "last", "behind", "detached", "dead letters")
    table = new_table("store", "subscription", "stream", "topic", *numbers, "state", right=numbers)
    for one in found:
        state = f"replay of {one.replay_of}" if one.replay_of else "replaying" if one.replaying else "live"
        done = (one.done_place, one.last_place, one.places_behind, one.detached_places)
        counts = (one.lanes, one.leased_lanes, *done, one.dead_letters)
        table.add_row(one.store, one.subscription, one.stream, one.topic or "all", *map(show_count, counts), state)
    open_console().print(table if found else "No subscriptions.")
