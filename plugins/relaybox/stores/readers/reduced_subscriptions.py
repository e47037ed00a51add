"""Subscriptions to all of a stream that lost topics: relaybox.yaml brings these in another stream of the store now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.amounts import amount
from relaybox.stores.readers.carried_topics import (
    CarriedTopics,
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class ReducedSubscription:
    """An open subscription to all of a stream that lost some topics to other streams of its store, and gets the others.

    Attributes:
        waiting_count: as of OrphanedSubscription.
        settings: as of OrphanedSubscription.
        elsewhere: streams of the store, with the topics that they have now and the subscription had.
        keepers: of each of these streams and topics the name of the subscription that keeps its messages, and what it subscribes to.
        reader: the kind of the reader of the file that has this subscription: webhook, kafka, export, derivation. None: an application.
    """

    store: str
    subscription: str
    stream: str
    waiting_count: int
    settings: str
    elsewhere: dict[str, tuple[str, ...]]
    keepers: dict[tuple[str, str], tuple[str, str]]
    reader: str | None

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(topic for topics in self.elsewhere.values() for topic in topics)

    @property
    def what(self) -> str:
        now = " and ".join(
            f"{show_topics(topics)} to store {self.store} in stream {name}" for name, topics in self.elsewhere.items()
        )
        return (
            f"Subscription {self.subscription} reads all of stream {self.stream} and no longer gets {show_topics(self.topics)}: "
            f"relaybox.yaml brings {now}. It is {amount(self.waiting_count, 'stream position')} behind."
        )

    @property
    def state(self) -> str:
        """In two or three words, for a table."""
        return f"lost {show_topics(self.topics)}"

    @property
    def next_step(self) -> str:
        lost = show_topics(self.topics)
        sources = dict(self.keepers[stream, topic] for stream, topics in self.elsewhere.items() for topic in topics)
        names = list(sources)
        subscribe = (
            f"select relaybox.subscribe('{name}', '{source}', 'earliest'{self.settings});" for name, source in sources.items()
        )
        keep = f"In store {self.store}, run: {' '.join(subscribe)}"
        end = " ".join(f"select relaybox.unsubscribe('{name}', 'REASON');" for name in names)
        again = f"Messages that {self.stream} delivered and the outbox still had come again, with their message_id."
        if self.reader is None:
            return (
                f"{keep} Let its workers read {' and '.join(names)} beside it. {again} "
                f"If it goes on without {lost}, then run: {end}"
            )
        kind = "sink of Kafka" if self.reader == "kafka" else self.reader
        streams = " and ".join(f"stream: {stream} ({show_topics(topics)})" for stream, topics in self.elsewhere.items())
        return (
            f"Write another {kind} into relaybox.yaml that has {streams} and start: earliest. {again} Or, to go on without {lost} and to "
            f"record why: {keep} {end}"
        )


class _Move(NamedTuple):
    """A topic that a subscription lost, a stream that has it now, and what a subscription to its messages there names."""

    topic: KnownTopic
    stream: str
    source: str

    def is_kept_by(self, made: MadeSubscription) -> bool:
        """Whether a subscription, open or ended, was made for this move: one of an earlier move says nothing."""
        return (
            made.stream == self.stream
            and made.topic in (None, self.topic.topic)
            and made.subscription_id > (self.topic.left_after or 0)
        )


def list_reduced_subscriptions(session: StoreSession, store: Store, routes: Routes) -> list[ReducedSubscription]:
    """The open subscriptions of a store that lost topics since they were made, by name.

    Not those that a person has decided on: another reader of their kind in the file has the topic, or a keeper of it was made since it
    left (ended or not). A topic that leaves is known from the next init on. Reads no message. Runs in the session's transaction.
    """
    carried = CarriedTopics.of(store, routes)
    subscriptions = [one for one in list_open_subscriptions(session) if one.topic is None and one.stream in carried.by_stream]
    known = read_known_topics(session, subscriptions)
    lost = {one: topics for one in subscriptions if (topics := _lost_topics(one, known[one.stream], carried))}
    moves = {one: list(_moves_of(one, topics, carried)) for one, topics in lost.items()}
    made = read_made(session, ((move.source, one.subscription) for one, of_one in moves.items() for move in of_one))
    settings = read_settings(session, list(lost))
    found = []
    for one, of_one in moves.items():
        kind = _reader_kind(one.subscription, store, routes)
        keepers: dict[tuple[str, str], tuple[str, str]] = {}
        left: dict[str, tuple[str, ...]] = {}
        for move in of_one:
            keeper = choose_keeper(move.source, one.subscription, made, move.is_kept_by)
            if not keeper.is_made:
                keepers[move.stream, move.topic.topic] = (keeper.name, move.source)
                left[move.stream] = (*left.get(move.stream, ()), move.topic.topic)
        elsewhere = _without_readers(kind, left, store, routes)
        if elsewhere and one.subscription in settings:
            waiting_count, text = settings[one.subscription].waiting_count, settings[one.subscription].settings
            found.append(
                ReducedSubscription(store.name, one.subscription, one.stream, waiting_count, text, elsewhere, keepers, kind)
            )
    return found


def _lost_topics(one: OpenSubscription, known: Sequence[KnownTopic], carried: CarriedTopics) -> list[KnownTopic]:
    """The topics that its stream had when it was made, and another stream brings now."""
    return [
        topic
        for topic in known
        if topic.left_after is not None
        and one.subscription_id <= topic.left_after
        and not carried.brings(one.stream, topic.topic, known)
        and carried.find_elsewhere(one.stream, {topic.topic})
    ]


def _moves_of(one: OpenSubscription, topics: Sequence[KnownTopic], carried: CarriedTopics) -> Iterator[_Move]:
    for topic in topics:
        streams = carried.find_elsewhere(one.stream, {topic.topic})
        for stream in streams:
            yield _Move(topic, stream, stream if topic.is_ambiguous or len(streams) > 1 else topic.topic)


def _reader_kind(subscription: str, store: Store, routes: Routes) -> str | None:
    """webhook, kafka, export or derivation: what the file has in this store with this subscription; None: an application reads it."""
    for sink in routes.sinks:
        if (sink.store, sink.subscription) == (store, subscription):
            return sink.kind
    if any((export.store, export.subscription) == (store, subscription) for export in routes.exports.values()):
        return "export"
    derivations = (route for route in routes.routes.values() if route.derivation is not None and route.path[0] == store)
    return "derivation" if any(subscription.startswith(f"derive.{route.name}.v") for route in derivations) else None


def _without_readers(
    kind: str | None, elsewhere: dict[str, tuple[str, ...]], store: Store, routes: Routes
) -> dict[str, tuple[str, ...]]:
    """The same without topics that a reader of this kind reads in the other stream, as the file says."""
    read = set() if kind is None else set(_read_by(kind, store, routes))
    left = {
        stream: tuple(topic for topic in topics if (stream, None) not in read and (stream, topic) not in read)
        for stream, topics in elsewhere.items()
    }
    return {stream: topics for stream, topics in left.items() if topics}


def _read_by(kind: str, store: Store, routes: Routes) -> Iterator[tuple[str, str | None]]:
    """Streams of the store that readers of a kind read, each with the one topic, or None for all."""
    yield from ((sink.stream, sink.topic) for sink in routes.sinks if (sink.store, sink.kind) == (store, kind))
    if kind == "export":
        yield from ((export.stream, None) for export in routes.exports.values() if export.store == store)
    if kind == "derivation":
        derivations = (route.derivation for route in routes.routes.values() if route.path[0] == store)
        yield from ((derivation.stream, None) for derivation in derivations if derivation is not None)
