"""G2: every committed outbox row is in exactly one batch of each hop that reads it, whatever the commit order."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any

import pytest

from relaybox.hops import planning
from relaybox.hops.batches import Bucket
from relaybox.hops.confirmations import confirm_arrived
from relaybox.hops.publishing import ask_destination
from relaybox.hops.transfer import Progress
from tests.support.breaking import transfer_until
from tests.support.patience import patience
from tests.support.world import World, insert, wait_until


def ledger(world: World) -> list[tuple[Any, ...]]:
    return world.query(
        "airline",
        "select batch, first_position, last_position, pair_exhausted, lower::text, upper::text from relaybox_internal.batch order by batch",
    )


def test_g2_a_late_commit_with_a_low_seq_is_in_the_next_batch(world: World) -> None:
    """A transaction that took its seq first and commits last is not skipped (a cursor over ids would skip it), and triggers pollers."""
    has_work = "select relaybox_internal.hop_has_work('flights/1')"
    with world.session() as late, world.session() as others:
        insert(late, "late")
        insert(others, "of no hop", topic="invoices")
        world.send("early 1", "early 2")
        world.transfer()
        assert world.payloads() == ["early 1", "early 2"]
        others.commit()
        assert world.value("airline", has_work) is False
        late.commit()
    assert world.value("airline", has_work) is True
    world.transfer()
    assert world.value("airline", has_work) is False
    assert world.payloads() == ["early 1", "early 2", "late"]


def test_g2_a_wide_pair_without_messages_is_skipped_and_forgets_no_late_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy outbox of other topics is not counted again at every poll; what was open when it was skipped is moved."""
    world.send("first")
    world.transfer()  # the first pair of a hop begins with the cluster: it is wide in one that has worked for long
    lower = "select lower::text from relaybox_internal.hop_out where hop = 'flights/1'"
    before = world.value("airline", lower)
    with world.session() as late:
        insert(late, "late")
        world.send("of no hop", topic="invoices")
        world.transfer()
        assert world.value("airline", lower) == before, "a narrow pair is read again"
        monkeypatch.setattr(planning, "SKIP_EMPTY_PAIR_TRANSACTIONS", 1)
        world.transfer()
        assert world.value("airline", lower) != before
        late.commit()
    assert world.value("airline", "select relaybox_internal.hop_has_work('flights/1')") is True
    world.transfer()
    assert world.payloads() == ["first", "late"]


def test_g2_an_open_transaction_delays_nobody_and_is_read_once(world: World) -> None:
    """Through ten batches one transaction stays open; then its messages arrive, once."""
    with world.session() as held:
        insert(held, "held 1", "held 2")
        for n in range(10):
            world.send(f"m{n}")
            world.transfer()
        assert world.payloads() == [f"m{n}" for n in range(10)]
        held.commit()
    world.transfer()
    assert world.payloads() == [*(f"m{n}" for n in range(10)), "held 1", "held 2"]
    world.transfer()
    assert len(world.payloads()) == 12


def test_g2_a_capped_backlog_is_cut_along_seq_inside_one_pair(world: World) -> None:
    """250 messages with batches of 60: five batches of one snapshot pair, nothing lost at the seams."""
    world.change_route(limits={"batch_rows": 60, "slice_rows": 25})
    world.send_many(250)
    summary = world.transfer()
    batches = ledger(world)
    assert summary.batch_count == len(batches) >= 5
    assert len({(lower, upper) for *_, lower, upper in batches}) == 1
    assert [exhausted for *_, exhausted, _, _ in batches] == [False] * (len(batches) - 1) + [True]
    assert all(last - first + 1 <= 60 for _, first, last, *_ in batches)
    assert world.payloads() == [f"m{n}" for n in range(1, 251)]


