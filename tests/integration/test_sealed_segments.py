"""Full segments of the outbox are sealed: they take no row any more, no producer is refused for it, and no hop loses a message."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest

from relaybox import errors
from relaybox.hops import sealing
from relaybox.hops.idle_hops import pass_idle_hops
from relaybox.hops.sealing import NOTHING_NOTED, WritersNoted, seal_segments
from relaybox.retention.segments import retain_store
from tests.support.cli import invoke
from tests.support.world import World, insert, routes_file, wait_until

SEALED = "select coalesce(array_agg(first_seq || '-' || last_seq order by last_seq), '{}') from relaybox_internal.sealed_segment"
BOUND = "select relaybox_internal.sealed_through(lower) from relaybox_internal.hop_out where hop = %s"
PUT = "insert into relaybox.outbox (seq, topic, sender, payload) values (%s, 'flights', 'UA', 'late')"


@pytest.fixture
def small(world: World) -> World:
    """Segments of ten rows: seqs 0 to 9, 10 to 19, ..."""
    world.cut_small_segments()
    return world


def seal(world: World, noted: WritersNoted = NOTHING_NOTED) -> WritersNoted:
    with world.store_session() as source:
        return seal_segments(source, noted)


def sealed(world: World) -> list[str]:
    found: list[str] = world.value("airline", SEALED)
    return found


def take_seq(connection: Any) -> int:
    """As a producer whose insert has its seq and has not come to its segment."""
    with connection.cursor() as cursor:
        cursor.execute("lock table relaybox.outbox in row exclusive mode")
        cursor.execute("select nextval('relaybox.outbox_seq')")
        return int(cursor.fetchone()[0])


def put(connection: Any, seq: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(PUT, (seq,))


def test_full_segments_are_sealed_from_the_oldest_on(small: World) -> None:
    small.send_many(25)
    assert seal(small) == WritersNoted(25, [])
    assert sealed(small) == ["0-9", "10-19"]
    assert seal(small) == NOTHING_NOTED
    small.query("airline", "select relaybox_internal.ensure_outbox_segments(30)")
    small.send_many(250)
    seal(small)
    assert sealed(small)[-2:] == ["250-259", "260-269"], "more than one transaction seals"
    assert len(sealed(small)) == 27
    small.transfer_all()
    assert len(small.payloads("flights/2")) == 275


@pytest.mark.parametrize("setting", ["origin", "replica"])
def test_a_row_for_a_sealed_segment_is_refused_aloud(small: World, setting: str) -> None:
    """In a session that runs no usual triggers too; by whatever way it comes."""
    with small.session() as gap:
        insert(gap, "rolled back")  # seq 1 is of no row
        small.send_many(24)
    seal(small)
    with small.session() as late, late.cursor() as cursor:
        cursor.execute(f"set session_replication_role = {setting}")
        late.commit()
        for statement in (
            "insert into relaybox.outbox (seq, topic, sender, payload) values (1, 'flights', 'UA', 'late')",
            "insert into relaybox_internal.outbox_s000000 (seq, topic, sender, payload) values (1, 'flights', 'UA', 'late')",
            "insert into relaybox.outbox (seq, topic, sender, payload) select 1, 'flights', 'UA', 'late'",
            "update relaybox.outbox set seq = 1 where seq = 24",
        ):
            with pytest.raises(psycopg2.Error, match="seq 1 is in segment outbox_s000000, which is sealed") as refused:
                cursor.execute(statement)
            assert refused.value.pgcode == "RB009"
            late.rollback()


def test_the_sequence_set_back_into_a_sealed_segment_refuses_producers_until_init(small: World) -> None:
    """Before, such a row was put where every hop had read. None is lost: the producer is told, and sends again."""
    with small.session() as gap:
        insert(gap, "rolled back")
        small.send_many(24)
    seal(small)
    small.query("airline", "select setval('relaybox.outbox_seq', 1, false)")
    with pytest.raises(psycopg2.Error, match=r"sequence relaybox\.outbox_seq is at 1") as refused:
        small.send("late")
    assert "run: relaybox init airline" in str(refused.value)
    small.initialise()
    small.send("again")
    small.transfer()
    assert small.payloads()[-1] == "again"
    assert len(small.payloads()) == 25


def test_the_sequence_set_back_into_sealed_segments_without_later_rows_is_a_defect_that_init_repairs(small: World) -> None:
    """The transactions whose seqs came last were rolled back, so no row is above the sequence, and its segment is sealed."""
    small.send_many(12)
    with small.session() as gap:
        for number in range(19):
            insert(gap, f"rolled back {number}")
    seal(small)
    assert sealed(small) == ["0-9", "10-19", "20-29"]
    small.query("airline", "select setval('relaybox.outbox_seq', 13)")
    told = "sequence relaybox.outbox_seq was set back: it is at 13, segments through 29 are sealed and refuse each insert"
    defects = "select defect from relaybox_internal.list_sequence_defects()"
    assert small.query("airline", defects) == [(told,)]
    assert told in " ".join(invoke("doctor", "airline").stdout.split())
    with pytest.raises(psycopg2.Error, match=r"sequence relaybox\.outbox_seq is at 14"):
        small.send("late")
    small.initialise()
    assert small.query("airline", defects) == []
    small.send("again")
    assert small.value("airline", "select max(seq) from relaybox.outbox") == 30
    small.transfer()
    assert len(small.payloads()) == 13


def test_a_call_seals_no_more_segments_than_it_may_and_the_next_one_goes_on(
    small: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver that finds thousands of full segments does not seal for minutes before it moves a message. It tells how far it is."""
    monkeypatch.setattr(sealing, "SEALING_TRANSACTIONS", 1)
    for _ in range(15):
        small.query("airline", "select relaybox_internal.ensure_outbox_segments()")
        small.send_many(30)
    noted = NOTHING_NOTED
    counts = []
    caplog.set_level("INFO", logger="relaybox")
    for _ in range(3):
        noted = seal(small, noted)
        counts.append(len(sealed(small)))
    assert counts == [20, 40, 45]
    told = [message for message in caplog.messages if message.startswith("outbox_segments_sealed")]
    assert told == [
        f"outbox_segments_sealed store=airline segments={count} has_more={has_more}"
        for count, has_more in ((20, True), (20, True), (5, False))
    ]
    assert small.value("airline", "select max(last_seq) from relaybox_internal.sealed_segment") == 449
    small.transfer()
    assert len(small.payloads()) == 450


