"""Subscriptions: whether a route of relaybox.yaml brings what they read."""

from __future__ import annotations

from collections.abc import Iterator

from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok, warning
from relaybox.monitoring.doctor.record import may_read
from relaybox.stores.orphaned_subscriptions import list_orphaned_subscriptions

_READS = ("subscription", "dead_letter", "stream", "known_topics")


def check_subscriptions(examined: Examined) -> Iterator[Diagnosis]:
    """A route of relaybox.yaml brings the topic of each subscription in its stream: else it stands still, and seems to be up to date."""
    if not examined.server.has_schema:
        return
    for relation in _READS:
        if not may_read(examined.session, relation):
            yield hidden(examined, f"relaybox_internal.{relation}")
            return
    found = list_orphaned_subscriptions(examined.session, examined.store, examined.routes)
    for one in found:
        yield warning(one.what, one.next_step)
    if not found:
        yield ok("A route of relaybox.yaml brings what each subscription reads.")
