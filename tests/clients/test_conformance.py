"""Every library that a client of ours takes sends and consumes alike: one suite, run for each against real stores."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import psycopg
import pytest
from django.db import transaction
from pydantic import BaseModel

from relaybox import aio, consumer, errors, outbox
from relaybox.consumer import Message
from relaybox.outbox import Draft
from tests.support.libraries import (
    LIBRARIES,
    Library,
    connect_asyncpg,
    django_database,
    each,
    parameters,
    with_each_async_library,
    with_each_library,
)
from tests.support.patience import patience
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def shop(world: World) -> World:
    """Six messages, the subscription `billing` that sets a refused message aside at once, and a table for effects."""
    world.query(
        STORE,
        "create table public.effect (stream_position bigint primary key, "
        "parent bigint references public.effect deferrable initially deferred)",
    )
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    deliver(world, 6)
    return world


def effects(world: World) -> list[int]:
    return [row[0] for row in world.query(STORE, "select stream_position from public.effect order by 1")]


def dead_letters(world: World) -> list[tuple[int, str]]:
    return world.query(STORE, "select stream_position, detail from relaybox.dead_letters order by 1")


def done(world: World) -> int:
    return int(world.value(STORE, "select done_stream_position from relaybox.subscriptions"))


def insert(message: Message) -> str:
    return f"insert into public.effect (stream_position) values ({message.stream_position})"


# --- sending --------------------------------------------------------------------------------------------------------------


@with_each_library
def test_g1_a_message_shares_the_fate_of_the_transaction(world: World, library: Library) -> None:
    """Every column arrives as given, and only if the caller commits."""
    chosen = uuid4()

    async def scenario() -> UUID:
        async with library.producing("airline") as producer:
            made = await library.put(producer.session, "flights", "UA", "100 %s :topic {sender} $1 💾")
            every = {
                "key": "k",
                "headers": {"trace": ["ä"]},
                "message_id": chosen,
                "index": 7,
                "epoch": 2,
                "clock": {"BA": [1, 3]},
            }
            await library.put(producer.session, "flights", "UA", b"\x00\xff:%s", **every)
            assert world.sent() == []
            await producer.commit()
            await library.put(producer.session, "flights", "UA", "rolled back")
            await producer.rollback()
            return made

    made = library.run(scenario())
    rows = world.query(
        "airline",
        "select message_id::text, payload, payload_bytes, key, headers, index, epoch, clock from relaybox.outbox order by seq",
    )
    assert rows[0] == (str(made), "100 %s :topic {sender} $1 💾", None, None, None, None, 1, None)
    assert (*rows[1][:2], bytes(rows[1][2]), *rows[1][3:]) == (
        *(str(chosen), None, b"\x00\xff:%s", "k"),
        *({"trace": ["ä"]}, 7, 2, {"BA": [1, 3]}),
    )
    assert len(rows) == 2


@with_each_library
def test_g3_a_put_is_sent_once_and_a_causal_sender_counts(world: World, library: Library) -> None:
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    drafts = [Draft("flights", "a", headers={"n": 1}), Draft("flights", b"\x00"), Draft("flights", {"c": None}, key="k")]

    async def scenario() -> None:
        async with library.producing("airline") as producer:
            assert await library.put_once(producer.session, "UA", "order/7", drafts)
            await producer.commit()
            assert not await library.put_once(producer.session, "UA", "order/7", drafts)
            assert await library.put_once(producer.session, "pump", "first", drafts[:2], numbered=True)
            await library.causal_put(producer.session, "pump", "flights", "third")
            await producer.commit()

    library.run(scenario())
    assert world.sent() == ["a", None, '{"c": null}', "a", None, "third"]
    assert world.query("airline", "select index from relaybox.outbox where sender = 'pump' order by seq") == [(1,), (2,), (3,)]


@with_each_library
def test_the_times_of_a_message_are_headers_and_a_span_is_by_the_clock_of_the_store(world: World, library: Library) -> None:
    """Of put, put_once and a causal sender. A put that is repeated with the same span is the same put."""
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    moment = datetime(2999, 1, 1, 12, 0, 0, 500_000, tzinfo=timezone(timedelta(hours=2)))
    span = timedelta(hours=1)
    drafts = [
        Draft("flights", "d", headers={"n": 1}, deliver_after=span, expires_at=moment),
        Draft("flights", "e", expires_at=span),
    ]

    async def scenario() -> None:
        async with library.producing("airline") as producer:
            await library.put(producer.session, "flights", "UA", "a", deliver_after=moment)
            await library.put(producer.session, "flights", "UA", "b", headers={"n": 1}, deliver_after=span, expires_at=2 * span)
            await library.put(producer.session, "flights", "UA", "c", deliver_after=-span, expires_at=moment)
            assert await library.put_once(producer.session, "UA", "k", drafts)
            assert not await library.put_once(producer.session, "UA", "k", drafts)
            await library.causal_put(producer.session, "pump", "flights", "f", deliver_after=moment)
            await producer.commit()
            for options, said in (
                ({"deliver_after": datetime(2027, 1, 1)}, "without a time zone"),  # noqa: DTZ001
                ({"expires_at": span, "headers": {"relaybox-expires-at": 9e9}}, "give one of them"),
            ):
                with pytest.raises(ValueError, match=said):
                    await library.put(producer.session, "flights", "UA", "x", **options)
            with pytest.raises(TypeError, match="takes a datetime"):
                await library.put(producer.session, "flights", "UA", "x", deliver_after=10)
            with pytest.raises(Exception, match="deliver_after_is_before_expires_at"):
                await library.put(producer.session, "flights", "UA", "x", deliver_after=span, expires_at=span - span)
            await producer.rollback()

    library.run(scenario())
    rows = world.query(
        "airline",
        "select payload, headers - 'relaybox-deliver-after' - 'relaybox-expires-at',"
        " round((headers ->> 'relaybox-deliver-after')::numeric - extract(epoch from sent_at), -1)::bigint,"
        " round((headers ->> 'relaybox-expires-at')::numeric - extract(epoch from sent_at), -1)::bigint,"
        " to_timestamp((headers ->> 'relaybox-deliver-after')::numeric) = %s, to_timestamp((headers ->> 'relaybox-expires-at')::numeric) = %s"
        " from relaybox.outbox order by seq",
        moment,
        moment,
    )
    until = round((moment - datetime.now(UTC)).total_seconds())
    exact = {row[0]: row[4:] for row in rows}
    assert exact == {
        "a": (True, None),
        "b": (False, False),
        "c": (False, True),
        "d": (False, True),
        "e": (None, False),
        "f": (True, None),
    }
    spans = {row[0]: row[2:4] for row in rows}
    assert (spans["b"], spans["e"][1], spans["c"][0], spans["d"][0]) == ((3600, 7200), 3600, -3600, 3600)
    assert abs(spans["a"][0] - until) <= 60
    assert {row[0]: row[1] for row in rows} == {"a": {}, "b": {"n": 1}, "c": {}, "d": {"n": 1}, "e": {}, "f": {}}


@with_each_library
def test_a_failed_transaction_sends_nothing_and_says_so(world: World, library: Library) -> None:
    """What the outbox refuses has the constraint's name; the next put in the transaction is refused by Postgres."""

    async def scenario() -> None:
        async with library.producing("airline") as producer:
            with pytest.raises(Exception, match="topic_is_a_plain_name"):
                await library.put(producer.session, "No Topic", "UA", "x")
            with pytest.raises(Exception, match=r"current transaction is aborted|can't execute queries|inactive|rolled back"):
                await library.put(producer.session, "flights", "UA", "x")
            await producer.rollback()
            await library.put(producer.session, "flights", "UA", "after")
            await producer.commit()

    library.run(scenario())
    assert world.sent() == ["after"]


