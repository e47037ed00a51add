"""Readers that relaybox.yaml names and that have not subscribed yet: retention keeps their messages, names them, and lets go later."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.retention.segments import TableRetained, read_retention, retain_store
from tests.support.cli import invoke
from tests.support.endpoint import endpoint
from tests.support.sinks import deliver_waiting, kafka, webhook, write_sink
from tests.support.world import World

COUNT = 45
KEPT = (0, "kept")


@pytest.fixture
def small(world: World) -> World:
    """Segments of ten rows, and a route that keeps nothing longer than it is needed."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    return world


def move(world: World, count: int = COUNT) -> None:
    world.send_many(count)
    world.transfer_all()


def retain(world: World, store: str, hop: str) -> TableRetained:
    """Of the log of a hop, with the readers of relaybox.yaml."""
    at = world.routes.store(store)
    done = retain_store(at, recorded_by="test", routes=world.routes)
    return next(table for table in done.tables if table.hop == hop)


def result(table: TableRetained) -> tuple[int, str]:
    return table.dropped_count, table.outcome


def consume(world: World, store: str, subscription: str) -> int:
    read = 0
    while rows := world.query(store, "select stream_position, token from relaybox.fetch(%s, 1000)", subscription):
        world.query(store, "select relaybox.ack(%s, %s, %s)", subscription, *rows[-1])
        read += len(rows)
    return read


def dry_run(store: str) -> str:
    return " ".join(invoke("retention", store, "--dry-run").stdout.split())


def rewrite(world: World, **sections: Any) -> None:
    document = yaml.safe_load(world.path.read_text())
    world.path.write_text(yaml.safe_dump({**document, **sections}))


def test_g7_a_named_subscription_gets_what_was_delivered_before_it_subscribed(small: World) -> None:
    """While confirm settles nothing, retention drops nothing; then ghost reads all, and it goes."""
    small.change_route(retention={"replay_window_seconds": 0}, policy="processed", processed_by=["ghost"])
    move(small)
    with pytest.raises(errors.NotSubscribed):
        settle_hop(small.route, small.second_hop, recorded_by="test")
    kept = retain(small, "analytics", "flights/2")
    assert (*result(kept), kept.holder, kept.needs_from) == (*KEPT, "awaited subscription ghost", 1)
    assert small.value("analytics", "select relaybox.subscribe('ghost', 'flights')") == 1
    assert retain(small, "analytics", "flights/2").holder == "subscription ghost"
    assert consume(small, "analytics", "ghost") == COUNT
    small.settle_all()
    assert retain(small, "analytics", "flights/2").dropped_count == 4


