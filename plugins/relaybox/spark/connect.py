"""A Spark Connect server that is warm already: its tasks start in a fraction of a second, and no JVM starts here.

The server's Python has Relaybox installed, and its environment names the service file of the stores (PGSERVICEFILE): no
password travels there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.connect.session import SparkSession

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class ConnectSession:
    """Runs tasks on the server behind a session of the caller's."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self.application: str = session.conf.get("spark.app.id") or ""

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        """Items and task travel with the plan; a partition per item, and no shuffle between."""

        def run(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield pa.RecordBatch.from_pydict({"id": [number], "report": [pickle.dumps(task(items[number]))]})

        self._session.addTag(description.replace(",", ""))
        try:
            numbers = self._session.range(0, len(items), 1, len(items))
            rows = numbers.mapInArrow(run, "id long, report binary").collect()
        finally:
            self._session.clearTags()
        return [pickle.loads(row.report) for row in sorted(rows, key=lambda row: row.id)]  # noqa: S301  what `run` has pickled


@contextmanager
def connect_session(address: str) -> Iterator[ConnectSession]:
    """A session of its own on a server, ended with the block. A server that does not answer is tried again for ten minutes.

    Args:
        address: `sc://host:port/;token=...`, as Spark writes it.
    """
    session = SparkSession.builder.remote(address).create()
    try:
        yield ConnectSession(session)
    finally:
        session.stop()
