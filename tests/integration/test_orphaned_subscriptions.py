"""A topic that relaybox.yaml moves to another stream: init and doctor name its subscriptions, and what they say continues them."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from relaybox.retention.segments import TableRetained, read_retention, retain_store
from relaybox.stores.init.all_stores import plan_stores
from relaybox.stores.init.plans import find_unapproved, list_changes
from tests.support.cli import invoke
from tests.support.sinks import write_sink
from tests.support.streams import STORE
from tests.support.world import STORES, World

KEEP = re.compile(r"select relaybox\.subscribe\([^)]*\);")
DOCS = Path(__file__).parents[2] / "docs"


def route(world: World, **topics: list[str]) -> None:
    """Writes a relaybox.yaml with these routes from `airline` to `hub`, and does the init."""
    retention = {"replay_window_seconds": 0}
    routes = {name: {"topics": of, "path": ["airline", STORE], "retention": retention} for name, of in topics.items()}
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()


def move(world: World, *routes: str) -> None:
    for name in routes:
        world.transfer(world.routes.hop(f"{name}/1"))


def consume(world: World, subscription: str) -> list[str]:
    """Fetches and acknowledges all that waits; the payloads."""
    read: list[str] = []
    while rows := world.query(
        STORE, "select payload, stream_position, token from relaybox.fetch(%s, 100, worker => 'w')", subscription
    ):
        read += [payload for payload, _, _ in rows]
        world.query(STORE, "select relaybox.ack(%s, %s, %s)", subscription, *rows[-1][1:])
    return read


def said_by_init(*options: str) -> list[str]:
    (done,) = json.loads(invoke("init", STORE, "--json", *options).stdout)["stores"]
    return list(done["orphaned_subscriptions"])


def said_by_doctor() -> list[tuple[str, str, str]]:
    (report,) = json.loads(invoke("doctor", STORE, "--json").stdout)["stores"]
    return [(one["severity"], one["what"], one["next_step"]) for one in report["results"] if one["check"] == "subscriptions"]


def moved_topic(world: World) -> None:
    """x has read three messages of t by r1 of five; r2 has the topic now."""
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('x', 't', lanes => 2, delayed => 'ignore')")
    world.query(STORE, "select relaybox.subscribe('whole', 'r1')")
    world.send_many(3, topic="t")
    world.send_many(2, topic="v", prefix="v")
    move(world, "r1", "r2")
    assert consume(world, "x") == ["m1", "m2", "m3"]
    world.send("m4", "m5", topic="t")
    move(world, "r1")
    assert said_by_init() == []
    assert [severity for severity, _, _ in said_by_doctor()] == ["ok"]
    route(world, r1=["u"], r2=["v", "t"])


def test_init_and_doctor_name_a_subscription_whose_topic_moved(world: World) -> None:
    """With how far behind it is, and the stream that has the topic now; until it is ended."""
    moved_topic(world)
    what = (
        "Subscription x reads topic t of stream r1 and gets no new message: relaybox.yaml brings topic t to store hub in stream r2. "
        "It is 2 stream positions behind."
    )
    keep = "select relaybox.subscribe('r2.x', 't', 'earliest', lanes => 2, delayed => 'ignore');"
    for said in (said_by_init(), said_by_init("--dry-run")):
        assert len(said) == 2, "a subscription to the whole of r1 still gets u, and is told that it lost t"
        assert "Subscription whole reads all of stream r1 and no longer gets topic t" in said[1]
        assert what in said[0]
        assert keep in said[0]
    assert "Subscription x reads topic t of stream r1" in " ".join(invoke("init", STORE).stdout.split())
    (severity, found, next_step), _ = said_by_doctor()
    assert (severity, found, invoke("doctor", STORE).exit_code) == ("warning", what, 3)
    assert keep in next_step
    world.query(STORE, "select relaybox.unsubscribe('x'), relaybox.unsubscribe('whole')")
    assert (said_by_init(), [severity for severity, _, _ in said_by_doctor()]) == ([], ["ok"])


def test_what_is_said_continues_it_without_loss(world: World) -> None:
    """A subscription to the topic finds the stream that has it now. What comes twice has the id that it had."""
    moved_topic(world)
    world.query(STORE, "select relaybox.unsubscribe('whole')")
    ((_, _, next_step),) = said_by_doctor()
    (keep,) = KEEP.findall(next_step)
    world.query(STORE, keep)
    ((_, _, next_step),) = said_by_doctor()
    assert KEEP.findall(next_step) == [], "it is there already"
    world.send("m6", topic="t")
    move(world, "r1", "r2")
    assert consume(world, "x") == ["m4", "m5"]
    world.query(STORE, "select relaybox.unsubscribe('x', 'REASON')")
    assert sorted(consume(world, "r2.x")) == ["m1", "m2", "m3", "m4", "m5", "m6"]
    assert said_by_init() == []


def test_what_is_said_keeps_the_messages_of_a_topic_that_has_the_name_of_a_stream(world: World) -> None:
    """A subscription to that name would be one to the stream of the name: what is said names the stream that has the topic now."""
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('x', 't')")
    route(world, r1=["u"], r2=["v", "t"], t=["w"])
    ((_, _, next_step),) = said_by_doctor()
    (keep,) = KEEP.findall(next_step)
    assert keep == "select relaybox.subscribe('r2.x', 'r2', 'earliest');"
    with world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute("select relaybox.subscribe('y', 't')")
        assert "t is a stream and a topic of another stream: this is the stream" in session.notices[-1]
        cursor.execute("select relaybox.subscribe('z', 'r2')")
        assert len(session.notices) == 1


def documented(name: str) -> str:
    """The SQL block of consuming.md that begins with this comment; psql's \\gset is done here."""
    blocks = re.findall(r"```sql\n(.*?)```", (DOCS / "consuming.md").read_text(encoding="utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(f"-- {name}")]
    return str(found)


def follow(world: World) -> None:
    with world.session(STORE) as session, session.cursor() as cursor:
        before, after = documented("continue x in r2").split("\\gset")
        cursor.execute(before)
        (start,) = cursor.fetchone()
        cursor.execute(after.replace(":'start'", f"'{start}'"))
        session.commit()


@pytest.mark.parametrize("is_moved", [True, False])
def test_the_documented_start_repeats_nothing_that_was_acknowledged(world: World, is_moved: bool) -> None:
    """Once r2 has moved what the outbox had; before, what r1 delivered comes again, and nothing is missed either."""
    moved_topic(world)
    world.query(STORE, "select relaybox.subscribe('r2.x', 't', 'earliest')")
    assert consume(world, "x") == ["m4", "m5"]
    if is_moved:
        move(world, "r2")
    follow(world)
    world.send("m6", topic="t")
    move(world, "r2")
    read = consume(world, "x")
    assert read == (["m6"] if is_moved else ["m1", "m2", "m3", "m4", "m5", "m6"])
    assert world.query(STORE, "select subscription from relaybox.subscriptions order by 1") == [("whole",), ("x",)]


def test_the_documented_start_gives_what_was_not_acknowledged(world: World) -> None:
    """The subscription ended too early, at m3: m4 and m5 come by r2."""
    moved_topic(world)
    world.query(STORE, "select relaybox.subscribe('r2.x', 't', 'earliest')")
    move(world, "r2")
    follow(world)
    assert consume(world, "x") == ["m4", "m5"]


def retain(world: World) -> TableRetained:
    """What retention does with the log of r2, as relaybox.yaml is now; the dry run says the same."""
    at = world.routes.store(STORE)
    dry = next(table for table in read_retention(at, world.routes).tables if table.hop == "r2/1")
    done = next(table for table in retain_store(at, recorded_by="test", routes=world.routes).tables if table.hop == "r2/1")
    assert (done.holder_kind, done.holder_name) == (dry.holders[0].kind, dry.holders[0].name)
    assert (done.dropped_count, len(dry.droppable)) == (0, 0)
    return done


@pytest.mark.parametrize(("subscription", "source", "keeper"), [("x", "t", "r2.x"), ("whole", "r1", "t.whole")])
def test_g7_nothing_is_dropped_of_the_stream_that_has_a_topic_now(
    world: World, subscription: str, source: str, keeper: str
) -> None:
    """Hops and retention run right after the init: what r2 has by then is kept for who reads the topic by r1, and so is what comes."""
    world.cut_small_segments()
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe(%s, %s)", subscription, source)
    move(world, "r1")
    route(world, r1=["u"], r2=["v", "t"])
    world.send_many(45, topic="t")
    move(world, "r1", "r2")
    kept = retain(world)
    assert (kept.holder_kind, kept.holder_name, kept.outcome) == (
        "awaited",
        f"subscription {subscription}",
        "kept",
    )
    assert kept.awaited == (
        f"relaybox.yaml brings topic t of subscription {subscription} in this stream now, where nothing keeps its messages yet: it needs all from "
        "position 1 on"
    )
    assert kept.next_step is not None
    (keep,) = KEEP.findall(kept.next_step)
    world.query(STORE, keep)
    kept = retain(world)
    assert (kept.holder_kind, kept.holder_name, kept.awaited) == ("subscription", keeper, None)
    assert len(consume(world, keeper)) == 45


def keeps(named: str) -> list[str]:
    """The statements that begin with keeping what the other stream has, as doctor says for this subscription."""
    return [
        keep for _, what, step in said_by_doctor() if what.startswith(f"Subscription {named} ") for keep in KEEP.findall(step)
    ]


def test_a_subscription_that_kept_another_topic_for_the_name_keeps_nothing_for_it(world: World) -> None:
    """r2.x is what its workers read since the first move. The next x is told to make one of its own, and its messages come."""
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('x', 't')")
    route(world, r1=["u"], r2=["v", "t"])
    world.query(STORE, *keeps("x"))
    world.query(STORE, "select relaybox.unsubscribe('x')")
    world.query(STORE, "select relaybox.subscribe('x', 'u')")
    route(world, r1=["w"], r2=["v", "t", "u"])
    assert keeps("x") == ["select relaybox.subscribe('r2.x.2', 'u', 'earliest');"]
    world.query(STORE, *keeps("x"))
    ((_, _, step),) = said_by_doctor()
    assert (keeps("x"), "read until x is 0 behind, and r2.x.2 from then on. (2) Run: select relaybox.unsubscribe" in step) == (
        [],
        True,
    )
    world.send_many(3, topic="u")
    move(world, "r2")
    assert consume(world, "r2.x.2") == ["m1", "m2", "m3"]


def test_a_name_that_is_in_use_keeps_no_lost_topic(world: World) -> None:
    """t.whole reads another stream."""
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('whole', 'r1')")
    route(world, r1=["u"], r2=["v", "t"])
    world.query(STORE, "select relaybox.subscribe('t.whole', 'u')")
    assert keeps("whole") == ["select relaybox.subscribe('t.whole.2', 't', 'earliest');"]
    world.query(STORE, *keeps("whole"))
    assert [severity for severity, _, _ in said_by_doctor()] == ["ok"]


def test_a_lost_topic_that_two_streams_have_is_kept_in_each(world: World) -> None:
    """subscribe() refuses the topic itself: which stream is meant?"""
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('whole', 'r1')")
    route(world, r1=["u"], r2=["v", "t"], r3=["t"])
    assert keeps("whole") == [f"select relaybox.subscribe('{name}.whole', '{name}', 'earliest');" for name in ("r2", "r3")]
    for keep in keeps("whole"):
        world.query(STORE, keep)
    assert [severity for severity, _, _ in said_by_doctor()] == ["ok"]


def test_long_names_have_keepers_of_their_own(world: World) -> None:
    """What is cut of a name is in its hash, and subscribe() takes it."""
    lost = "notifications-that-no-customer-has-subscribed-to"
    stream, readers = (
        "orders-of-warehouse-and-shop",
        ["notifications-to-customers-in-the-eu", "notifications-to-customers-in-the-us"],
    )
    route(world, r1=["t", lost], **{stream: ["v"]})
    for reader in readers:
        world.query(STORE, "select relaybox.subscribe(%s, 't')", reader)
    world.query(STORE, "select relaybox.subscribe('whole', 'r1')")
    route(world, r1=["w"], **{stream: ["v", "t", lost]})
    told = [keep for reader in (*readers, "whole") for keep in keeps(reader)]
    assert len(set(told)) == len(told) == 4
    for keep in told:
        world.query(STORE, keep)
    assert [keep for reader in (*readers, "whole") for keep in keeps(reader)] == []


def test_what_ends_with_a_subscription_is_said_before_its_end(world: World) -> None:
    """0 behind is not enough: a message that it passed as not due, and a dead letter, are delivered by no other one."""
    route(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('x', 't', nack_limit => 1, delayed => 'pass')")
    later = f'{{"relaybox-deliver-after": {time.time() + 3600}}}'
    world.query("airline", "insert into relaybox.outbox (topic, sender, payload, headers) values ('t', 'UA', 'later', %s)", later)
    world.send_many(2, topic="t")
    move(world, "r1")
    ((_, token), *_) = world.query(STORE, "select stream_position, token from relaybox.fetch('x', 10, worker => 'w')")
    world.query(STORE, "select relaybox.nack('x', 2, 'no such customer', %s)", token)
    assert consume(world, "x") == ["m2"]
    route(world, r1=["u"], r2=["v", "t"])
    ((_, what, step),) = said_by_doctor()
    assert "It is 0 stream positions behind, and has 1 message that it passed as not due and 1 open dead letter." in what
    assert "read until x is 0 behind and has none of the others left (wait until what is not due was delivered" in step


def test_a_route_that_is_merged_into_another_leaves_subscriptions_to_its_stream(world: World) -> None:
    """Of a topic, of the whole stream, and of a sink. Without another stream there is nothing to go on with."""
    route(world, r1=["t", "u"], r2=["v"])
    for name, source in (("x", "t"), ("whole", "r1"), ("kafka.lake", "r1"), ("other", "r2")):
        world.query(STORE, "select relaybox.subscribe(%s, %s)", name, source)
    route(world, r2=["v", "t", "u"])
    write_sink(world, "kafka", "lake", {"store": STORE, "stream": "r2", "bootstrap_servers": "localhost:9092"})
    sink, whole, x = said_by_init()
    assert "Subscription x reads topic t of stream r1" in x
    assert "relaybox.yaml brings topics t, u to store hub in stream r2" in whole
    assert "select relaybox.subscribe('r2.whole', 'r2', 'earliest');" in whole
    assert "select relaybox.subscribe('r2.kafka.lake', 'r2', 'earliest'); Then: (1) Deliver the rest of r1" in sink
    assert "Run: relaybox --config OLD.yaml kafka run lake --until-empty (2) End its processes." in sink
    assert "In store hub, run: select relaybox.unsubscribe('kafka.lake', 'REASON'); (3) Write stream: r2 and start:" in sink
    assert "Run: relaybox kafka run lake --begin-anew (4) In store hub, run: select relaybox.unsubscribe('r2.kafka.lake'," in sink
    assert "docs/outward.md, Another stream or store" in sink
    route(world, r2=["v"])
    assert [("no route of relaybox.yaml fills stream r1" in one, "Give it a route again" in one) for one in said_by_init()] == [
        (True, True),
        (True, True),
        (True, True),
    ]


def test_a_topic_that_comes_by_subscription_is_carried(world: World) -> None:
    routes: dict[str, Any] = {"r1": {"topics": ["t"], "path": ["airline", STORE], "topics_by_subscription": True}}
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()
    world.query(STORE, "select relaybox.subscribe('x', 'asked')")
    assert said_by_init() == []


def test_a_subscription_finds_the_stream_that_carries_the_topic_now(world: World) -> None:
    """A stream that it left is no second one. A topic that no stream carries any more is found where it was."""

    def found(topic: str) -> str:
        world.query(STORE, "select relaybox.subscribe('x', %s)", topic)
        stream = world.value(STORE, "select stream from relaybox.subscriptions where subscription = 'x'")
        world.query(STORE, "select relaybox.unsubscribe('x')")
        return str(stream)

    route(world, r1=["t"], r2=["v"])
    route(world, r1=["u"], r2=["v", "t"])
    assert found("t") == "r2"
    route(world, r1=["t"], r2=["v"])
    assert found("t") == "r1"
    route(world, r1=["u"], r3=["w"])
    assert found("v") == "r2"


def test_messages_that_another_hop_moves_are_not_called_unrouted(world: World) -> None:
    """Until the topic is in no route."""
    moved_topic(world)
    world.send("m6", topic="t")
    move(world, "r1", "r2")
    assert "unrouted" not in invoke("status").stdout
    route(world, r1=["u"], r2=["v"])
    world.send("m7", topic="t")
    move(world, "r1", "r2")
    assert "r1/1: topic t: 2 messages are unrouted" in " ".join(invoke("status").stdout.split())


def test_what_init_says_of_them_needs_no_approval(world: World) -> None:
    """Its numbers grow with each message."""
    moved_topic(world)
    (shown,) = plan_stores([world.routes.store(STORE)], world.routes).stores
    assert list_changes(shown)["orphaned_subscriptions"] == list(shown.orphaned_subscriptions)
    assert not [one for one in find_unapproved(replace(shown, roles_created=("x",)), {}) if "orphaned_subscriptions" in one]
