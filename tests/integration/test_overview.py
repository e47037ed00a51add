"""What the page shows of what is stuck, and why, on real stores."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from psycopg2.extras import wait_select

from relaybox.local.clusters import postgres_binaries
from relaybox.monitoring import hop_findings
from relaybox.monitoring.blockers import Blocker
from relaybox.monitoring.finding import Finding
from relaybox.monitoring.hop_history import INTERVALS, read_flow
from relaybox.monitoring.overview import read_overview
from tests.support.breaking import copy_first_slices
from tests.support.patience import patience
from tests.support.services import add_route, break_service, read_service
from tests.support.world import World, insert, routes_file, wait_until


def found(world: World) -> dict[str, Finding]:
    """The findings by kind; transactions count as open from their first moment."""
    return {finding.kind: finding for finding in read_overview(world.routes, open_for_seconds=0).findings}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a moment is stuck."""
    monkeypatch.setattr(hop_findings, "UNDRIVEN_SECONDS", 0.0)
    monkeypatch.setattr(hop_findings, "UNSETTLED_SECONDS", 0.0)


def test_nothing_is_stuck_where_everything_arrived(world: World, impatient: None) -> None:
    world.send("a", "b")
    world.transfer_all()
    world.settle_all()
    overview = read_overview(world.routes, open_for_seconds=0)
    assert overview.findings == ()
    assert overview.rates == {"flights/1": pytest.approx(2 / 300), "flights/2": pytest.approx(2 / 300)}


def test_an_open_transaction_is_named_with_pid_age_and_query(world: World) -> None:
    """Only one that has sent: a reader, and a writer of another table, hold nobody up."""
    with world.session() as producer, world.session() as reader:
        insert(producer, "kept back")
        with reader.cursor() as cursor:
            cursor.execute("select count(*) from relaybox.outbox")
        finding = found(world)["open_transaction"]
        (blocker,) = finding.blockers
        assert blocker.pid == producer.info.backend_pid
        assert blocker.state == "idle in transaction"
        assert blocker.query.startswith("insert into relaybox.outbox")
        assert 0 <= blocker.age_seconds < 60
        assert (finding.store, finding.since, finding.affected) == ("airline", blocker.began_at, ("flights/1",))
        producer.commit()
    assert found(world) == {}


def test_a_young_transaction_is_no_news(world: World) -> None:
    with world.session() as producer:
        insert(producer, "just now")
        assert read_overview(world.routes).findings == ()


def test_a_prepared_transaction_is_named_without_a_backend(world: World) -> None:
    with world.session() as producer:
        producer.tpc_begin(producer.xid(1, "booking 7", "branch"))
        insert(producer, "prepared")
        producer.tpc_prepare()
        try:
            blockers = found(world)["open_transaction"].blockers
            assert [(blocker.pid, blocker.state) for blocker in blockers] == [(None, "prepared")]
        finally:
            producer.tpc_rollback()


def test_messages_that_not_running_are_stuck_since_the_oldest(world: World, impatient: None) -> None:
    world.send("a", "b", "c")
    sent_at = world.value("airline", "select min(sent_at) from relaybox.outbox")
    began = time.monotonic()
    finding = found(world)["not_running"]
    took = timedelta(seconds=time.monotonic() - began)
    assert (finding.hop, finding.message_count, finding.run_helps) == ("flights/1", 3, True)
    assert finding.affected == ("flights/1", "flights/2")
    assert finding.since is not None
    assert abs(finding.since - sent_at) <= took


def test_a_driven_hop_that_misses_its_target_is_late(world: World) -> None:
    """A transfer runs, and does not keep up."""
    world.change_route(limits={"target_lag_seconds": 1})
    world.send("a")
    with transfer_session(world, "airline"):
        wait_until(lambda: "late" in found(world), "the target is missed")
        assert (found(world)["late"].hop, found(world)["late"].message_count) == ("flights/1", 1)


def test_a_batch_left_in_the_middle_names_its_missing_slices(world: World, impatient: None) -> None:
    world.change_route(limits={"batch_rows": 30, "slice_rows": 10})
    world.send_many(30)
    copy_first_slices(world.first_hop, 1)
    finding = found(world)["batch_left"]
    assert (finding.hop, finding.store, finding.run_helps) == ("flights/1", "hub", True)
    assert "Batch 1 of hop flights/1 is unfinished: slices 2, 3" in finding.what
    world.transfer()
    assert "batch_left" not in found(world)


def test_a_hop_that_waits_for_a_lock_names_who_has_it(world: World) -> None:
    """Whatever session it is: here an open transaction that locks the hop's row."""
    with world.session("hub") as blocker, transfer_session(world, "hub") as waiter:
        with blocker.cursor() as cursor:
            cursor.execute("select from relaybox_internal.hop_in where hop = 'flights/1' for update")
        waiter.run("select from relaybox_internal.hop_in where hop = 'flights/1' for update")
        wait_until(lambda: "hop_blocked" in found(world), "the wait is seen")
        finding = found(world)["hop_blocked"]
        assert (finding.hop, finding.store) == ("flights/1", "hub")
        assert [one.pid for one in finding.blockers] == [blocker.info.backend_pid]
        blocker.rollback()


