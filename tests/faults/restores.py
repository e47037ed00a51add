"""Stores that are restored from a copy taken earlier: one, two or all of a route, and what the runbooks then do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import Cluster
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.routes import Hop, Route, Routes
from tests.faults.stores import UNDISTURBED
from tests.support.administration import administer, copy_database
from tests.support.world import STORES, World

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

BY = "the operator of a test"

RESTORES = (("airline",), ("hub",), ("analytics",), ("airline", "hub"), ("airline", "analytics"), ("hub", "analytics"), STORES)
"""One, two and all stores of the route."""

_ANOTHER_TIMELINE = """
    update relaybox_internal.hop_out set timeline = timeline + 1000;
    """
"""The cluster that a ledger was written by is not the one that it was restored into."""

Databases = Mapping[str, tuple[Cluster, str]]
"""Which database of which cluster a store is."""

MakeWorld = Callable[[], AbstractContextManager[tuple[World, Databases]]]
"""Makes stores as often as a test wants them."""


@dataclass(frozen=True)
class Copy:
    """Databases as they were at one moment of each store, by the names of their stores."""

    databases: Mapping[str, tuple[Cluster, str]]


def take_copy(databases: Databases, name: str) -> Copy:
    """Copies each store, as a backup does. Their sessions are ended for that moment."""
    copies = {store: (cluster, f"{database}_{name}") for store, (cluster, database) in databases.items()}
    for store, (cluster, copy) in copies.items():
        _replace(cluster, copy, template=databases[store][1])
    return Copy(copies)


def restore(copy: Copy, databases: Databases, stores: Iterator[str] | tuple[str, ...], *, same_timeline: bool = False) -> None:
    """Puts stores back to the time of a copy.

    Args:
        copy: the copy.
        databases: where the stores are.
        stores: those to put back.
        same_timeline: as a storage snapshot does it: only what the ledgers say tells. Otherwise into clusters that did not write them.
    """
    for store in stores:
        cluster, database = databases[store]
        _replace(cluster, database, template=copy.databases[store][1])
        if same_timeline:
            continue
        with closing(_undisturbed(cluster, database)) as connection, connection.cursor() as cursor:
            cursor.execute(_ANOTHER_TIMELINE)
            connection.commit()


def is_comparable(copy: Copy, databases: Databases, stores: Sequence[str], hops: Sequence[Hop]) -> bool:
    """Whether each destination still keeps all that it got after the copy of its source was taken.

    If not, `reanchor` refuses: nobody can tell any more which messages of the source the destination has had.
    """
    return all(
        _value(
            databases[hop.destination.name], "select first_kept_position from relaybox_internal.hop_in where hop = %s", hop.name
        )
        <= _value(copy.databases[hop.source.name], "select log_position from relaybox_internal.hop_out where hop = %s", hop.name)
        + 1
        for hop in hops
        if hop.source.name in stores and hop.destination.name not in stores
    )


def _value(site: tuple[Cluster, str], query: str, hop: str) -> int:
    """0 where the hop was not registered yet."""
    with closing(_undisturbed(*site)) as connection, connection.cursor() as cursor:
        cursor.execute(query, (hop,))
        found = cursor.fetchone()
        return 0 if found is None else int(found[0])


def _undisturbed(cluster: Cluster, database: str) -> Connection:
    return psycopg2.connect(**cluster.parameters(database), options=UNDISTURBED)


def _replace(cluster: Cluster, database: str, *, template: str) -> None:
    administer(
        cluster,
        f"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname in ('{database}', '{template}')",
        f"drop database if exists {database} with (force)",
        copy_database(database, template),
    )


@dataclass(frozen=True)
class Repaired:
    """Stores that were attested, hops that were reanchored."""

    attested: tuple[str, ...]
    reanchored: tuple[str, ...]


def repair_route(route: Route, routes: Routes) -> Repaired:
    """The runbooks, word for word: attest what lost nothing; else reanchor, hop by hop from the origin on, and transfer."""
    attested = tuple(store for store in dict.fromkeys(hop.source.name for hop in route.hops) if _attest(store, routes))
    reanchored = tuple(hop.name for hop in route.hops if _bring_on(hop, routes))
    for hop in reversed(route.hops):
        settle_hop(route, hop, recorded_by=BY)
    return Repaired(attested, reanchored)


def _attest(store: str, routes: Routes) -> bool:
    try:
        return attest_store(routes.store(store), routes, recorded_by=BY, reason="restored").changed
    except errors.HistoryLost:
        return False


def _bring_on(hop: Hop, routes: Routes) -> bool:
    """Transfers the hop; reanchors it first if it does not go on otherwise."""
    try:
        transfer_hop(hop, ThreadRunner(1), recorded_by=BY)
    except (errors.HistoryLost, errors.ContentDiffers):
        reanchor_hop(hop, routes, recorded_by=BY, reason="restored", dry_run=False)
        transfer_hop(hop, ThreadRunner(1), recorded_by=BY)
        return True
    return False
