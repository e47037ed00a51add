"""Messages that retention detached are read from their files, in the same query: what Spark reads is what the store delivered."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import fs, parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from relaybox import errors
from relaybox.retention.attaching import attach_segments
from relaybox.retention.detached_segments import list_detached
from relaybox.retention.detaching import detach_segments
from relaybox.retention.segments import retain_store
from relaybox.spark.archive import SparkArchive
from relaybox.spark.frames.arrow_copy import read_messages
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.detached_rows import DetachedRows
from relaybox.spark.frames.ranges import PinnedMessage, pin_message, require_message
from relaybox.spark.tasks import ContextSession
from tests.spark.frames import ODD, Batch, noting, positions, reading, run, serve, stored
from tests.support.object_store import BUCKET, running_object_store
from tests.support.streams import STORE, STREAM
from tests.support.world import STORES, World

pytestmark = pytest.mark.thorough

HOP = "flights/1"


@dataclass(frozen=True)
class Detaching:
    """A hub with segments of ten rows, whose consumer `dead` has read nothing, and an archive for its segments."""

    world: World
    archive: SparkArchive

    def send(self, count: int) -> None:
        self.world.send_many(count)
        self.world.send_many(2, sender="DL")
        self.world.transfer_all()
        self.world.settle_all()

    def detach(self) -> int:
        """Detaches what only `dead` needs; the number of segments."""
        self.read("live")
        return len(detach_segments(self.world.routes.store(STORE), self.archive, recorded_by="test").segments)

    def attach(self, count: int | None = None, hop: str = HOP) -> int:
        store = self.world.routes.store(STORE)
        return len(list(attach_segments(store, hop, self.archive, recorded_by="test", count=count, remove=True)))

    def read(self, subscription: str) -> None:
        """Acknowledges all that there is."""
        with self.world.session(STORE) as consumer, consumer.cursor() as cursor:
            cursor.execute("select max(stream_position) from relaybox.fetch(%s, 1000, worker => 'w')", (subscription,))
            if (last := cursor.fetchone()[0]) is not None:
                cursor.execute("select relaybox.ack(%s, %s)", (subscription, last))
            consumer.commit()

    def file(self) -> Path:
        """Of the newest detached segment."""
        (file,) = Path(list_detached(self.world.routes.store(STORE), HOP)[0].directory).glob("*.parquet")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        return file


@pytest.fixture
def detaching(frames: SparkSession, flights: World, tmp_path: Path) -> Detaching:
    flights.cut_small_segments()
    flights.change_route(retention=retention(tmp_path / "files"))
    for name in ("live", "dead"):
        flights.query(STORE, "select relaybox.subscribe(%s, 'flights')", name)
    return Detaching(flights, SparkArchive(ContextSession(frames.sparkContext)))


def retention(directory: Path) -> dict[str, object]:
    return {"replay_window_seconds": 0, "stopped_consumer": "detach", "detach_after_seconds": 0, "detach_to": str(directory)}


def rows(frames: SparkSession, **options: object) -> list[tuple[Any, ...]]:
    found = reading(frames, **options).orderBy("stream_position").collect()
    return [tuple(bytes(one) if isinstance(one, bytearray) else one for one in row) for row in found]


def kept_from(world: World) -> int:
    return int(world.value(STORE, "select first_kept_stream_position from relaybox_internal.stream where stream = %s", STREAM))


def test_a_frame_has_detached_messages_from_their_files(frames: SparkSession, detaching: Detaching) -> None:
    """Each with each value, whatever the partitions; the store still refuses them to consumers."""
    world = detaching.world
    world.query("airline", ODD)
    detaching.send(38)
    before = rows(frames)
    assert [row[0] for row in before] == list(range(1, 46))
    assert detaching.detach() == 4
    assert kept_from(world) == 40
    for partition_messages in (7, 1000):
        assert rows(frames, partition_messages=partition_messages) == before
    assert rows(frames, start=8, through=12) == before[7:12]
    assert rows(frames, start=40) == before[39:]
    assert [row[0] for row in rows(frames, start=2, sender="DL")] == [3, 4, 5, 44, 45]
    assert [row[0] for row in rows(frames, key="it's")] == [3]
    source = frames.read.format("relaybox").options(store=STORE, stream=STREAM)
    payloads = source.schema("payload string").load().collect()
    assert sorted(row[0] or "" for row in payloads) == sorted(row[4] or "" for row in before)
    with pytest.raises(Exception, match="stream position 6 is detached"):
        world.query(STORE, "select * from relaybox.read_stream('flights', 5)")
    assert rows(frames) == before == sorted(before)[: len(before)]


def test_a_query_streams_from_earliest_over_detached_messages(frames: SparkSession, detaching: Detaching, tmp_path: Path) -> None:
    detaching.send(38)
    detaching.detach()
    batches: list[Batch] = []
    run(frames, tmp_path / "checkpoint", noting(batches), max_messages_per_batch=25)
    assert batches == [Batch(0, 1, 25, 25), Batch(1, 26, 40, 15)]


def test_a_query_that_stopped_reads_its_own_detached_messages(frames: SparkSession, detaching: Detaching, tmp_path: Path) -> None:
    """Its subscription stood still; it goes on by its checkpoint, out of the files."""
    detaching.send(8)
    batches: list[Batch] = []
    run(frames, tmp_path / "checkpoint", noting(batches))
    detaching.send(28)
    assert detaching.detach() == 4
    run(frames, tmp_path / "checkpoint", noting(batches))
    assert batches == [Batch(0, 1, 10, 10), Batch(1, 11, 40, 30)]


def test_the_subscription_of_a_query_goes_on_over_detached_messages(
    frames: SparkSession, detaching: Detaching, tmp_path: Path
) -> None:
    """They were detached because it stopped. A query that begins in detached messages has a subscription from the first kept one on."""
    detaching.send(8)
    world, batches = detaching.world, list[Batch]()
    done = "select done_stream_position from relaybox.subscriptions where subscription = %s"
    run(frames, tmp_path / "stopped", noting(batches), subscription="stopped")
    detaching.send(28)
    assert detaching.detach() == 4
    run(frames, tmp_path / "stopped", noting(batches), subscription="stopped", max_messages_per_batch=16)
    assert batches == [Batch(0, 1, 10, 10), Batch(1, 11, 26, 16), Batch(2, 27, 40, 14)]
    assert world.value(STORE, done, "stopped") == 26
    detaching.send(2)
    run(frames, tmp_path / "stopped", noting(batches), subscription="stopped")
    assert (batches[3:], world.value(STORE, done, "stopped")) == ([Batch(3, 41, 44, 4)], 40)
    batches.clear()
    run(frames, tmp_path / "new", noting(batches), subscription="new", max_messages_per_batch=42)
    assert batches == [Batch(0, 1, 42, 42), Batch(1, 43, 44, 2)]
    assert world.query(STORE, "select first_stream_position from relaybox.subscriptions where subscription = 'new'") == [(40,)]
    assert world.value(STORE, done, "new") == 42


@pytest.mark.parametrize("partition_messages", [5, 1000])
def test_a_segment_that_is_detached_between_planning_and_reading_is_read_once(
    frames: SparkSession, detaching: Detaching, partition_messages: int
) -> None:
    """And one that is attached again, whose files are gone. A frame is planned by its first query."""
    detaching.send(38)
    frame = reading(frames, partition_messages=partition_messages)
    assert positions(frame) == list(range(1, 41))
    assert detaching.detach() == 4
    detaching.send(3)
    assert positions(frame) == list(range(1, 41))
    later = reading(frames, partition_messages=partition_messages)
    assert positions(later) == list(range(1, 46))
    assert detaching.attach() == 4
    for one in (frame, later):
        assert positions(one) == list(range(1, 46 if one is later else 41))


@pytest.mark.parametrize("only", [{}, {"sender": "UA"}])
def test_a_task_that_stands_still_while_messages_are_detached_and_attached_reads_each_once(
    detaching: Detaching, monkeypatch: pytest.MonkeyPatch, only: dict[str, str]
) -> None:
    """Between two statements: in a segment that goes, and in one that comes back."""
    detaching.send(38)
    monkeypatch.setattr("relaybox.spark.frames.arrow_copy.FIRST_COUNT", 3)
    monkeypatch.setattr("relaybox.spark.frames.arrow_copy.MAX_COUNT", 3)
    expected = [row[0] for row in stored(detaching.world) if only.get("sender", row[2]) == row[2]]
    found: list[int] = []
    moved: dict[int, Callable[[], int]] = {6: detaching.detach, 18: lambda: detaching.attach(2), 33: detaching.detach}
    for batch in read_messages(STORE, STREAM, 1, 40, columns=SCHEMA, only=only):
        found += batch.column(0).to_pylist()
        for at in [one for one in moved if found and found[-1] >= one]:
            moved.pop(at)()
    assert moved == {}
    assert found == expected


def test_files_that_are_gone_when_a_task_opens_them_are_asked_for_again(
    detaching: Detaching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has named them, and attached their segments since."""
    detaching.send(38)
    assert detaching.detach() == 4
    take, attached = DetachedRows.take, list[int]()

    def attach_and_take(rows: DetachedRows, log_positions: Any) -> pa.Table:
        if not attached:
            attached.append(detaching.attach())
        return take(rows, log_positions)

    monkeypatch.setattr(DetachedRows, "take", attach_and_take)
    batches = read_messages(STORE, STREAM, 1, 40, columns=SCHEMA, only={})
    assert [at for batch in batches for at in batch.column(0).to_pylist()] == list(range(1, 41))
    assert attached == [4]


