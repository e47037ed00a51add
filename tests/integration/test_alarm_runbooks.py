"""The runbooks of alarms are true: the fault raises the alarm's metric, the commands run as written, and then it is over."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.hops.runners import BatchTooLarge, ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import postgres_binaries
from relaybox.monitoring.metrics import collect, read_store_metrics
from relaybox.monitoring.status import read_status
from tests.support.cli import diagnose, run
from tests.support.endpoint import answer, endpoint
from tests.support.runbooks import RUNBOOKS, read_blocks, run_blocks
from tests.support.sinks import SECRET, WHERE, deliver_waiting, webhook
from tests.support.streams import STORE, ack, deliver
from tests.support.world import STORES, World, insert, wait_until

pytestmark = pytest.mark.thorough

ALARMS = yaml.safe_load((Path(__file__).parents[2] / "docs/alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]


def worst(world: World, metric: str, **labels: str) -> float:
    """The largest sample of a metric with these labels; 0 if there is none."""
    routes = world.routes
    samples = collect(read_status(routes), read_store_metrics(routes))
    return max((float(s.value) for s in samples if s.metric == metric and labels.items() <= s.labels.items()), default=0.0)


def age(world: World, watermark: str) -> float:
    return worst(world, "relaybox_watermark_age_seconds", watermark=watermark)


def follow(world: World, runbook: str, *, between: Mapping[int, Callable[[], object]] | None = None, **variables: str) -> str:
    """Runs the runbook's blocks; what its reader does elsewhere is done before the block of that number. Returns the last output."""
    steps: Iterator[str] = run_blocks(runbook, variables=variables, binaries=postgres_binaries(), directory=world.path.parent)
    output = ""
    for number in range(1, len(read_blocks(runbook)) + 1):
        if between and number in between:
            between[number]()
        output = next(steps)
    return output


def change_port(world: World, store: str, port: str) -> str:
    """Of a store in the service file; returns the one before."""
    services = world.path.parent / "services.conf"
    before, section, after = services.read_text().partition(f"[{store}]")
    (found,) = re.findall(r"port=(\d+)", after)[:1]
    services.write_text(before + section + re.sub(r"port=\d+", f"port={port}", after, count=1))
    return str(found)


def test_every_alert_has_a_runbook_that_is_run_here_or_with_the_faults() -> None:
    """A page without a test would be a guess."""
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (Path(__file__), Path(__file__).parents[1] / "faults/test_runbooks.py")
    )
    named = {Path(alarm["annotations"]["runbook"]).stem for alarm in ALARMS}
    assert {name for name in named if f'"{name}"' not in tests} == set()
    assert named <= {path.stem for path in RUNBOOKS.glob("*.md")}


def test_a_store_that_is_down(world: World) -> None:
    world.send("one")
    port = change_port(world, "hub", "1")
    assert worst(world, "relaybox_hop_error", error="StoreUnreachable") == 1
    said = follow(world, "store-down", between={2: lambda: change_port(world, "hub", port)})
    assert 'relaybox_store_up{store="hub"} 1' in said
    assert world.payloads() == ["one"]


def test_a_late_hop(world: World) -> None:
    world.change_route(limits={"target_lag_seconds": 1})
    world.send("one")
    wait_until(lambda: worst(world, "relaybox_hop_lag_seconds") > 1, "the target is missed")
    said = follow(world, "late-hop")
    assert 'relaybox_hop_lag_seconds{hop="flights/1",route="flights"} 0.0\n' in said
    assert 'relaybox_hop_target_lag_seconds{hop="flights/1",route="flights"} 1.0\n' in said


def test_a_stopped_hop(world: World) -> None:
    world.send("one")
    assert age(world, "sent") > 0
    follow(world, "stopped-hop")
    assert world.payloads() == ["one"]


def test_an_unfinished_batch(world: World) -> None:
    world.send("one")
    with pytest.raises(BatchTooLarge):
        transfer_hop(world.first_hop, ThreadRunner(below_rows=1), recorded_by="a driver that died")
    assert age(world, "received") > 0
    follow(world, "unfinished-batch")
    assert age(world, "received") == 0
    assert world.payloads() == ["one"]


def test_missing_confirmations(world: World) -> None:
    world.send("one")
    world.transfer_all()
    assert age(world, "settled") > 0
    follow(world, "missing-confirmations")
    assert age(world, "settled") == 0


