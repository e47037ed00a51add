"""Databases that tests are done with: their sessions end at once, they themselves are dropped by the dozen.

Each drop waits for a checkpoint, which has nothing to write only if nothing happened since the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2

from relaybox.local.clusters import Cluster

DOZEN = 12


class Disposal:
    """Discarded databases, each with the cluster that it is in."""

    def __init__(self) -> None:
        self._discarded: list[list[tuple[Cluster, str]]] = []

    def discard(self, databases: Iterable[tuple[Cluster, str]]) -> None:
        """What one test used, a database per cluster or more: nobody gets in any more, and nobody is left."""
        self._discarded.append(list(databases))
        _each(
            self._discarded[-1],
            "alter database {0} allow_connections false",
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '{0}'",
        )
        if len(self._discarded) >= DOZEN:
            self.drop()

    def drop(self) -> None:
        for databases in self._discarded:
            _each(databases, "drop database {0} with (force)")
        self._discarded.clear()


def _each(databases: list[tuple[Cluster, str]], *statements: str) -> None:
    def administer(cluster: Cluster, database: str) -> None:
        with closing(psycopg2.connect(**cluster.parameters("postgres"))) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            for statement in statements:
                cursor.execute(statement.format(database))

    with ThreadPoolExecutor(len(databases)) as pool:
        list(pool.map(lambda database: administer(*database), databases))
