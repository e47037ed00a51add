"""The Python client: order of work and acknowledgement, refusals, broken sessions, stopping."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from relaybox import errors
from relaybox.consumer import Consumer, Message
from tests.support.patience import patience
from tests.support.services import break_service
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

PROGRAM = Path(__file__).with_name("consumer_program.py")


@pytest.fixture
def ten(world: World) -> World:
    """Ten messages, the subscription `billing`, and a table for effects in the same store."""
    deliver(world, 10)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 2)")
    world.query(STORE, "create table public.effect (stream_position bigint not null, sender text, payload text, by text)")
    return world


def consumer(subscription: str = "billing", **options: object) -> Consumer:
    settings = {"max_count": 4, "until_empty": True, "backoff_seconds": 0.01, "poll_seconds": 0.01, **options}
    return Consumer(STORE, subscription, **settings)


def effects(world: World) -> list[int]:
    return [row[0] for row in world.query(STORE, "select stream_position from public.effect order by stream_position")]


def write(worker: Consumer, message: Message) -> None:
    worker.connection.execute(
        text("insert into public.effect (stream_position, payload) values (:p, :m)"),
        {"p": message.stream_position, "m": message.payload},
    )


def done(world: World) -> int:
    return int(world.value(STORE, "select max(done_stream_position) from relaybox.lag('billing')"))


def start(options: dict[str, object], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), STORE, "billing", json.dumps(options)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("commit_every", [1, 3, 100])
def test_g10_work_and_acknowledgement_are_one_transaction(ten: World, commit_every: int) -> None:
    """Ten messages, ten effects, whatever the size of the transaction."""
    with consumer(commit_every=commit_every) as worker:
        for message in worker:
            write(worker, message)
            assert message.payload == f"m{message.stream_position}"
    assert effects(ten) == list(range(1, 11))
    assert done(ten) == 10


def test_g10_an_exception_in_the_body_leaves_no_effect_of_that_message(ten: World) -> None:
    """It is refused with the exception as reason, and comes again, with those after it."""
    with pytest.raises(ZeroDivisionError), consumer() as worker:
        for message in worker:
            write(worker, message)
            if message.stream_position == 3:
                raise ZeroDivisionError("poison")
    assert effects(ten) == [1, 2]
    assert done(ten) == 2
    assert ten.query(STORE, "select stream_position, attempts, reason from relaybox_internal.failed_attempt") == [
        (3, 1, "ZeroDivisionError: poison")
    ]
    with consumer() as worker:
        assert [(message.stream_position, message.attempt) for message in worker][:2] == [(3, 2), (4, 1)]


@pytest.mark.parametrize("commit_every", [1, 3])
def test_run_refuses_what_its_handler_fails_on_and_the_rest_flows(ten: World, commit_every: int) -> None:
    """After nack_limit attempts a message is a dead letter; the others are done once each."""

    def handle(connection: object, message: Message) -> None:
        write(worker, message)
        if message.stream_position in (3, 7):
            raise ValueError(f"no {message.stream_position}")

    with consumer(commit_every=commit_every) as worker:
        worker.run(handle)
    assert effects(ten) == [1, 2, 4, 5, 6, 8, 9, 10]
    assert ten.query(
        STORE, "select stream_position, reason, detail, attempts, state from relaybox.dead_letters order by stream_position"
    ) == [
        (3, "refused", "ValueError: no 3", 2, "open"),
        (7, "refused", "ValueError: no 7", 2, "open"),
    ]


def test_break_leaves_the_message_to_the_next_consumer_at_once(ten: World) -> None:
    with consumer() as worker:
        for message in worker:
            write(worker, message)
            if message.stream_position == 2:
                break
    assert effects(ten) == [1]
    with consumer() as worker:
        assert next(iter(worker)).stream_position == 2


def test_until_empty_says_what_other_workers_have_leased(ten: World, caplog: pytest.LogCaptureFixture) -> None:
    """It ended silently, as if everything was read. Its own lane only, where it was told to consume one; nothing, where all is read."""
    ten.query(STORE, "select relaybox.subscribe('wide', 'flights', lanes => 3, lease_seconds => 3600)")
    ten.query(STORE, "select from relaybox.fetch('wide', 2, only_lane => 2, worker => 'w-2')")
    (until,) = ten.query(STORE, "select leased_until from relaybox.lag('wide') where lane = 2")[0]
    caplog.set_level("WARNING", logger="relaybox")
    with consumer("wide", lane=1) as worker:
        list(worker)
        assert worker.unread == ()
    assert caplog.messages == []
    with consumer("wide") as worker:
        list(worker)
        (left,) = worker.unread
        assert (left.lane, left.worker, left.leased_until) == (2, "w-2", until)
        assert left.stream_positions > 0
    (said,) = caplog.messages
    assert said.startswith("consumer_leaves_unread subscription=wide")
    assert f'leased_lanes=1 leased_to=w-2 leased_until="{until}"' in said
    with consumer() as worker:
        list(worker)
        assert worker.unread == ()
    assert len(caplog.messages) == 1


def test_stop_finishes_the_message_and_gives_the_lane_back(ten: World) -> None:
    with consumer() as worker:
        for message in worker:
            write(worker, message)
            if message.stream_position == 2:
                worker.stop()
    assert effects(ten) == [1, 2]
    with consumer() as worker:
        assert next(iter(worker)).stream_position == 3


def test_an_orm_session_can_do_the_work(ten: World) -> None:
    """A Session bound to the consumer's connection is part of its transaction."""
    with consumer() as worker:
        for message in worker:
            with Session(bind=worker.connection) as session:
                session.execute(text("insert into public.effect (stream_position) values (:p)"), {"p": message.stream_position})
                session.commit()
            if message.stream_position == 5:
                worker.refuse("its work is rolled back, although the session had committed")
    assert effects(ten) == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_a_session_that_broke_is_opened_anew_and_nothing_is_doubled(ten: World) -> None:
    """The server ends the session between messages, during the work and before the commit."""
    with consumer() as worker:
        for message in worker:
            write(worker, message)
            if message.stream_position in (2, 5, 9) and message.attempt == 1:
                ten.query(
                    STORE,
                    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'relaybox consumer billing'"
                    " and datname = current_database()",
                )
    assert effects(ten) == list(range(1, 11))


