"""Finds the ids of messages by sender and index: in the first log of a route, and among what waits for it. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Route, Store
    from relaybox.stores.sessions.store_session import StoreSession

NEWEST_SEQS = 1_000_000
"""A message that has not arrived at the first log is looked for among this many of the outbox's newest messages."""

MOST_FOUND = 20

# A sender without indexes of its own has the position as index; where the others' indexes are, their stream has noted.
_RANGES = """
    select i.log_id, p.first_position, least(p.last_position, i.published_position) as last_position
    from relaybox_internal.hop_in i
    cross join lateral (
        select %(index)s::bigint as first_position, %(index)s::bigint as last_position
        union
        select s.range_first_position, s.range_last_position
        from relaybox_internal.stream_log g join relaybox_internal.sender_state s on s.stream_id = g.stream_id
        where g.log_id = i.log_id and s.sender = %(sender)s and s.range_first_index <= %(index)s and s.range_last_index >= %(index)s
        union
        select r.first_position, r.last_position
        from relaybox_internal.stream_log g
        join relaybox_internal.sender_state s on s.stream_id = g.stream_id
        join relaybox_internal.index_range r on r.sender_id = s.sender_id
        where g.log_id = i.log_id and s.sender = %(sender)s and r.first_index <= %(index)s and r.last_index >= %(index)s
    ) p
    where i.hop = %(hop)s
    order by p.first_position
"""

# Positions and seqs are literals of the next two, so that the planner leaves out other segments.
_IN_LOG = """
    select l.message_id
    from relaybox_internal.log l
    where l.log_id = %(log_id)s and l.log_position >= %(first_position)s and l.log_position <= %(last_position)s
        and l.sender = %(sender)s and l.index = %(index)s
    order by l.log_position
    limit %(limit)s
"""

_IN_OUTBOX = """
    select o.message_id
    from relaybox_internal.sent_rows o
    where o.seq > %(after_seq)s and o.sender = %(sender)s and o.index = %(index)s
    order by o.seq
    limit %(limit)s
"""


class _Range(NamedTuple):
    """Positions of a log, both ends included."""

    log_id: int
    first_position: int
    last_position: int


def find_messages(routes: Sequence[Route], sender: str, index: int) -> tuple[UUID, ...]:
    """The messages with this index of this sender, in any epoch; none, one, or several if a producer repeated an index.

    Raises:
        StoreUnreachable, StoreUnusable, StoreNotInitialised: a first store of the routes, or the one after it, can't be asked.
    """
    asked: dict[str, object] = {"sender": sender, "index": index, "limit": MOST_FOUND}
    found: list[object] = []
    for route in routes:
        first = route.hops[0]
        with _session(first.destination) as session:
            for searched in session.rows(_Range, _RANGES, {**asked, "hop": first.name}):
                found += session.values(_IN_LOG, {**asked, **searched._asdict()})
        with _session(first.source) as session:
            after_seq = session.value("select q.last_value from relaybox.outbox_seq q") - NEWEST_SEQS
            found += session.values(_IN_OUTBOX, {**asked, "after_seq": after_seq})
    return tuple(UUID(message_id) for message_id in dict.fromkeys(map(str, found)))[:MOST_FOUND]


def require_messages(routes: Sequence[Route], sender: str, index: int) -> tuple[UUID, ...]:
    """As find_messages, but none is an UnknownMessage."""
    if found := find_messages(routes, sender, index):
        return found
    raise errors.UnknownMessage(
        f"no message of sender {sender} with index {index} is in the first log of a route, nor among the newest of an outbox.",
        next_step="A sender without indexes of its own has the position in the first log as index.",
    )


def _session(store: Store) -> AbstractContextManager[StoreSession]:
    return store_session(store, "looking for a message by its index", application_name="relaybox where")
