"""The subscription of a sink: made by its first run, and compared with relaybox.yaml by every other one."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.log_events import emit
from relaybox.stores.schema import store_session

if TYPE_CHECKING:
    from relaybox.routes import Sink
    from relaybox.stores.sessions import StoreSession


@dataclass(frozen=True)
class _Subscription:
    stream: str
    topic: str | None
    lanes: int
    lane_by: str
    nack_limit: int
    hold_sender: bool
    retry_seconds: int
    lease_seconds: int


@dataclass(frozen=True)
class _End:
    done_at: datetime
    done_by: str
    reason: str | None


def subscribe_sink(sink: Sink, *, begin_anew: bool = False) -> None:
    """Makes the subscription of a sink, or makes sure that it is as relaybox.yaml says.

    A subscription that someone ended is not made again by itself: the endpoint would get the stream from its start.

    Args:
        sink: of relaybox.yaml.
        begin_anew: make it again if it was ended.

    Raises:
        NotSubscribed: it was ended.
        ConfigurationError: it differs from relaybox.yaml.
    """
    with store_session(sink.store, f"subscribing {sink.subscription}", application_name="relaybox sink") as session:
        found = session.row_if_any(
            _Subscription,
            """
            select stream, topic, lanes, lane_by, nack_limit, hold_sender, retry_seconds, lease_seconds
            from relaybox.subscriptions where subscription = %s
            """,
            sink.subscription,
        )
        if found is None and not begin_anew:
            _refuse_ended(session, sink)
        if found is None:
            _subscribe(session, sink)
    if found is not None:
        _refuse_difference(sink, found)


def _subscribe(session: StoreSession, sink: Sink) -> None:
    try:
        first = session.value(
            """
            select relaybox.subscribe(%s, %s, %s, lanes => %s, lane_by => %s, nack_limit => %s, hold_sender => %s,
                retry_seconds => %s, lease_seconds => %s)
            """,
            sink.subscription,
            sink.topic or sink.stream,
            sink.start,
            sink.lanes,
            sink.lane_by,
            sink.nack_limit,
            sink.hold_sender,
            sink.retry_seconds,
            sink.lease_seconds,
        )
        session.commit()
    except errors.AlreadySubscribed:  # another run was faster, with the same relaybox.yaml or its next run says so
        session.rollback()
        return
    emit("sink_subscribed", subscription=sink.subscription, store=sink.store.name, first_stream_position=first)


def _refuse_ended(session: StoreSession, sink: Sink) -> None:
    ended = session.row_if_any(
        _End,
        """
        select done_at, done_by, reason from relaybox.consumer_action
        where subscription = %s and action = 'unsubscribe' order by action_id desc limit 1
        """,
        sink.subscription,
    )
    if ended is None:
        return
    raise errors.NotSubscribed(
        f"store {sink.store.name}: subscription {sink.subscription} was ended by {ended.done_by} at {ended.done_at:%Y-%m-%d %H:%M:%S%z}"
        f"{f' ({ended.reason})' if ended.reason else ''}. Nothing is delivered to {sink.endpoint}.",
        next_step=(
            f"To deliver again, from {sink.start} on, run: relaybox {sink.kind} run {shlex.quote(sink.name)} --begin-anew. "
            f"Else take {sink.name} out of relaybox.yaml."
        ),
    )


def _refuse_difference(sink: Sink, found: _Subscription) -> None:
    wanted = {
        "stream": sink.stream,
        "topic": sink.topic,
        "lanes": sink.lanes,
        "lane_by": sink.lane_by,
        "nack_limit": sink.nack_limit,
        "hold_sender": sink.hold_sender,
        "retry_seconds": sink.retry_seconds,
    }
    differences = [
        f"{key} {_show(value)}, the store {_show(getattr(found, key))}"
        for key, value in wanted.items()
        if getattr(found, key) != value
    ]
    if found.lease_seconds < sink.lease_seconds:
        differences.append(
            f"attempts and a rate that need a lease of {sink.lease_seconds} s, the store lease_seconds {found.lease_seconds}"
        )
    if differences:
        raise errors.ConfigurationError(
            f"{sink.kind} {sink.name}: relaybox.yaml differs from subscription {sink.subscription} in store {sink.store.name}: "
            f"relaybox.yaml has {'; '.join(differences)}.",
            next_step=(
                "Write into relaybox.yaml what the store has. Or, to change it: note the done_stream_position of `relaybox "
                f"subscriptions`, run select relaybox.unsubscribe('{sink.subscription}', 'REASON'), write the next stream position "
                f"as start, and run: relaybox {sink.kind} run {shlex.quote(sink.name)} --begin-anew"
            ),
        )


def _show(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
