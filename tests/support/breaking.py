"""Stops a transfer at a chosen moment, as a killed driver would, and leaves everything else to the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from relaybox.hops.batches import Slice
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.routes import Hop


class Stopped(Exception):
    """The driver ends here."""


class FirstSlices:
    """Copies the first slices of a batch and ends the driver."""

    application = None

    def __init__(self, count: int) -> None:
        self._count = count

    def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        for slice_ in slices[: self._count]:
            yield copy_slice(order, slice_)
        if self._count < len(slices):
            raise Stopped


class SlicesButTheFirst:
    """Copies all slices of a batch but the first and ends the driver: several threads copy, and the first slice takes longest."""

    application = None

    def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        for slice_ in slices[1:]:
            yield copy_slice(order, slice_)
        raise Stopped


def transfer_until(hop: Hop, moment: Callable[[Progress], bool]) -> None:
    """Transfers until a progress report that `moment` is true of: before publishing, or before confirming."""

    def stop(progress: Progress) -> None:
        if moment(progress):
            raise Stopped

    with _stopping():
        transfer_hop(hop, FirstSlices(10_000), recorded_by="test", progress=stop)


def copy_first_slices(hop: Hop, count: int) -> None:
    """Plans a batch and copies this number of its slices."""
    with _stopping():
        transfer_hop(hop, FirstSlices(count), recorded_by="test")


def copy_slices_but_the_first(hop: Hop) -> None:
    """Plans a batch and copies all of its slices but the first."""
    with _stopping():
        transfer_hop(hop, SlicesButTheFirst(), recorded_by="test")


@contextmanager
def _stopping() -> Iterator[None]:
    stopped = False
    with suppress(Stopped):
        yield
        stopped = True
    assert not stopped, "the transfer ended before the chosen moment"
