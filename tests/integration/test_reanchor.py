"""`reanchor` and `attest`: a hop goes on after a store lost history, and nothing is lost, doubled or overwritten in silence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg2
import pytest

from relaybox import errors
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchor_result import HeldIndexes, ReanchorResult
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.retention.segments import retain_store
from relaybox.stores.sessions import settings as session_settings
from relaybox.verification.defects import DefectKind
from relaybox.verification.results import RouteVerification
from relaybox.verification.route_verification import verify_route
from tests.support.backups import Backups, another_cluster
from tests.support.breaking import copy_slices_but_the_first, transfer_until
from tests.support.cli import invoke
from tests.support.senders import declare, send_numbered, stream
from tests.support.world import STORES, World, insert

pytestmark = pytest.mark.thorough


def reanchor(world: World, hop: int = 0) -> ReanchorResult:
    return reanchor_hop(world.route.hops[hop], world.routes, recorded_by="test", reason="a test", dry_run=False)


def verify(world: World) -> RouteVerification:
    verification = verify_route(world.route)
    assert verification.outcome == "delivered", [leg for leg in verification.hops if leg.defect_count]
    return verification


def test_a_source_that_lost_its_tail_goes_on_and_its_ghosts_are_listed(world: World, backups: Backups) -> None:
    """Failover below what was acknowledged: 2 delivered messages are gone at the source, 3 new ones take their seqs."""
    world.send("kept 1", "kept 2")
    world.transfer_all()
    before = backups.take("airline")
    world.send("lost 1", "lost 2")
    world.transfer_all()
    backups.restore("airline", before)
    another_cluster(world)
    world.send("new 1", "new 2", "new 3")
    with pytest.raises(errors.HistoryLost, match=r"relaybox reanchor flights/1"):
        world.transfer()
    found = reanchor(world)
    assert (found.loss, found.common_batch, found.arrived_batch, found.undelivered_count) == ("source", 1, 2, 3)
    assert [ghost.log_position for ghost in found.ghosts] == [3, 4]
    world.transfer_all()
    assert world.payloads("flights/2") == ["kept 1", "kept 2", "lost 1", "lost 2", "new 1", "new 2", "new 3"]
    verification = verify(world)
    assert (verification.hops[0].adopted_count, len(verification.hops[0].ghosts)) == (2, 2)


def test_a_destination_that_fails_while_reanchor_reads_it_is_named(
    world: World, backups: Backups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is locked: an error of ours that a retry may repair, not psycopg2's; afterwards the same goes through."""
    before = backups.take("airline")
    world.send("a", "b")
    world.transfer()
    backups.restore("airline", before)
    monkeypatch.setattr(session_settings, "LOCK_TIMEOUT_SECONDS", 1)
    with world.session("hub") as holder, holder.cursor() as cursor:
        cursor.execute("lock table relaybox_internal.log in access exclusive mode")
        with pytest.raises(errors.StoreBusy, match=r"^store hub: while reading what hop flights/1 delivered: .* \(55P03\)"):
            reanchor(world)
    assert len(reanchor(world).ghosts) == 2


def test_what_was_delivered_beyond_the_restored_ledger_is_not_delivered_again(world: World, backups: Backups) -> None:
    """The batch is lost from the ledger, its messages are not: they are adopted."""
    world.send("a")
    world.transfer()
    world.send("b", "c")
    before = backups.take("airline")
    world.transfer()
    backups.restore("airline", before)
    world.send("d")
    found = reanchor(world)
    assert (found.adopted_count, found.ghosts, found.undelivered_count) == (2, (), 1)
    world.transfer_all()
    assert world.payloads() == ["a", "b", "c", "d"]
    assert verify(world).hops[0].adopted_count == 2


