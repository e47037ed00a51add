"""G3: every message is in a hop's log exactly once, whatever is repeated."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.hops import transfer
from relaybox.hops.batches import Slice
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice, session_name
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.stores.sessions.connections import connect
from tests.integration.driver_steps import planned_batch, publish
from tests.support.patience import patience
from tests.support.world import World, wait_until


class Stopped(Exception):
    """Stands for the death of a driver: nothing of ours catches it."""


@pytest.mark.parametrize("step", ["plan", "one slice", "copy", "publish"])
def test_g3_a_driver_that_dies_after_any_step_is_resumed_with_the_same_batch(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run finishes the very batch that the dead driver left, copies nothing twice and plans nothing anew."""
    world.change_route(limits={"batch_rows": 1000, "slice_rows": 30})
    world.send_many(100)

    def die(*_: object, **__: object) -> Any:
        raise Stopped

    class OneSlice(ThreadRunner):
        def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
            yield copy_slice(order, slices[0])
            raise Stopped

    runner = OneSlice() if step == "one slice" else ThreadRunner(2)
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        target = {"plan": "make_log_segments", "copy": "publish_batch", "publish": "confirm_received"}.get(step)
        if target:
            patch.setattr(transfer, target, die)
        transfer_hop(world.first_hop, runner, recorded_by="dies")
    plan = world.query("airline", "select plan_id, slices from relaybox_internal.batch")

    world.send("after the crash")
    summary = world.transfer()

    assert summary.resumed_count == (step != "publish")
    assert world.query("airline", "select plan_id, slices from relaybox_internal.batch where batch = 1") == plan
    assert world.payloads() == [*(f"m{n}" for n in range(1, 101)), "after the crash"]
    assert world.log_positions() == list(range(1, 102))


def test_g3_a_slice_copied_twice_is_in_the_log_once(world: World) -> None:
    """Copying a slice again finds its receipt and copies nothing."""
    world.send_many(10)
    planned, order = planned_batch(world)
    first = copy_slice(order, planned.batch.slices[0])
    again = copy_slice(order, planned.batch.slices[0])
    publish(world, planned)
    late = copy_slice(order, planned.batch.slices[0])
    assert (first.found, again.found, late.found) == ("open", "copied", "published")
    assert (again.byte_count, late.byte_count) == (0, 0)
    assert world.log_positions() == list(range(1, 11))


def test_g3_a_slice_of_an_attempt_that_was_superseded_copies_nothing(world: World) -> None:
    """A driver that nobody can end (its machine is cut off) leaves slices; they stop when a newer driver has taken over."""
    world.send_many(10)
    planned, old = planned_batch(world)
    again, new = planned_batch(world)
    assert again.batch == planned.batch
    with pytest.raises(
        errors.SliceSuperseded, match=rf"attempt {old.attempt} at batch 1 copies no slice 1: attempt {new.attempt}"
    ):
        copy_slice(old, planned.batch.slices[0])
    assert world.value("hub", "select count(*) from relaybox_internal.receipt") == 0
    copy_slice(new, planned.batch.slices[0])
    assert copy_slice(old, planned.batch.slices[0]).found == "copied"
    publish(world, planned)
    assert world.log_positions() == list(range(1, 11))


