"""A sink that has another name in relaybox.yaml: its old subscription is named, and the new one begins where that stands, as is said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from relaybox import errors
from relaybox.consumer.services import open_engine
from relaybox.routes import KafkaSink
from relaybox.sinks.subscribing import subscribe_sink
from relaybox.stores.init.all_stores import plan_stores
from relaybox.stores.init.plans import find_unapproved, list_changes
from tests.support.cli import diagnose, invoke
from tests.support.endpoint import endpoint
from tests.support.kafka_cluster import kafka_cluster
from tests.support.sinks import SECRET, WHERE, deliver_waiting, kafka, webhook
from tests.support.streams import STORE, deliver
from tests.support.world import STORES, World

SECTION = "Dead letters of a sink that ends"
CONTINUES = re.compile(r'start: "(\d+)"')
ENDS = re.compile(r"select relaybox\.unsubscribe\('[a-z0-9.]+', '?[a-zA-Z ]+'?\)")


def rename(world: World, section: str, old: str, new: str, **changes: object) -> None:
    document = yaml.safe_load(world.path.read_text())
    document[section][new] = {**document[section].pop(old), **changes}
    world.path.write_text(yaml.safe_dump(document))


def said_by_init(store: str = STORE) -> list[str]:
    (done,) = json.loads(invoke("init", store, "--json").stdout)["stores"]
    return list(done["renamed_sinks"])


def follow(world: World, section: str, name: str, said: str, run: Callable[[], int]) -> int:
    """Does what `said` says; returns how many messages the run delivered."""
    document = yaml.safe_load(world.path.read_text())
    document[section][name]["start"] = CONTINUES.findall(said)[0]
    world.path.write_text(yaml.safe_dump(document))
    delivered = run()
    (statement,) = ENDS.findall(said)
    world.query(STORE, statement)
    return delivered


def test_a_renamed_sink_of_kafka_goes_on_where_the_old_one_stands(world: World) -> None:
    """Init says where it would begin and how to go on; doctor names the old subscription until it is ended. No message comes twice."""
    with kafka_cluster() as brokers:
        brokers.create("flights", 1)
        deliver(world, 5)
        assert deliver_waiting(kafka(world, brokers.servers)).delivered_count == 5
        deliver(world, 2)
        assert said_by_init() == []
        assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["ok"]
        rename(world, "kafka", "warehouse", "lake")
        (said,) = said_by_init()
        assert "kafka lake is new, and its first run will begin at earliest of stream flights" in said
        assert "kafka.warehouse reads the same stream, 2 stream positions behind" in said
        assert "no kafka.warehouse in store hub" in said
        assert f"{STORE}: kafka lake is new" in " ".join(invoke("init", STORE).stdout.split())
        ((severity, what, next_step),) = diagnose(STORE, "sinks")
        assert (severity, invoke("doctor", STORE).exit_code) == ("warning", 3)
        assert "Subscription kafka.warehouse belongs to no sink: relaybox.yaml has no kafka.warehouse in store hub" in what
        assert "It is 2 stream positions behind" in what
        assert CONTINUES.findall(next_step) == CONTINUES.findall(said) == ["6"]
        assert "select relaybox.unsubscribe('kafka.warehouse', 'REASON');" in next_step

        def run() -> int:
            assert said_by_init() == [], "it begins where the other one stands"
            return deliver_waiting(world.routes.kafka_sink("lake")).delivered_count

        assert follow(world, "kafka", "lake", said, run) == 2
        records = brokers.read("flights", 7)
    positions = [dict(record.headers() or [])["relaybox-stream-position"] for record in records]
    assert positions == [str(position).encode() for position in range(1, 8)]
    assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["ok"]
    assert said_by_init() == []


def test_a_renamed_webhook_goes_on_at_the_first_message_that_was_passed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that wait until they are due end with the subscription that passed them: the new one has to begin before them."""
    monkeypatch.setenv(WHERE, SECRET)
    for payload, headers in (("early", None), ("late", '{"relaybox-deliver-after": 99999999999}'), ("next", None)):
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', %s, %s)",
            payload,
            headers,
        )
    world.transfer()
    with endpoint() as here:
        assert deliver_waiting(webhook(world, here.url, delayed="pass")).delivered_count == 2
        rename(world, "webhooks", "billing", "invoices", delayed="ignore")
        (said,) = said_by_init()
        assert CONTINUES.findall(said) == ["2"], "3 is acknowledged, 2 was passed"
        run = lambda: deliver_waiting(world.routes.webhook("invoices")).delivered_count  # noqa: E731
        assert follow(world, "webhooks", "invoices", said, run) == 2
        assert [json.loads(request.body)["data"] for request in here.requests][-2:] == ["late", "next"]
    assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["ok"]