def test_a_statement_that_is_larger_than_the_segments_ahead_fails_whole_if_segments_are_made_meanwhile(small: World) -> None:
    """Postgres knows the segments of the beginning of a statement. It refuses rows whose segment came later; nothing of it is kept."""
    statement = (
        "insert into relaybox.outbox (topic, sender, payload) select 'flights', 'UA', "
        "n || case when n = 2 then pg_advisory_xact_lock(7)::text else '' end from generate_series(1, 100) n"
    )
    ensure = "select relaybox_internal.ensure_outbox_segments()"
    small.query("airline", ensure)
    small.send_many(15)
    with (
        small.session() as holder,
        small.session() as large,
        ThreadPoolExecutor(1) as pool,
        holder.cursor() as cursor,
        large.cursor() as inserting,
    ):
        cursor.execute("select pg_advisory_lock(7)")
        running = pool.submit(inserting.execute, statement)
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted and objid = 7"
        wait_until(lambda: small.value("airline", waiting) == 1, "the statement waits in its second row")
        assert small.value("airline", ensure) != []
        cursor.execute("select pg_advisory_unlock(7)")
        with pytest.raises(psycopg2.errors.CheckViolation, match="outbox_overflow"):
            running.result()
    assert small.value("airline", "select count(*) from relaybox.outbox") == 15
    small.query("airline", statement)
    small.transfer()
    assert len(small.payloads()) == 115


def test_no_producer_is_refused_that_took_its_seq_before(small: World) -> None:
    """Its insert may be on the way to the segment. It is waited for, without a lock; those who come later are not."""
    with small.session() as slow, small.session() as other:
        seq = take_seq(slow)
        small.send_many(30)
        noted = seal(small)
        assert noted.through_seq == 31
        assert len(noted.writers or ()) == 1
        insert(other, "began later")
        assert seal(small, noted) == noted
        assert sealed(small) == []
        put(slow, seq)
        slow.commit()
        later = seal(small, noted)
        assert sealed(small) == ["0-9", "10-19", "20-29"]
        assert later.through_seq == 32
        other.commit()
    small.transfer()
    assert sorted(small.payloads()) == sorted(["late", "began later", *(f"m{n}" for n in range(1, 31))])


