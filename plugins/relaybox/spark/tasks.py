"""One job whose tasks are calls of one function, wherever Spark runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from relaybox.errors import RelayboxError

if TYPE_CHECKING:
    from pyspark import SparkContext

Item = TypeVar("Item")
Result = TypeVar("Result")


class TaskSession(Protocol):
    """Runs tasks: a SparkContext of this process, or a Spark Connect server (relaybox.spark.connect).

    Attributes:
        application: Spark's id of the application.
    """

    @property
    def application(self) -> str: ...

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        """Calls `task` once per item, each as a Spark task; what it returned, in the order of the items, once all have ended."""


class ContextSession:
    """Runs on a SparkContext of the caller's: local threads, `local-cluster`, or a cluster."""

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self.application: str = context.applicationId

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        self.context.setJobDescription(description)
        return self.context.parallelize(items, len(items)).map(task).collect()


def run_tasks(session: TaskSession, description: str, items: Sequence[Item], task: Callable[[Item], Result]) -> Iterator[Result]:
    """One task per item; yields the results in the order of the items once all have ended, then raises the first error of ours.

    A task that dies is run again by Spark. An error of ours is not: it travels back as a value, so that the driver gets it whole
    and at once.

    Args:
        session: where they run.
        description: of the job, for Spark's pages.
        items: what each task gets; picklable, as is `task` with all that it refers to.
        task: runs on an executor, maybe more than once.
    """
    if not items:
        return
    reports = session.collect(description, items, lambda item: _attempt(task, item))
    failures = [report for report in reports if isinstance(report, RelayboxError)]
    yield from (report for report in reports if not isinstance(report, RelayboxError))
    if failures:
        raise failures[0]


def _attempt(task: Callable[[Item], Result], item: Item) -> Result | RelayboxError:
    try:
        return task(item)
    except RelayboxError as error:
        return error
