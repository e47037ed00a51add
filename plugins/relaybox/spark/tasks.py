"""One job whose tasks are calls of one function, wherever Spark runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from relaybox.errors import RelayboxError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")


class TaskSession(Protocol):
    """Runs tasks: a SparkContext of this process, or a Spark Connect server (relaybox.spark.connect).

    Attributes:
        application: Spark's id of the application.
        dataframes: the session of Spark SQL.
        cores: how many tasks run at once; None: unknown, or it changes with the number of tasks.
    """

    @property
    def application(self) -> str: ...

    @property
    def dataframes(self) -> SparkSession: ...

    @property
    def cores(self) -> int | None: ...

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        """Calls `task` once per item, each as a Spark task; what it returned, in the order of the items, once all have ended."""

    def described(self, description: str) -> AbstractContextManager[None]:
        """What the block does has this description in Spark's pages."""

    def remove_directory(self, directory: str) -> None:
        """Removes a directory of a file system that Spark knows; it may be gone already."""


class ContextSession:
    """Runs on a SparkContext of the caller's: local threads, `local-cluster`, or a cluster."""

    def __init__(self, context: SparkContext) -> None:
        self.context = context
        self.application: str = context.applicationId

    @property
    def dataframes(self) -> SparkSession:
        """Its only one."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.getOrCreate()

    @property
    def cores(self) -> int | None:
        """Those of the executors that are there. Dynamic allocation starts as many executors as there are tasks for."""
        is_dynamic = self.context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true"
        return None if is_dynamic else self.context.defaultParallelism

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        self.context.setJobDescription(description)
        yield

    def remove_directory(self, directory: str) -> None:
        jvm: Any = self.context._jvm  # noqa: SLF001  Hadoop's file systems have no other door
        path = jvm.org.apache.hadoop.fs.Path(directory)
        path.getFileSystem(self.context._jsc.hadoopConfiguration()).delete(path, True)  # noqa: FBT003, SLF001

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
