"""A batch as a row of its source's ledger, relaybox_internal.batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from relaybox import errors
from relaybox.hops.batches import Batch, Slice

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession


class BatchRow(NamedTuple):
    """A row of relaybox_internal.batch, as psycopg2 gives it."""

    hop: str
    batch: int
    plan_id: str
    topics: list[str] | None
    lower: str | None
    upper: str | None
    first_position: int
    last_position: int
    row_count: int
    slices: list[list[int]]
    digests: list[str] | None
    generation: int
    system_identifier: int
    timeline: int


def read_batch(source: StoreSession, hop: str, batch: int) -> Batch:
    """Reads one row of the batch ledger, in the caller's transaction. Raises HistoryLost when it is not there."""
    row = source.row_if_any(BatchRow, "select * from relaybox_internal.batch where hop = %s and batch = %s", hop, batch)
    if row is None:
        raise errors.HistoryLost(
            f"hop {hop}: batch {batch} is not in the ledger of its source.",
            next_step=f"Nothing was moved. See what is wrong with: relaybox verify {hop.split('/', maxsplit=1)[0]}",
        )
    return as_batch(row)


def as_batch(row: BatchRow) -> Batch:
    """The batch that a row of the ledger describes."""
    return Batch(
        hop=row.hop,
        batch=row.batch,
        plan_id=UUID(str(row.plan_id)),
        topics=None if row.topics is None else tuple(row.topics),
        lower=row.lower,
        upper=row.upper,
        first_position=row.first_position,
        last_position=row.last_position,
        row_count=row.row_count,
        slices=tuple(Slice(*s) for s in row.slices),
        digests=None if row.digests is None else tuple(row.digests),
        generation=row.generation,
        system_identifier=row.system_identifier,
        timeline=row.timeline,
    )
