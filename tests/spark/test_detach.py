"""What only stopped consumers need goes into files and comes back, row by row: real Spark, real stores, one session for all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

import psycopg2
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet
from pyspark import SparkContext
from pyspark.sql import SparkSession

from relaybox import errors
from relaybox.errors import FilesFailed
from relaybox.failpoints import DETACH_FAILPOINTS
from relaybox.monitoring.message_trace import HopStage, trace_message
from relaybox.monitoring.overview import read_overview
from relaybox.retention.attaching import attach_segments
from relaybox.retention.detached_segments import list_detached
from relaybox.retention.detaching import StoreDetached, detach_segments, has_detach_work
from relaybox.retention.segment_archive import DetachedFile, DetachPart
from relaybox.retention.segments import TableRetained, read_retention, retain_store
from relaybox.spark.archive import SparkArchive
from relaybox.spark.comparison_runner import SparkComparisonRunner
from relaybox.spark.connect import TaskTry, connect_session
from relaybox.spark.tasks import ContextSession
from relaybox.stores.binary_copy.log_rows import RowsDigest
from relaybox.subscriptions.subscriptions import list_subscriptions
from relaybox.verification.route_verification import verify_route
from tests.airflow.connect_server import connect_server
from tests.spark.submit import spark_submit
from tests.support.cli import invoke
from tests.support.services import break_service, read_service
from tests.support.sinks import webhook
from tests.support.world import STORES, World

pytestmark = pytest.mark.thorough

LOG = "flights/1"

ODD = """
alter table relaybox.outbox drop constraint message_is_accepted; -- stores of before have such numbers
insert into relaybox.outbox (topic, sender, key, headers, payload, payload_bytes, clock) values
('flights', 'UA', null, null, '', null, null),
('flights', 'SCHEDULER.1', '', '{"b": [1.00, null, "\\u00e9"], "a": {"n": 123456789012345678901234567890.10}}', e'tab\\t"quote"\\n\\\\.\\x7f 😀', null, null),
('flights', 'DL', 'k', '{}', null, decode('00ff0a5c2e00', 'hex'), '{"UA": 7, "DL": [1, 2]}'),
('flights', 'DL', e'\\\\N', '{"ä": null}', 'true', null, '{}'),
('flights', 'DL', 'k', '{"n": 1e400}', repeat('long ', 300000), null, null)
"""
"""Messages that a careless conversion changes; positions 1 to 5."""


@pytest.fixture
def spark(frames: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch) -> SparkContext:
    """Its tasks find the stores of this test."""
    monkeypatch.setitem(frames.sparkContext.environment, "PGSERVICEFILE", os.environ["PGSERVICEFILE"])
    return frames.sparkContext


@pytest.fixture
def archive(spark: SparkContext) -> SparkArchive:
    return SparkArchive(ContextSession(spark))


@pytest.fixture
def stopped(world: World, tmp_path: Path) -> World:
    """Segments of ten rows; at hub `live` has read all 45 messages, `dead` five of them."""
    world.cut_small_segments()
    world.change_route(
        retention={
            "replay_window_seconds": 0,
            "stopped_consumer": "detach",
            "detach_after_seconds": 0,
            "detach_to": str(tmp_path / "files"),
        }
    )
    for name in ("live", "dead"):
        world.query("hub", "select relaybox.subscribe(%s, 'flights')", name)
    world.query("airline", ODD)
    world.send_many(20)
    with world.session("airline", autocommit=True) as connection, connection.cursor() as cursor:
        for seq, odd in ((7, "infinity"), (8, "290000-12-31 23:59:59.999999+00"), (9, "4713-01-01 00:00:00.000001+00 BC")):
            cursor.execute("update relaybox.outbox set sent_at = %s where seq = %s", (odd, seq))
        # verify takes changed rows for tampering. A session writes its counts down when it is idle, or at its end
        # which may come after the reset: so this session does both
        cursor.execute("select pg_stat_force_next_flush()")
        cursor.execute("select pg_stat_reset()")
    world.transfer_all()
    send(world, 20)
    assert [stream_position for stream_position, _ in read(world, "live", 100)] == list(range(1, 46))
    assert [row[0] for row in read(world, "dead", 5)] == [1, 2, 3, 4, 5]
    return world


def send(world: World, count: int) -> None:
    world.send_many(count)
    world.transfer_all()
    world.settle_all()


def read(world: World, subscription: str, count: int) -> list[tuple[int, bytes]]:
    """Fetches this number of messages and acknowledges them: stream position and every bit of each message."""
    with world.session("hub") as consumer, consumer.cursor() as cursor:
        cursor.execute(
            """
            select f.stream_position, record_send(row(
                f.hop, f.log_position, f.message_id, f.topic, f.sender, f.epoch, f.index, f.key, f.payload, f.payload_bytes, f.headers, f.clock, f.sent_at
            ))
            from relaybox.fetch(%s, %s, worker => 'w') f
            """,
            (subscription, count),
        )
        rows = cursor.fetchall()
        if rows:
            cursor.execute("select relaybox.ack(%s, %s)", (subscription, rows[-1][0]))
        consumer.commit()
    return [(stream_position, bytes(message)) for stream_position, message in rows]


def log_rows(world: World) -> list[tuple[int, bytes]]:
    """Position and every bit of each row of the log."""
    rows = world.query("hub", "select log_position, record_send(l) from relaybox_internal.log l where log_id = 1 order by 1")
    return [(log_position, bytes(row)) for log_position, row in rows]


def tables(world: World) -> list[tuple[str, str]]:
    """What belongs to segments and tables of their kind: names of tables, indexes and constraints."""
    return world.query(
        "hub",
        """
        select c.relname::text, coalesce(k.conname::text, '') from pg_class c left join pg_constraint k on k.conrelid = c.oid and k.contype in ('c', 'p')
        where starts_with(c.relname, 'log_1_s') order by 1, 2
        """,
    )


def detach(world: World, archive: SparkArchive) -> StoreDetached:
    return detach_segments(world.routes.store("hub"), archive, recorded_by="test")


def attach(world: World, archive: SparkArchive, **options: object) -> list[int]:
    """First positions of what came back."""
    return [one.first for one in attach_segments(world.routes.store("hub"), LOG, archive, recorded_by="test", **options)]  # type: ignore[arg-type]


def retain(world: World) -> TableRetained:
    return next(table for table in retain_store(world.routes.store("hub"), recorded_by="test").tables if table.hop == LOG)


def states(world: World) -> list[tuple[int, str]]:
    return world.query("hub", "select first, state from relaybox_internal.detached_segment order by first")


def stand_still(world: World, *tables: str) -> None:
    """Two hours, in which nothing is delivered (decision), nobody fetches (cursor) or attaches (detached_segment)."""
    for table in tables or ("decision", "cursor", "detached_segment"):
        column = "decided_at" if table == "decision" else "moved_at"
        world.query("hub", f"update relaybox_internal.{table} set {column} = {column} - interval '2 hours'")


def refusal(world: World, query: str) -> psycopg2.Error:
    with pytest.raises(psycopg2.Error) as caught:
        world.query("hub", query)
    return caught.value


def shown(world: World) -> list[tuple[str | None, int | None, str]]:
    """What the page in Airflow says of what is detached: of which log, how many messages, and how it begins."""
    found = [finding for finding in read_overview(world.routes).findings if finding.kind == "messages_detached"]
    return [(finding.hop, finding.message_count, finding.what.partition(" them,")[0]) for finding in found]


def directories(tmp_path: Path) -> set[str]:
    return {str(path) for path in tmp_path.glob("files/hub/flights/1/*")}


def test_nothing_is_detached_of_a_log_whose_reader_has_yet_to_subscribe(stopped: World, archive: SparkArchive) -> None:
    """It would begin behind what is detached. It is named; no JVM starts for it. What is detached already is not let go of."""
    hub = stopped.routes.store("hub")
    (segment, *_) = detach(stopped, archive).segments
    sink = webhook(stopped, "http://127.0.0.1:1/")
    send(stopped, 20)
    assert len(read(stopped, "live", 100)) == 20
    assert has_detach_work(hub)
    assert not has_detach_work(hub, stopped.routes)
    done = detach_segments(hub, archive, recorded_by="test", routes=stopped.routes)
    assert (done.segments, done.removed) == ((), ())
    assert done.kept[LOG].startswith(
        "relaybox.yaml names webhook billing, which has not subscribed to this stream yet and needs all from position "
    )
    stopped.query("hub", "select relaybox.unsubscribe('dead', 'test')")
    assert retain_store(hub, recorded_by="test", routes=stopped.routes).released_count == 0
    assert (segment.first, "detached") in states(stopped)
    stopped.query("hub", "select relaybox.subscribe(%s, 'flights')", sink.subscription)
    assert retain_store(hub, recorded_by="test", routes=stopped.routes).released_count > 0


def test_g8_what_only_a_stopped_consumer_needs_is_detached_and_comes_back(
    stopped: World, archive: SparkArchive, tmp_path: Path
) -> None:
    """A reader of it is told where it is; others read on. Attached, every bit is as before and the consumer goes on there."""
    before, before_tables = log_rows(stopped), tables(stopped)
    stopped.query("hub", "select relaybox.subscribe('early', 'flights')")
    messages = read(stopped, "early", 100)
    assert (retain(stopped).dropped_count, retain(stopped).holder) == (0, "subscription dead")
    told = invoke("retention", "hub", "--dry-run").stdout
    assert "4 segments" in told
    assert "would be detached for dead" in told
    assert has_detach_work(stopped.routes.store("hub"))
    done = detach(stopped, archive)
    assert [(one.first, one.row_count, one.needed_by) for one in done.segments] == [
        (0, 9, ("dead",)), (10, 10, ("dead",)), (20, 10, ("dead",)), (30, 10, ("dead",))
    ]  # fmt: skip
    assert log_rows(stopped) == before[39:]
    for call in (
        "select * from relaybox.fetch('dead')",
        "select relaybox.replay('live', '6', 'again')",
        "select relaybox.replay('live', '2020-01-01', 'again')",
        "select * from relaybox.read_stream('flights', 5)",
        "select * from relaybox.read_log('flights/1', 5)",
    ):
        error = refusal(stopped, call)
        assert error.pgcode == "RB038", call
        assert done.segments[0].directory in str(error)
        assert "Bring it back: relaybox attach hub flights/1" in str(error)
    assert "subscription dead, lane 1: stream position 6 is detached" in str(
        refusal(stopped, "select * from relaybox.fetch('dead')")
    )
    assert {one.subscription: one.detached_stream_positions for one in list_subscriptions(stopped.routes.store("hub"))} == {
        "dead": 34,
        "early": 0,
        "live": 0,
    }
    assert (
        stopped.query(
            "hub", "select labels, value from relaybox_internal.store_metrics() where metric = 'relaybox_detached_messages'"
        ),
        shown(stopped),
    ) == (
        [({"hop": LOG}, 39.0)],
        [(LOG, 39, "Messages of the log of hop flights/1 at hub are detached, 4 segments in files: only dead needed")],
    )

    message_id = stopped.value("airline", "select message_id::text from relaybox.outbox where seq = 6")
    (trace,) = trace_message([stopped.route], UUID(message_id))
    assert trace.hops[0].stage is HopStage.DETACHED

    send(stopped, 5)
    assert [stream_position for stream_position, _ in read(stopped, "live", 100)] == [46, 47, 48, 49, 50]
    assert (retain(stopped).outcome, retain(stopped).holder) == ("kept", "subscription dead")
    assert stopped.query("hub", "select count(*) from relaybox_internal.decision") == [(3,)], (
        "what it brings back is still told by its ledgers"
    )
    assert verify_route(stopped.route).outcome == "delivered"
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    assert invoke("attach", "hub", LOG, "--dry-run").stdout.count("would come back") == 4
    assert attach(stopped, archive, count=1) == [30]
    assert refusal(stopped, "select * from relaybox.fetch('dead')").pgcode == "RB038"
    assert (attach(stopped, archive), shown(stopped)) == ([20, 10, 0], [])
    assert log_rows(stopped)[:45] == before
    assert set(before_tables) <= set(tables(stopped))
    assert stopped.query(
        "hub",
        (
            "select first_kept_position, first_kept_stream_position, dropped_stream_position "
            "from relaybox_internal.hop_in, relaybox_internal.stream"
        ),
    ) == [(1, 1, 0)]
    assert verify_route(stopped.route).outcome == "delivered"
    assert {kind for stream in verify_route(stopped.route).streams for kind in stream.violations} == set()

    stand_still(stopped, "decision", "cursor")
    assert not has_detach_work(stopped.routes.store("hub")), "what was attached just now stays"
    stand_still(stopped, "detached_segment")
    assert has_detach_work(stopped.routes.store("hub"))

    again = read(stopped, "dead", 100)
    assert ([stream_position for stream_position, _ in again], again[:40]) == (list(range(6, 51)), messages[5:])
    read(stopped, "early", 100)
    assert retain(stopped).dropped_count == 5
    assert {state for _, state in states(stopped)} == {"released"}
    assert len(directories(tmp_path)) == 4
    assert len(detach(stopped, archive).removed) == 4
    assert directories(tmp_path) == set()
    assert not has_detach_work(stopped.routes.store("hub"))


def test_a_login_of_a_driver_detaches_and_attaches(stopped: World, archive: SparkArchive) -> None:
    """It owns no table: segments are made, moved and dropped by functions with the owner's rights."""
    owner, messages = read_service("hub"), log_rows(stopped)
    stopped.query("hub", "drop role if exists driver_of_a_test")
    stopped.query("hub", "create role driver_of_a_test login password 'p' in role relaybox_driver, pg_read_all_stats")
    break_service("hub", user="driver_of_a_test", password="p")
    done = detach(stopped, archive)
    came_back = attach(stopped, archive)
    break_service("hub", **owner)
    assert len(came_back) == len(done.segments) > 0
    assert log_rows(stopped) == messages