def test_a_dumped_and_reloaded_source_delivers_every_message_once(world: World) -> None:
    """Its rows carry transaction numbers of the old cluster, higher than any of the new one; new rows carry low ones."""
    world.send("delivered 1", "delivered 2")
    world.transfer()
    world.send("waiting 1", "waiting 2")
    # the old cluster had used a million transactions more than this one will for long
    shift = 1_000_000
    world.query("airline", "update relaybox.outbox set xid = ((xid::text)::bigint + %s)::text::xid8", shift)
    world.query(
        "airline",
        """
        update relaybox_internal.batch set lower = lower, upper = format('%%s:%%s:', pg_snapshot_xmin(upper)::text::bigint + %s,
            pg_snapshot_xmax(upper)::text::bigint + %s)::pg_snapshot, xid = ((xid::text)::bigint + %s)::text::xid8
        """,
        *(shift, shift, shift),
    )
    world.query(
        "airline", "update relaybox_internal.hop_out set lower = (select upper from relaybox_internal.batch where batch = 1)"
    )
    world.query("airline", "update relaybox_internal.numbering set xid = ((xid::text)::bigint + %s)::text::xid8", shift)
    another_cluster(world)
    with pytest.raises(errors.HistoryLost, match="airline was loaded from a dump"):
        attest_store(world.route.path[0], world.routes, recorded_by="test", reason="wrong word")
    world.send("new")
    with pytest.raises(errors.HistoryLost):
        world.transfer()
    found = reanchor(world)
    assert (found.common_batch, found.adopted_count, found.undelivered_count) == (1, 0, 3)
    world.transfer_all()
    expected = ["delivered 1", "delivered 2", "waiting 1", "waiting 2", "new"]
    assert world.payloads() == expected
    # once this cluster's numbers reach the old ones, nothing comes again
    world.query("airline", "update relaybox.outbox set xid = pg_current_xact_id() where payload like 'waiting%%'")
    world.transfer_all()
    assert world.payloads() == expected
    assert world.value("airline", "select relaybox_internal.hop_has_work('flights/1')") is False


def copy_without_the_sequence(world: World) -> list[str]:
    """What logical replication makes of a source: rows with transaction numbers of the other cluster, and a sequence that begins anew.

    Applications write on: first into what rolled back transactions had left. Returns what was committed, in its order.
    """
    skip = "select nextval('relaybox.outbox_seq')"
    for payload in ("delivered 1", "delivered 2", "delivered 3"):
        world.send(payload)
        world.query("airline", skip)
    world.transfer()
    world.send("waiting")
    shift = 1_000_000
    world.query("airline", "update relaybox.outbox set xid = ((xid::text)::bigint + %s)::text::xid8", shift)
    world.query(
        "airline",
        """
        update relaybox_internal.batch set xid = ((xid::text)::bigint + %s)::text::xid8, upper = format('%%s:%%s:',
            pg_snapshot_xmin(upper)::text::bigint + %s, pg_snapshot_xmax(upper)::text::bigint + %s)::pg_snapshot
        """,
        *(shift, shift, shift),
    )
    world.query(
        "airline", "update relaybox_internal.hop_out set lower = (select upper from relaybox_internal.batch where batch = 1)"
    )
    world.query("airline", "update relaybox_internal.numbering set xid = ((xid::text)::bigint + %s)::text::xid8", shift)
    another_cluster(world)
    world.query("airline", "select setval('relaybox.outbox_seq', 1)")
    written: list[str] = []
    while len(written) < 5:
        try:
            world.send(f"new {len(written) + 1}")
        except psycopg2.errors.UniqueViolation:
            continue
        written.append(f"new {len(written) + 1}")
    return ["delivered 1", "delivered 2", "delivered 3", "waiting", *written]


def test_what_was_written_between_copied_rows_is_delivered_once_and_in_order(world: World) -> None:
    """Blue and green by logical replication, and nobody set the sequence: reanchor says what to run, and nothing counts as read."""
    sent = copy_without_the_sequence(world)
    assert world.value("airline", "select count(*) from relaybox_internal.late_rows() where seq < 6") == 2
    with pytest.raises(errors.HistoryLost, match="applications wrote 5 messages to airline") as raised:
        reanchor(world)
    (statement,) = re.findall(r"select relaybox_internal\.\w+\(\)", str(raised.value))
    assert world.value("airline", statement) == 5
    assert world.value("airline", statement) == 0
    world.send("newest")
    reanchor(world)
    world.transfer_all()
    assert world.payloads() == [*sent, "newest"]
    assert world.value("airline", "select count(*) from relaybox_internal.late_rows()") == 0


def test_an_outbox_that_logical_replication_still_fills_is_not_reanchored(world: World) -> None:
    """What it applied after the reanchor was in no batch, and no command could bring it back."""
    copy_without_the_sequence(world)
    world.query(
        "airline", "create subscription moving connection 'dbname=old' publication store with (connect = false, slot_name = none)"
    )
    world.query(
        "airline",
        "insert into pg_subscription_rel (srsubid, srrelid, srsubstate) select oid, 'relaybox.outbox'::regclass, 'r' from pg_subscription",
    )
    with pytest.raises(errors.HistoryLost, match=r"logical replication fills the outbox of airline \(subscription moving\)"):
        reanchor(world)
    world.query("airline", "drop subscription moving")
    with pytest.raises(errors.HistoryLost, match="applications wrote 5 messages to airline"):
        reanchor(world)


