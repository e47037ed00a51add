"""Subscriptions that get no new message: relaybox.yaml brings their topic, or all topics of their stream, in another or in none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.stores.readers.carried_topics import (
    CarriedTopics,
    Keeper,
    KnownTopic,
    MadeSubscription,
    OpenSubscription,
    choose_keeper,
    list_open_subscriptions,
    read_known_topics,
    read_made,
    read_settings,
    show_topics,
)
from relaybox.stores.readers.changed_sinks import continue_in_stream
from relaybox.stores.readers.reduced_subscriptions import list_reduced_subscriptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.routes import Routes, Sink, Store
    from relaybox.stores.sessions.store_session import StoreSession

SECTION = "docs/consuming.md, When a topic moves to another stream"


@dataclass(frozen=True)
class OrphanedSubscription:
    """An open subscription that no route of the file fills any more.

    Attributes:
        topic: None: all of the stream.
        is_ambiguous: as OpenSubscription has it.
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
        left: what it has beside these, in words: messages that are not due, and dead letters. Empty: nothing.
        settings: what its subscribe() was given beside source and start, as SQL; empty: the defaults.
        stream_is_filled: a route of the file has the stream, without the topic.
        elsewhere: streams of the store by which the file brings the topic, or a topic of the stream; with these topics.
        keepers: of each of these streams the subscription that keeps its messages, whether it is made or not.
        sink: of the file, in this store, with this subscription; None: an application reads it.
    """

    store: str
    subscription: str
    stream: str
    topic: str | None
    is_ambiguous: bool
    waiting_count: int
    left: str
    settings: str
    stream_is_filled: bool
    elsewhere: dict[str, tuple[str, ...]]
    keepers: dict[str, Keeper]
    sink: Sink | None

    @property
    def what(self) -> str:
        """What is wrong, with numbers."""
        source = f"topic {self.topic} of stream {self.stream}" if self.topic else f"stream {self.stream}"
        if self.elsewhere:
            now = " and ".join(
                f"{show_topics(topics)} to store {self.store} in stream {name}" for name, topics in self.elsewhere.items()
            )
            why = f"relaybox.yaml brings {now}"
        elif self.stream_is_filled:
            why = f"no route of relaybox.yaml brings topic {self.topic} to store {self.store}"
        else:
            why = f"no route of relaybox.yaml fills stream {self.stream} in store {self.store}"
        return (
            f"Subscription {self.subscription} reads {source} and gets no new message: {why}. "
            f"It is {amount(self.waiting_count, 'stream position')} behind{f', and has {self.left}' if self.left else ''}."
        )

    @property
    def next_step(self) -> str:
        """How it goes on in the other stream. Its own stream comes first: its last messages may be in no other one."""
        end = f"select relaybox.unsubscribe('{self.subscription}', 'REASON');"
        if not self.elsewhere:
            return f"Give it a route again. Or, when {self._is_done}: {end}"
        missing = " ".join(map(self._keep, self.unkept))
        now = f"In store {self.store}, run: {missing}" if missing else ""
        return self._go_on(now, end)

    @property
    def _is_done(self) -> str:
        """When it may end."""
        rest = (
            " and has none of the others left (wait until what is not due was delivered; redrive or drop the dead letters: they end "
            "with it)"
        )
        return f"{self.subscription} is 0 behind{rest if self.left else ''}"

    @property
    def unkept(self) -> tuple[str, ...]:
        """Streams that bring its topic, or topics of its stream, and have no subscription that keeps them for it."""
        return tuple(stream for stream, keeper in self.keepers.items() if not keeper.is_made)

    def _go_on(self, now: str, end: str) -> str:
        if self.sink is not None:
            stream = next(iter(self.elsewhere))
            kept_by = self.keepers[stream].name
            going_on = continue_in_stream(self.sink, former=self.stream, stream=stream, keeper=kept_by)
            return f"{now} Then: {going_on}." if now else f"To go on: {going_on}."
        names = " and ".join(keeper.name for keeper in self.keepers.values())
        others = f" {names} has other topics too." if self._keeps_whole_stream else ""
        steps = [
            *([now] if now else []),
            f"Let the workers of {self.subscription} read until {self._is_done}, and {names} from then on.",
            f"Run: {end}",
        ]
        return (
            f"{' '.join(f'({number}) {step}' for number, step in enumerate(steps, start=1))}{others} A stream position of {self.stream} is "
            f"another message in another stream. Messages that {self.stream} delivered and the outbox still had come again, with their "
            f"message_id. To repeat less, and to keep the name: {SECTION}."
        )

    @property
    def _keeps_whole_stream(self) -> bool:
        """Whether a subscription to the topic alone can't be made."""
        return self.topic is not None and (self.is_ambiguous or len(self.elsewhere) > 1)

    def _keep(self, stream: str) -> str:
        source = self.topic if self.topic is not None and not self._keeps_whole_stream else stream
        return f"select relaybox.subscribe('{self.keepers[stream].name}', '{source}', 'earliest'{self.settings});"