def test_an_undecided_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send("one")
    with monkeypatch.context() as patch:
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(world.path.parent))
        patch.setenv(
            "RELAYBOX_FAILPOINTS", "deliver.begin:1=raise 40001"
        )  # a text of its own: hits of each are counted once per process
        with pytest.raises(errors.StoreBusy):
            world.transfer()
    assert age(world, "delivered") > 0
    follow(world, "undecided-batch")
    assert age(world, "delivered") == 0
    assert world.value(STORE, "select last_stream_position from relaybox_internal.stream") == 1


def test_messages_that_do_not_conform(world: World) -> None:
    (world.path.parent / "flights.json").write_text('{"type": "object"}')
    file = yaml.safe_load(world.path.read_text())
    checks = {"schemas": {"flights": ["flights.json"]}, "schema_checks": {"flights": {"first_hop": "set_aside"}}}
    world.path.write_text(yaml.safe_dump(file | checks))
    world.register()
    world.send("no object")
    world.transfer_all()
    assert worst(world, "relaybox_nonconforming_messages", hop="flights/1", topic="flights") == 1
    assert worst(world, "relaybox_dead_letters") == 1
    said = follow(world, "nonconforming-messages")
    assert 'relaybox_nonconforming_messages{hop="flights/1",store="hub",topic="flights"} 1.0' in said
    assert world.value("hub", "select count(*) from relaybox.dead_letters where state = 'open'") == 0


def test_a_gap_of_a_sender(world: World) -> None:
    world.change_route(order="fifo")
    world.query("airline", "select relaybox.declare_sender('UA', 'gapless')")
    for index in (1, 3):
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, epoch, index, payload) values ('flights', 'UA', 1, %s, %s)",
            index,
            f"m{index}",
        )
    world.transfer()
    assert worst(world, "relaybox_stream_held_messages") == 1
    assert age(world, "sender") > 0
    follow(world, "sender-gap")
    assert age(world, "sender") == 0
    assert world.value(STORE, "select last_stream_position from relaybox_internal.stream") == 2


def test_a_stalled_sender(world: World) -> None:
    world.change_route(order="fifo", limits={"holdback_rows": 2})
    world.query("airline", "select relaybox.declare_sender('UA', 'gapless')")
    for indexes in ((2, 3), (4, 5)):
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, epoch, index, payload) select 'flights', 'UA', 1, i, 'm' || i from unnest(%s) i",
            list(indexes),
        )
        world.transfer_all()
    assert worst(world, "relaybox_stream_stalled_senders") == 1
    follow(world, "stalled-sender")
    assert worst(world, "relaybox_stream_stalled_senders") == 0
    assert world.value(STORE, "select last_stream_position from relaybox_internal.stream") == 4


def test_a_stopped_consumer(world: World) -> None:
    deliver(world, 2)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    assert age(world, "acknowledged") > 0
    follow(world, "stopped-consumer", PID="0", SINCE="-infinity")  # nobody sits in a transaction
    assert age(world, "acknowledged") == 0


def work_until_killed(world: World, killer: int) -> list[int]:
    """A worker that fetches up to 100, works and acknowledges in one transaction, turn by turn, and dies at one message: the stream positions
    that it has done."""
    done: list[int] = []
    while True:
        with world.session(STORE) as worker, worker.cursor() as cursor:  # what is not committed is rolled back
            cursor.execute("select stream_position from relaybox.fetch('billing', 100, worker => 'w')")
            fetched = [stream_position for (stream_position,) in cursor.fetchall()]
            if killer in fetched or not fetched:
                return done
            cursor.execute("select relaybox.ack('billing', %s)", (fetched[-1],))
            worker.commit()
            done += fetched


def test_a_message_that_kills_workers_whose_fetch_is_rolled_back(world: World) -> None:
    """No number of deaths finds it, as docs/consuming.md says; the runbook leads to it, sets it aside, and the rest flows."""
    deliver(world, 12)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1, crash_limit => 2)")
    before = world.query(STORE, "select * from relaybox_internal.lane_cursors")
    assert [work_until_killed(world, 4) for _ in range(10)] == [[]] * 10
    assert world.query(STORE, "select * from relaybox_internal.lane_cursors") == before, "nothing is left of ten deaths"
    steps = run_blocks(
        "killed-workers",
        variables={"LANE": "1", "STREAM_POSITION": "4"},
        binaries=postgres_binaries(),
        directory=world.path.parent,
    )
    assert re.search(r"1 \| +0 \| +12 \| +\|", next(steps)), "lane, done_stream_position, stream_positions_behind, no worker"
    next(steps)
    assert work_until_killed(world, 4) == [1, 2, 3]
    assert re.search(r"^ +4 \| .*\| +2 \| ", next(steps), re.MULTILINE), "the message that comes next, and its size"
    assert re.search(r"^ +4 \| t$", next(steps), re.MULTILINE)
    assert work_until_killed(world, 4) == list(range(5, 13))
    assert next(steps) == ""
    dead_letter_id = world.query(STORE, "select stream_position, reason, detail, last_by from relaybox.dead_letters")
    assert dead_letter_id == [(4, "refused", "kills its worker, ticket 4711", "on call")]


