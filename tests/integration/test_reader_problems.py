"""Readers that get nothing, or less than they should: each place where people look names them, with what repairs them, and all say the same."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import yaml

from relaybox import errors
from relaybox.consumer.services import open_engine
from relaybox.hops.confirmations import settle_hop
from relaybox.monitoring.findings import find_blockers
from relaybox.monitoring.metrics import collect, render
from relaybox.monitoring.status import read_status
from relaybox.retention.segments import retain_store
from relaybox.sinks.subscribing import subscribe_sink
from tests.integration.logged_in import logged_in_as
from tests.support.cli import diagnose, invoke
from tests.support.endpoint import endpoint
from tests.support.sinks import deliver_waiting, kafka, webhook
from tests.support.streams import STORE
from tests.support.world import STORES, World

STATEMENT = re.compile(r"select relaybox\.[a-z_]+\([^)]*\);")


def write_routes(world: World, **topics: list[str]) -> None:
    """Writes a relaybox.yaml with these routes from `airline` to `hub`, keeps its sinks, and does the init."""
    document = yaml.safe_load(world.path.read_text())
    routes = {name: {"topics": of, "path": ["airline", STORE]} for name, of in topics.items()}
    world.path.write_text(yaml.safe_dump({**document, "stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()


def change_file(world: World, **sections: Any) -> None:
    document = yaml.safe_load(world.path.read_text())
    world.path.write_text(yaml.safe_dump({**document, **sections}))


def move(world: World, *routes: str) -> None:
    for name in routes:
        world.transfer(world.routes.hop(f"{name}/1"))


def consume(world: World, store: str, subscription: str) -> list[str]:
    """Fetches and acknowledges all that waits; the payloads."""
    read: list[str] = []
    while rows := world.query(
        store, "select payload, stream_position, token from relaybox.fetch(%s, 100, worker => 'w')", subscription
    ):
        read += [payload for payload, _, _ in rows]
        world.query(store, "select relaybox.ack(%s, %s, %s)", subscription, *rows[-1][1:])
    return read


def answered(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(invoke(*arguments, "--json").stdout)
    return answer


def problems(*arguments: str) -> list[tuple[str, str, str]]:
    return [(one["kind"], one["subscription"], one["stream"]) for one in answered(*arguments)["reader_problems"]]


def text(*arguments: str) -> str:
    """What a command says, on stdout and stderr."""
    said = invoke(*arguments)
    return " ".join(f"{said.stdout} {said.stderr}".split())


def no_problem(world: World) -> None:
    assert problems("status") == problems("subscriptions") == []
    assert "relaybox_reader_problem" not in invoke("metrics").stdout


def everywhere(world: World, kind: str, subscription: str, stream: str, *, store: str = STORE) -> str:
    """Asserts that status, subscriptions, metrics and the page's findings name one reader alike; returns what repairs it."""
    (one,) = answered("status")["reader_problems"]
    assert (one["kind"], one["store"], one["subscription"], one["stream"]) == (kind, store, subscription, stream)
    line = f"store {store}: {one['what']} {one['next_step']}"
    assert f"warning: {line}" in text("status")
    assert problems("subscriptions") == [(kind, subscription, stream)]
    assert line in text("subscriptions")
    status = read_status(world.routes)
    labels = f'problem="{kind}",store="{store}",stream="{stream}",subscription="{subscription}"'
    assert f"relaybox_reader_problem{{{labels}}} 1.0" in render(collect(status, {}))
    (finding,) = [found for found in find_blockers(world.routes, status, {}) if found.kind == "reader_problem"]
    assert (finding.what, finding.next_step, finding.stream) == (one["what"], one["next_step"], stream)
    return str(one["next_step"])


