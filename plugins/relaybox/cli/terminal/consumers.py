"""Subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import new_table, open_console, show_count

if TYPE_CHECKING:
    from relaybox.subscriptions.subscriptions import SubscriptionStatus


def show_subscriptions(found: Sequence[SubscriptionStatus]) -> None:
    numbers = ("lanes", "leased", "done", "last", "behind", "detached", "dead letters")
    table = new_table("store", "subscription", "stream", "topic", *numbers, "state", right=numbers)
    for one in found:
        state = f"replay of {one.replay_of}" if one.replay_of else "replaying" if one.replaying else "live"
        done = (one.done_stream_position, one.last_stream_position, one.stream_positions_behind, one.detached_stream_positions)
        counts = (one.lanes, one.leased_lanes, *done, one.dead_letters)
        table.add_row(one.store, one.subscription, one.stream, one.topic or "all", *map(show_count, counts), state)
    open_console().print(table if found else "No subscriptions.")
