"""Step 3 of a hop: publish a copied batch at the destination, and what the destination knows of a hop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from relaybox import errors
from relaybox.hops.planning import DestinationState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.hops.batches import Batch
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class PublishedBatch:
    """A published batch: consumers may read the hop's log through `last_position`."""

    batch: int
    plan_id: UUID
    last_position: int
    published_at: datetime


class _ArrivalRow(NamedTuple):
    """An Arrival as a row of relaybox_internal.arrival; its plan id as text."""

    batch: int
    plan_id: str
    last_position: int
    published_at: datetime

    @property
    def arrival(self) -> PublishedBatch:
        return PublishedBatch(self.batch, UUID(str(self.plan_id)), self.last_position, self.published_at)


class _Published(NamedTuple):
    """What a destination has published of a hop; plan ids as text."""

    log_id: int
    generation: int
    published_batch: int
    published_position: int
    plan_id: str | None
    copied_plan_ids: list[str]
    store_id: str
    source_id: str | None


def ask_destination(destination: StoreSession, hop: Hop) -> DestinationState:
    """What the destination has published of a hop, in a short transaction of its own. Raises UnknownHop."""
    destination = destination.doing(f"asking how far hop {hop.name} has arrived")
    found = destination.row_if_any(
        _Published,
        """
        select i.log_id, i.generation, i.published_batch, i.published_position,
            (select a.plan_id from relaybox_internal.arrival a where a.log_id = i.log_id and a.batch = i.published_batch),
            array(
                select distinct r.plan_id::text from relaybox_internal.receipt r where r.log_id = i.log_id
                    and r.batch = i.published_batch + 1
            ) as copied_plan_ids,
            s.store_id::text, i.source_id::text
        from relaybox_internal.hop_in i cross join relaybox_internal.store s where i.hop = %s
        """,
        hop.name,
    )
    destination.rollback()
    if found is None:
        raise errors.UnknownHop(
            f"hop {hop.name} does not arrive in store {hop.destination.name}.", next_step="Run: relaybox init"
        )
    return DestinationState(
        log_id=found.log_id,
        generation=found.generation,
        batch=found.published_batch,
        log_position=found.published_position,
        plan_id=None if found.plan_id is None else UUID(str(found.plan_id)),
        copied_plan_ids=tuple(map(UUID, found.copied_plan_ids)),
        store_id=found.store_id,
        source_id=found.source_id,
    )


def durable_arrival(destination: StoreSession, hop: Hop, arrived: DestinationState) -> PublishedBatch:
    """The arrival of the newest published batch, once it is durable: another attempt may have published it. Commits.

    Raises:
        NotDurable: COMMIT returned with a warning; nothing may be confirmed on the strength of this arrival.
    """
    destination = destination.doing(f"reading the arrival of batch {arrived.batch} of hop {hop.name}")
    row = destination.row(_ArrivalRow, "select * from relaybox_internal.durable_arrival(%s)", arrived.log_id)
    destination.reach("arrival.read")
    destination.commit_durably("arrival")
    return row.arrival


def make_log_segments(destination: StoreSession, hop: Hop, *, log_id: int, through_position: int) -> None:
    """Makes the log's segments that a batch needs. Commits."""
    destination = destination.doing(f"making segments of the log of hop {hop.name}")
    destination.call("relaybox_internal.ensure_log_segments", log_id, through_position)
    destination.reach("log_segments.made")
    destination.commit("log_segments")


def begin_generation(destination: StoreSession, hop: Hop, *, log_id: int, generation: int) -> None:
    """Has the destination begin a generation of the hop after its last published batch. Commits; idempotent.

    Raises:
        HistoryLost: the destination knows a newer generation.
        NotDurable: COMMIT returned with a warning; run it again.
    """
    destination = destination.doing(f"beginning generation {generation} of hop {hop.name}")
    destination.call("relaybox_internal.begin_generation", log_id, generation)
    destination.reach("generation.begun")
    destination.commit_durably("generation")


class SetAsideUpstream(NamedTuple):
    """What the store before set aside of one slice, as list_set_aside() gives it, and how much higher the positions are here."""

    shift: int
    messages: str


def read_set_aside(source: StoreSession, hop: Hop, batch: Batch, reads_log: int) -> tuple[SetAsideUpstream, ...]:
    """What the source set aside of a batch because it does not conform to its schema: later stores of a route don't check again.

    In a short transaction of its own; all of it is published there, so the answer never changes.
    """
    source = source.doing(f"asking what of batch {batch.batch} of hop {hop.name} is set aside")
    found = []
    with source.autocommitting():
        for one in batch.slices:
            messages = source.call("relaybox_internal.list_set_aside", reads_log, one.first_read, one.last_read)
            if messages is not None:
                found.append(SetAsideUpstream(one.first_position - one.first_read, messages))
    return tuple(found)


def publish_batch(
    destination: StoreSession, hop: Hop, batch: Batch, *, log_id: int, set_aside: Sequence[SetAsideUpstream] = ()
) -> PublishedBatch:
    """Makes a batch readable if every slice has its receipt and every row is there. Commits; idempotent.

    Args:
        destination: its session.
        hop: of the batch.
        batch: to publish.
        log_id: of the hop at the destination.
        set_aside: what the store before set aside of it (read_set_aside()).

    Raises:
        SliceMissing: a slice was not copied; resume the batch.
        HistoryLost, ContentDiffers: the stores contradict each other; nothing was published.
        NotDurable: COMMIT returned with a warning; publish again before confirming.
    """
    destination = destination.doing(f"publishing batch {batch.batch} of hop {hop.name}")
    destination.reach("publish.begin")
    for one in set_aside:
        destination.call("relaybox_internal.note_set_aside", log_id, one.shift, one.messages)
    row = destination.row(
        _ArrivalRow,
        "select * from relaybox_internal.publish_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        log_id,
        batch.generation,
        batch.batch,
        str(batch.plan_id),
        batch.first_position,
        batch.last_position,
        len(batch.slices),
        batch.system_identifier,
        batch.timeline,
    )
    destination.reach("publish.published")
    destination.commit_durably("publish")
    return row.arrival
