"""A hop whose source or destination lost history goes on: nothing that still exists is left out, nothing is sent twice.

Two cases of loss. The destination went back: what it lost is sent again (resending.py). The source went back, or was dumped and reloaded:
the hop begins a new generation (new_generation.py).

If both went back, the destination may have lost batches of which the source has no plan, since it had adopted them: then too a new
generation begins, and what the source still has of them is sent again.

If one store is another database than before, both record each other, whether anything was lost or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.hops.continuity import HistoryGap, find_gap, find_other_stores, lost_batches, published_end, read_ledger
from relaybox.hops.publishing import ask_destination, begin_generation
from relaybox.log_events import emit
from relaybox.recovery.both_stores import BothStores, HopRow
from relaybox.recovery.common_ledger import (
    find_common_batch,
    has_lost_adopted_batches,
    has_slices_of_lost_plans,
    is_reloaded,
    knows_later_transactions,
)
from relaybox.recovery.late_rows import refuse_late_rows
from relaybox.recovery.new_generation import begin_new_generation, forget_what_was_delivered
from relaybox.recovery.resending import resend
from relaybox.stores.opening import opened_store
from relaybox.stores.sessions.fingerprints import read_fingerprint

if TYPE_CHECKING:
    from relaybox.hops.continuity import PublishedEnd
    from relaybox.hops.planning import DestinationState
    from relaybox.recovery.reanchor_result import ReanchorResult
    from relaybox.routes import Hop, Routes
    from relaybox.stores.sessions.store_session import StoreSession


def reanchor_hop(hop: Hop, routes: Routes, *, recorded_by: str, reason: str, dry_run: bool) -> ReanchorResult:
    """Compares the hop's two stores and lets it go on from what both have. One durable commit per store; can be repeated.

    Reads the hop's part of the outbox once. Producers wait for the moment in which the anchor is taken.

    Args:
        hop: the hop that stopped.
        routes: all routes; the hops before this one are asked whether they still bring what it would give up.
        recorded_by: who does it, for the ledger of generations.
        reason: why, for the same.
        dry_run: only tell; nothing is written.

    Raises:
        StoreBusy: for ten seconds there was always a transaction that had written to the outbox; end the one that stays open.
        HistoryLost: what the hop delivered may still come to its source: bring the hop before it up to date first. Or
            retention has dropped what would have to be sent again, or compared.
        UnknownHop, StoreUnreachable, StoreUnusable: see relaybox.errors.
    """
    name = f"relaybox {hop.name} reanchor"
    with (
        opened_store(hop.source, application_name=name) as opened,
        opened_store(hop.destination, application_name=name) as destination,
    ):
        arrived = ask_destination(destination, hop)
        source = opened.doing(f"reanchoring hop {hop.name}")
        published = published_end(arrived)
        gap = find_gap(source, hop, published)
        other_stores = _find_other_stores(source, hop, published)
        with _transaction(source, hop) as head:
            found = _compare(BothStores(hop, routes, source, destination, head, arrived, recorded_by, reason))
            found = replace(_name_cause(hop, found, gap, other_stores), other_stores=other_stores)
            if dry_run or not found.is_needed:
                source.rollback()
                return found
            if other_stores:
                _record_destination(source, hop, arrived)
            source.reach("reanchor.recorded")
            source.commit_durably("reanchor")
        if found.loss in ("source", "both"):
            begin_generation(destination, hop, log_id=arrived.log_id, generation=found.generation)
        if other_stores:
            _record_source(destination, hop, head.store_id)
    emit(
        "hop_reanchored",
        hop=hop.name,
        loss=found.loss,
        generation=found.generation,
        common_batch=found.common_batch,
        arrived_batch=found.arrived_batch,
        adopted=found.adopted_count,
        ghosts=len(found.ghosts),
        senders_with_held_indexes=len(found.held_indexes),
        undelivered=found.undelivered_count,
        removed=found.removed_count,
        resend_batches=found.resend_count,
        other_stores=", ".join(found.other_stores),
    )
    return found


@contextmanager
def _transaction(source: StoreSession, hop: Hop) -> Iterator[HopRow]:
    """A transaction that holds the hop's row; rolled back unless it was committed."""
    try:
        source.call("relaybox_internal.require_writable_primary")
        source.execute("set local synchronous_commit = on")
        head = source.row_if_any(HopRow, _LOCK_HOP, hop.name)
        if head is None:
            raise errors.UnknownHop(f"hop {hop.name} does not leave store {hop.source.name}.", next_step="Run: relaybox init")
        yield head
    finally:
        if not source.closed:
            source.rollback()


def _find_other_stores(source: StoreSession, hop: Hop, published: PublishedEnd) -> tuple[str, ...]:
    ledger = read_ledger(source, hop, published.batch)
    source.rollback()
    return () if ledger is None else tuple(gap.store for gap in find_other_stores(hop, ledger, published))


_LOCK_HOP = """
    select h.*, s.store_id::text
    from relaybox_internal.hop_out h cross join relaybox_internal.store s
    where h.hop = %s for update of h
"""


def _record_destination(source: StoreSession, hop: Hop, arrived: DestinationState) -> None:
    """The hop goes to this store from now on; a driver that copies to another one is outdated."""
    source.execute(
        "update relaybox_internal.hop_out set destination_id = %s, attempt = attempt + 1 where hop = %s",
        arrived.store_id,
        hop.name,
    )


def _record_source(destination: StoreSession, hop: Hop, store_id: str) -> None:
    """Commits; until then the hop stops, and reanchor does it again."""
    destination = destination.doing(f"recording from which store hop {hop.name} comes")
    destination.execute("update relaybox_internal.hop_in set source_id = %s where hop = %s", store_id, hop.name)
    destination.reach("source_met.recorded")
    destination.commit_durably("source_met")


def _name_cause(hop: Hop, found: ReanchorResult, gap: HistoryGap | None, other_stores: Sequence[str]) -> ReanchorResult:
    if found.loss == "destination" and not other_stores:
        gap = lost_batches(hop, found.arrived_batch + found.resend_count, found.arrived_batch)
    if gap is None or (found.loss == "none" and not other_stores):
        return found
    nothing_is_missing = found.common_batch == found.arrived_batch and not found.removed_count
    return replace(found, cause=gap.what, may_be_attested=gap.may_be_attested and nothing_is_missing)


def _compare(stores: BothStores) -> ReanchorResult:
    reloaded = is_reloaded(stores)
    if reloaded:
        refuse_late_rows(stores)
    common = find_common_batch(stores)
    here = read_fingerprint(stores.source)
    moved = (
        (here.system_identifier, here.timeline) != (stores.head.system_identifier, stores.head.timeline)
        or reloaded
        or knows_later_transactions(stores, int(here.next_xid))
    )
    behind = stores.head.generation < stores.arrived.generation
    if common == stores.arrived.batch and not moved and not behind and not has_slices_of_lost_plans(stores):
        if not has_lost_adopted_batches(stores):
            return resend(stores, common)
        if stores.head.reads_log is None:
            common = forget_what_was_delivered(stores)
        return begin_new_generation(stores, common, here, loss="both")
    return begin_new_generation(stores, common, here)
