"""Kafka: what the brokers get, and what becomes of messages while they are down, or refuse one. librdkafka's own brokers, real stores."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event

from relaybox import errors
from relaybox.cloudevents import event_fields
from relaybox.failpoints import SINK_FAILPOINTS
from relaybox.outbox import put
from relaybox.routes import KafkaSink
from relaybox.sinks.kafka import _Troubles
from relaybox.sinks.running import SinkRunner
from relaybox.sinks.secrets import find_in_environment
from tests.support import cli
from tests.support.kafka_cluster import MSG_SIZE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, KafkaCluster, kafka_cluster
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.sinks import deliver_waiting, kafka
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

SUBSCRIPTION = "kafka.warehouse"


@pytest.fixture
def brokers() -> Iterator[KafkaCluster]:
    """With a topic of one partition, so that there is one order."""
    with kafka_cluster() as one:
        one.create("flights", 1)
        yield one


def done(world: World) -> int:
    return int(world.value(STORE, f"select min(done_stream_position) from relaybox.lag('{SUBSCRIPTION}')"))


def dead_letters(world: World) -> list[tuple[int, str]]:
    return world.query(STORE, "select stream_position, detail from relaybox.dead_letters order by stream_position")


def failing(world: World) -> list[tuple[str, str]]:
    return world.query(STORE, "select endpoint, reason from relaybox_internal.failing_endpoints()")


def positions(brokers: KafkaCluster, count: int, topic: str = "flights") -> list[int]:
    return [
        int(dict(record.headers() or [])["relaybox-stream-position"])  # type: ignore[arg-type]
        for record in brokers.read(topic, count)
    ]


def test_brokers_get_each_message_with_its_key_and_headers(world: World, brokers: KafkaCluster) -> None:
    deliver(world, 20, senders=4)
    assert deliver_waiting(kafka(world, brokers.servers)).delivered_count == 20
    assert done(world) == 20
    records = brokers.read("flights", 20)
    sent = world.query(
        STORE,
        "select message_id::text, sender, payload, sent_at, index::text from relaybox.read_stream('flights') order by stream_position",
    )
    assert len(records) == 20
    for record in records:
        headers = {name: value.decode() for name, value in record.headers() or []}
        message_id, sender, payload, sent_at, index = sent[int(headers["relaybox-stream-position"]) - 1]
        assert (headers["relaybox-message-id"], headers["relaybox-sender"], headers["relaybox-index"]) == (
            message_id,
            sender,
            index,
        )
        assert ((record.key() or b"").decode(), (record.value() or b"").decode()) == (sender, payload)
        assert record.timestamp()[1] == int(1000 * sent_at.timestamp())
        assert (headers["relaybox-topic"], headers["relaybox-epoch"], headers["relaybox-replayed"]) == ("flights", "0", "false")
        assert "ce_id" not in headers


def test_the_messages_of_a_sender_are_in_one_partition_in_their_order(world: World, brokers: KafkaCluster) -> None:
    brokers.create("many.flights", 4)
    deliver(world, 200, senders=10)
    deliver_waiting(kafka(world, brokers.servers, lanes=3, batch_messages=20, to_topic="many.{topic}"))
    found: dict[str, list[tuple[int, int]]] = {}
    for record in sorted(brokers.read("many.flights", 200), key=lambda one: (one.partition() or 0, one.offset() or 0)):
        position = int(dict(record.headers() or [])["relaybox-stream-position"])  # type: ignore[arg-type]
        found.setdefault((record.key() or b"").decode(), []).append((record.partition() or 0, position))
    assert len(found) == 10
    assert len({partition for each in found.values() for partition, _ in each}) > 1
    for each in found.values():
        assert len({partition for partition, _ in each}) == 1
        assert each == sorted(each)
        assert len(each) == 20


def test_keys_topics_bytes_and_cloudevents(world: World, brokers: KafkaCluster) -> None:
    """Headers of a message come before ours; those of CloudEvents are in the binary mode of its protocol binding for Kafka."""
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, key, headers, payload_bytes) values ('flights', 'UA', 'ü', %s, %s)",
            ('{"trace": "abc", "tries": 12345678901234567890.5, "relaybox-sender": "forged"}', b"\x00\xff"),
        )
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', '{}'), ('flights', 'UA', 'x')"
        )
        connection.commit()
    world.transfer()
    deliver_waiting(kafka(world, brokers.servers, to_topic="shop.{topic}", key_by="key", cloudevents=True))
    first, second, third = sorted(
        brokers.read("shop.flights", 3), key=lambda one: dict(one.headers())["relaybox-stream-position"]
    )
    assert ((first.key() or b"").decode(), first.value(), second.key()) == ("ü", b"\x00\xff", None)
    headers = dict(first.headers() or [])
    assert (headers["trace"], headers["tries"]) == (b"abc", b"12345678901234567890.5")
    assert headers["relaybox-sender"] == b"UA", "the last header of a name counts, and it is ours"
    assert headers["ce_id"] == headers["relaybox-message-id"]
    assert (headers["ce_specversion"], headers["ce_type"], headers["ce_source"]) == (b"1.0", b"flights", b"/relaybox/flights/UA")
    assert headers["ce_subject"].decode() == "ü"
    media = [dict(one.headers() or [])["content-type"] for one in (first, second, third)]
    assert media == [b"application/octet-stream", b"application/json", b"text/plain; charset=utf-8"]


def test_a_message_that_was_put_as_an_event_keeps_its_attributes(world: World, brokers: KafkaCluster) -> None:
    """In one header each, as the binding of CloudEvents for Kafka says; the package reads it."""
    event = {
        "specversion": "1.0",
        "id": "7",
        "source": "/gate",
        "type": "boarded",
        "datacontenttype": "application/vnd.gate+json",
        "gate": 17,
        "late": True,
        "data": {"seats": 3},
    }
    with world.session() as connection, connection.cursor() as cursor:
        put(cursor, "flights", "UA", **event_fields(event, headers={"trace": "7"}))
        connection.commit()
    world.transfer()
    deliver_waiting(kafka(world, brokers.servers, to_topic="events.{topic}", cloudevents=True))
    (record,) = brokers.read("events.flights", 1)
    headers = record.headers() or []
    assert len({name for name, _ in headers}) == len(headers)
    found = {name: (value or b"").decode() for name, value in headers if name.startswith("ce_")}
    assert found == {
        "ce_specversion": "1.0",
        "ce_id": "7",
        "ce_source": "/gate",
        "ce_type": "boarded",
        "ce_gate": "17",
        "ce_late": "true",
    }
    assert (dict(headers)["content-type"], dict(headers)["trace"]) == (b"application/vnd.gate+json", b"7")
    read = from_kafka_event(KafkaMessage({name: value or b"" for name, value in headers}, record.key(), record.value() or b""))
    assert (read.get_id(), read.get_type()) == ("7", "boarded")


@pytest.mark.thorough
def test_while_brokers_are_down_messages_wait(world: World, brokers: KafkaCluster) -> None:
    """However often a run tries: none is refused. When the brokers are up, each arrives, and nothing is left of the failure."""
    deliver(world, 5)
    sink = kafka(world, brokers.servers, delivery_seconds=1, nack_limit=1, open_after_failures=1)
    brokers.stop()
    for _ in range(7):
        with pytest.raises(errors.EndpointUnavailable, match="_MSG_TIMED_OUT"):
            deliver_waiting(sink)
        world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
    with pytest.raises(errors.EndpointUnavailable):
        deliver_waiting(sink)
    ((endpoint, reason),) = failing(world)
    assert (endpoint, "_MSG_TIMED_OUT" in reason) == (brokers.servers, True)
    assert (dead_letters(world), done(world)) == ([], 0)
    assert "relaybox kafka retry warehouse" in cli.invoke("--config", str(world.path), "status").stderr
    brokers.start()
    world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
    assert deliver_waiting(sink).delivered_count == 5
    assert positions(brokers, 5) == [1, 2, 3, 4, 5]
    assert failing(world) == []


def test_a_run_that_waits_goes_on_when_brokers_are_back(
    world: World, brokers: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """And what the library says of each broker is a warning once, however often it tries to connect."""
    deliver(world, 3)
    brokers.stop()
    runner = SinkRunner(kafka(world, brokers.servers, delivery_seconds=1), find_in_environment, until_empty=False)
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        wait_until(lambda: caplog.text.count("endpoint_fails ") >= 2, "two attempts have failed")
        brokers.start()
        wait_until(lambda: done(world) == 3, "all are delivered")
    finally:
        runner.stop()
        thread.join(patience(30))
    assert not thread.is_alive()
    assert sorted(set(positions(brokers, 3))) == [1, 2, 3]
    told = re.findall(r'kafka_client_error .*code=(\S+) error="?(\S+)', caplog.text)
    assert told
    assert len(told) == len(set(told)), told


def test_what_brokers_have_is_told_again_after_a_message_that_they_confirmed() -> None:
    troubles = _Troubles()
    told = [
        troubles.begins("_TRANSPORT", "a:1/bootstrap: Connection refused (after 0ms)"),
        troubles.begins("_TRANSPORT", "a:1/bootstrap: Connection refused (after 1ms, 4 suppressed)"),
        troubles.begins("_TRANSPORT", "b:1/bootstrap: Connection refused (after 0ms)"),
        troubles.begins("_SSL", "a:1/bootstrap: handshake failed"),
    ]
    troubles.end()
    assert [*told, troubles.begins("_TRANSPORT", "a:1/bootstrap: Connection refused (after 0ms)")] == [
        True,
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("to_topic", "shown"), [("{topic}", ""), ("flights", " (topic flights)"), ("shop.{topic}", " (topics shop.*)")]
)
def test_an_endpoint_is_shown_without_a_placeholder(world: World, brokers: KafkaCluster, to_topic: str, shown: str) -> None:
    assert kafka(world, brokers.servers, to_topic=to_topic).endpoint == f"{brokers.servers}{shown}"


@pytest.mark.parametrize("limit", [{"message.max.bytes": "1000"}, {"queue.buffering.max.kbytes": "1"}], ids=["message", "buffer"])
def test_a_message_that_the_producer_refuses_is_a_dead_letter(world: World, brokers: KafkaCluster, limit: dict[str, str]) -> None:
    """Larger than a limit of the producer, of a message or of its buffer. The others are delivered once, in their order."""
    world.send("a", "x" * 3000, "c", "d")
    world.transfer()
    run = deliver_waiting(kafka(world, brokers.servers, properties={**limit, "compression.type": "none"}))
    assert [(position, detail.split(":")[0]) for position, detail in dead_letters(world)] == [(2, "MSG_SIZE_TOO_LARGE")]
    assert (run.delivered_count, run.refused_count, run.dead_letter_count) == (3, 2, 1)
    assert positions(brokers, 3) == [1, 3, 4]
    assert failing(world) == []


def test_a_message_that_the_brokers_refuse_is_a_dead_letter(world: World, brokers: KafkaCluster) -> None:
    """They say so in their answer. Nothing is counted against other messages."""
    deliver(world, 3)
    brokers.refuse(0, *[MSG_SIZE_TOO_LARGE] * 2)
    deliver_waiting(kafka(world, brokers.servers, batch_messages=1, properties={"linger.ms": "0"}))
    assert [(position, detail.split(":")[0]) for position, detail in dead_letters(world)] == [(2, "MSG_SIZE_TOO_LARGE")]
    assert positions(brokers, 2) == [1, 3]


def test_a_right_that_is_missing_is_no_fault_of_a_message(world: World, brokers: KafkaCluster) -> None:
    deliver(world, 2)
    sink = kafka(world, brokers.servers, nack_limit=1, open_after_failures=1)
    brokers.refuse(TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(errors.EndpointUnavailable, match="TOPIC_AUTHORIZATION_FAILED"):
        deliver_waiting(sink)
    world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
    assert deliver_waiting(sink).delivered_count == 2
    assert dead_letters(world) == []


@pytest.mark.thorough
@pytest.mark.parametrize("step", SINK_FAILPOINTS)
def test_a_worker_that_is_killed_at_any_step_loses_nothing(
    world: World, brokers: KafkaCluster, tmp_path: Path, step: str
) -> None:
    """A batch that was confirmed and not acknowledged comes again, with the same ids."""
    sink = kafka(world, brokers.servers, delivery_seconds=2, open_after_failures=1)
    with suppress(errors.EndpointUnavailable):
        deliver_waiting(sink)
    deliver(world, 4)
    if step in ("sink.failed", "sink.recorded"):
        brokers.refuse(TOPIC_AUTHORIZATION_FAILED)
    kill_at(step, tmp_path, lambda: deliver_waiting(sink))
    world.query(STORE, f"select relaybox.clear_endpoint_failure('{SUBSCRIPTION}')")
    world.query(STORE, "update relaybox_internal.cursor set leased_until = now() where worker is not null")
    deliver_waiting(sink)
    assert done(world) == 4
    twice = step in ("sink.delivered", "sink.acknowledged")
    found = positions(brokers, 8 if twice else 4)
    assert sorted(found) == sorted([1, 2, 3, 4] * (2 if twice else 1))
    assert dead_letters(world) == []


def test_a_property_that_is_wrong_is_told(world: World, brokers: KafkaCluster) -> None:
    """At once: no retry repairs it."""
    deliver(world, 1)
    sink = kafka(world, brokers.servers, properties={"no.such.property": "1"})
    with pytest.raises(errors.ConfigurationError, match=r"kafka warehouse: .*no\.such\.property"):
        deliver_waiting(sink)


def test_a_secret_property_is_read_from_the_environment(
    world: World, brokers: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is in no error."""
    deliver(world, 1)
    sink: KafkaSink = kafka(world, brokers.servers, secrets={"sasl.password": "env:RELAYBOX_TEST_KAFKA"})
    with pytest.raises(errors.ConfigurationError, match="RELAYBOX_TEST_KAFKA is not set"):
        deliver_waiting(sink)
    monkeypatch.setenv("RELAYBOX_TEST_KAFKA", "topsecret")
    assert deliver_waiting(sink).delivered_count == 1
