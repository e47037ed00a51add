"""Step 2 of a hop: copy one slice, as bytes, in one destination transaction.

Runs on a Spark executor or a thread; any number of times, in any order, by anyone. Rows are never decoded: the
source's binary COPY is piped into the destination's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg2
from psycopg2 import sql

from relaybox import errors
from relaybox.hops.batches import Batch, Slice
from relaybox.hops.slice_sessions import SliceSessions
from relaybox.stores.binary_copy.log_rows import COLUMN_LIST
from relaybox.stores.binary_copy.pipe import Piped, pipe_sessions
from relaybox.stores.sessions.connections import connect, translate
from relaybox.stores.sessions.lock_holders import naming_lock_holders
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.hops.store_ids import StoreIds
    from relaybox.routes import Hop

_LONGEST_HOP_IN_NAME = 30


@dataclass(frozen=True)
class SliceJob:
    """All that a slice's task needs besides its slice. Small and picklable; names services, holds no secret.

    Attributes:
        source_id, destination_id: of the stores that the driver's sessions lead to; each worker asks whether its own lead there too.
    """

    hop: str
    source: str
    source_service: str
    source_id: str
    destination: str
    destination_service: str
    destination_id: str
    generation: int
    batch: int
    plan_id: UUID
    attempt: int
    log_id: int  # log at the destination
    reads_log: int | None  # log at the source; None: its outbox
    topics: tuple[str, ...] | None
    lower: str | None
    upper: str | None
    digests: tuple[str, ...] | None  # of the slices, in their order
    timeout_seconds: float


@dataclass(frozen=True)
class SliceCopied:
    """Report of one slice.

    Attributes:
        found: what was done: copied now (open), or copied or published earlier by another attempt.
        piped_by: how it was copied now: in whole frames, or in rows where TLS or GSS encrypts a session.
    """

    slice: int
    row_count: int
    byte_count: int
    seconds: float
    found: str  # open | copied | published
    piped_by: str | None = None  # frames | rows


def slice_job(hop: Hop, batch: Batch, *, stores: StoreIds, attempt: int, log_id: int, reads_log: int | None) -> SliceJob:
    """The job for a batch of a hop."""
    return SliceJob(
        hop=hop.name,
        source=hop.source.name,
        source_service=hop.source.service,
        source_id=stores.source,
        destination=hop.destination.name,
        destination_service=hop.destination.service,
        destination_id=stores.destination,
        generation=batch.generation,
        batch=batch.batch,
        plan_id=batch.plan_id,
        attempt=attempt,
        log_id=log_id,
        reads_log=reads_log,
        topics=batch.topics,
        lower=batch.lower,
        upper=batch.upper,
        digests=batch.digests,
        timeout_seconds=hop.limits.slice_timeout_seconds,
    )


def session_name(job: SliceJob, slice_: Slice) -> str:
    """By this name newer attempts find the sessions of older ones (end_older_attempts.sql, hop_in_session_name.sql); at most 63 bytes."""
    hop = job.hop
    if len(hop) > _LONGEST_HOP_IN_NAME:
        hop = f"{hop[:17]}~{hashlib.md5(hop.encode(), usedforsecurity=False).hexdigest()[:12]}"
    return f"relaybox {hop} b{job.batch} s{slice_.slice} a{job.attempt}"


def copy_slice(job: SliceJob, slice_: Slice, sessions: SliceSessions | None = None) -> SliceCopied:
    """Copies one slice and writes its receipt, in one transaction of the destination. Commits.

    A slice that already has its receipt is left as it is. Called once per slice and attempt, on an executor.
    `sessions` lends the two sessions; without it they are opened for this slice alone.

    Raises:
        HistoryLost: a connection of this worker leads to another database than the driver's, or to another copy of the source.
        ContentDiffers: the source gave another number of rows than planned, or other content where the plan has digests;
            nothing is kept.
        SliceSuperseded: the batch was published meanwhile, or a newer attempt ended this session.
        StoreBusy, StoreUnreachable: a retry may help.
    """
    started = time.monotonic()
    sessions = sessions or SliceSessions()
    with _lent(sessions, job.destination, job.destination_service, job, slice_) as destination:
        try:
            with naming_lock_holders(destination):
                destination.call("relaybox_internal.require_store", job.destination_id)
                found = _slice_state(destination, job, slice_)
                if found != "open":
                    return SliceCopied(slice_.slice, slice_.row_count, 0, time.monotonic() - started, found)
                destination.reach("slice.begin")
                piped = _copy_rows(sessions, destination, job, slice_)
                return SliceCopied(slice_.slice, piped.row_count, piped.byte_count, time.monotonic() - started, found, piped.unit)
        except psycopg2.errors.UniqueViolation as error:
            return replace(_after_collision(destination, job, slice_, error), seconds=time.monotonic() - started)


def copy_slices_in_turn(job: SliceJob, slices: Sequence[Slice]) -> tuple[list[SliceCopied], errors.RelayboxError | None]:
    """Copies slices one after the other in the same sessions, for a task of Spark.

    Returns:
        The reports, and the error of ours that ended it before the last slice, if one did.
    """
    reports: list[SliceCopied] = []
    with closing(SliceSessions(keep=1)) as sessions:
        for slice_ in slices:
            try:
                reports.append(copy_slice(job, slice_, sessions))
            except errors.RelayboxError as error:
                return reports, error
    return reports, None


def _lent(
    sessions: SliceSessions, store: str, service: str, job: SliceJob, slice_: Slice
) -> AbstractContextManager[StoreSession]:
    name, activity = session_name(job, slice_), f"copying slice {slice_.slice} of batch {job.batch} of hop {job.hop}"

    def open_session() -> StoreSession:
        connection = connect(service, application_name=name, statement_timeout_seconds=job.timeout_seconds)
        return StoreSession(connection, store, activity)

    return sessions.lend(service, name=name, activity=activity, open_session=open_session)


def _slice_state(destination: StoreSession, job: SliceJob, slice_: Slice) -> str:
    state = destination.call("relaybox_internal.slice_state", job.log_id, job.batch, slice_.slice, str(job.plan_id))
    destination.rollback()
    return str(state)


def _after_collision(
    destination: StoreSession, job: SliceJob, slice_: Slice, error: psycopg2.errors.UniqueViolation
) -> SliceCopied:
    """Rows of this slice are there already: fine only if a receipt says that this very plan put them there."""
    destination.rollback()
    found = _slice_state(destination, job, slice_)
    if found == "open":
        raise translate(error, store=destination.store, doing=destination.activity) from error
    return SliceCopied(slice_.slice, slice_.row_count, 0, 0.0, found)


def _copy_rows(sessions: SliceSessions, destination: StoreSession, job: SliceJob, slice_: Slice) -> Piped:
    # before the source's session begins: of a local hop it is one of this store, and has this name too
    destination.call("relaybox_internal.end_older_attempts", job.hop, job.batch, slice_.slice, job.attempt)
    destination.rollback()
    with _lent(sessions, job.source, job.source_service, job, slice_) as source:
        source.call("relaybox_internal.require_plan", job.source_id, job.hop, job.batch, str(job.plan_id))
        newest = source.value("select attempt from relaybox_internal.hop_out where hop = %s", job.hop)
        source.rollback()
        if newest is not None and newest > job.attempt:
            raise errors.SliceSuperseded(
                f"hop {job.hop}: attempt {job.attempt} at batch {job.batch} copies no slice {slice_.slice}: "
                f"attempt {newest} has taken over.",
                next_step="Nothing is lost: the newer attempt copies what is missing.",
            )
        # publish is the durable point; until then a lost slice is copied again
        destination.execute("set local synchronous_commit = off")
        destination.reach("slice.connected")
        piped = _pipe_rows(source, destination, job, slice_)
        destination.reach("slice.copied")
        if piped.row_count != slice_.row_count:
            raise errors.ContentDiffers(
                f"hop {job.hop}: slice {slice_.slice} of batch {job.batch} has {piped.row_count} rows at {job.source}, "
                f"planned were {slice_.row_count}. Nothing of it was kept.",
                next_step=f"Rows of the source were removed or hidden after planning. Run: relaybox verify {job.hop.split('/')[0]}",
            )
        destination.call(
            "relaybox_internal.accept_slice",
            *(job.log_id, job.generation, job.batch, slice_.slice, str(job.plan_id), piped.row_count, job.attempt),
            *(job.digests and job.digests[slice_.slice - 1], slice_.first_position),
        )
        destination.reach("slice.accepted")
        destination.commit("slice")
        return piped


def _pipe_rows(source: StoreSession, destination: StoreSession, job: SliceJob, slice_: Slice) -> Piped:
    """What was piped. A collision of positions is the caller's to judge; any other error is told by its side."""
    return pipe_sessions(
        source,
        sql.SQL("copy ({}) to stdout (format binary)").format(_read_query(job, slice_)),
        destination,
        sql.SQL("copy relaybox_internal.{} ({}) from stdin (format binary)").format(
            sql.Identifier(f"log_{job.log_id}"), COLUMN_LIST
        ),
        timeout_seconds=job.timeout_seconds,
    )


def _read_query(job: SliceJob, slice_: Slice) -> sql.Composed:
    """The slice's rows, with literals: COPY takes no parameters."""
    function: str
    arguments: tuple[object, ...]
    if job.reads_log is not None:
        function = "read_log_slice"
        arguments = (job.reads_log, slice_.first_read, slice_.last_read, slice_.first_position)
    elif slice_.is_dense:
        function = "read_dense_slice"
        arguments = (slice_.first_read, slice_.last_read, slice_.first_position)
    else:
        function = "read_outbox_slice"
        bounds = (slice_.first_read, slice_.last_read, slice_.first_position)
        arguments = (job.lower, job.upper, list(job.topics or ()), *bounds)
    return sql.SQL("select {} from relaybox_internal.{}({})").format(
        COLUMN_LIST, sql.Identifier(function), sql.SQL(", ").join(sql.Literal(argument) for argument in arguments)
    )
