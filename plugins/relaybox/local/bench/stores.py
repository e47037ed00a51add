"""The two stores of a benchmark: throw-away clusters with equal settings, a full outbox, an empty log for every measurement."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import yaml
from psycopg2 import sql
from psycopg2.extensions import make_dsn
from rich.console import Console

from relaybox import errors
from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from relaybox.local.interrupts import signals_interrupt
from relaybox.local.scratch import remove_abandoned, scratch_directory, tell_of_older
from relaybox.routes import Hop, Routes, load_routes
from relaybox.stores.init.one_store import SEGMENT_ROWS, initialise_store

SOURCE, DESTINATION = "source", "destination"
REPLICA = "replica"
"""A second database of the destination's cluster, for the contestant that brings its own table."""
TOPIC = "orders"
TRANSACTION_ROWS = 1000
ROLLED_BACK_ROWS = 10
SETTINGS = {
    "shared_buffers": "256MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "wal_level": "logical",  # one contestant needs it, so all have it
    "fsync": "on",
}

_FILL = """
insert into relaybox.outbox (topic, sender, key, payload)
select
    %(topic)s, 'shop-' || n %% 16, 'order-' || n,
    json_build_object(
        'order', n,
        'placed_at', timestamptz '2026-01-01 00:00Z' + n * interval '1 second',
        'customer', 'customer-' || n %% 50000,
        'amount', round(n * 37 %% 100000 / 100.0, 2),
        'currency', 'EUR',
        'lines', json_build_array(json_build_object('sku', md5(n::text), 'quantity', n %% 7 + 1)),
        'checksum', md5('order ' || n)
    )::text
from generate_series(%(first)s, %(last)s) n
"""


@dataclass(frozen=True)
class EmptyLog:
    """A log to move messages into."""

    hop: Hop
    log_id: int

    @property
    def table(self) -> sql.Identifier:
        return sql.Identifier("relaybox_internal", f"log_{self.log_id}")


@contextmanager
def bench_directory(console: Console) -> Iterator[Path]:
    """For one benchmark, gone afterwards, also if it is told to end. First it removes what killed ones left, and says so."""
    remove_abandoned(console.print)
    tell_of_older(console.print)
    with signals_interrupt(), scratch_directory("bench") as directory:
        yield directory


