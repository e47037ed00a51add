"""Statements of an administrator, by one session per cluster for the whole run: a login costs more than making a database does."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2

from relaybox.local.clusters import Cluster
from tests.support.kept_sessions import close_kept_sessions

_sessions: dict[Cluster, Any] = {}
_BY_FILES = " strategy file_copy"


def administer(cluster: Cluster, *statements: str) -> None:
    """Runs the statements one after another, each committed by itself. One thread per cluster at a time.

    They may copy or drop a database, in which nobody may be then, or change what a new session finds: kept sessions end before.
    """
    close_kept_sessions()
    for statement in statements:
        try:
            _run(cluster, statement)
        except psycopg2.Error:
            if not _sessions[cluster].closed:
                raise
            del _sessions[cluster]  # the test ended every session, or the server
            _run(cluster, statement)


def administer_all(clusters: Mapping[str, Cluster], statement: str) -> None:
    """Runs a statement in each cluster, side by side."""
    with ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(lambda cluster: administer(cluster, statement), clusters.values()))


def copy_database(name: str, template: str) -> str:
    """The statement that copies a database file by file. Postgres' default writes each of its pages to the WAL instead."""
    return f"create database {name} template {template}{_BY_FILES}"


def _run(cluster: Cluster, statement: str) -> None:
    if cluster not in _sessions:
        # a test may have set these for everybody
        options = "-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0"
        _sessions[cluster] = psycopg2.connect(**cluster.parameters(), options=options)
        _sessions[cluster].autocommit = True
    if _sessions[cluster].server_version < 150_000:  # knows no other way
        statement = statement.removesuffix(_BY_FILES)
    with _sessions[cluster].cursor() as cursor:
        cursor.execute(statement)
