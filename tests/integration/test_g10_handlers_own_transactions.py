"""G10 with a handler that ends the consumer's transaction by itself: nothing that it took back is acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg2
import pytest
import sqlalchemy
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import QueuePool

from relaybox import errors
from relaybox.consumer import Consumer, Message
from tests.support.streams import STORE, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

GONE = "the handler committed or rolled back the transaction"
FAULTY = 3
"""The stream position whose handler ends the transaction."""


@pytest.fixture
def shop(world: World) -> World:
    """A table for effects, the subscription `billing` that sets a refused message aside at once, and six messages."""
    world.query(STORE, "create table public.effect (n bigint generated always as identity, stream_position bigint not null)")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    deliver(world, 6)
    return world


def insert(connection: Connection, message: Message) -> None:
    connection.execute(text("insert into public.effect (stream_position) values (:n)"), {"n": message.stream_position})


def raw(connection: Connection) -> Any:
    return connection.connection.driver_connection


def roll_back_with_an_orm_session(connection: Connection) -> None:
    with Session(bind=connection) as session:
        session.execute(text("select 1"))
        session.rollback()


def roll_back_and_work_on(connection: Connection) -> None:
    connection.rollback()
    connection.execute(text("select 1"))


def roll_back_the_driver_and_work_on(connection: Connection) -> None:
    raw(connection).rollback()
    connection.execute(text("select 1"))


def roll_back_in_sql_and_begin_again(connection: Connection) -> None:
    connection.execute(text("rollback"))
    connection.execute(text("begin"))


def set_autocommit(connection: Connection) -> None:
    raw(connection).rollback()
    raw(connection).autocommit = True


ROLLBACKS: dict[str, Callable[[Connection], object]] = {
    "connection.rollback()": lambda connection: connection.rollback(),
    "connection.rollback() and more work": roll_back_and_work_on,
    "rollback() of a Session": roll_back_with_an_orm_session,
    "rollback() of psycopg2": lambda connection: raw(connection).rollback(),
    "rollback() of psycopg2 and more work": roll_back_the_driver_and_work_on,
    "rollback in SQL": lambda connection: connection.execute(text("rollback")),
    "rollback and chain": lambda connection: connection.execute(text("rollback and chain")),
    "rollback and begin in SQL": roll_back_in_sql_and_begin_again,
    "connection.close()": lambda connection: connection.close(),
    "autocommit": set_autocommit,
}

COMMITS: dict[str, Callable[[Connection], object]] = {
    "connection.commit()": lambda connection: connection.commit(),
    "commit() of psycopg2": lambda connection: raw(connection).commit(),
    "commit and chain": lambda connection: connection.execute(text("commit and chain")),
}


def consume(store: Any, end: Callable[[Connection], object], *, commit_every: int) -> None:
    """Handles all messages with one row of effect each; the faulty one's handler ends the transaction before its row."""

    def handle(connection: Connection, message: Message) -> None:
        if message.stream_position == FAULTY:
            end(connection)
            return
        insert(connection, message)

    with Consumer(store, "billing", commit_every=commit_every, until_empty=True, retries=0) as consumer:
        consumer.run(handle)


def effects(world: World) -> list[int]:
    return [row[0] for row in world.query(STORE, "select stream_position from public.effect order by 1")]


def dead_letters(world: World) -> list[tuple[Any, ...]]:
    return world.query(STORE, "select stream_position, reason, detail from relaybox.dead_letters")


@pytest.mark.parametrize("commit_every", [1, 3, 4, 6])
@pytest.mark.parametrize("end", ROLLBACKS.values(), ids=ROLLBACKS)
def test_g10_a_handler_that_rolls_back_loses_no_effect_of_earlier_messages(
    shop: World, end: Callable[[Connection], object], commit_every: int
) -> None:
    """The earlier messages come again, one in a transaction; the message whose handler did it is refused and says why."""
    consume(STORE, end, commit_every=commit_every)
    assert effects(shop) == [1, 2, 4, 5, 6]
    [(stream_position, reason, detail)] = dead_letters(shop)
    assert (stream_position, reason) == (FAULTY, "refused")
    assert GONE in detail
    assert shop.value(STORE, "select done_stream_position from relaybox.lag('billing')") == 6


