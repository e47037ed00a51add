"""Threads of the task move messages while Spark starts, which takes ten seconds, or thirty beside other starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.errors import RelayboxError
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.log_events import emit

if TYPE_CHECKING:
    from relaybox.hops.batches import Slice
    from relaybox.hops.copying import SliceCopied, SliceJob
    from relaybox.routes import Hop

_LONGEST_SECONDS = 300.0
_END_SECONDS = 10.0


class SparkHasStarted(Exception):
    """Spark's driver is there: it resumes the open batch, and copies what is missing of it."""


@contextmanager
def head_start(hop: Hop, *, recorded_by: str, has_started: Callable[[], bool]) -> Iterator[None]:
    """Within the block a thread moves messages of the hop until Spark's driver has started.

    It is safe beside that driver, as any two drivers are. An error is told in the log and fails nothing:
    Spark's driver meets the same stores.

    Args:
        hop: the hop to run.
        recorded_by: who does it, for the ledgers.
        has_started: whether Spark's driver runs; asked before each slice, and each second without one.
    """
    ended = threading.Event()
    arguments = (hop, recorded_by, lambda: ended.is_set() or has_started())
    thread = threading.Thread(target=_move, args=arguments, name="relaybox-head-start", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_END_SECONDS)


def _move(hop: Hop, recorded_by: str, is_over: Callable[[], bool]) -> None:
    try:
        with ThreadRunner() as threads:
            transfer_hop(
                hop,
                UntilOver(threads, is_over),
                recorded_by=recorded_by,
                linger_seconds=_LONGEST_SECONDS,
                linger_at_most_seconds=_LONGEST_SECONDS,
                is_slot_wanted=lambda _: is_over(),
            )
    except RelayboxError as error:
        emit("head_start_ended", hop=hop.name, reason=error)
    except SparkHasStarted:
        emit("head_start_ended", hop=hop.name, reason="Spark has started")
    else:
        emit("head_start_ended", hop=hop.name, reason="Spark has started" if is_over() else "it took too long")


class UntilOver:
    """Threads that begin no slice once it is over. The batch stays planned."""

    application = None

    def __init__(self, threads: ThreadRunner, is_over: Callable[[], bool]) -> None:
        self._threads, self._is_over = threads, is_over

    def copy_slices(self, job: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        for first in range(0, len(slices), self._threads.threads):
            if self._is_over():
                raise SparkHasStarted
            yield from self._threads.copy_slices(job, slices[first : first + self._threads.threads])