def test_a_topic_that_the_store_does_not_move_yet_asks_for_init_with_the_number_that_waits(world: World) -> None:
    """Whether the topic is new, another hop moves it, or the hop itself moved it once: then what it had moved does not wait."""
    world.change_route(topics=["flights", "returning"])
    world.send("moved", topic="returning")
    world.transfer()
    world.change_route()
    add_route(world.path, "other", topics=["others"], path=["airline", "hub"])
    world.register()
    for topic in ("new", "others", "returning"):
        world.send(f"{topic} 1", f"{topic} 2", topic=topic)
        add_route(
            routes_file(world.path.parent, route={"topics": ["flights", topic]}),
            "other",
            topics=["others"],
            path=["airline", "hub"],
        )
        finding = found(world)["topics_unknown"]
        assert (finding.hop, finding.store, finding.message_count) == ("flights/1", "airline", 2)
        assert f"relaybox.yaml gives hop flights/1 topic {topic}, but airline does not move it yet" in finding.what
        assert finding.since == world.value(
            "airline", "select min(sent_at) from relaybox.outbox where payload = %s", f"{topic} 1"
        )
        assert (finding.severity, finding.next_step) == ("stuck", "Run: relaybox init")
        shown = [
            one for one in read_overview(world.routes).findings if one.kind == "topic_unrouted" and f"topic {topic} " in one.what
        ]
        assert shown == []
        world.initialise()
        assert "topics_unknown" not in found(world)


def test_messages_that_arrived_and_are_not_settled_wait_for_the_next_hop(world: World, impatient: None) -> None:
    world.send("settled")
    world.transfer_all()
    world.settle_all()
    world.send("a", "b")
    world.transfer()
    finding = found(world)["unsettled"]
    assert (finding.hop, finding.message_count) == ("flights/1", 2)
    assert "until the next hop settles them" in finding.what


def test_a_silent_store_is_a_finding_without_host_port_or_user(world: World) -> None:
    world.send("a")
    break_service("hub", port="1")
    finding = found(world)["store_silent"]
    assert (finding.store, finding.affected) == ("hub", ("flights/1", "flights/2"))
    assert finding.what == "Store hub can't be read: it does not answer."
    assert "127.0.0.1" not in repr(finding)


def test_lost_history_names_the_runbook(world: World) -> None:
    world.send("a")
    world.transfer()
    world.query("hub", "delete from relaybox_internal.arrival")
    world.query("hub", "update relaybox_internal.hop_in set published_batch = 0, published_position = 0")
    finding = found(world)["history_lost"]
    assert (finding.hop, finding.runbook) == ("flights/1", "lossy-failover")


def test_the_command_of_a_finding_ends_the_transaction_that_it_shows_and_no_other(world: World) -> None:
    """Run as it is written. A pid that has begun another transaction meanwhile is left alone."""
    with world.session() as producer, world.session() as bystander:
        insert(producer, "first")
        step = found(world)["open_transaction"].next_step
        producer.commit()
        insert(producer, "second")
        _run_command(step)
        producer.commit()
        insert(producer, "third")
        insert(bystander, "its own")
        first = next(one for one in found(world)["open_transaction"].blockers if one.pid == producer.info.backend_pid)
        _run_command(first.end_command("airline"))
        with pytest.raises(psycopg2.OperationalError):
            producer.commit()
        bystander.commit()


def test_a_finding_names_the_rights_that_its_command_needs(world: World) -> None:
    """Both of them: with one alone the session of another login goes on."""
    owner = read_service("airline")
    world.query(
        "airline",
        f"""
        drop role if exists on_call_of_a_test, booking_of_a_test;
        create role on_call_of_a_test login password 'p';
        create role booking_of_a_test login password 'p' in role relaybox_producer;
        grant connect on database {owner["dbname"]} to on_call_of_a_test, booking_of_a_test
        """,
    )
    with closing(psycopg2.connect(**{**owner, "user": "booking_of_a_test", "password": "p"})) as producer:
        insert(producer, "kept back")
        step = found(world)["open_transaction"].next_step
        assert "Your login needs pg_signal_backend and pg_read_all_stats" in step
        for rights in ("pg_signal_backend", "pg_read_all_stats", "pg_signal_backend, pg_read_all_stats"):
            world.query("airline", f"grant {rights} to on_call_of_a_test")
            break_service("airline", user="on_call_of_a_test", password="p")
            _run_command(step, succeeds=rights != "pg_read_all_stats")
            break_service("airline", user=owner["user"], password=owner["password"])
            left = [] if "," in rights else [producer.info.backend_pid]
            wait_until(lambda left=left: [one.pid for one in _senders(world)] == left, f"{left} are left after {rights}")
            world.query("airline", f"revoke {rights} from on_call_of_a_test")
    world.query("airline", "drop owned by on_call_of_a_test, booking_of_a_test; drop role on_call_of_a_test, booking_of_a_test")


