"""G4: a hop's positions are 1..N; what is missing or too much is found before anyone reads it."""

from __future__ import annotations

import psycopg2
import pytest

from relaybox import errors
from relaybox.hops.copying import copy_slice
from tests.integration.driver_steps import planned_batch, publish
from tests.support.world import World, insert


def test_g4_positions_stay_dense_over_batches_segments_and_hops(world: World) -> None:
    """25,000 messages in capped batches over log segments of 10,000 have positions 1..25000 on both hops."""
    world.change_route(limits={"batch_rows": 7000, "slice_rows": 1500})
    for _ in range(5):
        world.send_many(5000)
        world.transfer_all()
    for hop, store in (("flights/1", "hub"), ("flights/2", "analytics")):
        assert world.value(store, "select count(*) from relaybox.inbox where hop = %s", hop) == 25_000
        assert world.query(
            store,
            "select min(log_position), max(log_position), count(distinct log_position) from relaybox.inbox where hop = %s",
            hop,
        ) == [(1, 25_000, 25_000)]


def test_g4_rows_that_disappear_from_the_source_stop_the_slice(world: World) -> None:
    """A row deleted after planning: the slice's count differs, nothing of it is kept."""
    world.send_many(10)
    planned, order = planned_batch(world)
    world.query("airline", "delete from relaybox.outbox where payload = 'm4'")
    with pytest.raises(errors.ContentDiffers, match="has 9 rows at airline, planned were 10"):
        copy_slice(order, planned.batch.slices[0])
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 0


def test_g4_a_detached_segment_stops_the_slice(world: World) -> None:
    """A segment detached between plan and copy gives an error, not fewer messages."""
    world.send_many(10)
    planned, order = planned_batch(world)
    world.query("airline", "alter table relaybox.outbox detach partition relaybox_internal.outbox_s000000")
    with pytest.raises(errors.ContentDiffers):
        copy_slice(order, planned.batch.slices[0])


def test_g4_a_row_policy_is_an_error_and_never_fewer_rows(world: World) -> None:
    """Row security that would hide rows from the mover fails the read of the table. The mover's view shows all, or fails too."""
    world.send_many(3)
    world.query("airline", "create role mover_of_a_test login password 'x'")
    world.query("airline", "grant usage on schema relaybox, relaybox_internal to mover_of_a_test")
    world.query("airline", "grant select on relaybox.outbox, relaybox_internal.sent_rows to mover_of_a_test")
    world.query("airline", "alter table relaybox.outbox enable row level security")
    world.query("airline", "create policy half on relaybox.outbox using (payload = 'm1')")
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("set role mover_of_a_test")
        cursor.execute("select count(*) from relaybox.outbox")
        assert cursor.fetchone() == (1,)
        cursor.execute("set row_security = off")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("select count(*) from relaybox.outbox")
        connection.rollback()
        cursor.execute("set role mover_of_a_test")
        cursor.execute("set row_security = off")
        cursor.execute("select count(*) from relaybox_internal.sent_rows")
        assert cursor.fetchone() == (3,)
        connection.rollback()
        cursor.execute("alter view relaybox_internal.sent_rows owner to mover_of_a_test")  # whom the policy holds for
        cursor.execute("set row_security = off")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("select count(*) from relaybox_internal.sent_rows")
        connection.rollback()
    world.query("airline", "drop policy half on relaybox.outbox")
    world.query("airline", "drop owned by mover_of_a_test")
    world.query("airline", "drop role mover_of_a_test")


def test_g4_publish_counts_rows_and_believes_no_receipt(world: World) -> None:
    """Rows removed from the log between copy and publish: nothing is published."""
    world.send_many(10)
    planned, order = planned_batch(world)
    copy_slice(order, planned.batch.slices[0])
    world.query("hub", "delete from relaybox_internal.log where log_position = 5")
    with pytest.raises(errors.HistoryLost, match="has 9 rows in positions 1 to 10, expected 10"):
        publish(world, planned)
    assert world.payloads() == []


