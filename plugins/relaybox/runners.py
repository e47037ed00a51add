"""Who copies the slices of a batch: Spark tasks (relaybox.spark), or threads of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol

from relaybox.batches import Slice
from relaybox.copying import CopyOrder, SliceCopied, copy_slice


class SliceRunner(Protocol):
    """Copies slices in any order, side by side. Holds no state of the protocol."""

    def copy_slices(self, order: CopyOrder, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        """Yields a report for each slice as it is done; raises the first error once no slice is running."""


class ThreadRunner:
    """Threads in one process: fast tests, and tiny deployments without a JVM."""

    def __init__(self, threads: int = 2) -> None:
        self._threads = threads

    def copy_slices(self, order: CopyOrder, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        with ThreadPoolExecutor(self._threads, thread_name_prefix="relaybox-slice") as pool:
            tasks = [pool.submit(copy_slice, order, slice_) for slice_ in slices]
            try:
                for task in as_completed(tasks):
                    yield task.result()
            finally:
                pool.shutdown(cancel_futures=True)
