"""Webhooks and sinks of Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.printable import print_text
from relaybox.cli.terminal.tables import new_table, open_console, show_count, show_time
from relaybox.stores.readers.reader_problems import ProblemKind

if TYPE_CHECKING:
    from relaybox.sinks.states import SinkStatus


def show_sinks(found: Sequence[SinkStatus]) -> None:
    """One line per sink; below the table what is wrong with its subscription, and what endpoints answer that fail."""
    table = new_table(
        "name", "store", "stream", "endpoint", "waiting", "dead letters", "state", right=("waiting", "dead letters")
    )
    for one in found:
        counts = ("-", "-") if one.waiting_count is None else (show_count(one.waiting_count), show_count(one.dead_letters))
        table.add_row(one.name, one.store, one.stream, one.endpoint, *counts, _state(one))
    console = open_console()
    console.print(table if found else "None in relaybox.yaml.")
    for one in found:
        if one.problem is not None:
            print_text(f"{one.name}: {one.problem.what} {one.problem.next_step}")
        if one.failing_since is not None and one.retry_at is not None:
            console.print(
                f"{one.name}: {amount(one.failure_count, 'failed attempt')}, the newest: {one.reason}. The next is due at "
                f"{show_time(one.retry_at)}. Repair the endpoint. Then run: relaybox {one.kind} retry {one.name}"
            )


def _state(one: SinkStatus) -> str:
    """What stops it whatever its endpoint says comes first."""
    if one.problem is not None and one.problem.kind is not ProblemKind.REDUCED:
        return one.problem.state
    if one.failing_since is not None:
        return f"failing since {show_time(one.failing_since)}"
    if one.waiting_count is None:
        return "not subscribed yet"
    return "no failure known" if one.problem is None else one.problem.state
