"""What a monitoring system is told: every stalled watermark ages, and no name is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from relaybox.monitoring.metrics import METRICS, collect, read_store_metrics, render
from relaybox.monitoring.status import read_status
from relaybox.verification.reliability import Delivery
from tests.support.cli import invoke
from tests.support.sinks import kafka
from tests.support.streams import STORE, ack, deliver
from tests.support.world import World, wait_until

AGED_SECONDS = 0.3


def values(world: World, metric: str, **labels: str) -> list[float]:
    """Of the samples of a metric that have these labels."""
    routes = world.routes
    return [
        float(sample.value)
        for sample in collect(read_status(routes), read_store_metrics(routes))
        if sample.metric == metric and labels.items() <= sample.labels.items()
    ]


def value(world: World, metric: str, **labels: str) -> float:
    (found,) = values(world, metric, **labels)
    return found


def age(world: World, watermark: str, **labels: str) -> float:
    return value(world, "relaybox_watermark_age_seconds", watermark=watermark, **labels)


def ages_until(world: World, watermark: str, repaired: Callable[[], object], **labels: str) -> None:
    """The age of a watermark that stands grows; repairing it brings it back to 0."""
    wait_until(lambda: age(world, watermark, **labels) > AGED_SECONDS, f"{watermark} ages")
    first = age(world, watermark, **labels)
    assert age(world, watermark, **labels) > first
    repaired()
    assert age(world, watermark, **labels) == 0


def take_away(world: World, store: str) -> None:
    """Nothing answers at the store's port."""
    services = world.path.parent / "services.conf"
    before, section, after = services.read_text().partition(f"[{store}]")
    services.write_text(before + section + re.sub(r"port=\d+", "port=1", after, count=1))


def test_nothing_ages_while_nothing_waits(world: World) -> None:
    """Not even after days: an idle hop is no stall."""
    world.send("one")
    world.transfer_all()
    world.settle_all()
    assert {*values(world, "relaybox_watermark_age_seconds")} == {0.0}
    assert {*values(world, "relaybox_hop_lag_seconds"), *values(world, "relaybox_hop_blocked_seconds")} == {0.0}


def test_a_hop_that_nobody_runs_ages(world: World) -> None:
    """Messages wait: lag, blocked and the age of what was sent grow together, until the hop runs."""
    world.send("zero")
    world.transfer()
    world.send("one")
    wait_until(lambda: value(world, "relaybox_hop_lag_seconds", hop="flights/1") > AGED_SECONDS, "the lag grows")
    assert value(world, "relaybox_hop_lag_messages", hop="flights/1") == 1
    assert value(world, "relaybox_hop_blocked_seconds", hop="flights/1") > AGED_SECONDS
    assert value(world, "relaybox_hop_oldest_unsettled_seconds", hop="flights/1") > AGED_SECONDS
    ages_until(world, "sent", world.transfer, hop="flights/1")
    assert value(world, "relaybox_hop_lag_seconds", hop="flights/1") == 0


def test_a_batch_that_does_not_arrive_ages(world: World) -> None:
    """Planned, and its confirmation is missing."""
    world.send("one")
    world.transfer()
    world.query("airline", "delete from relaybox_internal.confirmation")
    ages_until(world, "received", world.transfer, hop="flights/1")


def test_confirmations_that_do_not_come_back_age(world: World) -> None:
    """Received, and not settled at the origin."""
    world.send("one", "two")
    world.transfer_all()
    assert value(world, "relaybox_hop_unsettled_messages", hop="flights/1") == 2
    ages_until(world, "settled", world.settle_all, hop="flights/1")
    assert value(world, "relaybox_hop_unsettled_messages", hop="flights/1") == 0


def test_a_published_batch_that_no_stream_decides_on_ages(world: World) -> None:
    """Consumers do not see it."""
    world.send("one")
    world.transfer()
    decided = world.query(STORE, "select decided_batch, decided_position from relaybox_internal.stream_log")[0]
    world.query(STORE, "delete from relaybox_internal.decision")
    world.query(STORE, "update relaybox_internal.stream_log set decided_batch = 0")
    repair = "update relaybox_internal.stream_log set decided_batch = 1"
    ages_until(world, "delivered", lambda: world.query(STORE, repair), hop="flights/1", store=STORE)
    assert decided == (1, 1)


def test_a_gap_that_holds_messages_back_ages(world: World) -> None:
    """Received and not deliverable, and the sender that is beyond its holdback is counted."""
    deliver(world, 1)
    sender = (
        "with state as (insert into relaybox_internal.sender_state (stream_id, sender, epoch, origin, kind, stalled_after, stalled_reason) "
        "select stream_id, 'UA', 1, 'airline', 'gapless', 1, 'holdback' from relaybox_internal.stream returning sender_id, stream_id) "
        "insert into relaybox_internal.held (log_id, log_position, stream_id, sender_id, index, arrival_seq) select 1, 1, stream_id, sender_id, 2, 1 from state"
    )
    world.query(STORE, sender)
    assert value(world, "relaybox_stream_held_messages", store=STORE) == 1
    assert value(world, "relaybox_stream_stalled_senders", store=STORE) == 1
    ages_until(world, "sender", lambda: world.query(STORE, "delete from relaybox_internal.held"), store=STORE)


