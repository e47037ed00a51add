"""Endpoints of webhooks and of Kafka that take no message now, as a store knows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class FailingEndpoint:
    """An endpoint to which a subscription is delivered, and that takes no message now.

    Attributes:
        endpoint: a URL without its query, or brokers and topic.
        failing_since: the first failed attempt since a message was delivered.
        failure_count: failed attempts since then.
        retry_at: when the next one is due.
        reason: what the endpoint answered to the newest.
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
    """

    store: str
    subscription: str
    stream: str
    endpoint: str
    failing_since: datetime
    failure_count: int
    retry_at: datetime
    reason: str
    waiting_count: int

    @property
    def next_step(self) -> str:
        """What to do."""
        kind, _, name = self.subscription.partition(".")
        if kind in ("webhook", "kafka") and name:
            return f"Repair the endpoint. Then run: relaybox {kind} retry {name}"
        return (
            f"Repair the endpoint. Then run in store {self.store}: select relaybox.clear_endpoint_failure('{self.subscription}')"
        )


def read_failing_endpoints(session: StoreSession) -> list[FailingEndpoint]:
    """The endpoints of a store that fail, the longest failing first."""
    return session.rows(FailingEndpoint, "select * from relaybox_internal.failing_endpoints()", store=session.store)
