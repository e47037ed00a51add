"""`relaybox verify` names every message that was not delivered as it was sent."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from relaybox.verification.route_verification import verify_route
from tests.support.breaking import copy_first_slices, transfer_until
from tests.support.cli import invoke
from tests.support.patience import Deadline
from tests.support.world import World, insert

LEG_KEYS = {
    "name", "source", "destination", "sent", "received", "in_flight", "batch_count", "slice_count", "reliability", "uniqueness",
    "mode", "defects", "contradictions", "adopted_count", "ghosts", "no_longer_kept",
    "account",
}  # fmt: skip
LOSSY = ("missing", "changed", "unbatched")


def verify(exit_code: int) -> dict[str, Any]:
    verification = invoke("verify", "flights", "--json")
    assert verification.exit_code == exit_code, verification.stdout + verification.stderr
    return dict(verification.document)


def named(leg: dict[str, Any]) -> list[tuple[str, str]]:
    return [(defect["kind"], defect["message_id"]) for defect in leg["defects"]]


def message_at(world: World, log_position: int) -> str:
    return str(world.value("hub", "select message_id from relaybox_internal.log where log_position = %s", log_position))


def deliver(world: World, count: int = 30) -> None:
    """Three senders, two batches, slices of 8 rows at both hops."""
    world.change_route(limits={"batch_rows": 16, "slice_rows": 8})
    for sender in ("UA", "AA", "DL"):
        world.send_many(count // 3, sender=sender, prefix=sender)
    world.transfer_all()


def test_a_delivered_route_is_verified(world: World) -> None:
    deliver(world)
    verification = verify(0)
    assert set(verification) == {
        "route", "outcome", "verified_at", "duration_seconds", "hops", "end_to_end", "senders", "repeated_ids",
        "repeated_id_counts", "streams", "reader_problems",
    }  # fmt: skip
    assert verification["outcome"] == "delivered"
    assert verification["senders"] == {"count": 3, "out_of_order": []}
    for leg in (*verification["hops"], verification["end_to_end"]):
        assert set(leg) == LEG_KEYS
        assert (leg["sent"], leg["received"], leg["in_flight"], leg["defects"], leg["contradictions"]) == (30, 30, 0, [], [])
        assert (leg["reliability"], leg["uniqueness"], leg["mode"]) == (1.0, 1.0, "exactly once")
    assert [leg["batch_count"] for leg in verification["hops"]] == [2, 2]
    assert (verification["end_to_end"]["source"], verification["end_to_end"]["destination"]) == ("airline", "analytics")


def test_the_report_says_so_on_a_terminal(world: World) -> None:
    deliver(world)
    shown = invoke("verify", "flights")
    assert "flights delivered: every message is where it should be, once, unchanged and in order" in shown.stdout
    assert "order: 3 of 3 senders in order at analytics" in shown.stdout


def test_an_empty_route_is_delivered(world: World) -> None:
    assert verify(0)["senders"]["count"] == 0


def test_messages_on_their_way_are_in_flight_and_no_defect(world: World) -> None:
    world.send("a", "b")
    world.transfer()
    world.send("c")
    verification = verify(3)
    assert verification["outcome"] == "in flight"
    assert [leg["in_flight"] for leg in (*verification["hops"], verification["end_to_end"])] == [1, 2, 3]
    assert [leg["sent"] for leg in (*verification["hops"], verification["end_to_end"])] == [2, 0, 0]
    assert "in flight" in invoke("verify", "flights").stdout


def test_what_only_left_the_first_hop_is_compared_as_far_as_the_second_got(world: World) -> None:
    """The second hop's batches end inside a slice of the first: the origin is compared up to there."""
    world.send_many(20)
    world.transfer()
    world.change_route(limits={"batch_rows": 7, "slice_rows": 7})
    transfer_until(world.second_hop, lambda progress: progress.published)
    verification = verify(3)
    assert (
        verification["end_to_end"]["sent"],
        verification["end_to_end"]["received"],
        verification["end_to_end"]["in_flight"],
    ) == (7, 7, 13)


