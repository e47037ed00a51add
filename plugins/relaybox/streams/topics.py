"""Topics that exist by their first subscription: they travel up a route, from the store of the consumer to the outbox."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.events import emit
from relaybox.failpoints import reach
from relaybox.stores.connections import commit, one_row, store_errors
from relaybox.stores.schema import open_store

if TYPE_CHECKING:
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


def find_unknown_topics(connection: Connection, hop: Hop) -> errors.UnknownTopic | None:
    """The error of a hop whose file has topics that the source does not move yet; None while there are none. One look at one row.

    Ends the transaction of the connection.
    """
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
    if not unknown:
        return None
    named = f"topic {unknown[0]}" if len(unknown) == 1 else f"topics {', '.join(unknown)}"
    return errors.UnknownTopic(
        f"hop {hop.name}: relaybox.yaml gives it {named}, which store {hop.source.name} does not move yet: what is sent there waits.",
        next_step="Run: relaybox init",
    )


def carry_topics_of(hop: Hop) -> None:
    """The same, in sessions of its own."""
    name = f"relaybox {hop.name} topics"
    with (
        closing(open_store(hop.source, application_name=name)) as source,
        closing(open_store(hop.destination, application_name=name)) as destination,
    ):
        carry_topics(source, destination, hop)