def test_g11_a_pinned_message_is_compared_with_that_of_the_files(frames: SparkSession, detaching: Detaching) -> None:
    """A store that was restored, has grown since, and has detached what is new: else a query reads on in the other history."""
    detaching.send(30)
    frame = reading(frames, through="12")
    assert frame.count() == 12
    row = pin_message(STORE, STREAM, 12)
    assert detaching.detach()
    assert frame.count() == 12
    assert pin_message(STORE, STREAM, 12) == row
    require_message(STORE, STREAM, row)
    with pytest.raises(errors.HistoryLost, match=r"stream position 12 has message .* other messages have arrived since"):
        require_message(STORE, STREAM, PinnedMessage(12, str(uuid.uuid4())))


def test_a_first_message_that_is_detached_before_it_is_read_is_not_passed_over(detaching: Detaching) -> None:
    """read_stream() begins with the first kept message, whichever that is."""
    detaching.send(38)
    assert detaching.detach() == 4
    batches = read_messages(STORE, STREAM, 1, 40, columns=SCHEMA, only={"sender": "UA"})
    assert [at for batch in batches for at in batch.column(0).to_pylist()] == list(range(1, 39))


def test_a_segment_that_is_dropped_for_good_stops_the_query(frames: SparkSession, detaching: Detaching) -> None:
    """Its consumer has ended: retention lets the files go."""
    detaching.send(38)
    detaching.detach()
    frame = reading(frames)
    assert frame.count() == 40
    detaching.world.query(STORE, "select relaybox.unsubscribe('dead')")
    retain_store(detaching.world.routes.store(STORE), recorded_by="test")
    for query in (frame, reading(frames, start=5)):
        with pytest.raises(PySparkException, match="is no longer kept; the first one is 40"):
            query.count()
    assert positions(reading(frames)) == [40]


