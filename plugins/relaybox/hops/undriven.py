"""Which other hops wait for a driver, asked by a driver that lingers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relaybox.routes import Hop
    from relaybox.stores.sessions import StoreSession

_QUERY = """
select h.hop
from (
    select o.hop, relaybox_internal.hop_has_work(o.hop) as has_work from relaybox_internal.hop_out o where o.hop <> %s offset 0
) h
where h.has_work and not relaybox_internal.hop_is_driven(h.hop)
order by h.hop
"""


def find_undriven_hops(session: StoreSession, hop: Hop) -> list[str]:
    """Returns the other hops that leave this store, have work and no driver. Ends its transaction; reads only."""
    session = session.doing(f"looking for hops that wait beside {hop.name}")
    names: list[str] = session.values(_QUERY, hop.name)
    session.rollback()
    return names
