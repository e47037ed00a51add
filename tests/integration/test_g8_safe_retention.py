"""G8: nothing is dropped that a hop, a subscription, a dead letter or the replay window still needs; and all the rest is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import psycopg2
import pytest

from relaybox.errors import HistoryLost, HopChanged, UnknownMessage
from relaybox.failpoints import RETENTION_FAILPOINTS
from relaybox.monitoring.message_trace import HopStage, trace_message
from relaybox.monitoring.status import read_status
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.retention.segments import TableRetained, read_retention, retain_store
from relaybox.verification.reliability import PERFECT
from relaybox.verification.route_verification import verify_route
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.world import STORES, World, insert, wait_until

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


LOCK_WAITS = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def small(world: World) -> World:
    """Segments of ten rows, and a route that keeps nothing longer than it is needed."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    return world


def move(world: World, count: int = 45, prefix: str = "m") -> None:
    """Sends, transfers over both hops, settles."""
    world.send_many(count, prefix=prefix)
    world.transfer_all()
    world.settle_all()


def read(world: World, subscription: str, stream_position: int) -> None:
    """Fetches, and acknowledges through a stream position."""
    world.query(
        "hub", "select relaybox.ack(%s, %s, min(token)) from relaybox.fetch(%s)", subscription, stream_position, subscription
    )


def retain(world: World, store: str, patience_seconds: float = 20.0) -> dict[str | None, TableRetained]:
    done = retain_store(world.routes.store(store), recorded_by="test", patience_seconds=patience_seconds)
    return {table.hop: table for table in done.tables}


def kept(world: World, store: str, hop: str | None = None) -> list[int]:
    """First seqs or positions of the segments that are still there."""
    tables = {table.hop: table for table in read_retention(world.routes.store(store)).tables}
    return [segment.first for segment in tables[hop].segments]


def holders(world: World, store: str, hop: str | None = None) -> set[str]:
    tables = {table.hop: table for table in read_retention(world.routes.store(store)).tables}
    return {holder.name for holder in tables[hop].holders}


def rows(world: World, store: str, hop: str | None = None) -> list[int]:
    query = (
        "select seq from relaybox.outbox order by seq"
        if hop is None
        else f"select log_position from relaybox.inbox where hop = '{hop}' order by 1"
    )
    return [row[0] for row in world.query(store, query)]


def test_g8_what_everybody_is_done_with_goes_and_the_newest_segment_stays(small: World) -> None:
    """Whole segments, in the outbox and in each log (A3.24); the last message can always be read again (A3.25)."""
    move(small, 45)
    assert [
        retain(small, store)[hop].dropped_count
        for store, hop in (("airline", None), ("hub", "flights/1"), ("analytics", "flights/2"))
    ] == [4, 4, 4]
    assert (
        rows(small, "airline")
        == rows(small, "hub", "flights/1")
        == rows(small, "analytics", "flights/2")
        == [40, 41, 42, 43, 44, 45]
    )
    assert small.query(
        "hub", "select hop, first, last, dropped_by from relaybox_internal.dropped_segment order by first limit 1"
    ) == [("flights/1", 0, 9, "test")]
    again = retain(small, "hub")["flights/1"]
    assert (again.dropped_count, again.outcome, again.holder) == (0, "kept", "newest flights/1")
    small.send_many(4)
    small.transfer_all()
    small.settle_all()
    assert rows(small, "hub", "flights/1") == list(range(40, 50))
    assert retain(small, "hub")["flights/1"].dropped_count == 0, "position 49 is the last one of the newest segment"


def test_g8_everything_is_kept_until_a_window_is_set(small: World) -> None:
    """A default that loses nothing: explicit is safe."""
    small.change_route()
    move(small)
    for store in STORES:
        for table in retain(small, store).values():
            assert table.dropped_count == 0
    assert "no replay window is set, everything is kept" in invoke("retention", "--dry-run").stdout
    told = invoke("retention").stdout.splitlines()
    kept_by = "the next segment is kept: flights/1: no replay window is set, everything is kept"
    assert f"airline: outbox: 0 segments dropped, 0.0 MB; {kept_by}" in told