@with_each_library
def test_put_outside_of_its_world_is_refused_before_anything_is_sent(world: World, library: Library) -> None:
    """A session of an event loop in the put of threads would be a coroutine that nobody awaits."""

    async def scenario() -> None:
        async with library.producing("airline") as producer:
            if library.is_async:
                with pytest.raises(TypeError, match=r"Use relaybox\.aio\.put"):
                    outbox.put(producer.session, "flights", "UA", "x")
            else:
                with pytest.raises(TypeError, match=r"put\(\) of relaybox\.aio got a .*It takes an AsyncSession"):
                    await aio.put(producer.session, "flights", "UA", "x")

    library.run(scenario())
    assert world.sent() == []


# --- consuming ------------------------------------------------------------------------------------------------------------


@with_each_library
def test_g10_work_and_acknowledgement_are_one_transaction(shop: World, library: Library) -> None:
    """One handler fails, one ignores a failed statement, one takes work back with a savepoint; the rest flows."""

    async def handle(connection: Any, message: Message) -> None:
        await library.execute(connection, insert(message))
        if message.stream_position == 2:
            raise ValueError("not this one")
        if message.stream_position == 3:
            with pytest.raises(Exception, match="no_such_table"):
                await library.execute(connection, "select from no_such_table")
        if message.stream_position == 4:
            with pytest.raises(ValueError, match="taken back"):
                async with library.savepoint(connection):
                    await library.execute(connection, "insert into public.effect (stream_position) values (99)")
                    raise ValueError("taken back")

    worker = library.run(library.consume(STORE, handle))
    assert effects(shop) == [1, 4, 5, 6]
    assert [row[0] for row in dead_letters(shop)] == [2, 3]
    assert dead_letters(shop)[0][1] == "ValueError: not this one"
    assert (worker.acknowledged_count, worker.refused_count, worker.dead_letter_count, done(shop)) == (4, 2, 2, 6)


