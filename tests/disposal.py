"""Databases that a test is done with."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2

from relaybox.local.clusters import Cluster


def discard(databases: Iterable[tuple[Cluster, str]]) -> None:
    """Drops what one test used, a database per cluster or more; nobody gets in any more, and sessions have ten seconds to end.

    At once: a drop waits for a checkpoint, and a checkpoint writes and flushes what was not dropped before it.
    """

    def drop(cluster: Cluster, database: str) -> None:
        with closing(psycopg2.connect(**cluster.parameters())) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(f"alter database {database} allow_connections false")
            cursor.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s", [database])
            cursor.execute(f"drop database {database} with (force)")

    found = list(databases)
    with ThreadPoolExecutor(len(found)) as pool:
        list(pool.map(lambda database: drop(*database), found))