def test_those_who_wrote_first_are_waited_for_and_nobody_else(small: World) -> None:
    """Else a store where somebody always writes would never seal; and a segment that filled later waits for its own writers."""
    with small.session() as first, small.session() as second:
        insert(first, "a")
        small.send_many(15)
        noted = seal(small)
        insert(second, "b")
        small.send_many(20)
        first.commit()
        noted = seal(small, noted)
        assert sealed(small) == ["0-9"], "the second segment has a seq of a transaction that is open"
        assert (noted.through_seq, len(noted.writers or ())) == (37, 1)
        second.commit()
        seal(small, noted)
        assert sealed(small) == ["0-9", "10-19", "20-29"]


def test_a_segment_with_a_row_of_an_open_transaction_is_not_sealed(small: World) -> None:
    """Although the caller says that nobody is to be waited for: the lock of the segment says it."""
    with small.session() as writing:
        insert(writing, "open")
        small.send_many(25)
        seal(small, WritersNoted(25, []))
        assert sealed(small) == []
        writing.commit()
    seal(small)
    assert sealed(small) == ["0-9", "10-19"]


def test_a_message_that_was_open_at_the_hops_snapshot_is_moved_after_the_segment_is_sealed(small: World) -> None:
    """The snapshot ends where the number of the seal begins: the hop still looks at the segment."""
    with small.session() as late:
        insert(late, "late")
        small.send_many(25)
        small.transfer()
        snapshot = small.value("airline", "select pg_current_snapshot()::text")
        late.commit()
    seal(small)
    # a planner that records its snapshot only now
    small.query("airline", "update relaybox_internal.hop_out set lower = %s", snapshot)
    assert sealed(small) == ["0-9", "10-19"]
    assert small.value("airline", BOUND, "flights/1") == 0
    assert small.value("airline", "select relaybox_internal.hop_has_work('flights/1')") is True
    assert small.value("airline", "select has_work from relaybox_internal.hops_with_work() where hop = 'flights/1'") is True
    small.transfer()
    assert small.payloads()[-1] == "late"


def test_a_hop_whose_snapshot_is_older_than_the_seal_moves_what_is_in_the_segment(small: World) -> None:
    """Each hop has its own bound."""
    routes_file(small.path.parent, more_routes={"invoices": {"topics": ["invoices"], "path": ["airline", "hub"]}})
    small.register()
    small.send("invoice 1", topic="invoices")
    small.send_many(24)
    small.transfer()
    seal(small)
    small.send_many(1)
    small.transfer()
    assert small.value("airline", BOUND, "flights/1") == 19
    assert small.value("airline", BOUND, "invoices/1") == 0
    small.transfer(small.routes.hop("invoices/1"))
    assert small.payloads("invoices/1") == ["invoice 1"]


def test_an_open_transaction_elsewhere_does_not_keep_a_hop_at_sealed_segments(small: World) -> None:
    """It has no row in them, or they would not be sealed."""
    with small.session() as elsewhere, elsewhere.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()")
        small.send_many(25)
        seal(small)
        small.send_many(1)
        small.transfer()
        assert small.value("airline", BOUND, "flights/1") == 19


def test_a_sealing_transaction_is_fresh(small: World) -> None:
    """Its number says that it is later than all rows: one that has a number could be earlier than a row."""
    small.send_many(25)
    for begin in ("select pg_current_xact_id()", "set transaction isolation level repeatable read"):
        with small.session() as session, session.cursor() as cursor:
            cursor.execute(begin)
            with pytest.raises(psycopg2.Error, match="fresh READ COMMITTED") as refused:
                cursor.execute("select * from relaybox_internal.seal_outbox_segments()")
            assert refused.value.pgcode == "RB002"


def test_two_that_seal_at_once_seal_each_segment_once(small: World) -> None:
    small.query("airline", "select relaybox_internal.ensure_outbox_segments(10)")
    small.send_many(95)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: seal(small), range(8)))
    seal(small)
    assert len(sealed(small)) == 9
    small.send("b")
    small.transfer()
    assert len(small.payloads()) == 96


def test_a_segment_with_a_row_of_a_transaction_that_has_not_begun_is_not_sealed(small: World) -> None:
    """Somebody wrote its number by hand: the row is moved when the number has come, as before."""
    small.send_many(25)
    small.query("airline", "update relaybox.outbox set xid = '900000000' where seq = 15")
    seal(small)
    assert sealed(small) == ["0-9"]


