"""What a store was at some time, put back later."""

from __future__ import annotations

from collections.abc import Mapping

from relaybox.local.clusters import Cluster
from tests.support.administration import administer, copy_database
from tests.support.world import World


class Backups:
    """Copies of a test's databases within their clusters: what a store was at some time, put back later."""

    def __init__(self, clusters: Mapping[str, Cluster], world: World) -> None:
        self._clusters, self._world = clusters, world
        self.names: list[tuple[str, str]] = []

    def take(self, store: str) -> str:
        """A copy of a store as it is now; its name."""
        name = f"{self._world.value(store, 'select current_database()')}_backup_{len(self.names)}"
        administer(self._clusters[store], copy_database(name, self._world.value(store, "select current_database()")))
        self.names.append((store, name))
        return name

    def restore(self, store: str, name: str) -> None:
        """The store is again what it was."""
        database = self._world.value(store, "select current_database()")
        administer(self._clusters[store], f"drop database {database} with (force)", copy_database(database, name))

    def drop(self) -> None:
        for store, name in self.names:
            administer(self._clusters[store], f"drop database {name} with (force)")


def another_cluster(world: World, store: str = "airline") -> None:
    """The ledger says that it was written by another cluster: what a promotion or a reload looks like."""
    world.query(store, "update relaybox_internal.hop_out set timeline = timeline + 1")