@pytest.mark.parametrize("slices", [0, 1], ids=["planned", "partly copied"])
def test_an_open_batch_is_in_flight(world: World, slices: int) -> None:
    """Rows of slices that are copied and not published are no strangers."""
    world.change_route(limits={"batch_rows": 100, "slice_rows": 8})
    world.send_many(30)
    copy_first_slices(world.first_hop, slices)
    assert [leg["in_flight"] for leg in verify(3)["hops"]] == [30, 0]


def test_rollbacks_late_commits_and_other_topics_are_no_defects(world: World) -> None:
    with world.session() as late:
        insert(late, "late")
        with world.session() as undone:
            insert(undone, "undone")
            undone.rollback()
        world.send("a")
        world.send("x", topic="other")
        world.transfer_all()
        late.commit()
    world.transfer_all()
    assert verify(0)["end_to_end"]["received"] == 2


def test_a_topic_that_joined_later_and_a_skipped_pair_are_no_defects(world: World) -> None:
    world.send("x", topic="other")
    world.send("a")
    world.transfer_all()
    world.send("y", topic="other")
    world.query("airline", "select relaybox_internal.skip_empty_pair('flights/1', pg_current_snapshot())")
    world.send("b")
    world.change_route(topics=["flights", "other"])
    world.send("c", topic="other")
    world.transfer_all()
    assert verify(0)["end_to_end"]["received"] == 5


BREAKS = {
    "missing": "delete from relaybox_internal.log where log_position = 11",
    "changed": "update relaybox_internal.log set payload = payload || ' ' where log_position = 11",
    "misplaced": "update relaybox_internal.log set log_position = 5000 where log_position = 11",
    "doubled": "insert into relaybox_internal.log select log_id, epoch, 5000, index, message_id, sent_at, topic, sender, key, headers, payload, "
    "payload_bytes, clock from relaybox_internal.log where log_position = 11",
}


@pytest.mark.parametrize(("store", "hop"), [("hub", 0), ("analytics", 1)], ids=["at the first hop", "at the second hop"])
@pytest.mark.parametrize("kind", BREAKS)
def test_a_broken_message_is_named_at_the_hop_that_broke_it(world: World, kind: str, store: str, hop: int) -> None:
    deliver(world)
    broken = message_at(world, 11)
    make_room(world, store)
    world.query(store, BREAKS[kind])
    verification = verify(1)
    assert named(verification["hops"][hop]) == [(kind, broken)]
    whole = verification["end_to_end"]
    if store == "analytics":
        assert named(verification["hops"][0]) == []
        assert named(whole) == [(kind, broken)]
        assert whole["reliability"] == (pytest.approx(29 / 30) if kind in LOSSY else 1.0)
        assert whole["uniqueness"] == {"changed": pytest.approx(29 / 30), "doubled": pytest.approx(30 / 31)}.get(kind, 1.0)
    shown = invoke("verify", "flights")
    assert shown.exit_code == 1
    assert f"{kind} " in shown.stdout
    assert broken in shown.stdout


def make_room(world: World, store: str) -> None:
    """A segment for positions that no batch has."""
    world.query(store, "select relaybox_internal.ensure_log_segments(1, 6000)")


def test_a_stranger_in_a_log_is_unexpected(world: World) -> None:
    deliver(world)
    stranger = str(uuid4())
    world.query("hub", "update relaybox_internal.log set message_id = %s where log_position = 30", stranger)
    lost = str(world.value("airline", "select message_id from relaybox.outbox order by seq desc limit 1"))
    assert Counter(named(verify(1)["hops"][0])) == Counter([("missing", lost), ("unexpected", stranger)])