def test_retention_names_the_awaited_subscription_and_what_ends_that(small: World) -> None:
    """In the answer of a run and of a dry run, for people and as JSON. A person follows it."""
    small.change_route(retention={"replay_window_seconds": 0}, policy="processed", processed_by=["ghost"])
    move(small)
    who = "relaybox.yaml names subscription ghost, which has not subscribed to this stream yet and needs all from position 1 on"
    remove = "or take ghost out of processed_by of route flights (and policy, if no name is left) and run: relaybox init"
    step = f"In store analytics, run: select relaybox.subscribe('ghost', 'flights'); {remove}"
    told = dry_run("analytics")
    assert f"log of flights/2: {who}. {step}" in told
    (store,) = json.loads(invoke("retention", "analytics", "--dry-run", "--json").stdout)["stores"]
    (log,) = [table for table in store["tables"] if table["hop"] == "flights/2"]
    assert log["droppable"] == []
    assert [(one["name"], one["next_step"]) for one in log["holders"] if one["kind"] == "awaited"] == [
        ("subscription ghost", step)
    ]
    told = " ".join(invoke("retention", "analytics").stdout.split())
    assert f"0 segments dropped, 0.0 MB; the next segment is kept: {who}. {step}" in told
    (store,) = json.loads(invoke("retention", "analytics", "--json").stdout)["stores"]
    (log,) = [table for table in store["tables"] if table["hop"] == "flights/2"]
    assert (log["outcome"], log["holder"], log["next_step"]) == ("kept", "awaited subscription ghost", step)
    small.change_route(retention={"replay_window_seconds": 0})
    small.settle_all()
    assert retain(small, "analytics", "flights/2").dropped_count == 4, "the name is out of the file"


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        ({"retention": {"replay_window_seconds": 0}}, "newest flights/2", "awaited subscription ghost"),
        ({}, "newest flights/2", "window flights/2"),
        ({"retention": {"replay_window_seconds": 0}, "message_id_window": 100}, "deduplication flights", "deduplication flights"),
    ],
    ids=["none", "window", "deduplication"],
)
def test_retention_names_first_who_needs_more_than_an_awaited_reader(
    small: World, keys: dict[str, Any], before: str, after: str
) -> None:
    """A run as a dry run, before the first message and after some; and the run says each time that ghost is awaited."""
    small.change_route(**keys, policy="processed", processed_by=["ghost"])
    at = small.routes.store("analytics")
    for count, holder in ((0, before), (COUNT, after)):
        move(small, count)
        kept = retain(small, "analytics", "flights/2")
        tables = read_retention(at, small.routes).tables
        first = next(table for table in tables if table.hop == "flights/2").holders[0]
        assert (kept.holder, kept.needs_from) == (f"{first.kind} {first.name}", first.needs_from)
        assert (*result(kept), kept.holder) == (*KEPT, holder)
        assert (kept.awaited or "").startswith("relaybox.yaml names subscription ghost")


def test_a_subscription_to_another_stream_is_not_the_one_that_is_awaited(small: World) -> None:
    """Open or ended. The one that is awaited must be open: one that was ended is awaited again (test_reader_problems.py)."""
    other = {"topics": ["orders"], "path": ["airline", "analytics"]}
    rewrite(small, routes={"flights": small_route(processed_by=["ghost"]), "orders": other})
    small.register()
    move(small)
    small.query("analytics", "select relaybox.subscribe('ghost', 'orders')")
    assert retain(small, "analytics", "flights/2").holder == "awaited subscription ghost"
    small.query("analytics", "select relaybox.unsubscribe('ghost', 'test')")
    assert retain(small, "analytics", "flights/2").holder == "awaited subscription ghost"
    small.query("analytics", "select relaybox.subscribe('ghost', 'flights')")
    assert retain(small, "analytics", "flights/2").holder == "subscription ghost"
    small.query("analytics", "select relaybox.unsubscribe('ghost', 'test')")
    assert retain(small, "analytics", "flights/2").holder == "awaited subscription ghost"


def test_g7_a_named_subscription_to_one_topic_is_not_the_one_that_is_awaited(small: World) -> None:
    """What it never got would count as processed by the one that takes its place. The statements that are said work as they stand."""
    both = {"topics": ["orders", "returns"], "path": ["airline", "analytics"], "policy": "processed", "processed_by": ["ghost"]}
    rewrite(small, routes={"both": {**both, "retention": {"replay_window_seconds": 0}}})
    small.register()
    small.query("analytics", "select relaybox.subscribe('ghost', 'both')")
    small.query("analytics", "select relaybox.unsubscribe('ghost', 'test')")
    for topic in ("orders", "returns"):
        small.send_many(COUNT, topic=topic, prefix=topic)
    small.transfer(small.routes.hop("both/1"))
    small.query("analytics", "select relaybox.subscribe('ghost', 'orders')")
    assert consume(small, "analytics", "ghost") == COUNT
    kept = retain(small, "analytics", "both/1")
    assert (*result(kept), kept.holder) == (*KEPT, "awaited subscription ghost")
    assert kept.next_step is not None
    statements = re.findall(r"run: (select [^;]*;)", kept.next_step)
    assert len(statements) == 2
    for statement in statements:
        small.query("analytics", statement)
    assert consume(small, "analytics", "ghost") == 2 * COUNT


