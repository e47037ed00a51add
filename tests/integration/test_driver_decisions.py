"""What a driver decides when the stores, or its runner, do not answer as they should: each decision alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from relaybox import errors
from relaybox.hops.batches import Slice
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice, session_name, slice_job
from relaybox.hops.planning import AttemptOwner, plan_batch, read_batch
from relaybox.hops.publishing import ask_destination, make_log_segments
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.stores.sessions.connections import connect
from tests.support.patience import patience
from tests.support.services import add_route
from tests.support.world import World, wait_until


def test_g11_a_plan_is_refused_where_the_two_stores_contradict_each_other(world: World) -> None:
    """A newer generation at the destination, a batch that the source never planned, and one that is not in its ledger."""
    hop = world.first_hop
    world.send("a")
    world.transfer()
    world.send("b")
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        arrived = ask_destination(destination, hop)
        for contradiction, says in (
            ({"generation": arrived.generation + 1}, f"hub in generation {arrived.generation + 1}: airline lost history"),
            ({"batch": 2}, "ledger of airline ends at batch 1, hub has published batch 2: airline lost history"),
            ({"batch": 0}, "airline has batch 1 confirmed, hub ends at batch 0: hub lost history"),
        ):
            with pytest.raises(errors.HistoryLost, match=says):
                plan_batch(source, hop, replace(arrived, **contradiction), driver=AttemptOwner("test"))
        with pytest.raises(errors.HistoryLost, match="batch 2 is not in the ledger of its source"):
            read_batch(source, hop.name, 2)
        with world.store_session("analytics") as another, pytest.raises(errors.UnknownHop, match="does not arrive in store"):
            ask_destination(another, hop)
        assert plan_batch(source, hop, arrived, driver=AttemptOwner("test")) is not None


def test_g11_a_log_that_ends_before_what_was_read_of_it_stops_the_next_hop(world: World) -> None:
    """The hop before it is repaired first."""
    world.send("a", "b")
    world.transfer_all()
    world.query("hub", "update relaybox_internal.hop_in set published_position = 1 where hop = 'flights/1'")
    with pytest.raises(errors.HistoryLost, match="log of hub through position 2, which ends at 1: hub lost history") as lost:
        world.transfer(world.second_hop)
    assert "First repair the hop before it" in str(lost.value.next_step)


def test_a_generation_that_the_destination_was_not_told_of_begins_with_the_next_batch(world: World) -> None:
    """The reanchor of the source died before it told the destination."""
    world.send("a")
    world.transfer()
    world.query("airline", "update relaybox_internal.hop_out set generation = generation + 1 where hop = 'flights/1'")
    world.send("b")
    world.transfer()
    generation = "select generation from relaybox_internal.{} where hop = 'flights/1'"
    assert world.value("hub", generation.format("hop_in")) == world.value("airline", generation.format("hop_out"))
    assert world.payloads() == ["a", "b"]


class Failing:
    """A runner whose slices fail, once."""

    application = None

    def __init__(self) -> None:
        self._errors = [errors.StoreBusy("no slot is free")]

    def copy_slices(self, _order: SliceJob, _slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        raise self._errors.pop()


def test_an_error_of_a_driver_that_nobody_overtook_is_its_end(world: World) -> None:
    """It does not wait for another driver; the next one resumes the batch."""
    world.send("a")
    with pytest.raises(errors.StoreBusy, match="no slot is free"):
        transfer_hop(world.first_hop, Failing(), recorded_by="test")
    assert world.transfer().resumed_count == 1


def test_a_driver_that_lingers_moves_what_comes_and_ends_in_time(world: World) -> None:
    """It waits so long after the last message, and never longer than it may in all."""
    linger_seconds = patience(2)

    def send_another() -> None:
        wait_until(
            lambda: not world.value("airline", "select relaybox_internal.hop_has_work('flights/1')"), "the first is confirmed"
        )
        world.send("b")

    world.send("a")
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_another)
        summary = world.transfer(linger_seconds=linger_seconds)
        sending.result()
    assert (world.payloads(), summary.batch_count) == (["a", "b"], 2)
    assert summary.duration_seconds >= linger_seconds
    ended = world.transfer(linger_seconds=10_000, linger_at_most_seconds=1)
    assert 1 <= ended.duration_seconds < patience(60)


def test_a_driver_that_lingers_makes_segments_ahead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes into the overflow, from which retention drops nothing, however long one driver stays."""
    monkeypatch.setattr("relaybox.hops.transfer.SEGMENTS_SECONDS", 0.0)
    world.cut_small_segments()
    sent: list[str] = []

    def send_more(at: Progress) -> None:
        if at.published and len(sent) < 6:
            sent.append(f"b{len(sent)}-")
            world.send_many(15, prefix=sent[-1])

    world.send("a")
    summary = world.transfer(linger_seconds=1, progress=send_more)
    assert summary.row_count == 1 + 6 * 15
    assert world.value("airline", "select count(*) from relaybox_internal.outbox_overflow") == 0


