"""Topics that exist by their first subscription: they travel up a route, from the store of the consumer to the outbox."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.events import emit
from relaybox.failpoints import reach
from relaybox.stores.connections import commit, one_row, store_errors
from relaybox.stores.schema import open_store

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Hop


def carry_topics(source: Connection, destination: Connection, hop: Hop) -> None:
    """Tells the source which topics were subscribed to at the destination. Commits; idempotent; nothing to do for most routes.

    Called by every transfer and confirmation of the hop, and by the look at a store's hops.
    """
    if not hop.topics_by_subscription:
        return
    with store_errors(hop.destination.name, f"asking for the topics of hop {hop.name}"), destination.cursor() as cursor:
        cursor.execute("select relaybox.topics_wanted(%s)", (hop.name,))
        (wanted,) = one_row(cursor)
        destination.rollback()
    with store_errors(hop.source.name, f"adding topics to hop {hop.name}"), source.cursor() as cursor:
        cursor.execute("select relaybox.add_topics(%s, %s)", (hop.name, wanted))
        (added,) = one_row(cursor)
        reach("topics.added", source)
        commit(source, "topics")
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


def find_unknown_topics(connection: Connection, hop: Hop) -> errors.UnknownTopic | None:
    """The error of a hop whose file has topics that the source does not move yet; None while there are none. One look at one row.

    Ends the transaction of the connection.
    """
    topics = _read_unknown_topics(connection, hop)
    return _unknown_topic_error(hop, topics) if topics else None


def count_unknown_topics(connection: Connection, hop: Hop, *, newest: int) -> UnknownTopics | None:
    """The same, and how much waits: reads so many of the outbox's newest seqs, but only while there are such topics.

    Ends the transaction of the connection.
    """
    topics = _read_unknown_topics(connection, hop)
    if not topics:
        return None
    with store_errors(hop.source.name, f"counting what hop {hop.name} does not move"), connection.cursor() as cursor:
        cursor.execute(_COUNT_UNMOVED, {"hop": hop.name, "topics": topics, "newest": newest})
        message_count, first_sent_at = one_row(cursor)
        connection.rollback()
    return UnknownTopics(tuple(topics), _unknown_topic_error(hop, topics), message_count, first_sent_at)


def _read_unknown_topics(connection: Connection, hop: Hop) -> list[str]:
    with store_errors(hop.source.name, f"asking for the topics of hop {hop.name}"), connection.cursor() as cursor:
        cursor.execute(
            """
            select array(select unnest(%s) except select unnest(h.topics) order by 1)
            from relaybox.hop_out h where h.hop = %s and h.reads_log is null
            """,
            (list(hop.topics), hop.name),
        )
        unknown = [topic for (topics,) in cursor.fetchall() for topic in topics]
        connection.rollback()
    return unknown


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
        select a.seq from looked_at l cross join lateral relaybox.accounted_seqs(%(hop)s, l.after_seq, l.through_seq) a
        where a.state in ('delivered', 'planned', 'retired')
    )
    select count(*), min(o.sent_at)
    from looked_at l
    join relaybox.outbox o on o.seq > l.after_seq and o.seq <= l.through_seq
    where o.topic = any(%(topics)s) and not exists (select from done d where d.seq = o.seq)
"""


def carry_topics_of(hop: Hop) -> None:
    """The same, in sessions of its own."""
    name = f"relaybox {hop.name} topics"
    with (
        closing(open_store(hop.source, application_name=name)) as source,
        closing(open_store(hop.destination, application_name=name)) as destination,
    ):
        carry_topics(source, destination, hop)