def test_one_message_at_a_time_ends_after_the_given_number_of_stream_positions(world: World) -> None:
    """It is on record, and leaves a lane alone whose fetch is committed: there the store counts."""
    deliver(world, 12)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    assert world.value(STORE, "select relaybox.fetch_one_at_a_time('billing', 'ticket 4711', 3)") == 1
    sizes: list[int] = []
    while fetched := world.query(STORE, "select stream_position from relaybox.fetch('billing', 5, worker => 'a')"):
        sizes.append(len(fetched))
        assert world.value(STORE, "select relaybox.fetch_one_at_a_time('billing', 'ticket 4711')") == 0
        ack(world, fetched[-1][0])
    assert sizes == [1, 1, 1, 5, 4]
    assert world.query(
        STORE, "select distinct subscription, reason from relaybox.consumer_action where action = 'fetch_one_at_a_time'"
    ) == [("billing", "ticket 4711")]
    for call in ("'billing', ' '", "'billing', 'why', 0", "'billing', 'why', 1000001", "'billing', 'why', null"):
        with pytest.raises(psycopg2.Error) as refused:
            world.query(STORE, f"select relaybox.fetch_one_at_a_time({call})")
        assert refused.value.pgcode == "RB036"


def test_dead_letters(world: World) -> None:
    deliver(world, 2)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    world.query(STORE, "select relaybox.nack('billing', stream_position, 'no such customer') from relaybox.fetch('billing', 1)")
    assert worst(world, "relaybox_dead_letters") == 1

    def consume() -> None:
        fetched = world.query(STORE, "select stream_position, payload from relaybox.fetch('billing', 1, worker => 'a')")
        assert fetched == [(1, "m1")]
        ack(world, 1)

    world.query(STORE, "select relaybox.subscribe('reports', 'flights', 'earliest', nack_limit => 1)")
    world.query(STORE, "select relaybox.nack('reports', stream_position, 'no such report') from relaybox.fetch('reports', 1)")
    world.query(STORE, "select relaybox.unsubscribe('reports', 'nobody reads them')")
    ((severity, what, next_step),) = diagnose(STORE, "dead_letters")
    assert severity == "warning"
    assert re.match(
        r"Subscription reports ended at \S+ \S+ UTC with 1 open dead letter, the first is 2: no consumer gets them", what
    )
    assert "relaybox dead-letters list hub --subscription reports" in next_step
    assert "relaybox dead-letters drop hub 2 --reason" in next_step
    said = follow(world, "dead-letters", between={3: consume})
    assert said.strip().endswith(" 0.0")
    assert [severity for severity, _, _ in diagnose(STORE, "dead_letters")] == ["ok"]


def test_a_failing_endpoint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WHERE, SECRET)
    deliver(world, 2)
    with endpoint() as here:
        here.always = answer(503)
        with pytest.raises(errors.EndpointUnavailable):
            deliver_waiting(webhook(world, here.url))
        assert worst(world, "relaybox_endpoint_failing_seconds", subscription="webhook.billing") > 0

        def repair() -> None:
            here.always = answer(204)

        said = follow(world, "failing-endpoint", between={2: repair})
    (listed,) = json.loads(said)["sinks"]
    assert (listed["failing_since"], listed["waiting_count"]) == (None, 0)


def _begun_at(session: Any) -> str:
    """When a session's transaction began, as a reader of the first look copies it."""
    with session.cursor() as cursor:
        cursor.execute("select xact_start::text from pg_stat_activity where pid = pg_backend_pid()")
        return str(cursor.fetchone()[0])


def test_an_open_transaction(world: World) -> None:
    """Its session is ended, and none that writes and is idle beside it."""
    with world.session() as forgotten, world.session() as bystander, forgotten.cursor() as cursor:
        insert(bystander, "its own")
        cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'x')")
        assert worst(world, "relaybox_store_oldest_transaction_seconds", store="airline") > 0
        pid, since = str(forgotten.info.backend_pid), _begun_at(forgotten)
        follow(world, "open-transaction", between={2: bystander.commit}, PID=pid, SINCE=since)
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("select 1")


