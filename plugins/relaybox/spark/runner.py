"""Copies slices as Spark tasks. Which rows a task copies comes from the batch ledger, never from a shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from relaybox.copying import CopyOrder, SliceCopied, copy_slice
from relaybox.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark import SparkContext

    from relaybox.batches import Slice


class SparkRunner:
    """Runs on a SparkContext of the caller's: local threads, `local-cluster`, or a cluster."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.application: str | None = context.applicationId

    def copy_slices(self, order: CopyOrder, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        """One job, one task per slice; an error of a store ends the job's batch."""
        description = f"{order.hop} batch {order.batch}: {len(slices)} slices"
        return run_tasks(self._context, description, slices, partial(copy_slice, order))