def test_retention_says_who_keeps_the_next_segment_in_the_words_of_the_dry_run(small: World) -> None:
    """A hop, an outbox that no hop reads, the newest segment."""
    small.query("analytics", "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'x')")
    small.send_many(45)
    small.transfer_all()
    told = invoke("retention").stdout
    assert "airline: outbox: 0 segments dropped, 0.0 MB; the next segment is kept: hop flights/1, from 1\n" in told
    alone = "the next segment is kept: no hop reads the outbox: no replay window is set, everything is kept\n"
    assert f"analytics: outbox: 0 segments dropped, 0.0 MB; {alone}" in told
    small.settle_all()
    told = invoke("retention").stdout
    assert re.search(
        r"hub: log of flights/1: 4 segments dropped, [\d.]+ MB; the next segment is kept: the newest segment stays, from 45\n",
        told,
    )


def test_g8_a_message_stays_for_the_replay_window(small: World) -> None:
    """By the store's clock, from its delivery on."""
    small.change_route(retention={"replay_window_seconds": 3600})
    move(small, 25)
    for table, column in (("decision", "decided_at"), ("arrival", "published_at"), ("batch", "planned_at")):
        small.query("hub", f"update relaybox_internal.{table} set {column} = {column} - interval '2 hours'")
    small.query("airline", "update relaybox_internal.batch set planned_at = planned_at - interval '2 hours'")
    move(small, 20)
    assert kept(small, "hub", "flights/1")[0] == kept(small, "airline")[0] == 0
    assert retain(small, "hub")["flights/1"].holder == "window flights/1"
    assert retain(small, "airline")[None].holder == "window flights/1"
    assert (rows(small, "hub", "flights/1")[0], rows(small, "airline")[0]) == (20, 20)


def test_g8_a_hop_that_has_not_settled_keeps_what_it_reads(small: World) -> None:
    """Received is not settled; sent is not received; a log is kept for the hop behind it."""
    small.send_many(15)
    small.transfer_all()
    assert retain(small, "airline")[None].holder == "hop flights/1"
    assert retain(small, "hub")["flights/1"].holder == "hop flights/2"
    small.settle_all()
    small.send_many(30)
    assert retain(small, "airline")[None].dropped_count == 1
    assert rows(small, "airline")[0] == 10
    small.transfer()
    assert retain(small, "hub")["flights/1"].dropped_count == 1
    assert rows(small, "hub", "flights/1")[0] == 10


def test_g8_a_message_committed_late_in_an_old_segment_is_kept_until_it_arrived(small: World) -> None:
    """Its transaction took a low seq, stayed open while later ones went all the way, and committed between look and drop."""
    with small.session() as late:
        insert(late, "late")
        move(small, 45)
        assert retain(small, "airline", patience_seconds=0.0)[None].outcome == "busy"
        late.commit()
    assert retain(small, "airline")[None].holder == "hop flights/1"
    small.transfer_all()
    small.settle_all()
    assert retain(small, "airline")[None].dropped_count == 4
    assert "late" in small.payloads("flights/2")


def test_g8_a_message_that_commits_while_retention_waits_for_its_segment_is_kept(small: World) -> None:
    """It was open when retention looked, and is in nobody's batch when retention has the table to itself."""
    with small.session() as late, ThreadPoolExecutor(1) as pool:
        insert(late, "late")
        move(small, 45)
        retained = pool.submit(retain, small, "airline")
        wait_until(lambda: small.value("airline", LOCK_WAITS) > 0, "retention waits for the outbox", poll_seconds=0.005)
        late.commit()
        assert retained.result(patience(60))[None].dropped_count == 0
    small.transfer_all()
    assert "late" in small.payloads("flights/2")


