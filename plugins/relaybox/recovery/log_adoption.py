"""What a hop that reads a log had delivered under a ledger that its source lost: found in the log again, message by message.

After a restore the same position may hold another message at each of the two stores, and the same message may stand at two
positions. What the destination has stays where it is; what else the log holds is sent to new positions after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.recovery.upstream import UnfoundMessages, require_nothing_to_come

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Hop, Routes
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class SearchedLog:
    """How far the log was read with the last common batch and searched, and what the destination has between (match_adopted.sql)."""

    read_through: int
    searched_through: int
    read_ahead: str


class _Ghosts(NamedTuple):
    """Messages of which nothing was found; None instead of empty lists."""

    message_ids: list[str] | None
    sent_at: list[datetime] | None


def match_log(source: StoreSession, hop: Hop, routes: Routes, common: int) -> SearchedLog:
    """Finds what was delivered (temporary table relaybox_adopted) in the log that the hop reads, wherever it stands there.

    Raises:
        HistoryLost: some of what is not there may still come from a store further up; or retention has dropped a part of the log.
        StoreBusy: some of it arrived while it was looked for; or a prepared transaction at the origin may still commit it.
    """
    searched = source.row(SearchedLog, "select * from relaybox_internal.match_adopted(%s, %s)", hop.name, common)
    ghosts = source.row(
        _Ghosts,
        "select array_agg(message_id::text) as message_ids, array_agg(sent_at) as sent_at from relaybox_adopted where is_ghost",
    )
    if ghosts.message_ids and ghosts.sent_at:
        require_nothing_to_come(hop, routes, UnfoundMessages(ghosts.message_ids, ghosts.sent_at))
        _require_not_arrived_meanwhile(source, hop, searched)
    return searched


def _require_not_arrived_meanwhile(source: StoreSession, hop: Hop, searched: SearchedLog) -> None:
    """What came into the log since it was searched is asked last: nothing passes between the questions."""
    message_count = source.value(
        """
        select count(*)
        from relaybox_internal.hop_out h
        join relaybox_internal.log l on l.log_id = h.reads_log and l.log_position > %s
        join relaybox_adopted a on a.message_id = l.message_id and a.sent_at = l.sent_at and a.is_ghost
        where h.hop = %s
        """,
        *(searched.searched_through, hop.name),
    )
    if message_count:
        raise errors.StoreBusy(
            f"hop {hop.name}: {message_count} messages that it had delivered arrived at {hop.source.name} again at this moment.",
            next_step="Repeat this.",
        )


def adopt_reads(source: StoreSession, hop: Hop, common: int, searched: SearchedLog) -> int:
    """Writes down which positions of the log the adopted batches have; returns how many messages of it are still to be sent."""
    unread_count = source.call(
        "relaybox_internal.adopt_reads", hop.name, common, searched.read_through, searched.searched_through, searched.read_ahead
    )
    return int(unread_count)
