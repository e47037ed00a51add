"""The two stores of a hop, within the transaction that holds its row at the source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.hops.planning import Arrived
    from relaybox.routes import Hop, Routes


@dataclass(frozen=True)
class BothStores:
    """What reanchoring works with.

    Attributes:
        routes: all of them: the hops before this one are asked what they still bring.
        cursor: of the source, in the transaction that holds the hop's row; rows are named tuples.
        head: that row of `hop_out`.
        arrived: how far the destination is.
        recorded_by: who reanchors, and `reason`, why: for the ledger of generations.
    """

    hop: Hop
    routes: Routes
    source: Connection
    destination: Connection
    cursor: Any
    head: Any
    arrived: Arrived
    recorded_by: str
    reason: str