def test_g8_nobody_waits_longer_than_the_lock_timeout(small: World) -> None:
    """A producer and a consumer with open transactions: retention gives up, names them, and comes again; others pass meanwhile."""
    move(small)
    small.query("hub", "select relaybox.subscribe('live', 'flights', 'latest')")
    move(small, 3)
    with small.session() as producer, small.session("hub") as consumer, consumer.cursor() as cursor:
        insert(producer, "open")
        cursor.execute("select stream_position from relaybox.fetch('live')")
        assert cursor.fetchall() == [(46,), (47,), (48,)]
        for store, hop, session in (("airline", None, producer), ("hub", "flights/1", consumer)):
            busy = retain(small, store, patience_seconds=0.0)[hop]
            assert (busy.outcome, busy.dropped_count) == ("busy", 0)
            assert f"(pid {session.info.backend_pid}, idle in transaction since" in str(busy.holder)
        with ThreadPoolExecutor(1) as pool, small.session(autocommit=True) as other, other.cursor() as others:
            trying = pool.submit(retain, small, "airline", 3600.0)
            others.execute("set lock_timeout = '5s'")
            try:
                for _ in range(2):
                    wait_until(lambda: small.value("airline", LOCK_WAITS) > 0, "retention tries", poll_seconds=0.005)
                    for _ in range(10):
                        others.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'passes')")
                    wait_until(lambda: small.value("airline", LOCK_WAITS) == 0, "it gives up for now", poll_seconds=0.005)
                assert not trying.done()
            finally:
                producer.rollback()
            dropped = trying.result(patience(60))[None].dropped_count
        consumer.commit()
    small.transfer_all()
    small.settle_all()
    assert dropped + retain(small, "airline")[None].dropped_count >= 4
    assert retain(small, "hub")["flights/1"].dropped_count == 4


def test_g8_nothing_is_dropped_while_a_session_locks_a_hop_or_the_stream(small: World) -> None:
    """A hop that is planned, and a subscription or replay that begins, may need in a moment what nobody needs now."""
    move(small)
    for store, hop, held in (
        ("airline", None, "relaybox_internal.hop_out for update"),
        ("hub", "flights/1", "relaybox_internal.hop_out for update"),
        ("hub", "flights/1", "relaybox_internal.hop_in for key share"),
        ("hub", "flights/1", "relaybox_internal.stream for key share"),
    ):
        with small.session(store) as holder, holder.cursor() as cursor:
            cursor.execute(f"select from {held}")
            table = retain(small, store, patience_seconds=0.0)[hop]
            assert (table.outcome, table.dropped_count) == ("busy", 0), held
    assert retain(small, "hub")["flights/1"].dropped_count == 4


DROP_OLDEST = "relaybox_internal.drop_oldest_segment(integer, text, bigint, integer)"


@pytest.mark.parametrize("held", ["stream for no key update", "hop_out for update"])
def test_g8_a_drop_locks_the_hop_that_fills_the_log_after_its_readers_and_its_stream(small: World, held: str) -> None:
    """As delivery does (stream, then hop_in by a foreign key), and registering a hop (hop_out, then hop_in): no deadlock."""
    move(small)
    small.query("hub", f"alter function {DROP_OLDEST} set lock_timeout = '60s'")
    with small.session("hub") as other, ThreadPoolExecutor(1) as pool, other.cursor() as cursor:
        cursor.execute(f"select from relaybox_internal.{held}")
        drop = pool.submit(small.value, "hub", "select outcome from relaybox_internal.drop_oldest_segment(1, 'test')")
        waiting = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        wait_until(lambda: small.value("hub", waiting), "retention waits for the other session")
        cursor.execute("select from relaybox_internal.hop_in for key share")
        other.commit()
        assert drop.result(patience(60)) == "dropped"


@pytest.mark.parametrize("failpoint", RETENTION_FAILPOINTS)
def test_g8_retention_killed_anywhere_is_gone_on_with(small: World, tmp_path: Path, failpoint: str) -> None:
    """A drop is one statement: it is there or not, whatever becomes of who asked for it."""
    for count in (20, 25):  # the ledgers of the first batch go
        move(small, count)
    nth = 1 if failpoint == "retention.compacted" else 2  # one ledger of the store has something to remove
    env = {
        **os.environ,
        "RELAYBOX_FAILPOINTS": f"{failpoint}:{nth}=kill",
        "RELAYBOX_FAILPOINTS_DIRECTORY": str(tmp_path),
        "RELAYBOX_ENVIRONMENT": "test",
    }
    command = [sys.executable, "-c", "from relaybox.cli import main; main()", "retention", "hub"]
    killed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=patience(120), check=False)
    assert killed.returncode == -9
    first = small.value("hub", "select first_kept_position from relaybox_internal.hop_in")
    assert first == max(1, kept(small, "hub", "flights/1")[0])
    assert (first, small.value("hub", "select first_kept_stream_position from relaybox_internal.stream")) in {
        (1, 1),
        (10, 10),
        (20, 20),
        (40, 40),
    }
    assert retain(small, "hub")["flights/1"].dropped_count == 4 - first // 10
    assert verify_route(small.route).outcome == "delivered"