def test_g4_content_changed_after_planning_is_refused_where_the_route_asks_for_checksums(world: World) -> None:
    """Counts can't see it; with `integrity: checksum` nothing of the slice is kept, at either hop."""
    world.change_route(integrity="checksum")
    world.send_many(10)
    planned, order = planned_batch(world)
    world.query("airline", "update relaybox.outbox set payload = 'forged' where payload = 'm7'")
    with pytest.raises(errors.ContentDiffers, match="arrived with other content than was planned"):
        copy_slice(order, planned.batch.slices[0])
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 0
    world.query("airline", "update relaybox.outbox set payload = 'm7' where payload = 'forged'")
    world.transfer_all()
    assert world.payloads("flights/2") == [f"m{n}" for n in range(1, 11)]
    assert world.value("hub", "select cardinality(digests) from relaybox_internal.batch where hop = 'flights/2'") == 1


def test_g4_without_checksums_nothing_is_hashed(world: World) -> None:
    world.send_many(10)
    world.transfer()
    assert world.value("airline", "select digests is null from relaybox_internal.batch") is True


def test_g4_publish_without_all_receipts_is_refused(world: World) -> None:
    """One slice of four is missing: the batch stays open."""
    world.change_route(limits={"batch_rows": 1000, "slice_rows": 8})
    world.send_many(30)
    planned, order = planned_batch(world)
    for slice_ in planned.batch.slices[:-1]:
        copy_slice(order, slice_)
    with pytest.raises(errors.SliceMissing):
        publish(world, planned)
    copy_slice(order, planned.batch.slices[-1])
    publish(world, planned)
    assert world.log_positions() == list(range(1, 31))


def test_g4_a_staged_row_is_never_seen(world: World) -> None:
    """Rows copied but not published are in nobody's view."""
    world.send_many(10)
    planned, order = planned_batch(world)
    copy_slice(order, planned.batch.slices[0])
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 10
    assert world.value("hub", "select count(*) from relaybox.inbox") == 0
    assert world.payloads() == []


def test_g4_a_consumer_s_role_reads_published_messages_and_nothing_else(world: World) -> None:
    """The consumer has the view and read_log(); the log itself and the ledgers are closed."""
    world.send("a")
    world.transfer()
    with world.session("hub") as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_consumer")
        cursor.execute("select payload from relaybox.inbox where hop = 'flights/1'")
        assert cursor.fetchall() == [("a",)]
        cursor.execute("select log_position, payload from relaybox.read_log('flights/1')")
        assert cursor.fetchall() == [(1, "a")]
        for statement in (
            "select * from relaybox_internal.log",
            "select * from relaybox_internal.arrival",
            "delete from relaybox.inbox",
        ):
            cursor.execute("savepoint attempt")
            with pytest.raises(psycopg2.Error) as refused:
                cursor.execute(statement)
            assert refused.value.pgcode in ("42501", "55000")
            cursor.execute("rollback to savepoint attempt")


def test_g4_reading_a_hop_that_does_not_arrive_here_is_denied_in_words(world: World) -> None:
    """An unknown hop is an error that names the known ones."""
    with pytest.raises(psycopg2.Error, match="does not arrive in this store") as denied:
        world.query("hub", "select * from relaybox.read_log('flihgts/1')")
    assert denied.value.pgcode == "RB004"
    assert "flights/1" in str(denied.value)


def test_g4_slices_that_fill_their_range_and_slices_with_holes_are_both_exact(world: World) -> None:
    """A slice without holes in seq is read without snapshots; one with a rolled back, foreign or still open row is not."""
    world.change_route(limits={"batch_rows": 100, "slice_rows": 8})
    world.send_many(20)
    with world.session() as undone, world.session() as still_open:
        insert(undone, "rolled back")
        insert(still_open, "in a later pair")
        undone.rollback()
        world.send("of another route", topic="invoices")
        world.send_many(20, prefix="n")
        planned, order = planned_batch(world)
        still_open.commit()
    assert {slice_.is_dense for slice_ in planned.batch.slices} == {True, False}
    for slice_ in planned.batch.slices:
        copy_slice(order, slice_)
    publish(world, planned)
    world.transfer()
    assert world.payloads() == [*(f"m{n}" for n in range(1, 21)), *(f"n{n}" for n in range(1, 21)), "in a later pair"]