def list_orphaned_subscriptions(session: StoreSession, store: Store, routes: Routes) -> list[OrphanedSubscription]:
    """The open subscriptions of a store that no route of the file fills any more, by name.

    Reads no message. Runs in the session's transaction.
    """
    carried = CarriedTopics.of(store, routes)
    subscriptions = list_open_subscriptions(session)
    known = read_known_topics(session, subscriptions)
    orphaned = [one for one in subscriptions if is_orphaned(one, known[one.stream], carried)]
    settings = read_settings(session, orphaned)
    sinks = {sink.subscription: sink for sink in routes.sinks if sink.store == store}
    elsewhere = {one: _find_elsewhere(one, known[one.stream], carried) for one in orphaned}
    made = read_made(session, ((stream, one.subscription) for one in orphaned for stream in elsewhere[one]))
    found = []
    for one in orphaned:
        if one.subscription in settings:
            orphan = OrphanedSubscription(
                store=store.name,
                subscription=one.subscription,
                stream=one.stream,
                topic=one.topic,
                is_ambiguous=one.is_ambiguous,
                waiting_count=settings[one.subscription].waiting_count,
                left=settings[one.subscription].left,
                settings=settings[one.subscription].settings,
                stream_is_filled=one.stream in carried.by_stream,
                elsewhere=elsewhere[one],
                keepers={
                    stream: choose_keeper(stream, one.subscription, made, partial(_keeps, one, stream))
                    for stream in elsewhere[one]
                },
                sink=sinks.get(one.subscription),
            )
            found.append(orphan)
    return found


def _find_elsewhere(one: OpenSubscription, known: Sequence[KnownTopic], carried: CarriedTopics) -> dict[str, tuple[str, ...]]:
    wanted = {topic.topic for topic in known} if one.topic is None else {one.topic}
    return carried.find_elsewhere(one.stream, wanted)


def _keeps(one: OpenSubscription, stream: str, made: MadeSubscription) -> bool:
    """Whether it keeps all of the stream that the other one needs. One that is older was made when another one moved."""
    return (
        made.is_open and made.stream == stream and made.topic in (None, one.topic) and made.subscription_id > one.subscription_id
    )


def is_orphaned(one: OpenSubscription, known: Sequence[KnownTopic], carried: CarriedTopics) -> bool:
    """Whether no route brings what it reads. `known`: topics of its stream."""
    if one.stream not in carried.by_stream:
        return True
    return one.topic is not None and not carried.brings(one.stream, one.topic, known)


def describe_orphaned(session: StoreSession, store: Store, routes: Routes) -> list[str]:
    """For each of them, and each that lost topics: what is wrong, and what to do. Runs in the session's transaction."""
    orphaned = [f"{one.what} {one.next_step}" for one in list_orphaned_subscriptions(session, store, routes)]
    return orphaned + [f"{one.what} {one.next_step}" for one in list_reduced_subscriptions(session, store, routes)]
