"""Hashes and compares slices as Spark tasks. What leaves a store is digests; of slices that differ, identities and hashes of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from relaybox.spark.tasks import run_tasks
from relaybox.verification.comparison_runners import SessionComparisonRunner, group_reads
from relaybox.verification.reading import Sessions

if TYPE_CHECKING:
    from relaybox.spark.tasks import TaskSession
    from relaybox.verification.defects import Defect
    from relaybox.verification.reading import Digest, Pair, StoreRead


class SparkComparisonRunner:
    """Compares in a Spark session of the caller's; every task opens sessions of its own to the stores that it asks.

    Args:
        spark: whose executors ask the stores.
        session_name: of the sessions, as the stores show them.
    """

    def __init__(self, spark: TaskSession, *, session_name: str) -> None:
        self._spark, self._session_name = spark, session_name

    def read_digests(self, reads: Sequence[StoreRead]) -> Iterator[tuple[StoreRead, Digest]]:
        """One job, one task per group of slices of a store."""
        task = partial(_read_digests, self._session_name)
        for digests in run_tasks(self._spark, f"hashing {len(reads)} slices", group_reads(reads), task):
            yield from digests

    def compare_rows(self, pairs: Sequence[Pair]) -> Iterator[Defect]:
        """One job, one task per pair."""
        task = partial(_compare_rows, self._session_name)
        for defects in run_tasks(self._spark, f"comparing {len(pairs)} slices row by row", pairs, task):
            yield from defects


def _read_digests(session_name: str, group: Sequence[StoreRead]) -> list[tuple[StoreRead, Digest]]:
    with Sessions([one.store for one in group], application_name=session_name) as sessions:
        return list(SessionComparisonRunner(sessions).read_digests(group))


def _compare_rows(session_name: str, pair: Pair) -> list[Defect]:
    with Sessions([one.store for one in pair], application_name=session_name) as sessions:
        return list(SessionComparisonRunner(sessions).compare_rows([pair]))
