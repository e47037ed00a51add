"""Copies slices as Spark tasks. Which rows a task copies comes from the batch ledger, never from a shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice
from relaybox.spark.tasks import run_tasks

if TYPE_CHECKING:
    from relaybox.hops.batches import Slice
    from relaybox.spark.tasks import TaskSession


class SparkRunner:
    """Copies slices in a session of the caller's."""

    def __init__(self, session: TaskSession) -> None:
        self._session = session
        self.application: str | None = session.application

    def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        """One job, one task per slice; an error of a store ends the job's batch."""
        description = (
            f"{order.hop} batch {order.batch} attempt {order.attempt}: slices {slices[0].slice} to {slices[-1].slice}"
            if slices
            else order.hop
        )
        return run_tasks(self._session, description, slices, partial(copy_slice, order))


def load_copying(_: object) -> None:
    """A task that does nothing: a worker that has it has loaded this module, and with it what copies a slice."""