def test_what_repeats_an_index_of_a_ghost_is_named_before_and_counted_after(world: World, backups: Backups) -> None:
    """A copy of a source that lives on sent with the same counter: its messages are ghosts, and hold the indexes of those to come."""
    declare(world, "pump")
    declare(world, "meter", kind="sparse")
    send_numbered(world, "pump", 1)
    world.transfer_all()
    before = backups.take("airline")
    send_numbered(world, "pump", 2, 3, 4, payload="of the copy")
    send_numbered(world, "meter", 70, payload="of the copy")
    world.send("of the copy, without an index")
    world.transfer()
    backups.restore("airline", before)
    another_cluster(world)
    send_numbered(world, "pump", 2, 3, payload="of the original")
    seen = invoke("reanchor", "flights/1")
    said = " ".join(seen.stdout.split())
    assert (
        "3 ghosts of sender pump hold indexes from 2 to 4 of epoch 1: messages that come later with one of these indexes are set aside "
        "(other_content), 2 of those to be delivered first before pump sends again: relaybox senders new-epoch airline pump"
        in said
    )
    assert "1 ghost of sender meter holds index 70 of epoch 1" in said
    (meter, pump) = reanchor(world).held_indexes
    assert (meter.sender, meter.ghost_count, meter.undelivered_count) == ("meter", 1, 0)
    assert pump == HeldIndexes("pump", 1, ghost_count=3, first_index=2, last_index=4, undelivered_count=2)
    world.transfer_all()
    verified = invoke("verify", "flights", "--json")
    assert (verified.exit_code, verified.document["outcome"]) == (3, "set aside")
    assert [one["set_aside"] for one in verified.document["streams"]] == [{"other_content": 2}] * 2
    assert invoke("senders", "new-epoch", "airline", "pump").exit_code == 0
    send_numbered(world, "pump", 1, 2, epoch=2, payload="sent again")
    world.transfer_all()
    assert stream(world, "analytics")[-2:] == ["sent again"] * 2
    for store in ("hub", "analytics"):
        world.query(store, "select relaybox.drop_dead_letter(dead_letter_id, 'sent again') from relaybox_internal.dead_letter")
    verify(world)


def test_a_second_hop_names_the_indexes_of_its_ghosts(world: World, backups: Backups) -> None:
    """The hub and the airline went back: the hop between logs has ghosts, whose indexes the airline gives again."""
    declare(world, "pump")
    send_numbered(world, "pump", 1)
    world.transfer_all()
    before = {store: backups.take(store) for store in ("airline", "hub")}
    send_numbered(world, "pump", 2, payload="lost")
    world.transfer_all()
    for store, name in before.items():
        backups.restore(store, name)
        another_cluster(world, store)
    reanchor(world)
    send_numbered(world, "pump", 2, payload="new")
    world.transfer()
    assert reanchor(world, 1).held_indexes == (HeldIndexes("pump", 1, 1, 2, 2, 1),)
    world.transfer_all()
    assert verify_route(world.route).outcome == "set aside"


RENUMBER = "select relaybox_internal.renumber_late_rows()"


def test_rows_that_were_inserted_in_savepoints_between_copied_ones_are_delivered(world: World) -> None:
    """An ORM's nested transaction, or a plpgsql block with an exception: such a row has the number of its subtransaction as xmin."""
    copied = copy_without_the_sequence(world)[:4]
    world.query("airline", "delete from relaybox.outbox where payload like 'new%%'")
    world.query("airline", "select setval('relaybox.outbox_seq', 1)")
    written = 0
    while written < 3:
        with world.session() as session, session.cursor() as cursor:
            cursor.execute("select pg_current_xact_id(); savepoint a")
            try:
                insert(session, f"nested {written + 1}")
            except psycopg2.errors.UniqueViolation:
                continue
            cursor.execute("release savepoint a; savepoint b")
            insert_until_free(session, f"nested {written + 2}")
            session.commit()
            written += 2
    with pytest.raises(errors.HistoryLost, match="applications wrote 4 messages to airline"):
        reanchor(world)
    assert world.value("airline", RENUMBER) == 4
    assert world.value("airline", RENUMBER) == 0
    reanchor(world)
    world.transfer_all()
    assert world.payloads() == [*copied, "nested 1", "nested 2", "nested 3", "nested 4"]