def test_g7_what_a_sink_that_was_ended_had_yet_to_deliver_is_kept_while_the_file_names_it(small: World) -> None:
    """Its lanes or its topic change by an end and a new beginning: retention dropped what was between."""
    kafka(small, "127.0.0.1:1")
    move(small)
    small.settle_all()
    small.query("hub", "select relaybox.subscribe('kafka.warehouse', 'flights')")
    small.query("hub", "select relaybox.unsubscribe('kafka.warehouse', 'test')")
    kept = retain(small, "hub", "flights/1")
    assert (*result(kept), kept.holder) == (*KEPT, "awaited kafka warehouse")
    where = 'To go on behind what it has done, first write start: "1".'
    assert kept.next_step == f"{where} {run_or_remove('kafka run warehouse --begin-anew')}"
    rewrite(small, kafka={})
    assert retain(small, "hub", "flights/1").dropped_count == 4


def test_an_export_that_was_ended_keeps_nothing(small: World) -> None:
    """It said so: its table is whole through what it has done."""
    lake = {"store": "hub", "stream": "flights", "to": "parquet", "path": str(small.path.parent / "lake")}
    rewrite(small, exports={"lake": lake})
    move(small)
    small.settle_all()
    assert retain(small, "hub", "flights/1").holder == "awaited export lake"
    small.query("hub", "select relaybox.subscribe('export.lake', 'flights')")
    small.query("hub", "select relaybox.unsubscribe('export.lake', 'test')")
    assert retain(small, "hub", "flights/1").dropped_count == 4


def small_route(**changes: object) -> dict[str, object]:
    path = ["airline", "hub", "analytics"]
    return {"topics": ["flights"], "path": path, "policy": "processed", "retention": {"replay_window_seconds": 0}, **changes}


def test_a_webhook_gets_what_was_delivered_before_its_first_run(small: World) -> None:
    """Its log is kept from `init` on, whatever hinders its first run. It names the command that runs it."""
    with endpoint() as here:
        sink = webhook(small, here.url)
        move(small)
        small.settle_all()
        kept = retain(small, "hub", "flights/1")
        assert (*result(kept), kept.holder) == (*KEPT, "awaited webhook billing")
        assert kept.next_step == run_or_remove("webhook run billing")
        assert "relaybox.yaml names webhook billing, which has not subscribed to this stream yet" in dry_run("hub")
        assert deliver_waiting(sink).delivered_count == len(here.requests) == COUNT
        assert retain(small, "hub", "flights/1").dropped_count == 4


def run_or_remove(command: str) -> str:
    skip = "or, if it may skip all messages that are kept, write start: latest"
    return f"Run: relaybox {command}; {skip}; or take it out of relaybox.yaml"


def test_a_webhook_of_another_stream_is_told_what_its_former_subscription_asks_for(small: World) -> None:
    """While that is open, its runs are refused; once it was ended, a run needs --begin-anew."""
    rewrite(
        small, routes={"flights": small_route(policy="cascade"), "orders": {"topics": ["orders"], "path": ["airline", "hub"]}}
    )
    small.register()
    with endpoint() as here:
        deliver_waiting(webhook(small, here.url, stream="orders"))
        sink = webhook(small, here.url)
        move(small)
        assert retain(small, "hub", "flights/1").next_step == "To see how it goes on in this stream, run: relaybox doctor hub"
        small.query("hub", "select relaybox.unsubscribe('webhook.billing', 'test')")
        assert retain(small, "hub", "flights/1").next_step == run_or_remove("webhook run billing --begin-anew")
        assert deliver_waiting(sink, begin_anew=True).delivered_count == COUNT


