"""The Python client where the session breaks inside the handler, or the store refuses the work only at COMMIT."""

from __future__ import annotations

import contextlib

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError

from relaybox import errors
from relaybox.consumer import Consumer, Message
from tests.support.streams import STORE, deliver
from tests.support.world import World

ALL = list(range(1, 11))


@pytest.fixture
def ten(world: World) -> World:
    """Ten messages, the subscription `billing`, and a table whose rows need a parent, which is looked for at COMMIT."""
    deliver(world, 10)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 2)")
    world.query(STORE, "create table public.parent (parent integer primary key)")
    world.query(
        STORE,
        "create table public.effect (stream_position bigint not null,"
        " parent integer constraint effect_has_parent references public.parent deferrable initially deferred)",
    )
    return world


def consumer(**options: object) -> Consumer:
    settings = {"max_count": 4, "until_empty": True, "backoff_seconds": 0.01, "poll_seconds": 0.01, **options}
    return Consumer(STORE, "billing", **settings)


def effects(world: World) -> list[int]:
    return [row[0] for row in world.query(STORE, "select stream_position from public.effect order by stream_position")]


def write(connection: Connection, message: Message, parent: int | None = None) -> None:
    connection.execute(
        text("insert into public.effect (stream_position, parent) values (:p, :parent)"),
        {"p": message.stream_position, "parent": parent},
    )


def end_sessions(world: World) -> None:
    """As a restart of the server does; the consumer learns it from its next statement."""
    world.query(
        STORE,
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'relaybox consumer billing'"
        " and datname = current_database()",
    )


def failed_attempts(world: World) -> int:
    """Refusals that count now, and those that made a dead letter."""
    return int(
        world.value(
            STORE, "select (select count(*) from relaybox_internal.failed_attempt) + (select count(*) from relaybox.dead_letters)"
        )
    )


def dead_letters(world: World) -> list[tuple[int, str]]:
    rows = world.query(STORE, "select stream_position, reason, detail from relaybox.dead_letters order by stream_position")
    assert {reason for _, reason, _ in rows} <= {"refused"}
    return [(stream_position, detail) for stream_position, _, detail in rows]


@pytest.mark.parametrize("commit_every", [1, 3])
@pytest.mark.parametrize("told", ["raised", "ignored", "as an error of its own", "by psycopg2"])
def test_run_goes_on_when_its_session_breaks_inside_the_handler(ten: World, commit_every: int, told: str) -> None:
    """However the handler tells it: no message is refused (one refusal would make a dead letter), each has its effect once."""
    ten.query(STORE, "select relaybox.unsubscribe('billing', 'another nack_limit')")
    ten.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    broken = set()

    def handle(connection: Connection, message: Message) -> None:
        write(connection, message)
        if message.stream_position not in (2, 5, 9) or message.stream_position in broken:
            return
        broken.add(message.stream_position)
        end_sessions(ten)
        if told == "raised":
            write(connection, message)
        elif told == "ignored":
            with contextlib.suppress(DBAPIError):
                write(connection, message)
        elif told == "by psycopg2":
            with connection.connection.cursor() as cursor:
                cursor.execute("select 1")
        else:
            try:
                write(connection, message)
            except DBAPIError as error:
                raise ValueError("no invoice") from error

    with consumer(commit_every=commit_every) as worker:
        worker.run(handle)
    assert broken == {2, 5, 9}
    assert effects(ten) == ALL
    assert failed_attempts(ten) == 0


def test_a_broken_session_in_the_loop_does_not_refuse_the_message(ten: World) -> None:
    """Three restarts of the server, one more than nack_limit refusals: the error goes on to the caller, the message comes again."""
    for _ in range(3):
        with pytest.raises(OperationalError), consumer(worker="billing-1") as worker:
            for message in worker:
                write(worker.connection, message)
                end_sessions(ten)
                write(worker.connection, message)
        assert failed_attempts(ten) == 0
    with consumer(worker="billing-1") as worker:
        for message in worker:
            write(worker.connection, message)
    assert effects(ten) == ALL


def test_break_on_a_broken_session_gives_the_lane_back(ten: World) -> None:
    """It ended with the driver's error, and the lane waited for the end of its lease."""
    with consumer() as worker:
        for message in worker:
            write(worker.connection, message)
            end_sessions(ten)
            break
    with consumer() as worker:
        assert next(iter(worker)).stream_position == 1