def test_g8_two_retentions_at_once_drop_each_segment_once(small: World) -> None:
    move(small, 95)
    done: list[TableRetained] = []
    runs = [threading.Thread(target=lambda: done.append(retain(small, "hub")["flights/1"])) for _ in range(2)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sum(one.dropped_count for one in done) == 9
    assert rows(small, "hub", "flights/1") == [90, 91, 92, 93, 94, 95]


def test_g8_messages_flow_while_retention_runs(small: World) -> None:
    """A producer, both hops, a consumer and retention in every store, all at once: each message arrives and is read once."""
    small.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    stop = threading.Event()
    runs: list[int] = []

    def keep_dropping() -> None:
        while not stop.is_set():
            for store in STORES:
                retain(small, store, patience_seconds=0.0)
            runs.append(1)

    dropping = threading.Thread(target=keep_dropping)
    dropping.start()
    read: list[str] = []
    try:
        for n in range(8):
            move(small, 20, prefix=f"r{n}-")
            with small.session("analytics") as consumer, consumer.cursor() as cursor:
                cursor.execute(
                    "select stream_position, payload from relaybox.fetch('billing', 100, worker => 'w') order by stream_position"
                )
                got = cursor.fetchall()
                cursor.execute("select relaybox.ack('billing', %s)", (got[-1][0],))
                consumer.commit()
            read += [payload for _, payload in got]
        wait_until(lambda: len(runs) > 1 or not dropping.is_alive(), "retention has run to its end, twice")
    finally:
        stop.set()
        dropping.join()
    assert len(runs) > 1
    assert sorted(read) == sorted(f"r{n}-{m}" for n in range(8) for m in range(1, 21))
    for store in STORES:
        retain(small, store)
    assert [rows(small, store, hop) for store, hop in (("airline", None), ("analytics", "flights/2"))] == [[160], [160]]
    assert verify_route(small.route).outcome == "delivered"


def test_g8_what_a_stream_holds_back_is_kept_and_a_finished_replay_keeps_nothing(small: World) -> None:
    """fifo: a message behind a gap has no stream position yet; its segment stays, and all after it."""
    small.change_route(order="fifo", retention={"replay_window_seconds": 0})
    small.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    small.query(
        "airline", "insert into relaybox.outbox (topic, sender, epoch, index, payload) values ('flights', 'pump', 1, 2, 'early')"
    )
    small.query("hub", "select relaybox.subscribe('billing', 'flights', 'latest')")
    move(small, 30)
    read(small, "billing", 30)
    small.query("hub", "select relaybox.replay('billing', '1', 'why', through => '10', second_cursor => true)")
    assert retain(small, "hub")["flights/1"].holder == "held pump"
    small.query(
        "airline", "insert into relaybox.outbox (topic, sender, epoch, index, payload) values ('flights', 'pump', 1, 1, 'first')"
    )
    small.transfer_all()
    small.settle_all()
    read(small, "billing", 32)
    assert "billing.replay-1" in holders(small, "hub", "flights/1")
    read(small, "billing.replay-1", 10)
    assert "billing.replay-1" not in holders(small, "hub", "flights/1")
    assert retain(small, "hub")["flights/1"].holder == "newest flights/1"
    assert rows(small, "hub", "flights/1")[0] == 1, "the last stream position is log position 1"
    move(small, 10)
    read(small, "billing", 42)
    assert retain(small, "hub")["flights/1"].dropped_count == 4
    assert small.query("hub", "select first_kept_stream_position from relaybox_internal.stream") == [(40,)]
    assert verify_route(small.route).outcome == "delivered"


def test_g8_a_topic_that_no_hop_reads_is_never_dropped(small: World) -> None:
    """Nobody will move it; but a route may still come for it. A topic that a route had, and lost, goes with the rest."""
    small.send("stray", topic="other")
    move(small)
    (table,) = (one for one in read_retention(small.routes.store("airline")).tables if one.hop is None)
    assert (table.droppable, table.holders[0].kind, table.holders[0].name) == ((), "unrouted", "topic other")
    assert retain(small, "airline")[None].holder == "unrouted topic other"
    small.change_route(topics=["other"], retention={"replay_window_seconds": 0})
    move(small, 10, prefix="nobody reads ")
    small.query(
        "airline", "insert into relaybox.outbox (topic, sender, payload) select 'other', 'UA', 'o' from generate_series(1, 20)"
    )
    small.transfer_all()
    small.settle_all()
    last = retain(small, "airline")[None]
    assert (last.dropped_count, last.holder) == (4, "unrouted topic flights")


def test_every_reader_reports_messages_that_are_no_longer_kept(small: World) -> None:
    """Reading, verify, where, a new hop: each says where history begins, and none takes a dropped message for a lost one."""
    small.query("hub", "select relaybox.subscribe('audit', 'flights')")
    move(small)
    first_id, kept_id = (
        UUID(small.value("airline", "select message_id::text from relaybox.outbox where payload = %s", p)) for p in ("m1", "m42")
    )
    small.query("hub", "select relaybox.unsubscribe('audit')")
    retain(small, "hub")
    (trace,) = trace_message([small.route], first_id)
    assert [hop.stage for hop in trace.hops] == [HopStage.DROPPED, HopStage.SETTLED]
    assert [row[0] for row in small.query("hub", "select stream_position from relaybox.read_stream('flights')")] == [
        40,
        41,
        42,
        43,
        44,
        45,
    ]
    assert small.query("hub", "select stream_position from relaybox.read_stream('flights', 40, 1)") == [(41,)]
    for query in (
        "select relaybox.read_stream('flights', 5)",
        "select relaybox.read_log('flights/1', 5)",
        "select relaybox.subscribe('late', 'flights', '5')",
    ):
        with pytest.raises(psycopg2.Error, match=r"no longer kept.*; the first one is 40") as refused:
            small.query("hub", query)
        assert refused.value.pgcode == "RB034"
    verification = verify_route(small.route)
    assert (
        verification.outcome,
        verification.streams[0].first_kept_stream_position,
        verification.streams[1].first_kept_stream_position,
    ) == ("delivered", 40, 1)
    assert [(leg.no_longer_kept, leg.sent, leg.received) for leg in (*verification.hops, verification.end_to_end)] == [
        (45, 0, 0),
        (45, 0, 0),
        (0, 45, 45),
    ]
    move(small, 4)
    shown = invoke("verify", "flights").stdout
    assert "45 more are no longer kept in one of the two: nothing is said of them" in shown
    assert "49 stream positions from 40 on, 0 violations" in shown
    retain(small, "airline")
    assert [hop.log_position for hop in trace_message([small.route], kept_id)[0].hops] == [42, 42]
    with pytest.raises(UnknownMessage, match="airline keeps messages from seq 40 on, older ones were dropped"):
        trace_message([small.route], first_id)


LEDGERS = {
    "airline": ("batch", "attempt", "confirmation"),
    "hub": ("arrival", "receipt", "decision", "batch", "attempt", "confirmation"),
    "analytics": ("arrival", "receipt", "decision"),
}


def ledger_rows(world: World) -> dict[str, int]:
    return {
        f"{store} {table}": world.value(store, f"select count(*) from relaybox_internal.{table}")
        for store, tables in LEDGERS.items()
        for table in tables
    }


def test_ledgers_stay_as_small_as_what_is_kept_and_every_report_stays_the_same(small: World) -> None:
    """Twelve batches, and retention after each: ledgers of the newest few; counts, R, UR, verify, where and late drivers as ever."""
    sizes = []
    for n in range(12):
        move(small, 7, prefix=f"r{n}-")
        for store in STORES:
            retain(small, store)
        sizes.append(ledger_rows(small))
    assert max(count for size in sizes for count in size.values()) <= 12, "flat"
    assert all(size[f"{store} attempt"] == size[f"{store} batch"] for size in sizes for store in ("airline", "hub"))
    verification = verify_route(small.route)
    assert (verification.outcome, [leg.contradictions for leg in verification.hops]) == ("delivered", [(), ()])
    assert [leg.no_longer_kept + leg.sent for leg in verification.hops] == [84, 84]
    for hop in read_status(small.routes).hops:
        assert (hop.sent, hop.received, hop.settled_through, hop.lag_messages) == (84, 84, 84, 0)
        assert hop.delivery == PERFECT
    first = small.query("hub", "select compacted_batch, compacted_position from relaybox_internal.hop_in")
    assert first == [(11, 77)]
    planned, arrived = (
        small.query(
            store, f"select compacted_batch, compacted_plan_id::text from relaybox_internal.{ledger} where hop = 'flights/1'"
        )
        for store, ledger in (("airline", "hop_out"), ("hub", "hop_in"))
    )
    assert planned == arrived
    assert planned[0][1] is not None
    last_id = UUID(small.value("airline", "select message_id::text from relaybox.outbox order by seq desc limit 1"))
    assert [hop.stage for hop in trace_message([small.route], last_id)[0].hops] == [HopStage.SETTLED, HopStage.SETTLED]
    plan = "00000000-0000-0000-0000-000000000000"
    for batch in (3, 11):
        assert small.value("hub", "select relaybox_internal.slice_state(1, %s, 1, %s)", batch, plan) == "published", (
            "a zombie's slice"
        )
        small.query("airline", "select relaybox_internal.confirm_received('flights/1', %s, %s, now(), 'zombie')", batch, plan)
        with pytest.raises(psycopg2.Error, match=f"batch {batch} was published long ago") as late:
            small.query("hub", "select relaybox_internal.publish_batch(1, 1, %s, %s, 15, 21, 1, 1, 1)", batch, plan)
        assert late.value.pgcode == "RB015"
    due = "select due_received, due_unique from relaybox_internal.receiving_states('{flights/1}', array[%s])"
    assert [small.query("hub", due, batch) for batch in (11, 12)] == [[(77, 77)], [(84, 84)]]
    assert verify_route(small.route).outcome == "delivered"


def test_what_was_dropped_is_not_sent_again_to_a_store_that_lost_it(small: World) -> None:
    """The destination went back further than its source reaches: nothing is skipped, and the operator is told."""
    move(small, 10)
    move(small, 10)
    retain(small, "hub")
    small.query(
        "analytics",
        "delete from relaybox_internal.decision; delete from relaybox_internal.arrival; delete from relaybox_internal.receipt; delete "
        "from relaybox_internal.delivery;"
        "delete from relaybox_internal.log; update relaybox_internal.hop_in set published_batch = 0, published_position = 0;"
        "update relaybox_internal.stream set last_stream_position = 0, arrival_seq = 0; update relaybox_internal.stream_log set decided_batch = 0, decided_position = 0",
    )
    with pytest.raises(HistoryLost, match="analytics lost batches 1 to 2, and retention has dropped messages of them at hub"):
        reanchor_hop(small.second_hop, small.routes, recorded_by="test", reason="test", dry_run=True)


def test_a_longer_path_is_refused_where_the_log_has_lost_its_beginning(small: World) -> None:
    """A hop keeps the positions of the log that it reads; the file is refused before anything is registered."""
    small.change_route(path=["airline", "hub"], retention={"replay_window_seconds": 0})
    small.query("hub", "delete from relaybox_internal.hop_out where hop = 'flights/2'")
    move(small)
    retain(small, "hub")
    with pytest.raises(
        HopChanged, match=r"flights/2 would read the log of hop flights/1, which keeps no message below position 40"
    ):
        small.change_route()