@pytest.mark.parametrize(
    ("other", "senders"), [(25, ["DL", "UA"]), (4, ["UA"])], ids=["in different slices and batches", "side by side in one slice"]
)
def test_messages_that_changed_places_put_their_senders_out_of_order(world: World, other: int, senders: list[str]) -> None:
    deliver(world)
    swapped = [message_at(world, 3), message_at(world, other)]
    for log_position, to in ((3, 0), (other, 3), (0, other)):
        world.query("analytics", "update relaybox_internal.log set log_position = %s where log_position = %s", to, log_position)
    verification = verify(1)
    assert named(verification["end_to_end"]) == [("misplaced", swapped[0]), ("misplaced", swapped[1])]
    assert verification["senders"] == {"count": 3, "out_of_order": senders}
    assert (verification["end_to_end"]["reliability"], verification["end_to_end"]["uniqueness"]) == (1.0, 1.0)


COLUMNS = {
    "topic": "topic = 'other'",
    "sender": "sender = 'XX'",
    "epoch": "epoch = 2",
    "index": "index = index + 100",
    "key": "key = ''",
    "headers": """headers = '{"a": 1}'""",
    "payload": "payload = payload || 'x'",
    "payload_bytes": "payload = null, payload_bytes = convert_to(payload, 'UTF8')",
    "clock": """clock = '{"UA": 1}'""",
    "sent_at": "sent_at = sent_at + interval '1 microsecond'",
}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_change_in_any_column_is_found(world: World, column: str) -> None:
    world.send("a", "b")
    world.transfer()
    world.query(
        "hub", f"update relaybox_internal.log set {COLUMNS[column]} where log_position = 2"
    )  # a fixed list of assignments
    assert named(verify(1)["hops"][0]) == [("changed", message_at(world, 2))]