def test_dead_letters_of_a_sink_that_ends_are_named_before_it_ends(world: World) -> None:
    """No other sink sends them: they stayed behind, and nothing said so."""
    with kafka_cluster() as brokers:
        brokers.create("flights", 1)
        deliver(world, 3)
        sink = kafka(world, brokers.servers, nack_limit=1)
        subscribe(sink)
        ((position, token),) = world.query(STORE, "select stream_position, token from relaybox.fetch('kafka.warehouse', 1)")
        world.query(STORE, "select relaybox.nack('kafka.warehouse', %s, 'test', %s)", position, token)
        assert deliver_waiting(sink).delivered_count == 2
        rename(world, "kafka", "warehouse", "lake")
        list_them = f"relaybox dead-letters list {STORE} --subscription kafka.warehouse"
        (said,) = said_by_init()
        ((_, what, next_step),) = diagnose(STORE, "sinks")
        for text in (said, what):
            assert "0 stream positions behind, with 1 open dead letter" in text
        for text in (said, next_step):
            assert f"Before it ends, redrive or drop its dead letters (docs/outward.md, {SECTION}): no other sink" in text
            assert f"run: {list_them}." in text
        assert f"### {SECTION}\n" in Path("docs/outward.md").read_text()
        listed = json.loads(invoke(*list_them.split()[1:], "--json").stdout)["dead_letters"]
        assert [letter["stream_position"] for letter in listed] == [1]
        rename(world, "kafka", "lake", "warehouse")
        assert invoke("dead-letters", "redrive", "kafka.warehouse", "--reason", "test").exit_code == 0
        assert deliver_waiting(sink).delivered_count == 1
        rename(world, "kafka", "warehouse", "lake")
        (said,) = said_by_init()
        assert "dead letter" not in said


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [({}, True), ({"topic": "cargo"}, False), ({"start": "6"}, False), ({"start": "latest"}, True), ({"start": "5"}, True)],
)
def test_init_tells_of_a_sink_that_reads_the_same_and_begins_elsewhere(
    world: World, changes: dict[str, str], is_told: bool
) -> None:
    """Another topic is another sink. A subscription of an application is none of a sink, whatever it reads."""
    world.change_route(topics=["flights", "cargo"])
    world.register()
    deliver(world, 5)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    sink = kafka(world, "localhost:9092", start="latest")
    subscribe(sink)
    rename(world, "kafka", "warehouse", "lake", **changes)
    assert len(said_by_init()) == int(is_told)
    assert len(diagnose(STORE, "sinks")) == 1
    assert "kafka.warehouse" in diagnose(STORE, "sinks")[0][1]


@pytest.mark.parametrize(
    ("start", "meaning"),
    [
        ("6", "if 6 is a stream position of store hub, it is another message there, and messages are lost or sent twice"),
        ("earliest", "a stream position of store hub is another message there: take none over"),
    ],
)
def test_a_sink_that_moved_to_another_store_leaves_its_subscription(world: World, start: str, meaning: str) -> None:
    """The name is in the file, but not of this store. Its replay is a part of it, and not named beside it."""
    deliver(world, 5)
    subscribe(kafka(world, "localhost:9092", start="latest"))
    world.query(STORE, "select relaybox.replay('kafka.warehouse', '1', 'why', '2', true)")
    rename(world, "kafka", "warehouse", "warehouse", store="analytics", start=start)
    ((severity, what, next_step),) = diagnose(STORE, "sinks")
    assert (severity, "Subscription kafka.warehouse belongs to no sink" in what) == ("warning", True)
    (said,) = said_by_init()
    assert f'kafka warehouse is in store analytics now, and begins there at start: "{start}" of relaybox.yaml: {meaning}.' in said
    assert "kafka.warehouse stays in store hub, 0 stream positions behind" in said
    assert next_step == f"{said};"
    assert said_by_init("analytics") == []
    world.query(STORE, ENDS.findall(said)[0])
    assert said_by_init() == []
    assert [severity for severity, _, _ in diagnose("analytics", "sinks")] == ["ok"]


