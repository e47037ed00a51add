"""What a store says of itself to a monitoring system, value by value, with times that the test has set."""

from __future__ import annotations

import os

import psycopg2
import pytest

from tests.integration.store_metrics import HOUR, put_back, store_metrics
from tests.support.breaking import copy_first_slices
from tests.support.streams import STORE, deliver
from tests.support.world import World


def test_subscriptions_are_behind_by_what_their_lanes_have_not_done(world: World) -> None:
    """Three batches, delivered nine, six and three hours ago; each waits since the first batch that it has not done, or since it moved."""
    for hours in (9, 6, 3):
        deliver(world, 4)
        put_back(
            world,
            "decision.decided_at",
            hours,
            "last_stream_position = (select last_stream_position from relaybox_internal.stream)",
        )
    for name, options in (("none", ""), ("some", ""), ("split", ", lanes => 2"), ("all", ""), ("gone", "")):
        world.query(STORE, f"select relaybox.subscribe('{name}', 'flights'{options})")
    for name, count in (("some", 4), ("all", 12)):
        world.query(STORE, "select relaybox.ack(%s, %s, min(token)) from relaybox.fetch(%s, %s)", name, count, name, count)
    world.query(STORE, "select relaybox.unsubscribe('gone')")
    put_back(world, "cursor.moved_at", 24)
    found = store_metrics(world)
    behind = {key[-1]: value for key, value in found.items() if key[0] == "relaybox_subscription_behind_messages"}
    assert behind == {"none": 12, "some": 8, "split": 24, "all": 0}
    ages = {
        key[2]: value / HOUR
        for key, value in found.items()
        if key[0] == "relaybox_watermark_age_seconds" and key[-1] == "acknowledged"
    }
    assert ages == {
        "none": pytest.approx(9, abs=0.1),
        "some": pytest.approx(6, abs=0.1),
        "split": pytest.approx(9, abs=0.1),
        "all": 0,
    }
    none = "subscription_id = (select subscription_id from relaybox_internal.subscription where subscription = 'none')"
    put_back(world, "cursor.moved_at", 1, none)
    moved = store_metrics(world)
    key = next(key for key in moved if key[0] == "relaybox_watermark_age_seconds" and "none" in key)
    assert moved[key] / HOUR == pytest.approx(1, abs=0.1), "a lane that moved has not stood still since"
    assert found["relaybox_stream_delivered_messages_total", "flights"] == 12


def test_a_hop_ages_from_the_first_batch_that_has_not_come_so_far(world: World) -> None:
    """Four batches: two are settled, one is received, one is planned; each watermark is as old as what comes first behind it."""
    for count in (1, 2, 3):
        world.send(*"abc"[:count])
        world.transfer()
    world.query("airline", "select relaybox_internal.confirm_settled('flights/1', 3, now(), 'test')")
    world.send("d", "e")
    copy_first_slices(world.first_hop, 0)
    for batch, hours in ((1, 40), (2, 30), (3, 20), (4, 10)):
        put_back(world, "batch.planned_at", hours, f"batch = {batch}", store="airline")
        put_back(world, "confirmation.recorded_at", hours - 1, f"through_batch = {batch} and state = 'received'", store="airline")
    put_back(world, "confirmation.recorded_at", 12, "state = 'settled'", store="airline")
    found = store_metrics(world, "airline")
    age = "relaybox_watermark_age_seconds"
    assert found[age, "flights/1", "received"] / HOUR == pytest.approx(10, abs=0.1)
    assert found[age, "flights/1", "settled"] / HOUR == pytest.approx(12, abs=0.1), (
        "it settled something after the next was received"
    )
    put_back(world, "confirmation.recorded_at", 29, "state = 'settled'", store="airline")
    assert store_metrics(world, "airline")[age, "flights/1", "settled"] / HOUR == pytest.approx(19, abs=0.1)
    assert found["relaybox_hop_unsettled_messages", "flights/1"] == 3
    progress = "relaybox_hop_progress_timestamp_seconds", "flights/1"
    now = world.value("airline", "select extract(epoch from now())::double precision")
    assert (now - found[progress]) / HOUR == pytest.approx(10, abs=0.1), "the newest batch was planned then"
    put_back(world, "confirmation.recorded_at", 2, "through_batch = 3 and state = 'received'", store="airline")
    assert (now - store_metrics(world, "airline")[progress]) / HOUR == pytest.approx(2, abs=0.1)
    world.query("airline", "select relaybox_internal.record_hops_of_file('{}', 'test')")
    world.query("airline", "select relaybox_internal.retire_hop('flights/1', 'why', 'test')")
    assert not any("flights/1" in key for key in store_metrics(world, "airline"))


