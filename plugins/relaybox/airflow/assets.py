"""The assets that tie the DAGs of a route together.

outbox --> transfer 1 --> log 1 --> transfer 2 --> log 2 --> confirm 2 --> settled 2 --> confirm 1 --> settled 1

An event is a trigger and no more: the run that it starts moves everything that waits, so a lost or doubled event does no harm.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher

from relaybox.airflow.triggers import HopWorkTrigger
from relaybox.routes import Hop, Routes, Store

LOG_PATIENCE_SECONDS = 2.0
"""How long a hop that reads a log leaves it to the hop before to trigger it, which it does when its task ends, and not while it lingers."""


def outbox_asset(hop: Hop) -> Asset:
    """What a route's first hop reads. It is watched: waiting messages start the hop."""
    return _asset(hop, "outbox", _watcher(hop.name, hop.source, patience_seconds=0.0))


def log_asset(hop: Hop) -> Asset:
    """The hop's log at its destination: an event says that it grew.

    Watched for the hop that reads it, since the transfer that fills it ends late while messages keep coming, and says nothing
    if it is killed. Every DAG must name an asset with the same watchers: Airflow keeps those it saw last.
    """
    if hop.downstream is None:
        return _asset(hop, "log")
    return _asset(hop, "log", _watcher(hop.downstream, hop.destination, patience_seconds=LOG_PATIENCE_SECONDS))


def read_asset(routes: Routes, hop: Hop) -> Asset:
    """What the hop reads: its events start the hop's transfer."""
    return log_asset(routes.hop(hop.upstream)) if hop.upstream else outbox_asset(hop)


def settling_asset(routes: Routes, hop: Hop) -> Asset:
    """Whose events start the hop's confirmation: the next hop's confirmations, and at the end of the route the log."""
    return settled_asset(routes.hop(hop.downstream)) if hop.downstream else log_asset(hop)


def verification_asset(route: str) -> Asset:
    """The verification of delivery of a route: an event carries what it found."""
    return Asset(name=f"relaybox/{route}/verification", uri=f"x-relaybox://{route}/verification", group="relaybox")


def trigger_alias(store: Store) -> str:
    """The asset alias under which the watch DAG triggers the hops that leave a store."""
    return f"relaybox/{store.name}/trigger"


def settled_asset(hop: Hop) -> Asset:
    """The hop's confirmations at its source: an event says that they are up to date."""
    return _asset(hop, "settled")


def _asset(hop: Hop, kind: str, *watchers: AssetWatcher) -> Asset:
    return Asset(
        name=f"relaybox/{hop.name}/{kind}",
        uri=f"x-relaybox://{hop.route}/{hop.number}/{kind}",
        group="relaybox",
        watchers=list(watchers),
    )


def _watcher(hop: str, source: Store, *, patience_seconds: float) -> AssetWatcher:
    watch = source.watch
    trigger = HopWorkTrigger(
        hop=hop,
        connection=source.connection,
        patience_seconds=patience_seconds,
        poll_seconds=watch.interval_seconds,
        max_poll_seconds=watch.max_interval_seconds,
        backoff=watch.backoff,
        listen=watch.listen,
    )
    return AssetWatcher(name=f"{hop} has work", trigger=trigger)