def test_a_named_subscription_to_another_stream_is_ended_first(small: World) -> None:
    """A name can't be subscribed twice: what is said works as it stands."""
    other = {"topics": ["orders"], "path": ["airline", "analytics"]}
    rewrite(small, routes={"flights": small_route(processed_by=["ghost"]), "orders": other})
    small.register()
    move(small)
    small.query("analytics", "select relaybox.subscribe('ghost', 'orders')")
    told = retain(small, "analytics", "flights/2").next_step
    assert told is not None
    statements = re.findall(r"run: (select [^;]*;)", told)
    assert len(statements) == 2
    for statement in statements:
        small.query("analytics", statement)
    assert retain(small, "analytics", "flights/2").holder == "subscription ghost"


@pytest.mark.parametrize("start", ["earliest", "3", "2020-01-01T00:00:00Z", "latest"])
def test_a_sink_of_kafka_keeps_the_log_unless_it_starts_at_latest(small: World, start: str) -> None:
    """Of a start in the middle the whole log is kept, until the sink has run."""
    kafka(small, "127.0.0.1:1", start=start)
    move(small)
    small.settle_all()
    kept = retain(small, "hub", "flights/1")
    if start == "latest":
        assert kept.dropped_count == 4
    else:
        assert (*result(kept), kept.holder) == (*KEPT, "awaited kafka warehouse")
    assert retain(small, "analytics", "flights/2").dropped_count == 4, "the sink reads another store"


def test_an_export_and_a_derivation_keep_the_log_until_they_run(small: World) -> None:
    """The same, named as their commands name them; without a start the version of a derivation does not count."""
    write_sink(small, "exports", "lake", {"stream": "flights", "store": "hub", "to": "parquet", "path": "/lake"})
    derive = {"from": "flights", "sql": "select payload, 'late' as topic from flights", "version": 1}
    late = {"topics": ["late"], "path": ["hub", "analytics"], "derive": derive}
    rewrite(small, routes={"flights": small_route(policy="cascade"), "late": late})
    small.register()
    move(small)
    small.settle_all()
    hub = small.routes.store("hub")
    tables = {table.hop: table for table in read_retention(hub, small.routes).tables}
    assert [(one.name, one.next_step) for one in tables["flights/1"].holders if one.kind == "awaited"] == [
        (name, run_or_remove(command)) for name, command in (("export lake", "export lake"), ("derivation late", "derive late"))
    ]
    assert tables["flights/1"].droppable == ()
    told = retain(small, "hub", "flights/1").next_step
    assert told == f"{run_or_remove('export lake')}. 1 more reader is awaited. To list them, run: relaybox retention --dry-run"
    small.query("hub", "select relaybox.subscribe('export.lake', 'flights', 'latest')")
    assert retain(small, "hub", "flights/1").holder == "awaited derivation late"
    small.query("hub", "select relaybox.subscribe('derive.late.v7', 'flights', 'latest')")
    assert retain(small, "hub", "flights/1").dropped_count == 4


def test_the_next_version_of_a_derivation_that_begins_anew_is_awaited(small: World) -> None:
    """It derives from the beginning again, as its `start` says: what its predecessor has read is kept for it."""
    derive = {"from": "flights", "sql": "select payload, 'late' as topic from flights", "version": 1, "start": "earliest"}
    late = {"topics": ["late"], "path": ["hub", "analytics"], "derive": derive}
    rewrite(small, routes={"flights": small_route(policy="cascade"), "late": late})
    small.register()
    move(small)
    small.settle_all()
    small.query("hub", "select relaybox.subscribe('derive.late.v1', 'flights', 'latest')")
    rewrite(small, routes={"flights": small_route(policy="cascade"), "late": {**late, "derive": {**derive, "version": 2}}})
    kept = retain(small, "hub", "flights/1")
    assert (*result(kept), kept.holder) == (*KEPT, "awaited derivation late")
    small.query("hub", "select relaybox.subscribe('derive.late.v2', 'flights', 'latest')")
    assert retain(small, "hub", "flights/1").dropped_count == 4
