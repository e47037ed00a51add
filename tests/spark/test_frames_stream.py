"""Streaming queries over a stream: each message once in the results, whatever ends between two micro-batches or in one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.frames import Batch, noting, run, serve
from tests.support.backups import Backups
from tests.support.streams import STORE, STREAM, deliver
from tests.support.world import World


def test_a_query_that_is_started_again_reads_exactly_the_rest(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    deliver(flights, 25)
    batches: list[Batch] = []
    run(frames, tmp_path, noting(batches))
    assert batches == [Batch(0, 1, 25, 25)]
    run(frames, tmp_path, noting(batches))
    deliver(flights, 10, backwards=True)
    run(frames, tmp_path, noting(batches))
    assert batches[1:] == [Batch(1, 26, 35, 10)]


def test_a_micro_batch_that_is_run_again_has_the_same_messages(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    """Also if more have arrived, and the limit of a batch is another one."""
    deliver(flights, 25)
    batches: list[Batch] = []
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(frames, tmp_path, noting(batches, fails_at=1), max_messages_per_batch=10)
    deliver(flights, 5)
    run(frames, tmp_path, noting(batches), max_messages_per_batch=7, partition_messages=2)
    assert batches == [
        Batch(0, 1, 10, 10),
        Batch(1, 11, 20, 10),
        Batch(1, 11, 20, 10),
        Batch(2, 21, 27, 7),
        Batch(3, 28, 30, 3),
    ]


def test_a_first_micro_batch_that_is_run_again_misses_nothing(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    """Spark asks again where the query begins: retention has moved `earliest` since."""
    deliver(flights, 10)
    batches: list[Batch] = []
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        run(frames, tmp_path, noting(batches, fails_at=0))
    flights.query(STORE, "update relaybox_internal.stream set first_kept_stream_position = 6")
    with pytest.raises(StreamingQueryException, match="stream position 1 is no longer kept; the first one is 6"):
        run(frames, tmp_path, noting(batches))
    assert batches == [Batch(0, 1, 10, 10)]


def subscribed(flights: World) -> list[tuple[object, ...]]:
    return flights.query(STORE, "select subscription, first_stream_position, done_stream_position from relaybox.subscriptions")


def test_a_query_acknowledges_its_subscription(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    """What is done when the next micro-batch begins, so that retention keeps what is not."""
    deliver(flights, 20)
    batches: list[Batch] = []
    note, done = noting(batches), []

    def sink(frame: DataFrame, number: int) -> None:
        done.append(subscribed(flights)[0][-1])
        note(frame, number)

    run(frames, tmp_path, sink, start=6, max_messages_per_batch=5, subscription="lake")
    assert [(batch.first, batch.last) for batch in batches] == [(6, 10), (11, 15), (16, 20)]
    assert done == [5, 10, 15]
    deliver(flights, 1)
    run(frames, tmp_path, sink, start=6, subscription="lake")
    assert done == [5, 10, 15, 20]
    assert [row[:2] for row in subscribed(flights)] == [("lake", 6)]


def test_two_queries_on_one_subscription_are_refused(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    """Nor may a query have that of a consumer."""
    deliver(flights, 5)
    batches: list[Batch] = []
    run(frames, tmp_path / "one", noting(batches), subscription="lake")
    with pytest.raises(StreamingQueryException, match="subscription lake belongs to another query"):
        run(frames, tmp_path / "two", noting(batches), subscription="lake")
    flights.query(STORE, f"select relaybox.subscribe('billing', '{STREAM}')")
    with pytest.raises(StreamingQueryException, match="subscription billing belongs to a consumer"):
        run(frames, tmp_path / "three", noting(batches), subscription="billing")
    assert len(batches) == 1


def test_a_query_begins_where_it_is_told_and_ends_at_the_head_of_its_start(
    frames: SparkSession, flights: World, tmp_path: Path
) -> None:
    """What arrives while it runs is for the next run."""
    deliver(flights, 20)
    batches: list[Batch] = []
    note = noting(batches)

    def sink(frame: DataFrame, number: int) -> None:
        note(frame, number)
        if number < 2:
            deliver(flights, 10)

    run(frames, tmp_path, sink, start=11, max_messages_per_batch=5)
    assert [(batch.first, batch.last) for batch in batches] == [(11, 15), (16, 20)]
    run(frames, tmp_path, note, max_messages_per_batch=50)
    assert batches[2:] == [Batch(2, 21, 40, 20)]


def test_g11_a_checkpoint_beyond_the_head_or_of_another_store_stops_the_query(
    frames: SparkSession, flights: World, backups: Backups, tmp_path: Path
) -> None:
    deliver(flights, 10)
    early = backups.take(STORE)
    deliver(flights, 10)
    batches: list[Batch] = []
    run(frames, tmp_path, noting(batches))
    backups.restore(STORE, early)
    serve(frames)
    with pytest.raises(
        StreamingQueryException, match="the stream ends at stream position 10, the query has planned or read through 20"
    ):
        run(frames, tmp_path, noting(batches))
    deliver(flights, 30)
    flights.query(STORE, "update relaybox_internal.store set store_id = gen_random_uuid()")
    with pytest.raises(StreamingQueryException, match="the query was planned for store"):
        run(frames, tmp_path, noting(batches))
    assert len(batches) == 1


def test_messages_that_retention_removed_before_they_were_read_stop_the_query(
    frames: SparkSession, flights: World, tmp_path: Path
) -> None:
    deliver(flights, 10)
    batches: list[Batch] = []
    run(frames, tmp_path, noting(batches))
    deliver(flights, 30)
    flights.query(STORE, "update relaybox_internal.stream set first_kept_stream_position = 16")
    with pytest.raises(StreamingQueryException, match="is no longer kept; the first one is 16"):
        run(frames, tmp_path, noting(batches))
    assert len(batches) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"through": 7}, "a streaming query has no option through"),
        ({"max_messages_per_batch": "many"}, "option max_messages_per_batch is 'many'"),
    ],
)
def test_options_of_a_batch_are_refused(
    frames: SparkSession, flights: World, tmp_path: Path, options: dict[str, object], says: str
) -> None:
    deliver(flights, 1)
    with pytest.raises(Exception, match=says):
        run(frames, tmp_path, noting([]), **options)