def test_g8_a_slow_consumer_is_not_detached_and_an_ended_one_is_let_go(
    stopped: World, archive: SparkArchive, tmp_path: Path
) -> None:
    """It is who neither fetched nor acknowledged for so long. Unsubscribed, nobody needs the files; and a lane that goes on keeps its part."""
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    assert not has_detach_work(stopped.routes.store("hub"))
    stand_still(stopped, "cursor")
    assert not has_detach_work(stopped.routes.store("hub")), "what waits for it has not waited for so long"
    assert held_seconds(stopped) == 0
    stand_still(stopped, "decision")
    assert 3600 <= held_seconds(stopped) < 5400, "it could have been detached an hour ago"
    stopped.query("hub", "select relaybox.subscribe('slow', 'flights', '21')")
    assert [segment.last for segment in tables_of(stopped).detachable] == [9, 19]
    assert len(detach(stopped, archive).segments) == 2
    assert retain(stopped).holder == "subscription dead"
    stopped.query("hub", "select relaybox.unsubscribe('slow')")
    assert len(detach(stopped, archive).segments) == 2
    assert held_seconds(stopped) == 0, "it keeps no whole segment any more"
    stopped.query("hub", "select relaybox.unsubscribe('dead')")
    retain(stopped)
    assert {state for _, state in states(stopped)} == {"released"}
    assert stopped.query("hub", "select first_kept_stream_position, dropped_stream_position from relaybox_internal.stream") == [
        (40, 39)
    ]
    assert refusal(stopped, "select * from relaybox.read_stream('flights', 5)").pgcode == "RB034"
    assert len(detach(stopped, archive).removed) == 4
    assert directories(tmp_path) == set()


