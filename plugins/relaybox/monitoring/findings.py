"""What is stuck, since when, what blocks it, who is affected and what to do: from what the stores said, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from relaybox.monitoring.finding import Finding, Severity
from relaybox.monitoring.hop_findings import find_in_hop
from relaybox.monitoring.store_findings import (
    find_detached,
    find_failing_endpoints,
    find_in_store,
    find_orphaned,
    find_reader_problems,
    find_silent_stores,
    find_unrouted,
)

if TYPE_CHECKING:
    from relaybox.monitoring.blockers import StoreBlockers
    from relaybox.monitoring.status import Status
    from relaybox.retention.detached_segments import DetachedLog
    from relaybox.routes import Routes
    from relaybox.stores.readers.orphaned_hops import OrphanedHop


def find_blockers(
    routes: Routes,
    status: Status,
    blockers: Mapping[str, StoreBlockers],
    *,
    detached: Iterable[DetachedLog] = (),
    orphaned_hops: Iterable[OrphanedHop] = (),
) -> tuple[Finding, ...]:
    """Everything that is stuck, held up or worth a look, the worst and oldest first.

    Args:
        routes: what relaybox.yaml says.
        status: what all stores said about their hops.
        blockers: by store; one that did not answer is missing.
        detached: of all stores.
        orphaned_hops: of all stores, retired hops included.
    """
    found = [
        *find_silent_stores(routes, status),
        *(finding for store, here in blockers.items() for finding in find_in_store(routes, store, here)),
        *(finding for hop in status.hops for finding in find_in_hop(routes, status, hop, blockers)),
        *find_unrouted(status),
        *find_failing_endpoints(status),
        *find_reader_problems(status.reader_problems),
        *find_detached(detached),
        *find_orphaned(orphaned_hops),
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda one: (order.index(one.severity), one.since is None, one.since)))