def _senders(world: World) -> tuple[Blocker, ...]:
    finding = found(world).get("open_transaction")
    return finding.blockers if finding else ()


def test_the_command_of_a_finding_rolls_a_prepared_transaction_back(world: World) -> None:
    with world.session() as producer:
        insert(producer, "never")
        with producer.cursor() as cursor:
            cursor.execute("prepare transaction 'it''s a $(name)'")
    (blocker,) = found(world)["open_transaction"].blockers
    assert "Only the login that prepared it, or a superuser, may roll it back." in found(world)["open_transaction"].next_step
    _run_command(blocker.end_command("airline"))
    assert found(world) == {}


def _run_command(text: str, *, succeeds: bool = True) -> None:
    command = text[text.index("psql ") :]
    path = f"{postgres_binaries()}:{os.defpath}"
    run = subprocess.run(
        ["bash", "-euc", command], env={**os.environ, "PATH": path}, check=False, capture_output=True, timeout=patience(60)
    )
    assert (run.returncode == 0) is succeeds, run.stderr


def test_a_topic_that_nobody_reads_is_a_note(world: World) -> None:
    world.send("a", topic="flight")
    finding = found(world)["topic_unrouted"]
    assert (finding.severity, finding.message_count) == ("note", 1)
    assert "Did you mean topic flights?" in finding.next_step


def test_the_flow_of_a_hop_is_its_ledgers(world: World) -> None:
    """Counts per interval, the delay of the worst message, and the cascade of each batch in the order of time."""
    world.change_route(limits={"batch_rows": 20, "slice_rows": 10})
    world.send_many(50)
    world.transfer_all()
    world.settle_all()
    flow = read_flow(world.first_hop, window=timedelta(hours=1))
    assert len(flow.intervals) == INTERVALS
    assert sum(interval.planned_rows for interval in flow.intervals) == 50
    assert sum(interval.published_rows for interval in flow.intervals) == 50
    assert flow.intervals[0].starts_at < flow.measured_at - timedelta(minutes=58)
    (worst,) = {interval.worst_delay_seconds for interval in flow.intervals if interval.worst_delay_seconds is not None} or {None}
    assert worst is not None
    assert 0 < worst < 60
    assert [batch.batch for batch in flow.batches] == sorted((batch.batch for batch in flow.batches), reverse=True)
    assert sum(batch.row_count for batch in flow.batches) == 50
    for batch in flow.batches:
        times = [batch.planned_at, *batch.copied_at, batch.published_at, batch.received_at, batch.settled_at]
        assert times == sorted(times)
        assert len(batch.copied_at) == batch.slice_count
        assert batch.moved_by == "test"
    assert flow.moving_rows_per_second is not None
    assert flow.moving_rows_per_second > 0


def test_the_flow_shows_the_batches_of_one_run(world: World) -> None:
    world.send("a")
    world.transfer()
    world.send("b")
    world.transfer()
    assert len(read_flow(world.first_hop, window=timedelta(hours=1), moved_by="test").batches) == 2
    assert read_flow(world.first_hop, window=timedelta(hours=1), moved_by="nobody").batches == ()


def test_the_flow_of_an_open_batch_ends_where_it_stands(world: World) -> None:
    world.change_route(limits={"batch_rows": 30, "slice_rows": 10})
    world.send_many(30)
    copy_first_slices(world.first_hop, 1)
    (batch,) = read_flow(world.first_hop, window=timedelta(hours=1)).batches
    assert (len(batch.copied_at), batch.slice_count) == (1, len(batch.copied_at) + 2)
    assert (batch.published_at, batch.received_at, batch.settled_at, batch.application) == (None,) * 4
    assert batch.moved_by == "test"  # known before it is confirmed


def test_a_silent_destination_leaves_what_the_source_knows(world: World) -> None:
    world.send("a")
    world.transfer()
    break_service("hub", port="1")
    flow = read_flow(world.first_hop, window=timedelta(hours=1))
    assert len(flow.errors) == 1
    assert (flow.batches[0].row_count, flow.batches[0].published_at) == (1, None)


class _Waiter:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, statement: str) -> None:
        self._connection.cursor().execute(statement)


@contextmanager
def transfer_session(world: World, store: str) -> Iterator[_Waiter]:
    """A session named as a transfer's, whose statements are sent and not waited for."""
    connection = psycopg2.connect(service=store, application_name="relaybox flights/1 driver", async_=1)
    wait_select(connection)
    try:
        yield _Waiter(connection)
    finally:
        connection.close()
