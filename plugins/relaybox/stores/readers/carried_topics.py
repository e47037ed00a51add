"""What routes of relaybox.yaml bring to a store, beside what its open subscriptions read. Reads no message."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.amounts import amount

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


LONGEST_NAME = 60
"""Of a subscription."""


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
        is_ambiguous: as of OpenSubscription.
    """

    stream: str
    topic: str
    is_requested: bool
    left_after: int | None
    is_ambiguous: bool


class SubscriptionSettings(NamedTuple):
    """Of an open subscription.

    Attributes:
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
        delayed_count: messages that were passed and are not due: they end with the subscription.
        dead_letter_count: that are open: redrive refuses them once the subscription has ended.
        settings: what its subscribe() was given beside source and start, as SQL; empty: the defaults.
    """

    subscription: str
    waiting_count: int
    delayed_count: int
    dead_letter_count: int
    settings: str

    @property
    def left(self) -> str:
        """What it has beside the messages that wait, as the end of a sentence; empty: nothing."""
        delayed = self.delayed_count and f"{amount(self.delayed_count, 'message')} that it passed as not due"
        letters = self.dead_letter_count and amount(self.dead_letter_count, "open dead letter")
        return " and ".join(one for one in (delayed, letters) if one)


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


_IS_AMBIGUOUS = """
    exists (select from relaybox_internal.stream m where m.stream = {0}.topic)
    or 1 < (select count(*) from relaybox_internal.known_topics o where o.topic = {0}.topic and o.carried_by <> 'nobody') as is_ambiguous
"""
_OPEN = """
select n.subscription_id, n.subscription, s.stream, n.topic, {}
from relaybox_internal.subscription n join relaybox_internal.stream s on s.stream_id = n.stream_id
where n.ended_at is null and n.replay_of is null
order by n.subscription
"""
_KNOWN = """
select s.stream, k.topic, k.carried_by = 'subscription' as is_requested,
    (to_jsonb(t) ->> 'left_after_subscription')::integer as left_after, -- a store of an earlier version has no such column
    {}
from relaybox_internal.known_topics k
join relaybox_internal.stream s on s.stream_id = k.stream_id
left join relaybox_internal.stream_topic t on t.stream_id = k.stream_id and t.topic = k.topic
where s.stream = any(%s)
order by s.stream, k.topic
"""
SETTINGS = """
    coalesce((
        select string_agg(', ' || d.name || ' => ' || d.given, '' order by d.number)
        from (values
            (1, 'lanes', {0}.lanes::text, '1'), (2, 'lane_by', quote_literal({0}.lane_by), '''sender'''),
            (3, 'nack_limit', {0}.nack_limit::text, '5'), (4, 'crash_limit', {0}.crash_limit::text, '5'),
            (5, 'hold_sender', {0}.hold_sender::text, 'false'), (6, 'retry_seconds', {0}.retry_seconds::text, '0'),
            (7, 'lease_seconds', {0}.lease_seconds::text, '60'), (8, 'delayed', quote_literal({0}.delayed), '''hold''')
        ) d (number, name, given, usual)
        where d.given <> d.usual
    ), '') as settings
"""
"""What the subscribe() of a row of subscriptions was given beside source and start, as SQL; empty: the defaults."""
_SETTINGS = """
select s.subscription, s.stream_positions_behind as waiting_count, s.delayed_messages as delayed_count,
    s.dead_letters as dead_letter_count, {}
from relaybox.subscriptions s where s.subscription = any(%s)
"""


def list_open_subscriptions(session: StoreSession) -> list[OpenSubscription]:
    """The open subscriptions of a store but for second cursors, by name. In the session's transaction."""
    return session.rows(OpenSubscription, _OPEN.format(_IS_AMBIGUOUS.format("n")))


def read_known_topics(session: StoreSession, subscriptions: Sequence[OpenSubscription]) -> dict[str, list[KnownTopic]]:
    """The topics that the streams of these subscriptions carry or carried, by stream. In the session's transaction."""
    found: dict[str, list[KnownTopic]] = {one.stream: [] for one in subscriptions}
    if found:
        for topic in session.rows(KnownTopic, _KNOWN.format(_IS_AMBIGUOUS.format("k")), list(found)):
            found[topic.stream].append(topic)
    return found


def read_settings(session: StoreSession, subscriptions: Sequence[OpenSubscription]) -> dict[str, SubscriptionSettings]:
    """Of these subscriptions, by name; one that was ended meanwhile is missing. In the session's transaction."""
    if not subscriptions:
        return {}
    names = [one.subscription for one in subscriptions]
    return {one.subscription: one for one in session.rows(SubscriptionSettings, _SETTINGS.format(SETTINGS.format("s")), names)}


class MadeSubscription(NamedTuple):
    """A subscription with the name of a keeper, open or ended."""

    subscription_id: int
    subscription: str
    stream: str
    topic: str | None
    is_open: bool


class Keeper(NamedTuple):
    """The subscription that keeps the messages of another stream, or of a topic, until a subscription goes on with them."""

    name: str
    is_made: bool


_MADE = """
select n.subscription_id, n.subscription, s.stream, n.topic, n.ended_at is null as is_open
from relaybox_internal.subscription n join relaybox_internal.stream s on s.stream_id = n.stream_id
where n.subscription = any(%s) and n.replay_of is null
"""
_KEEPER_NAMES = 9
"""So many names of keepers are tried: who moves a topic to and fro has one of each time, if none was ended."""


def read_made(session: StoreSession, sources: Iterable[tuple[str, str]]) -> dict[str, list[MadeSubscription]]:
    """The subscriptions with names of keepers, for each stream or topic and its subscription. In the session's transaction."""
    names = [name for source, subscription in sources for name in _keeper_names(source, subscription)]
    found: dict[str, list[MadeSubscription]] = {}
    for made in session.rows(MadeSubscription, _MADE, names) if names else ():
        found.setdefault(made.subscription, []).append(made)
    return found


def choose_keeper(
    source: str,
    subscription: str,
    made: Mapping[str, Sequence[MadeSubscription]],
    keeps: Callable[[MadeSubscription], bool],
) -> Keeper:
    """The one of its names that is made and keeps the messages; else the first that no open subscription has.

    Args:
        source: a stream, or a topic.
        subscription: that goes on there.
        made: by name, from read_made.
        keeps: whether one that was made is for this move: an earlier one, or that of another stream or topic, lacks messages.
    """
    names = _keeper_names(source, subscription)
    if (name := next((name for name in names if any(map(keeps, made.get(name, ())))), None)) is not None:
        return Keeper(name, is_made=True)
    free = (name for name in names if not any(one.is_open for one in made.get(name, ())))
    return Keeper(next(free, names[-1]), is_made=False)


def _keeper_names(source: str, subscription: str) -> list[str]:
    """A hash stands for what is cut of a long name: two subscriptions never share one."""
    return [_cut(f"{source}.{subscription}{number}") for number in ("", *(f".{n}" for n in range(2, _KEEPER_NAMES + 1)))]


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}.{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def show_topics(topics: tuple[str, ...]) -> str:
    """As in a sentence."""
    return f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
