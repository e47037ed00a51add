"""One job whose tasks are calls of one function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from relaybox.errors import RelayboxError

if TYPE_CHECKING:
    from pyspark import SparkContext

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_tasks(context: SparkContext, description: str, items: Sequence[Item], task: Callable[[Item], Result]) -> Iterator[Result]:
    """One task per item; yields the results in the order of the items once all have ended, then raises the first error of ours.

    A task that dies is run again by Spark. An error of ours is not: it travels back as a value, so that the driver gets it whole
    and at once.

    Args:
        context: where they run.
        description: of the job, for Spark's pages.
        items: what each task gets; picklable, as is `task` with all that it refers to.
        task: runs on an executor, maybe more than once.
    """
    if not items:
        return
    context.setJobDescription(description)
    reports = context.parallelize(items, len(items)).map(lambda item: _attempt(task, item)).collect()
    failures = [report for report in reports if isinstance(report, RelayboxError)]
    yield from (report for report in reports if not isinstance(report, RelayboxError))
    if failures:
        raise failures[0]


def _attempt(task: Callable[[Item], Result], item: Item) -> Result | RelayboxError:
    try:
        return task(item)
    except RelayboxError as error:
        return error
