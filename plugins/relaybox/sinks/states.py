"""How the sinks of relaybox.yaml are, as their stores know it. Reads only, but for the end of a pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox.stores.opening import store_session
from relaybox.stores.readers.failing_endpoints import read_failing_endpoints
from relaybox.stores.readers.reader_problems import ReaderProblem, list_reader_problems

if TYPE_CHECKING:
    from relaybox.routes import Routes, Sink, Store


@dataclass(frozen=True)
class SinkStatus:
    """One sink. What its subscription has is None until its first run has subscribed, and after that was ended.

    Attributes:
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
        dead_letters: messages that the endpoint refused, which need a decision.
        failing_since: since when the endpoint takes no message; None: it does.
        failure_count: failed attempts since then.
        retry_at: when the next attempt is due.
        reason: what the endpoint answered to the newest.
        problem: why it delivers nothing, or less than its stream had; None: nothing is wrong with its subscription.
    """

    name: str
    kind: str
    store: str
    stream: str
    subscription: str
    endpoint: str
    waiting_count: int | None = None
    dead_letters: int | None = None
    failing_since: datetime | None = None
    failure_count: int = 0
    retry_at: datetime | None = None
    reason: str | None = None
    problem: ReaderProblem | None = None


@dataclass(frozen=True)
class _Behind:
    subscription: str
    stream_positions_behind: int
    dead_letters: int


def read_sinks(store: Store, sinks: Sequence[Sink], routes: Routes) -> list[SinkStatus]:
    """How these sinks of one store are, in their order. `routes`: what relaybox.yaml says of the store."""
    with store_session(store, "asking how its sinks are", application_name="relaybox sinks") as session:
        behind = {
            one.subscription: one
            for one in session.rows(
                _Behind,
                "select subscription, stream_positions_behind, dead_letters from relaybox.subscriptions where subscription = any(%s)",
                [sink.subscription for sink in sinks],
            )
        }
        failing = {one.subscription: one for one in read_failing_endpoints(session)}
        problems = {one.subscription: one for one in list_reader_problems(session, store, routes)}
    found = []
    for sink in sinks:
        status = SinkStatus(sink.name, sink.kind, store.name, sink.stream, sink.subscription, sink.endpoint)
        status = replace(status, problem=problems.get(sink.subscription))
        if (subscription := behind.get(sink.subscription)) is not None:
            status = replace(status, waiting_count=subscription.stream_positions_behind, dead_letters=subscription.dead_letters)
        if (failure := failing.get(sink.subscription)) is not None:
            status = replace(
                status,
                failing_since=failure.failing_since,
                failure_count=failure.failure_count,
                retry_at=failure.retry_at,
                reason=failure.reason,
            )
        found.append(status)
    return found


def retry_sink(sink: Sink) -> bool:
    """Ends the pause of an endpoint that fails: its next run tries at once, one that waits when it looks. Commits.

    Returns:
        Whether it was failing.

    Raises:
        NotSubscribed: the sink never ran.
    """
    with store_session(sink.store, f"ending the pause of {sink.subscription}", application_name="relaybox sinks") as session:
        was_failing = session.call("relaybox.clear_endpoint_failure", sink.subscription)
        session.commit()
    return bool(was_failing)