def moved_topic(world: World) -> None:
    """x reads topic t and whole all of r1, which is no longer t."""
    write_routes(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('x', 't')")
    world.send_many(3, topic="t")
    move(world, "r1")
    no_problem(world)
    write_routes(world, r1=["u"], r2=["v", "t"])


def test_a_subscription_that_no_route_fills_is_named_everywhere(world: World) -> None:
    """It was shown as live, by a status that ends with 0; now until it is ended."""
    moved_topic(world)
    everywhere(world, "orphaned", "x", "r1")
    assert invoke("status").exit_code == 2
    assert "gets nothing new" in text("subscriptions")
    said = invoke("consume", "x")
    assert len(said.stdout.splitlines()) == 3, "what it still has is printed"
    assert "warning: store hub: Subscription x reads topic t of stream r1 and gets no new message" in " ".join(
        said.stderr.split()
    )
    assert "Subscription x reads topic t of stream r1" in text("verify", "r1")
    assert [one["subscription"] for one in answered("verify", "r1")["reader_problems"]] == ["x"]
    assert "Subscription x" not in text("verify", "r2")
    world.query(STORE, "select relaybox.unsubscribe('x')")
    no_problem(world)
    assert invoke("status").exit_code == 0


def test_a_consumer_that_may_not_compare_is_told_nothing_and_reads(world: World) -> None:
    """The login of a consumer sees its subscription, and not what stores know of topics."""
    moved_topic(world)
    with logged_in_as(world, "relaybox_consumer"):
        said = invoke("consume", "x", "--store", STORE)
    assert (said.exit_code, len(said.stdout.splitlines())) == (0, 3)


def test_a_subscription_that_lost_a_topic_is_named_until_it_is_decided(world: World) -> None:
    """What is said brings it the topic: messages of t come by a second subscription, from the first that was not acknowledged on."""
    write_routes(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('whole', 'r1', lanes => 2)")
    write_routes(world, r1=["u"], r2=["v", "t"])
    world.query(STORE, "select relaybox.subscribe('later', 'r1')")
    next_step = everywhere(world, "reduced", "whole", "r1")
    ((severity, what, _),) = diagnose(STORE, "subscriptions")
    assert (severity, invoke("status").exit_code) == ("warning", 2)
    assert what.startswith(
        "Subscription whole reads all of stream r1 and no longer gets topic t: relaybox.yaml brings topic t to store hub in stream r2."
    )
    assert "lost topic t" in text("subscriptions")
    assert what in " ".join(answered("init", STORE)["stores"][0]["orphaned_subscriptions"])
    keep, end = STATEMENT.findall(next_step)
    assert keep == "select relaybox.subscribe('t.whole', 't', 'earliest', lanes => 2);"
    world.query(STORE, keep)
    no_problem(world)
    world.send("m1", topic="t")
    world.send("m2", topic="u")
    move(world, "r1", "r2")
    assert (consume(world, STORE, "whole"), consume(world, STORE, "t.whole")) == (["m2"], ["m1"])
    world.query(STORE, end)
    no_problem(world)


def test_what_was_decided_of_one_move_says_nothing_of_the_next(world: World) -> None:
    """t comes back to r1 and leaves once more: whole is named again. One that was made after the topic left never had it."""
    write_routes(world, r1=["t", "u"], r2=["v"])
    world.query(STORE, "select relaybox.subscribe('whole', 'r1')")
    write_routes(world, r1=["u"], r2=["v", "t"])
    for statement in STATEMENT.findall(everywhere(world, "reduced", "whole", "r1")):
        world.query(STORE, statement)
    no_problem(world)
    write_routes(world, r1=["t", "u"], r2=["v"])
    no_problem(world)
    write_routes(world, r1=["u"], r2=["v", "t"])
    everywhere(world, "reduced", "whole", "r1")
    write_routes(world, r1=["u"], r2=["v"])
    no_problem(world)  # no route brings t: it gets all that comes


def test_a_sink_that_lost_a_topic_has_another_one(world: World) -> None:
    """A second webhook for the topic is the answer; a subscription would be read by nobody."""
    write_routes(world, r1=["t", "u"], r2=["v"])
    with endpoint() as here:
        deliver_waiting(webhook(world, here.url, stream="r1"))
        write_routes(world, r1=["u"], r2=["v", "t"])
        said = everywhere(world, "reduced", "webhook.billing", "r1")
        assert said.startswith("Write another webhook into relaybox.yaml that has stream: r2 (topic t) and start: earliest.")
        (sink,) = answered("webhook")["sinks"]
        assert (sink["problem"]["kind"], "lost topic t" in text("webhook")) == ("reduced", True)
        document = yaml.safe_load(world.path.read_text())
        document["webhooks"]["second"] = {**document["webhooks"]["billing"], "stream": "r2", "topic": "t", "start": "latest"}
        world.path.write_text(yaml.safe_dump(document))
        no_problem(world)


def test_a_sink_whose_runs_are_refused_says_so(world: World) -> None:
    """It said "no failure known"."""
    write_routes(world, r1=["t"], r2=["v"])
    with endpoint() as here:
        deliver_waiting(webhook(world, here.url, stream="r1"))
        assert "no failure known" in text("webhook")
        assert answered("webhook")["sinks"][0]["problem"] is None
        sink = webhook(world, here.url, stream="r2")
        with pytest.raises(errors.ConfigurationError):
            deliver_waiting(sink)
        next_step = everywhere(world, "changed", "webhook.billing", "r1")
        said = text("webhook")
        assert "runs are refused" in said
        assert "no failure known" not in said
        assert next_step in said
        assert answered("webhook")["sinks"][0]["problem"]["next_step"] == next_step
        assert invoke("status").exit_code == 2


def test_a_sink_whose_settings_differ_says_so(world: World) -> None:
    """Its runs are refused for each of them."""
    write_routes(world, r1=["t"])
    with endpoint() as here:
        deliver_waiting(webhook(world, here.url, stream="r1"))
        sink = webhook(world, here.url, stream="r1", lanes=3)
        with pytest.raises(errors.ConfigurationError) as refused:
            deliver_waiting(sink)
        assert everywhere(world, "changed", "webhook.billing", "r1") == refused.value.next_step
        assert "webhook billing: relaybox.yaml has lanes 3, the store 1; 0 stream positions behind." in text("webhook")
        webhook(world, here.url, stream="r1")
        no_problem(world)


def test_a_sink_that_gets_other_settings_begins_with_what_it_had_passed(world: World) -> None:
    """The first message is not due; all behind it were delivered."""
    write_routes(world, r1=["t"])
    with endpoint() as here:
        sink = webhook(world, here.url, stream="r1", delayed="pass")
        later = f'{{"relaybox-deliver-after": {time.time() + 3600}}}'
        world.query(
            "airline", "insert into relaybox.outbox (topic, sender, payload, headers) values ('t', 'UA', 'later', %s)", later
        )
        world.send_many(3, topic="t")
        move(world, "r1")
        deliver_waiting(sink)
        with pytest.raises(errors.ConfigurationError):
            deliver_waiting(webhook(world, here.url, stream="r1", delayed="pass", lanes=3))
        assert 'start: "1" (3)' in everywhere(world, "changed", "webhook.billing", "r1")


def test_a_sink_whose_subscription_was_ended_says_so(world: World) -> None:
    """It said "not subscribed yet", as if its first run were to come; that run is refused."""
    write_routes(world, r1=["t"])
    with endpoint() as here:
        sink = webhook(world, here.url, stream="r1")
        everywhere(world, "awaited", "webhook.billing", "r1")
        assert "not subscribed yet" in text("webhook")
        assert invoke("status").exit_code == 0, "nothing is lost, and its first run ends that"
        assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["ok"]
        deliver_waiting(sink)
        no_problem(world)
        world.query(STORE, "select relaybox.unsubscribe('webhook.billing', 'maintenance of invoices')")
        with pytest.raises(errors.NotSubscribed):
            deliver_waiting(sink)
        next_step = everywhere(world, "ended", "webhook.billing", "r1")
        said = text("webhook")
        assert "not subscribed yet" not in said
        assert "(maintenance of invoices), done through stream position 0: its runs are refused and deliver nothing." in said
        assert 'first write start: "1". Run: relaybox webhook run billing --begin-anew;' in next_step
        assert invoke("status").exit_code == 2
        assert [severity for severity, _, _ in diagnose(STORE, "sinks")] == ["warning"]
        deliver_waiting(sink, begin_anew=True)
        no_problem(world)


def test_g7_what_came_since_a_sink_began_at_latest_is_kept_for_it(world: World) -> None:
    """Between the end of its subscription and the next one: latest skips only what was there before it ran first."""
    world.cut_small_segments()
    write_routes(world, r1=["t"])
    change_file(world, routes={"r1": {"topics": ["t"], "path": ["airline", STORE], "retention": {"replay_window_seconds": 0}}})
    world.register()
    with endpoint() as here:
        deliver_waiting(webhook(world, here.url, stream="r1", start="latest"))
        world.query(STORE, "select relaybox.unsubscribe('webhook.billing', 'more lanes')")
        world.send_many(45, topic="t")
        move(world, "r1")
        kept = retain_store(world.routes.store(STORE), recorded_by="test", routes=world.routes).tables
        (log,) = (table for table in kept if table.hop == "r1/1")
        assert (log.dropped_count, log.holder_name) == (0, "webhook billing")


def test_a_subscription_without_its_sink_is_named(world: World) -> None:
    """The sink has another name now: the old subscription keeps all that comes."""
    write_routes(world, r1=["t"])
    sink = kafka(world, "localhost:9092", stream="r1")
    subscribe_sink(sink, open_engine(STORE, sink.subscription))
    no_problem(world)
    document = yaml.safe_load(world.path.read_text())
    change_file(world, kafka={"lake": {**document["kafka"]["warehouse"], "start": "latest"}})
    everywhere(world, "without_sink", "kafka.warehouse", "r1")
    assert "not in relaybox.yaml" in text("subscriptions")
    change_file(world, kafka={"lake": document["kafka"]["warehouse"]})
    assert 'If it takes the place of kafka.warehouse, first write start: "1". Run: relaybox kafka run lake;' in text("kafka")


def test_a_moved_subscription_of_processed_by_has_one_way_to_go_on(world: World) -> None:
    """Both problems of it are shown, with the same steps: it reads the former stream to its end, and keeps its name."""
    write_routes(world, r1=["t"])
    world.query(STORE, "select relaybox.subscribe('x', 'r1')")
    world.send_many(3, topic="t")
    move(world, "r1")
    write_routes(world, r2=["t"])
    routes = yaml.safe_load(world.path.read_text())["routes"]
    change_file(world, routes={"r2": {**routes["r2"], "policy": "processed", "processed_by": ["x"]}})
    world.register()
    orphaned, awaited = answered("status")["reader_problems"]
    assert (orphaned["kind"], orphaned["stream"], awaited["kind"], awaited["stream"]) == ("orphaned", "r1", "awaited", "r2")
    assert orphaned["next_step"] == awaited["next_step"]
    assert (
        "When it is 0 behind there, without delayed messages and dead letters, which end with it, in store hub, run: select relaybox.unsubscribe('x', 'REASON'); then run:"
        in awaited["next_step"]
    )
    said = text("subscriptions")
    assert "r2.x" not in said
    assert "gets nothing new" in said
    assert "not subscribed yet" not in said
    assert len(consume(world, STORE, "x")) == 3
    for statement in STATEMENT.findall(awaited["next_step"]):
        world.query(STORE, statement)
    no_problem(world)


def test_a_store_that_no_route_uses_any_more_is_asked_too(world: World) -> None:
    """The file still has it: what its routes left there is shown like all else."""
    world.query("analytics", "select relaybox.subscribe('x', 'flights')")
    write_routes(world, r1=["t"])
    everywhere(world, "orphaned", "x", "flights", store="analytics")


@pytest.fixture
def processed(world: World) -> World:
    """A route that settles when ghost has processed it; segments of ten rows, and nothing is kept longer than it is needed."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0}, policy="processed", processed_by=["ghost"])
    world.send_many(45)
    world.transfer_all()
    return world


def retained(world: World) -> tuple[int, str | None, str | None, str | None]:
    at = world.routes.store("analytics")
    tables = retain_store(at, recorded_by="test", routes=world.routes).tables
    log = next(table for table in tables if table.hop == "flights/2")
    return log.dropped_count, log.holder_kind, log.holder_name, log.next_step


def test_doctor_and_status_name_a_missing_subscription_of_processed_by(processed: World) -> None:
    """Nothing more is settled: doctor said that all is well."""
    next_step = everywhere(processed, "awaited", "ghost", "flights", store="analytics")
    ((severity, what, step),) = diagnose("analytics", "subscriptions")
    assert (severity, step) == ("warning", next_step)
    assert what == (
        "Subscription ghost, which processed_by of route flights names, has not subscribed to stream flights yet: nothing more of the "
        "route is settled. Retention keeps all of stream flights for it meanwhile."
    )
    (statement,) = STATEMENT.findall(next_step)
    processed.query("analytics", statement)
    no_problem(processed)
    assert [severity for severity, _, _ in diagnose("analytics", "subscriptions")] == ["ok"]


def test_g7_what_is_kept_for_an_ended_subscription_of_processed_by_is_not_dropped(processed: World) -> None:
    """Dropped, it would count as processed once ghost is back. What each place says goes on behind what it acknowledged, without a gap."""
    processed.query("analytics", "select relaybox.subscribe('ghost', 'flights')")
    rows = processed.query("analytics", "select stream_position, token from relaybox.fetch('ghost', 20)")
    processed.query("analytics", "select relaybox.ack('ghost', %s, %s)", *rows[-1])
    processed.query("analytics", "select relaybox.unsubscribe('ghost', 'ticket 7')")
    next_step = everywhere(processed, "ended", "ghost", "flights", store="analytics")
    assert "(ticket 7), done through stream position 20: nothing more of the route is settled." in text("status")
    assert invoke("status").exit_code == 2
    with pytest.raises(errors.NotSubscribed) as refused:
        settle_hop(processed.route, processed.second_hop, recorded_by="test")
    assert refused.value.next_step == next_step
    assert retained(processed) == (0, "awaited", "subscription ghost", next_step)
    (statement,) = STATEMENT.findall(next_step)
    assert statement == "select relaybox.subscribe('ghost', 'flights', '21');"
    processed.query("analytics", statement)
    no_problem(processed)
    assert consume(processed, "analytics", "ghost") == [f"m{number}" for number in range(21, 46)]
    processed.settle_all()
    assert retained(processed)[0] == 4


def settled(world: World) -> int:
    """The last position of the log that is settled."""
    world.settle_all()
    found = "select settled_position from relaybox_internal.sending_states('{flights/2}')"
    return int(world.value("hub", found))


def test_g7_what_an_ended_subscription_of_processed_by_left_is_not_processed(processed: World) -> None:
    """Its dead letter, and what it had passed as not due: the printed statement goes on without a gap, with the settings it had."""
    processed.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, payload, headers) values ('flights', 'UA', 'later', %s)",
        f'{{"relaybox-deliver-after": {time.time() + 3600}}}',
    )
    processed.send_many(3, prefix="after")
    processed.transfer_all()
    processed.query("analytics", "select relaybox.subscribe('ghost', 'flights', nack_limit => 1, delayed => 'pass')")
    ((_, token), *_) = processed.query(
        "analytics", "select stream_position, token from relaybox.fetch('ghost', 100, worker => 'w')"
    )
    processed.query("analytics", "select relaybox.nack('ghost', 3, 'no such customer', %s)", token)
    assert consume(processed, "analytics", "ghost") == [
        *(f"m{number}" for number in range(1, 46) if number != 3),
        "after1",
        "after2",
        "after3",
    ]
    assert settled(processed) == 0
    processed.query("analytics", "select relaybox.unsubscribe('ghost', 'deploy')")
    next_step = everywhere(processed, "ended", "ghost", "flights", store="analytics")
    assert "begins with the first of them, and gets the 4 stream positions from there on again" in next_step
    assert "It left 1 open dead letter" in next_step
    (statement,) = STATEMENT.findall(next_step)
    assert statement == "select relaybox.subscribe('ghost', 'flights', '46', nack_limit => 1, delayed => 'pass');"
    processed.query("analytics", statement)
    due = """update relaybox_internal.log set headers = '{"relaybox-deliver-after": 1}' where payload = 'later'"""
    processed.query("analytics", due)
    assert consume(processed, "analytics", "ghost") == ["later", "after1", "after2", "after3"]
    assert settled(processed) == 0, "the dead letter is not processed"
    processed.query("analytics", "select relaybox.drop_dead_letter(dead_letter_id, 'by hand') from relaybox.dead_letters")
    assert settled(processed) == 49


def test_an_ended_subscription_that_the_file_names_no_more_keeps_nothing(processed: World) -> None:
    """The other way out. It is named by nobody then."""
    processed.query("analytics", "select relaybox.subscribe('ghost', 'flights')")
    processed.query("analytics", "select relaybox.unsubscribe('ghost', 'test')")
    processed.change_route(retention={"replay_window_seconds": 0})
    processed.settle_all()
    no_problem(processed)
    assert retained(processed)[0] == 4


@pytest.mark.parametrize("has_window", [True, False])
def test_retention_names_the_holder_that_its_dry_run_names(world: World, has_window: bool) -> None:
    """Without a replay window all is kept, whoever subscribes; the reader that is awaited is named beside it. JSON has kind and name."""
    keeping = {"retention": {"replay_window_seconds": 0}} if has_window else {}
    world.change_route(**keeping, policy="processed", processed_by=["ghost"])
    world.send_many(5)
    world.transfer_all()

    def log(answer: dict[str, Any]) -> dict[str, Any]:
        (store,) = answer["stores"]
        return next(table for table in store["tables"] if table["hop"] == "flights/2")

    first = log(answered("retention", "analytics", "--dry-run"))["holders"][0]
    ran = log(answered("retention", "analytics"))
    assert (ran["holder_kind"], ran["holder_name"], ran["needs_from"]) == (first["kind"], first["name"], first["needs_from"])
    assert (ran["holder_kind"], ran["holder_name"]) == (
        ("awaited", "subscription ghost") if has_window else ("window", "flights/2")
    )
    assert ran["holder"] == f"{ran['holder_kind']} {ran['holder_name']}"
    assert ran["awaited"] == (
        "relaybox.yaml names subscription ghost, which has not subscribed to this stream yet and needs all from position 1 on"
    )
    said = text("retention", "analytics")
    assert f"{ran['awaited']}. {ran['next_step']}" in said
    assert ("flights/2: no replay window is set, everything is kept. relaybox.yaml names" in said) is not has_window


@pytest.mark.parametrize("kind", ["dead letter", "subscription", "newest"])
def test_a_holder_of_two_words_has_its_kind(world: World, kind: str) -> None:
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    world.query("analytics", "select relaybox.subscribe('x', 'flights', nack_limit => 1)")
    world.send_many(25)
    world.transfer_all()
    world.settle_all()
    if kind == "dead letter":
        ((position, token),) = world.query("analytics", "select stream_position, token from relaybox.fetch('x', 1)")
        world.query("analytics", "select relaybox.nack('x', %s, 'no', %s)", position, token)
    if kind != "subscription":
        consume(world, "analytics", "x")
    (store,) = answered("retention", "analytics")["stores"]
    log = next(table for table in store["tables"] if table["hop"] == "flights/2")
    assert log["holder_kind"] == kind
