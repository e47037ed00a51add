"""How far the ledgers of a hop's two stores are one, and in what they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from relaybox.recovery.both_stores import BothStores


class _Batch(NamedTuple):
    """A batch in a ledger, and its plan as text."""

    batch: int
    plan_id: str


class _Removed(NamedTuple):
    """The last batch that retention removed from a ledger."""

    compacted_batch: int
    compacted_plan_id: str | None


def find_common_batch(stores: BothStores) -> int:
    """The newest batch with the same plan on both sides: from there back the two ledgers are one.

    Of the last batch that retention removed from a ledger the plan is still known.
    """
    planned = dict(
        stores.source.rows(
            _Batch,
            "select batch, plan_id::text from relaybox_internal.batch where hop = %s and batch <= %s",
            *(stores.hop.name, stores.arrived.batch),
        )
    )
    if stores.head.compacted_plan_id is not None:
        planned[stores.head.compacted_batch] = str(stores.head.compacted_plan_id)
    destination = stores.destination.doing(f"reading the arrivals of hop {stores.hop.name}")
    arrivals = destination.rows(
        _Batch,
        "select batch, plan_id::text from relaybox_internal.arrival where log_id = %s order by batch desc",
        stores.arrived.log_id,
    )
    removed = destination.row(
        _Removed,
        "select compacted_batch, compacted_plan_id::text from relaybox_internal.hop_in where log_id = %s",
        stores.arrived.log_id,
    )
    destination.rollback()
    common = next((batch for batch, plan_id in arrivals if planned.get(batch) == plan_id), 0)
    if not common and removed.compacted_plan_id and planned.get(removed.compacted_batch) == removed.compacted_plan_id:
        return removed.compacted_batch
    return common


def position_of(stores: BothStores, batch: int) -> int:
    """The last position of a batch, as the source knows it; 0 if it does not know the batch."""
    if batch == stores.head.compacted_batch:
        return stores.head.compacted_position
    log_position = stores.source.value(
        "select last_position from relaybox_internal.batch where hop = %s and batch = %s", stores.hop.name, batch
    )
    return int(log_position or 0)


def is_reloaded(stores: BothStores) -> bool:
    """Whether the hop's frontier is in transaction numbers of another cluster, or of an earlier time of this one."""
    moved = stores.source.value(
        "select relaybox_internal.is_reloaded() or numbering <> %s as moved from relaybox_internal.numbering",
        stores.head.numbering,
    )
    return stores.head.reads_log is None and bool(moved)


def knows_later_transactions(stores: BothStores, next_xid: int) -> bool:
    """Whether the ledger names transactions that this cluster has not given out yet: the hop stops then, whatever else agrees."""
    lower = stores.head.lower
    return lower is not None and int(lower.split(":")[1]) > next_xid


def has_slices_of_lost_plans(stores: BothStores) -> bool:
    """Whether the destination holds unpublished slices of a plan that is not in the source's ledger."""
    planned = stores.source.rows(
        _Batch,
        "select batch, plan_id::text from relaybox_internal.batch where hop = %s and batch > %s",
        *(stores.hop.name, stores.arrived.batch),
    )
    destination = stores.destination.doing(f"reading the receipts of hop {stores.hop.name}")
    staged = destination.rows(
        _Batch,
        "select distinct batch, plan_id::text from relaybox_internal.receipt where log_id = %s and batch > %s",
        *(stores.arrived.log_id, stores.arrived.batch),
    )
    destination.rollback()
    return not set(staged) <= set(planned)


def count_unpublished(stores: BothStores) -> int:
    """How many messages of slices the destination has beyond its newest batch."""
    destination = stores.destination.doing(f"reading the receipts of hop {stores.hop.name}")
    count = destination.value(
        "select coalesce(sum(row_count), 0) from relaybox_internal.receipt where log_id = %s and batch > %s",
        *(stores.arrived.log_id, stores.arrived.batch),
    )
    destination.rollback()
    return int(count)


def has_lost_adopted_batches(stores: BothStores) -> bool:
    """Whether the destination lost batches whose plan the source does not know: they can't be sent again as they were."""
    return bool(
        stores.source.value(
            "select exists (select from relaybox_internal.batch where hop = %s and batch > %s and adopted)",
            *(stores.hop.name, stores.arrived.batch),
        )
    )