def insert_until_free(session: Any, payload: str) -> None:
    """Rolls back to savepoint b while the sequence gives a seq that a copied row has."""
    while True:
        try:
            insert(session, payload)
        except psycopg2.errors.UniqueViolation:
            session.cursor().execute("rollback to savepoint b")
        else:
            return


def test_an_effect_that_an_older_transaction_inserts_stays_behind_its_cause(world: World) -> None:
    """G5: a transaction has its number before it inserts its last row; seqs tell the order of rows, its number does not."""
    sent = copy_without_the_sequence(world)
    with world.session() as older:
        insert(older, "of the older transaction")
        world.send("cause")
        insert(older, "effect")
        older.commit()
    assert world.value("airline", RENUMBER) == 8
    reanchor(world)
    world.transfer_all()
    assert world.payloads() == world.payloads("flights/2") == [*sent, "of the older transaction", "cause", "effect"]


@pytest.mark.parametrize("in_order_of", ["sent_at", "seq"])
def test_a_sequence_that_was_set_back_twice_needs_a_decision(world: World, in_order_of: str) -> None:
    """Rows of the second time stand before those of the first: seqs do not tell the order, and no order is guessed."""
    copied = copy_without_the_sequence(world)[:4]
    late = world.query("airline", "select seq, payload from relaybox.outbox where payload like 'new%%' order by seq")
    # as if 'new 1' were written after all the others, with the seq that the sequence gave again
    world.query(
        "airline",
        "update relaybox.outbox set sent_at = clock_timestamp() + interval '1 hour', xid = pg_current_xact_id() where seq = %s",
        late[0][0],
    )
    with pytest.raises(
        psycopg2.Error, match="seqs and times of the rows to renumber contradict each other: 4 of 5 rows"
    ) as raised:
        world.query("airline", RENUMBER)
    assert (raised.value.pgcode, f"the first with seq {late[1][0]}" in str(raised.value)) == ("RB018", True)
    assert world.query("airline", "select seq, payload from relaybox.outbox where payload like 'new%%' order by seq") == late
    with pytest.raises(psycopg2.Error, match="rows can't be put in the order of xid"):
        world.query("airline", "select relaybox_internal.renumber_late_rows('xid')")
    (statement,) = re.findall(rf"select relaybox_internal\.renumber_late_rows\('{in_order_of}'\)", str(raised.value))
    assert world.value("airline", statement) == 5
    reanchor(world)
    world.transfer_all()
    new = [f"new {number}" for number in ((2, 3, 4, 5, 1) if in_order_of == "sent_at" else (1, 2, 3, 4, 5))]
    assert world.payloads() == [*copied, *new]


def test_a_copied_row_that_has_the_number_of_its_transaction_is_not_sent_again(world: World) -> None:
    """By chance: its slice has the rows that were planned. With new rows in the same slice nothing tells them apart."""
    copy_without_the_sequence(world)
    world.query("airline", "update relaybox.outbox set xid = pg_current_xact_id() where payload = 'delivered 2'")
    with pytest.raises(psycopg2.Error, match=r"rows of the outbox may be copied or new.* 3 of them") as raised:
        world.query("airline", "select relaybox_internal.renumber_late_rows()")
    assert raised.value.pgcode == "RB018"
    world.query("airline", "update relaybox.outbox set seq = seq + 1000 where payload in ('new 1', 'new 2')")
    assert (
        world.value(
            "airline",
            "select count(*) from relaybox_internal.late_rows() l join relaybox.outbox o using (seq) where payload = 'delivered 2'",
        )
        == 0
    )


def test_repeated_ids_that_were_adopted_are_unchanged(world: World, backups: Backups) -> None:
    """A producer that uses an id twice, for different messages: each copy at the destination is one of them."""
    before = backups.take("airline")
    twice = "insert into relaybox.outbox (message_id, topic, sender, payload) values (%s, 'flights', 'a', %s)"
    for payload in ("first", "second"):
        world.query("airline", twice, "0190b0ec-1111-7000-8000-000000000001", payload)
    world.transfer()
    rows = world.query("airline", "select message_id::text, payload, sent_at from relaybox.outbox order by seq")
    backups.restore("airline", before)
    again = "insert into relaybox.outbox (message_id, topic, sender, payload, sent_at) values (%s, 'flights', 'a', %s, %s)"
    for row in rows:
        world.query("airline", again, *row)
    assert reanchor(world).adopted_count == 2
    world.transfer_all()
    assert verify(world).hops[0].adopted_count == 2
    world.query("hub", "update relaybox_internal.log set payload = 'third' where payload = 'second'")
    verification = verify_route(world.route).hops[0]
    assert [defect.kind for defect in verification.defects] == [DefectKind.CHANGED]
    assert (verification.sent, verification.delivery.reliability) == (1, 0), "R counts no other adopted message"


