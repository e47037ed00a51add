"""Whether the two ledgers of a hop are still one history: what its source says of itself, against what its destination has.

A store that went back in time (a restore, a failover with a lost tail, a reload) contradicts its neighbour or its own ledger. Drivers
find that out when they plan; this asks without moving anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg2.extras import NamedTupleCursor

from relaybox import errors
from relaybox.stores.connections import one_row

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Hop


@dataclass(frozen=True)
class HistoryGap:
    """Which store lost history, how that shows (a sentence without its full stop), and what to do."""

    store: str
    what: str
    next_step: str

    def as_error(self, hop: Hop) -> errors.HistoryLost:
        return errors.HistoryLost(
            f"hop {hop.name} {hop.source.name}->{hop.destination.name}: {self.what}.",
            next_step=self.next_step,
        )


@dataclass(frozen=True)
class PublishedEnd:
    """The newest batch that a destination has published of a hop, 0 for none, with its plan; and the plans of slices copied since."""

    generation: int
    batch: int
    plan_id: str | None
    copied_plan_ids: tuple[str, ...]


def find_gap(source: Connection, hop: Hop, published: PublishedEnd) -> HistoryGap | None:
    """Asks a hop's source, after its destination was asked, in a short transaction. None: the ledgers agree, or go on agreeing.

    Raises nothing of its own; the store's errors are the caller's to translate.
    """
    with source.cursor(cursor_factory=NamedTupleCursor) as cursor:
        cursor.execute(_CONTINUITY, (hop.name, published.batch))
        ledger = one_row(cursor)
        here = None
        if ledger is not None and not ledger.is_standby:
            cursor.execute("select * from relaybox.cluster_fingerprint()")
            here = one_row(cursor)
    source.rollback()
    return None if ledger is None else next(_gaps(hop, ledger, here, published), None)


# what a standby would say of its timeline is its primary's; the plan and the confirmations are replicated
_CONTINUITY = """
    select s.reloaded, s.lower_xmax, s.generation, s.planned_batch, s.received_batch, s.resend_through, s.compacted_batch,
        s.arrived_plan_id, s.next_plan_id, s.read_through, s.log_position,
        s.system_identifier, s.timeline, pg_is_in_recovery() as is_standby
    from relaybox.succession(%s, %s) s
"""


def _gaps(hop: Hop, ledger: Any, here: Any, published: PublishedEnd) -> Iterator[HistoryGap]:
    source, destination = hop.source.name, hop.destination.name
    look = f"See what is missing with: relaybox reanchor {hop.name}"
    if here is not None and (
        (here.system_identifier, here.timeline) != (ledger.system_identifier, ledger.timeline)
        or int(here.next_xid) < int(ledger.lower_xmax)
    ):
        yield HistoryGap(
            source,
            f"its ledger was written by cluster {ledger.system_identifier} on timeline {ledger.timeline} with transactions below "
            f"{ledger.lower_xmax}; {source} is cluster {here.system_identifier} on timeline {here.timeline} with next transaction "
            f"{here.next_xid}: {source} was restored, promoted or replaced",
            f"If {source} lost nothing: relaybox attest {source}. Else: relaybox reanchor {hop.name}",
        )
    elif ledger.reloaded:
        yield HistoryGap(
            source, f"{source} was loaded from a dump: its rows may carry transaction numbers of another cluster", look
        )
    lost = f"{source} lost history"
    if published.generation > ledger.generation:
        mine = f"{source} is in generation {ledger.generation} of it"
        yield HistoryGap(source, f"{mine}, {destination} in generation {published.generation}: {lost}", look)
    if published.batch > ledger.planned_batch:
        ends = f"the ledger of {source} ends at batch {ledger.planned_batch}"
        yield HistoryGap(source, f"{ends}, {destination} has published batch {published.batch}: {lost}", look)
    if published.batch > ledger.compacted_batch and ledger.arrived_plan_id != published.plan_id:
        theirs = f"{destination} has published batch {published.batch} with plan {published.plan_id}"
        yield HistoryGap(source, f"{theirs}, {source} has plan {ledger.arrived_plan_id}: {lost}", look)
    # a batch that arrived since the destination was asked may be gone from the ledger already
    is_due = published.generation == ledger.generation and published.batch >= ledger.compacted_batch
    if is_due and (lost_plans := set(published.copied_plan_ids) - {ledger.next_plan_id}):
        theirs = f"{destination} has slices of batch {published.batch + 1} with plan {', '.join(sorted(lost_plans))}"
        mine = f"has plan {ledger.next_plan_id}" if ledger.next_plan_id else "has not planned it"
        yield HistoryGap(source, f"{theirs}, {source} {mine}: {lost}", look)
    if ledger.log_position is not None and ledger.log_position < ledger.read_through:
        has_read = f"it has read the log of {source} through position {ledger.read_through}"
        first = f"First repair the hop before it, {hop.upstream}. {look}"
        yield HistoryGap(source, f"{has_read}, which ends at {ledger.log_position}: {lost}", first)