def test_an_idle_hop_and_its_store_have_a_value_for_everything(world: World) -> None:
    """Nothing was ever sent: no metric is missing, and none is null."""
    found = store_metrics(world)
    zero = {key: value for key, value in found.items() if key[0] not in {"relaybox_store_bytes", "relaybox_retention_segments"}}
    assert zero == {
        ("relaybox_watermark_age_seconds", "flights/2", "received"): 0,
        ("relaybox_watermark_age_seconds", "flights/2", "settled"): 0,
        ("relaybox_watermark_age_seconds", "flights/1", "flights", "delivered"): 0,
        ("relaybox_watermark_age_seconds", "flights", "sender"): 0,
        ("relaybox_hop_unsettled_messages", "flights/2"): 0,
        ("relaybox_stream_delivered_messages_total", "flights"): 0,
        ("relaybox_stream_duplicates_total", "flights"): 0,
        ("relaybox_stream_held_messages", "flights"): 0,
        ("relaybox_stream_stalled_senders", "flights"): 0,
        ("relaybox_dead_letters", "flights"): 0,
        ("relaybox_detached_messages", "flights/1"): 0,
        ("relaybox_retention_held_seconds", "flights/2", "hop"): 0,
        ("relaybox_retention_first_kept", "outbox"): 1,
        ("relaybox_retention_first_kept", "flights/1"): 1,
        ("relaybox_store_oldest_transaction_seconds",): 0,
    }
    segments = "select count(*) filter (where log_id is null), count(log_id) from relaybox_internal.segments()"
    told = tuple(found["relaybox_retention_segments", table] for table in ("outbox", "flights/1"))
    assert world.query(STORE, segments) == [told]
    assert all(found["relaybox_store_bytes", part] > 0 for part in ("outbox", "logs", "ledgers", "rest"))


def test_counts_of_a_stream_are_those_of_its_tables(world: World) -> None:
    """Duplicates in the ledger and before it; dead letters that are open or redriving; files that are still needed."""
    deliver(world, 5)
    deliver(world, 5)
    world.query(STORE, "update relaybox_internal.decision set duplicate_count = 2")
    world.query(STORE, "update relaybox_internal.stream_log set compacted_duplicates = 7")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    for stream_position in (1, 2, 3, 4):
        world.query(
            STORE,
            "select relaybox.nack('billing', %s, 'no', token) from relaybox.fetch('billing', 10, worker => 'a') limit 1",
            stream_position,
        )
    for state, stream_position in (("redriving", 2), ("dropped", 3)):
        world.query(
            STORE,
            "update relaybox_internal.dead_letter set state = %s, resolved_at = now() where stream_position = %s",
            state,
            stream_position,
        )
    for first, state in ((0, "released"), (10, "detached"), (20, "detached"), (30, "attached")):
        world.query(
            STORE,
            "insert into relaybox_internal.detached_segment (log_id, first, last, segment, state, directory, row_count, hash_sum, needed_by, begun_by, moved_by)"
            " values (1, %s, %s, 's', %s, 'd', 8, 0, '{}', 'test', 'test')",
            *(first, first + 9, state),
        )
    found = store_metrics(world)
    assert {
        "duplicates": found["relaybox_stream_duplicates_total", "flights"],
        "letters": found["relaybox_dead_letters", "flights"],
        "detached": found["relaybox_detached_messages", "flights/1"],
    } == {"duplicates": 11, "letters": 3, "detached": 16}


