"""What routes of relaybox.yaml bring to a store, beside what its open subscriptions read. Reads no message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


class OpenSubscription(NamedTuple):
    """An open subscription, but no second cursor.

    Attributes:
        topic: None: all of the stream.
        is_ambiguous: subscribe() with this topic takes a stream of the same name, or is refused, since several streams carry it.
    """

    subscription_id: int
    subscription: str
    stream: str
    topic: str | None
    is_ambiguous: bool


class KnownTopic(NamedTuple):
    """A topic that a stream carries, or carried.

    Attributes:
        is_requested: consumers asked for it.
        left_after: the newest subscription of the store when an init took the topic from the stream for the last time; None: it did not.
    """

    stream: str
    topic: str
    is_requested: bool
    left_after: int | None


class SubscriptionSettings(NamedTuple):
    """Of an open subscription.

    Attributes:
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
        settings: what its subscribe() was given beside source and start, as SQL; empty: the defaults.
    """

    subscription: str
    waiting_count: int
    settings: str


@dataclass(frozen=True)
class CarriedTopics:
    """What routes of the file bring to a store.

    Attributes:
        by_stream: topics.
        open_streams: those that bring what consumers ask for too.
    """

    by_stream: dict[str, set[str]]
    open_streams: frozenset[str]

    @classmethod
    def of(cls, store: Store, routes: Routes) -> CarriedTopics:
        by_stream: dict[str, set[str]] = {}
        hops = [hop for hop in routes.hops if hop.destination == store]
        for hop in hops:
            by_stream.setdefault(hop.stream, set()).update(hop.topics)
        return cls(by_stream, frozenset(hop.stream for hop in hops if hop.topics_by_subscription))

    def brings(self, stream: str, topic: str, known: Sequence[KnownTopic]) -> bool:
        """Whether a route brings the topic in this stream. `known`: topics of the stream."""
        if topic in self.by_stream.get(stream, ()):
            return True
        return stream in self.open_streams and any(one.is_requested for one in known if one.topic == topic)

    def find_elsewhere(self, stream: str, topics: set[str]) -> dict[str, tuple[str, ...]]:
        """The other streams that bring some of these topics, with these topics."""
        return {
            name: tuple(sorted(has & topics)) for name, has in sorted(self.by_stream.items()) if name != stream and has & topics
        }


_OPEN = """
select n.subscription_id, n.subscription, s.stream, n.topic,
    exists (select from relaybox_internal.stream m where m.stream = n.topic)
    or 1 < (select count(*) from relaybox_internal.known_topics k where k.topic = n.topic and k.carried_by <> 'nobody') as is_ambiguous
from relaybox_internal.subscription n join relaybox_internal.stream s on s.stream_id = n.stream_id
where n.ended_at is null and n.replay_of is null
order by n.subscription
"""
_KNOWN = """
select s.stream, k.topic, k.carried_by = 'subscription' as is_requested,
    (to_jsonb(t) ->> 'left_after_subscription')::integer as left_after -- a store of an earlier version has no such column
from relaybox_internal.known_topics k
join relaybox_internal.stream s on s.stream_id = k.stream_id
left join relaybox_internal.stream_topic t on t.stream_id = k.stream_id and t.topic = k.topic
where s.stream = any(%s)
order by s.stream, k.topic
"""
_SETTINGS = """
select s.subscription, s.stream_positions_behind as waiting_count,
    coalesce((
        select string_agg(', ' || d.name || ' => ' || d.given, '' order by d.number)
        from (values
            (1, 'lanes', s.lanes::text, '1'), (2, 'lane_by', quote_literal(s.lane_by), '''sender'''),
            (3, 'nack_limit', s.nack_limit::text, '5'), (4, 'crash_limit', s.crash_limit::text, '5'),
            (5, 'hold_sender', s.hold_sender::text, 'false'), (6, 'retry_seconds', s.retry_seconds::text, '0'),
            (7, 'lease_seconds', s.lease_seconds::text, '60'), (8, 'delayed', quote_literal(s.delayed), '''hold''')
        ) d (number, name, given, usual)
        where d.given <> d.usual
    ), '') as settings
from relaybox.subscriptions s where s.subscription = any(%s)
"""


def list_open_subscriptions(session: StoreSession) -> list[OpenSubscription]:
    """The open subscriptions of a store but for second cursors, by name. In the session's transaction."""
    return session.rows(OpenSubscription, _OPEN)


def read_known_topics(session: StoreSession, subscriptions: Sequence[OpenSubscription]) -> dict[str, list[KnownTopic]]:
    """The topics that the streams of these subscriptions carry or carried, by stream. In the session's transaction."""
    found: dict[str, list[KnownTopic]] = {one.stream: [] for one in subscriptions}
    if found:
        for topic in session.rows(KnownTopic, _KNOWN, list(found)):
            found[topic.stream].append(topic)
    return found


def read_settings(session: StoreSession, subscriptions: Sequence[OpenSubscription]) -> dict[str, SubscriptionSettings]:
    """Of these subscriptions, by name; one that was ended meanwhile is missing. In the session's transaction."""
    if not subscriptions:
        return {}
    names = [one.subscription for one in subscriptions]
    return {one.subscription: one for one in session.rows(SubscriptionSettings, _SETTINGS, names)}


def keeper(source: str, subscription: str) -> str:
    """The name of the subscription that keeps the messages of another stream, or of a topic, until a subscription goes on with them."""
    return f"{source}.{subscription}"[:60]


def show_topics(topics: tuple[str, ...]) -> str:
    """As in a sentence."""
    return f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
