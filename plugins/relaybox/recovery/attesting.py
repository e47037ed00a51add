"""The claim, made by a person, that the cluster now behind a store is the rightful successor of the one before: nothing was lost.

After a promotion without loss, or pg_upgrade, transaction numbers go on where they were, but the cluster's identifier or its
timeline is another one, so every hop that leaves the store stops. The claim is verified as far as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.hops.continuity import find_gaps, lost_batches, published_end, read_ledger, unfinished_reanchor
from relaybox.hops.publishing import ask_destination
from relaybox.log_events import emit
from relaybox.stores.opening import opened_store, store_session
from relaybox.stores.sessions.fingerprints import ClusterFingerprint, read_fingerprint

if TYPE_CHECKING:
    from relaybox.hops.planning import DestinationState
    from relaybox.routes import Hop, Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class AttestResult:
    """The fingerprint that was recorded, for the hops that leave the store; `changed` is false when it was known already."""

    store: str
    system_identifier: int
    timeline: int
    hops: tuple[str, ...]
    changed: bool


def attest_store(store: Store, routes: Routes, *, recorded_by: str, reason: str) -> AttestResult:
    """Checks that a store goes on where its ledgers end, here and at the destinations, and records its new fingerprint.

    Args:
        store: the store whose cluster was promoted or upgraded.
        routes: all routes; every hop that leaves the store is checked with its destination.
        recorded_by: who says so, for the ledger of attestations.
        reason: why, for the same.

    Raises:
        ConfigurationError: no reason.
        HistoryLost: the store lost something after all, or was dumped and reloaded; `relaybox reanchor` is the repair.
        StoreUnreachable, StoreUnusable: a store can't be asked; nothing was recorded.
    """
    if not reason.strip():
        raise errors.ConfigurationError("attest needs a reason.", next_step='Add: --reason "..."')
    hops = [hop for hop in routes.hops if hop.source == store]
    arrivals = {hop: _ask(hop) for hop in hops}
    with store_session(store, "attesting the store", application_name="relaybox attest") as session:
        session.call("relaybox_internal.require_writable_primary")
        session.execute("set local synchronous_commit = on")
        here = read_fingerprint(session)
        changed = [_check(session, hop, arrivals[hop], here) for hop in hops]
        if any(changed):
            _record(session, [hop.name for hop in hops], here, recorded_by, reason)
            session.reach("attest.recorded")
            session.commit_durably("attest")
    attested = AttestResult(store.name, here.system_identifier, here.timeline, tuple(hop.name for hop in hops), any(changed))
    emit(
        "store_attested", store=store.name, system_identifier=here.system_identifier, timeline=here.timeline, changed=any(changed)
    )
    return attested


def _ask(hop: Hop) -> DestinationState:
    with opened_store(hop.destination, application_name="relaybox attest") as session:
        return ask_destination(session, hop)


def _check(session: StoreSession, hop: Hop, arrived: DestinationState, here: ClusterFingerprint) -> bool:
    """Raises unless the hop's ledger goes on here; tells whether its fingerprint differs."""
    ledger = read_ledger(session, hop, arrived.batch)
    if ledger is None:
        raise errors.UnknownHop(f"hop {hop.name} does not leave store {session.store}.", next_step="Run: relaybox init")
    published = published_end(arrived)
    gap = next((gap for gap in find_gaps(hop, ledger, here, published) if not gap.may_be_attested), None)
    if gap is None and ledger.resend_through <= arrived.batch < ledger.received_batch:
        gap = lost_batches(hop, ledger.received_batch, arrived.batch)
    if gap is None and arrived.generation < ledger.generation:
        gap = unfinished_reanchor(hop, ledger.generation, arrived.generation)
    if gap is not None:
        raise gap.as_error(hop, f"Nothing was recorded for store {session.store}.")
    return (here.system_identifier, here.timeline) != (ledger.system_identifier, ledger.timeline)


def _record(session: StoreSession, hops: list[str], here: ClusterFingerprint, recorded_by: str, reason: str) -> None:
    session.execute(
        """
        insert into relaybox_internal.attestation (
            attested_by, reason, from_system_identifier, from_timeline, system_identifier, timeline
        )
        select %s, %s, h.system_identifier, h.timeline, %s, %s from relaybox_internal.hop_out h
        where h.hop = any(%s) and (h.system_identifier, h.timeline) <> (%s, %s)
        order by h.hop limit 1
        """,
        *(recorded_by, reason, here.system_identifier, here.timeline, hops, here.system_identifier, here.timeline),
    )
    # a hop that relaybox.yaml no longer names was not checked, and stays stopped
    session.execute(
        "update relaybox_internal.hop_out set system_identifier = %s, timeline = %s where hop = any(%s)",
        *(here.system_identifier, here.timeline, hops),
    )
    session.execute(
        "update relaybox_internal.store set system_identifier = %s, timeline = %s", here.system_identifier, here.timeline
    )
