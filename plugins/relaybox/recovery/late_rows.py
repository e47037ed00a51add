"""An outbox that was copied without its sequence, or that is still being copied: rows that come later may stand between copied ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.recovery.both_stores import BothStores


class _LateRows(NamedTuple):
    row_count: int
    first_seq: int | None
    last_seq: int | None


_FILLED_BY = """
    select coalesce(string_agg(s.subname, ', ' order by s.subname), '') from pg_subscription s
    where exists (
        select from pg_subscription_rel r join pg_partition_tree('relaybox.outbox') t on t.relid = r.srrelid where r.srsubid = s.oid
    )
"""


def refuse_late_rows(stores: BothStores) -> None:
    """Such rows count as read: their seqs and transaction numbers are those of the time before the copy.

    Raises:
        HistoryLost: there are some; they get new seqs first. Or a subscription of Postgres may still apply some.
    """
    if names := stores.source.value(_FILLED_BY):
        store = stores.hop.source.name
        raise errors.HistoryLost(
            f"hop {stores.hop.name}: logical replication fills the outbox of {store} (subscription {names}). What it applies after this "
            "would have numbers of the time before, and count as read.",
            next_step=f"Stop the applications at the old server, wait until the subscription has applied everything, and run in {store} "
            f"as a superuser: drop subscription {names}; Then repeat this.",
        )
    late = stores.source.row(
        _LateRows, "select count(*) as row_count, min(seq) as first_seq, max(seq) as last_seq from relaybox_internal.late_rows()"
    )
    if late.row_count:
        store = stores.hop.source.name
        raise errors.HistoryLost(
            f"hop {stores.hop.name}: applications wrote {late.row_count} messages to {store} (seq {late.first_seq} to "
            f"{late.last_seq}) since its rows were copied to this cluster, the first of them between copied ones: the sequence "
            "relaybox.outbox_seq had not been copied. They would count as read.",
            next_step=f"As the owner of {store} run: select relaybox_internal.renumber_late_rows(); it puts them behind the "
            "copied ones, and producers wait for it. Then repeat this.",
        )
