"""Two stores of one test, copied from the template, and what a test does with them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2

from relaybox.env_vars import environment
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import write_service_file
from relaybox.testing.clusters import INBOX, LOGIN, OUTBOX, administer, of_application

if TYPE_CHECKING:
    from relaybox.testing.clusters import TestCluster

_numbers = itertools.count(1)


@dataclass(frozen=True)
class TestStore:
    """One store, for a login that owns the database, may send and may consume, and may do no more.

    Attributes:
        parameters: host, port, dbname, user and password, as psycopg2 and psycopg take them.
    """

    __test__ = False

    parameters: dict[str, Any]

    @property
    def url(self) -> str:
        """As libpq, psycopg, asyncpg and SQLAlchemy take it."""
        return self.url_for("postgresql")

    def url_for(self, scheme: str) -> str:
        """With another scheme, as `postgresql+asyncpg` of SQLAlchemy."""
        at = self.parameters
        return f"{scheme}://{at['user']}:{at['password']}@{at['host']}:{at['port']}/{at['dbname']}"

    def query(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Rows of one statement, which is committed; parameters are `%s`."""
        with closing(psycopg2.connect(**self.parameters)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return list(cursor.fetchall()) if cursor.description else []


@dataclass(frozen=True)
class TestStores:
    """The two stores of a test.

    Attributes:
        outbox: the store where the application sends.
        inbox: the store where consumers read. The stream is named `test`; subscribe to it, or to one of its topics.
    """

    __test__ = False

    outbox: TestStore
    inbox: TestStore
    _run: TestCluster
    _service_file: Path

    def deliver(self) -> int:
        """Moves the committed messages of the outbox to the inbox, as a transfer does it; returns how many."""
        (hop,) = self._run.routes.route("test").hops
        with environment(PGSERVICEFILE=str(self._service_file)), ThreadRunner(1) as runner:
            return transfer_hop(hop, runner, recorded_by="relaybox.testing").row_count

    def subscribe(self, subscription: str, source: str = "test", **options: object) -> None:
        """relaybox.subscribe() at the inbox; options are its parameters, such as nack_limit=1."""
        given = "".join(f", {name} => %s" for name in options)
        self.inbox.query(f"select relaybox.subscribe(%s, %s{given})", subscription, source, *options.values())


@contextmanager
def fresh_stores(run: TestCluster) -> Iterator[TestStores]:
    """Copies of the two stores for the block. Sessions that are left in them are ended."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    databases = {OUTBOX: f"{name}_outbox", INBOX: f"{name}_inbox"}
    strategy = "file_copy" if run.is_in_memory else "wal_log"  # of a disk each file would be synced
    for template, database in databases.items():
        administer(run.cluster, f"create database {database} template {template} owner {LOGIN} strategy {strategy}")
    service_file = run.directory / f"{name}.conf"
    write_service_file(service_file, {store: run.cluster.parameters(database) for store, database in databases.items()})
    application = of_application(run.cluster)
    outbox, inbox = (TestStore(application.parameters(database)) for database in databases.values())
    try:
        yield TestStores(outbox, inbox, run, service_file)
    finally:
        service_file.unlink()
        for database in databases.values():
            administer(run.cluster, f"drop database {database} with (force)")