def test_a_maker_of_segments_leaves_them_to_another_one(world: World) -> None:
    """While one turns the overflow into a segment, nobody else can read it; the other driver goes on without an error."""
    with world.session() as other, other.cursor() as cursor:
        cursor.execute("lock table relaybox_internal.outbox_overflow in access exclusive mode")
        assert world.value("airline", "select relaybox_internal.ensure_outbox_segments(8)") == []
    assert len(world.value("airline", "select relaybox_internal.ensure_outbox_segments(8)")) > 0


def test_a_driver_that_lingers_leaves_when_another_hop_needs_its_slot(world: World) -> None:
    """It is told of the hops of both its stores that have work and no driver; it asks while it is idle, and while messages flow."""
    add_route(world.path, "crew", topics=["crew"], path=["airline", "hub"])
    world.register()
    told: list[list[str]] = []

    def is_slot_wanted(hops: Sequence[str]) -> bool:
        told.append(sorted(hops))
        world.send("another")
        return len(told) == 3

    world.send("a")
    world.send("b", topic="crew")
    summary = world.transfer(linger_seconds=10_000, is_slot_wanted=is_slot_wanted)
    assert told == [["crew/1", "flights/2"]] * 3
    assert summary.batch_count in (3, 4)
    assert summary.duration_seconds < patience(60)


def test_a_driver_that_is_behind_leaves_its_slot_to_nobody(world: World) -> None:
    """It moves what waits first: a batch as large as it may be says that there is more."""
    world.change_route(limits={"batch_rows": 2, "slice_rows": 1})
    moved: list[int] = []

    def is_slot_wanted(_: Sequence[str]) -> bool:
        moved.append(len(world.payloads()))
        return True

    world.send(*(str(number) for number in range(7)))
    world.transfer(linger_seconds=10_000, is_slot_wanted=is_slot_wanted)
    assert moved == [7]


def test_g3_a_slice_that_another_driver_copied_meanwhile_is_found(world: World) -> None:
    """Its rows wait for the other's, and are found copied: the report says so, of this slice, with its rows and seconds."""
    world.send("a", "b")
    hop = world.first_hop
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        arrived = ask_destination(destination, hop)
        planned = plan_batch(source, hop, arrived, driver=AttemptOwner("test"))
        assert planned is not None
        make_log_segments(destination, hop, log_id=arrived.log_id, through_position=2)
    batch, (slice_,) = planned.batch, planned.batch.slices
    order = slice_job(hop, batch, stores=world.store_ids(), attempt=planned.attempt, log_id=arrived.log_id, reads_log=None)
    with world.session("hub") as other, other.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute(
            f"insert into relaybox_internal.log_{order.log_id} (log_position, index, epoch, message_id, sent_at, topic, sender, payload) "
            "select n, n, 1, gen_random_uuid(), now(), 'flights', 'UA', n from generate_series(1, 2) n"
        )
        cursor.execute(
            "select relaybox_internal.accept_slice(%s, %s, %s, %s, %s, 2, %s, null, 1)",
            (order.log_id, order.generation, order.batch, slice_.slice, str(order.plan_id), order.attempt),
        )
        copying = pool.submit(copy_slice, order, slice_)
        waits = "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'transactionid')"
        wait_until(lambda: world.value("hub", waits), "the slice waits for the other's rows")
        other.commit()
        report = copying.result()
    assert replace(report, seconds=0.0) == SliceCopied(slice_.slice, 2, 0, 0.0, "copied")
    assert 0.0 < report.seconds < patience(60)


def test_an_older_attempt_at_a_hop_with_a_long_name_is_ended_by_its_session(world: World) -> None:
    """Its first 30 characters are in the name of the session, which nothing cuts: the store looks for the same."""
    world.send("a")
    hop = world.first_hop
    with world.store_session("airline") as source, world.store_session("hub") as destination:
        planned = plan_batch(source, hop, ask_destination(destination, hop), driver=AttemptOwner("test"))
    assert planned is not None
    order = slice_job(hop, planned.batch, stores=world.store_ids(), attempt=10**5, log_id=1, reads_log=None)
    order = replace(order, hop=f"{'a-long-name-' * 4}/1", batch=10**7)
    slice_ = replace(planned.batch.slices[0], slice=1234)
    with closing(connect("hub", application_name=session_name(order, slice_))) as older, older.cursor() as cursor:
        cursor.execute("select current_setting('application_name')")
        assert cursor.fetchone() == (session_name(order, slice_),)
        older.rollback()
        end = "select relaybox_internal.end_older_attempts(%s, %s, %s, %s)"
        assert world.value("hub", end, order.hop, order.batch, slice_.slice, order.attempt - 1) == 0
        assert world.value("hub", end, order.hop, order.batch, slice_.slice, order.attempt) == 1
