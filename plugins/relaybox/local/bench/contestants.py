"""Two contestants of `relaybox bench hop`: the hop itself, and what a person would type instead, a pipe of two psql."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import sql

from relaybox import errors
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.local.bench.cpu_times import PARTS, read_parts, since
from relaybox.local.bench.report import HOP, PIPES, STEPS, Measurement
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, EmptyLog
from relaybox.local.clusters import postgres_program

if TYPE_CHECKING:
    from relaybox.hops.runners import SliceRunner

_COLUMNS = sql.SQL(", ").join(
    map(sql.Identifier, ("epoch", "message_id", "sent_at", "topic", "sender", "key", "headers", "payload", "payload_bytes"))
)
# seq stands for position and index: a pipe does not number rows
_COPY_TO = sql.SQL("copy (select seq, seq, {columns} from relaybox.outbox) to stdout (format {format})")
_COPY_FROM = sql.SQL("copy {log} (log_position, index, {columns}) from stdin (format {format})")


@dataclass
class Timer:
    """Seconds between entering and leaving `timed()`."""

    seconds: float = 0.0


@contextmanager
def timed() -> Iterator[Timer]:
    timer, started = Timer(), time.monotonic()
    yield timer
    timer.seconds = time.monotonic() - started


@dataclass
class CpuTimer(Timer):
    """And the CPU seconds of each part (cpu_times.PARTS)."""

    cpu: Mapping[str, float] = field(default_factory=dict)


@contextmanager
def timed_with_cpu(stores: BenchStores) -> Iterator[CpuTimer]:
    """Reads the CPU times outside of the seconds."""
    timer, before = CpuTimer(), read_parts(stores.clusters)
    started = time.monotonic()
    yield timer
    timer.seconds = time.monotonic() - started
    timer.cpu = since(before, read_parts(stores.clusters))


def measure_hop(stores: BenchStores, runner: SliceRunner, *, messages: int, round_: int) -> Measurement:
    """This hop, as `relaybox transfer` runs it; opening its sessions and making the log's segments included."""
    with stores.empty_log() as log:
        stores.settle()
        with timed_with_cpu(stores) as timer:
            started_at = time.time()
            moved = transfer_hop(log.hop, runner, recorded_by="benchmark")
        row_count = stores.require_rows(DESTINATION, log.table, messages)
        steps = _step_seconds(stores, log, started_at)
    return Measurement(HOP, round_, timer.seconds, row_count, moved.byte_count, steps, timer.cpu)


def measure_steps(stores: BenchStores, runner: SliceRunner) -> Mapping[str, Mapping[str, float]]:
    """CPU seconds of each step of a hop, by part. A run of its own: reading the CPU times costs time.

    A step ends where the next one begins, so that what a server does behind a step counts for the next one.
    """
    readings = [("begin", read_parts(stores.clusters))]

    def note(progress: Progress) -> None:
        if progress.published:
            readings.append(("publish", read_parts(stores.clusters)))
        elif progress.copied in (0, progress.row_count):
            readings.append(("copy" if progress.copied else "plan", read_parts(stores.clusters)))

    with stores.empty_log() as log:
        stores.settle()
        readings[0] = ("begin", read_parts(stores.clusters))
        transfer_hop(log.hop, runner, recorded_by="benchmark", progress=note)
        readings.append(("confirm", read_parts(stores.clusters)))
    steps = {step: dict.fromkeys(PARTS, 0.0) for step in STEPS}
    for (_, before), (step, now) in pairwise(readings):
        for part, seconds in since(before, now).items():
            steps[step][part] += seconds
    return steps


def _step_seconds(stores: BenchStores, log: EmptyLog, started_at: float) -> Mapping[str, float]:
    """Seconds per step, summed over the batches, from the times in the stores' ledgers. One clock serves both stores."""
    at_source = stores.query(
        SOURCE,
        """
        select extract(epoch from b.planned_at)::float8, extract(epoch from c.recorded_at)::float8
        from relaybox_internal.batch b
        join relaybox_internal.confirmation c on c.hop = b.hop and c.through_batch = b.batch and c.state = 'received'
        where b.hop = %s
        order by b.batch
        """,
        log.hop.name,
    )
    at_destination = stores.query(
        DESTINATION,
        """
        select extract(epoch from max(r.copied_at))::float8, extract(epoch from a.published_at)::float8
        from relaybox_internal.arrival a
        join relaybox_internal.receipt r on r.log_id = a.log_id and r.batch = a.batch
        where a.log_id = %s
        group by a.batch, a.published_at
        order by a.batch
        """,
        log.log_id,
    )
    seconds = dict.fromkeys(STEPS, 0.0)
    before = started_at
    for (planned_at, confirmed_at), (copied_at, published_at) in zip(at_source, at_destination, strict=True):
        moments = (before, planned_at, copied_at, published_at, confirmed_at)
        for step, begin, end in zip(STEPS, moments, moments[1:], strict=False):
            seconds[step] += end - begin
        before = confirmed_at
    return seconds


def measure_pipe(stores: BenchStores, *, messages: int, round_: int, format_: str) -> Measurement:
    """`psql -c "copy to" | psql -c "copy from"` into a log like the hop's, whose segments are made before the clock starts."""
    with stores.empty_log() as log:
        ((last_seq,),) = stores.query(SOURCE, "select max(seq) from relaybox.outbox")
        stores.query(DESTINATION, "select relaybox_internal.ensure_log_segments(%s, %s)", log.log_id, last_seq)
        words = {"columns": _COLUMNS, "format": sql.SQL(format_), "log": log.table}
        copy_to, copy_from = _psql(SOURCE, _COPY_TO.format(**words)), _psql(DESTINATION, _COPY_FROM.format(**words))
        stores.settle()
        with timed_with_cpu(stores) as timer:
            _run_pipe(copy_to, copy_from)
        row_count = stores.require_rows(DESTINATION, log.table, messages)
    return Measurement(PIPES[format_], round_, timer.seconds, row_count, cpu=timer.cpu)


def _psql(store: str, statement: sql.Composable) -> list[str]:
    with closing(psycopg2.connect(service=store)) as connection:
        text = statement.as_string(connection)
    return [str(postgres_program("psql")), "--no-psqlrc", "--quiet", f"service={store}", "--command", text]


def _run_pipe(copy_to: list[str], copy_from: list[str]) -> None:
    with (
        subprocess.Popen(copy_to, stdout=subprocess.PIPE) as sender,
        subprocess.Popen(copy_from, stdin=sender.stdout) as receiver,
    ):
        if sender.stdout is not None:
            sender.stdout.close()  # the receiver has its own; the sender sees a broken pipe when the receiver ends
    if sender.returncode or receiver.returncode:
        raise errors.StoreFailed(f"psql ended with {sender.returncode} (copy to) and {receiver.returncode} (copy from).")
