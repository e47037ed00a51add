"""The third contestant of `relaybox bench hop`: the initial sync of Postgres's own logical replication."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg2 import sql

from relaybox import errors
from relaybox.local.bench.contestants import timed_with_cpu
from relaybox.local.bench.report import SYNCS, Measurement
from relaybox.local.bench.stores import REPLICA, SOURCE, BenchStores
from relaybox.stores.init.one_store import SEGMENT_ROWS

SYNC_POLL_SECONDS = 0.01
SYNC_TIMEOUT_SECONDS = 3600.0

_TABLE = sql.Identifier("relaybox", "outbox")

# a log, with the names that replication asks for: position is called seq, and the table's name is the publisher's
_CREATE_TABLE = """
create schema relaybox;
create schema relaybox_internal;
create table relaybox.outbox (
    log_id integer not null default 1,
    epoch integer not null,
    seq bigint not null,
    index bigint,
    message_id uuid not null,
    sent_at timestamptz not null,
    topic text not null,
    sender text not null,
    key text,
    headers jsonb,
    payload text,
    payload_bytes bytea,
    primary key (log_id, seq)
) partition by range (seq)
"""
_CREATE_SEGMENT = sql.SQL("create table {segment} partition of relaybox.outbox for values from ({first}) to ({end})")
_PUBLISH = """
create publication bench for table
    relaybox.outbox (epoch, seq, index, message_id, sent_at, topic, sender, key, headers, payload, payload_bytes)
with (publish = 'insert', publish_via_partition_root = true)
"""
_SUBSCRIBE = sql.SQL("create subscription bench connection {source} publication bench with (binary = {binary})")


def measure_sync(stores: BenchStores, *, messages: int, round_: int, format_: str) -> Measurement:
    """From CREATE SUBSCRIPTION until the table is synchronised; table and publication are made before the clock starts."""
    with _replica(stores), _publication(stores):
        stores.settle()
        subscribe = _SUBSCRIBE.format(source=sql.Literal(stores.source_dsn), binary=sql.Literal(format_ == "binary"))
        with _ended_subscription(stores):
            with timed_with_cpu(stores) as timer:
                stores.query(REPLICA, subscribe)
                _wait_for_sync(stores)
            row_count = stores.require_rows(REPLICA, _TABLE, messages)
    return Measurement(SYNCS[format_], round_, timer.seconds, row_count, cpu=timer.cpu)


@contextmanager
def _replica(stores: BenchStores) -> Iterator[None]:
    stores.query(REPLICA, _CREATE_TABLE)
    ((last_seq,),) = stores.query(SOURCE, "select max(seq) from relaybox.outbox")
    for number in range(last_seq // SEGMENT_ROWS + 1):
        segment = sql.Identifier("relaybox_internal", f"outbox_s{number:06d}")
        bounds = {"first": sql.Literal(number * SEGMENT_ROWS), "end": sql.Literal((number + 1) * SEGMENT_ROWS)}
        stores.query(REPLICA, _CREATE_SEGMENT.format(segment=segment, **bounds))
    yield
    stores.query(REPLICA, "drop schema relaybox, relaybox_internal cascade")


@contextmanager
def _publication(stores: BenchStores) -> Iterator[None]:
    stores.query(SOURCE, _PUBLISH)
    yield
    stores.query(SOURCE, "drop publication bench")


@contextmanager
def _ended_subscription(stores: BenchStores) -> Iterator[None]:
    yield
    stores.query(REPLICA, "drop subscription bench")


def _wait_for_sync(stores: BenchStores) -> None:
    """Until every table of the subscription is synchronised (s) or follows the stream (r)."""
    deadline = time.monotonic() + SYNC_TIMEOUT_SECONDS
    while not stores.query(REPLICA, "select true from pg_subscription_rel having bool_and(srsubstate in ('s', 'r'))"):
        if time.monotonic() > deadline:
            raise errors.StoreFailed(f"logical replication's initial sync was not done after {SYNC_TIMEOUT_SECONDS:.0f} s.")
        time.sleep(SYNC_POLL_SECONDS)