def test_undelivered_messages_between_delivered_ones_keep_slices_apart(world: World, backups: Backups) -> None:
    """A transaction that committed late lies between delivered messages: only it is read."""
    world.change_route(limits={"batch_rows": 10, "slice_rows": 5})
    with world.session() as late:
        insert(late, "late 1")
        world.send("a")
        insert(late, "late 2")
        world.send("b")
        world.transfer()
        late.commit()
    another_cluster(world)
    found = reanchor(world)
    assert found.undelivered_count == 2
    world.transfer_all()
    assert world.payloads() == ["a", "b", "late 1", "late 2"]
    verify(world)


def test_a_capped_pair_is_finished_by_the_new_generation(world: World) -> None:
    """A source is replaced in the middle of a backlog: the rest is undelivered, in order, nothing twice."""
    world.change_route(limits={"batch_rows": 10, "slice_rows": 5})
    world.send_many(50)
    transfer_until(world.first_hop, lambda progress: progress.published)
    another_cluster(world)
    found = reanchor(world)
    assert found.undelivered_count == 50 - world.value("hub", "select published_position from relaybox_internal.hop_in")
    world.send_many(5, prefix="n")
    world.transfer_all()
    assert world.payloads() == [f"m{n}" for n in range(1, 51)] + [f"n{n}" for n in range(1, 6)]
    verify(world)


def test_a_planned_batch_that_never_arrived_is_void_and_its_messages_come_first(world: World) -> None:
    world.send("a", "b")
    transfer_until(world.first_hop, lambda progress: progress.copied == progress.row_count)
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 2
    another_cluster(world)
    found = reanchor(world)
    assert (found.common_batch, found.undelivered_count) == (0, 2)
    world.transfer_all()
    assert world.payloads() == ["a", "b"]


def test_slices_of_a_plan_that_the_source_lost_make_way(world: World, backups: Backups) -> None:
    """Nothing was published of the lost plan, so the ledgers agree; its staged slices alone stop the new plan."""
    world.send("a", "b")
    before = backups.take("airline")
    transfer_until(world.first_hop, lambda progress: progress.copied == progress.row_count)
    backups.restore("airline", before)
    with pytest.raises(errors.ContentDiffers, match="under the same number"):
        world.transfer()
    found = reanchor(world)
    assert (found.loss, found.adopted_count, found.undelivered_count) == ("source", 0, 2)
    world.transfer_all()
    assert world.payloads() == ["a", "b"]
    verify(world)


def test_a_destination_that_lost_its_tail_gets_it_again_at_the_same_positions(world: World, backups: Backups) -> None:
    world.send("a")
    world.transfer_all()
    before = backups.take("hub")
    world.send("b")
    world.transfer_all()
    world.send("c", "d")
    world.transfer_all()
    log = world.query("hub", "select log_position, payload, message_id from relaybox_internal.log order by 1")
    backups.restore("hub", before)
    with pytest.raises(errors.HistoryLost, match="hub lost history"):
        world.transfer()
    found = reanchor(world)
    assert (found.loss, found.resend_count) == ("destination", 2)
    world.transfer()
    assert world.query("hub", "select log_position, payload, message_id from relaybox_internal.log order by 1") == log
    # the hub lost the ledger of the next hop as well
    with pytest.raises(errors.HistoryLost):
        world.transfer(world.second_hop)
    assert reanchor(world, 1).adopted_count == 3
    world.send("e")
    world.transfer_all()
    assert world.payloads("flights/2") == ["a", "b", "c", "d", "e"]
    verify(world)


