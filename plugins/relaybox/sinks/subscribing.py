"""The subscription of a sink: made by its first run, and compared with relaybox.yaml by every other one."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.clients.sqlalchemy import SqlalchemySession
from relaybox.clients.steps import drive
from relaybox.log_events import emit
from relaybox.sinks.session import SinkSession
from relaybox.stores.readers.changed_sinks import change_settings, continue_in_stream, find_differences

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from relaybox.routes import Sink


class _Subscription(NamedTuple):
    stream: str
    topic: str | None
    lanes: int
    lane_by: str
    nack_limit: int
    hold_sender: bool
    retry_seconds: int
    lease_seconds: int
    delayed: str
    next_stream_position: int


class _End(NamedTuple):
    done_at: datetime
    done_by: str
    reason: str | None


def subscribe_sink(sink: Sink, engine: Engine, *, begin_anew: bool = False) -> None:
    """Makes the subscription of a sink, or makes sure that it is as relaybox.yaml says. Commits.

    A subscription that someone ended is not made again by itself: the endpoint would get the stream from its start.

    Args:
        sink: of relaybox.yaml.
        engine: of its store; its login has relaybox_consumer, and needs no other role.
        begin_anew: make it again if it was ended.

    Raises:
        NotSubscribed: it was ended.
        ConfigurationError: it differs from relaybox.yaml.
    """
    session = SinkSession(SqlalchemySession(engine), store=sink.store.name, subscription=sink.subscription)
    try:
        found = drive(session.one(_SUBSCRIPTION, {"subscription": sink.subscription}, "looking"))
        if found is None and not begin_anew:
            _refuse_ended(session, sink)
        if found is None:
            _subscribe(session, sink)
        else:
            _refuse_difference(sink, _Subscription(*found))
    finally:
        drive(session.close())


_SUBSCRIPTION = """
select s.stream, s.topic, s.lanes, s.lane_by, s.nack_limit, s.hold_sender, s.retry_seconds, s.lease_seconds, s.delayed,
    least(s.done_stream_position + 1, (
        select min(d.stream_position) from relaybox.dead_letters d
        where d.subscription = s.subscription and d.stream = s.stream and d.reason = 'delayed' and d.state in ('delayed', 'redriving')
    ))
from relaybox.subscriptions s where s.subscription = {subscription}
"""
_SUBSCRIBE = """
select relaybox.subscribe(
    cast({subscription} as text), cast({source} as text), cast({start} as text), lanes => cast({lanes} as integer),
    lane_by => cast({lane_by} as text), nack_limit => cast({nack_limit} as integer), hold_sender => cast({hold_sender} as boolean),
    retry_seconds => cast({retry_seconds} as integer), lease_seconds => cast({lease_seconds} as integer),
    delayed => cast({delayed} as text)
)
"""
_END = """
select done_at, done_by, reason from relaybox.consumer_action
where subscription = {subscription} and action = 'unsubscribe' order by action_id desc limit 1
"""


def _subscribe(session: SinkSession, sink: Sink) -> None:
    values = {
        "subscription": sink.subscription,
        "source": sink.topic or sink.stream,
        "start": sink.start,
        "lanes": sink.lanes,
        "lane_by": sink.lane_by,
        "nack_limit": sink.nack_limit,
        "hold_sender": sink.hold_sender,
        "retry_seconds": sink.retry_seconds,
        "lease_seconds": sink.lease_seconds,
        "delayed": sink.delayed,
    }
    try:
        made = drive(session.one(_SUBSCRIBE, values, "subscribing"))
        found = drive(session.one(_SUBSCRIPTION, {"subscription": sink.subscription}, "looking"))
        if found is not None:
            _refuse_other_source(sink, _Subscription(*found))
        drive(session.commit())
    except errors.AlreadySubscribed:  # another run was faster, with the same relaybox.yaml or its next run says so
        return
    first = None if made is None else made[0]
    emit("sink_subscribed", subscription=sink.subscription, store=sink.store.name, first_stream_position=first)


def _refuse_other_source(sink: Sink, found: _Subscription) -> None:
    """A stream of a route that relaybox.yaml no longer contains may have the name of the topic, or another stream may carry it."""
    if (found.stream, found.topic) != (sink.stream, sink.topic):
        source = f"topic {found.topic} of stream {found.stream}" if found.topic else f"all of stream {found.stream}"
        raise errors.ConfigurationError(
            f"{sink.kind} {sink.name}: relaybox.yaml has topic {sink.topic} of stream {sink.stream}; a subscription to {sink.topic} "
            f"in store {sink.store.name} would read {source}. Nothing was subscribed.",
            next_step=f"Run: relaybox init. If that changes nothing, leave topic out, or choose another topic of stream {sink.stream}",
        )


def _refuse_ended(session: SinkSession, sink: Sink) -> None:
    row = drive(session.one(_END, {"subscription": sink.subscription}, "looking for its end"))
    if row is None:
        return
    ended = _End(*row)
    raise errors.NotSubscribed(
        f"store {sink.store.name}: subscription {sink.subscription} was ended by {ended.done_by} at {ended.done_at:%Y-%m-%d %H:%M:%S%z}"
        f"{f' ({ended.reason})' if ended.reason else ''}. Nothing is delivered to {sink.endpoint}.",
        next_step=(
            f"To deliver again, from {sink.start} on, run: relaybox {sink.kind} run {shlex.quote(sink.name)} --begin-anew. "
            f"Else take {sink.name} out of relaybox.yaml."
        ),
    )


def _refuse_difference(sink: Sink, found: _Subscription) -> None:
    differences = find_differences(sink, found)
    if differences:
        raise errors.ConfigurationError(
            f"{sink.kind} {sink.name}: relaybox.yaml differs from subscription {sink.subscription} in store {sink.store.name}: "
            f"relaybox.yaml has {'; '.join(differences)}.",
            next_step=_other_stream(sink, found.stream)
            if found.stream != sink.stream
            else change_settings(sink, found.next_stream_position),
        )


def _other_stream(sink: Sink, former: str) -> str:
    return (
        f"Write into relaybox.yaml what the store has. Or, to go on in stream {sink.stream}: "
        f"{continue_in_stream(sink, former=former, stream=sink.stream)}"
    )