def test_a_sink_that_gets_another_stream_takes_no_position_over(world: World) -> None:
    """Route r1 was merged into r2: what the error says loses no message, and what comes twice has its id."""
    write_routes(world, r1=["t"], r2=["v"])
    world.send_many(6, topic="t")
    world.send_many(2, topic="v", prefix="v")
    for hop in ("r1/1", "r2/1"):
        world.transfer(world.routes.hop(hop))
    with endpoint() as here:
        assert deliver_waiting(webhook(world, here.url, stream="r1")).delivered_count == 6
        write_routes(world, r2=["v", "t"])
        world.send_many(3, topic="t", prefix="new")
        world.transfer(world.routes.hop("r2/1"))
        with pytest.raises(errors.ConfigurationError, match=r"relaybox.yaml has stream r2, the store r1") as refused:
            deliver_waiting(webhook(world, here.url, stream="r2"))
        next_step = refused.value.next_step
        assert "Take no stream position of r1 over" in next_step
        ((severity, what, step),) = diagnose(STORE, "sinks")
        assert (severity, invoke("doctor", STORE).exit_code) == ("warning", 3)
        assert "relaybox.yaml has stream r2, the open subscription webhook.billing in store hub has stream r1, 0 stream" in what
        assert next_step.partition("(1)")[2] == step.partition("(1)")[2], "it is told before the first run too"
        assert said_by_init() == [f"{what} {step}"]
        assert "next stream position" not in next_step
        (start,) = re.findall(r'start: "([a-z0-9]+)"', next_step)
        world.query(STORE, ENDS.findall(next_step)[0])
        deliver_waiting(webhook(world, here.url, stream="r2", start=start), begin_anew=True)
        ids = [request.headers["webhook-id"] for request in here.requests]
    delivered = world.query(STORE, "select message_id::text from relaybox.read_stream('r2', 0, 1000)")
    assert {one for (one,) in delivered} <= set(ids)
    assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["ok"]
    assert said_by_init() == []


def test_a_sink_that_gets_another_topic_is_named_before_it_runs(world: World) -> None:
    """Its runs are refused. What is said goes on behind what was acknowledged."""
    write_routes(world, r1=["t", "u"])
    world.send_many(4, topic="t")
    world.transfer(world.routes.hop("r1/1"))
    with endpoint() as here:
        assert deliver_waiting(webhook(world, here.url, stream="r1")).delivered_count == 4
        world.send_many(2, topic="u", prefix="u")
        world.transfer(world.routes.hop("r1/1"))
        sink = webhook(world, here.url, stream="r1", topic="u")
        ((severity, what, next_step),) = diagnose(STORE, "sinks")
        assert severity == "warning"
        assert "has topic u of stream r1, the open subscription webhook.billing in store hub has stream r1, 2 stream" in what
        assert said_by_init() == [f"{what} {next_step}"]
        with pytest.raises(errors.ConfigurationError, match=r"relaybox.yaml has topic u, the store none"):
            deliver_waiting(sink)
        world.query(STORE, ENDS.findall(next_step)[0])
        again = webhook(world, here.url, stream="r1", topic="u", start=CONTINUES.findall(next_step)[0])
        assert deliver_waiting(again, begin_anew=True).delivered_count == 2
    assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["ok"]


def write_routes(world: World, **topics: list[str]) -> None:
    """A relaybox.yaml with these routes from `airline` to `hub`, and its init."""
    routes = {name: {"topics": of, "path": ["airline", STORE]} for name, of in topics.items()}
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()


def test_what_init_says_of_a_renamed_sink_needs_no_approval(world: World) -> None:
    """Its numbers grow with each message, so a plan that was approved would never be the plan that is done."""
    deliver(world, 5)
    subscribe(kafka(world, "localhost:9092", start="latest"))
    rename(world, "kafka", "warehouse", "lake")
    document = yaml.safe_load(world.path.read_text())
    document["stores"][STORE] = {"require_approval": True}
    world.path.write_text(yaml.safe_dump(document))
    (shown,) = plan_stores([world.routes.store(STORE)], world.routes).stores
    deliver(world, 1)
    (later,) = plan_stores([world.routes.store(STORE)], world.routes).stores
    assert shown.renamed_sinks != later.renamed_sinks
    assert list_changes(shown)["renamed_sinks"] == list(shown.renamed_sinks), "the plan shows it"
    assert later.changed
    assert find_unapproved(later, list_changes(shown)) == []


def subscribe(sink: KafkaSink) -> None:
    engine = open_engine(sink.store.service, sink.subscription, connecting=nullcontext)
    try:
        subscribe_sink(sink, engine)
    finally:
        engine.dispose()


def test_a_first_run_that_would_read_a_stream_of_the_name_of_its_topic_subscribes_to_nothing(world: World) -> None:
    """relaybox.yaml no longer has the route that made the stream, so only the store knows it."""
    world.change_route(topics=["flights", "cargo"])
    document = yaml.safe_load(world.path.read_text())
    document["routes"]["cargo"] = {"topics": ["mail"], "path": ["airline", STORE]}
    world.path.write_text(yaml.safe_dump(document))
    world.register()
    del document["routes"]["cargo"]
    world.path.write_text(yaml.safe_dump(document))
    sink = kafka(world, "127.0.0.1:1", topic="cargo")
    with pytest.raises(errors.ConfigurationError, match="to cargo in store hub would read all of stream cargo"):
        subscribe(sink)
    assert world.value(STORE, "select count(*) from relaybox_internal.subscription") == 0