def test_what_is_lost_after_a_batch_that_retention_removed_is_sent_again(world: World, backups: Backups) -> None:
    """Both stores had batch 1, and the source's ledger of it is gone: only batch 2 is missing, and it is here."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    world.send_many(9)
    world.transfer_all()
    before = backups.take("hub")
    world.send_many(10, prefix="n")
    world.transfer_all()
    world.settle_all()
    retain_store(world.routes.store("airline"), recorded_by="test")
    assert world.query("airline", "select compacted_batch, compacted_position from relaybox_internal.hop_out") == [(1, 9)]
    assert world.query("airline", "select min(seq) from relaybox.outbox") == [(10,)]
    backups.restore("hub", before)
    found = reanchor(world)
    assert (found.loss, found.common_batch, found.resend_count) == ("destination", 1, 1)
    world.transfer()
    reanchor(world, 1)
    world.send("new")
    world.transfer_all()
    expected = [f"m{n}" for n in range(1, 10)] + [f"n{n}" for n in range(1, 11)] + ["new"]
    assert world.payloads("flights/1") == world.payloads("flights/2") == expected


def test_what_is_lost_with_a_batch_that_retention_removed_is_told_of_the_store_that_lost_it(
    world: World, backups: Backups
) -> None:
    """The destination lost batch 1 as well, whose messages the source has dropped: refused, and the destination is named."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    before = backups.take("hub")
    world.send_many(9)
    world.transfer_all()
    world.send_many(11, prefix="n")
    world.transfer_all()
    world.settle_all()
    retain_store(world.routes.store("airline"), recorded_by="test")
    backups.restore("hub", before)
    for moved in (False, True):
        if moved:
            another_cluster(world)
        with pytest.raises(errors.HistoryLost, match=r"hub lost batches 1 to \d, and retention has dropped") as refused:
            reanchor(world)
        assert "Restore hub to a later time" in str(refused.value.next_step)


def test_a_hop_that_reads_a_log_waits_until_the_log_has_what_it_delivered(world: World, backups: Backups) -> None:
    world.send("a")
    before = backups.take("hub")
    world.transfer_all()
    backups.restore("hub", before)
    with pytest.raises(errors.HistoryLost, match="First bring the hop before it up to date"):
        reanchor(world, 1)


def test_a_second_loss_after_resending_stops_again(world: World, backups: Backups) -> None:
    before = backups.take("hub")
    world.send("a")
    world.transfer()
    backups.restore("hub", before)
    reanchor(world)
    world.transfer()
    world.send("b")
    world.transfer()
    backups.restore("hub", before)
    with pytest.raises(errors.HistoryLost):
        world.transfer()


def test_nothing_is_changed_without_a_reason_or_when_nobody_lost_anything(world: World) -> None:
    world.send("a")
    world.transfer()
    assert reanchor(world).loss == "none"
    another_cluster(world)
    told = reanchor_hop(world.first_hop, world.routes, recorded_by="test", reason="", dry_run=True)
    assert told.loss == "source"
    assert world.value("airline", "select max(generation) from relaybox_internal.hop_out") == 1
    assert world.value("airline", "select count(*) from relaybox_internal.generation") == 0


def test_an_open_writer_is_waited_for_and_named(world: World) -> None:
    """The anchor needs a moment without a transaction that has written to the outbox."""
    another_cluster(world)
    with world.session() as writer:
        insert(writer, "open")
        with pytest.raises(errors.StoreBusy, match="lock timeout"):
            reanchor(world)
        writer.commit()
    assert reanchor(world).undelivered_count == 1


def test_a_zombie_of_the_older_generation_is_refused(world: World) -> None:
    world.send("a")
    world.transfer()
    another_cluster(world)
    reanchor(world)
    with world.session("hub") as session, session.cursor() as cursor, pytest.raises(psycopg2.Error) as refused:
        cursor.execute("select relaybox_internal.accept_slice(1, 1, 2, 1, gen_random_uuid(), 1, 1)")
    assert refused.value.pgcode == "RB015"


def test_a_source_restored_to_before_its_reanchoring_stops(world: World, backups: Backups) -> None:
    """Its batches agree with the destination's, its generation does not: a zombie ledger must not go on."""
    world.send("a")
    world.transfer()
    before = backups.take("airline")
    another_cluster(world)
    reanchor(world)
    backups.restore("airline", before)
    with pytest.raises(errors.HistoryLost, match="generation 1 of it, hub in generation 2"):
        world.transfer()
    assert reanchor(world).generation == 3
    world.send("b")
    world.transfer_all()
    assert world.payloads() == ["a", "b"]
    verify(world)


