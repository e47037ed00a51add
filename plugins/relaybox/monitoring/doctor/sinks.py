"""Subscriptions of webhooks and of Kafka: whether relaybox.yaml has the sinks that acknowledge them, with their stream and topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok, warning
from relaybox.monitoring.doctor.record import may_read
from relaybox.stores.changed_sinks import choose_changed
from relaybox.stores.orphaned_sinks import SinkSubscription, choose_orphaned, describe_moved, list_sink_subscriptions

if TYPE_CHECKING:
    from relaybox.routes import Sink


def check_sinks(examined: Examined) -> Iterator[Diagnosis]:
    """Each subscription with the name of a sink is of a sink in relaybox.yaml, which has its stream and topic.

    What nobody acknowledges is kept from retention, and a sink that differs from its subscription delivers nothing.
    """
    if not examined.server.has_schema:
        return
    if not may_read(examined.session, "subscription") or not may_read(examined.session, "dead_letter"):
        yield hidden(examined, "relaybox_internal.subscription")
        return
    store = examined.store.name
    subscriptions = list_sink_subscriptions(examined.session, examined.store)
    orphaned = choose_orphaned(subscriptions, examined.store, examined.routes)
    changed = choose_changed(subscriptions, examined.store, examined.routes)
    for one in orphaned:
        yield warning(
            f"Subscription {one.subscription} belongs to no sink: relaybox.yaml has no {one.section}.{one.name} in store {store}. "
            f"It is {one.waiting}, and the store keeps the messages that it has not acknowledged.",
            _next_step(one, one.moved_to(examined.routes)),
        )
    for other in changed:
        yield warning(other.what, other.next_step)
    if not orphaned and not changed:
        yield ok("Each subscription of a webhook or of Kafka has its sink and agrees with it.")


def _next_step(one: SinkSubscription, sink: Sink | None) -> str:
    if sink is not None:
        return f"{describe_moved(one, sink)};"
    return (
        f"To keep it, write {one.section}.{one.name} into relaybox.yaml. If the sink has another name now and reads the same stream of "
        f'this store, write start: "{one.next_stream_position}" for the new name before its first run. To end it, when nothing is to be '
        f"delivered by it any more, in store {one.store}, run: {one.end('REASON')};"
    )
