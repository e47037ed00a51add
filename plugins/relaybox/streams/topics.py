"""Topics that exist by their first subscription: they travel up a route, from the store of the consumer to the outbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.log_events import emit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession


def carry_topics(source: StoreSession, destination: StoreSession, hop: Hop) -> None:
    """Tells the source which topics were subscribed to at the destination. Commits; idempotent; nothing to do for most routes.

    Called by every transfer and confirmation of the hop, and by the look at a store's hops.
    """
    if not hop.topics_by_subscription:
        return
    destination = destination.doing(f"asking for the topics of hop {hop.name}")
    wanted = destination.call("relaybox_internal.topics_wanted", hop.name)
    destination.rollback()
    source = source.doing(f"adding topics to hop {hop.name}")
    added = source.call("relaybox_internal.add_topics", hop.name, wanted)
    source.reach("topics.added")
    source.commit("topics")
    if added:
        emit("topics_carried", hop=hop.name, added=added)


@dataclass(frozen=True)
class UnknownTopics:
    """Topics that relaybox.yaml gives a hop and that its source does not move yet.

    Attributes:
        error: what commands and metrics say of it.
        message_count: the messages of these topics that the hop has not moved, among the newest of the outbox.
        first_sent_at: of these; None: there are none.
    """

    topics: tuple[str, ...]
    error: errors.UnknownTopic
    message_count: int
    first_sent_at: datetime | None


def find_unknown_topics(source: StoreSession, hop: Hop) -> errors.UnknownTopic | None:
    """The error of a hop whose file has topics that the source does not move yet; None while there are none. One look at one row.

    Ends the transaction of the session.
    """
    topics = _read_unknown_topics(source, [hop]).get(hop.name)
    return _unknown_topic_error(hop, topics) if topics else None


class _Unmoved(NamedTuple):
    message_count: int
    first_sent_at: datetime | None


def count_unknown_topics(source: StoreSession, hops: Sequence[Hop], *, newest: int) -> dict[str, UnknownTopics]:
    """The same of all hops that have such topics, and how much waits: of these hops it reads this many of the outbox's newest seqs.

    Ends the transaction of the session.
    """
    unknown = _read_unknown_topics(source, hops)
    return {hop.name: _count_unmoved(source, hop, unknown[hop.name], newest) for hop in hops if hop.name in unknown}


def _count_unmoved(source: StoreSession, hop: Hop, topics: list[str], newest: int) -> UnknownTopics:
    source = source.doing(f"counting what hop {hop.name} does not move")
    unmoved = source.row(_Unmoved, _COUNT_UNMOVED, {"hop": hop.name, "topics": topics, "newest": newest})
    source.rollback()
    return UnknownTopics(tuple(topics), _unknown_topic_error(hop, topics), unmoved.message_count, unmoved.first_sent_at)


class _UnknownTopicsOfHop(NamedTuple):
    hop: str
    topics: list[str]


def _read_unknown_topics(source: StoreSession, hops: Sequence[Hop]) -> dict[str, list[str]]:
    """Of these hops, those with topics that their source does not move."""
    source = source.doing(
        f"asking for the topics of hop {hops[0].name}" if len(hops) == 1 else "asking for the topics of its hops"
    )
    pairs = [(hop.name, topic) for hop in hops for topic in hop.topics]
    unknown = source.rows(
        _UnknownTopicsOfHop,
        """
        select h.hop, array_agg(distinct w.topic order by w.topic) as topics
        from unnest(%s::text[], %s::text[]) w (hop, topic)
        join relaybox_internal.hop_out h on h.hop = w.hop and h.reads_log is null and w.topic <> all(h.topics)
        group by h.hop
        """,
        *([name for name, _ in pairs], [topic for _, topic in pairs]),
    )
    source.rollback()
    return dict(unknown)


def _unknown_topic_error(hop: Hop, topics: list[str]) -> errors.UnknownTopic:
    named = f"topic {topics[0]}" if len(topics) == 1 else f"topics {', '.join(topics)}"
    return errors.UnknownTopic(
        f"hop {hop.name}: relaybox.yaml gives it {named}, which store {hop.source.name} does not move yet: what is sent there waits.",
        next_step="Run: relaybox init",
    )


# A topic that comes back has messages that the hop had moved, or given up, before it left.
_COUNT_UNMOVED = """
    with looked_at as materialized (
        select greatest(q.last_value - %(newest)s, 0) as after_seq, q.last_value as through_seq from relaybox.outbox_seq q
    ),
    done as materialized (
        select a.seq from looked_at l cross join lateral relaybox_internal.accounted_seqs(array[%(hop)s], l.after_seq, l.through_seq) a
        where a.state in ('delivered', 'planned', 'retired')
    )
    select count(*) as message_count, min(o.sent_at) as first_sent_at
    from looked_at l
    join relaybox_internal.sent_rows o on o.seq > l.after_seq and o.seq <= l.through_seq
    where o.topic = any(%(topics)s) and not exists (select from done d where d.seq = o.seq)
"""