@pytest.mark.parametrize("planned_anew", [False, True], ids=["idle", "planned anew"])
def test_slices_of_a_plan_that_the_source_lost_stop_the_hop(world: World, backups: Backups, planned_anew: bool) -> None:
    """The source goes back while a batch is copied in part; its cluster and timeline are as before, and the next batch has other slices."""
    world.change_route(limits={"batch_rows": 100, "slice_rows": 2})
    world.send("kept")
    world.transfer()
    before = backups.take("airline")
    world.send(*(f"lost {number}" for number in range(6)))
    copy_slices_but_the_first(world.first_hop)
    backups.restore("airline", before)
    if planned_anew:
        world.send("new")
        for _ in range(2):
            with pytest.raises(errors.ContentDiffers, match=r"batch 2 is here with plan .* relaybox reanchor flights/1"):
                world.transfer()
    status = invoke("status")
    assert status.exit_code == 5
    assert "hub has slices of batch 2 with plan " in status.stderr
    assert "airline lost history. See what is missing with: relaybox reanchor flights/1" in status.stderr
    assert "relaybox transfer" not in status.stdout
    another_cluster(world)
    with pytest.raises(errors.HistoryLost, match="hub has slices of batch"):
        attest_store(world.route.path[0], world.routes, recorded_by="test", reason="wrong word")
    look = invoke("reanchor", "flights/1")
    assert "would be removed: 4 messages of slices that were copied but never published" in look.stdout
    found = reanchor(world)
    assert (found.loss, found.removed_count) == ("source", 4)
    world.send("after")
    world.transfer_all()
    assert world.payloads("flights/2") == ["kept", *(["new"] if planned_anew else []), "after"]
    verify(world)
    assert invoke("status").exit_code == 0


def test_attest_records_a_promotion_without_loss(world: World) -> None:
    world.send("a")
    world.transfer()
    another_cluster(world)
    with pytest.raises(errors.HistoryLost, match="relaybox attest airline"):
        world.transfer()
    attested = attest_store(world.route.path[0], world.routes, recorded_by="test", reason="promoted")
    assert attested.changed
    assert not attest_store(world.route.path[0], world.routes, recorded_by="test", reason="again").changed
    world.send("b")
    world.transfer_all()
    assert world.payloads() == ["a", "b"]
    verify(world)


def test_attest_takes_an_adopted_batch_for_what_it_is(world: World, backups: Backups) -> None:
    """Reanchoring wrote it, in this cluster, in a transaction that had waited for writers: that is no dump and reload."""
    world.send("a")
    before = backups.take("airline")
    world.transfer()
    backups.restore("airline", before)
    assert reanchor(world).adopted_count == 1
    assert world.value("airline", "select adopted from relaybox_internal.batch")
    another_cluster(world)
    assert attest_store(world.route.path[0], world.routes, recorded_by="test", reason="promoted").changed


def test_attest_refuses_transaction_numbers_that_went_back(world: World) -> None:
    """Numbers, not their texts: 1005 is above 998."""
    world.send("a")
    world.transfer()
    another_cluster(world)
    for factor, refused in ((10, True), (1, False)):
        world.query(
            "airline",
            "update relaybox_internal.hop_out set lower = format('%%s:%%s:', next, next)::pg_snapshot"
            " from (select (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1) * %s as next) n",
            factor,
        )
        if refused:
            with pytest.raises(errors.HistoryLost, match="with next transaction"):
                attest_store(world.route.path[0], world.routes, recorded_by="test", reason="wrong word")
        else:
            assert attest_store(world.route.path[0], world.routes, recorded_by="test", reason="right word").changed


def test_attest_refuses_a_store_that_lost_something(world: World, backups: Backups) -> None:
    world.send("a")
    before = backups.take("airline")
    world.transfer()
    backups.restore("airline", before)
    another_cluster(world)
    with pytest.raises(errors.HistoryLost, match="relaybox reanchor flights/1"):
        attest_store(world.route.path[0], world.routes, recorded_by="test", reason="wrong word")
    assert world.value("airline", "select count(*) from relaybox_internal.attestation") == 0


def test_attest_leaves_a_hop_stopped_that_no_route_names_any_more(world: World) -> None:
    """Its destination was not asked, so nobody knows whether it agrees."""
    world.query(
        "airline",
        "insert into relaybox_internal.hop_out (hop, destination, topics, policy, lower, system_identifier, timeline)"
        " select 'old/1', 'hub', topics, policy, lower, system_identifier, timeline from relaybox_internal.hop_out",
    )
    another_cluster(world)
    assert attest_store(world.route.path[0], world.routes, recorded_by="test", reason="promoted").changed
    timelines = dict(world.query("airline", "select hop, timeline from relaybox_internal.hop_out"))
    assert timelines["old/1"] == timelines["flights/1"] + 1


