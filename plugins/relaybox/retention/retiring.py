"""Hops that stores still know and relaybox.yaml no longer has, and giving up what they have not moved.

Taking a route out of the file stops its DAGs and nothing else: its messages are kept until somebody says that nobody waits for
them. That is said here, hop by hop, in the store that the hop leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError
from relaybox.events import emit
from relaybox.stores.connections import one_row, store_errors
from relaybox.stores.left_behind import LeftBehind, list_left_behind
from relaybox.stores.schema import open_store, store_cursor

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Routes, Store


@dataclass(frozen=True)
class Backlog(LeftBehind):
    """A hop that was left behind, and what it has not moved.

    Attributes:
        unsettled_count: messages in its batches that are not settled.
        waiting_count: messages that are in none of its batches.
        oldest_sent_at: of those that have not arrived; None if all have.
    """

    unsettled_count: int
    waiting_count: int
    oldest_sent_at: datetime | None


def find_left_behind(routes: Routes) -> tuple[Backlog, ...]:
    """Asks every store of the file for hops that the file has not, retired ones included. Changes nothing.

    Raises:
        StoreUnreachable, StoreUnusable, StoreNotInitialised: of the first store that can't be asked.
    """
    return tuple(hop for store in routes.stores.values() for hop in _backlogs(store, routes))


def _backlogs(store: Store, routes: Routes) -> Iterator[Backlog]:
    with store_cursor(store, "asking which hops leave it", application_name="relaybox retire") as cursor:
        for hop in list_left_behind(cursor, store, routes):
            cursor.execute(
                "select planned_position - settled_position, waiting_count, oldest_sent_at from relaybox.sending_state(%s)",
                (hop.hop,),
            )
            unsettled_count, waiting_count, oldest_sent_at = one_row(cursor)
            yield Backlog(
                **vars(hop), unsettled_count=unsettled_count, waiting_count=waiting_count, oldest_sent_at=oldest_sent_at
            )


def choose_left_behind(name: str, left_behind: Sequence[Backlog], routes: Routes) -> tuple[Backlog, ...]:
    """Those that a name means: one hop, or all hops of a route.

    Raises:
        ConfigurationError: the file has it, or no store knows it.
    """
    if any(name in (hop.name, hop.route) for hop in routes.hops):
        raise ConfigurationError(
            f"{name} is in {routes.path}: its messages are to be moved.", next_step="Take its route out of the file first."
        )
    chosen = tuple(hop for hop in left_behind if name in (hop.hop, hop.hop.rpartition("/")[0]))
    if not chosen:
        known = ", ".join(hop.hop for hop in left_behind) or "none"
        raise ConfigurationError(
            f"no store knows a hop {name}. Left behind by the file: {known}.", next_step="Run: relaybox retire"
        )
    return chosen


def retire_hop(store: Store, hop: str, *, reason: str, recorded_by: str) -> bool:
    """Says that nobody waits for what a hop has not moved, and that it moves nothing more. Commits; idempotent.

    Messages stay until retention finds that nobody else needs them. What arrived at the destination is not touched.

    Args:
        store: the one that the hop leaves.
        hop: its name.
        reason: why, for the ledger.
        recorded_by: who says so.

    Returns:
        False if it was retired before: by whom and why stays as it was.

    Raises:
        UnknownHop: the hop does not leave the store.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: nothing was changed.
    """
    with (
        closing(open_store(store, application_name="relaybox retire")) as session,
        store_errors(store.name, f"retiring hop {hop}"),
    ):
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute("select relaybox.retire_hop(%s, %s, %s)", (hop, reason, recorded_by))
            (retired,) = one_row(cursor)
    if retired:
        emit("hop_retired", hop=hop, store=store.name, reason=reason)
    return bool(retired)