def damage(file: Path, how: str) -> None:
    whole, table = file.read_bytes(), parquet.read_table(file)
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif how == "bits":  # the last ones of a page of payloads
        columns = parquet.ParquetFile(file).metadata.row_group(0)
        payload = columns.column(table.schema.get_field_index("payload"))
        at = payload.data_page_offset + payload.total_compressed_size - 2 - (payload.dictionary_page_offset is not None)
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    elif how == "forged":
        payloads = pa.array([*table.column("payload").to_pylist()[:-1], "forged"])
        parquet.write_table(table.set_column(table.schema.get_field_index("payload"), "payload", payloads), file)
    elif how == "rows":
        parquet.write_table(table.slice(1), file)


def test_files_that_are_gone_or_were_changed_stop_the_query(frames: SparkSession, detaching: Detaching) -> None:
    """The error names files and command. An earlier version wrote no names and sizes of files down."""
    detaching.send(38)
    detaching.detach()
    file = detaching.file()
    whole = file.read_bytes()
    for how, is_known, says in (
        ("gone", True, r"are not all there.*\.parquet"),
        ("cut", True, r"has \d+ bytes, it had \d+ when it was verified"),
        ("bits", True, "are damaged|can't be read"),
        ("forged", True, r"has \d+ bytes, it had \d+ when it was verified"),
        ("gone", False, "has 0 files with 0 rows, the store detached 10"),
        ("cut", False, "are damaged|can't be read"),
        ("rows", False, "has 1 files with 9 rows, the store detached 10"),
    ):
        if not is_known:
            detaching.world.query(STORE, "update relaybox_internal.detached_segment set files = null")
        assert positions(reading(frames)) == list(range(1, 41))
        damage(file, how)
        with pytest.raises(PySparkException) as refused:
            reading(frames).collect()
        told = " ".join(str(refused.value).split())
        assert str(file.parent) in told, how
        assert re.search(says, told), (how, told[:2000])
        assert "relaybox attach hub flights/1" in told
        assert positions(reading(frames, start=40)) == [40]
        file.write_bytes(whole)


