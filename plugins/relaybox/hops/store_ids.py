"""Whether a hop still connects the two databases that it connected before: each store has an id, and each end records the other's.

Names of stores and hops do not tell that: two deployments may give the same name to two databases, and an edited connection or service
file leads to another one. Then messages that one database has would be confirmed, and dropped, for the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.hops.continuity import HistoryGap, find_other_stores, published_end, read_ledger
from relaybox.hops.publishing import ask_destination
from relaybox.stores.opening import opened_store
from relaybox.streams.topics import carry_topics

if TYPE_CHECKING:
    from relaybox.hops.continuity import LedgerContinuity
    from relaybox.hops.planning import DestinationState
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession


class StoreIds(NamedTuple):
    """The ids of the two stores of a hop."""

    source: str
    destination: str


def require_same_stores(source: StoreSession, destination: StoreSession, hop: Hop, arrived: DestinationState) -> StoreIds:
    """The ids of the stores that these sessions lead to. The first time each store records the other's: commits there, idempotent.

    Raises:
        HistoryLost: one of them is another database than the hop's messages came from or went to.
        UnknownHop: the hop does not leave the source.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    ledger = _ask_source(source, hop, arrived)
    for gap in find_other_stores(hop, ledger, published_end(arrived)):
        raise gap.as_error(hop, "Nothing was moved.")
    if ledger.destination_id != arrived.store_id:
        _record_destination(source, hop, arrived)
    if arrived.source_id != ledger.store_id:
        _record_source(destination, hop, ledger.store_id)
    return StoreIds(ledger.store_id, arrived.store_id)


def _ask_source(source: StoreSession, hop: Hop, arrived: DestinationState) -> LedgerContinuity:
    source = source.doing(f"asking to which store hop {hop.name} goes")
    ledger = read_ledger(source, hop, arrived.batch)
    source.rollback()
    if ledger is None:
        raise errors.UnknownHop(f"hop {hop.name} does not leave store {hop.source.name}.", next_step="Run: relaybox init")
    return ledger


def _record_destination(source: StoreSession, hop: Hop, arrived: DestinationState) -> None:
    source = source.doing(f"recording to which store hop {hop.name} goes")
    recorded = source.call("relaybox_internal.meet_destination", hop.name, arrived.store_id)
    source.reach("destination_met.recorded")
    source.commit_durably("destination_met")
    if recorded != arrived.store_id:
        raise _met_meanwhile(hop, hop.destination.name, arrived.store_id, recorded)


def _record_source(destination: StoreSession, hop: Hop, store_id: str) -> None:
    destination = destination.doing(f"recording from which store hop {hop.name} comes")
    recorded = destination.call("relaybox_internal.meet_source", hop.name, store_id)
    destination.reach("source_met.recorded")
    destination.commit_durably("source_met")
    if recorded != store_id:
        raise _met_meanwhile(hop, hop.source.name, store_id, recorded)


def _met_meanwhile(hop: Hop, store: str, store_id: str, recorded: str) -> errors.HistoryLost:
    gap = HistoryGap(
        store,
        f"{store} is store {store_id}; another driver has just recorded store {recorded}",
        f"Two deployments with different databases for {store} run this hop. Correct the connection of one.",
    )
    return gap.as_error(hop, "Nothing was moved.")


def carry_topics_of(hop: Hop) -> None:
    """Tells the source which topics were subscribed to at the destination, in sessions of its own. Commits; idempotent.

    Raises:
        HistoryLost: one of the two stores is another database than before.
    """
    name = f"relaybox {hop.name} topics"
    with (
        opened_store(hop.source, application_name=name) as source,
        opened_store(hop.destination, application_name=name) as destination,
    ):
        require_same_stores(source, destination, hop, ask_destination(destination, hop))
        carry_topics(source, destination, hop)
