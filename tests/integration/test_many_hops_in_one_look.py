"""A report on a store, and its retention, ask in as many statements for many hops as for one."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from relaybox.errors import UnknownMessage
from relaybox.hops.confirmations import settle_hop
from relaybox.monitoring.message_trace import trace_message
from relaybox.monitoring.status import read_status
from relaybox.retention.segments import read_retention, retain_store
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.world import World, insert, routes_file


def name_routes(world: World, count: int) -> list[str]:
    """A route for each of so many topics beside flights; all of them keep nothing for a replay."""
    names = [f"other{number}" for number in range(count)]
    kept = {"retention": {"replay_window_seconds": 0}}
    more = {name: {"topics": [name], "path": ["airline", "hub"], **kept} for name in names}
    routes_file(world.path.parent, route=kept, more_routes=more)
    world.register()
    return names


def statements(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> int:
    """How many cursors are opened, by all stores: one for each statement."""
    opened = []
    cursor = StoreSession.cursor
    with monkeypatch.context() as patched:
        patched.setattr(StoreSession, "cursor", lambda session: opened.append(session.store) or cursor(session))
        do()
    return len(opened)


def test_more_hops_are_asked_for_in_no_more_statements(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> dict[str, int]:
        routes = world.routes
        stores = [routes.stores[name] for name in ("airline", "hub")]
        return {
            "status": statements(monkeypatch, lambda: read_status(routes)),
            "retention --dry-run": statements(monkeypatch, lambda: [read_retention(store) for store in stores]),
            "retention": statements(monkeypatch, lambda: [retain_store(store, recorded_by="test") for store in stores]),
        }

    name_routes(world, 1)
    world.send("m")
    world.send("m", topic="other0")
    for hop in ("flights/1", "other0/1"):
        world.transfer(world.routes.hop(hop))
    few = count()
    for name in name_routes(world, 9):
        world.send("m", topic=name)
        world.transfer(world.routes.hop(f"{name}/1"))
        world.send("more", topic=name)
    many = count()
    # a reader that hears of some hops before others asks twice
    assert {what: many[what] - few[what] for what in few if many[what] > few[what] + 2} == {}, (few, many)


def test_retention_still_removes_what_one_of_many_logs_and_ledgers_has(world: World) -> None:
    world.cut_small_segments()
    names = name_routes(world, 3)
    for name in names:
        world.send(*[f"{name} {number}" for number in range(25)], topic=name)
        world.transfer(world.routes.hop(f"{name}/1"))
    hub, airline = world.routes.stores["hub"], world.routes.stores["airline"]
    assert world.query("hub", "select * from relaybox_internal.ledgers_to_compact()") == []
    world.query("hub", "select relaybox.subscribe('reader', 'other1', 'earliest')")
    found = {table.hop: table for table in retain_store(hub, recorded_by="test").tables}
    assert {hop: (table.dropped_count, table.outcome, table.holder) for hop, table in found.items() if hop} == {
        "flights/1": (0, "kept", "newest flights/1"),
        "other0/1": (2, "kept", "newest other0/1"),
        "other1/1": (0, "kept", "subscription reader"),
        "other2/1": (2, "kept", "newest other2/1"),
    }
    for name in names:
        world.send("the last one", topic=name)
        hop = world.routes.hop(f"{name}/1")
        world.transfer(hop)
        settle_hop(world.routes.route(name), hop, recorded_by="test")
    dropped = retain_store(airline, recorded_by="test")
    assert dropped.tables[0].dropped_count > 0
    compacted = world.value("airline", "select count(*) from relaybox_internal.hop_out where compacted_batch > 0")
    assert dropped.compacted_count == compacted > 0
    assert world.query("airline", "select * from relaybox_internal.ledgers_to_compact()") == []


def test_what_lies_before_the_anchor_of_a_hop_does_not_wait_for_it(world: World) -> None:
    """Each hop has its own, where it was reanchored; the others count the same rows."""
    name_routes(world, 2)
    for name in ("flights", "other0", "other1"):
        world.send("a", "b", "c", topic=name)
    world.query(
        "airline",
        "update relaybox_internal.hop_out set anchor_seq = case hop when 'other0/1' then 5 when 'other1/1' then 8 else 0 end",
    )
    states = "select hop, waiting_count from relaybox_internal.sending_states(array(select hop from relaybox_internal.hop_out)) order by 1"
    assert world.query("airline", states) == [("flights/1", 3), ("other0/1", 1), ("other1/1", 1)]
    first = (
        "select hop, first_seq from relaybox_internal.outbox_waiting(array(select h from relaybox_internal.hop_out h)) order by 1"
    )
    assert world.query("airline", first) == [("flights/1", 1), ("other0/1", 6), ("other1/1", 9)]


def test_each_of_two_hops_of_one_topic_has_an_account_of_its_own(world: World) -> None:
    """What one has moved waits for the other."""
    more = {"again": {"topics": ["flights", "more"], "path": ["airline", "hub"]}}
    routes_file(world.path.parent, more_routes=more)
    world.register()
    world.send("a", "b", "c")
    world.send("d", "e", topic="more")
    world.transfer()
    world.send("f")
    states = "select hop, waiting_count from relaybox_internal.sending_states(array['again/1', 'flights/1']) order by 1"
    assert world.query("airline", states) == [("again/1", 6), ("flights/1", 1)]
    account = """
        select hop, topic, committed_count, planned_count + delivered_count, waiting_count, missing_count, doubled_count
        from relaybox_internal.account_for_outbox(array['again/1', 'flights/1'], 0, 1000000) order by 1, 2
    """
    assert world.query("airline", account) == [
        ("again/1", "flights", 4, 0, 4, 0, 0),
        ("again/1", "more", 2, 0, 2, 0, 0),
        ("flights/1", "flights", 4, 3, 1, 0, 0),
    ]
    world.transfer(world.routes.hop("again/1"))
    assert world.query("airline", states) == [("again/1", 0), ("flights/1", 1)]


def test_what_was_open_when_a_hop_planned_is_in_its_account(world: World) -> None:
    """Its transaction is older than the newest snapshot of each hop, which knows it as open."""
    name_routes(world, 1)
    with world.session() as early:
        insert(early, "early")
        world.send("late")
        world.send("late", topic="other0")
        world.transfer()
        world.transfer(world.routes.hop("other0/1"))
        early.commit()
    account = """
        select hop, committed_count, planned_count + delivered_count, waiting_count, missing_count
        from relaybox_internal.account_for_outbox(array['flights/1', 'other0/1'], 0, 1000000) order by 1
    """
    assert world.query("airline", account) == [("flights/1", 2, 1, 1, 0), ("other0/1", 1, 1, 0, 0)]
    states = "select hop, waiting_count from relaybox_internal.sending_states(array['flights/1', 'other0/1']) order by 1"
    assert world.query("airline", states) == [("flights/1", 1), ("other0/1", 0)]


def opened_segments(world: World, message_id: str) -> list[str]:
    """The segments that a search for an id has locked."""
    with world.session() as session, session.cursor() as cursor:
        cursor.execute("select count(*) from relaybox_internal.trace_sent(%s)", (message_id,))
        cursor.execute(
            """
            select l.relation::regclass::text from pg_locks l join pg_inherits i on i.inhrelid = l.relation
            where i.inhparent = 'relaybox.outbox'::regclass and l.pid = pg_backend_pid() order by 1
            """
        )
        return [name for (name,) in cursor.fetchall()]


@pytest.fixture
def sealed(world: World) -> World:
    """Twelve segments of ten messages, ten of them sealed."""
    world.cut_small_segments()
    for number in range(12):
        world.send(*[f"{number} {each}" for each in range(10)])
        world.transfer()
    for _ in range(2):
        world.query("airline", "select relaybox_internal.seal_outbox_segments()")
    assert world.value("airline", "select count(*) from relaybox_internal.sealed_segment") >= 10
    return world


def seqs_of(world: World, message_id: str) -> list[int]:
    return [seq for (seq,) in world.query("airline", "select seq from relaybox_internal.trace_sent(%s) order by seq", message_id)]


def test_each_message_is_found_by_its_id_and_few_segments_are_opened_for_it(sealed: World) -> None:
    ids = dict(sealed.query("airline", "select seq, message_id::text from relaybox.outbox"))
    assert {seq: seqs_of(sealed, message_id) for seq, message_id in ids.items()} == {seq: [seq] for seq in ids}
    unsealed = opened_segments(sealed, "ffffffff-ffff-4fff-bfff-ffffffffffff")
    names = sealed.query("airline", "select s.segment::regclass::text from relaybox_internal.sealed_segment s")
    assert not {name for (name,) in names} & set(unsealed)
    assert len(set(opened_segments(sealed, ids[min(ids) + 15])) - set(unsealed)) == 1


def test_an_id_that_a_producer_chose_twice_is_found_in_both_segments(world: World) -> None:
    """One of them is sealed, with ids that do not follow each other in time; the other one is not."""
    world.cut_small_segments()
    twice = str(uuid4())
    with world.session() as session, session.cursor() as cursor:
        for number in range(35):
            chosen = twice if number in (3, 17, 34) else str(uuid4())
            cursor.execute(
                "insert into relaybox.outbox (topic, sender, payload, message_id) values ('flights', 'UA', 'm', %s)", (chosen,)
            )
        session.commit()
    world.transfer()
    for _ in range(2):
        world.query("airline", "select relaybox_internal.seal_outbox_segments()")
    seqs = [seq for (seq,) in world.query("airline", "select seq from relaybox.outbox where message_id = %s order by seq", twice)]
    assert len(seqs) == 3
    assert seqs_of(world, twice) == seqs
    assert len(trace_message([world.route], UUID(twice))) == 3


def test_a_segment_that_was_sealed_before_ids_were_recorded_is_looked_at(sealed: World) -> None:
    """In one transaction with the seal's own number, as an older version left it."""
    (message_id,) = sealed.query("airline", "select message_id::text from relaybox.outbox where seq = 15")[0]
    sealed.query(
        "airline",
        """
        with old as (delete from relaybox_internal.sealed_segment s returning s.last_seq, s.first_seq, s.segment)
        insert into relaybox_internal.sealed_segment (last_seq, first_seq, segment) select o.* from old o
        """,
    )
    assert seqs_of(sealed, message_id) == [15]


def test_an_id_that_no_message_has_is_unknown(sealed: World) -> None:
    with pytest.raises(UnknownMessage):
        trace_message([sealed.route], uuid4())
