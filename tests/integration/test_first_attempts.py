"""What a newcomer tries first from an application: it works, or the error says what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import BigInteger, Text, create_engine, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import QueuePool

from tests.integration.node_programs import run_node
from tests.support.streams import STORE, deliver
from tests.support.world import World


class _Base(DeclarativeBase):
    pass


class _Row:
    """The outbox as a newcomer maps it: the key is the column that numbers the rows."""

    __tablename__ = "outbox"

    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    topic: Mapped[str] = mapped_column(Text)
    sender: Mapped[str] = mapped_column(Text)
    payload: Mapped[str] = mapped_column(Text)


class PlainHeaders(_Row, _Base):
    __table_args__ = {"schema": "relaybox"}  # noqa: RUF012  # SQLAlchemy declares it so

    headers: Mapped[dict[str, Any] | None] = mapped_column(JSONB)


class _OtherBase(DeclarativeBase):
    pass


class NullHeaders(_Row, _OtherBase):
    __table_args__ = {"schema": "relaybox"}  # noqa: RUF012

    headers: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))


MESSAGE = {"topic": "flights", "sender": "UA", "payload": "x"}


@contextmanager
def orm_session(store: str = "airline", role: str = "relaybox_producer") -> Iterator[Session]:
    """A session with the rights of this role and no others."""
    engine = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(service=store))
    with Session(engine) as session:
        session.execute(text(f"set role {role}"))
        yield session
    engine.dispose()


def refusal(world: World, statement: str) -> Any:
    """The error that a producer's statement gets."""
    with world.session("airline") as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_producer")
        with pytest.raises(psycopg2.Error) as refused:
            cursor.execute(statement)
    return refused.value


# --- an ORM reads back what the store gave --------------------------------------------------------------------------------


def test_an_orm_that_maps_seq_as_its_key_sends(world: World) -> None:
    """It inserts with `returning seq`, which is the key of the object from then on."""
    with orm_session() as session:
        row = NullHeaders(**MESSAGE)
        session.add(row)
        session.flush()
        assert row.seq == 1
        session.commit()
    assert world.query("airline", "select seq, payload, headers from relaybox.outbox") == [(1, "x", None)]


def test_a_producer_reads_back_what_the_store_gave_and_no_column_of_a_message(world: World) -> None:
    """The right is one to a column of every row, so it is given where the column says nothing of a message."""
    world.send("another application's")
    insert = "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'x') returning "
    with world.session("airline") as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_producer")
        cursor.execute(f"{insert} seq, message_id, sent_at")
        assert cursor.fetchone()[0] == 2
    for column in ("*", "payload", "topic", "sender", "key", "headers", "xid", "payload_bytes", "clock", "index", "epoch"):
        assert refusal(world, insert + column).pgcode == "42501", column


# --- null where the application means nothing -----------------------------------------------------------------------------


def test_json_null_in_headers_is_refused_with_the_way_to_sql_null(world: World) -> None:
    """SQLAlchemy's JSONB writes an explicit None as JSON null, unless it is declared otherwise."""
    with orm_session() as session, pytest.raises(IntegrityError) as refused:
        session.add(PlainHeaders(**MESSAGE, headers=None))
        session.flush()
    assert refused.value.orig.diag.constraint_name == "headers_are_an_object"
    assert refused.value.orig.diag.message_hint == (
        "headers is a JSON null. Leave the column out, or give SQL null: in SQLAlchemy declare the column as "
        "JSONB(none_as_null=True)."
    )
    with orm_session() as session:
        session.add(NullHeaders(**MESSAGE, headers=None))
        session.commit()
    assert world.sent() == ["x"]


