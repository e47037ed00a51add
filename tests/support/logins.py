"""Logins that cost nothing: most of a short session's time is the check of its password."""

from __future__ import annotations

from contextlib import closing

import psycopg2
from psycopg2 import sql

from relaybox.local.clusters import Cluster


def make_logins_cheap(cluster: Cluster) -> None:
    """The same password, hashed once instead of 4096 times; for a running cluster of Postgres 16 or newer."""
    with closing(psycopg2.connect(**cluster.parameters())) as connection, connection.cursor() as cursor:
        cursor.execute("set scram_iterations = 1")
        cursor.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(cluster.user), sql.Literal(cluster.password)))
        connection.commit()
