"""A hop whose source or destination lost history goes on: nothing that still exists is left out, nothing is sent twice.

Two cases. The destination went back: the source's batches are immutable, so the lost ones are sent again, to the same
positions. The source went back, or was dumped and reloaded: the hop begins a new generation. What the destination has beyond
the common ledger is adopted, message by message: those that the source lost are kept and listed as ghosts. What was not
delivered comes first in the new generation; new pairs of snapshots begin above an anchor in `seq`.

If both went back, the destination may have lost batches of which the source has no plan, since it had adopted them: then too a new
generation begins, and what the source still has of them is sent again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg2
from psycopg2 import sql
from psycopg2.extras import NamedTupleCursor, execute_values

from relaybox import errors
from relaybox.events import emit
from relaybox.failpoints import reach
from relaybox.hops.publishing import ask_destination, begin_generation
from relaybox.recovery.log_adoption import adopt_reads, match_log
from relaybox.stores.connections import commit_durably, one_row, store_errors
from relaybox.stores.pipe import pipe_copy
from relaybox.stores.schema import open_store

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.hops.planning import Arrived
    from relaybox.routes import Hop, Routes

_COPY_SECONDS = 3600.0
_LOCK_ATTEMPTS, _LOCK_MILLISECONDS, _LOCK_PAUSE_SECONDS = 20, 200, 0.3


@dataclass(frozen=True)
class Ghost:
    """A message that the destination has and the source lost."""

    position: int
    message_id: str
    sender: str
    topic: str


@dataclass(frozen=True)
class Reanchored:
    """What was found, and what is done about it (or would be).

    Attributes:
        loss: who lost history; `nobody` when the ledgers agree and nothing is to be done; `both` when the destination lost what the
            source had adopted.
        common_batch: the newest batch that both ledgers know as the same.
        arrived_batch: the newest batch that the destination has.
        adopted_count: messages at the destination that the source's ledger does not know.
        ghosts: those of them that the source does not have either.
        undelivered_count: messages of the outbox, or of the log that the hop reads, that the new generation delivers first.
        resend_count: batches that are sent again because the destination lost them.
    """

    hop: str
    loss: Literal["nobody", "source", "destination", "both"]
    generation: int
    common_batch: int
    arrived_batch: int
    adopted_count: int = 0
    ghosts: tuple[Ghost, ...] = ()
    undelivered_count: int = 0
    resend_count: int = 0


def reanchor_hop(hop: Hop, routes: Routes, *, recorded_by: str, reason: str, dry_run: bool) -> Reanchored:
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
        closing(open_store(hop.source, application_name=name)) as source,
        closing(open_store(hop.destination, application_name=name)) as destination,
    ):
        arrived = ask_destination(destination, hop)
        with store_errors(hop.source.name, f"reanchoring hop {hop.name}"), _transaction(source, hop) as (cursor, head):
            found = _Stores(hop, routes, source, destination, cursor, head, arrived).compare(recorded_by, reason)
            if dry_run or found.loss == "nobody":
                source.rollback()
                return found
            reach("reanchor.recorded", source)
            commit_durably(source, "reanchor")
        if found.loss in ("source", "both"):
            begin_generation(destination, hop, log_id=arrived.log_id, generation=found.generation)
    emit(
        "hop_reanchored",
        hop=hop.name,
        loss=found.loss,
        generation=found.generation,
        common_batch=found.common_batch,
        arrived_batch=found.arrived_batch,
        adopted=found.adopted_count,
        ghosts=len(found.ghosts),
        undelivered=found.undelivered_count,
        resend_batches=found.resend_count,
    )
    return found


@contextmanager
def _transaction(source: Connection, hop: Hop) -> Iterator[tuple[Any, Any]]:
    """A transaction that holds the hop's row; rolled back unless it was committed."""
    try:
        with source.cursor(cursor_factory=NamedTupleCursor) as cursor:
            cursor.execute("select relaybox.require_writable_primary()")
            cursor.execute("set local synchronous_commit = on")
            cursor.execute("select * from relaybox.hop_out where hop = %s for update", (hop.name,))
            head = one_row(cursor)
            if head is None:
                raise errors.UnknownHop(f"hop {hop.name} does not leave store {hop.source.name}.", next_step="Run: relaybox init")
            yield cursor, head
    finally:
        if not source.closed:
            source.rollback()


