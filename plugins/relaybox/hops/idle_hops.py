"""Idle hops in a store where others are busy: the driver of another hop, or the watch, records that no message of theirs was sent.

A poll looks at all that was sent since the hop's newest snapshot. Nobody drives a hop that has nothing to move, so without
this its snapshot would stay, and a poll of it would read all messages that the store has sent since.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.log_events import warn

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession

LEAST_ROWS = 1_000
"""So many rows of others a look at an idle hop may read. One that looks back at more, or at a segment sealed since, is moved on."""

SECONDS_OF_A_DRIVER = 0.5
"""It wants to move its own messages; the next one goes on."""

_ROWS_AT_ONCE = 200_000
"""So many rows are read while the hops are locked. If a message comes for one of them meanwhile, its driver waits that long."""


class _Passed(NamedTuple):
    """How many hops one look has moved on, and whether the next one gets further."""

    passed: int
    has_more: bool


def pass_idle_hops(source: StoreSession, *, beside: str = "", seconds: float = SECONDS_OF_A_DRIVER) -> int:
    """Moves the newest snapshot of a store's idle hops past transactions that sent nothing of theirs (pass_idle_hops.sql).

    What is wrong with a store, its own drivers say too: it is logged here (`idle_hops_not_moved_on`), and looks stay as long as they were.

    Args:
        source: a session outside any transaction. Each look is one statement: no hop is locked while this process does not answer.
        beside: the hop whose driver it is: that hop moves its snapshot itself.
        seconds: no new look is begun later.

    Returns:
        How many times a hop was moved on.

    Raises:
        StoreUnreachable: a retry may help; the hops of a look are moved on or not.
    """
    asking = source.doing("moving idle hops on")
    deadline, passed, has_more = time.monotonic() + seconds, 0, True
    while has_more and time.monotonic() < deadline:
        try:
            asking.reach("idle_hops.begin")
            with asking.autocommitting():
                found = asking.row(
                    _Passed, "select * from relaybox_internal.pass_idle_hops(%s, %s, %s)", beside, LEAST_ROWS, _ROWS_AT_ONCE
                )
            asking.reach("idle_hops.committed")
        except errors.StoreUnreachable:
            raise
        except errors.RelayboxError as error:
            warn("idle_hops_not_moved_on", store=source.store, error=error)
            return passed
        passed, has_more = passed + found.passed, found.has_more
    return passed
