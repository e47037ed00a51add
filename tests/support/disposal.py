"""Databases that a test is done with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from relaybox.local.clusters import Cluster
from tests.support.administration import administer


def discard(databases: Iterable[tuple[Cluster, str]]) -> None:
    """Drops what one test used, a database per cluster or more; nobody gets in any more, and sessions have ten seconds to end.

    At once: a drop waits for a checkpoint, and a checkpoint writes and flushes what was not dropped before it.
    """

    statements = defaultdict(list)
    for cluster, database in databases:
        statements[cluster] += [
            f"alter database {database} allow_connections false",
            f"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{database}'",
            f"drop database {database} with (force)",
        ]
    with ThreadPoolExecutor(len(statements)) as pool:
        list(pool.map(lambda cluster: administer(cluster, *statements[cluster]), statements))
