"""The session of a sink's worker: the functions of a subscription, and those that tell how its endpoint is. Consumers may call them all."""

from __future__ import annotations

from typing import Any, NamedTuple

from relaybox.consumer.session import ConsumerSession


class EndpointRecord(NamedTuple):
    """What the store has of an endpoint that fails."""

    endpoint: str
    failing_since: Any
    failure_count: int
    reason: str
    rest_seconds: float


class SinkSession(ConsumerSession):
    """A session of a consumer that also says, and asks, how the endpoint of its subscription is."""

    def one(self, query: str, arguments: tuple[object, ...], doing: str) -> tuple[Any, ...] | None:
        """The row of a query that gives one at most."""
        row = self._execute(query, arguments, doing).one_or_none()
        return None if row is None else tuple(row)

    def read_failure(self) -> EndpointRecord | None:
        """How the endpoint fails; None: it does not."""
        query = "select endpoint, failing_since, failure_count, reason, rest_seconds from relaybox.endpoint_failure(%s)"
        row = self.one(query, (self.subscription,), "asking how the endpoint is")
        return None if row is None else EndpointRecord(*row)

    def record_failure(self, endpoint: str, reason: str, pause_seconds: float) -> None:
        """Records that the endpoint took no message."""
        arguments = (self.subscription, endpoint, reason, pause_seconds)
        self._execute("select relaybox.record_endpoint_failure(%s, %s, %s, %s)", arguments, "recording that the endpoint fails")

    def clear_failure(self) -> None:
        """Forgets that it failed."""
        self._execute("select relaybox.clear_endpoint_failure(%s)", (self.subscription,), "recording that the endpoint answers")
