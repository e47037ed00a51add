"""The source went back: a hop begins a new generation of batches.

What the destination has beyond the common ledger is adopted, message by message: those that the source lost are kept and listed as
ghosts. What was not delivered comes first in the new generation; new pairs of snapshots begin above an anchor in `seq`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from psycopg2 import sql
from psycopg2.extras import execute_values

from relaybox import errors
from relaybox.recovery.anchoring import take_anchor
from relaybox.recovery.common_ledger import count_unpublished, position_of
from relaybox.recovery.log_adoption import adopt_reads, match_log
from relaybox.recovery.reanchor_result import Ghost, HeldIndexes, ReanchorResult
from relaybox.stores.binary_copy.pipe import pipe_sessions

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.recovery.both_stores import BothStores
    from relaybox.stores.sessions.fingerprints import ClusterFingerprint

_COPY_SECONDS = 3600.0


class _Kept(NamedTuple):
    """From where on a destination keeps a log, and the last batch that is gone from its ledger."""

    first_kept_position: int
    compacted_batch: int


class _Backlog(NamedTuple):
    adopted_seqs: str
    undelivered_count: int


class _Arrival(NamedTuple):
    """A batch as the destination published it."""

    batch: int
    plan_id: str
    first_position: int
    last_position: int
    row_count: int
    published_at: datetime


def begin_new_generation(
    stores: BothStores, common: int, here: ClusterFingerprint, *, loss: Literal["source", "both"] = "source"
) -> ReanchorResult:
    """Adopts what was delivered, makes the rest the hop's backlog, and writes both down; the caller commits.

    Args:
        stores: in the transaction of the source.
        common: the newest batch that both ledgers know as the same.
        here: the fingerprint of the source's cluster.
        loss: who lost history.

    Raises:
        StoreBusy: there was always a transaction that had written to the outbox.
        HistoryLost: retention has dropped what would have to be compared; or the hop before must come up to date first.
    """
    generation = max(stores.head.generation, stores.arrived.generation) + 1
    common_position = position_of(stores, common)
    _require_adoptable(stores, common, common_position)
    _fetch_adopted(stores, common_position)
    reading = match_log(stores.source, stores.hop, stores.routes, common) if stores.head.reads_log is not None else None
    anchor_seq, lower, adopted_seqs, undelivered_count = _outbox_part(stores, common)
    ghosts = _ghosts(stores)
    _forget_after(stores, common)
    _adopt(stores, common, generation, here)
    stores.source.execute(
        """
        update relaybox_internal.hop_out
        set generation = %s, batch = %s, log_position = %s, resend_through = 0, anchor_seq = %s, lower = %s,
            system_identifier = %s, timeline = %s, attempt = attempt + 1, numbering = (select numbering from relaybox_internal.numbering)
        where hop = %s
        """,
        *(generation, stores.arrived.batch, stores.arrived.log_position, anchor_seq, lower),
        *(here.system_identifier, here.timeline, stores.hop.name),
    )
    if reading is not None:
        undelivered_count = adopt_reads(stores.source, stores.hop, common, reading)
    found = ReanchorResult(
        hop=stores.hop.name,
        loss=loss,
        generation=generation,
        common_batch=common,
        arrived_batch=stores.arrived.batch,
        adopted_count=stores.arrived.log_position - common_position,
        ghosts=ghosts,
        held_indexes=_held_indexes(stores) if ghosts else (),
        undelivered_count=undelivered_count,
        removed_count=count_unpublished(stores),
    )
    _record(stores, found, anchor_seq, adopted_seqs)
    return found


def forget_what_was_delivered(stores: BothStores) -> int:
    """It is not known which messages of the outbox were in a lost batch: all messages that the destination has are adopted again.

    Returns the common batch, none: what an outbox has beside those is undelivered, whatever this ledger says.
    """
    is_dropped = stores.source.value(
        "select first_kept_seq > 1 and %s > %s from relaybox_internal.store",
        stores.head.log_position,
        stores.arrived.log_position,
    )
    if is_dropped:
        raise errors.HistoryLost(
            f"hop {stores.hop.name}: {stores.hop.destination.name} lost batches after batch {stores.arrived.batch} of which "
            f"{stores.hop.source.name} has no plan, and retention at {stores.hop.source.name} may have dropped messages of them.",
            next_step=f"Restore {stores.hop.destination.name} to a later time.",
        )
    stores.source.execute("update relaybox_internal.generation set adopted_seqs = '{}' where hop = %s", stores.hop.name)
    return 0


def _require_adoptable(stores: BothStores, common: int, common_position: int) -> None:
    """What is adopted must still be at the destination, and the ledgers must meet where both still begin."""
    destination = stores.destination.doing(f"asking what is kept of hop {stores.hop.name}")
    first_kept, compacted = destination.row(
        _Kept,
        "select first_kept_position, compacted_batch from relaybox_internal.hop_in where log_id = %s",
        stores.arrived.log_id,
    )
    destination.rollback()
    if stores.arrived.batch < stores.head.compacted_batch:
        raise errors.HistoryLost(
            f"hop {stores.hop.name}: {stores.hop.destination.name} lost batches {stores.arrived.batch + 1} to "
            f"{stores.head.compacted_batch}, and retention has dropped their messages at {stores.hop.source.name}.",
            next_step=f"Restore {stores.hop.destination.name} to a later time.",
        )
    if stores.arrived.batch > 0 and (
        first_kept > common_position + 1 or (common == 0 and max(compacted, stores.head.compacted_batch) > 0)
    ):
        raise errors.HistoryLost(
            f"hop {stores.hop.name}: the last position that both ledgers know is {common_position}, and "
            f"{stores.hop.destination.name} keeps messages only from position {first_kept} on: retention has dropped what is between.",
            next_step=f"Restore {stores.hop.source.name} to a later time.",
        )


def _fetch_adopted(stores: BothStores, common_position: int) -> None:
    """What the destination has beyond the common ledger, as a temporary table; a ghost until it is found here."""
    stores.source.execute(
        """
        create temporary table relaybox_adopted (
            "log_position" bigint, message_id uuid, sender text, epoch integer, index bigint, topic text, sent_at timestamptz,
            is_ghost boolean default true, reads bigint
        ) on commit drop
        """
    )
    columns = sql.SQL('"log_position", message_id, sender, epoch, "index", topic, sent_at')
    rows = sql.SQL(
        "copy (select {} from relaybox_internal.log where log_id = {} and log_position > {} and log_position <= {}) to stdout"
    ).format(columns, sql.Literal(stores.arrived.log_id), sql.Literal(common_position), sql.Literal(stores.arrived.log_position))
    pipe_sessions(
        stores.destination.doing(f"reading what hop {stores.hop.name} delivered"),
        rows,
        stores.source,
        sql.SQL("copy relaybox_adopted ({}) from stdin").format(columns),
        timeout_seconds=_COPY_SECONDS,
    )
    stores.destination.rollback()
    stores.source.execute("create index on relaybox_adopted (message_id)")
    stores.source.execute("analyze relaybox_adopted")


def _outbox_part(stores: BothStores, common: int) -> tuple[int, str | None, str, int]:
    """Anchor, first lower snapshot, seqs that the destination has, and the count of undelivered messages, which are the backlog now."""
    if stores.head.reads_log is not None:
        return 0, None, "{}", 0
    anchor_seq, lower = take_anchor(stores.source)
    stores.source.execute(
        """
        update relaybox_adopted a set is_ghost = false
        from relaybox_internal.sent_rows o where o.message_id = a.message_id and o.sent_at = a.sent_at
        """
    )
    backlog = stores.source.row(
        _Backlog, "select * from relaybox_internal.rebuild_backlog(%s, %s, %s, %s)", stores.hop.name, common, anchor_seq, lower
    )
    return anchor_seq, lower, backlog.adopted_seqs, backlog.undelivered_count


def _ghosts(stores: BothStores) -> tuple[Ghost, ...]:
    return tuple(
        stores.source.rows(
            Ghost,
            'select "log_position", message_id::text, sender, topic from relaybox_adopted where is_ghost order by "log_position"',
        )
    )


def _held_indexes(stores: BothStores) -> tuple[HeldIndexes, ...]:
    return tuple(stores.source.rows(HeldIndexes, "select * from relaybox_internal.find_held_indexes(%s)", stores.hop.name))


def _forget_after(stores: BothStores, common: int) -> None:
    """Plans that the destination never published, or published otherwise, are void; their rows count as undelivered."""
    stores.source.execute("delete from relaybox_internal.batch where hop = %s and batch > %s", stores.hop.name, common)
    stores.source.execute(
        "delete from relaybox_internal.confirmation where hop = %s and through_batch > %s", stores.hop.name, common
    )


def _adopt(stores: BothStores, common: int, generation: int, here: ClusterFingerprint) -> None:
    """Writes the destination's arrivals beyond the common ledger into this one, confirmed as received."""
    destination = stores.destination.doing(f"reading the arrivals of hop {stores.hop.name}")
    arrivals = destination.rows(
        _Arrival,
        """
        select batch, plan_id::text, first_position, last_position, row_count, published_at
        from relaybox_internal.arrival where log_id = %s and batch > %s order by batch
        """,
        *(stores.arrived.log_id, common),
    )
    destination.rollback()
    with stores.source.cursor() as cursor:
        execute_values(
            cursor,
            """
            insert into relaybox_internal.batch (
                hop, batch, plan_id, pair_exhausted, reads_after, reads_through, first_position, last_position, row_count, slices,
                system_identifier, timeline, next_xid, generation, adopted
            ) values %s
            """,
            [
                (
                    *(stores.hop.name, one.batch, one.plan_id, True),
                    *(0, 0),  # of a log: adopt_reads.sql
                    *(one.first_position, one.last_position, one.row_count, "[]"),
                    *(here.system_identifier, here.timeline, here.next_xid, generation, True),
                )
                for one in arrivals
            ],
        )
    if arrivals:
        newest = arrivals[-1]
        stores.source.execute(
            """
            insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
            values (%s, 'received', %s, %s, %s, 'reanchor')
            """,
            *(stores.hop.name, newest.last_position, newest.batch, newest.published_at),
        )


def _record(stores: BothStores, found: ReanchorResult, anchor_seq: int, adopted_seqs: str) -> None:
    stores.source.execute(
        """
        insert into relaybox_internal.generation (
            hop, generation, begun_by, reason, adopted_from, adopted_through, anchor_seq, adopted_seqs, undelivered_count, ghost_count
        ) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        """,
        *(found.hop, found.generation, stores.recorded_by, stores.reason, found.common_batch + 1, found.arrived_batch),
        *(anchor_seq, adopted_seqs, found.undelivered_count, len(found.ghosts)),
    )
    stores.source.execute(
        'delete from relaybox_internal.ghost where hop = %s and "log_position" > %s',
        found.hop,
        position_of(stores, found.common_batch),
    )
    stores.source.execute(
        """
        insert into relaybox_internal.ghost (hop, "log_position", generation, message_id, sender, topic, sent_at)
        select %s, a.log_position, %s, a.message_id, a.sender, a.topic, a.sent_at from relaybox_adopted a where a.is_ghost
        """,
        *(found.hop, found.generation),
    )
