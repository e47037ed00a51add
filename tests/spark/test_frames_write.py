"""DataFrames into an outbox: each row is one message, whatever Spark repeats, runs twice or runs again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.support.patience import patience
from tests.support.streams import STREAM, deliver
from tests.support.world import World

OUTBOX = "airline"
SENT = "select payload from relaybox.outbox order by seq"


def numbers(frames: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    return frames.range(1, count + 1, 1, partitions).select(f.concat(f.lit("m"), "id").alias("payload"))


def write(frame: DataFrame, **options: str) -> None:
    given = {"store": OUTBOX, "sender": "job", "topic": STREAM, "write_id": "w1", **options}
    frame.write.format("relaybox").options(**given).mode("append").save()


def sent(world: World) -> list[str]:
    return [payload for (payload,) in world.query(OUTBOX, SENT)]


def test_g3_a_write_that_is_run_again_sends_nothing(frames: SparkSession, flights: World) -> None:
    """A driver that was restarted has the same write_id. Another one is another write."""
    for _ in range(2):
        write(numbers(frames, 100))
    assert sorted(sent(flights)) == sorted(f"m{number}" for number in range(1, 101))
    write(numbers(frames, 2, 1), write_id="w2")
    assert sent(flights)[100:] == ["m1", "m2"]
    assert flights.value(OUTBOX, "select count(distinct message_id) from relaybox.outbox") == 102


def test_g3_an_atomic_write_is_sent_as_a_whole_and_once(frames: SparkSession, flights: World) -> None:
    """One partition is refused by the outbox: none is sent. Then all are, in their order, in one transaction."""
    flights.query(OUTBOX, "alter table relaybox.outbox add constraint no_m95 check (payload <> 'm95') not valid")
    with pytest.raises(PySparkException, match="no_m95"):
        write(numbers(frames, 100), atomic="true")
    assert sent(flights) == []
    flights.query(OUTBOX, "alter table relaybox.outbox drop constraint no_m95")
    for _ in range(2):
        write(numbers(frames, 100), atomic="true")
    assert sent(flights) == [f"m{number}" for number in range(1, 101)]
    assert flights.value(OUTBOX, "select count(distinct xmin::text) from relaybox.outbox") == 1
    write(numbers(frames, 100))  # the same write, whether atomic or not
    assert len(sent(flights)) == 100


def test_g3_other_rows_under_the_same_id_are_refused(frames: SparkSession, flights: World) -> None:
    """Rows that Spark distributed otherwise too, in more or fewer partitions: nothing is sent twice, nor taken for sent."""
    write(numbers(frames, 100, 2))
    for other in (numbers(frames, 99, 2), numbers(frames, 100, 4), numbers(frames, 100, 1), numbers(frames, 200, 4)):
        with pytest.raises(PySparkException, match="Send new messages under another write_id"):
            write(other)
    assert sent(flights) == [f"m{number}" for number in range(1, 101)]


def test_g3_a_partition_that_is_empty_now_is_another_one(frames: SparkSession, flights: World) -> None:
    write(numbers(frames, 2, 1))
    moved = numbers(frames, 4, 4).filter("payload in ('m3', 'm4')").select(f.translate("payload", "34", "12").alias("payload"))
    with pytest.raises(PySparkException, match=r"these are 0 messages|is complete with 1 partitions; this is partition"):
        write(moved)
    assert sent(flights) == ["m1", "m2"]


def test_g3_a_micro_batch_that_grew_is_another_one(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    """A checkpoint that was rolled back, while more had arrived: its last micro-batch is sent, and is not sent in another form."""
    deliver(flights, 10)
    copy_stream(frames, tmp_path / "c")
    shutil.copytree(tmp_path / "c", tmp_path / "old")
    deliver(flights, 5)
    copy_stream(frames, tmp_path / "c")
    deliver(flights, 15)
    with pytest.raises(StreamingQueryException, match="Send new messages under another write_id"):
        copy_stream(frames, tmp_path / "old", limit=20)
    assert sent(flights) == [f"copy of m{number}" for number in range(1, 16)]


def test_every_column_arrives_as_it_is(frames: SparkSession, flights: World) -> None:
    rows: list[tuple[Any, ...]] = [
        (STREAM, "k'1", '{"a": 1}', "", None),
        ("crew", None, None, 'a,"b"\\N\n\t😀', None),
        (STREAM, "", None, None, b"\x00\xff\n"),
    ]
    schema = "topic string, key string, headers string, payload string, payload_bytes binary"
    frame = frames.createDataFrame(rows, schema).coalesce(1)
    frame.write.format("relaybox").options(store=OUTBOX, sender="job", write_id="w").mode("append").save()
    query = "select topic, key, headers::text, payload, payload_bytes from relaybox.outbox order by seq"
    found = [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in flights.query(OUTBOX, query)]
    assert found == rows


def test_g5_the_order_of_a_partition_is_kept_and_numbered(frames: SparkSession, flights: World) -> None:
    flights.query(OUTBOX, "select relaybox.declare_sender('job', 'gapless')")
    write(numbers(frames, 500, 1), numbered="true")
    assert flights.query(OUTBOX, "select index, payload from relaybox.outbox order by seq") == [
        (number, f"m{number}") for number in range(1, 501)
    ]


def copy_stream(frames: SparkSession, checkpoint: Path, store: str = OUTBOX, limit: int = 10, **options: str) -> None:
    """From the stream of the store hub into the outbox of airline, in micro-batches of ten."""
    source = frames.readStream.format("relaybox").options(store="hub", stream=STREAM, max_messages_per_batch=str(limit)).load()
    writer = source.select(f.concat(f.lit("copy of "), "payload").alias("payload")).writeStream.format("relaybox")
    writer = writer.options(store=store, sender="job", topic="copies", checkpointLocation=str(checkpoint), **options)
    writer = writer.trigger(availableNow=True)
    assert writer.start().awaitTermination(int(patience(120)))


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_g3_a_micro_batch_that_is_run_again_sends_nothing(
    frames: SparkSession, flights: World, tmp_path: Path, atomic: str
) -> None:
    """Its driver died after the tasks had committed: Spark runs the last micro-batch again."""
    deliver(flights, 25)
    copy_stream(frames, tmp_path / "c", atomic=atomic)
    shutil.rmtree(tmp_path / "c" / "commits")
    deliver(flights, 5)
    copy_stream(frames, tmp_path / "c", atomic=atomic)
    assert sent(flights) == [f"copy of m{number}" for number in range(1, 31)]


def test_g3_a_query_whose_store_failed_sends_the_rest(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    deliver(flights, 25)
    flights.query(OUTBOX, "revoke insert on relaybox.outbox from public")
    flights.query(
        OUTBOX,
        "create function public.refuse() returns trigger language plpgsql as "
        "$$ begin if new.payload = 'copy of m15' then raise 'not now'; end if; return new; end $$",
    )
    flights.query(OUTBOX, "create trigger refuse before insert on relaybox.outbox for each row execute function public.refuse()")
    with pytest.raises(StreamingQueryException, match="not now"):
        copy_stream(frames, tmp_path / "c")
    assert len(sent(flights)) == 10
    flights.query(OUTBOX, "drop trigger refuse on relaybox.outbox")
    copy_stream(frames, tmp_path / "c")
    assert sent(flights) == [f"copy of m{number}" for number in range(1, 26)]


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("payload", {"write_id": ""}, "option write_id is missing.*a repeat sends nothing"),
        ("payload", {"write_id": "a b"}, "option write_id is 'a b'"),
        ("payload", {"password": "x"}, "option password is not taken"),
        ("payload", {"truncate": "true"}, "a writer has no option truncate"),
        ("payload", {"numbered": "yes"}, "option numbered is 'yes'"),
        ("payload", {"wait_seconds": "0"}, "option wait_seconds is '0'.*from 1 to 999999"),
        ("payload, 1 as id", {}, "a message has no column id.*to_json"),
        ("1 as payload", {}, "column payload is int, a message has string.*Cast it"),
        ("payload as key", {}, "there is no column payload or payload_bytes"),
        ("payload, 'x' as topic", {}, "there is both a column topic and an option topic"),
    ],
)
def test_what_makes_no_message_is_refused_when_the_write_is_planned(
    frames: SparkSession, flights: World, columns: str, options: dict[str, str], says: str
) -> None:
    frame = numbers(frames, 3).selectExpr(*columns.split(", "))
    with pytest.raises(PySparkException, match=f"(?s){says}"):
        write(frame, **options)
    assert sent(flights) == []


def test_an_outbox_is_not_overwritten(frames: SparkSession, flights: World) -> None:
    writer = numbers(frames, 3).write.format("relaybox").options(store=OUTBOX, sender="job", topic=STREAM, write_id="w")
    with pytest.raises(PySparkException, match=r"(?i)overwrit|truncate"):
        writer.mode("overwrite").save()
    assert sent(flights) == []


def test_an_empty_frame_sends_nothing(frames: SparkSession, flights: World) -> None:
    write(numbers(frames, 10).filter("payload = 'none'"))
    assert sent(flights) == []