def test_g2_a_backlog_of_many_batches_is_counted_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first batch left of the pair is remembered by its driver; 250 rows in five batches are not counted five times."""
    counts: list[int] = []
    count_rows = planning._count_rows  # noqa: SLF001  # spied on, not replaced

    def counted(*arguments: Any) -> list[Bucket]:
        buckets = count_rows(*arguments)
        counts.append(sum(bucket.row_count for bucket in buckets))
        return buckets

    monkeypatch.setattr(planning, "_count_rows", counted)
    world.change_route(limits={"batch_rows": 60, "slice_rows": 25})
    world.send_many(250)
    world.transfer()
    assert world.payloads() == [f"m{n}" for n in range(1, 251)]
    assert [count for count in counts if count] == [250]


def test_g2_a_driver_that_was_overtaken_counts_the_rest_of_its_pair_anew(world: World) -> None:
    """Another driver moved the next batch meanwhile: what this one has counted begins with messages that are read already."""
    world.change_route(limits={"batch_rows": 60, "slice_rows": 25})
    world.send_many(250)
    overtake = iter([True])

    def be_overtaken(progress: Progress) -> None:
        if progress.published and next(overtake, False):
            transfer_until(world.first_hop, lambda other: other.published)

    world.transfer(progress=be_overtaken)
    assert world.payloads() == [f"m{n}" for n in range(1, 251)]


def test_g2_a_counted_rest_is_used_for_its_own_pair_only(world: World) -> None:
    """A driver's rest is believed when everything that it was counted for is as it was; else the rows are counted anew."""
    driver = planning.AttemptOwner("test")
    world.change_route(limits={"batch_rows": 60, "slice_rows": 25})
    world.send_many(250)
    hop = world.first_hop
    with world.store_session() as source, world.store_session("hub") as destination:
        first = planning.plan_batch(source, hop, ask_destination(destination, hop), driver=driver)
        assert first is not None
        assert first.rest is not None
        transfer_until(hop, lambda progress: progress.published)
        arrived = confirm_arrived(source, destination, hop, recorded_by="test")
        wrong = replace(first.rest, buckets=(replace(first.rest.buckets[0], row_count=1),))
        others = {"lower": "3:3:", "upper": "9:9:", "topics": ("other",), "reads_after": 0, "bucket_seqs": wrong.bucket_seqs * 2}
        rests = {"none": None, "all": wrong, **{field: replace(wrong, **{field: other}) for field, other in others.items()}}
        rows = {}
        for name, rest in rests.items():
            planned = planning._plan(source, hop, arrived, driver, rest)  # noqa: SLF001  # uncommitted
            assert planned is not None
            source.rollback()
            rows[name] = planned.batch.row_count
            assert planned.rest is None, "only so much of a piece is counted as a batch may hold"
    assert rows == {**dict.fromkeys(rests, rows["none"]), "all": 1}
    assert rows["none"] > 1


def test_g2_messages_sent_between_capped_batches_wait_for_the_next_pair(world: World) -> None:
    """New rows never enter a pair that is cut already, and none is forgotten when the pair ends."""
    world.change_route(limits={"batch_rows": 16, "slice_rows": 8})
    with world.session() as straggler:
        insert(straggler, "straggler")
        world.send_many(40)
        sent_between = iter(range(3))

        def send_one(progress: Any) -> None:
            if progress.published and (n := next(sent_between, None)) is not None:
                world.send(f"between {n}")
                straggler.commit()

        world.transfer(progress=send_one)
    assert sorted(world.payloads()) == sorted(world.sent())
    assert len(world.payloads()) == 44


def test_g2_only_the_route_s_topics_are_moved_and_others_stay_for_their_own_hop(world: World) -> None:
    """Messages of another topic are not taken, and do not disturb positions."""
    world.send("a")
    world.send("other", topic="invoices")
    world.send("b")
    world.transfer()
    assert world.payloads() == ["a", "b"]
    assert world.log_positions() == [1, 2]


def test_g2_a_changed_route_never_changes_a_planned_batch(world: World) -> None:
    """Topics are part of the batch row: a batch planned before the change is resumed as it was."""
    world.send("a")
    world.send("b", topic="invoices")
    plan_only(world)
    world.change_route(topics=["flights", "invoices"])
    world.send("c", topic="invoices")
    world.transfer()
    assert world.query("airline", "select topics from relaybox_internal.batch order by batch") == [
        (["flights"],),
        (["invoices"],),
        (["flights", "invoices"],),
    ]
    assert world.payloads() == ["a", "b", "c"]