def test_a_consumer_that_stopped_in_an_open_transaction(world: World) -> None:
    """The runbook shows who it is, ends that session, and then the subscription."""
    deliver(world, 2)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    with world.session(STORE) as worker, worker.cursor() as cursor:
        cursor.execute("select * from relaybox.fetch('billing', 1, worker => 'a')")
        pid, since = worker.info.backend_pid, _begun_at(worker)
        steps = run_blocks(
            "stopped-consumer",
            variables={"PID": str(pid), "SINCE": since},
            binaries=postgres_binaries(),
            directory=world.path.parent,
        )
        assert str(pid) not in next(steps)
        assert str(pid) in next(steps)
        assert len(list(steps)) == 3
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("select 1")
    assert world.query(STORE, "select * from relaybox.subscriptions") == []


def test_lost_messages(world: World) -> None:
    world.send("one")
    world.transfer()
    world.send("two")
    world.transfer()
    for table in ("arrival", "log"):
        world.query("hub", f"delete from relaybox_internal.{table} where {'batch' if table == 'arrival' else 'log_position'} = 1")
    assert 0 < worst(world, "relaybox_hop_reliability", hop="flights/1") < 1

    def rename_route() -> None:
        route = {"topics": ["flights"], "path": list(STORES)}
        world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": {"flights-2": route}}))

    follow(world, "loss-or-duplicates", between={2: rename_route})
    assert worst(world, "relaybox_hop_reliability", hop="flights/1") == 0  # it is measured no more
    assert worst(world, "relaybox_hop_reliability", hop="flights-2/1") == 1


def test_an_unrouted_topic(world: World) -> None:
    world.send("one", topic="refunds")
    assert worst(world, "relaybox_unrouted_messages", topic="refunds") == 1

    def add_route() -> None:
        document = yaml.safe_load(world.path.read_text())
        document["routes"]["refunds"] = {"topics": ["refunds"], "path": ["airline", "hub"]}
        world.path.write_text(yaml.safe_dump(document))

    follow(world, "unrouted-topic", between={2: add_route})
    assert worst(world, "relaybox_hop_lag_messages", hop="refunds/1") == 1


def test_a_growing_store(world: World) -> None:
    """A subscription that nobody reads keeps a segment; when it has read, the segment goes."""
    deliver(world, 10)
    world.query(STORE, "update relaybox_internal.store set segment_rows = 10")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    world.query(STORE, "update relaybox_internal.decision set decided_at = decided_at - interval '2 days'")
    world.query(STORE, "update relaybox_internal.cursor set moved_at = moved_at - interval '2 days'")
    assert worst(world, "relaybox_retention_held_seconds", kind="subscription", holder="billing") > 86_400
    world.query(STORE, "update relaybox_internal.hop_in set stopped_consumer = 'keep'")
    assert worst(world, "relaybox_retention_held_seconds", kind="subscription") == 0
    world.query(STORE, "update relaybox_internal.hop_in set stopped_consumer = 'alarm'")

    def read() -> None:
        world.query(STORE, "select relaybox.ack('billing', 10, min(token)) from relaybox.fetch('billing')")

    follow(world, "growing-store", between={2: read})
    assert worst(world, "relaybox_retention_held_seconds", kind="subscription") == 0


def test_a_reader_without_messages(world: World) -> None:
    """processed_by names billing, which has not subscribed."""
    world.change_route(policy="processed", processed_by=["billing"])
    assert worst(world, "relaybox_reader_problem", problem="awaited", subscription="billing") == 1
    follow(world, "reader-without-messages")
    assert worst(world, "relaybox_reader_problem") == 0


def test_detached_messages(world: World) -> None:
    """The command line finds what only a stopped subscription needs, detaches it, and brings it back: two starts of Spark."""
    world.cut_small_segments()
    files = str(world.path.parent / "files")
    retention = {"replay_window_seconds": 0, "stopped_consumer": "detach", "detach_after_seconds": 0, "detach_to": files}
    world.change_route(retention=retention)
    world.send_many(25)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', '1')")
    world.transfer_all()
    world.settle_all()
    retained = run("retention", STORE, "--json")
    assert retained.exit_code == 0, retained.stderr
    assert [one["needed_by"] for one in retained.document["stores"][0]["detached"]["segments"]] == [["billing"]] * 2
    assert worst(world, "relaybox_detached_messages", hop="flights/1") == 19
    with pytest.raises(psycopg2.Error, match="relaybox attach hub flights/1"):
        world.query(STORE, "select * from relaybox.fetch('billing', worker => 'w')")
    follow(world, "detached-messages")
    assert worst(world, "relaybox_detached_messages") == 0
    assert [row[0] for row in world.query(STORE, "select stream_position from relaybox.fetch('billing', worker => 'w')")] == list(
        range(1, 26)
    )


def test_missing_metrics(world: World) -> None:
    assert "airline" in follow(world, "metrics-missing")
