"""The two stores of a hop, within the transaction that holds its row at the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from relaybox.hops.planning import DestinationState
    from relaybox.routes import Hop, Routes
    from relaybox.stores.sessions.store_session import StoreSession


class HopRow(NamedTuple):
    """What reanchoring reads of a hop's row of `hop_out`; `reads_log` None: the hop reads the outbox, from the snapshot `lower` on."""

    reads_log: int | None
    generation: int
    log_position: int
    lower: str | None
    compacted_batch: int
    compacted_position: int
    compacted_plan_id: str | None
    numbering: int
    system_identifier: int
    timeline: int
    store_id: str


@dataclass(frozen=True)
class BothStores:
    """What reanchoring works with.

    Attributes:
        routes: all of them: the hops before this one are asked what they still bring.
        source: in the transaction that holds the hop's row.
        head: that row.
        arrived: how far the destination is.
        recorded_by: who reanchors, and `reason`, why: for the ledger of generations.
    """

    hop: Hop
    routes: Routes
    source: StoreSession
    destination: StoreSession
    head: HopRow
    arrived: DestinationState
    recorded_by: str
    reason: str