def test_run_does_not_acknowledge_a_message_whose_handler_needs_a_retry(ten: World, caplog: pytest.LogCaptureFixture) -> None:
    """Another store was busy: the message was acknowledged, although its work was not done. The log says why it is fetched anew."""
    caplog.set_level("INFO", logger="relaybox")
    busy = iter(range(2))

    def handle(connection: Connection, message: Message) -> None:
        if message.stream_position == 3 and next(busy, None) is not None:
            raise errors.StoreBusy("another store: a lock")
        write(connection, message)

    with consumer() as worker:
        worker.run(handle)
    assert effects(ten) == ALL
    assert failed_attempts(ten) == 0
    told = [message for message in caplog.messages if message.startswith("consumer_fetches_anew ")]
    assert [message.partition(" error=")[2] for message in told] == ['"another store: a lock"'] * 2


@pytest.mark.parametrize("commit_every", [1, 3, 100])
def test_run_refuses_work_that_fails_at_commit_and_the_rest_flows(ten: World, commit_every: int) -> None:
    """A deferred foreign key: the message whose row it is becomes the dead letter, also where it shares its transaction."""

    def handle(connection: Connection, message: Message) -> None:
        write(connection, message, parent=7 if message.stream_position in (1, 6) else None)

    with consumer(commit_every=commit_every) as worker:
        worker.run(handle)
    assert effects(ten) == [2, 3, 4, 5, 7, 8, 9, 10]
    found = dead_letters(ten)
    assert [stream_position for stream_position, _ in found] == [1, 6]
    assert all(detail.startswith("ForeignKeyViolation: ") and "effect_has_parent" in detail for _, detail in found)
    assert failed_attempts(ten) == 2


@pytest.mark.parametrize("commit_every", [1, 3])
def test_run_refuses_a_message_whose_failed_statement_was_ignored(ten: World, commit_every: int) -> None:
    """The transaction is aborted: the message that aborted it is refused, not the one whose turn comes next."""

    def handle(connection: Connection, message: Message) -> None:
        write(connection, message)
        if message.stream_position in (1, 6):
            with contextlib.suppress(DBAPIError):
                connection.execute(text("select 1 / 0"))

    with consumer(commit_every=commit_every) as worker:
        worker.run(handle)
    assert effects(ten) == [2, 3, 4, 5, 7, 8, 9, 10]
    found = dead_letters(ten)
    assert [stream_position for stream_position, _ in found] == [1, 6]
    assert all("aborted" in detail and "25P02" in detail for _, detail in found)


@pytest.mark.parametrize("statement", ["insert into public.effect values (0, 7)", "select 1 / 0"])
def test_in_the_loop_work_that_the_store_refuses_refuses_the_message_and_ends_the_loop(ten: World, statement: str) -> None:
    """As an exception in the body does; the error is raised where the next message is asked for."""
    with (
        pytest.raises(errors.StoreFailed, match=r"effect_has_parent|stream position 2: a statement failed"),
        consumer() as worker,
    ):
        for message in worker:
            if message.stream_position == 2:
                with contextlib.suppress(DBAPIError):
                    worker.connection.execute(text(statement))
    assert ten.query(STORE, "select stream_position, attempts from relaybox_internal.failed_attempt") == [(2, 1)]
    assert ten.value(STORE, "select max(done_stream_position) from relaybox.lag('billing')") == 1


def test_a_failure_of_the_store_itself_at_commit_stays_an_error(ten: World) -> None:
    """A deferred trigger says what a server with a damaged block says (XX001): no message is refused."""
    ten.query(
        STORE,
        "create function public.damaged() returns trigger language plpgsql as"
        " $$ begin raise exception using errcode = 'XX001', message = 'invalid page in block 7'; end $$",
    )
    ten.query(
        STORE,
        "create constraint trigger damaged after insert on public.effect deferrable initially deferred"
        " for each row execute function public.damaged()",
    )
    with pytest.raises(errors.StoreFailed, match="invalid page"), consumer() as worker:
        worker.run(write)
    assert failed_attempts(ten) == 0
