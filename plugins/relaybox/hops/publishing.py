"""Step 3 of a hop: publish a copied batch at the destination, and what the destination knows of a hop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from psycopg2.extras import NamedTupleCursor

from relaybox import errors
from relaybox.failpoints import reach
from relaybox.hops.planning import Arrived
from relaybox.stores.connections import commit, commit_durably, one_row, store_errors

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.hops.batches import Batch
    from relaybox.routes import Hop


@dataclass(frozen=True)
class Arrival:
    """A published batch: consumers may read the hop's log through `last_position`."""

    batch: int
    plan_id: UUID
    last_position: int
    published_at: datetime


def ask_destination(destination: Connection, hop: Hop) -> Arrived:
    """What the destination has published of a hop, in a short transaction of its own. Raises UnknownHop."""
    with store_errors(hop.destination.name, f"asking how far hop {hop.name} has arrived"), destination.cursor() as cursor:
        cursor.execute(
            """
            select i.hop_id, i.generation, i.published_batch, i.published_position,
                (select a.plan_id from relaybox.arrival a where a.hop_id = i.hop_id and a.batch = i.published_batch),
                array(
                    select distinct r.plan_id::text from relaybox.receipt r where r.hop_id = i.hop_id and r.batch = i.published_batch + 1
                )
            from relaybox.hop_in i where i.hop = %s
            """,
            (hop.name,),
        )
        row = one_row(cursor)
        destination.rollback()
    if row is None:
        raise errors.UnknownHop(
            f"hop {hop.name} does not arrive in store {hop.destination.name}.", next_step="Run: relaybox init"
        )
    log_id, generation, batch, position, plan_id, copied = row
    return Arrived(log_id, generation, batch, position, None if plan_id is None else UUID(str(plan_id)), tuple(map(UUID, copied)))


def durable_arrival(destination: Connection, hop: Hop, arrived: Arrived) -> Arrival:
    """The arrival of the newest published batch, once it is durable: somebody else may have published it. Commits.

    Raises:
        NotDurable: COMMIT returned with a warning; nothing may be confirmed on the strength of this arrival.
    """
    with store_errors(hop.destination.name, f"reading the arrival of batch {arrived.batch} of hop {hop.name}"):
        with destination.cursor(cursor_factory=NamedTupleCursor) as cursor:
            cursor.execute("select * from relaybox.durable_arrival(%s)", (arrived.log_id,))
            row = one_row(cursor)
        reach("arrival.read", destination)
        commit_durably(destination, "arrival")
    return Arrival(row.batch, UUID(str(row.plan_id)), row.last_position, row.published_at)


def make_log_segments(destination: Connection, hop: Hop, *, log_id: int, through_position: int) -> None:
    """Makes the log's segments that a batch needs. Commits."""
    with store_errors(hop.destination.name, f"making segments of the log of hop {hop.name}"), destination.cursor() as cursor:
        cursor.execute("select relaybox.ensure_log_segments(%s, %s)", (log_id, through_position))
        reach("log_segments.made", destination)
        commit(destination, "log_segments")


def begin_generation(destination: Connection, hop: Hop, *, log_id: int, generation: int) -> None:
    """Has the destination begin a generation of the hop after its last published batch. Commits; idempotent.

    Raises:
        HistoryLost: the destination knows a newer generation.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    with (
        store_errors(hop.destination.name, f"beginning generation {generation} of hop {hop.name}"),
        destination.cursor() as cursor,
    ):
        cursor.execute("select relaybox.begin_generation(%s, %s)", (log_id, generation))
        reach("generation.begun", destination)
        commit_durably(destination, "generation")


def publish_batch(destination: Connection, hop: Hop, batch: Batch, *, log_id: int) -> Arrival:
    """Makes a batch readable if every slice has its receipt and every row is there. Commits; idempotent.

    Raises:
        SliceMissing: a slice was not copied; resume the batch.
        HistoryLost, ContentDiffers: the stores contradict each other; nothing was published.
        NotDurable: COMMIT returned with a warning; publish again before confirming.
    """
    with store_errors(hop.destination.name, f"publishing batch {batch.batch} of hop {hop.name}"):
        reach("publish.begin", destination)
        with destination.cursor(cursor_factory=NamedTupleCursor) as cursor:
            cursor.execute(
                "select * from relaybox.publish_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                (
                    log_id,
                    batch.generation,
                    batch.batch,
                    str(batch.plan_id),
                    batch.first_position,
                    batch.last_position,
                    len(batch.slices),
                    batch.system_identifier,
                    batch.timeline,
                ),
            )
            row = one_row(cursor)
        reach("publish.published", destination)
        commit_durably(destination, "publish")
    return Arrival(row.batch, UUID(str(row.plan_id)), row.last_position, row.published_at)
