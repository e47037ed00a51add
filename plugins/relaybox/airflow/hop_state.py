"""What the source of a hop says about it, for the task that is about to run it or has just done so."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from relaybox.connections import store_errors
from relaybox.errors import UnknownHop
from relaybox.routes import Hop
from relaybox.schema import open_store


@dataclass(frozen=True)
class HopState:
    """Whether anything waits to be moved, the newest planned batch (0: none) with its last position, and how many rows wait.

    Rows wait while no batch holds them, or while theirs is not confirmed.
    """

    has_work: bool
    batch: int
    position: int
    waiting_count: int


def read_hop_state(hop: Hop) -> HopState:
    """Asks the source once, in a session of its own.

    Raises:
        UnknownHop: the store was not initialised for this hop. It must not look like a hop without work.
        StoreNotInitialised, SchemaTooNew, StoreUnusable, StoreUnreachable, StoreBusy: see relaybox.errors.
    """
    with (
        closing(open_store(hop.source, application_name=f"relaybox {hop.name} look")) as source,
        store_errors(hop.source.name, f"looking at hop {hop.name}"),
        source.cursor() as cursor,
    ):
        cursor.execute(
            """
            select relaybox.hop_has_work(h.hop), h.batch, h.position, s.waiting_count + s.planned_position - s.received_position
            from relaybox.hop_out h, relaybox.sending_state(h.hop) s where h.hop = %s
            """,
            (hop.name,),
        )
        row = cursor.fetchone()
    if row is None:
        raise UnknownHop(f"store {hop.source.name}: it does not know hop {hop.name}.", next_step="Run: relaybox init")
    return HopState(*row)
