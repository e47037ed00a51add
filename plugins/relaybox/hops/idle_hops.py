"""Hops without messages in a store where others are busy: a driver of another hop records that nothing of theirs was sent.

A poll looks at all that was sent since the hop's newest snapshot. Nobody drives a hop that has nothing to move, so without
this its snapshot would stay, and a poll of it would read all messages that the store has sent since.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.hops.planning import skip_pair_without_messages

if TYPE_CHECKING:
    from relaybox.routes import Hop
    from relaybox.stores.sessions import StoreSession

IDLE_PAIR_TRANSACTIONS = 1_000
"""So far a poll of an idle hop looks back; a wider look back is shortened, and one into segments that were sealed since."""

_MOST_AT_ONCE, _SECONDS_AT_ONCE = 100, 0.5
"""The next driver goes on with the others: the one that wants to move its own messages does not stay long."""

_IDLE_HOPS = """
select h.hop
from (
    select o.hop, o.lower from relaybox_internal.hop_out o
    where o.hop <> %s and o.reads_log is null and o.retired_at is null
        and (
            pg_snapshot_xmax(pg_current_snapshot())::text::numeric - pg_snapshot_xmin(o.lower)::text::numeric > %s
            or relaybox_internal.sealed_through(pg_current_snapshot()) > relaybox_internal.sealed_through(o.lower)
        )
    offset 0
) h
where not relaybox_internal.hop_is_driven(h.hop)
order by pg_snapshot_xmax(h.lower), h.hop -- those first that look back furthest: the others have time
limit %s
"""


def pass_idle_hops(source: StoreSession, hop: Hop) -> int:
    """Moves the newest snapshot of other hops of this store past transactions that sent nothing of theirs. Commits for each.

    Args:
        source: a session that this hop's driver has, outside any transaction.
        hop: whose driver it is.

    Returns:
        How many hops were moved on. A hop that has something to move, or that another session has locked, is left as it is.

    Raises:
        StoreUnreachable: a retry may help; each hop is moved on or not.
    """
    asking = source.doing(f"looking for idle hops beside {hop.name}")
    names: list[str] = asking.values(_IDLE_HOPS, hop.name, IDLE_PAIR_TRANSACTIONS, _MOST_AT_ONCE)
    asking.rollback()
    deadline, passed = time.monotonic() + _SECONDS_AT_ONCE, 0
    for name in names:
        passed += _pass(source, name)
        if time.monotonic() >= deadline:
            break
    return passed


def _pass(source: StoreSession, name: str) -> bool:
    try:
        return skip_pair_without_messages(source.doing(f"moving idle hop {name} on"), name)
    except errors.StoreUnreachable:
        raise
    except errors.RelayboxError:
        # what is wrong with that hop is for its own driver, and for `relaybox status`; its poll stays as long as it was
        source.rollback()
        return False