def plan_only(world: World) -> None:
    """A driver that dies right after its plan is durable."""

    def die(progress: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.transfer(progress=die)


@pytest.mark.parametrize("batch_rows", [64, 100_000])
def test_g2_concurrent_producers_with_every_kind_of_transaction(world: World, batch_rows: int) -> None:
    """Eight writers (rollbacks, savepoints, two-phase, slow commits) beside the hop: the log is exactly what committed."""
    world.change_route(limits={"batch_rows": batch_rows, "slice_rows": 40})
    committed: list[set[str]] = [set() for _ in range(8)]
    writers = [threading.Thread(target=_write, args=(world, n, committed[n])) for n in range(8)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        world.transfer()
    for writer in writers:
        writer.join()
    world.transfer_all()
    expected = set().union(*committed)
    assert len(expected) > 300
    assert len(world.payloads()) == len(expected)
    assert set(world.payloads()) == expected
    assert world.payloads("flights/2") == world.payloads("flights/1")
    assert world.log_positions() == list(range(1, len(expected) + 1))


def _write(world: World, writer: int, committed: set[str]) -> None:
    rng = random.Random(writer)
    with world.session() as connection, connection.cursor() as cursor:
        for n in range(40):
            payloads = [f"{writer}-{n}-{k}" for k in range(rng.randint(1, 5))]
            kind = rng.choice(["plain", "plain", "rollback", "savepoint", "two-phase"])
            if kind == "two-phase":
                transaction = connection.xid(1, f"{writer}-{n}", "main")
                connection.tpc_begin(transaction)
                insert(connection, *payloads)
                connection.tpc_prepare()
                connection.tpc_commit()
                committed.update(payloads)
                continue
            insert(connection, *payloads)
            if kind == "savepoint":
                cursor.execute("savepoint s")
                insert(connection, f"{writer}-{n}-undone")
                cursor.execute("rollback to savepoint s")
            if kind == "rollback":
                connection.rollback()
            else:
                connection.commit()
                committed.update(payloads)


def test_g2_two_planners_never_see_time_run_backwards(world: World) -> None:
    """Lock in one statement, snapshot in a later one: a planner that waited takes a newer snapshot."""
    world.send("a")
    with world.session("airline") as first, first.cursor() as cursor:
        cursor.execute("select * from relaybox_internal.lock_hop('flights/1')")
        done: list[object] = []
        second = threading.Thread(target=lambda: done.append(world.transfer()))
        second.start()
        wait_until(
            lambda: (
                world.value(
                    "airline",
                    "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name like '%% driver'",
                )
                == 1
            ),
            "the second planner waits for the first",
        )
        world.send("b")
        first.rollback()
        second.join(patience(30))
    assert done
    assert world.payloads() == ["a", "b"]
    snapshots = world.query(
        "airline",
        "select pg_snapshot_xmax(lower)::text::bigint, pg_snapshot_xmax(upper)::text::bigint from relaybox_internal.batch order by batch",
    )
    assert all(lower <= upper for lower, upper in snapshots)


def test_g2_an_empty_hop_makes_no_batch(world: World) -> None:
    """Polling an idle hop writes nothing to its ledger."""
    for _ in range(3):
        assert world.transfer().batch_count == 0
    assert ledger(world) == []


def test_g2_messages_that_fell_into_the_overflow_are_moved_and_become_a_segment(world: World) -> None:
    """Producers that outrun every segment made ahead are not refused, and nothing of theirs is lost."""
    covered = world.value("airline", "select relaybox_internal.outbox_covered()")
    world.send("before")
    world.query("airline", "select setval('relaybox.outbox_seq', %s)", covered + 5)
    world.send_many(50, prefix="overflow ")
    assert world.value("airline", "select count(*) from relaybox_internal.outbox_overflow") == 50
    world.transfer()
    assert world.payloads() == ["before", *(f"overflow {n}" for n in range(1, 51))]
    assert world.value("airline", "select count(*) from relaybox_internal.outbox_overflow") == 0
    assert world.value("airline", "select relaybox_internal.outbox_covered()") > covered
    world.send("after")
    world.transfer()
    assert world.payloads()[-1] == "after"


def test_g2_a_wide_hole_in_seq_makes_slices_end_before_it(world: World) -> None:
    """A jump of the sequence by millions costs nobody a scan, and no message."""
    world.change_route(limits={"batch_rows": 1000, "slice_rows": 10})
    world.send("a", "b")
    world.query("airline", "select setval('relaybox.outbox_seq', 5000000)")
    world.send("c")
    world.transfer()
    assert world.payloads() == ["a", "b", "c"]
    assert world.value("airline", "select jsonb_array_length(slices) from relaybox_internal.batch") == 2