def test_a_change_of_columns_into_one_another_is_found(world: World) -> None:
    """The hash keeps column from column: moving text between two of them is a change."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, key, payload) values ('flights', 'UA', 'a,b', 'c'), ('flights', 'UA', null, 'd')",
    )
    world.transfer()
    world.query("hub", "update relaybox_internal.log set key = 'a', payload = 'b,c' where log_position = 1")
    world.query("hub", "update relaybox_internal.log set key = '' where log_position = 2")
    assert [kind for kind, _ in named(verify(1)["hops"][0])] == ["changed", "changed"]


def test_settings_of_a_store_change_no_digest(world: World) -> None:
    name = world.value("hub", "select current_database()")
    for setting in ("bytea_output = 'escape'", "timezone = 'Asia/Kathmandu'", "datestyle = 'German'", "extra_float_digits = -10"):
        world.query("hub", f"alter database {name} set {setting}")  # a name of the test's own
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, headers, payload_bytes) values "
        """('flights', 'UA', '{"n": 1e-7, "d": "2026-11-21"}', '\\x00ff27225c')""",
    )
    world.transfer_all()
    assert verify(0)["end_to_end"]["received"] == 1


def test_a_committed_message_that_no_batch_holds_is_named(world: World) -> None:
    """G2 asked of the outbox itself: a row appears behind the snapshots, as after a restore of an outbox alone."""
    world.send("a", "b")
    world.transfer_all()
    xid = world.value("airline", "select xid::text from relaybox.outbox limit 1")
    skipped = world.value(
        "airline",
        "insert into relaybox.outbox (xid, topic, sender, payload) values (%s::xid8, 'flights', 'UA', 'late') returning message_id::text",
        xid,
    )
    verification = verify(1)
    assert named(verification["hops"][0]) == [("unbatched", skipped)]
    assert named(verification["end_to_end"]) == [("unbatched", skipped)]
    assert verification["end_to_end"]["reliability"] == pytest.approx(2 / 3)


def test_messages_without_a_batch_that_share_an_id_are_counted_each(world: World) -> None:
    """An application may repeat an id. Counted as one, they made more unique messages than were received."""
    world.send("a")
    world.transfer_all()
    xid = world.value("airline", "select xid::text from relaybox.outbox limit 1")
    shared = "00000000-0000-7000-8000-0000000000aa"
    world.query(
        "airline",
        "insert into relaybox.outbox (xid, topic, sender, payload, message_id) "
        "select %s::xid8, 'flights', 'UA', 'late ' || g, %s::uuid from generate_series(1, 3) g",
        xid,
        shared,
    )
    verification = verify(1)
    assert named(verification["hops"][0]) == [("unbatched", shared)] * 3
    assert verification["end_to_end"]["reliability"] == pytest.approx(1 / 4)


def test_a_message_in_a_pair_that_was_skipped_wrongly_is_named(world: World) -> None:
    world.send("a")
    world.transfer_all()
    world.send("skipped")
    skipped = str(world.value("airline", "select message_id from relaybox.outbox where payload = 'skipped'"))
    world.query("airline", "select relaybox_internal.skip_empty_pair('flights/1', pg_current_snapshot())")
    assert named(verify(1)["hops"][0]) == [("unbatched", skipped)]
    world.send("b")
    world.transfer_all()
    assert named(verify(1)["hops"][0]) == [("unbatched", skipped)]


def test_a_message_that_a_hop_has_read_twice_is_doubled(world: World) -> None:
    """The frontier is set back: what was delivered is planned again, and both slices find in the log what they read."""
    deliver(world)
    world.query("airline", "update relaybox_internal.hop_out set lower = '1:1:'")
    assert any("batch 2 has read up to snapshot" in told for told in verify(1)["hops"][0]["contradictions"])
    world.transfer_all()
    verification = verify(1)
    for leg in (verification["hops"][0], verification["end_to_end"]):
        assert Counter(kind for kind, _ in named(leg)) == {"doubled": 30}
        assert (leg["sent"], leg["received"], leg["uniqueness"], leg["reliability"]) == (30, 60, 0.5, 1.0)
        assert leg["mode"] == "at least once"


def test_what_was_confirmed_and_is_gone_is_missing_and_not_in_flight(world: World) -> None:
    """Item 16: the last store went back to its first batch; the 14 messages beyond it are named, at the hop and end to end."""
    deliver(world)
    world.settle_all()
    for statement in (
        "delete from relaybox_internal.arrival where batch = 2",
        "delete from relaybox_internal.log where log_position > 16",
        "update relaybox_internal.hop_in set published_batch = 1, published_position = 16",
    ):
        world.query("analytics", statement)
    verification = verify(1)
    told = "ends at batch 1, position 16: 14 messages are confirmed and not there"
    for leg in (verification["hops"][1], verification["end_to_end"]):
        assert any(told in contradiction for contradiction in leg["contradictions"]), leg["contradictions"]
        assert Counter(kind for kind, _ in named(leg)) == {"missing": 14}
        assert (leg["sent"], leg["received"], leg["in_flight"], leg["reliability"]) == (30, 16, 0, pytest.approx(16 / 30))


def test_a_verification_beside_running_transfers_and_confirmations_finds_nothing_wrong(world: World) -> None:
    """Each ledger is read in one snapshot, in an order in which what is confirmed is there when it is looked for."""
    world.change_route(limits={"batch_rows": 16, "slice_rows": 8})
    is_verified = threading.Event()

    def move() -> None:
        """Twelve times, and until two verifications were made meanwhile."""
        deadline, moves = Deadline(60), 0
        while moves < 12 or not is_verified.is_set():
            assert not deadline.is_over()
            world.send_many(20)
            world.transfer_all()
            world.settle_all()
            moves += 1

    with ThreadPoolExecutor(1) as mover:
        moving = mover.submit(move)
        verifications = 0
        while not moving.done():
            verification = verify_route(world.route)
            assert verification.outcome != "defects", [
                (leg.name, leg.contradictions, leg.defects[:3]) for leg in verification.hops
            ]
            verifications += 1
            if verifications == 2:
                is_verified.set()
        moving.result()
    assert verify_route(world.route).outcome == "delivered"


def test_a_source_row_that_was_removed_after_it_was_copied_is_told(world: World) -> None:
    deliver(world)
    world.query("airline", "delete from relaybox.outbox where payload = 'UA1'")
    first = verify(1)["hops"][0]
    assert "slice 1 of batch 1 has 7 rows at airline, planned were 8" in " ".join(first["contradictions"])


LEDGER_BREAKS = {
    "a missing arrival": ("hub", "delete from relaybox_internal.arrival where batch = 1", "begins with batch 2 at position"),
    "another plan": (
        "hub",
        "update relaybox_internal.arrival set plan_id = gen_random_uuid() where batch = 2",
        "batch 2 is published with plan",
    ),
    "a missing receipt": (
        "hub",
        "delete from relaybox_internal.receipt where batch = 1 and slice = 1",
        "with 1 receipt of 2 slices",
    ),
    "a batch that the source forgot": (
        "airline",
        "delete from relaybox_internal.batch where batch = 2",
        "batch 2 is published but not in the ledger of the source",
    ),
    "a head behind its arrivals": (
        "hub",
        "update relaybox_internal.hop_in set published_position = published_position - 1",
        "through position 29; the newest arrival is batch 2 and ends at position 30",
    ),
    "a range that was read twice": (
        "airline",
        "update relaybox_internal.batch set first_position = 1, last_position = row_count where batch = 2",
        "batch 1 ends at position",
    ),
}


@pytest.mark.parametrize("case", LEDGER_BREAKS)
def test_ledgers_that_contradict_each_other_are_told(world: World, case: str) -> None:
    deliver(world)
    store, statement, said = LEDGER_BREAKS[case]
    world.query("airline", "drop index relaybox_internal.batch_last_position")
    world.query(store, statement)
    first = verify(1)["hops"][0]
    assert any(said in contradiction for contradiction in first["contradictions"]), first["contradictions"]


def test_verify_of_a_source_that_lost_history_says_what_to_do_and_counts_what_it_lists(world: World) -> None:
    deliver(world)
    world.query("airline", "delete from relaybox_internal.batch where batch = 2")
    verification = invoke("verify", "flights")
    said = " ".join(verification.stdout.split())
    assert verification.exit_code == 1
    assert "the source lost history. See what is missing with: relaybox reanchor flights/1" in said
    (first, *_) = invoke("verify", "flights", "--json").document["hops"]
    assert f"{len(first['contradictions'])} in the ledgers" in said


def test_an_id_that_a_producer_used_twice_is_a_note_and_no_defect(world: World) -> None:
    message_id = str(uuid4())
    for payload in ("first", "second"):
        world.query(
            "airline",
            "insert into relaybox.outbox (message_id, topic, sender, payload) values (%s, 'flights', 'UA', %s)",
            *(message_id, payload),
        )
    world.transfer_all()
    assert verify(0)["repeated_ids"] == [message_id]
    said = " ".join(invoke("verify", "flights").stdout.split())
    assert "producers gave 1 id to 2 messages: at analytics 2 are delivered, 0 are dropped" in said


def test_a_route_of_one_hop_is_its_own_end_to_end(world: World) -> None:
    world.change_route(path=["airline", "hub"])
    world.send("a", "b")
    world.transfer()
    verification = verify(0)
    assert (len(verification["hops"]), verification["end_to_end"]["received"]) == (1, 2)
    assert "end to end" not in invoke("verify", "flights").stdout  # it would be the hop's own row again


def test_all_defects_are_in_the_document_and_the_first_ones_on_the_terminal(world: World) -> None:
    world.send_many(60)
    world.transfer()
    world.query("hub", "update relaybox_internal.log set payload = 'broken'")
    assert len(verify(1)["hops"][0]["defects"]) == 60
    shown = invoke("verify", "flights").stdout
    assert shown.count("changed    ") == 20
    assert "and 40 more; --json names all" in shown
