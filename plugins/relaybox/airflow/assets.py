"""The assets that tie the DAGs of a route together.

outbox --> transfer 1 --> log 1 --> transfer 2 --> log 2 --> confirm 2 --> settled 2 --> confirm 1 --> settled 1
work 1 -------^             work 2 -----^

An event is a trigger and no more: the run that it starts moves everything that waits, so a lost or doubled event does no harm.

Airflow keeps the watchers of an asset that it parsed last: a DAG of others that names it plainly, `Asset("relaybox/flights/1/log")`,
would switch them off. So the watched assets are apart, and no DAG of others has a reason to name them.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetAny, AssetWatcher

from relaybox.airflow.subscription_trigger import SubscriptionTrigger
from relaybox.airflow.triggers import HopWorkTrigger
from relaybox.routes import Export, Hop, Route, Routes, Sink, Store

LOG_PATIENCE_SECONDS = 2.0
"""How long a hop that reads a log leaves it to the hop before to trigger it, which it does when its task ends, and not while it lingers."""


def work_asset(hop: Hop) -> Asset:
    """Watched: an event says that messages wait for the hop.

    For a hop that reads a log too, since the transfer that fills it ends late while messages keep coming, and says nothing
    if it is killed.
    """
    return _asset(hop, "work", _watcher(hop.name, hop.source, patience_seconds=LOG_PATIENCE_SECONDS if hop.upstream else 0.0))


def outbox_asset(hop: Hop) -> Asset:
    """What a route's first hop reads: an event of a DAG that sends starts the hop."""
    return _asset(hop, "outbox")


def log_asset(hop: Hop) -> Asset:
    """The hop's log at its destination: an event says that it grew."""
    return _asset(hop, "log")


def start_assets(routes: Routes, hop: Hop) -> AssetAny:
    """Whose events start the hop's transfer: those of its watcher, and of what it reads."""
    return AssetAny(work_asset(hop), log_asset(routes.hop(hop.upstream)) if hop.upstream else outbox_asset(hop))


def derive_assets(routes: Routes, route: Route) -> AssetAny:
    """Whose events start a derivation: those of the logs of its stream, and of its subscription, once the derivation has one.

    Also of that of the next version, which runs as soon as it is promoted.
    """
    derivation = route.require_derivation()
    versions = [derivation, derivation.next] if derivation.next else [derivation]
    subscriptions = [route.derive_subscription_of(version) for version in versions]
    return _stream_assets(routes, route.path[0], derivation.stream, *subscriptions)


def export_assets(routes: Routes, export: Export) -> AssetAny:
    """Whose events start an export: those of the logs of its stream, and of its subscription, once the export has one."""
    return _stream_assets(routes, export.store, export.stream, export.subscription)


def sink_assets(routes: Routes, sink: Sink) -> AssetAny:
    """Whose events start a webhook or a sink of Kafka, likewise."""
    return _stream_assets(routes, sink.store, sink.stream, sink.subscription)


def _stream_assets(routes: Routes, store: Store, stream: str, *subscriptions: str) -> AssetAny:
    """Looked at as often as the hops that leave the store."""
    logs = (log_asset(hop) for hop in routes.hops if hop.destination == store and hop.stream == stream)
    return AssetAny(*logs, *(_waiting_in(store, subscription) for subscription in subscriptions))


def _waiting_in(store: Store, subscription: str) -> Asset:
    trigger = SubscriptionTrigger(
        relaybox_conn_id=store.connection,
        subscription=subscription,
        poll_seconds=store.watch.interval_seconds,
        max_poll_seconds=store.watch.max_interval_seconds,
        backoff=store.watch.backoff,
        listen=store.watch.listen,
    )
    return _waiting(store.connection, subscription, trigger)


def waiting_asset(relaybox_conn_id: str, subscription: str, *, poll_seconds: float = 5.0) -> Asset:
    """For the `schedule` of a DAG author's own DAG: an event says that lanes of the subscription are behind that no worker has.

    Made by this function everywhere, it has the same watcher everywhere.

    Args:
        relaybox_conn_id: Airflow connection of the store.
        subscription: its name.
        poll_seconds: the time between two looks; the same for all subscriptions of a store, so that they share one.
    """
    trigger = SubscriptionTrigger(relaybox_conn_id=relaybox_conn_id, subscription=subscription, poll_seconds=poll_seconds)
    return _waiting(relaybox_conn_id, subscription, trigger)


def _waiting(relaybox_conn_id: str, subscription: str, trigger: SubscriptionTrigger) -> Asset:
    return Asset(
        name=f"relaybox/{relaybox_conn_id}/{subscription}/waiting",
        uri=f"x-relaybox://{relaybox_conn_id}/{subscription}/waiting",
        group="relaybox",
        watchers=[AssetWatcher(name=f"messages wait for {subscription}", trigger=trigger)],
    )


def settling_asset(routes: Routes, hop: Hop) -> Asset:
    """Whose events start the hop's confirmation: the next hop's confirmations, and at the end of the route the log."""
    return settled_asset(routes.hop(hop.downstream)) if hop.downstream else log_asset(hop)


def verification_asset(route: str) -> Asset:
    """The verification of delivery of a route: an event carries what it found."""
    return Asset(name=f"relaybox/{route}/verification", uri=f"x-relaybox://{route}/verification", group="relaybox")


def trigger_alias(store: Store) -> str:
    """The asset alias under which the watch DAG triggers the hops that leave a store."""
    return f"relaybox/{store.name}/trigger"


def late_asset(hop: Hop) -> Asset:
    """The hop is later than its target: an event carries its lag."""
    return _asset(hop, "late")


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
