"""Subscriptions that get no new message: relaybox.yaml brings their topic, or all topics of their stream, in another or in none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.amounts import amount
from relaybox.stores.changed_sinks import continue_in_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relaybox.routes import Routes, Sink, Store
    from relaybox.stores.sessions import StoreSession

SECTION = "docs/consuming.md, When a topic moves to another stream"


@dataclass(frozen=True)
class OrphanedSubscription:
    """An open subscription that no route of the file fills any more.

    Attributes:
        topic: None: all of the stream.
        names_stream: a stream of the store has the name of the topic: a subscription to it would be one to that stream.
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
        settings: what its subscribe() was given beside source and start, as SQL; empty: the defaults.
        stream_is_filled: a route of the file has the stream, without the topic.
        elsewhere: streams of the store by which the file brings the topic, or a topic of the stream; with these topics.
        kept_in: those of them that have the subscription already that keeps their messages (keeper()).
        sink: of the file, in this store, with this subscription; None: an application reads it.
    """

    store: str
    subscription: str
    stream: str
    topic: str | None
    names_stream: bool
    waiting_count: int
    settings: str
    stream_is_filled: bool
    elsewhere: dict[str, tuple[str, ...]]
    kept_in: tuple[str, ...]
    sink: Sink | None

    @property
    def what(self) -> str:
        """What is wrong, with numbers."""
        source = f"topic {self.topic} of stream {self.stream}" if self.topic else f"stream {self.stream}"
        if self.elsewhere:
            now = " and ".join(
                f"{_topics(topics)} to store {self.store} in stream {name}" for name, topics in self.elsewhere.items()
            )
            why = f"relaybox.yaml brings {now}"
        elif self.stream_is_filled:
            why = f"no route of relaybox.yaml brings topic {self.topic} to store {self.store}"
        else:
            why = f"no route of relaybox.yaml fills stream {self.stream} in store {self.store}"
        return (
            f"Subscription {self.subscription} reads {source} and gets no new message: {why}. "
            f"It is {amount(self.waiting_count, 'stream position')} of {self.stream} behind."
        )

    @property
    def next_step(self) -> str:
        """How it goes on in the other stream. Its own stream comes first: its last messages may be in no other one."""
        end = f"select relaybox.unsubscribe('{self.subscription}', 'REASON');"
        if not self.elsewhere:
            return f"Give it a route again. Or, when it is 0 behind: {end}"
        missing = " ".join(self._keep(stream) for stream in self.elsewhere if stream not in self.kept_in)
        first = f"Before retention drops what no subscription keeps, in store {self.store}, run: {missing} " if missing else ""
        return f"{first}{self._go_on(end)}"

    def _go_on(self, end: str) -> str:
        if self.sink is not None:
            stream = next(iter(self.elsewhere))
            kept_by = keeper(stream, self.subscription)
            return f"Then: {continue_in_stream(self.sink, former=self.stream, stream=stream, keeper=kept_by)}."
        names = " and ".join(keeper(stream, self.subscription) for stream in self.elsewhere)
        return (
            f"Stream positions of {self.stream} mean nothing in another stream. When {self.subscription} is 0 behind, let its workers read "
            f"{names}, and run: {end} {names} gets what {self.stream} delivered and the outbox still had again, with its message_id. "
            f"To repeat less, and to keep the name: {SECTION}."
        )

    def _keep(self, stream: str) -> str:
        name = keeper(stream, self.subscription)
        source = stream if self.topic is None or self.names_stream else self.topic
        return f"select relaybox.subscribe('{name}', '{source}', 'earliest'{self.settings});"


def keeper(stream: str, subscription: str) -> str:
    """The name of the subscription that keeps the messages of another stream, until a subscription goes on there."""
    return f"{stream}.{subscription}"[:60]


class _Open(NamedTuple):
    subscription: str
    stream: str
    topic: str | None
    names_stream: bool
    waiting_count: int
    settings: str
    topics: list[str]
    requested: list[str]


_OPEN = """
select s.subscription, s.stream, s.topic, exists (select from relaybox_internal.stream m where m.stream = s.topic) as names_stream,
    s.stream_positions_behind as waiting_count,
    coalesce((
        select string_agg(', ' || d.name || ' => ' || d.given, '' order by d.number)
        from (values
            (1, 'lanes', s.lanes::text, '1'), (2, 'lane_by', quote_literal(s.lane_by), '''sender'''),
            (3, 'nack_limit', s.nack_limit::text, '5'), (4, 'crash_limit', s.crash_limit::text, '5'),
            (5, 'hold_sender', s.hold_sender::text, 'false'), (6, 'retry_seconds', s.retry_seconds::text, '0'),
            (7, 'lease_seconds', s.lease_seconds::text, '60'), (8, 'delayed', quote_literal(s.delayed), '''hold''')
        ) d (number, name, given, usual)
        where d.given <> d.usual
    ), '') as settings,
    k.topics, k.requested
from relaybox.subscriptions s
cross join lateral (
    select coalesce(array_agg(t.topic), '{}') as topics,
        coalesce(array_agg(t.topic) filter (where t.carried_by = 'subscription'), '{}') as requested
    from relaybox_internal.stream m join relaybox_internal.known_topics t on t.stream_id = m.stream_id
    where m.stream = s.stream
) k
where s.replay_of is null
order by s.subscription
"""


def list_orphaned_subscriptions(session: StoreSession, store: Store, routes: Routes) -> list[OrphanedSubscription]:
    """The open subscriptions of a store that no route of the file fills any more, by name.

    Reads no message. Runs in the session's transaction.
    """
    return list(_orphaned(session.rows(_Open, _OPEN), store, routes))


def _orphaned(subscriptions: list[_Open], store: Store, routes: Routes) -> Iterator[OrphanedSubscription]:
    carried: dict[str, set[str]] = {}
    for hop in routes.hops:
        if hop.destination == store:
            carried.setdefault(hop.stream, set()).update(hop.topics)
    open_streams = {hop.stream for hop in routes.hops if hop.destination == store and hop.topics_by_subscription}
    sinks = {sink.subscription: sink for sink in routes.sinks if sink.store == store}
    names = {one.subscription for one in subscriptions}
    for one in subscriptions:
        topics = carried.get(one.stream)
        if topics is not None:
            if one.topic is None or one.topic in topics:
                continue
            if one.stream in open_streams and one.topic in one.requested:
                continue
        wanted = set(one.topics) if one.topic is None else {one.topic}
        elsewhere = {
            name: tuple(sorted(has & wanted)) for name, has in sorted(carried.items()) if name != one.stream and has & wanted
        }
        yield OrphanedSubscription(
            store=store.name,
            subscription=one.subscription,
            stream=one.stream,
            topic=one.topic,
            names_stream=one.names_stream,
            waiting_count=one.waiting_count,
            settings=one.settings,
            stream_is_filled=topics is not None,
            elsewhere=elsewhere,
            kept_in=tuple(stream for stream in elsewhere if keeper(stream, one.subscription) in names),
            sink=sinks.get(one.subscription),
        )


def describe_orphaned(session: StoreSession, store: Store, routes: Routes) -> list[str]:
    """For each of them: what is wrong, and what to do. Runs in the session's transaction."""
    return [f"{one.what} {one.next_step}" for one in list_orphaned_subscriptions(session, store, routes)]


def _topics(topics: tuple[str, ...]) -> str:
    return f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