def test_g3_the_same_slice_copied_by_twenty_racers_is_in_the_log_once(world: World) -> None:
    """Racing attempts at one slice end each other or find the receipt; the rows are there once."""
    world.send_many(500)
    planned, order = planned_batch(world)

    def race(attempt: int) -> None:
        try:
            copy_slice(replace(order, attempt=attempt), planned.batch.slices[0])
        except errors.Transient as error:
            lost.append(error)

    lost: list[errors.Transient] = []
    racers = [threading.Thread(target=race, args=(attempt,)) for attempt in range(1, 21)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    copy_slice(replace(order, attempt=99), planned.batch.slices[0])
    publish(world, planned)
    assert len(lost) < 20
    assert world.log_positions() == list(range(1, 501))


def test_g3_publishing_twice_is_one_arrival(world: World) -> None:
    """A repeated publish returns the first arrival."""
    world.send_many(5)
    planned, order = planned_batch(world)
    copy_slice(order, planned.batch.slices[0])
    publish(world, planned)
    publish(world, planned)
    assert world.query("hub", "select batch, last_position from relaybox_internal.arrival") == [(1, 5)]


def test_g3_a_zombie_slice_that_continues_after_publish_is_refused(world: World) -> None:
    """An attempt that copied, slept, and comes to its receipt after the batch was published keeps nothing."""
    world.send_many(5)
    planned, order = planned_batch(world)
    copy_slice(order, planned.batch.slices[0])
    publish(world, planned)
    with world.session("hub") as zombie, zombie.cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
        cursor.execute("select relaybox_internal.accept_slice(%s, 1, 1, 1, %s, 5, 1)", (order.log_id, str(order.plan_id)))
    assert refused.value.pgcode == "RB015"


def test_g3_publish_waits_for_a_slice_in_flight(world: World) -> None:
    """A slice between its guard and its commit holds the hop's row: publish can't overtake it."""
    world.send_many(5)
    planned, order = planned_batch(world)
    with world.session("hub") as in_flight, in_flight.cursor() as cursor:
        cursor.execute("select relaybox_internal.accept_slice(%s, 1, 1, 1, %s, 5, 1)", (order.log_id, str(order.plan_id)))
        ended: list[BaseException] = []

        def try_publish() -> None:
            try:
                publish(world, planned)
            except errors.RelayboxError as error:
                ended.append(error)

        publisher = threading.Thread(target=try_publish)
        publisher.start()
        wait_until(
            lambda: world.value("hub", "select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == 1,
            "publish waits for the slice",
        )
        in_flight.rollback()
        publisher.join(patience(30))
    assert isinstance(ended[0], errors.SliceMissing)
    copy_slice(order, planned.batch.slices[0])
    publish(world, planned)
    assert world.log_positions() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("hop", ["flights/1", "airline/1", "a-route-with-the-longest-name-0/1"])
def test_g3_a_frozen_older_attempt_does_not_block_the_newer_one(world: World, hop: str) -> None:
    """An older attempt that holds the slice's rows uncommitted is ended by the newer one, whatever the hop is called."""
    world.send_many(5)
    planned, order = planned_batch(world)
    give_plan_to(world, hop)
    order = replace(order, hop=hop)
    name = session_name(order, planned.batch.slices[0])
    assert len(session_name(replace(order, batch=9_999_999, attempt=9_999_999), Slice(9999, 1, 1, 1, 1))) <= 63
    frozen = connect("hub", application_name=name)
    with frozen.cursor() as cursor:
        cursor.execute(
            f"insert into relaybox_internal.log_{order.log_id} (log_position, index, epoch, message_id, sent_at, topic, sender, payload) "
            "values (1, 1, 1, gen_random_uuid(), now(), 'flights', 'UA', 'frozen')"
        )
    copied = copy_slice(replace(order, attempt=order.attempt + 1), planned.batch.slices[0])
    publish(world, planned)
    with pytest.raises(psycopg2.Error):
        frozen.commit()
    frozen.close()
    assert copied.found == "open"
    assert world.payloads() == ["m1", "m2", "m3", "m4", "m5"]


def give_plan_to(world: World, hop: str) -> None:
    """Writes the plan of flights/1 into the ledger under the name of another hop too, which the store does not have."""
    with world.session("airline") as session, session.cursor() as cursor:
        cursor.execute("set local session_replication_role = replica")
        cursor.execute(
            """
            insert into relaybox_internal.batch
            select (jsonb_populate_record(b, jsonb_build_object('hop', %s))).* from relaybox_internal.batch b where b.hop <> %s
            """,
            (hop, hop),
        )
        session.commit()


def test_g3_the_same_transfer_run_four_times_at_once_leaves_one_copy(world: World) -> None:
    """Four drivers of one hop at the same time all end well."""
    world.change_route(limits={"batch_rows": 512, "slice_rows": 64})
    world.send_many(5000)
    with ThreadPoolExecutor(4) as drivers:
        summaries = [driver.result(patience(120)) for driver in [drivers.submit(world.transfer) for _ in range(4)]]
    assert sum(summary.row_count for summary in summaries) >= 5000
    assert world.payloads() == [f"m{n}" for n in range(1, 5001)]


def test_g3_two_hops_out_of_one_outbox_each_get_every_message_once(world: World) -> None:
    """A second route over the same outbox has its own ledger and its own log."""

    content = yaml.safe_load(world.path.read_text())
    content["routes"]["copies"] = {"topics": ["flights"], "path": ["airline", "analytics"]}
    world.path.write_text(yaml.safe_dump(content))
    world.send("a", "b")
    world.register()
    world.transfer()
    world.transfer(world.routes.hop("copies/1"))
    assert world.payloads("flights/1") == world.payloads("copies/1") == ["a", "b"]