def test_a_consumer_that_stopped_ages(world: World) -> None:
    """Its subscription is behind, and moved last a while ago; each acknowledgement begins anew."""
    deliver(world, 2)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")

    def acknowledge() -> None:
        world.query(STORE, "select * from relaybox.fetch('billing', 10, worker => 'a')")
        ack(world, 2)

    assert value(world, "relaybox_subscription_behind_messages", subscription="billing") == 2
    ages_until(world, "acknowledged", acknowledge, subscription="billing")
    assert value(world, "relaybox_subscription_behind_messages", subscription="billing") == 0


def test_an_open_transaction_that_wrote_ages(world: World) -> None:
    """Its messages are invisible and wait; one that only reads holds nothing up."""
    with world.session() as reader, world.session() as writer, reader.cursor() as reading, writer.cursor() as writing:
        reading.execute("select 1")
        assert value(world, "relaybox_store_oldest_transaction_seconds", store="airline") == 0
        writing.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'x')")
        wait_until(
            lambda: value(world, "relaybox_store_oldest_transaction_seconds", store="airline") > AGED_SECONDS,
            "the transaction ages",
        )


def test_rates_come_from_counters_and_sizes_from_the_disk(world: World) -> None:
    """What was sent, received and settled; R and UR; what the parts of a store take."""
    world.send("one", "two")
    world.transfer()
    for name, expected in (("sent", 2), ("received", 2), ("settled", 0)):
        assert value(world, f"relaybox_hop_{name}_messages_total", hop="flights/1") == expected
    assert value(world, "relaybox_hop_reliability", hop="flights/1") == 1
    assert values(world, "relaybox_hop_reliability", hop="flights/2") == []  # R of nothing is no reading
    assert {part: value(world, "relaybox_store_bytes", store="airline", part=part) > 0 for part in ("outbox", "ledgers")} == {
        "outbox": True,
        "ledgers": True,
    }


def test_a_store_that_is_down_is_a_metric_and_hides_no_other(world: World) -> None:
    """The command ends well: the monitoring system alarms."""
    take_away(world, "analytics")
    world.send("one")
    document = invoke("metrics", "--json").document
    up = {sample["labels"]["store"]: sample["value"] for sample in document["samples"] if sample["metric"] == "relaybox_store_up"}
    assert up == {"airline": 1.0, "hub": 1.0, "analytics": 0.0}
    errors = [sample["labels"] for sample in document["samples"] if sample["metric"] == "relaybox_hop_error"]
    assert errors == [{"hop": "flights/2", "route": "flights", "error": "StoreUnreachable"}]
    assert any(s["metric"] == "relaybox_hop_lag_messages" and s["labels"]["hop"] == "flights/1" for s in document["samples"])


def test_the_text_is_openmetrics(world: World) -> None:
    """A strict reader takes it: each family once, counters end in _total, labels escaped, EOF at the end."""
    world.send("one")
    world.transfer_all()
    families = list(text_string_to_metric_families(invoke("metrics").stdout))
    assert len(families) > 10
    assert all(family.samples for family in families)
    assert {family.name + ("_total" if family.type == "counter" else "") for family in families} <= METRICS.keys()
    assert all(family.documentation for family in families)


def test_every_metric_that_stores_and_hops_give_is_explained(world: World) -> None:
    """A name that METRICS does not know would be left out silently."""
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    world.query(STORE, "select relaybox.record_endpoint_failure('billing', 'https://example.com', 'HTTP 503', 1)")
    world.send("one")
    world.send("lost", topic="flihgts")
    world.transfer_all()
    world.query(STORE, "insert into relaybox_internal.hop_check (log_id, topic, rule) values (1, 'flights', 'warn')")
    kafka(world, "localhost:9092")  # it has not subscribed
    routes = world.routes
    samples = collect(read_status(routes), read_store_metrics(routes))
    take_away(world, "analytics")
    samples += collect(read_status(routes), read_store_metrics(routes))
    assert {sample.metric for sample in samples} == set(METRICS)


def test_a_reliability_below_one_is_never_written_as_one(world: World) -> None:
    """One of 10^18 lost is not none, although the nearest float is 1."""
    world.send("one")
    world.transfer()
    status: Any = read_status(world.routes)
    almost = Delivery(Fraction(10**18 - 1, 10**18), Fraction(1))
    hops = tuple(_with_delivery(hop, almost) for hop in status.hops)
    text = render(collect(type(status)(status.measured_at, hops, (), (), (), {}), {}))
    assert 'relaybox_hop_reliability{hop="flights/1",route="flights"} 0.9999999999999999\n' in text
    assert 'relaybox_hop_uniqueness{hop="flights/1",route="flights"} 1.0\n' in text


def _with_delivery(hop: Any, delivery: Delivery) -> Any:
    from dataclasses import replace

    return replace(hop, delivery=delivery)
