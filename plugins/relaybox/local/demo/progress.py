"""How far the demo's messages are, asked from the stores a few times per second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relaybox.stores.connections import connect, store_errors

if TYPE_CHECKING:
    from relaybox.routes import Hop, Route, Store


@dataclass(frozen=True)
class HopProgress:
    """How far a hop's log is, in messages and batches, and whether a driver is connected."""

    received: int
    batch: int
    driven: bool


@dataclass(frozen=True)
class RouteProgress:
    """All hops of a route by name, and how many messages are settled at its first store."""

    hops: Mapping[str, HopProgress]
    settled: int


class ProgressReader:
    """Sessions to all stores of a route, for as long as it moves."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._sessions: dict[str, Any] = {}

    def read(self) -> RouteProgress:
        """Where the route is now; the stores are asked one after the other."""
        hops = {hop.name: self._hop(hop) for hop in self._route.hops}
        (settled,) = self._value(
            self._route.path[0],
            "select coalesce(max(through_position), 0) from relaybox.confirmation where hop = %s and state = 'settled'",
            self._route.hops[0],
        )
        return RouteProgress(hops, settled)

    def _hop(self, hop: Hop) -> HopProgress:
        query = "select published_position, published_batch from relaybox.hop_in where hop = %s"
        (driven,) = self._value(hop.source, "select relaybox.hop_is_driven(%s)", hop)
        received, batch = self._value(hop.destination, query, hop)
        return HopProgress(received, batch, driven)

    def _value(self, store: Store, query: str, hop: Hop) -> Any:
        if store.name not in self._sessions:
            self._sessions[store.name] = connect(store.service, application_name="relaybox demo")
            self._sessions[store.name].autocommit = True
        with store_errors(store.name, "asking how far its messages are"), self._sessions[store.name].cursor() as cursor:
            cursor.execute(query, (hop.name,))
            return cursor.fetchone()

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
