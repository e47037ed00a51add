"""The Python helper for producers: one insert in the caller's transaction, and the clocks of causal senders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg2
import pytest
from psycopg2.extras import DictCursor, NamedTupleCursor, RealDictCursor
from sqlalchemy import create_engine
from sqlalchemy import text as sql_text
from sqlalchemy.orm import Session

from relaybox.outbox import CausalSender, put
from tests.support.world import World

COLUMNS = "message_id, topic, sender, epoch, index, key, headers, payload, payload_bytes, clock"


@contextmanager
def psycopg2_cursor(world: World, factory: Any = None) -> Iterator[tuple[Any, Callable[[], None]]]:
    with world.session() as connection, connection.cursor(cursor_factory=factory) as cursor:
        yield cursor, connection.commit


@contextmanager
def sqlalchemy_session(world: World, kind: Any = Session) -> Iterator[tuple[Any, Callable[[], None]]]:
    engine = create_engine("postgresql+psycopg2://", connect_args={"service": "airline"})
    with kind(engine) as session:
        yield session, session.commit
    engine.dispose()


SESSIONS: dict[str, Callable[[World], Any]] = {
    "psycopg2": psycopg2_cursor,
    "psycopg2, named tuples": lambda world: psycopg2_cursor(world, NamedTupleCursor),
    "psycopg2, lists with keys": lambda world: psycopg2_cursor(world, DictCursor),
    "psycopg2, mappings": lambda world: psycopg2_cursor(world, RealDictCursor),
    "SQLAlchemy session": sqlalchemy_session,
    "SQLAlchemy connection": lambda world: sqlalchemy_session(world, lambda engine: engine.connect()),
}

with_each_session = pytest.mark.parametrize("opened", SESSIONS.values(), ids=SESSIONS)


@with_each_session
def test_g1_a_message_shares_the_fate_of_the_caller_s_transaction(world: World, opened: Callable[[World], Any]) -> None:
    """Every column arrives as given, and only if the caller commits."""
    chosen = uuid4()
    with opened(world) as (session, commit):
        made = put(session, "flights", "UA", "100 %s :topic {sender} 💾")
        put(
            session,
            "flights",
            "UA",
            b"\x00\xff:%s",
            key="k",
            headers={"trace": ["ä"]},
            message_id=chosen,
            index=7,
            epoch=2,
            clock={"BA": [1, 3]},
        )
        put(session, "flights", "UA", {"delay": 5, "to": "Zürich"})
        assert isinstance(made, UUID)
        assert world.sent() == []
        commit()
        put(session, "flights", "UA", "rolled back")
    rows = world.query("airline", f"select {COLUMNS} from relaybox.outbox order by seq")
    assert [(UUID(row[0]), *row[1:]) for row in rows[:1]] == [
        (made, "flights", "UA", 1, None, None, None, "100 %s :topic {sender} 💾", None, None)
    ]
    assert (rows[1][0], rows[1][1:8], bytes(rows[1][8]), rows[1][9]) == (
        str(chosen),
        ("flights", "UA", 2, 7, "k", {"trace": ["ä"]}, None),
        b"\x00\xff:%s",
        {"BA": [1, 3]},
    )
    assert [row[7] for row in rows[2:]] == ['{"delay": 5, "to": "Zürich"}']


def test_a_producer_s_rights_are_enough(world: World) -> None:
    with psycopg2_cursor(world) as (cursor, commit):
        cursor.execute("set role relaybox_producer")
        cursor.execute("select relaybox.declare_sender('UA', 'gapless')")
        put(cursor, "flights", "UA", "one", message_id=uuid4())
        CausalSender("UA").put(cursor, "flights", "two")
        commit()
    assert world.sent() == ["one", "two"]


def test_a_repeated_put_is_the_same_message(world: World) -> None:
    """After a commit without an answer: same id, same number; what routes take for one message."""
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    message_id = uuid4()
    for _ in range(2):
        with psycopg2_cursor(world) as (cursor, commit):
            assert put(cursor, "flights", "pump", "x", message_id=message_id, index=1) == message_id
            commit()
    rows = world.query("airline", "select message_id, sender, epoch, index, payload from relaybox.outbox")
    assert rows == [(str(message_id), "pump", 1, 1, "x")] * 2


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"epoch": 2}, ValueError),
        ({"headers": {"n": float("nan")}}, ValueError),
        ({"payload": {"n": float("inf")}}, ValueError),
        ({"payload": object()}, TypeError),
        ({"index": 0}, psycopg2.errors.CheckViolation),
        ({"clock": {"BA": "x" * 65536}}, psycopg2.errors.CheckViolation),
        ({"topic": "Flights"}, psycopg2.errors.CheckViolation),
    ],
    ids=str,
)
def test_what_is_no_message_is_refused_before_anybody_reads_it(world: World, arguments: dict[str, Any], kind: type) -> None:
    with psycopg2_cursor(world) as (cursor, _), pytest.raises(kind):
        put(cursor, **{"topic": "flights", "sender": "UA", "payload": "x", **arguments})


# --- clocks ---------------------------------------------------------------------------------------------------------------


def message(sender: str, index: int, epoch: int = 1, **clock: Any) -> dict[str, Any]:
    return {"sender": sender, "epoch": epoch, "index": index, "clock": clock or None}


def test_a_clock_holds_the_newest_of_each_sender_and_what_they_had_heard() -> None:
    """Older news change nothing, epochs count before indexes, an index alone is of epoch 1, the sender itself is not in it."""
    sender = CausalSender("me")
    for one in (
        message("a", 3),
        message("a", 2),
        message("b", 1, 2, c=9, me=4),
        message("b", 50, 1),
        message("a", 4, d=[3, 1]),
        message("a", 5, d=[2, 99]),
        message("me", 7),
    ):
        sender.delivered(one)
    assert sender.clock == {"a": [1, 5], "b": [2, 1], "c": [1, 9], "d": [3, 1]}
    assert CausalSender("me", sender.clock).clock == sender.clock, "a saved clock goes on"


def test_nothing_waits_for_a_message_without_a_number() -> None:
    with pytest.raises(ValueError, match="sender a at index 12 has no index of its own"):
        CausalSender("me").delivered(message("a", 12, epoch=0))


def test_a_causal_sender_numbers_its_messages_and_names_what_it_had_received(world: World) -> None:
    """Sends only: its own messages are in the index, a rolled back one leaves no gap, a new epoch starts at 1."""
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    sender = CausalSender("pump")
    with psycopg2_cursor(world) as (cursor, commit):
        sender.put(cursor, "flights", "first")
        commit()
        sender.put(cursor, "flights", "undone")
        cursor.connection.rollback()
        sender.delivered(message("probe", 4, gauge=2))
        sender.put(cursor, "flights", "second")
        commit()
        cursor.execute("select relaybox.new_epoch('pump')")
        sender.put(cursor, "flights", "third", key="key", headers={"h": 1}, message_id=UUID(int=5))
        commit()
    heard = {"probe": [1, 4], "gauge": [1, 2]}
    assert world.query("airline", "select payload, epoch, index, clock from relaybox.outbox order by seq") == [
        ("first", 1, 1, {}),
        ("second", 1, 2, heard),
        ("third", 2, 1, heard),
    ]
    assert world.query("airline", "select message_id::text, key, headers from relaybox.outbox where epoch = 2") == [
        (str(UUID(int=5)), "key", {"h": 1})
    ]


def _sqlalchemy_row(world: World, query: str) -> Any:
    with sqlalchemy_session(world) as (session, _):
        return session.execute(sql_text(query.replace(": ", r"\: "))).one()


def _psycopg2_row(world: World, query: str, factory: Any) -> Any:
    with psycopg2_cursor(world, factory) as (cursor, _):
        cursor.execute(query)
        return cursor.fetchone()


ROWS: dict[str, Callable[[World, str], Any]] = {
    "SQLAlchemy": _sqlalchemy_row,
    "named tuple": lambda world, query: _psycopg2_row(world, query, NamedTupleCursor),
    "mapping": lambda world, query: _psycopg2_row(world, query, RealDictCursor),
}


@pytest.mark.parametrize("read", ROWS.values(), ids=ROWS)
def test_rows_of_every_driver_can_be_delivered(world: World, read: Callable[[World, str], Any]) -> None:
    """`index` is also a method of some rows."""
    query = """select 'a' as sender, 2 as epoch, 7::bigint as index, '{"b": 3}'::jsonb as clock"""
    sender = CausalSender("me")
    sender.delivered(read(world, query))
    assert sender.clock == {"a": [2, 7], "b": [1, 3]}
