"""Partitions of a DataFrame become messages of an outbox: each once; each in one transaction, or all of a write in one.

The store keeps which partition of which write it has (relaybox.record_partition), with a digest of its rows. A task that Spark repeats,
runs twice, or runs again after a driver was lost sends nothing if its rows are the same, and fails if they are others. Partitions are
sent in their order: so a run that has other partitions than an earlier one sends nothing after the first that differs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import WriterCommitMessage

from relaybox.errors import SparkFailed
from relaybox.failpoints import reach
from relaybox.spark.frames.adbc_sessions import adbc_errors, open_cursor, quote_text
from relaybox.spark.frames.numbered_rows import SENDING_SETTINGS, numbered_rows, one_row

if TYPE_CHECKING:
    from relaybox.spark.frames.write_options import WriteOptions

_TABLE = "relaybox_frame"

_POLL_SECONDS = 0.05
_OPTIONAL = {"topic": "text", "key": "text", "headers": "text", "payload": "text", "payload_bytes": "bytea"}
_DIGEST = f"""
    select count(*), encode(sha256(string_agg(sha256(convert_to(r::text, 'UTF8')), '' order by r.n)), 'hex') from {_TABLE} r
"""  # noqa: S608  our own name


@dataclass(frozen=True)
class Partition:
    """A partition of a run of a write.

    Attributes:
        write_id: names the write, in the store.
        run: a uuid.
        number: from 0.
    """

    write_id: str
    run: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number + 1} of {self.write_id}"


@dataclass
class Sent(WriterCommitMessage):
    """What a task has done with its partition."""

    messages: int
    sent_now: bool
    write_id: str
    run: str


def complete_write(options: WriteOptions, write_id: str, run: str, partition_count: int) -> None:
    """Runs in the driver, when all partitions are sent: from now on the write takes no other.

    Raises:
        PutChanged: an earlier run had other partitions. What both have was sent once.
        Transient, Terminal: the store failed. The write can be run again.
    """
    with (
        adbc_errors(options.store, f"ending write {write_id} of sender {options.sender}"),
        open_cursor(options.store, SENDING_SETTINGS, autocommit=False) as cursor,
    ):
        _complete(cursor, options, write_id, run, partition_count)
        cursor.connection.commit()


def send_partition(options: WriteOptions, partition: Partition, batches: Iterable[pa.RecordBatch]) -> Sent:
    """Sends the rows of a partition in one transaction, in their order, unless a transaction that committed has sent them.

    Waits until this run has sent the partition before, or found it sent.

    The rows go to the store as they come, by COPY into a temporary table of the session, so memory does not grow with the partition.
    The ids of the messages follow from sender, write, partition and row: a store that was restored to a time before the write sends
    the same ids.

    Raises:
        PutChanged: other rows were sent as this partition, or the write is complete without it. Nothing is sent.
        SparkFailed: the partition before was not sent for wait_seconds. Nothing is sent.
        SenderRefused, StoreUnusable: the login may not send so.
        Transient, Terminal: the store failed, or its outbox refuses a row. Nothing is sent.
    """
    rows = numbered_rows(batches)  # the first may take its time: before the transaction
    with (
        adbc_errors(options.store, f"sending {partition} of sender {options.sender}"),
        open_cursor(options.store, SENDING_SETTINGS, autocommit=False) as cursor,
    ):
        reach("frame.begin", None)
        done = _send(cursor, options, partition, rows)
        reach("frame.committing", None)
        cursor.connection.commit()
        reach("frame.committed", None)
    return done


def send_write(options: WriteOptions, write_id: str, run: str, partitions: Sequence[Iterable[pa.RecordBatch]]) -> list[Sent]:
    """Sends all partitions of a write, in their order, and completes the write, in one transaction. Else as send_partition().

    Raises:
        PutChanged: an earlier run had other rows or partitions. Nothing is sent.
        SenderRefused, StoreUnusable, Transient, Terminal: as send_partition(). Nothing is sent.
    """
    with (
        adbc_errors(options.store, f"sending {write_id} of sender {options.sender}"),
        open_cursor(options.store, SENDING_SETTINGS, autocommit=False) as cursor,
    ):
        reach("frame.begin", None)
        done = [
            _send(cursor, options, Partition(write_id, run, number), numbered_rows(batches))
            for number, batches in enumerate(partitions)
        ]
        _complete(cursor, options, write_id, run, len(done))
        reach("frame.committing", None)
        cursor.connection.commit()
        reach("frame.committed", None)
    return done


def _send(cursor: Any, options: WriteOptions, partition: Partition, rows: pa.RecordBatchReader | None) -> Sent:
    """Records a partition and inserts its messages in the caller's transaction, unless a committed one has."""
    count, content = 0, "empty"
    if rows is not None:
        cursor.adbc_ingest(_TABLE, rows, mode="create", temporary=True)
        count, digest = one_row(cursor, _DIGEST)
        content = hashlib.sha256("\n".join([*rows.schema.names, str(options.topic), digest]).encode()).hexdigest()
    reach("frame.copied", None)
    sent_now = _may_send(cursor, options, partition, content, count)
    if sent_now and rows is not None:
        first_index, epoch = "null", "1"
        if options.numbered:
            sender = quote_text(options.sender)
            numbers = f"select relaybox.next_indexes({sender}, {count}), relaybox.sender_epoch({sender})"
            first_index, epoch = map(str, one_row(cursor, numbers))
        (inserted,) = one_row(cursor, _insert(options, partition, rows.schema.names, first_index, epoch))
        if inserted != count:
            raise SparkFailed(
                f"store {options.store}: {inserted} of {count} messages of {partition} were inserted: a "
                "trigger or rule of others on relaybox.outbox drops the rest. Nothing was sent; relaybox doctor names it."
            )
    if rows is not None:
        cursor.execute(f"drop table pg_temp.{_TABLE}")  # a pooler lends the session of the server to the next task
    return Sent(count, sent_now=sent_now, write_id=partition.write_id, run=partition.run)


