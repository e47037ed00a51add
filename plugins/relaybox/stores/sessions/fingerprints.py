"""Which cluster a store runs on, as transaction numbers and timelines tell: what changes when it is restored, promoted or replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession


class ClusterFingerprint(NamedTuple):
    """As cluster_fingerprint.sql gives it; `next_xid` is a number as text: psycopg2 knows no xid8."""

    system_identifier: int
    timeline: int
    next_xid: str


def read_fingerprint(session: StoreSession) -> ClusterFingerprint:
    """The store's cluster now, in the session's transaction."""
    return session.row(ClusterFingerprint, "select * from relaybox_internal.cluster_fingerprint()")
