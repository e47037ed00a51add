"""Making segments waits for nobody: a transaction left open, or a dump that runs for hours, delays neither hop nor producers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg2
import pytest

from relaybox.routes import Routes, Store
from relaybox.stores.init.all_stores import check_store
from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.world import World, insert, wait_until

OVERFLOW_ROWS = "select count(*) from relaybox_internal.outbox_overflow"


def jump(world: World, seq: int) -> None:
    world.query("airline", "select setval('relaybox.outbox_seq', %s)", seq)


def test_g2_rows_of_the_overflow_are_moved_while_a_transaction_is_open(world: World) -> None:
    """A producer that is still open keeps the overflow from becoming a segment, and nothing else from moving."""
    with world.session() as held:
        insert(held, "held")
        jump(world, 200_000)
        world.send("in the overflow")
        world.transfer()
        assert world.payloads() == ["in the overflow"]
        assert world.value("airline", OVERFLOW_ROWS) == 1
        held.commit()
    world.transfer()
    assert world.payloads() == ["in the overflow", "held"]
    assert world.value("airline", OVERFLOW_ROWS) == 0


def test_g2_a_long_reader_of_the_outbox_keeps_no_hop_waiting(world: World) -> None:
    """A dump holds all tables when the next segment is due: it is made by a later run."""
    with world.session() as dump, dump.cursor() as cursor:
        cursor.execute("lock table relaybox.outbox in access share mode")
        jump(world, 30_000)
        world.send("a")
        world.transfer()
        covered = world.value("airline", "select relaybox_internal.outbox_covered()")
        dump.rollback()
    world.transfer()
    assert world.payloads() == ["a"]
    assert world.value("airline", "select relaybox_internal.outbox_covered()") > covered


LOCK_WAITS = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.mark.parametrize("seq", [200_000, 49_998], ids=["beyond all segments", "at the end of the last one"])
def test_g1_a_producer_never_fails_because_its_segment_is_being_made(world: World, seq: int) -> None:
    """While it waits for the overflow, the segment of its seq appears."""
    assert world.value("airline", "select relaybox_internal.outbox_covered()") == 50_000
    jump(world, seq)
    with world.session() as maker, ThreadPoolExecutor(1) as pool:
        with maker.cursor() as cursor:
            cursor.execute("select relaybox_internal.ensure_outbox_segments()")
            assert cursor.fetchone()[0]
        producer = pool.submit(world.send, "first", "in time")
        wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "the producer waits for the maker")
        maker.commit()
        producer.result(patience(30))
    world.transfer()
    assert world.payloads() == ["first", "in time"]


def overflow(world: World) -> tuple[str, str, str]:
    """What doctor says of the overflow: severity, what, and what to do."""
    report = invoke("doctor", "airline", "--json").document["stores"][0]
    [one] = [one for one in report["results"] if one["check"] == "overflow"]
    return one["severity"], one["what"], one["next_step"]


def drain(next_step: str) -> None:
    """Runs the statement at the end of what doctor says."""
    with closing(psycopg2.connect(service="airline")) as owner, owner.cursor() as cursor:
        owner.autocommit = True
        cursor.execute(next_step[next_step.index("begin;") :])


def test_doctor_names_who_keeps_the_overflow_from_becoming_a_segment(world: World) -> None:
    """And a statement that waits for them, where a driver does not."""
    assert overflow(world)[0] == "ok"
    with world.session() as held, ThreadPoolExecutor(1) as pool:
        insert(held, "held")
        jump(world, 200_000)
        world.send("in the overflow")
        world.transfer()
        severity, what, _ = overflow(world)
        assert (severity, "1 message of the outbox is in no segment but in its overflow, seq 200001 to 200001" in what) == (
            "notice",
            True,
        ), what
        world.query("airline", "update relaybox_internal.outbox_overflow set sent_at = sent_at - interval '10 minutes'")
        severity, what, next_step = overflow(world)
        pid = held.info.backend_pid
        assert (severity, f"pid {pid}, login" in what, "idle in transaction since" in what) == ("warning", True, True), what
        assert f"select pg_terminate_backend({pid})" in next_step
        drained = pool.submit(drain, next_step)
        wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "the statement waits for the transaction")
        held.commit()
        drained.result(patience(30))
    assert world.value("airline", OVERFLOW_ROWS) == 0
    assert overflow(world)[0] == "ok"
    jump(world, 2_000_000)
    world.send("nobody is here")
    world.query("airline", "update relaybox_internal.outbox_overflow set sent_at = sent_at - interval '10 minutes'")
    severity, what, next_step = overflow(world)
    assert (severity, "No transaction has the outbox now" in what) == ("warning", True), what
    drain(next_step)
    assert world.value("airline", OVERFLOW_ROWS) == 0
    world.transfer()
    assert world.payloads() == ["in the overflow", "held", "nobody is here"]


PATIENT_MAKER = "alter function relaybox_internal.ensure_outbox_segments set lock_timeout = '60s'"


def test_a_maker_sees_what_was_sent_while_it_waited_for_its_lock(world: World) -> None:
    """The sequence was in the second segment when it began, and is beyond the last one when it has the lock."""
    world.query("airline", PATIENT_MAKER)
    jump(world, 10_001)
    with world.session() as other, other.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("lock table only relaybox.outbox in share update exclusive mode")
        made = pool.submit(world.value, "airline", "select relaybox_internal.ensure_outbox_segments()")
        wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "the maker waits for its lock")
        jump(world, 49_999)
        with world.session() as producer:
            insert(producer, "in the overflow")
            other.rollback()
            wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "the maker waits for the producer")
            producer.commit()
        assert made.result(patience(30))
    assert world.value("airline", OVERFLOW_ROWS) == 0
    world.transfer()
    assert world.payloads() == ["in the overflow"]


def test_retention_beside_a_maker_that_waits_is_busy_and_no_error(world: World) -> None:
    """Each holds what the other wants: Postgres ends one of them."""
    world.query("airline", PATIENT_MAKER)
    world.change_route(retention={"replay_window_seconds": 0})
    world.register()
    world.send("a")
    jump(world, 49_999)
    world.send("in the overflow")
    world.transfer_all()
    world.settle_all()
    jump(world, 500_000)
    world.send("in the overflow again")
    with world.session() as retention, retention.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("lock table relaybox.outbox in access share mode")  # its first lock, held before the maker comes
        made = pool.submit(world.value, "airline", "select relaybox_internal.ensure_outbox_segments()")
        wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "the maker waits for retention")
        cursor.execute("select outcome, holder from relaybox_internal.drop_oldest_segment(null, 'test')")
        [(outcome, holder)] = cursor.fetchall()
        retention.commit()
        made.result(patience(30))
    assert outcome == "busy"
    assert "active since" in holder
    assert world.query("airline", "select outcome from relaybox_internal.drop_oldest_segment(null, 'test')") == [("dropped",)]


@pytest.mark.parametrize("init", [initialise_store, partial(check_store, older=False)], ids=["init", "plan"])
def test_init_holds_no_lock_on_the_outbox_while_it_waits_for_a_hop(world: World, init: Callable[[Store, Routes], object]) -> None:
    """A planner holds its hop and then reads the outbox; init has rows of the overflow to move, and waits for the hop."""
    jump(world, 200_000)
    world.send("in the overflow")
    with world.session() as planner, planner.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("select from relaybox_internal.hop_out for update")
        done = pool.submit(init, world.routes.store("airline"), world.routes)
        wait_until(lambda: world.value("airline", LOCK_WAITS) == 1, "init waits for the planner")
        cursor.execute("set local lock_timeout = '100ms'")
        cursor.execute("select count(*) from relaybox.outbox")
        assert cursor.fetchall() == [(1,)]
        planner.commit()
        done.result(patience(30))
    assert world.value("airline", OVERFLOW_ROWS) == (0 if init is initialise_store else 1)
