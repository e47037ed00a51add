"""Before a hop gives up messages as ghosts: that none of them is still on its way to the log that the hop reads.

A message that a destination has and its source has not may be at a store further up, which will send it again. Adopted as a
ghost now, it would be delivered a second time then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.hops.continuity import find_gap, lost_batches, published_end
from relaybox.hops.publishing import ask_destination
from relaybox.stores.opening import opened_store

if TYPE_CHECKING:
    from relaybox.hops.planning import DestinationState
    from relaybox.routes import Hop, Routes
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class UnfoundMessages:
    """Messages that a hop delivered and its source has not."""

    message_ids: Sequence[str]
    sent_at: Sequence[datetime]


def require_nothing_to_come(hop: Hop, routes: Routes, unfound: UnfoundMessages) -> None:
    """Asks the stores further up, the origin first: messages move towards the hop, so none is passed over in between.

    Raises:
        HistoryLost: a hop further up has to be repaired, or run, first.
        StoreBusy: a prepared transaction at the origin may still commit some of these messages.
    """
    for upstream in _hops_before(hop, routes):
        with (
            opened_store(upstream.source, application_name=f"relaybox {hop.name} reanchor") as opened,
            opened_store(upstream.destination, application_name=f"relaybox {hop.name} reanchor") as destination,
        ):
            received = _received_batch(opened, upstream)
            arrived = ask_destination(destination, upstream)
            source = opened.doing(f"asking whether hop {upstream.name} goes on")
            _require_one_history(hop, upstream, source, arrived, received)
            to_come = _to_come(source, upstream, arrived, unfound)
            source.rollback()
        if to_come:
            raise errors.HistoryLost(
                f"hop {hop.name}: of the {len(unfound.message_ids)} messages that {hop.destination.name} has and {hop.source.name} has "
                f"not, {to_come} are still to come from {upstream.source.name}. Adopted now, they would be delivered twice.",
                next_step=f"First bring the hop before it up to date: relaybox transfer {upstream.name}. Then repeat this.",
            )


def _hops_before(hop: Hop, routes: Routes) -> Sequence[Hop]:
    return [other for other in routes.route(hop.route).hops if other.number < hop.number]


def _received_batch(source: StoreSession, hop: Hop) -> int:
    source = source.doing(f"reading the confirmations of hop {hop.name}")
    received = source.value(
        "select coalesce((select c.through_batch from relaybox_internal.newest_confirmation(%s, 'received') c), 0)", hop.name
    )
    source.rollback()
    return int(received)


def _require_one_history(hop: Hop, upstream: Hop, source: StoreSession, arrived: DestinationState, received: int) -> None:
    gap = find_gap(source, upstream, published_end(arrived))
    if gap is None and arrived.batch < received:
        gap = lost_batches(upstream, received, arrived.batch)
    if gap is not None:
        raise errors.HistoryLost(
            f"hop {hop.name}: {hop.destination.name} has messages that {hop.source.name} has not, and they may still come: "
            f"hop {upstream.name} before it stopped as well: {gap.what}.",
            next_step=(
                f"First bring the hop before it up to date: relaybox reanchor {upstream.name}, then relaybox transfer {upstream.name}. "
                f"Then repeat this."
            ),
        )


def _to_come(source: StoreSession, hop: Hop, arrived: DestinationState, unfound: UnfoundMessages) -> int:
    """How many of the messages the source of a hop has, that have not arrived at its destination."""
    if hop.upstream is None:
        _require_nothing_prepared(source, hop)
    message_count = source.value(
        _IN_OUTBOX if hop.upstream is None else _IN_LOG,
        {"hop": hop.name, "batch": arrived.batch, "ids": list(unfound.message_ids), "sent_at": list(unfound.sent_at)},
    )
    return int(message_count)


class _Prepared(NamedTuple):
    gid: str
    prepared: datetime


def _require_nothing_prepared(source: StoreSession, hop: Hop) -> None:
    prepared = source.row_if_any(_Prepared, _PREPARED)
    if prepared is not None:
        raise errors.StoreBusy(
            f"store {hop.source.name}: prepared transaction {prepared.gid} has sent messages since {prepared.prepared} and is not "
            f"ended. What it commits may have been delivered before the restore.",
            next_step="Commit or roll it back (commit prepared, rollback prepared), then repeat this.",
        )


_PREPARED = """
    select p.gid, p.prepared
    from pg_prepared_xacts p
    where p.database = current_database() and exists (
        select from pg_locks t
        join pg_locks l on l.virtualtransaction = t.virtualtransaction and l.pid is null and l.locktype = 'relation'
        where t.pid is null and t.locktype = 'transactionid' and t.transactionid = p.transaction
            and l.relation in (
                select 'relaybox.outbox'::regclass::oid
                union all select i.inhrelid from pg_inherits i where i.inhparent = 'relaybox.outbox'::regclass
            )
    )
    order by p.prepared limit 1
"""

# every message of the hop's topics that is here has arrived, and would have been found, or is still to come
_IN_OUTBOX = """
    select count(*) as message_count
    from relaybox_internal.hop_out h
    cross join unnest(%(ids)s::uuid[], %(sent_at)s::timestamptz[]) u (message_id, sent_at)
    join relaybox_internal.sent_rows o on o.message_id = u.message_id and o.sent_at = u.sent_at
    where h.hop = %(hop)s and o.topic = any(h.topics)
"""

_IN_LOG = """
    select count(*) as message_count
    from relaybox_internal.hop_out h
    cross join lateral (
        select coalesce(
            (select b.reads_through from relaybox_internal.batch b where b.hop = h.hop and b.batch = %(batch)s), h.compacted_read
        ) as read_through
    ) arrived
    join relaybox_internal.log l on l.log_id = h.reads_log and l.log_position > arrived.read_through and not h.read_ahead @> l.log_position
    join unnest(%(ids)s::uuid[], %(sent_at)s::timestamptz[]) u (message_id, sent_at) using (message_id, sent_at)
    where h.hop = %(hop)s
"""
