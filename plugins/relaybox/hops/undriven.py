"""Which other hops wait for a driver, asked by a driver that lingers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession

_QUERY = """
select h.hop
from relaybox_internal.hops_with_work() h
where h.has_work and h.hop <> %s and not relaybox_internal.hop_is_driven(h.hop)
order by h.hop
"""


def find_undriven_hops(session: StoreSession, hop: Hop) -> list[str]:
    """Returns the other hops that leave this store, have work and no driver. Ends its transaction; reads only."""
    session = session.doing(f"looking for hops that wait beside {hop.name}")
    names: list[str] = session.values(_QUERY, hop.name)
    session.rollback()
    return names
