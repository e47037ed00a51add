"""The session of a sink's worker: the functions of a subscription, and those that tell how its endpoint is. Consumers may call them all."""

from __future__ import annotations

from typing import Any, NamedTuple

from relaybox.clients.steps import Steps
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

    def one(self, query: str, values: dict[str, object], doing: str) -> Steps[tuple[Any, ...] | None]:
        """The row of a query that gives one at most."""
        rows = yield from self._execute(query, values, doing)
        return tuple(rows[0]) if rows else None

    def read_failure(self) -> Steps[EndpointRecord | None]:
        """How the endpoint fails; None: it does not."""
        query = (
            "select endpoint, failing_since, failure_count, reason, rest_seconds from relaybox.endpoint_failure({subscription})"
        )
        row = yield from self.one(query, {"subscription": self.subscription}, "asking how the endpoint is")
        return EndpointRecord(*row) if row else None

    def record_failure(self, endpoint: str, reason: str, pause_seconds: float) -> Steps[int]:
        """Records that the endpoint took no message. Returns how many attempts failed since it took one, those of all lanes."""
        values = {"subscription": self.subscription, "endpoint": endpoint, "reason": reason, "pause_seconds": pause_seconds}
        statement = "select relaybox.record_endpoint_failure({subscription}, {endpoint}, {reason}, {pause_seconds})"
        rows = yield from self._execute(statement, values, "recording that the endpoint fails")
        return int(rows[0][0])

    def clear_failure(self) -> Steps[None]:
        """Forgets that it failed."""
        statement = "select relaybox.clear_endpoint_failure({subscription})"
        yield from self._execute(statement, {"subscription": self.subscription}, "recording that the endpoint answers")