@with_each_library
def test_g10_what_fails_at_commit_or_ends_the_transaction_is_refused(shop: World, library: Library) -> None:
    """The parent of a row is not there at COMMIT; a handler rolls back by itself. Three messages are one transaction."""

    async def handle(connection: Any, message: Message) -> None:
        if message.stream_position == 2:
            await library.execute(connection, "insert into public.effect values (2, 77)")
        elif message.stream_position == 4:
            await library.execute(connection, "rollback")
        elif message.stream_position == 5:
            await library.execute(connection, "rollback and chain")  # a transaction is open, and it is another one
        else:
            await library.execute(connection, insert(message))

    library.run(library.consume(STORE, handle, commit_every=3))
    assert effects(shop) == [1, 3, 6]
    (at_commit, ended, ended_and_begun) = dead_letters(shop)
    assert at_commit[0] == 2
    assert "foreign key constraint" in at_commit[1]
    gone = "the handler committed or rolled back the transaction that its message is acknowledged in"
    assert (ended, ended_and_begun) == ((4, gone), (5, gone))


END_SESSIONS = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state = 'idle in transaction'
"""


@with_each_library
@pytest.mark.parametrize("met_by", ["the handler", "the acknowledgement"])
def test_g10_a_session_that_is_lost_refuses_nothing_and_doubles_nothing(shop: World, library: Library, met_by: str) -> None:
    """Also where the library has read the server's farewell and not yet the end of the socket: asyncpg is in no state for a call then."""
    lost: list[int] = []

    async def handle(connection: Any, message: Message) -> None:
        await library.execute(connection, insert(message))
        if message.stream_position == 3 and not lost:
            lost.append(3)
            shop.query(STORE, END_SESSIONS)
            if met_by == "the handler":
                await library.execute(connection, "select 1")
            elif library.is_async:
                await asyncio.sleep(0)
                await asyncio.sleep(0)

    worker = library.run(library.consume(STORE, handle))
    assert lost == [3]
    assert effects(shop) == [1, 2, 3, 4, 5, 6]
    assert (worker.refused_count, dead_letters(shop)) == (0, [])