@pytest.mark.parametrize(
    ("values", "constraint", "hint"),
    [
        ({"headers": "'\"{}\"'"}, "headers_are_an_object", r"headers is a JSON string\. .*\\d\+ relaybox\.outbox"),
        ({"clock": "'null'"}, "clock_is_an_object", r"clock is a JSON null\. Leave the column out"),
        ({"clock": "'[]'"}, "clock_is_an_object", r"clock is a JSON array\. "),
        ({"payload": "null"}, "message_has_exactly_one_payload", r"Give one of payload \(text\) and payload_bytes"),
        ({"topic": "'Flights'"}, "topic_is_a_plain_name", r"\\d\+ relaybox\.outbox"),
    ],
    ids=str,
)
def test_each_refused_message_has_a_hint(world: World, values: dict[str, str], constraint: str, hint: str) -> None:
    given = {"topic": "'flights'", "sender": "'UA'", "payload": "'x'", **values}
    refused = refusal(world, f"insert into relaybox.outbox ({', '.join(given)}) values ({', '.join(given.values())})")
    assert (refused.pgcode, refused.diag.constraint_name) == ("23514", constraint)
    assert re.search(hint, refused.diag.message_hint)


@pytest.mark.parametrize("column", ["epoch", "message_id"])
def test_a_null_where_a_default_is_meant_is_named(world: World, column: str) -> None:
    """Django gives each mapped column a value; Postgres names the column, and the page of first steps what to do."""
    refused = refusal(
        world, f"insert into relaybox.outbox (topic, sender, payload, {column}) values ('flights', 'UA', 'x', null)"
    )
    assert (refused.pgcode, refused.diag.column_name) == ("23502", column)
    page = (Path(__file__).parents[2] / "docs" / "getting-started.md").read_text()
    assert f'`null value in column "{column}"`' in page or f'or `"{column}"`' in page


# --- another session, another language ------------------------------------------------------------------------------------


def test_a_pool_acknowledges_from_another_session_with_the_token(world: World) -> None:
    """Without the token the acknowledgement is refused, and the hint has the call that works."""
    deliver(world, 3)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    pool = create_engine(
        "postgresql+psycopg2://", creator=lambda: psycopg2.connect(service=STORE), poolclass=QueuePool, pool_size=2
    )
    with pool.connect() as fetching, pool.connect() as acknowledging:
        rows = fetching.execute(text("select stream_position, token from relaybox.fetch('billing', 3)")).all()
        fetching.commit()
        with pytest.raises(DBAPIError) as refused:
            acknowledging.execute(text("select relaybox.ack('billing', 3)"))
        assert refused.value.orig.pgcode == "RB033"
        hint = refused.value.orig.diag.message_hint
        assert "the token that fetch returned with each message, from any session: select relaybox.ack(" in hint
        acknowledging.rollback()
        acknowledging.execute(text("select relaybox.ack('billing', 3, :token)"), {"token": rows[-1].token})
        acknowledging.commit()
    pool.dispose()
    assert world.value(STORE, "select done_stream_position from relaybox.subscriptions") == 3


NODE_COUNTS = """
const { Client } = require("pg");
(async () => {
  const store = new Client();
  await store.connect();
  await store.query("begin");
  const { rows } = await store.query("select stream_position from relaybox.fetch('billing', 2)");
  await store.query("savepoint counted");
  try {
    await store.query("select relaybox.ack('billing', $1)", [rows[0].stream_position + 1]);
  } catch (error) {
    console.log(`${error.code}: ${error.message} ${error.hint}`);
    await store.query("rollback to savepoint counted");
  }
  await store.query("select relaybox.ack('billing', $1)", [String(BigInt(rows[0].stream_position) + 1n)]);
  await store.query("commit");
  await store.end();
})();
"""


def test_node_is_told_which_stream_position_its_arithmetic_made(world: World, tmp_path: Path) -> None:
    """A bigint arrives as text in Node: '1' + 1 is '11'. The refusal has the number that came; BigInt counts."""
    deliver(world, 5)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    program = tmp_path / "count.js"
    program.write_text(NODE_COUNTS)
    said = run_node(program).stdout
    assert said.startswith("RB033: subscription billing, lane 1: stream position 11 was not in this fetch; ")
    assert "Give the stream position of a message that this fetch returned" in said
    assert world.value(STORE, "select done_stream_position from relaybox.subscriptions") == 2