def _may_send(cursor: Any, options: WriteOptions, partition: Partition, content: str, count: int) -> bool:
    """Whether the caller's transaction is to send; False: a committed one has. Waits for the partition before."""
    write = _write(options, partition.write_id, partition.run)
    statement = f"select relaybox.record_partition({write}, {partition.number}, {quote_text(content)}, {count})"
    began = time.monotonic()
    while (said := one_row(cursor, statement)[0]) == "wait":
        if time.monotonic() - began > options.wait_seconds:
            raise SparkFailed(
                f"store {options.store}: {partition} of sender {options.sender} waited {options.wait_seconds} s for the one "
                "before, which this run has not sent. Nothing of it was sent.",
                next_step="Run the write again: what was sent is not sent twice. If this repeats, give a higher wait_seconds where one "
                "partition takes much longer than the next, or write fewer partitions: coalesce().",
            )
        time.sleep(_POLL_SECONDS)
    return bool(said == "send")


def _complete(cursor: Any, options: WriteOptions, write_id: str, run: str, partition_count: int) -> None:
    one_row(cursor, f"select relaybox.complete_write({_write(options, write_id, run)}, {partition_count})")


def _write(options: WriteOptions, write_id: str, run: str) -> str:
    """Arguments of the store's functions: which run of which write."""
    return f"{quote_text(options.sender)}, {quote_text(write_id)}, {quote_text(run)}::uuid"


def _insert(options: WriteOptions, partition: Partition, names: Sequence[str], first_index: str, epoch: str) -> str:
    """Of all rows of the temporary table into the outbox; gives their number."""
    values = {name: f"r.{name}" if name in names else f"null::{kind}" for name, kind in _OPTIONAL.items()}
    if options.topic is not None:
        values["topic"] = quote_text(options.topic)
    identity = quote_text(f"{options.sender}\n{partition.write_id}\n{partition.number}\n")
    return f"""
    with messages as (
        insert into relaybox.outbox (message_id, topic, sender, epoch, index, key, headers, payload, payload_bytes)
        select
            substr(encode(sha256(convert_to({identity} || r.n, 'UTF8')), 'hex'), 1, 32)::uuid, {values["topic"]},
            {quote_text(options.sender)}, {epoch}, {first_index}::bigint + r.n - 1, {values["key"]}, ({values["headers"]})::jsonb,
            {values["payload"]}, {values["payload_bytes"]}
        from {_TABLE} r
        order by r.n
        returning 1
    )
    select count(*) from messages
    """  # noqa: S608  quoted, or our own names