def held_seconds(world: World) -> float:
    """For how long `dead` has kept a whole segment, as the alarm has it."""
    query = "select value from relaybox_internal.store_metrics() where metric = 'relaybox_retention_held_seconds' and labels ->> 'holder' = 'dead'"
    return float(world.value("hub", query))


def tables_of(world: World):
    return next(table for table in read_retention(world.routes.store("hub")).tables if table.hop == LOG)


def test_g8_detaching_and_attaching_are_gone_on_with_after_any_step(
    stopped: World, archive: SparkArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever step it ends at: each row is in the log or in checked files, and the next run does the rest and leaves no trace."""
    before, before_tables = log_rows(stopped), tables(stopped)
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))

    def target(failpoint: str, run: Callable[[], object]) -> None:
        monkeypatch.setenv("RELAYBOX_FAILPOINTS", f"{failpoint}=raise 57P01")
        with pytest.raises(errors.StoreUnreachable):
            run()
        monkeypatch.delenv("RELAYBOX_FAILPOINTS")
        in_files = stopped.value(
            "hub", "select coalesce(sum(row_count), 0) from relaybox_internal.detached_segment where state = 'detached'"
        )
        assert len(log_rows(stopped)) + in_files == len(before), failpoint

    steps = [failpoint for failpoint in DETACH_FAILPOINTS if failpoint.startswith("detach.")]
    for failpoint in steps:
        target(failpoint, lambda: detach(stopped, archive))
    detach(stopped, archive)
    assert states(stopped) == [(first, "detached") for first in (0, 10, 20, 30)]
    assert directories(tmp_path) == {one.directory for one in list_detached(stopped.routes.store("hub"), LOG)}
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    for failpoint in [one for one in DETACH_FAILPOINTS if one not in steps]:
        target(failpoint, lambda: attach(stopped, archive))
    attach(stopped, archive)
    assert log_rows(stopped) == before
    assert tables(stopped) == before_tables


@dataclass
class Interrupted:
    """An archive that does something else when it has written, or copied back."""

    archive: SparkArchive
    meanwhile: Callable[[], object]

    def write(self, part: DetachPart) -> None:
        self.archive.write(part)

    def digest(self, directory: str) -> RowsDigest:
        found = self.archive.digest(directory)
        self.meanwhile()
        return found

    def list_files(self, directory: str) -> list[DetachedFile]:
        return self.archive.list_files(directory)

    def copy_back(self, part: DetachPart) -> None:
        self.archive.copy_back(part)
        self.meanwhile()

    def remove(self, directory: str) -> None:
        self.archive.remove(directory)


def test_g8_two_runs_at_once_detach_and_attach_each_segment_once(stopped: World, archive: SparkArchive, tmp_path: Path) -> None:
    """The newer attempt wins, the older one is told so; and who subscribes meanwhile keeps what she needs."""
    before = log_rows(stopped)
    hub = stopped.routes.store("hub")
    run = detach_segments(hub, Interrupted(archive, lambda: detach(stopped, archive)), recorded_by="first")
    assert (run.segments, run.kept) == ((), {LOG: "another run that detaches it"})
    assert states(stopped) == [(first, "detached") for first in (0, 10, 20, 30)]
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    with pytest.raises(errors.SliceSuperseded):
        list(attach_segments(hub, LOG, Interrupted(archive, lambda: attach(stopped, archive)), recorded_by="first"))
    assert log_rows(stopped) == before
    stand_still(stopped)
    again = Interrupted(archive, lambda: stopped.query("hub", "select relaybox.subscribe('new', 'flights')"))
    assert detach_segments(hub, again, recorded_by="third").kept == {LOG: "subscription new"}
    assert log_rows(stopped) == before
    retain(stopped)
    detach(stopped, archive)
    assert ("released" in {state for _, state in states(stopped)}, has_detach_work(hub)) == (True, False)


@dataclass
class Overtaken(Interrupted):
    """Another run takes over before it writes, or copies back."""

    def write(self, part: DetachPart) -> None:
        self.meanwhile()
        self.archive.write(part)

    def digest(self, directory: str) -> RowsDigest:
        return self.archive.digest(directory)

    def copy_back(self, part: DetachPart) -> None:
        self.meanwhile()
        self.archive.copy_back(part)


def test_g8_a_run_whose_table_another_one_drops_is_told_so(stopped: World, archive: SparkArchive) -> None:
    """Spark finds no table then: what it says of that is no help to anyone."""
    before = log_rows(stopped)
    hub = stopped.routes.store("hub")
    run = detach_segments(hub, Overtaken(archive, lambda: detach(stopped, archive)), recorded_by="first")
    assert (run.segments, run.kept) == ((), {LOG: "another run that detaches it"})
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    with pytest.raises(
        errors.SliceSuperseded, match=r"another run attaches positions 30 to 39 of flights/1.*relaybox attach hub"
    ):
        list(attach_segments(hub, LOG, Overtaken(archive, lambda: attach(stopped, archive)), recorded_by="first"))
    assert log_rows(stopped) == before
    with pytest.raises(errors.FilesFailed):  # an error of the attempt itself stays what it is
        stand_still(stopped)
        detach(stopped, archive)
        remove_files = Overtaken(archive, lambda: [archive.remove(one.directory) for one in list_detached(hub, LOG)])
        list(attach_segments(hub, LOG, remove_files, recorded_by="first"))


def test_g8_the_application_goes_on_where_a_killed_one_ended(
    stopped: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark-submit, as the DAG starts it: killed with the files checked and nothing dropped, it leaves all in place for the next."""
    before = log_rows(stopped)
    with monkeypatch.context() as patch:
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
        patch.setenv("RELAYBOX_FAILPOINTS", "detach.checked:2=kill")
        assert spark_submit("detach.py", "--store", "hub").returncode != 0
    assert states(stopped) == [(0, "detached"), (10, "detaching")]
    assert log_rows(stopped) == before[9:]
    assert len(directories(tmp_path)) == 2
    done = spark_submit("detach.py", "--store", "hub", "--recorded-by", "the DAG")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "detach_done store=hub segments=3 removed=1 kept=nothing" in done.stdout
    assert log_rows(stopped) == before[39:]
    assert directories(tmp_path) == {one.directory for one in list_detached(stopped.routes.store("hub"), LOG)}


def test_g8_no_fetch_passes_over_a_segment_that_is_going(stopped: World, archive: SparkArchive) -> None:
    """A fetch of a topic looks for its rows in the log: it comes before the drop, or after it, or must begin anew."""
    hub = stopped.routes.store("hub")
    stopped.query("hub", "select relaybox.subscribe('topic', 'flights', '3')")
    stopped.query("hub", "update relaybox_internal.subscription set topic = 'flights' where subscription = 'topic'")
    with stopped.session("hub") as reading, reading.cursor() as cursor:
        cursor.execute("select stream_position from relaybox.fetch('topic', 5)")
        assert detach_segments(hub, archive, recorded_by="test", patience_seconds=0).kept.keys() == {LOG}
        reading.rollback()
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select 1")
        assert len(detach(stopped, archive).segments) == 4
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("select stream_position from relaybox.fetch('topic', 5)")
        reading.rollback()
        with pytest.raises(psycopg2.Error, match="subscription topic, lane 1: stream position 3 is detached"):
            cursor.execute("select stream_position from relaybox.fetch('topic', 5)")
        reading.rollback()
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    attach(stopped, archive)
    assert [row[0] for row in read(stopped, "topic", 100)] == list(range(3, 46))


def test_g8_a_stream_of_two_logs_is_detached_log_by_log_and_read_when_both_are_back(
    world: World, archive: SparkArchive, tmp_path: Path
) -> None:
    """Stream positions of both logs alternate: one that is here waits for one that is not, and order and content are as before."""
    retention = {"replay_window_seconds": 0, "stopped_consumer": "detach", "detach_after_seconds": 0, "detach_to": str(tmp_path)}
    causal = {"topics": ["chat"], "order": "causal", "stream": "chat", "retention": retention}
    routes = {"chat-a": {**causal, "path": ["hub", "hub"]}, "chat-b": {**causal, "path": ["airline", "hub"]}}
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()
    world.cut_small_segments()
    hops = {"hub": "chat-a/1", "airline": "chat-b/1"}
    for store in hops:
        world.query(store, "select relaybox.declare_sender(%s, 'gapless')", store)
    for name in ("live", "dead"):
        world.query("hub", "select relaybox.subscribe(%s, 'chat')", name)
    for first in (1, 8, 15, 22):
        for store, hop in hops.items():
            world.query(
                store,
                "insert into relaybox.outbox (topic, sender, epoch, index, payload) select 'chat', %s, 1, n, 'm' || n from generate_series(%s, %s) n",
                *(store, first, first + 6),
            )
            world.transfer(world.routes.hop(hop))
    messages = read(world, "live", 100)
    assert [stream_position for stream_position, _ in messages] == list(range(1, 57))
    assert {(one.hop, one.first) for one in detach(world, archive).segments} == {
        (hop, first) for hop in hops.values() for first in (0, 10)
    }
    assert read(world, "live", 100) == []
    assert refusal(world, "select * from relaybox.fetch('dead')").pgcode == "RB038"
    world.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    for hop, held in (("chat-b/1", "chat-a/1"), ("chat-a/1", None)):
        assert len(list(attach_segments(world.routes.store("hub"), hop, archive, recorded_by="test"))) == 2
        if held:
            assert f"relaybox attach hub {held}" in str(refusal(world, "select * from relaybox.fetch('dead')"))
    assert world.query(
        "hub", "select first_kept_stream_position, dropped_stream_position from relaybox_internal.stream where stream = 'chat'"
    ) == [(1, 0)]
    assert read(world, "dead", 100) == messages


def test_g8_files_that_were_changed_are_refused(stopped: World, archive: SparkArchive, tmp_path: Path) -> None:
    """A changed row, a missing file, a cut file: nothing of the segment is readable, and the files' own rows come back when repaired."""
    before = log_rows(stopped)
    detach(stopped, archive)
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    newest = Path(list_detached(stopped.routes.store("hub"), LOG)[0].directory)
    (file,) = newest.glob("*.parquet")
    checksum = file.with_name(f".{file.name}.crc")
    whole, table = file.read_bytes(), parquet.read_table(file)
    assert table.column("log_position").to_pylist() == list(range(30, 40))
    checksum.unlink()

    def changed() -> None:
        payloads = pa.array([*table.column("payload").to_pylist()[:-1], "forged"])
        parquet.write_table(table.set_column(table.schema.get_field_index("payload"), "payload", payloads), file)

    for damage, kind in (
        (changed, errors.ContentDiffers),
        (lambda: file.write_bytes(whole[: len(whole) // 2]), errors.FilesFailed),
        (file.unlink, errors.ContentDiffers),
    ):
        damage()
        with pytest.raises(kind, match=str(newest)):
            attach(stopped, archive)
        assert log_rows(stopped) == before[39:]
    file.write_bytes(whole)
    assert attach(stopped, archive, remove=True) == [30, 20, 10, 0]
    assert log_rows(stopped) == before
    assert directories(tmp_path) == set()


def test_g8_files_of_earlier_versions_come_back(stopped: World, archive: SparkArchive, tmp_path: Path) -> None:
    """Before 0.1.0 the column `log_position` was called `position`. A directory may have files of both kinds."""
    before = log_rows(stopped)
    detach(stopped, archive)
    stopped.query("hub", "update relaybox_internal.hop_in set detach_after_seconds = 3600")
    oldest, newest = (list_detached(stopped.routes.store("hub"), LOG)[at].directory for at in (-1, 0))
    for file in (*Path(oldest).glob("*.parquet"), *Path(newest).glob("*.parquet")):
        table = parquet.read_table(file)
        names = ["position" if name == "log_position" else name for name in table.column_names]
        assert "position" in names
        parquet.write_table(table.rename_columns(names), file)
        file.with_name(f".{file.name}.crc").unlink()
    assert attach(stopped, archive, remove=True) == [30, 20, 10, 0]
    assert log_rows(stopped) == before


def test_g8_files_that_are_not_what_the_store_has_drop_nothing(stopped: World, archive: SparkArchive) -> None:
    """Executors that write where nobody else reads, say."""

    class Forgetful(Interrupted):
        def digest(self, directory: str) -> RowsDigest:
            found = super().digest(directory)
            return replace(found, row_count=found.row_count - 1)

    before = log_rows(stopped)
    with pytest.raises(errors.ContentDiffers, match="The segment stays where it is"):
        detach_segments(stopped.routes.store("hub"), Forgetful(archive, lambda: None), recorded_by="test")
    assert log_rows(stopped) == before


def test_g8_a_connect_server_detaches_attaches_and_verifies(
    stopped: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Through the command too, by Spark's own variable SPARK_REMOTE. Files are removed by the file systems of the server."""
    before = log_rows(stopped)
    retain(stopped)
    with connect_server(tmp_path / "server.log", service_file=Path(os.environ["PGSERVICEFILE"])) as port:
        address = f"sc://127.0.0.1:{port}/"
        with connect_session(address, TaskTry("dag", str(tmp_path), "detach", 1), {}) as session:
            archive = SparkArchive(session)
            done = detach(stopped, archive)
            assert [(one.first, one.row_count) for one in done.segments] == [(0, 9), (10, 10), (20, 10), (30, 10)]
            assert directories(tmp_path) == {one.directory for one in done.segments}
            assert log_rows(stopped) == before[39:]
            assert refusal(stopped, "select * from relaybox.fetch('dead')").pgcode == "RB038"
            assert attach(stopped, archive, count=1, remove=True) == [30]
            assert directories(tmp_path) == {one.directory for one in done.segments[:3]}
            archive.remove(done.segments[3].directory)  # it is gone already
            with pytest.raises(FilesFailed, match=r"reading the files in /nowhere: .*PATH_NOT_FOUND"):
                archive.copy_back(DetachPart("hub", "log_1", 1, 2, "/nowhere"))
            runner = SparkComparisonRunner(session, session_name="relaybox flights verify")
            assert verify_route(stopped.route, runner=runner).outcome == "delivered"
        monkeypatch.setenv("SPARK_REMOTE", address)
        assert invoke("attach", "hub", LOG).exit_code == 0
        monkeypatch.delenv("SPARK_REMOTE")
    assert log_rows(stopped) == before
