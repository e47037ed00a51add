"""Copies slices as Spark tasks. Which rows a task copies comes from the batch ledger, never from a shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark import SparkConf

from relaybox.copying import CopyOrder, SliceCopied, copy_slice
from relaybox.errors import RelayboxError

if TYPE_CHECKING:
    from pyspark import SparkContext

    from relaybox.batches import Slice


def spark_conf(name: str) -> SparkConf:
    """What every session of ours sets; master and memory are the deployment's."""
    conf = SparkConf().setAppName(name).set("spark.ui.showConsoleProgress", "false")
    return conf.set("spark.python.daemon.module", "relaybox.spark.daemon")


class SparkRunner:
    """Runs on a SparkContext of the caller's: local threads, `local-cluster`, or a cluster."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    def copy_slices(self, order: CopyOrder, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        """One job, one task per slice. A task that dies is run again by Spark; an error of a store ends the job's batch."""
        self._context.setJobDescription(f"{order.hop} batch {order.batch}: {len(slices)} slices")
        reports = self._context.parallelize(slices, len(slices)).map(lambda slice_: _copy(order, slice_)).collect()
        failures = [report for report in reports if isinstance(report, RelayboxError)]
        yield from (report for report in reports if isinstance(report, SliceCopied))
        if failures:
            raise failures[0]


def _copy(order: CopyOrder, slice_: Slice) -> SliceCopied | RelayboxError:
    """Runs on an executor. An error of ours travels back as a value, so that the driver gets it whole and at once."""
    try:
        return copy_slice(order, slice_)
    except RelayboxError as error:
        return error
