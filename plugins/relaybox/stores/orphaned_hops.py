"""Registered hops that relaybox.yaml no longer contains: their route was removed from the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions import StoreSession


@dataclass(frozen=True)
class OrphanedHop:
    """A hop that no route of the file has.

    Attributes:
        store: the one it leaves; `destination` was where it went.
        retired_at, retired_by, retired_reason: None as long as the store keeps what the hop has not settled.
    """

    hop: str
    store: str
    destination: str
    retired_at: datetime | None
    retired_by: str | None
    retired_reason: str | None


def list_orphaned_hops(session: StoreSession, store: Store, routes: Routes) -> list[OrphanedHop]:
    """The hops that leave a store and are of no route in the file, retired ones included, by name.

    Looks at the store's list of hops and at no message. Runs in the session's transaction.
    """
    return session.rows(
        OrphanedHop,
        """
        select h.hop, h.destination, h.retired_at, h.retired_by, h.retired_reason
        from relaybox_internal.hop_out h where h.hop <> all(%s) order by h.hop
        """,
        [hop.name for hop in routes.hops if hop.source == store],
        store=store.name,
    )