@pytest.mark.parametrize("commit_every", [1, 4])
@pytest.mark.parametrize("end", COMMITS.values(), ids=COMMITS)
def test_g10_a_handler_that_commits_is_told_and_works_at_least_once(
    shop: World, end: Callable[[Connection], object], commit_every: int
) -> None:
    """What it committed without the acknowledgement comes again: no effect is lost, and those before it exist twice."""
    consume(STORE, end, commit_every=commit_every)
    assert effects(shop) == ([1, 2, 4, 5, 6] if commit_every == 1 else [1, 1, 2, 2, 4, 5, 6])
    assert [(row[0], GONE in row[2]) for row in dead_letters(shop)] == [(FAULTY, True)]


@pytest.mark.parametrize("commit_every", [1, 4])
def test_g10_a_loop_whose_body_rolls_back_ends_with_an_error(shop: World, commit_every: int) -> None:
    with (
        pytest.raises(errors.TransactionEnded, match=rf"stream position {FAULTY}: {GONE}.*savepoint"),
        Consumer(STORE, "billing", commit_every=commit_every, until_empty=True, retries=0) as consumer,
    ):
        for message in consumer:
            insert(consumer.connection, message)
            if message.stream_position == FAULTY:
                consumer.connection.rollback()
    assert effects(shop) == [1, 2]


@pytest.mark.parametrize("commit_every", [1, 4])
def test_g10_a_savepoint_takes_back_the_work_on_its_own_message_only(shop: World, commit_every: int) -> None:
    """Of SQLAlchemy, of a Session and in SQL; also one that is left open. No message is refused."""

    def handle(connection: Connection, message: Message) -> None:
        insert(connection, message)
        if message.stream_position == 2:
            with connection.begin_nested() as nested:
                insert(connection, message)
                nested.rollback()
        elif message.stream_position == FAULTY:
            with Session(bind=connection, join_transaction_mode="create_savepoint") as session:
                session.execute(text("insert into public.effect (stream_position) values (0)"))
                session.rollback()
        elif message.stream_position == 4:
            connection.execute(text("savepoint mine"))
            insert(connection, message)
            connection.execute(text("rollback to savepoint mine"))
        elif message.stream_position == 5:
            connection.begin_nested()

    with Consumer(STORE, "billing", commit_every=commit_every, until_empty=True, retries=0) as consumer:
        consumer.run(handle)
    assert effects(shop) == [1, 2, 3, 4, 5, 6]
    assert dead_letters(shop) == []


@pytest.mark.parametrize("commit_every", [1, 4])
def test_g10_a_failed_statement_that_the_handler_passed_over_loses_no_effect(shop: World, commit_every: int) -> None:
    def fail(connection: Connection) -> None:
        with pytest.raises(sqlalchemy.exc.DBAPIError):
            connection.execute(text("select 1/0"))

    consume(STORE, fail, commit_every=commit_every)
    assert effects(shop) == [1, 2, 4, 5, 6]
    assert [row[0] for row in dead_letters(shop)] == [FAULTY]


def test_g10_settings_that_the_handler_resets_do_not_hide_its_transaction(shop: World) -> None:
    """An isolation level of SQLAlchemy can't be changed in the transaction: the handler is told so, and refused."""
    consume(STORE, lambda connection: connection.execution_options(isolation_level="AUTOCOMMIT"), commit_every=4)
    assert effects(shop) == [1, 2, 4, 5, 6]
    assert [row[0] for row in dead_letters(shop)] == [FAULTY]


def create_pool(*, autocommit: bool) -> sqlalchemy.Engine:
    def create() -> Any:
        session = psycopg2.connect(f"service={STORE}")
        session.autocommit = autocommit
        return session

    return sqlalchemy.create_engine("postgresql+psycopg2://", creator=create, poolclass=QueuePool, pool_size=1, max_overflow=0)


def test_g10_a_pool_gives_nobody_a_session_that_a_handler_left_in_autocommit(shop: World) -> None:
    engine = create_pool(autocommit=False)
    consume(engine, set_autocommit, commit_every=4)
    assert effects(shop) == [1, 2, 4, 5, 6]
    with engine.connect() as connection:
        assert not raw(connection).autocommit
    engine.dispose()


def test_g10_an_engine_in_autocommit_is_refused_before_any_work(shop: World) -> None:
    engine = create_pool(autocommit=True)
    with pytest.raises(errors.RequestRefused, match=r"autocommit.*Give the consumer an engine or connections without autocommit"):
        consume(engine, lambda _: None, commit_every=1)
    assert effects(shop) == []
    engine.dispose()
