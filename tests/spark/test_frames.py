"""Streams as DataFrames: what Spark reads is what the store delivers, row by row, whatever happens to the store meanwhile."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from relaybox.errors import ConfigurationError
from relaybox.spark.frames.payloads import parse_payload
from tests.spark.frames import ODD, positions, reading, serve, service_file, stored
from tests.support.backups import Backups
from tests.support.streams import STORE, STREAM, deliver
from tests.support.world import World


@pytest.mark.parametrize("partition_messages", [1, 3, 1000])
def test_a_frame_has_each_message_with_each_value(frames: SparkSession, flights: World, partition_messages: int) -> None:
    flights.query("airline", ODD)
    flights.transfer(flights.first_hop)
    rows = reading(frames, partition_messages=partition_messages).orderBy("stream_position").collect()
    found = [tuple(bytes(one) if isinstance(one, bytearray) else one for one in row) for row in rows]
    expected = [
        tuple(one.astimezone().replace(tzinfo=None) if hasattr(one, "astimezone") else one for one in row)
        for row in stored(flights)
    ]
    assert found == expected


def test_a_frame_is_the_same_however_often_it_is_read(frames: SparkSession, flights: World) -> None:
    """Its head is pinned. A condition of one query is none of the next one."""
    deliver(flights, 40)
    frame = reading(frames)
    assert frame.count() == 40
    deliver(flights, 5, backwards=True)
    assert positions(frame.filter("sender = 's1' and stream_position > 10")) == list(range(13, 41, 3))
    assert positions(frame) == list(range(1, 41))
    assert positions(reading(frames)) == list(range(1, 46))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start": 11, "through": 20}, range(11, 21)),
        ({"start": 31}, range(31, 41)),
        ({"start": "latest"}, ()),
        ({"through": "2020-01-01 00:00+00"}, ()),
        ({"start": 40, "through": 40, "partition_messages": 1}, [40]),
        ({"sender": "s2", "through": 8}, (2, 5, 8)),
        ({"key": "k3", "topic": "flights"}, range(3, 41, 7)),
        ({"key": "it's \\ no"}, ()),
    ],
)
def test_options_choose_messages(frames: SparkSession, flights: World, options: dict[str, object], expected: Any) -> None:
    deliver(flights, 40)
    assert positions(reading(frames, **options)) == list(expected)


def test_messages_since_a_time(frames: SparkSession, flights: World) -> None:
    """Of their delivery; the messages of the end itself are not in the range."""
    deliver(flights, 3)
    between = flights.value(STORE, "select clock_timestamp()::text")
    deliver(flights, 4)
    assert positions(reading(frames, start=between)) == [4, 5, 6, 7]
    assert positions(reading(frames, through=between)) == [1, 2, 3]


def test_a_schema_chooses_columns(frames: SparkSession, flights: World) -> None:
    """JSON is read in the same query."""
    flights.send('{"flight": 7, "delay": -3}', "no json")
    flights.transfer(flights.first_hop)
    source = frames.read.format("relaybox").options(store=STORE, stream=STREAM)
    frame = source.schema("payload string, stream_position bigint").load()
    parsed = frame.select("stream_position", f.from_json("payload", "flight int, delay int").alias("p")).select(
        "stream_position", "p.*"
    )
    assert [tuple(row) for row in parsed.orderBy("stream_position").collect()] == [(1, 7, -3), (2, None, None)]
    for schema, says in (
        ("position bigint", "a stream has no column position.*Its columns: stream_position, topic"),
        ("stream_position int", "column stream_position of a stream is bigint, not int"),
    ):
        with pytest.raises(PySparkException, match=f"(?s){says}"):
            source.schema(schema).load().count()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"password": "Tr0ub4dor"}, "option password is not taken.*service file"),
        ({"url": "postgresql://u:p@h/d"}, "option url is not taken"),
        ({"positions": "1"}, "a batch has no option positions.*Its options: store, stream"),
        ({"max_messages_per_batch": "1"}, "a batch has no option max_messages_per_batch"),
        ({"partition_messages": "0"}, "option partition_messages is '0'.*whole number from 1"),
        ({"stream": "nothing"}, "there is no stream nothing in this store"),
        ({"store": "nowhere"}, r"section \[nowhere\]"),
        ({"start": "yesterday-ish"}, "is no start"),
        ({"start": 50}, "there is no stream position 50 yet; the newest is 40"),
        ({"start": "0"}, "stream positions begin at 1"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_query_is_planned(
    frames: SparkSession, flights: World, options: dict[str, object], says: str
) -> None:
    deliver(flights, 40)
    with pytest.raises(PySparkException, match=f"(?s){says}") as refused:
        reading(frames, **options).count()
    assert "Tr0ub4dor" not in str(refused.value)


@pytest.mark.parametrize("first_kept", [11, 25])
def test_retention_between_plan_and_read_is_an_error_and_never_fewer_rows(
    frames: SparkSession, flights: World, first_kept: int
) -> None:
    """The frame was planned by its first query; the positions that are kept can still be read."""
    deliver(flights, 40)
    frame = reading(frames, partition_messages=20)
    assert frame.count() == 40
    flights.query(STORE, "update relaybox_internal.stream set first_kept_stream_position = %s", first_kept)
    with pytest.raises(PySparkException, match=rf"is no longer kept; the first one is {first_kept}"):
        frame.count()
    assert positions(reading(frames)) == list(range(first_kept, 41))


def test_messages_that_vanished_are_an_error(frames: SparkSession, flights: World) -> None:
    deliver(flights, 40)
    frame = reading(frames)
    flights.query(STORE, "delete from relaybox_internal.log where log_position = 17")
    with pytest.raises(PySparkException, match="RB012"):
        frame.count()


def test_a_store_that_went_back_in_time_or_is_another_one_stops_the_query(
    frames: SparkSession, flights: World, backups: Backups
) -> None:
    deliver(flights, 10)
    early = backups.take(STORE)
    deliver(flights, 10)
    frame = reading(frames)
    assert frame.count() == 20
    backups.restore(STORE, early)
    serve(frames)
    with pytest.raises(PySparkException, match="the stream ends at stream position 10, the query has planned or read through 20"):
        frame.count()
    deliver(flights, 10)
    with pytest.raises(PySparkException, match=r"stream position 20 has message .* other messages have arrived since"):
        frame.count()
    flights.query(STORE, "update relaybox_internal.store set store_id = gen_random_uuid()")
    with pytest.raises(PySparkException, match="the query was planned for store"):
        frame.count()


def test_a_login_reads_what_it_may(frames: SparkSession, flights: World) -> None:
    """Topics that are granted to others, and no right at all."""
    deliver(flights, 5)
    served = service_file(frames)
    text = served.read_text(encoding="utf-8")
    role = f"frame_reader_{os.getpid()}"
    flights.query(STORE, f"drop role if exists {role}")
    flights.query(STORE, f"create role {role} login password 'secret'")
    try:
        section = text.index(f"[{STORE}]")
        lines = [line for line in text[section:].splitlines() if not line.startswith(("user=", "password="))]
        lines[1:1] = [f"user={role}", "password=secret"]
        served.write_text(text[:section] + "\n".join(lines) + "\n", encoding="utf-8")
        with pytest.raises(PySparkException, match="permission denied"):
            reading(frames).count()
        flights.query(STORE, f"grant relaybox_consumer to {role}")
        assert positions(reading(frames)) == [1, 2, 3, 4, 5]
        flights.query(STORE, "select relaybox_internal.bind_topics(true)")
        with pytest.raises(PySparkException, match="RB041"):
            reading(frames).count()
    finally:
        flights.query(STORE, f"drop owned by {role}")
        flights.query(STORE, f"drop role {role}")


def test_a_payload_is_parsed_in_the_stage_that_reads_it(frames: SparkSession, flights: World) -> None:
    """One scan, no exchange; of a payload that does not fit, its fields are null, or the query stops and names the stream position."""
    flights.send('{"flight": 7, "delay": -3, "more": [1]}', '{"flight": 8}', '{"flight": "nine", "delay": 2}', "no json")
    flights.query("airline", "insert into relaybox.outbox (topic, sender, payload_bytes) values ('flights', 'UA', '\\x00')")
    flights.transfer(flights.first_hop)
    frame = reading(frames)
    schema = "flight int, delay int"
    parsed = parse_payload(frame, schema).select("stream_position", "payload.*")
    assert [tuple(row) for row in parsed.orderBy("stream_position").collect()] == [
        (1, 7, -3), (2, 8, None), (3, None, 2), (4, None, None), (5, None, None)
    ]  # fmt: skip
    for mode in ("permissive", "failfast"):
        plan = parse_payload(frame, schema, mode=mode)._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001
        assert (plan.count("BatchScan"), plan.count("Exchange"), plan.count("from_json")) == (1, 0, 1), plan
    good = parse_payload(reading(frames, through=2), StructType.fromDDL(schema), mode="failfast")
    assert [tuple(row) for row in good.select("payload.*").collect()] == [(7, -3), (8, None)]
    for start, told in ((1, 3), (4, 4)):
        failing = parse_payload(reading(frames, start=start), schema, mode="failfast").select("payload.delay")
        with pytest.raises(
            PySparkException, match=f"the payload at stream position {told} is not of the schema flight int, delay int"
        ):
            failing.collect()
    assert parse_payload(reading(frames, start=5), schema, mode="failfast").select("payload").collect() == [(None,)]
    for wrong, says in ((("payload", "fast"), "has no mode 'fast'"), (("payload", "failfast"), "needs column stream_position")):
        column, mode = wrong
        with pytest.raises(ConfigurationError, match=says):
            parse_payload(frame.select(column), schema, mode=mode)
