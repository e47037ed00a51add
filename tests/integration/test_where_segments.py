"""`relaybox where` opens the segments that have the message, however many a store keeps: a segment is opened where it is locked."""

from __future__ import annotations

from uuid import UUID

import pytest

from relaybox.monitoring import message_search
from relaybox.monitoring.message_trace import DeliveryState, HopStage, Trace, trace_message
from relaybox.stores.sessions.store_session import StoreSession
from tests.integration.derivation_steps import derive_all
from tests.support.derivations import HERE, DerivedWorld
from tests.support.senders import declare, send_caused
from tests.support.world import World

SEGMENTS = 12
"""Full segments of ten messages that each outbox and each log has at least."""

LOCKED_SEGMENTS = """
select c.relname from pg_locks l join pg_class c on c.oid = l.relation and c.relkind = 'r' and c.relispartition
where l.pid = pg_backend_pid() and l.database = (select d.oid from pg_database d where d.datname = current_database())
order by 1
"""

SEARCH = "looking for a message"

Opened = dict[str, list[str]]
"""The most segments that a statement has locked, by the store and what the statement is for."""


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Looks at the locks of each transaction before its end: `relaybox where` rolls back, or reads in a block that is a transaction."""
    found: Opened = {}
    rollback, values = StoreSession.rollback, StoreSession.values

    def look(session: StoreSession) -> None:
        statement = f"{session.store}: {session.activity}"
        found[statement] = max(found.get(statement, []), values(session, LOCKED_SEGMENTS), key=len)

    def rolled_back(session: StoreSession) -> None:
        look(session)
        rollback(session)

    def searched(session: StoreSession, query: str, *arguments: object) -> list[object]:
        answer = values(session, query, *arguments)
        look(session)
        return answer

    monkeypatch.setattr(StoreSession, "rollback", rolled_back)
    monkeypatch.setattr(StoreSession, "values", searched)
    return found


def require_few(opened: Opened) -> None:
    """The search for an id has tests of its own: it looks into each segment that is not sealed."""
    many = {statement: found for statement, found in opened.items() if len(found) > 2 and not statement.endswith(SEARCH)}
    assert many == {}, "segments that one statement has opened"


def ids(world: World, store: str = "airline") -> list[UUID]:
    return [UUID(one) for (one,) in world.query(store, "select message_id::text from relaybox.outbox order by seq")]


def traced(world: World, message_id: UUID) -> Trace:
    (trace,) = trace_message(list(world.routes.routes.values()), message_id)
    return trace


def deliveries(trace: Trace) -> list[tuple[DeliveryState, int | None]]:
    """At each hop the state of a message, and what it is a duplicate of."""
    return [(hop.delivered.delivery_state, hop.delivered.duplicate_of) for hop in trace.hops if hop.delivered]


@pytest.fixture
def derived(world: World) -> DerivedWorld:
    """A message was derived from each of 120, and has arrived."""
    delays = DerivedWorld(world)
    delays.configure(**{"with": f"{HERE}:copies"})
    world.register()
    world.cut_small_segments()
    for _ in range(SEGMENTS):
        world.send_many(10)
        world.transfer_all()
        derive_all(delays, max_count=4)
        world.transfer(delays.route.hops[0])
    return delays


def test_a_message_and_what_was_derived_from_it_are_found_in_their_own_segments(derived: DerivedWorld, opened: Opened) -> None:
    world = derived.world
    cause = ids(world)[64]
    made, *others = traced(world, cause).hops[0].delivered.derived
    assert (others, len(made.message_ids)) == ([], 1)
    assert traced(world, made.message_ids[0]).derived_from.message_id == cause
    assert {statement for statement, segments in opened.items() if segments} >= {
        "airline: asking what a message was derived from",
        "hub: asking what a message was derived from",
        "hub: asking what was derived from a message",
        "hub: asking what stream flights made of a message",
        "analytics: asking what stream delays made of a message",
    }
    require_few(opened)


def test_a_message_whose_id_came_again_within_the_window_is_found_in_its_own_segments(world: World, opened: Opened) -> None:
    """The window is five positions, and the first of the two messages is in the segment before."""
    world.change_route(order="fifo", message_id_window=5)
    world.cut_small_segments()
    for number in range(SEGMENTS):
        world.send_many(10, prefix=f"{number} ")
        if number == 5:
            again = ids(world)[-1]
            world.query(
                "airline",
                "insert into relaybox.outbox (topic, sender, payload, message_id) "
                "select topic, sender, payload, message_id from relaybox.outbox where message_id = %s",
                str(again),
            )
        world.transfer_all()
    first, second = trace_message([world.route], again)
    assert deliveries(first) == [(DeliveryState.DELIVERED, None)] * 2
    assert deliveries(second) == [(DeliveryState.DUPLICATE, 60)] * 2
    require_few(opened)


def test_a_held_message_is_found_in_its_own_segment(world: World, opened: Opened) -> None:
    """With what its clock names."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    world.cut_small_segments()
    for number in range(1, 10 * SEGMENTS + 1):
        send_caused(world, "a", number, {"b": 1} if number == 55 else {})
        if number % 10 == 0:
            world.transfer_all()
    (hop, _) = traced(world, ids(world)[54]).hops
    assert [(one.sender, one.first_index) for one in hop.delivered.waits_for] == [("b", 1)]
    require_few(opened)


@pytest.mark.parametrize(("topic", "stage"), [("flights", HopStage.WAITING), ("other", HopStage.UNROUTED)])
def test_a_message_that_no_batch_has_is_found_in_its_own_segment(
    world: World, opened: Opened, topic: str, stage: HopStage
) -> None:
    world.cut_small_segments()
    world.query("airline", "select relaybox_internal.ensure_outbox_segments(%s)", SEGMENTS)
    world.send_many(10 * SEGMENTS, topic=topic)
    assert traced(world, ids(world)[54]).hops[0].stage == stage
    require_few(opened)


def test_a_message_is_found_by_its_index_in_its_own_segment(
    world: World, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log where it arrived, and among the newest messages of the outbox, here the last 15."""
    monkeypatch.setattr(message_search, "NEWEST_SEQS", 15)
    world.cut_small_segments()
    for _ in range(SEGMENTS):
        world.send_many(10)
        world.transfer_all()
    (expected,) = world.query("hub", "select message_id::text from relaybox_internal.log where log_position = 55")[0]
    assert message_search.find_messages([world.route], "UA", 55) == (UUID(expected),)
    sent = (
        "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'DL', 3, 'm') returning message_id::text"
    )
    waiting = UUID(world.value("airline", sent))
    assert message_search.find_messages([world.route], "DL", 3) == (waiting,)
    searched = {statement: segments for statement, segments in opened.items() if "by its index" in statement}
    assert set(searched) == {"airline: looking for a message by its index", "hub: looking for a message by its index"}
    full = {f"{table}_s{number:06}" for table in ("outbox", "log_1") for number in range(SEGMENTS - 2)}
    assert {store: full & set(segments) for store, segments in searched.items()} == {
        "airline: looking for a message by its index": set(),
        "hub: looking for a message by its index": {"log_1_s000005"},
    }
