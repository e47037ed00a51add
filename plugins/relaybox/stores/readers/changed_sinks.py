"""Sinks that relaybox.yaml gives another stream, topic or setting than their open subscription has: their runs are refused."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relaybox.stores.readers.orphaned_sinks import SinkSubscription, list_sink_subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.routes import Routes, Sink, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class ChangedSink:
    """A sink of the file, and its subscription, which has another stream or topic."""

    sink: Sink
    subscription: SinkSubscription

    @property
    def what(self) -> str:
        """What is wrong, with numbers."""
        sink, other = self.sink, self.subscription
        return (
            f"{sink.kind} {sink.name}: relaybox.yaml has {_source(sink.stream, sink.topic)}, the open subscription {sink.subscription} in "
            f"store {sink.store.name} has {_source(other.stream, other.topic)}, {other.waiting}. While they differ, runs are refused and "
            "deliver nothing."
        )

    @property
    def next_step(self) -> str:
        former = _source(self.subscription.stream, self.subscription.topic)
        section = f"{self.subscription.section}.{self.sink.name}"
        first = self.subscription.dead_letters_first
        return f"To go on with {former}, write it into {section} again. {first}{self._switch(section)}"

    def _switch(self, section: str) -> str:
        sink, other = self.sink, self.subscription
        if sink.stream != other.stream:
            return f"To go on with stream {sink.stream}: {continue_in_stream(sink, former=other.stream, stream=sink.stream)}"
        return (
            f"To go on with {_source(sink.stream, sink.topic)}: {_deliver_rest(sink, other.stream)} "
            f"(2) Run relaybox doctor again and write the start that it says into {section}: "
            f'start: "{other.next_stream_position}" is the first stream position that not every lane has acknowledged. '
            f"(3) {_end(sink)} (4) Run: {_begin_anew(sink)}"
        )


def continue_in_stream(sink: Sink, *, former: str, stream: str, keeper: str | None = None) -> str:
    """The steps by which a sink goes on in another stream of its store.

    Args:
        sink: of the file.
        former: the stream of its subscription.
        stream: where it goes on.
        keeper: a subscription that keeps the messages of that stream meanwhile, and ends then.
    """
    steps = [
        _deliver_rest(sink, former),
        f"(2) {_end(sink)}",
        f'(3) Write stream: {stream} and start: "earliest" into the section of {sink.name}. Run: {_begin_anew(sink)}',
    ]
    if keeper is not None:
        steps.append(f"(4) In store {sink.store.name}, run: select relaybox.unsubscribe('{keeper}', 'REASON');")
    return (
        f"{' '.join(steps)} Take no stream position of {former} over: it is another message in {stream}. What both streams have is sent "
        "again, with its message_id. To repeat less: docs/outward.md, Another stream or store"
    )


def _deliver_rest(sink: Sink, former: str) -> str:
    run = f"{sink.kind} run {shlex.quote(sink.name)} --until-empty"
    return f"(1) Deliver the rest of {former}, with a copy of relaybox.yaml as it was. Run: relaybox --config OLD.yaml {run}"


def _end(sink: Sink) -> str:
    return f"End its processes. In store {sink.store.name}, run: select relaybox.unsubscribe('{sink.subscription}', 'REASON');"


def _begin_anew(sink: Sink) -> str:
    return f"relaybox {sink.kind} run {shlex.quote(sink.name)} --begin-anew"


def _source(stream: str, topic: str | None) -> str:
    return f"stream {stream}" if topic is None else f"topic {topic} of stream {stream}"


class SinkSettings(Protocol):
    """What a subscription of a sink was made with."""

    @property
    def stream(self) -> str: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def lanes(self) -> int: ...
    @property
    def lane_by(self) -> str: ...
    @property
    def nack_limit(self) -> int: ...
    @property
    def hold_sender(self) -> bool: ...
    @property
    def retry_seconds(self) -> int: ...
    @property
    def lease_seconds(self) -> int: ...
    @property
    def delayed(self) -> str: ...


def find_differences(sink: Sink, found: SinkSettings) -> list[str]:
    """What relaybox.yaml has and the subscription has not, each as `key value, the store value`; while there is any, runs are refused."""
    keys = ("stream", "topic", "lanes", "lane_by", "nack_limit", "hold_sender", "retry_seconds", "delayed")
    differences = [
        f"{key} {_show(getattr(sink, key))}, the store {_show(getattr(found, key))}"
        for key in keys
        if getattr(found, key) != getattr(sink, key)
    ]
    if found.lease_seconds < sink.lease_seconds:
        differences.append(
            f"attempts and a rate that need a lease of {sink.lease_seconds} s, the store lease_seconds {found.lease_seconds}"
        )
    return differences


def change_settings(sink: Sink, start: int) -> str:
    """What to do where another setting than the stream differs. `start`: SinkSubscription.next_stream_position."""
    return (
        "Write into relaybox.yaml what the store has. Or, to change delayed alone: select relaybox.change_delayed("
        f"'{sink.subscription}', '{sink.delayed}', 'REASON'). Or, to change more: (1) End its processes. (2) Run relaybox doctor "
        f'{sink.store.name} again and write the start that it says into the section of {sink.name}: start: "{start}" (3) {_end(sink)} '
        f"(4) Run: {_begin_anew(sink)}"
    )


def _show(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def choose_unequal(
    subscriptions: Sequence[SinkSubscription], store: Store, routes: Routes
) -> list[tuple[Sink, SinkSubscription, list[str]]]:
    """Of these subscriptions, those whose sink of the file has their stream and topic, and other settings; with the differences."""
    sinks = {sink.subscription: sink for sink in routes.sinks if sink.store == store}
    return [
        (sink, one, differences)
        for one in subscriptions
        if (sink := sinks.get(one.subscription)) is not None
        and (sink.stream, sink.topic) == (one.stream, one.topic)
        and (differences := find_differences(sink, one))
    ]


def choose_changed(subscriptions: Sequence[SinkSubscription], store: Store, routes: Routes) -> list[ChangedSink]:
    """Of these subscriptions, those whose sink of the file has another stream or topic."""
    sinks = {sink.subscription: sink for sink in routes.sinks if sink.store == store}
    return [
        ChangedSink(sink, one)
        for one in subscriptions
        if (sink := sinks.get(one.subscription)) is not None and (sink.stream, sink.topic) != (one.stream, one.topic)
    ]


def describe_changed(session: StoreSession, store: Store, routes: Routes) -> list[str]:
    """For each of them: what is wrong, and what to do. Runs in the session's transaction."""
    return [f"{one.what} {one.next_step}" for one in choose_changed(list_sink_subscriptions(session, store), store, routes)]