def test_g10_a_session_of_a_pool_of_asyncpg_is_replaced_if_it_is_lost(shop: World) -> None:
    """The pool has taken it back already when the consumer closes it."""
    lost: list[int] = []

    async def handle(connection: Any, message: Message) -> None:
        await connection.execute(insert(message))
        if message.stream_position == 3 and not lost:
            lost.append(3)
            await asyncio.to_thread(shop.query, STORE, END_SESSIONS)
            with suppress(asyncpg.InterfaceError):  # says a connection that the pool has taken back
                async with asyncio.timeout(patience(30)):
                    while not connection.is_closed():
                        await asyncio.sleep(0.001)

    async def scenario() -> aio.Consumer:
        at = parameters(STORE)
        given = {"host": at["host"], "port": int(at["port"]), "user": at["user"], "password": at["password"]}
        async with (
            asyncpg.create_pool(**given, database=at["dbname"], min_size=1, max_size=2) as pool,
            aio.Consumer(pool.acquire, "billing", until_empty=True, backoff_seconds=0.01) as worker,
        ):
            await worker.run(handle)
        return worker

    worker = asyncio.run(scenario())
    assert effects(shop) == [1, 2, 3, 4, 5, 6]
    assert (worker.refused_count, dead_letters(shop)) == (0, [])


class Invoice(BaseModel):
    """What a handler wants."""

    amount: int


@with_each_library
def test_a_payload_that_is_not_of_the_type_becomes_a_dead_letter(shop: World, library: Library) -> None:
    """The handler never sees it; the reason has no part of the payload."""
    shop.query(
        STORE, """update relaybox_internal.log set payload = '{"amount": ' || log_position || '}' where log_position <> 2"""
    )
    shop.query(STORE, """update relaybox_internal.log set payload = '{"amount": "secret"}' where log_position = 3""")
    amounts: list[int] = []

    async def handle(connection: Any, message: Message) -> None:
        amounts.append(message.body.amount)

    library.run(library.consume(STORE, handle, payload_type=Invoice))
    assert amounts == [1, 4, 5, 6]
    (no_json, no_number) = dead_letters(shop)
    assert no_json[0] == 2
    assert no_json[1].startswith("the payload is no Invoice: payload: Invalid JSON")
    assert no_number[1].startswith("the payload is no Invoice: amount: Input should be a valid integer")
    assert "secret" not in no_number[1]


@each(library for library in LIBRARIES if library.name not in ("asyncpg", "Django", "psycopg2, libpq service"))
def test_sessions_in_autocommit_are_refused_before_any_work(shop: World, library: Library) -> None:
    """asyncpg and Django begin transactions of their own; of a service Relaybox opens the sessions."""

    async def handle(connection: Any, message: Message) -> None:
        raise AssertionError("handled")

    async def scenario() -> None:
        store = library.store(STORE, autocommit=True)
        if library.is_async:
            async with aio.Consumer(store, "billing", until_empty=True) as worker:
                await worker.run(handle)
        else:
            with consumer.Consumer(store, "billing", until_empty=True) as worker:
                worker.run(lambda connection, message: None)

    with pytest.raises(errors.RequestRefused, match="autocommit"):
        library.run(scenario())
    assert done(shop) == 0


def test_a_consumer_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match="an engine of SQLAlchemy"):
        consumer.Consumer(7, "billing")
    with pytest.raises(TypeError, match="an AsyncEngine of SQLAlchemy"):
        aio.Consumer(7, "billing")


def test_a_consumer_of_threads_refuses_the_connection_of_an_event_loop(shop: World) -> None:
    async def scenario() -> None:
        connection = await psycopg.AsyncConnection.connect(service=STORE)
        with consumer.Consumer(lambda: connection, "billing", until_empty=True) as worker:
            worker.run(lambda connection, message: None)

    with pytest.raises(TypeError, match=r"In an event loop: relaybox\.aio\.Consumer"):
        asyncio.run(scenario())


# --- cancellation ---------------------------------------------------------------------------------------------------------


