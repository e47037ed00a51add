"""G10: effects in the consumer's store exist exactly once, whatever is killed and however often something is asked twice."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import text

from relaybox.consumer import Consumer
from relaybox.failpoints import CONSUMER_FAILPOINTS
from tests.support.killed_child import kill_at, run_until_killed
from tests.support.patience import Deadline
from tests.support.streams import STORE, deliver, stream_positions
from tests.support.world import World, wait_until

KILLS = int(os.environ.get("RELAYBOX_KILLS", "20"))
STEPS = [step for step in CONSUMER_FAILPOINTS if step != "consume.refused"]


@pytest.fixture
def shop(world: World) -> World:
    """A table for effects beside the stream, and the subscription `billing` that never takes a kill for a poison message."""
    world.query(
        STORE, "create table public.effect (n bigint generated always as identity, stream_position bigint not null, payload text)"
    )
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', crash_limit => 1000000, lease_seconds => 1)")
    return world


def work(*, worker: str, max_count: int = 5, commit_every: int = 1, refused_stream_position: int = 0) -> None:
    """Consumes until nothing is there: one row of effect per message, but for the one that is refused."""
    with Consumer(
        STORE, "billing", worker=worker, max_count=max_count, commit_every=commit_every, until_empty=True, retries=0
    ) as consumer:
        for message in consumer:
            consumer.connection.execute(
                text("insert into public.effect (stream_position, payload) values (:stream_position, :payload)"),
                {"stream_position": message.stream_position, "payload": message.payload},
            )
            if message.stream_position == refused_stream_position:
                consumer.refuse("not now")


def test_g10_a_consumer_killed_at_every_step_at_random_leaves_every_effect_once(shop: World, tmp_path: Path) -> None:
    """RELAYBOX_KILLS times SIGKILL, at a step or at any moment, alone or followed by another worker; messages go on coming."""
    seed = int(os.environ.get("RELAYBOX_SEED", 7 if KILLS <= 20 else random.randrange(10**6)))
    print(f"RELAYBOX_SEED={seed}")
    chance = random.Random(seed)
    sent = kills = 0
    worker = "w0"
    steps = [*STEPS, *chance.choices([*STEPS, "any moment"], k=KILLS)]
    deadline = Deadline(60 + KILLS * 3)
    while kills < KILLS:
        assert not deadline.is_over(), f"{kills} kills within {deadline}"
        if sent - done(shop) < 10:
            deliver(shop, 40, backwards=chance.random() < 0.3)
            sent += 40
        step = steps[kills % len(steps)]
        failpoints = "" if step == "any moment" else f"{step}:{chance.randint(1, 4 if step != 'consume.begin' else 1)}=kill"
        after = chance.uniform(0.02, 0.2) if step == "any moment" else None
        consume = partial(work, worker=worker, max_count=chance.randint(1, 9), commit_every=chance.choice((1, 1, 4)))
        if run_until_killed(tmp_path, failpoints, consume, after_seconds=after):
            kills += 1
            if chance.random() < 0.1:
                worker = f"w{kills}"
    wait_until(lambda: finished(shop, sent), "all messages are done")
    assert [row[0] for row in shop.query(STORE, "select stream_position from public.effect order by n")] == list(
        range(1, sent + 1)
    )
    assert shop.value(STORE, "select count(*) from public.effect where payload = 'm' || stream_position") == sent


def finished(world: World, sent: int) -> bool:
    work(worker="last")
    return done(world) == sent


def done(world: World) -> int:
    return int(world.value(STORE, "select done_stream_position from relaybox.lag('billing')"))


@pytest.mark.parametrize("step", CONSUMER_FAILPOINTS)
def test_g10_killed_at_each_step_in_turn(shop: World, tmp_path: Path, step: str) -> None:
    """A3.31, the crash between receiving and saving: whatever the step, the next start does what is missing and nothing twice."""
    deliver(shop, 12)
    refused = 2 if step == "consume.refused" else 0
    kill_at(step, tmp_path, lambda: work(worker="w", refused_stream_position=refused))
    assert shop.value(STORE, "select count(*) from relaybox_internal.failed_attempt") == 0, (
        "a refusal that was not committed is none"
    )
    work(worker="w")
    assert [row[0] for row in shop.query(STORE, "select stream_position from public.effect order by n")] == list(range(1, 13))


def test_g10_a_slow_reply_and_a_second_request_do_the_work_once(shop: World) -> None:
    """A3.32: the same worker asks twice, since the first answer was slow. Both get the same messages, and one acknowledgement counts."""
    deliver(shop, 6)
    with shop.session(STORE) as first, first.cursor() as slow, shop.session(STORE) as second, second.cursor() as quick:
        slow.execute("select stream_position, payload, token from relaybox.fetch('billing', 3, worker => 'w')")
        answer = slow.fetchall()
        first.commit()
        quick.execute("select stream_position, payload, token from relaybox.fetch('billing', 3, worker => 'w')")
        second_answer = quick.fetchall()
        assert [row[:2] for row in second_answer] == [row[:2] for row in answer]
        for cursor in (slow, quick):
            cursor.executemany(
                "insert into public.effect (stream_position, payload) values (%s, %s)", [row[:2] for row in answer]
            )
        quick.execute("select relaybox.ack('billing', 3, %s)", (second_answer[0][2],))
        second.commit()
        with pytest.raises(psycopg2.Error) as refused:
            slow.execute("select relaybox.ack('billing', 3, %s)", (answer[0][2],))
        assert refused.value.pgcode == "RB035"
        first.rollback()
    assert [row[0] for row in shop.query(STORE, "select stream_position from public.effect order by stream_position")] == [
        1,
        2,
        3,
    ]


def test_g10_fetch_work_and_ack_in_one_transaction(shop: World) -> None:
    """The shortest loop, in plain SQL: rolled back, nothing happened and nothing is acknowledged; committed, all of it is."""
    deliver(shop, 4)
    for outcome, expected in (("rollback", []), ("commit", [1, 2, 3, 4])):
        with shop.session(STORE) as connection, connection.cursor() as cursor:
            cursor.execute(
                "insert into public.effect (stream_position, payload) select stream_position, payload from relaybox.fetch('billing')"
            )
            cursor.execute("select relaybox.ack('billing', 4)")
            getattr(connection, outcome)()
        assert (
            stream_positions(shop.query(STORE, "select stream_position from public.effect order by stream_position")) == expected
        )


def test_g10_a_worker_that_slept_through_its_lease_leaves_no_effect(shop: World) -> None:
    """Its transaction fails at the acknowledgement, with the work in it; who took over did the work."""
    deliver(shop, 3)
    with shop.session(STORE) as sleeper, sleeper.cursor() as cursor:
        cursor.execute("select stream_position, payload, token from relaybox.fetch('billing', 3, worker => 'sleeper')")
        rows = cursor.fetchall()
        sleeper.commit()
        shop.query(STORE, "update relaybox_internal.cursor set leased_until = clock_timestamp() where worker = 'sleeper'")
        work(worker="heir")
        cursor.executemany("insert into public.effect (stream_position, payload) values (%s, %s)", [row[:2] for row in rows])
        with pytest.raises(psycopg2.Error) as refused:
            cursor.execute("select relaybox.ack('billing', 3, %s)", (rows[0][2],))
        assert refused.value.pgcode == "RB035"
        sleeper.rollback()
    assert [row[0] for row in shop.query(STORE, "select stream_position from public.effect order by stream_position")] == [
        1,
        2,
        3,
    ]