def test_seals_that_came_with_a_dump_count_for_nothing(small: World) -> None:
    """Its transaction numbers are those of another cluster: nothing is left out, refused or sealed until it is reanchored."""
    with small.session() as gap:
        insert(gap, "rolled back")
        small.send_many(24)
    seal(small)
    small.send("b")
    small.transfer()
    assert small.value("airline", BOUND, "flights/1") == 19
    # a reload writes each row in a transaction of its own
    small.query("airline", "update relaybox_internal.sealed_segment set sealed_at = sealed_at")
    assert small.value("airline", BOUND, "flights/1") == 0
    small.query("airline", PUT, 1)
    small.query("airline", "update relaybox_internal.numbering set numbering = numbering")
    seal(small)
    assert small.value("airline", "select relaybox_internal.sealed_through(pg_current_snapshot())") == 0
    small.query("airline", "update relaybox_internal.numbering set xid = pg_current_xact_id()")
    seal(small)
    assert sealed(small) == ["0-9", "10-19"], "the same rows, sealed anew"
    small.transfer()
    assert small.payloads()[-1] == "late"
    assert small.value("airline", BOUND, "flights/1") == 19


def test_verify_finds_a_row_that_was_forced_into_a_sealed_segment(small: World) -> None:
    """The owner can take the trigger away. Then no hop moves the row, and the law of conservation is broken."""
    with small.session() as gap:
        insert(gap, "rolled back")
        small.send_many(24)
    seal(small)
    small.send("b")
    small.transfer()
    small.query("airline", "drop trigger refuse_late_row on relaybox_internal.outbox_s000000")
    small.query("airline", PUT, 1)
    small.send("c")
    small.transfer()
    assert small.payloads()[-1] == "c"
    account = small.query("airline", "select missing_count from relaybox_internal.account_for_outbox('{flights/1}', 0, 1000)")
    assert account == [(1,)]


def test_stray_rows_before_all_segments_are_still_seen(small: World) -> None:
    """A sequence that was set back behind dropped segments: the poll says that there is work, and the transfer what is wrong."""
    small.change_route(retention={"replay_window_seconds": 0})
    small.send_many(25)
    small.transfer_all()
    small.settle_all()
    retain_store(small.routes.store("airline"), recorded_by="test")
    assert small.value("airline", "select first_kept_seq from relaybox_internal.store") == 20
    small.send_many(12)
    small.transfer()
    assert sealed(small) == ["20-29"]
    small.query("airline", "select setval('relaybox.outbox_seq', 5)")
    small.send("stray")
    assert small.value("airline", "select relaybox_internal.hop_has_work('flights/1')") is True
    assert small.value("airline", "select has_work from relaybox_internal.hops_with_work() where hop = 'flights/1'") is True
    with pytest.raises(errors.OutboxChanged, match="1 messages lie before it"):
        small.transfer()
    small.initialise(segment_rows=10)
    small.transfer()
    assert small.payloads()[-1] == "stray"


def test_drivers_and_retention_seal(small: World) -> None:
    small.send_many(25)
    small.transfer()
    assert sealed(small) == ["0-9", "10-19"]
    small.send_many(10)
    retain_store(small.routes.store("airline"), recorded_by="test")
    assert sealed(small) == ["0-9", "10-19", "20-29"]


def test_a_dropped_segment_has_no_seal(small: World) -> None:
    small.change_route(retention={"replay_window_seconds": 0})
    small.send_many(35)
    small.transfer_all()
    small.settle_all()
    assert sealed(small) == ["0-9", "10-19", "20-29"]
    retain_store(small.routes.store("airline"), recorded_by="test")
    assert sealed(small) == []
    small.send_many(10)
    small.transfer_all()
    assert sealed(small) == ["30-39"]
    assert len(small.payloads("flights/2")) == 45


@pytest.fixture
def idle(small: World) -> World:
    """The hop invoices/1 has moved a message, and has nothing to move since."""
    routes_file(small.path.parent, more_routes={"invoices": {"topics": ["invoices"], "path": ["airline", "hub"]}})
    small.register()
    small.send("invoice 1", topic="invoices")
    small.transfer(small.routes.hop("invoices/1"))
    return small


def test_idle_hops_are_moved_past_sealed_segments(idle: World) -> None:
    """By the driver of another hop, and by their own: a few transactions fill a segment of a busy store."""
    idle.send_many(24)
    seal(idle)
    with idle.store_session() as source:
        assert pass_idle_hops(source, beside=idle.first_hop.name) == 1
        assert pass_idle_hops(source, beside=idle.first_hop.name) == 0
    assert idle.value("airline", BOUND, "invoices/1") == 19
    idle.send_many(10)
    seal(idle)
    idle.transfer(idle.routes.hop("invoices/1"))
    assert idle.value("airline", BOUND, "invoices/1") == 29