@with_each_async_library
@pytest.mark.parametrize("waits_for", ["the store", "something else"])
def test_g10_a_cancelled_handler_leaves_no_effect_and_gives_its_lane_back(shop: World, library: Library, waits_for: str) -> None:
    """Another worker has the message at once, although the lease lasts a minute; it is no crash and no refusal."""

    async def scenario() -> None:
        waiting = asyncio.Event()

        async def wait(connection: Any, message: Message) -> None:
            await library.execute(connection, insert(message))
            if message.stream_position == 3:
                waiting.set()
                if waits_for == "the store":
                    await library.execute(connection, "select pg_sleep(600)")
                await asyncio.sleep(600)

        async with asyncio.timeout(patience(60)):
            task = asyncio.create_task(library.consume(STORE, wait))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert effects(shop) == [1, 2]

        async def handle(connection: Any, message: Message) -> None:
            assert message.attempt == 1, "the cancelled one counted"
            await library.execute(connection, insert(message))

        await library.consume(STORE, handle)

    library.run(scenario())
    assert effects(shop) == [1, 2, 3, 4, 5, 6]
    assert dead_letters(shop) == []


@with_each_async_library
def test_g10_a_lane_is_free_at_once_wherever_a_consumer_is_cancelled(shop: World, library: Library) -> None:
    """Also between two messages: while it acknowledges and fetches, commits, or begins the next transaction."""

    deliver(shop, 600)

    async def scenario() -> None:
        for number in range(20):
            handled = asyncio.Event()

            async def handle(connection: Any, message: Message, handled: asyncio.Event = handled) -> None:
                await library.execute(connection, "select 1")
                handled.set()

            task = asyncio.create_task(library.consume(STORE, handle, max_count=1, until_empty=False))
            async with asyncio.timeout(patience(60)):
                await handled.wait()
            await asyncio.sleep(number / 4000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            leased = shop.query(STORE, "select lane, worker from relaybox.lag('billing') where worker is not null")
            assert leased == [], f"after {number} cancelled consumers"

    library.run(scenario())


@with_each_async_library
def test_a_handler_that_times_out_is_refused_as_one_that_fails(shop: World, library: Library) -> None:
    async def handle(connection: Any, message: Message) -> None:
        if message.stream_position == 2:
            async with asyncio.timeout(0.05):
                await library.execute(connection, "select pg_sleep(600)")
        await library.execute(connection, insert(message))

    library.run(library.consume(STORE, handle))
    assert effects(shop) == [1, 3, 4, 5, 6]
    assert dead_letters(shop) == [(2, "TimeoutError:")]


def test_a_plain_function_is_no_handler_of_an_event_loop(shop: World) -> None:
    async def scenario() -> None:
        async with aio.Consumer(lambda: connect_asyncpg(STORE), "billing", until_empty=True) as worker:
            await worker.run(lambda connection, message: None)  # type: ignore[arg-type,return-value]

    with pytest.raises(errors.HandlerRefused, match=r"returned nothing to await\. Nothing is acknowledged"):
        asyncio.run(scenario())
    assert done(shop) == 0


def test_a_break_gives_the_lane_back(shop: World) -> None:
    """The message whose body broke off is unacknowledged; the loop can be an `async for`."""

    async def positions(until: int) -> list[int]:
        seen = []
        async with aio.Consumer(lambda: connect_asyncpg(STORE), "billing", until_empty=True) as worker:
            async for message in worker:
                seen.append(message.stream_position)
                if message.stream_position == until:
                    break
        return seen

    assert asyncio.run(positions(3)) == [1, 2, 3]
    assert asyncio.run(positions(0)) == [3, 4, 5, 6]


def test_a_consumer_in_django_s_open_transaction_is_refused(shop: World) -> None:
    connection = django_database(STORE)
    with (
        transaction.atomic(using=STORE),
        pytest.raises(errors.RequestRefused, match=r"has an open transaction that is not the consumer's"),
        consumer.Consumer(connection, "billing", until_empty=True) as worker,
    ):
        worker.run(lambda connection, message: None)
    connection.close()
