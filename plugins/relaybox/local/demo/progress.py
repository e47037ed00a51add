"""How far the demo's messages are, asked from the stores a few times per second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

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


class _Log(NamedTuple):
    published_position: int
    published_batch: int


class ProgressReader:
    """Sessions to all stores of a route, for as long as it moves."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._sessions: dict[str, StoreSession] = {}

    def read(self) -> RouteProgress:
        """Where the route is now; the stores are asked one after the other."""
        hops = {hop.name: self._hop(hop) for hop in self._route.hops}
        settled = self._session(self._route.path[0]).value(
            "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = %s and state = 'settled'",
            self._route.hops[0].name,
        )
        return RouteProgress(hops, settled)

    def _hop(self, hop: Hop) -> HopProgress:
        driven = self._session(hop.source).call("relaybox_internal.hop_is_driven", hop.name)
        log = self._session(hop.destination).row(
            _Log, "select published_position, published_batch from relaybox_internal.hop_in where hop = %s", hop.name
        )
        return HopProgress(log.published_position, log.published_batch, driven)

    def _session(self, store: Store) -> StoreSession:
        if store.name not in self._sessions:
            connection = connect(store.service, application_name="relaybox demo")
            connection.autocommit = True
            self._sessions[store.name] = StoreSession(connection, store.name, "asking how far its messages are")
        return self._sessions[store.name]

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