def test_reanchor_with_an_empty_reason_only_tells(world: World) -> None:
    world.send("a")
    world.transfer()
    another_cluster(world)
    assert invoke("reanchor", "flights/1", "--reason", "").exit_code == 1
    assert world.value("airline", "select count(*) from relaybox_internal.generation") == 0


def in_one_line(text: str) -> str:
    """Without the number that grows with each look."""
    return re.sub(r"next transaction \d+", "next transaction", " ".join(text.split()))


def lose_nothing(world: World, backups: Backups) -> None:
    another_cluster(world)


def lose_numbers(world: World, backups: Backups) -> None:
    world.query("airline", "update relaybox_internal.hop_out set lower = '9000000000:9000000000:'")


def lose_by_a_dump(world: World, backups: Backups) -> None:
    world.query("airline", "update relaybox_internal.numbering set xid = ((xid::text)::bigint + 1000)::text::xid8")
    another_cluster(world)


def lose_a_batch_at_the_source(world: World, backups: Backups) -> None:
    before = backups.take("airline")
    world.send("lost")
    world.transfer()
    backups.restore("airline", before)


def lose_a_batch_by_a_failover(world: World, backups: Backups) -> None:
    lose_a_batch_at_the_source(world, backups)
    another_cluster(world)


def lose_a_batch_at_the_destination(world: World, backups: Backups) -> None:
    before = backups.take("hub")
    world.send("lost")
    world.transfer()
    backups.restore("hub", before)


@pytest.mark.parametrize(
    ("lose", "cause", "attestable"),
    [
        (lose_nothing, "airline was restored, promoted or replaced", True),
        (lose_numbers, "airline was restored, promoted or replaced", False),
        (lose_by_a_dump, "airline was loaded from a dump: its rows may carry transaction numbers of another cluster", False),
        (lose_a_batch_at_the_source, "airline lost history", False),
        (lose_a_batch_by_a_failover, "the ledger of airline ends at batch 1, hub has published batch 2", False),
        (lose_a_batch_at_the_destination, "hub lost history", False),
    ],
)
def test_transfer_status_attest_and_reanchor_say_the_same_of_one_situation(
    world: World, backups: Backups, lose: Callable[[World, Backups], None], cause: str, attestable: bool
) -> None:
    """The same sentence, and the same next step: nobody is sent to a command that refuses, or told of a loss that there is not."""
    world.send("a")
    world.transfer_all()
    lose(world, backups)
    found = reanchor_hop(world.first_hop, world.routes, recorded_by="test", reason="", dry_run=True)
    assert found.cause is not None
    assert cause in found.cause
    with pytest.raises(errors.HistoryLost) as stopped:
        world.transfer()
    cause_told = in_one_line(found.cause)
    assert cause_told in in_one_line(str(stopped.value))
    (told,) = [hop["errors"] for hop in invoke("status", "--json").document["hops"] if hop["hop"] == "flights/1"]
    attest = ("attest", "airline", "--reason", "sure")
    for said in (str(stopped.value), told[0]):
        assert ("relaybox attest airline" in said) is attestable
        assert "relaybox reanchor flights/1" in said
    shown = invoke("reanchor", "flights/1").stdout
    assert cause_told in in_one_line(shown)
    assert ("The source lost history" in shown) is (found.loss == "source" and not attestable)
    assert ("relaybox attest airline" in shown) is attestable
    attested = invoke(*attest)
    assert attested.exit_code == (0 if attestable else 5)
    if not attestable:
        assert cause_told in in_one_line(attested.stderr)


def test_attest_takes_no_empty_reason(world: World) -> None:
    """Also where nothing changed and nothing would be recorded."""
    for reason in ("", " "):
        refused = invoke("attest", "airline", "--reason", reason, "--json")
        assert (refused.exit_code, refused.document["error"]["kind"]) == (2, "ConfigurationError")
        assert "attest needs a reason" in refused.stderr


def test_attest_of_every_store_is_known(world: World) -> None:
    for store in world.route.path:
        assert not attest_store(store, world.routes, recorded_by="test", reason="nothing happened").changed
    assert len(STORES) == 3
