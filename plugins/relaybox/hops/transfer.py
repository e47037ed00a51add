"""Runs a hop: resume or plan, copy, publish, confirm, until nothing is left to move.

Every step may be killed, repeated or run twice at once. A driver that finds itself superseded by a newer one leaves
the copying to it and waits until the batch has arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.hops.changed_readers import refuse_changed_readers
from relaybox.hops.confirmations import confirm_arrived, confirm_received
from relaybox.hops.copying import SliceCopied, slice_job
from relaybox.hops.delivering_beside import delivering_beside
from relaybox.hops.idle_hops import pass_idle_hops
from relaybox.hops.pace import BatchPace, poll_pause
from relaybox.hops.planning import AttemptOwner, CountedRest, Planned, plan_batch
from relaybox.hops.progress import progress_logged
from relaybox.hops.publishing import ask_destination, begin_generation, make_log_segments, publish_batch, read_set_aside
from relaybox.hops.sealing import NOTHING_NOTED, WritersNoted, seal_segments
from relaybox.hops.store_ids import require_same_stores
from relaybox.hops.undriven import find_undriven_hops
from relaybox.log_events import emit, warn
from relaybox.stores.opening import opened_store
from relaybox.stores.sessions.answer_limits import answering_within
from relaybox.streams.delivering import carry_senders, deliver_arrived
from relaybox.streams.topics import carry_topics, find_unknown_topics

if TYPE_CHECKING:
    from relaybox.hops.batches import Batch
    from relaybox.hops.planning import DestinationState
    from relaybox.hops.runners import SliceRunner
    from relaybox.hops.store_ids import StoreIds
    from relaybox.routes import Hop
    from relaybox.stores.sessions.store_session import StoreSession

SUPERSEDED_POLL_SECONDS = 0.2
SUPERSEDED_WAIT_SECONDS = 60.0
"""How long a superseded driver waits for the newer one before it takes the batch over again."""

DEMAND_SECONDS, REPEATED_DEMAND_SECONDS = 1.0, 0.5
"""How often a lingering driver looks for hops that wait for a driver; and again after a look that found some."""

SEGMENTS_SECONDS = 10.0
"""How often a driver that stays makes outbox segments ahead, and seals those that are full. Retention drops nothing of the overflow,
where messages go without them."""

IDLE_HOPS_SECONDS = 10.0
"""How often a driver that stays moves the hops on that have nothing to move."""

LOOKUP_SECONDS = 60.0
"""How long the source may take to answer a question about one hop."""


@dataclass(frozen=True)
class TransferSummary:
    """What one run of a hop did: this driver's batches and rows; `duration_seconds` includes lingering.

    `waiting_for_init` says, as the error of it, which topics of relaybox.yaml the store does not move yet; None if it moves all of them.
    """

    hop: str
    batch_count: int = 0
    row_count: int = 0
    byte_count: int = 0
    resumed_count: int = 0
    duration_seconds: float = 0.0
    moving_seconds: float = 0.0
    waiting_for_init: str | None = None

    @property
    def rows_per_second(self) -> float:
        return self.row_count / self.moving_seconds if self.moving_seconds else 0.0


@dataclass(frozen=True)
class Progress:
    """For progress bars: a batch was planned (`copied` 0), a slice was copied, or the batch was published."""

    hop: str
    batch: int
    row_count: int
    copied: int
    published: bool


def transfer_hop(
    hop: Hop,
    runner: SliceRunner,
    *,
    recorded_by: str,
    linger_seconds: float = 0.0,
    linger_at_most_seconds: float = 3600.0,
    is_slot_wanted: Callable[[Sequence[str]], bool] | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> TransferSummary:
    """Moves everything there is, and with `linger_seconds` what comes until nothing came for so long. Commits at every step.

    Opens one session to each store, and reopens nothing: a broken connection ends the run, and running it again resumes.

    Args:
        hop: the hop to run.
        runner: copies the slices.
        recorded_by: who does it, for the ledgers: a user, or a DAG run.
        linger_seconds: ends after this long without a message; 0 ends when the hop is empty.
        linger_at_most_seconds: ends then even if messages keep coming.
        is_slot_wanted: asked about once a second while it lingers, with the other hops of both stores that have work and no driver;
            True ends the run. None: the run ends for nobody.
        progress: called from this thread, a few times per batch.

    Raises:
        Terminal, Transient: see relaybox.errors. What was done stays done.
    """
    driver = f"relaybox {hop.name} driver"
    with (
        opened_store(hop.source, application_name=driver) as source,
        opened_store(hop.destination, application_name=driver) as destination,
    ):
        run = _Run(hop, runner, source, destination, recorded_by, progress, is_slot_wanted, TransferSummary(hop.name))
        return run.until_quiet(linger_seconds, linger_at_most_seconds)


class _Upstream(NamedTuple):
    """The log that a hop reads at its source, None: the outbox; and whether messages of the batch are set aside there by their schema."""

    log_id: int | None
    has_set_aside: bool


_UPSTREAM = """
select o.reads_log as log_id, exists (
    select from relaybox_internal.nonconforming_message n
    where n.log_id = o.reads_log and n.log_position between %s and %s and n.is_set_aside
) as has_set_aside
from relaybox_internal.hop_out o where o.hop = %s
"""


@dataclass
class _Run:
    """One driver: its two sessions, and the sums of what it did."""

    hop: Hop
    runner: SliceRunner
    source: StoreSession
    destination: StoreSession
    recorded_by: str
    progress: Callable[[Progress], None]
    is_slot_wanted: Callable[[Sequence[str]], bool] | None
    summary: TransferSummary
    rest: CountedRest | None = None
    is_delivery_due: bool = False  # the last batch is decided on while the slices of the next one are copied
    is_behind: bool = False
    demand_due_at: float = 0.0
    segments_due_at: float = 0.0
    idle_hops_due_at: float = 0.0
    writers_noted: WritersNoted = NOTHING_NOTED

    def until_quiet(self, linger_seconds: float, linger_at_most_seconds: float) -> TransferSummary:
        started = quiet_since = time.monotonic()
        for session in (self.source, self.destination):
            refuse_changed_readers(session)
        self._prepare_source()
        stores = require_same_stores(self.source, self.destination, self.hop, ask_destination(self.destination, self.hop))
        carry_topics(self.source, self.destination, self.hop)
        self._look_for_unknown_topics()
        arrived = self._confirm()
        carry_senders(self.source, self.destination, self.hop, log_id=arrived.log_id)
        deliver_arrived(self.destination, self.hop, log_id=arrived.log_id)
        pace = BatchPace()
        self.segments_due_at, self.idle_hops_due_at = started + SEGMENTS_SECONDS, started + IDLE_HOPS_SECONDS
        while True:
            moved = self._move_batch(stores)
            now = time.monotonic()
            self._look_after_source(now)
            if moved:
                quiet_since = now
                if linger_seconds == 0 or (self.is_behind and now - started < linger_at_most_seconds):
                    continue
                time.sleep(pace.pause_after_batch(now))
            if now - quiet_since >= linger_seconds or now - started >= linger_at_most_seconds:
                break
            if self._wait_for_work(quiet_since, min(quiet_since + linger_seconds, started + linger_at_most_seconds)):
                break
        if self.is_delivery_due:
            self._deliver(arrived.log_id)
        self._leave_source()
        self.summary = replace(self.summary, duration_seconds=time.monotonic() - started)
        emit(
            "transfer_done",
            hop=self.hop.name,
            batches=self.summary.batch_count,
            rows=self.summary.row_count,
            rows_per_second=round(self.summary.rows_per_second),
            duration_seconds=self.summary.duration_seconds,
        )
        return self.summary

    def _look_for_unknown_topics(self) -> None:
        error = find_unknown_topics(self.source, self.hop)
        if error is not None:
            warn("topics_unknown", hop=self.hop.name, warning=str(error))
            self.summary = replace(self.summary, waiting_for_init=str(error))

    def _move_batch(self, stores: StoreIds) -> bool:
        started = time.monotonic()
        arrived = ask_destination(self.destination, self.hop)
        planned = self._plan(arrived)
        if planned is None:
            if self.is_delivery_due:
                self._deliver(arrived.log_id)
            return False
        try:
            if arrived.generation < planned.batch.generation:
                begin_generation(self.destination, self.hop, log_id=arrived.log_id, generation=planned.batch.generation)
            reads = self._ask_upstream(planned.batch)
            byte_count = self._copy(planned, arrived.log_id, stores, reads.log_id)
            carry_senders(self.source, self.destination, self.hop, log_id=arrived.log_id)
            set_aside = (
                read_set_aside(self.source, self.hop, planned.batch, reads.log_id)
                if reads.log_id is not None and reads.has_set_aside
                else ()
            )
            arrival = publish_batch(self.destination, self.hop, planned.batch, log_id=arrived.log_id, set_aside=set_aside)
        except (errors.SliceSuperseded, errors.StoreUnreachable, errors.StoreBusy, errors.SliceMissing) as error:
            self._end_transactions()
            if self.source.closed or not self._superseded(planned):
                raise
            self._leave_to_newer_driver(planned, error)
            return True
        seconds = time.monotonic() - started
        batch = planned.batch
        self.is_behind = batch.row_count >= self.hop.limits.batch_rows
        emit(
            "batch_published",
            hop=self.hop.name,
            batch=batch.batch,
            rows=batch.row_count,
            log_positions=f"{batch.first_position}-{batch.last_position}",
            slices=len(batch.slices),
            duration_seconds=seconds,
            rows_per_second=round(batch.row_count / seconds),
        )
        self.progress(Progress(self.hop.name, batch.batch, batch.row_count, batch.row_count, published=True))
        self.is_delivery_due = True
        if not planned.leaves_more:
            # before it is confirmed: a driver that dies here leaves a hop that has work
            self._deliver(arrived.log_id)
        confirm_received(self.source, self.hop, arrival, destination_id=stores.destination, recorded_by=self.recorded_by)
        self.summary = replace(
            self.summary,
            batch_count=self.summary.batch_count + 1,
            row_count=self.summary.row_count + batch.row_count,
            byte_count=self.summary.byte_count + byte_count,
            resumed_count=self.summary.resumed_count + planned.resumed,
            moving_seconds=self.summary.moving_seconds + seconds,
        )
        return True

    def _plan(self, arrived: DestinationState) -> Planned | None:
        """Plans; when another driver has published meanwhile, confirms that and plans after it."""
        for _ in range(3):
            try:
                planned = plan_batch(self.source, self.hop, arrived, driver=self._driver(), rest=self.rest)
            except errors.PlanRefused:
                arrived = self._confirm()
            except errors.HistoryLost:
                # a driver that slept since it asked has an old answer: only a fresh one proves that history is lost
                told_before, arrived = arrived, ask_destination(self.destination, self.hop)
                if arrived == told_before:
                    raise
            else:
                self.rest = planned.rest if planned else None
                return planned
        return plan_batch(self.source, self.hop, arrived, driver=self._driver())

    def _driver(self) -> AttemptOwner:
        return AttemptOwner(self.recorded_by, self.runner.application)

    def _copy(self, planned: Planned, log_id: int, stores: StoreIds, reads_log: int | None) -> int:
        batch = planned.batch
        emit(
            "batch_resumed" if planned.resumed else "batch_planned",
            hop=self.hop.name,
            batch=batch.batch,
            rows=batch.row_count,
            log_positions=f"{batch.first_position}-{batch.last_position}",
            slices=len(batch.slices),
            attempt=planned.attempt,
        )
        self.progress(Progress(self.hop.name, batch.batch, batch.row_count, 0, published=False))
        make_log_segments(self.destination, self.hop, log_id=log_id, through_position=batch.last_position)
        job = slice_job(self.hop, batch, stores=stores, attempt=planned.attempt, log_id=log_id, reads_log=reads_log)
        copied = byte_count = 0
        deliver = (lambda: self._deliver(log_id)) if self.is_delivery_due else None
        with progress_logged(self.hop, batch, log_id=log_id), delivering_beside(deliver):
            for report in self.runner.copy_slices(job, batch.slices):
                copied += report.row_count
                byte_count += report.byte_count
                self._report(batch.batch, report)
                self.progress(Progress(self.hop.name, batch.batch, batch.row_count, copied, published=False))
        return byte_count

    def _deliver(self, log_id: int) -> None:
        deliver_arrived(self.destination, self.hop, log_id=log_id)
        self.is_delivery_due = False

    def _report(self, batch: int, report: SliceCopied) -> None:
        emit(
            "slice_copied" if report.found == "open" else "slice_found",
            hop=self.hop.name,
            batch=batch,
            slice=report.slice,
            rows=report.row_count,
            state="copied" if report.found == "open" else report.found,
            megabytes=report.byte_count / 1e6,
            piped_by=report.piped_by or "nothing",
            duration_seconds=report.seconds,
        )

    def _ask_upstream(self, batch: Batch) -> _Upstream:
        source = self.source.doing(f"running hop {self.hop.name}")
        with answering_within(source.connection, LOOKUP_SECONDS), source.autocommitting():
            return source.row(_Upstream, _UPSTREAM, batch.slices[0].first_read, batch.slices[-1].last_read, self.hop.name)

    def _prepare_source(self) -> None:
        """Makes outbox segments ahead, so that producers never meet the overflow, and seals full ones. Commits each."""
        source = self.source.doing("making outbox segments")
        source.call("relaybox_internal.ensure_outbox_segments")
        source.reach("outbox_segments.made")
        source.commit("outbox_segments")
        self._seal_segments()

    def _look_after_source(self, now: float) -> None:
        """What a driver that stays does from time to time for the outbox and for other hops."""
        if now >= self.segments_due_at:
            self._prepare_source()
            self.segments_due_at = now + SEGMENTS_SECONDS
        if now >= self.idle_hops_due_at:
            pass_idle_hops(self.source, beside=self.hop.name)
            self.idle_hops_due_at = now + IDLE_HOPS_SECONDS

    def _leave_source(self) -> None:
        if self.writers_noted.is_waiting:
            self._seal_segments()
        pass_idle_hops(self.source, beside=self.hop.name)

    def _seal_segments(self) -> None:
        self.writers_noted = seal_segments(self.source, self.writers_noted)

    def _confirm(self) -> DestinationState:
        return confirm_arrived(self.source, self.destination, self.hop, recorded_by=self.recorded_by)

    def _end_transactions(self) -> None:
        """A failed statement left its session in an aborted transaction, where every question would fail as well."""
        for session in (self.source, self.destination):
            if not session.closed:
                session.doing(f"running hop {self.hop.name}").rollback()

    def _superseded(self, planned: Planned) -> bool:
        return self._ask_source("select attempt from relaybox_internal.hop_out where hop = %s") != planned.attempt

    def _leave_to_newer_driver(self, planned: Planned, error: errors.RelayboxError) -> None:
        """Waits until the newer driver has the batch arrived; after a while the caller's loop takes it over again."""
        emit("driver_superseded", hop=self.hop.name, batch=planned.batch.batch, attempt=planned.attempt, reason=error)
        deadline = time.monotonic() + SUPERSEDED_WAIT_SECONDS
        while time.monotonic() < deadline:
            if self._confirm().batch >= planned.batch.batch:
                return
            time.sleep(SUPERSEDED_POLL_SECONDS)

    def _wait_for_work(self, quiet_since: float, deadline: float) -> bool:
        """Returns whether it ended because the slot is wanted."""
        while not self._leaves_slot():
            if self._ask_source("select relaybox_internal.hop_has_work(%s)") or time.monotonic() >= deadline:
                return False
            time.sleep(poll_pause(time.monotonic() - quiet_since))
        return True

    def _leaves_slot(self) -> bool:
        if self.is_slot_wanted is None or time.monotonic() < self.demand_due_at:
            return False
        hops = []
        for session in (self.source, self.destination):
            with answering_within(session.connection, LOOKUP_SECONDS):
                hops += find_undriven_hops(session, self.hop)
        self.demand_due_at = time.monotonic() + (REPEATED_DEMAND_SECONDS if hops else DEMAND_SECONDS)
        return self.is_slot_wanted(hops)

    def _ask_source(self, query: str) -> object:
        """One value from the source, in one round trip: a lookup, which a frozen server does not hold up for long."""
        source = self.source.doing(f"running hop {self.hop.name}")
        with answering_within(source.connection, LOOKUP_SECONDS), source.autocommitting():
            answer: object = source.value(query, self.hop.name)
        return answer