class BenchStores:
    """Two running clusters, each with one initialised store, reachable by libpq services of the stores' names."""

    def __init__(self, directory: Path, clusters: Mapping[str, Cluster], limits: Mapping[str, int]) -> None:
        self.clusters = clusters
        self._directory, self._limits = directory, limits
        self._route_numbers = itertools.count(1)

    @property
    def source_dsn(self) -> str:
        """For the destination's server, which doesn't read our service file."""
        return make_dsn(**self.clusters[SOURCE].parameters("postgres"))

    def query(self, store: str, statement: str | sql.Composable, *arguments: Any) -> list[tuple[Any, ...]]:
        """Rows of one statement, in autocommit, so that VACUUM and CREATE SUBSCRIPTION work too. One dict: arguments by name."""
        with closing(psycopg2.connect(service=store)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(
                    statement, arguments[0] if len(arguments) == 1 and isinstance(arguments[0], dict) else arguments or None
                )
                return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def session(self, store: str) -> Iterator[Any]:
        """A session for several statements; what is not committed is gone."""
        with closing(psycopg2.connect(service=store)) as connection:
            yield connection

    def new_route(self, *, topic: str = TOPIC, order: str = "none") -> Hop:
        """Writes a relaybox.yaml with one new route of one hop, and registers it in both stores."""
        name = f"bench{next(self._route_numbers)}"
        return self.write_routes({name: {"topics": [topic], "order": order}}).hop(f"{name}/1")

    def write_routes(
        self,
        routes: Mapping[str, Mapping[str, object]],
        *,
        segment_rows: int = SEGMENT_ROWS,
        sinks: Mapping[str, object] | None = None,
    ) -> Routes:
        """Writes a relaybox.yaml with these routes from the source to the destination, and registers them in both stores.

        Args:
            routes: by name; what is missing has the values of a benchmark.
            segment_rows: of the outbox and the logs.
            sinks: other sections, such as `webhooks` and `kafka`.
        """
        every = {"path": [SOURCE, DESTINATION], "policy": "received", "limits": dict(self._limits)}
        path = self._directory / "relaybox.yaml"
        document = {
            "stores": {SOURCE: {}, DESTINATION: {}},
            "routes": {name: {**every, **route} for name, route in routes.items()},
            **(sinks or {}),
        }
        written = path.with_suffix(".new")
        written.write_text(yaml.safe_dump(document))
        written.replace(path)  # an Airflow may be reading it
        loaded = load_routes(path)
        for store in loaded.stores.values():
            initialise_store(store, loaded, segment_rows=segment_rows)
        return loaded

    def fill(self, messages: int, *, rollback_every: int, filled: Callable[[int], None]) -> None:
        """Sends `messages` messages, 1000 per transaction; calls `filled` with each transaction's count.

        The store must have been initialised, by the first new_route(). After every `rollback_every` transactions one is
        rolled back, which leaves a hole in seq; 0: none is.
        """
        with closing(psycopg2.connect(service=SOURCE)) as connection, connection.cursor() as cursor:
            cursor.execute("set synchronous_commit = off")
            cursor.execute("select relaybox_internal.ensure_outbox_segments(%s)", (messages // SEGMENT_ROWS + 1,))
            for number, first in enumerate(range(1, messages + 1, TRANSACTION_ROWS), start=1):
                last = min(first + TRANSACTION_ROWS - 1, messages)
                cursor.execute(_FILL, {"topic": TOPIC, "first": first, "last": last})
                connection.commit()
                filled(last - first + 1)
                if rollback_every and number % rollback_every == 0:
                    cursor.execute(_FILL, {"topic": TOPIC, "first": 1, "last": ROLLED_BACK_ROWS})
                    connection.rollback()
        self.query(SOURCE, "vacuum (analyze) relaybox.outbox")

    def settle(self) -> None:
        """Flushes earlier changes, so that no measurement pays for another."""
        for store in (SOURCE, DESTINATION):
            self.query(store, "checkpoint")

    @contextmanager
    def empty_log(self, *, topic: str = TOPIC, order: str = "none") -> Iterator[EmptyLog]:
        """The log of a new hop; dropped afterwards, which keeps the disk bounded."""
        hop = self.new_route(topic=topic, order=order)
        ((log_id,),) = self.query(DESTINATION, "select log_id from relaybox_internal.hop_in where hop = %s", hop.name)
        log = EmptyLog(hop, log_id)
        yield log
        self.query(DESTINATION, sql.SQL("drop table {}").format(log.table))

    def require_rows(self, store: str, table: sql.Identifier, messages: int) -> int:
        """The number of rows in a table; ContentDiffers unless it is the number of messages."""
        ((row_count,),) = self.query(store, sql.SQL("select count(*) from {}").format(table))
        if row_count != messages:
            raise errors.ContentDiffers(f"{'.'.join(table.strings)} in {store}: {row_count} rows arrived, {messages} were sent.")
        return int(row_count)

    def postgres(self) -> dict[str, Any]:
        """Version and settings that differ from the built-in ones, as the source says; the destination's are equal."""
        ((version,),) = self.query(SOURCE, "show server_version")
        settings = self.query(SOURCE, "select name, current_setting(name) from pg_settings where name = any(%s)", list(SETTINGS))
        return {"version": version, "settings": dict(settings)}


@contextmanager
def open_bench_stores(
    directory: Path, limits: Mapping[str, int], *, settings: Mapping[str, str] | None = None
) -> Iterator[BenchStores]:
    """Makes and starts both clusters; removes them afterwards.

    Sets PGSERVICEFILE for this process and its children as long as the stores are open.

    Args:
        directory: for the clusters and the configuration; the caller removes it.
        limits: of every hop; a key that is missing has relaybox.yaml's default.
        settings: of the servers, beside or instead of SETTINGS.
    """
    servers = {**SETTINGS, **(settings or {})}
    clusters = {store: create_cluster(store, directory / store, settings=servers) for store in (SOURCE, DESTINATION)}
    before = os.environ.get("PGSERVICEFILE")
    try:
        for cluster in clusters.values():
            cluster.start()
        os.environ["PGSERVICEFILE"] = str(_write_services(directory, clusters))
        stores = BenchStores(directory, clusters, limits)
        stores.query(DESTINATION, sql.SQL("create database {}").format(sql.Identifier(REPLICA)))
        yield stores
    finally:
        os.environ.pop("PGSERVICEFILE", None)
        if before is not None:
            os.environ["PGSERVICEFILE"] = before
        for cluster in clusters.values():
            cluster.remove()


def _write_services(directory: Path, clusters: Mapping[str, Cluster]) -> Path:
    path = directory / "services.conf"
    services = {store: cluster.parameters("postgres") for store, cluster in clusters.items()}
    write_service_file(path, {**services, REPLICA: clusters[DESTINATION].parameters(REPLICA)})
    return path
