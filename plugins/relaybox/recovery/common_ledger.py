"""How far the ledgers of a hop's two stores are one, and in what they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.stores.connections import one_row, store_errors

if TYPE_CHECKING:
    from relaybox.recovery.both_stores import BothStores


def find_common_batch(stores: BothStores) -> int:
    """The newest batch with the same plan on both sides: from there back the two ledgers are one.

    Of the last batch that retention removed from a ledger the plan is still known.
    """
    stores.cursor.execute(
        "select batch, plan_id::text from relaybox.batch where hop = %s and batch <= %s", (stores.hop.name, stores.arrived.batch)
    )
    planned = dict(stores.cursor.fetchall())
    if stores.head.compacted_plan_id is not None:
        planned[stores.head.compacted_batch] = str(stores.head.compacted_plan_id)
    with store_errors(stores.hop.destination.name, f"reading the arrivals of hop {stores.hop.name}"):
        with stores.destination.cursor() as cursor:
            cursor.execute(
                "select batch, plan_id::text from relaybox.arrival where hop_id = %s order by batch desc",
                (stores.arrived.log_id,),
            )
            common = next((batch for batch, plan_id in cursor if planned.get(batch) == plan_id), 0)
            cursor.execute(
                "select compacted_batch, compacted_plan_id::text from relaybox.hop_in where hop_id = %s",
                (stores.arrived.log_id,),
            )
            removed_batch, removed_plan_id = one_row(cursor)
        stores.destination.rollback()
    if not common and removed_plan_id is not None and planned.get(removed_batch) == removed_plan_id:
        return int(removed_batch)
    return int(common)


def position_of(stores: BothStores, batch: int) -> int:
    """The last position of a batch, as the source knows it; 0 if it does not know the batch."""
    if batch == stores.head.compacted_batch:
        return int(stores.head.compacted_position)
    stores.cursor.execute("select last_position from relaybox.batch where hop = %s and batch = %s", (stores.hop.name, batch))
    row = one_row(stores.cursor)
    return 0 if row is None else int(row.last_position)


def is_reloaded(stores: BothStores) -> bool:
    """Whether the hop's frontier is in transaction numbers of another cluster, or of an earlier time of this one."""
    stores.cursor.execute(
        "select relaybox.is_reloaded() or numbering <> %s as moved from relaybox.numbering", (stores.head.numbering,)
    )
    return stores.head.reads_log is None and bool(one_row(stores.cursor).moved)


def knows_later_transactions(stores: BothStores, next_xid: int) -> bool:
    """Whether the ledger names transactions that this cluster has not given out yet: the hop stops then, whatever else agrees."""
    lower = stores.head.lower
    return lower is not None and int(lower.split(":")[1]) > next_xid


def has_slices_of_lost_plans(stores: BothStores) -> bool:
    """Whether the destination holds unpublished slices of a plan that is not in the source's ledger."""
    stores.cursor.execute(
        "select batch, plan_id::text from relaybox.batch where hop = %s and batch > %s", (stores.hop.name, stores.arrived.batch)
    )
    planned = {tuple(row) for row in stores.cursor.fetchall()}
    with store_errors(stores.hop.destination.name, f"reading the receipts of hop {stores.hop.name}"):
        with stores.destination.cursor() as cursor:
            cursor.execute(
                "select distinct batch, plan_id::text from relaybox.receipt where hop_id = %s and batch > %s",
                (stores.arrived.log_id, stores.arrived.batch),
            )
            staged = set(cursor.fetchall())
        stores.destination.rollback()
    return not staged <= planned


def count_unpublished(stores: BothStores) -> int:
    """How many messages of slices the destination has beyond its newest batch."""
    with store_errors(stores.hop.destination.name, f"reading the receipts of hop {stores.hop.name}"):
        with stores.destination.cursor() as cursor:
            cursor.execute(
                "select coalesce(sum(row_count), 0) from relaybox.receipt where hop_id = %s and batch > %s",
                (stores.arrived.log_id, stores.arrived.batch),
            )
            (count,) = one_row(cursor)
        stores.destination.rollback()
    return int(count)


def has_lost_adopted_batches(stores: BothStores) -> bool:
    """Whether the destination lost batches whose plan the source does not know: they can't be sent again as they were."""
    stores.cursor.execute(
        "select exists (select from relaybox.batch where hop = %s and batch > %s and adopted) as lost",
        (stores.hop.name, stores.arrived.batch),
    )
    return bool(one_row(stores.cursor).lost)