def test_files_of_earlier_versions_are_read(frames: SparkSession, detaching: Detaching) -> None:
    """Their column `log_position` was called `position`."""
    detaching.send(38)
    before = rows(frames)
    detaching.detach()
    detaching.world.query(STORE, "update relaybox_internal.detached_segment set files = null")
    file = detaching.file()
    table = parquet.read_table(file)
    parquet.write_table(
        table.rename_columns(["position" if name == "log_position" else name for name in table.column_names]), file
    )
    assert rows(frames) == before


def test_detached_messages_beside_kept_ones_of_another_log(frames: SparkSession, flights: World, tmp_path: Path) -> None:
    """Stream positions of two logs alternate: files have those of one, the store has those of the other."""
    causal = {"topics": ["chat"], "order": "causal", "stream": "chat", "retention": retention(tmp_path / "files")}
    routes = {"chat-a": {**causal, "path": ["hub", "hub"]}, "chat-b": {**causal, "path": ["airline", "hub"]}}
    flights.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    flights.register()
    flights.cut_small_segments()
    serve(frames)
    hops = {"hub": "chat-a/1", "airline": "chat-b/1"}
    for store in hops:
        flights.query(store, "select relaybox.declare_sender(%s, 'gapless')", store)
    for name in ("live", "dead"):
        flights.query(STORE, "select relaybox.subscribe(%s, 'chat')", name)
    for first in (1, 8, 15, 22):
        for store, hop in hops.items():
            flights.query(
                store,
                "insert into relaybox.outbox (topic, sender, epoch, index, payload) select 'chat', %s, 1, n, 'm' || n from generate_series(%s, %s) n",
                *(store, first, first + 6),
            )
            flights.transfer(flights.routes.hop(hop))
    before = rows(frames, stream="chat")
    assert [row[0] for row in before] == list(range(1, 57))
    detaching = Detaching(flights, SparkArchive(ContextSession(frames.sparkContext)))
    assert detaching.detach() == 4
    assert rows(frames, stream="chat", partition_messages=9) == before
    assert detaching.attach(hop="chat-a/1") == 2
    assert rows(frames, stream="chat", partition_messages=9) == before
    flights.query(
        STORE,
        "delete from relaybox_internal.log where log_id = (select log_id from relaybox_internal.hop_in where hop = 'chat-a/1') and log_position = 3",
    )
    with pytest.raises(PySparkException, match="RB012"):
        rows(frames, stream="chat")


@pytest.fixture(scope="module")
def object_store() -> Iterator[Any]:
    with running_object_store() as store:
        yield store


def test_files_in_an_object_store_are_read(detaching: Detaching, object_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As detach_to names it: s3a://. The executors' environment has what S3 asks for."""
    detaching.send(38)
    detaching.detach()
    world = detaching.world
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    system, _ = fs.FileSystem.from_uri(f"s3://{BUCKET}")
    for segment in list_detached(world.routes.store(STORE), HOP):
        to = f"{BUCKET}{segment.directory}"
        system.create_dir(to)
        fs.copy_files(segment.directory, to, destination_filesystem=system)
        shutil.rmtree(segment.directory)
    world.query(STORE, "update relaybox_internal.detached_segment set directory = %s || directory", f"s3a://{BUCKET}")

    def read() -> list[int]:
        return [
            at for batch in read_messages(STORE, STREAM, 1, 40, columns=SCHEMA, only={}) for at in batch.column(0).to_pylist()
        ]

    assert read() == list(range(1, 41))
    world.query(STORE, "update relaybox_internal.detached_segment set directory = replace(directory, 's3a://', 'hdfsx://')")
    with pytest.raises(errors.ConfigurationError, match="relaybox attach"):
        read()


def test_a_login_reads_files_by_the_store_it_may_read(detaching: Detaching) -> None:
    """Without a right on the stream the store does not tell where its files are."""
    detaching.send(38)
    detaching.detach()
    world = detaching.world
    role = f"frame_reader_{os.getpid()}"
    world.query(STORE, f"drop role if exists {role}")
    world.query(STORE, f"create role {role}")
    calls = (
        "select * from relaybox.read_detached('flights', 5)",
        "select * from relaybox.stream_range_with_files('flights')",
        "select * from relaybox.detached_files('flights', 'x')",
    )
    try:
        for call in calls:
            with pytest.raises(Exception, match="permission denied"):
                world.query(STORE, f"set role {role}; {call}")
        world.query(STORE, f"grant relaybox_consumer to {role}")
        for call in calls:
            world.query(STORE, f"set role {role}; {call}")
        world.query(STORE, "select relaybox_internal.bind_topics(true)")
        for call in calls:
            with pytest.raises(Exception, match="flights"):
                world.query(STORE, f"set role {role}; {call}")
    finally:
        world.query(STORE, f"drop owned by {role}; drop role {role}")