@dataclass(frozen=True)
class _Stores:
    """Both stores of a hop, within the transaction that holds its row at the source."""

    hop: Hop
    routes: Routes
    source: Connection
    destination: Connection
    cursor: Any
    head: Any
    arrived: Arrived

    def compare(self, recorded_by: str, reason: str) -> Reanchored:
        common = self._common_batch()
        self.cursor.execute("select * from relaybox.cluster_fingerprint()")
        here = one_row(self.cursor)
        moved = (here.system_identifier, here.timeline) != (
            self.head.system_identifier,
            self.head.timeline,
        ) or self._is_reloaded()
        behind = self.head.generation < self.arrived.generation
        if common == self.arrived.batch and not moved and not behind and not self._staged_of_lost_plans():
            if not self._lost_adopted_batches():
                return self._resend(common)
            if self.head.reads_log is None:
                common = self._forget_what_was_delivered()
            return self._begin(common, here, recorded_by, reason, loss="both")
        return self._begin(common, here, recorded_by, reason)

    def _is_reloaded(self) -> bool:
        """Whether the hop's frontier is in transaction numbers of another cluster, or of an earlier time of this one."""
        self.cursor.execute(
            "select relaybox.is_reloaded() or numbering <> %s as moved from relaybox.numbering", (self.head.numbering,)
        )
        return self.head.reads_log is None and bool(one_row(self.cursor).moved)

    def _common_batch(self) -> int:
        """The newest batch with the same plan on both sides: from there back the two ledgers are one.

        Of the last batch that retention removed from a ledger the plan is still known.
        """
        self.cursor.execute(
            "select batch, plan_id::text from relaybox.batch where hop = %s and batch <= %s", (self.hop.name, self.arrived.batch)
        )
        planned = dict(self.cursor.fetchall())
        if self.head.compacted_plan_id is not None:
            planned[self.head.compacted_batch] = str(self.head.compacted_plan_id)
        with store_errors(self.hop.destination.name, f"reading the arrivals of hop {self.hop.name}"):
            with self.destination.cursor() as cursor:
                cursor.execute(
                    "select batch, plan_id::text from relaybox.arrival where hop_id = %s order by batch desc",
                    (self.arrived.log_id,),
                )
                common = next((batch for batch, plan_id in cursor if planned.get(batch) == plan_id), 0)
                cursor.execute(
                    "select compacted_batch, compacted_plan_id::text from relaybox.hop_in where hop_id = %s",
                    (self.arrived.log_id,),
                )
                removed_batch, removed_plan_id = one_row(cursor)
            self.destination.rollback()
        if not common and removed_plan_id is not None and planned.get(removed_batch) == removed_plan_id:
            return int(removed_batch)
        return int(common)

    def _staged_of_lost_plans(self) -> bool:
        """Whether the destination holds unpublished slices of a plan that is not in the source's ledger."""
        self.cursor.execute(
            "select batch, plan_id::text from relaybox.batch where hop = %s and batch > %s", (self.hop.name, self.arrived.batch)
        )
        planned = {tuple(row) for row in self.cursor.fetchall()}
        with store_errors(self.hop.destination.name, f"reading the receipts of hop {self.hop.name}"):
            with self.destination.cursor() as cursor:
                cursor.execute(
                    "select distinct batch, plan_id::text from relaybox.receipt where hop_id = %s and batch > %s",
                    (self.arrived.log_id, self.arrived.batch),
                )
                staged = set(cursor.fetchall())
            self.destination.rollback()
        return not staged <= planned

    def _resend(self, common: int) -> Reanchored:
        self.cursor.execute(
            """
            select coalesce((select c.through_batch from relaybox.newest_confirmation(%s, 'received') c), 0) as received
            """,
            (self.hop.name,),
        )
        received = one_row(self.cursor).received
        if received <= self.arrived.batch:
            return Reanchored(self.hop.name, "nobody", self.head.generation, common, self.arrived.batch)
        self._require_kept(self.arrived.batch + 1, received)
        self.cursor.execute(
            "update relaybox.hop_out set resend_through = %s, resend_after = %s where hop = %s",
            (received, self.arrived.batch, self.hop.name),
        )
        return Reanchored(
            self.hop.name,
            "destination",
            self.head.generation,
            common,
            self.arrived.batch,
            resend_count=received - self.arrived.batch,
        )

    def _require_kept(self, first: int, last: int) -> None:
        """What is sent again must still be here: retention may have dropped it."""
        self.cursor.execute(
            """
            select count(*) = %s - %s + 1 and coalesce(bool_and(not exists (
                select from relaybox.batch_slices(b.slices) s where s.first_read < kept.first_read
            )), true) as is_kept
            from relaybox.batch b
            cross join lateral relaybox.first_kept_read(b.hop) kept (first_read)
            where b.hop = %s and b.batch between %s and %s
            """,
            (last, first, self.hop.name, first, last),
        )
        if not one_row(self.cursor).is_kept:
            raise errors.HistoryLost(
                f"hop {self.hop.name}: {self.hop.destination.name} lost batches {first} to {last}, and retention has dropped messages "
                f"of them at {self.hop.source.name}.",
                next_step=f"Restore {self.hop.destination.name} to a later time; see: relaybox retention --dry-run {self.hop.source.name}",
            )

    def _lost_adopted_batches(self) -> bool:
        """Whether the destination lost batches whose plan the source does not know: they can't be sent again as they were."""
        self.cursor.execute(
            "select exists (select from relaybox.batch where hop = %s and batch > %s and adopted) as lost",
            (self.hop.name, self.arrived.batch),
        )
        return bool(one_row(self.cursor).lost)

    def _forget_what_was_delivered(self) -> int:
        """Nobody knows which messages of the outbox were in a lost batch: all that the destination has is adopted anew.

        Returns the common batch, none: what an outbox has beside those is undelivered, whatever this ledger says.
        """
        self.cursor.execute(
            "select first_kept_seq > 1 and %s > %s as is_dropped from relaybox.store",
            (self.head.position, self.arrived.position),
        )
        if one_row(self.cursor).is_dropped:
            raise errors.HistoryLost(
                f"hop {self.hop.name}: {self.hop.destination.name} lost batches after batch {self.arrived.batch} of which "
                f"{self.hop.source.name} has no plan, and retention at {self.hop.source.name} may have dropped messages of them.",
                next_step=f"Restore {self.hop.destination.name} to a later time.",
            )
        self.cursor.execute("update relaybox.generation set adopted_seqs = '{}' where hop = %s", (self.hop.name,))
        return 0

    def _begin(
        self, common: int, here: Any, recorded_by: str, reason: str, *, loss: Literal["source", "both"] = "source"
    ) -> Reanchored:
        generation = max(self.head.generation, self.arrived.generation) + 1
        common_position = self._position_of(common)
        self._require_adoptable(common, common_position)
        self._fetch_adopted(common_position)
        reading = match_log(self.cursor, self.hop, self.routes, common) if self.head.reads_log is not None else None
        anchor_seq, lower, adopted_seqs, undelivered_count = self._outbox_part(common)
        ghosts = self._ghosts()
        self._forget_after(common)
        self._adopt(common, generation, here)
        self.cursor.execute(
            """
            update relaybox.hop_out
            set generation = %s, batch = %s, position = %s, resend_through = 0, anchor_seq = %s, lower = %s,
                system_identifier = %s, timeline = %s, attempt = attempt + 1, numbering = (select numbering from relaybox.numbering)
            where hop = %s
            """,
            (
                *(generation, self.arrived.batch, self.arrived.position, anchor_seq, lower),
                *(here.system_identifier, here.timeline, self.hop.name),
            ),
        )
        if reading is not None:
            undelivered_count = adopt_reads(self.cursor, self.hop, common, reading)
        found = Reanchored(
            hop=self.hop.name,
            loss=loss,
            generation=generation,
            common_batch=common,
            arrived_batch=self.arrived.batch,
            adopted_count=self.arrived.position - common_position,
            ghosts=ghosts,
            undelivered_count=undelivered_count,
        )
        self._record(found, anchor_seq, adopted_seqs, recorded_by, reason)
        return found

    def _require_adoptable(self, common: int, common_position: int) -> None:
        """What is adopted must still be at the destination, and the ledgers must meet where both still begin."""
        with store_errors(self.hop.destination.name, f"asking what is kept of hop {self.hop.name}"):
            with self.destination.cursor() as cursor:
                cursor.execute(
                    "select first_kept_position, compacted_batch from relaybox.hop_in where hop_id = %s", (self.arrived.log_id,)
                )
                first_kept, compacted = one_row(cursor)
            self.destination.rollback()
        if self.arrived.batch < self.head.compacted_batch:
            raise errors.HistoryLost(
                f"hop {self.hop.name}: {self.hop.destination.name} lost batches {self.arrived.batch + 1} to {self.head.compacted_batch}, "
                f"and retention has dropped their messages at {self.hop.source.name}.",
                next_step=f"Restore {self.hop.destination.name} to a later time.",
            )
        if self.arrived.batch > 0 and (
            first_kept > common_position + 1 or (common == 0 and max(compacted, self.head.compacted_batch) > 0)
        ):
            raise errors.HistoryLost(
                f"hop {self.hop.name}: the last position that both ledgers know is {common_position}, and "
                f"{self.hop.destination.name} keeps messages only from position {first_kept} on: retention has dropped what is between.",
                next_step=f"Restore {self.hop.source.name} to a later time.",
            )

    def _position_of(self, batch: int) -> int:
        if batch == self.head.compacted_batch:
            return int(self.head.compacted_position)
        self.cursor.execute("select last_position from relaybox.batch where hop = %s and batch = %s", (self.hop.name, batch))
        row = one_row(self.cursor)
        return 0 if row is None else int(row.last_position)

    def _fetch_adopted(self, common_position: int) -> None:
        """What the destination has beyond the common ledger, as a temporary table; a ghost until it is found here."""
        self.cursor.execute(
            """
            create temporary table relaybox_adopted (
                "position" bigint, message_id uuid, sender text, topic text, sent_at timestamptz, is_ghost boolean default true,
                reads bigint
            ) on commit drop
            """
        )
        columns = sql.SQL('"position", message_id, sender, topic, sent_at')
        rows = sql.SQL(
            "copy (select {} from relaybox.log where hop_id = {} and position > {} and position <= {}) to stdout"
        ).format(columns, sql.Literal(self.arrived.log_id), sql.Literal(common_position), sql.Literal(self.arrived.position))
        pipe_copy(
            self.destination,
            rows,
            self.source,
            sql.SQL("copy relaybox_adopted ({}) from stdin").format(columns),
            timeout_seconds=_COPY_SECONDS,
        )
        self.destination.rollback()
        self.cursor.execute("create index on relaybox_adopted (message_id)")
        self.cursor.execute("analyze relaybox_adopted")

    def _outbox_part(self, common: int) -> tuple[int, str | None, str, int]:
        """Anchor, first lower snapshot, seqs that the destination has, and the count of undelivered messages, which are the backlog now."""
        if self.head.reads_log is not None:
            return 0, None, "{}", 0
        anchor_seq, lower = self._take_anchor()
        self.cursor.execute(
            """
            update relaybox_adopted a set is_ghost = false
            from relaybox.outbox o where o.message_id = a.message_id and o.sent_at = a.sent_at
            """
        )
        self.cursor.execute("select * from relaybox.rebuild_backlog(%s, %s, %s, %s)", (self.hop.name, common, anchor_seq, lower))
        backlog = one_row(self.cursor)
        return anchor_seq, lower, backlog.adopted_seqs, backlog.undelivered_count

    def _take_anchor(self) -> tuple[int, str]:
        """The last seq that anybody took, and a snapshot, at a moment when no open transaction had written to the outbox."""
        self._lock_outbox()
        self.cursor.execute("select relaybox.last_outbox_seq() as seq, pg_current_snapshot()::text as lower")
        anchor = one_row(self.cursor)
        self.cursor.execute("rollback to savepoint anchor")  # producers go on
        # what is written from here on names its own transaction again, not a part of it (record_anchor.sql)
        self.cursor.execute("release savepoint anchor")
        self.cursor.execute("select relaybox.record_anchor(%s)", (anchor.seq,))
        return anchor.seq, anchor.lower

    def _lock_outbox(self) -> None:
        """Waits for open writers, but never so long that producers, who queue behind this lock, would notice."""
        self.cursor.execute("set local lock_timeout = %s", (f"{_LOCK_MILLISECONDS}ms",))
        for attempt in range(1, _LOCK_ATTEMPTS + 1):
            self.cursor.execute("savepoint anchor")
            try:
                self.cursor.execute("lock table relaybox.outbox in exclusive mode")
            except psycopg2.errors.LockNotAvailable:
                if attempt == _LOCK_ATTEMPTS:
                    raise
                self.cursor.execute("rollback to savepoint anchor")
                time.sleep(_LOCK_PAUSE_SECONDS)
            else:
                return

    def _ghosts(self) -> tuple[Ghost, ...]:
        self.cursor.execute(
            'select "position", message_id::text, sender, topic from relaybox_adopted where is_ghost order by "position"'
        )
        return tuple(Ghost(*row) for row in self.cursor.fetchall())

    def _forget_after(self, common: int) -> None:
        """Plans that the destination never published, or published otherwise, are void; their rows count as undelivered."""
        self.cursor.execute("delete from relaybox.batch where hop = %s and batch > %s", (self.hop.name, common))
        self.cursor.execute("delete from relaybox.confirmation where hop = %s and through_batch > %s", (self.hop.name, common))

    def _adopt(self, common: int, generation: int, here: Any) -> None:
        """Writes the destination's arrivals beyond the common ledger into this one, confirmed as received."""
        with store_errors(self.hop.destination.name, f"reading the arrivals of hop {self.hop.name}"):
            with self.destination.cursor() as cursor:
                cursor.execute(
                    """
                    select batch, plan_id::text, first_position, last_position, row_count, published_at
                    from relaybox.arrival where hop_id = %s and batch > %s order by batch
                    """,
                    (self.arrived.log_id, common),
                )
                arrivals = cursor.fetchall()
            self.destination.rollback()
        execute_values(
            self.cursor,
            """
            insert into relaybox.batch (
                hop, batch, plan_id, pair_exhausted, reads_after, reads_through, first_position, last_position, row_count, slices,
                system_identifier, timeline, next_xid, generation, adopted
            ) values %s
            """,
            [
                (
                    *(self.hop.name, batch, plan_id, True),
                    *(0, 0),  # of a log: adopt_reads.sql
                    *(first, last, row_count, "[]", here.system_identifier, here.timeline, here.next_xid, generation, True),
                )
                for batch, plan_id, first, last, row_count, _ in arrivals
            ],
        )
        if arrivals:
            batch, _, _, last, _, published_at = arrivals[-1]
            self.cursor.execute(
                """
                insert into relaybox.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)
                values (%s, 'received', %s, %s, %s, 'reanchor')
                """,
                (self.hop.name, last, batch, published_at),
            )

    def _record(self, found: Reanchored, anchor_seq: int, adopted_seqs: str, recorded_by: str, reason: str) -> None:
        self.cursor.execute(
            """
            insert into relaybox.generation (
                hop, generation, begun_by, reason, adopted_from, adopted_through, anchor_seq, adopted_seqs, undelivered_count, ghost_count
            ) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,
            (
                *(found.hop, found.generation, recorded_by, reason, found.common_batch + 1, found.arrived_batch),
                *(anchor_seq, adopted_seqs, found.undelivered_count, len(found.ghosts)),
            ),
        )
        self.cursor.execute(
            'delete from relaybox.ghost where hop = %s and "position" > %s', (found.hop, self._position_of(found.common_batch))
        )
        self.cursor.execute(
            """
            insert into relaybox.ghost (hop, "position", generation, message_id, sender, topic, sent_at)
            select %s, a.position, %s, a.message_id, a.sender, a.topic, a.sent_at from relaybox_adopted a where a.is_ghost
            """,
            (found.hop, found.generation),
        )