def test_after_three_retries_the_error_is_told(ten: World) -> None:
    """A store that does not answer: three pauses, then StoreUnreachable."""
    break_service(STORE, port="1")
    with pytest.raises(errors.StoreUnreachable), consumer() as worker:
        next(iter(worker))


def test_what_is_refused_for_good_is_told_at_once_with_what_to_repair(ten: World) -> None:
    """A service or database that does not exist is not an unreachable store: no retry."""
    with pytest.raises(errors.ConfigurationError, match="Add a section"), Consumer("nowhere", "billing") as worker:
        next(iter(worker))
    break_service(STORE, dbname="elsewhere")
    with pytest.raises(errors.StoreUnusable, match="Correct user, password and dbname in section"), consumer() as worker:
        next(iter(worker))


def test_sigterm_ends_the_loop_after_its_message(ten: World) -> None:
    """The process ends by itself with exit code 0; what it had fetched and not handled is free at once."""
    process = start({"max_count": 4, "poll_seconds": 0.05})
    assert process.stdout
    for line in process.stdout:
        if line.strip() == "10":
            break
    process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    assert process.wait(timeout=patience(20)) == 0, process.stderr and process.stderr.read()
    assert time.monotonic() - begun < patience(10)
    assert effects(ten) == list(range(1, 11))
    assert ten.value(STORE, "select count(*) from relaybox.lag('billing') where worker is not null") == 0


def test_two_consumers_of_two_lanes_share_the_work_and_keep_each_sender_in_order(world: World) -> None:
    deliver(world, 300, senders=7)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', lanes => 2)")
    world.query(
        STORE,
        "create table public.effect (n bigint generated always as identity, stream_position bigint not null, sender text, payload text, by text)",
    )
    processes = [start({"max_count": 10, "until_empty": True, "poll_seconds": 0.05}) for _ in range(2)]
    for process in processes:
        process.communicate(timeout=patience(60))
        assert process.returncode == 0
    wait_until(lambda: world.value(STORE, "select count(*) from public.effect") == 300, "all are done")
    assert world.value(STORE, "select count(distinct stream_position) from public.effect") == 300
    assert (
        world.value(
            STORE,
            "select count(*) from (select stream_position < lag(stream_position) over (partition by sender order by n) as back from public.effect) x where back",
        )
        == 0
    )
