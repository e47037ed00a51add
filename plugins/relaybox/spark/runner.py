"""Copies slices as Spark tasks. Which rows a task copies comes from the batch ledger, never from a shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from relaybox.hops.batches import share_slices
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slices_in_turn
from relaybox.spark.tasks import run_tasks

if TYPE_CHECKING:
    from relaybox.errors import RelayboxError
    from relaybox.hops.batches import Slice
    from relaybox.spark.tasks import TaskSession

GROUPS_PER_CORE = 2
"""A core that is slower than the others leaves its second task to one of them."""


class SparkRunner:
    """Copies slices in a session of the caller's."""

    def __init__(self, session: TaskSession) -> None:
        self._session = session
        self.application: str | None = session.application

    def copy_slices(self, job: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        """One job; an error of a store ends the job's batch. A task copies one slice after the other, in the same sessions."""
        description = (
            f"{job.hop} batch {job.batch} attempt {job.attempt}: slices {slices[0].slice} to {slices[-1].slice}"
            if slices
            else job.hop
        )
        cores = self._session.cores
        groups = share_slices(slices, copiers=cores or len(slices) or 1, groups_each=GROUPS_PER_CORE)
        failures: list[RelayboxError] = []
        for reports, failure in run_tasks(self._session, description, groups, partial(copy_slices_in_turn, job)):
            yield from reports
            failures += [] if failure is None else [failure]
        if failures:
            raise failures[0]


def load_copying(_: object) -> None:
    """A task that does nothing: a worker that has it has loaded this module, and with it what copies a slice."""