def test_the_oldest_transaction_that_writes_is_told_and_no_other(world: World) -> None:
    """Of this database, not that of the one who asks; who only reads holds nothing up here."""
    oldest = ("relaybox_store_oldest_transaction_seconds",)
    with world.session(STORE) as reader, reader.cursor() as cursor:
        cursor.execute("select pg_sleep(0.01)")
        assert store_metrics(world)[oldest] == 0
    with world.session(STORE) as asking, asking.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()")
        cursor.execute("select value from relaybox_internal.store_metrics() where metric = %s", oldest)
        assert cursor.fetchone() == (0.0,)
    with world.session(STORE) as writer, writer.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()")
        assert store_metrics(world)[oldest] > 0
    assert isinstance(writer, psycopg2.extensions.connection)
    assert store_metrics(world)[oldest] == 0
    gid = f"of {STORE} {os.getpid()}"
    with world.session(STORE) as writer, writer.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()")
        cursor.execute("prepare transaction %s", (gid,))
    try:
        assert store_metrics(world)[oldest] > 0, "it belongs to no session any more"
    finally:
        world.query(STORE, f"rollback prepared '{gid}'")


def test_who_keeps_a_whole_segment_is_told_since_when(world: World) -> None:
    """A hop and a subscription whose route wants an alarm, from the segment's size on; by the first arrival that they have not done."""
    held = "relaybox_retention_held_seconds"
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    for batch, hours in ((1, 9), (2, 6), (3, 3)):
        world.send("a", "b")
        world.transfer()
        for column in ("arrival.published_at", "decision.decided_at"):
            put_back(world, column, hours, f"batch = {batch}")
        put_back(world, "confirmation.recorded_at", hours, f"through_batch = {batch}", store="airline")
    put_back(world, "cursor.moved_at", 24)
    for rows, is_held in ((7, False), (6, True)):
        for store in ("airline", STORE):
            world.query(store, "update relaybox_internal.store set segment_rows = %s", rows)
        found = {**store_metrics(world), **store_metrics(world, "airline")}
        ages = [found[held, *holder] for holder in (("flights/1", "hop"), ("flights/2", "hop"), ("billing", "subscription"))]
        assert [age / HOUR for age in ages] == [pytest.approx(9 if is_held else 0, abs=0.1)] * 3, rows
    for store in ("airline", STORE):
        world.query(store, "update relaybox_internal.store set segment_rows = 4")
    world.transfer(world.second_hop)
    world.query(STORE, "select relaybox_internal.confirm_settled('flights/2', 2, now(), 'test')")
    world.query("airline", "select relaybox_internal.confirm_settled('flights/1', 2, now(), 'test')")
    world.query(STORE, "select relaybox.ack('billing', 2, min(token)) from relaybox.fetch('billing', 2)")
    put_back(world, "cursor.moved_at", 24)
    put_back(world, "confirmation.recorded_at", 8, "state = 'received'")  # later than what it reads arrived
    found = {**store_metrics(world), **store_metrics(world, "airline")}
    assert found[held, "flights/1", "hop"] / HOUR == pytest.approx(6, abs=0.1)
    assert found[held, "flights/2", "hop"] / HOUR == pytest.approx(9, abs=0.1), "its only batch is not settled whole"
    assert found[held, "billing", "subscription"] / HOUR == pytest.approx(6, abs=0.1)
    world.query(STORE, "update relaybox_internal.hop_in set stopped_consumer = 'keep'")
    world.query(STORE, "update relaybox_internal.hop_out set stopped_consumer = 'keep'")
    assert not any(key[0] == held for key in store_metrics(world))
