"""The destination went back: the source's batches are immutable, so the lost ones are sent again, to the same positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.recovery.reanchor_result import ReanchorResult

if TYPE_CHECKING:
    from relaybox.recovery.both_stores import BothStores


def resend(stores: BothStores, common: int) -> ReanchorResult:
    """Has the batches sent again that the source has confirmed and the destination has not; the caller commits.

    Raises:
        HistoryLost: retention has dropped messages of them at the source.
    """
    received = stores.source.value(
        "select coalesce((select c.through_batch from relaybox_internal.newest_confirmation(%s, 'received') c), 0)",
        stores.hop.name,
    )
    if received <= stores.arrived.batch:
        return ReanchorResult(stores.hop.name, "none", stores.head.generation, common, stores.arrived.batch)
    _require_kept(stores, stores.arrived.batch + 1, received)
    stores.source.execute(
        "update relaybox_internal.hop_out set resend_through = %s, resend_after = %s where hop = %s",
        *(received, stores.arrived.batch, stores.hop.name),
    )
    return ReanchorResult(
        stores.hop.name,
        "destination",
        stores.head.generation,
        common,
        stores.arrived.batch,
        resend_count=received - stores.arrived.batch,
    )


def _require_kept(stores: BothStores, first: int, last: int) -> None:
    """What is sent again must still be here: retention may have dropped it."""
    is_kept = stores.source.value(
        """
        select count(*) = %s - %s + 1 and coalesce(bool_and(not exists (
            select from relaybox_internal.batch_slices(b.slices) s where s.first_read < kept.first_read
        )), true) as is_kept
        from relaybox_internal.batch b
        cross join lateral relaybox_internal.first_kept_read(b.hop) kept (first_read)
        where b.hop = %s and b.batch between %s and %s
        """,
        *(last, first, stores.hop.name, first, last),
    )
    if not is_kept:
        raise errors.HistoryLost(
            f"hop {stores.hop.name}: {stores.hop.destination.name} lost batches {first} to {last}, and retention has dropped messages "
            f"of them at {stores.hop.source.name}.",
            next_step=f"Restore {stores.hop.destination.name} to a later time; see: relaybox retention --dry-run {stores.hop.source.name}",
        )
