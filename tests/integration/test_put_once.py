"""A put that is repeated under its key sends its messages once: beside retention, other sessions, restores and other roles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest
import sqlalchemy
from psycopg2.extras import RealDictCursor

from relaybox.outbox import Draft, put_message_id, put_once
from relaybox.retention.segments import retain_store
from tests.support.backups import Backups
from tests.support.patience import patience
from tests.support.world import World, wait_until

SENT = "select payload from relaybox.outbox order by seq"
TWO = [Draft("flights", "a", key="k", headers={"n": 1}), Draft("flights", {"b": [1, {"y": 2, "x": 3}]})]


def put(world: World, drafts: list[Draft], *, key: str = "dag/task/-1/run", sender: str = "UA", numbered: bool = False) -> bool:
    """One committed transaction."""
    with world.session() as connection, connection.cursor() as cursor:
        is_sent_now = put_once(cursor, sender, key, drafts, numbered=numbered)
        connection.commit()
    return is_sent_now


def test_g3_a_put_that_is_repeated_sends_nothing_and_its_ids_follow_from_the_key(world: World) -> None:
    """Also in another order of an object's members, which mean the same."""
    assert put(world, TWO)
    assert not put(world, TWO)
    assert not put(world, [TWO[0], Draft("flights", {"b": [1, {"x": 3, "y": 2}]})])
    assert world.query("airline", "select message_id::text, key, headers, payload from relaybox.outbox order by seq") == [
        (str(put_message_id("UA", "dag/task/-1/run", 1)), "k", {"n": 1}, "a"),
        (str(put_message_id("UA", "dag/task/-1/run", 2)), None, None, '{"b": [1, {"y": 2, "x": 3}]}'),
    ]
    assert put(world, TWO, key="dag/task/-1/another run")
    assert put(world, TWO, sender="DL")
    assert world.value("airline", "select count(distinct message_id) from relaybox.outbox") == 6


@pytest.mark.parametrize(
    "changed",
    [
        [Draft("flights", "a"), TWO[1]],
        [Draft("other", "a", key="k", headers={"n": 1}), TWO[1]],
        [TWO[0], Draft("flights", '{"b": [1, {"y": 2, "x": 3}]}')],
        [TWO[1], TWO[0]],
        [TWO[0]],
        [],
        [Draft("flights", b"a", key="k", headers={"n": 1}), TWO[1]],
    ],
)
def test_other_messages_under_the_key_are_refused_and_none_is_sent(world: World, changed: list[Draft]) -> None:
    put(world, TWO)
    with pytest.raises(psycopg2.Error) as refused:
        put(world, changed)
    assert refused.value.pgcode == "RB024"
    assert "put dag/task/-1/run of sender UA sent 2 messages at" in str(refused.value)
    assert world.value("airline", "select count(*) from relaybox.outbox") == 2


def test_a_put_that_is_rolled_back_was_none(world: World) -> None:
    with world.session() as connection, connection.cursor() as cursor:
        assert put_once(cursor, "UA", "k", TWO)
        connection.rollback()
    assert put(world, [Draft("flights", "other")], key="k")
    assert world.query("airline", SENT) == [("other",)]


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_g3_of_two_attempts_at_once_one_sends(world: World, ends: str) -> None:
    """The second one waits: Airflow may start a retry while the lost worker's transaction is open."""
    with world.session() as first, first.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        assert put_once(cursor, "UA", "dag/task/-1/run", TWO)
        second = pool.submit(put, world, TWO)
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%%record_put%%'"
        wait_until(lambda: world.value("airline", waiting) == 1, "the second put waits")
        getattr(first, ends)()
        assert second.result(timeout=patience(30)) == (ends == "rollback")
    assert world.value("airline", "select count(*) from relaybox.outbox") == 2


def test_g8_retention_removes_the_messages_and_not_what_was_put(world: World) -> None:
    """A task that is cleared after its messages are gone sends nothing."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    many = [Draft("flights", f"m{n}") for n in range(40)]
    assert put(world, many)
    world.transfer_all()
    world.settle_all()
    retain_store(world.routes.store("airline"), recorded_by="test", patience_seconds=10)
    assert world.value("airline", "select count(*) from relaybox.outbox") < 40
    assert not put(world, many)


def test_a_store_that_is_restored_to_before_the_put_sends_the_same_ids_again(world: World, backups: Backups) -> None:
    """So a route with a message_id_window delivers each once."""
    before = backups.take("airline")
    put(world, TWO)
    ids = world.query("airline", "select message_id from relaybox.outbox order by seq")
    backups.restore("airline", before)
    assert put(world, TWO)
    assert world.query("airline", "select message_id from relaybox.outbox order by seq") == ids


def test_a_numbered_put_takes_its_indexes_once(world: World) -> None:
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    for _ in range(2):
        put(world, TWO, sender="pump", numbered=True)
    put(world, TWO, sender="pump", key="next", numbered=True)
    assert world.query("airline", 'select epoch, "index" from relaybox.outbox order by seq') == [(1, n) for n in (1, 2, 3, 4)]


def test_a_key_of_any_length_and_every_kind_of_session_will_do(world: World) -> None:
    key = "ü" * 5000
    assert put(world, TWO, key=key)
    assert not put(world, TWO, key=key)
    with world.session() as connection, connection.cursor(cursor_factory=RealDictCursor) as cursor:
        assert not put_once(cursor, "UA", key, TWO)
    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(service="airline"))
    with closing(engine.connect()) as session, session.begin():
        assert not put_once(session, "UA", key, TWO)
        assert put_once(session, "UA", "another", TWO)
    engine.dispose()
    assert world.value("airline", "select count(*) from relaybox.outbox") == 4


@pytest.mark.parametrize(
    "arguments",
    [
        (None, "k", "c", 1),
        ("UA", "", "c", 1),
        ("UA", "k", None, 1),
        ("UA", "k", "c", -1),
        ("U A", "k", "c", 1),
        ("UA", "k" * 1001, "c", 1),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused(world: World, arguments: tuple[object, ...]) -> None:
    with pytest.raises(psycopg2.Error) as refused:
        world.query("airline", "select relaybox.record_put(%s, %s, %s, %s)", *arguments)
    assert refused.value.pgcode == "RB036"
