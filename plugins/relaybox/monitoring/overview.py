"""Everything on one screen: how far every hop is, how fast, and what is stuck. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.monitoring.blockers import StoreBlockers, read_blockers
from relaybox.monitoring.finding import Finding
from relaybox.monitoring.findings import find_blockers
from relaybox.monitoring.status import HopStatus, Status, hop_status, status_of
from relaybox.monitoring.store_readings import StoreReading, start_reading
from relaybox.retention.detached_segments import DetachedLog, list_detached_logs
from relaybox.stores.opening import store_session
from relaybox.stores.parallel_reads.exchange import ParallelRead
from relaybox.stores.readers.orphaned_hops import OrphanedHop, list_orphaned_hops

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store

OPEN_SECONDS = 30.0
"""A transaction that has sent messages and is open for longer is shown."""

RATE_SECONDS = 300
"""Rates are of the last five minutes."""

_RATES = """
    select i.hop, coalesce(sum(a.row_count), 0)::double precision / %(seconds)s as rate
    from relaybox_internal.hop_in i
    left join relaybox_internal.arrival a
        on a.log_id = i.log_id and a.batch > i.published_batch - 5000
            and a.published_at > clock_timestamp() - make_interval(secs => %(seconds)s)
    group by i.hop
"""


@dataclass(frozen=True)
class Overview:
    """All hops, and what keeps them from going on.

    Attributes:
        rates: messages per second that arrived by each hop in the last five minutes; a hop whose destination is silent is missing.
        findings: the worst and oldest first.
    """

    status: Status
    rates: Mapping[str, float]
    findings: tuple[Finding, ...]


class _HopRate(NamedTuple):
    hop: str
    rate: float


@dataclass(frozen=True)
class StoreLook:
    """What else one store said."""

    blockers: StoreBlockers
    rates: Mapping[str, float]
    detached: Sequence[DetachedLog]
    orphaned_hops: Sequence[OrphanedHop]


def read_overview(routes: Routes, *, open_for_seconds: float = OPEN_SECONDS) -> Overview:
    """Asks every store, side by side, each in one session. Raises nothing for a store that does not answer: it is a finding.

    Args:
        routes: what relaybox.yaml says.
        open_for_seconds: how long a transaction must have been open to be shown.
    """
    readings = start_overview(routes, tuple(routes.stores.values()), open_for_seconds=open_for_seconds)
    readings.wait()
    said = {store.name: reading for store, reading in readings.answers.items()}
    hops = {hop.name: hop_status(hop, said[hop.source.name], said[hop.destination.name]) for hop in routes.hops}
    return overview_of(routes, hops, said)


def start_overview(
    routes: Routes, stores: Iterable[Store], *, open_for_seconds: float = OPEN_SECONDS
) -> ParallelRead[StoreReading[StoreLook]]:
    """Begins to ask these stores for their part of it, and of the hops between them."""
    return start_reading(routes, stores, lambda store: _look(store, routes, open_for_seconds))


def overview_of(routes: Routes, hops: Mapping[str, HopStatus], said: Mapping[str, StoreReading[StoreLook]]) -> Overview:
    """All of it, from the status of each hop and what each store said, by their names."""
    status = status_of(routes, hops, said)
    seen = {store: reading.seen for store, reading in said.items() if reading.error is None and reading.seen is not None}
    return Overview(
        status=status,
        rates={hop: rate for look in seen.values() for hop, rate in look.rates.items()},
        findings=find_blockers(
            routes,
            status,
            {store: look.blockers for store, look in seen.items()},
            detached=[log for look in seen.values() for log in look.detached],
            orphaned_hops=[hop for look in seen.values() for hop in look.orphaned_hops],
        ),
    )


def _look(store: Store, routes: Routes, open_for_seconds: float) -> StoreLook | None:
    """None: the store stopped answering after its status was read; the next look will say so."""
    try:
        with store_session(store, "looking for what holds messages up", application_name="relaybox overview") as session:
            rates = dict(session.rows(_HopRate, _RATES, {"seconds": RATE_SECONDS}))
            detached, orphaned_hops = list_detached_logs(session), list_orphaned_hops(session, store, routes)
            return StoreLook(read_blockers(session, open_for_seconds=open_for_seconds), rates, detached, orphaned_hops)
    except errors.RelayboxError:
        return None
