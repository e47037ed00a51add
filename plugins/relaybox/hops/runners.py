"""Who copies the slices of a batch: Spark tasks (relaybox.spark), or threads of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, Self

from relaybox.hops.batches import Slice, share_slices
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice
from relaybox.hops.slice_sessions import SliceSessions


class SliceRunner(Protocol):
    """Copies slices in any order, side by side. Holds no state of the protocol.

    Attributes:
        application: Spark's id of the application that copies; None: it is none of Spark's.
    """

    @property
    def application(self) -> str | None: ...

    def copy_slices(self, job: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        """Yields a report for each slice as it is done; raises the first error once no slice is running."""


class BatchTooLarge(Exception):
    """A batch has more rows than its runner takes on. It stays planned: the next run of the hop resumes it."""


class ThreadRunner:
    """Threads in one process: small backlogs, fast tests, and tiny deployments without a JVM.

    As a context manager it keeps a session of each store from one batch to the next, and closes them at the end of the block.
    An interruption (Ctrl-C, a task's time limit) does not wait for slices: their sessions end with the process.

    Args:
        threads: number of slices that are copied side by side.
        below_rows: batches with this many rows or more are left to another runner.
    """

    application = None

    def __init__(self, threads: int = 2, *, below_rows: int | None = None) -> None:
        self.threads = threads
        self._below_rows = below_rows
        self._sessions = SliceSessions()

    def __enter__(self) -> Self:
        self._sessions = SliceSessions(keep=1)
        return self

    def __exit__(self, *_: object) -> None:
        self._sessions.close()

    def copy_slices(self, job: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        row_count = sum(slice_.row_count for slice_ in slices)
        if self._below_rows is not None and row_count >= self._below_rows:
            raise BatchTooLarge(f"batch {job.batch} of hop {job.hop} has {row_count} rows")
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="relaybox-slice")
        wait = False
        try:
            with self._sessions.keeping(self.threads):
                groups = share_slices(slices, copiers=self.threads)
                for task in as_completed([pool.submit(copy_slice, job, slice_, self._sessions) for (slice_,) in groups]):
                    wait = task.exception() is not None
                    yield task.result()
        finally:
            pool.shutdown(wait=wait, cancel_futures=True)
