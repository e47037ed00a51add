"""A put that is repeated under its key sends its messages once: beside retention, other sessions, restores and other roles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import sqlalchemy
from psycopg2.extensions import cursor as Psycopg2Cursor
from psycopg2.extras import RealDictCursor

from relaybox.outbox import Draft, put_message_id, put_once
from relaybox.outbox import put as put_one
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


class CountingCursor(Psycopg2Cursor):
    """Counts its statements."""

    statement_count = 0

    def execute(self, query: Any, values: Any = None) -> None:
        self.statement_count += 1
        super().execute(query, values)


@pytest.mark.parametrize("numbered", [False, True])
def test_a_put_of_many_messages_is_a_few_statements(world: World, *, numbered: bool) -> None:
    """Two record the put, one takes all indexes, and each 10,000 messages are one insert, in the order of the list."""
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless'), relaybox.new_epoch('pump', 'gapless')")
    world.query("airline", "select relaybox.next_index('pump')")
    many = [Draft("flights", f"m{n}") for n in range(25_001)]
    with world.session() as connection, connection.cursor(cursor_factory=CountingCursor) as cursor:
        assert put_once(cursor, "pump", "k", many, numbered=numbered)
        assert cursor.statement_count == (6 if numbered else 5)
        assert not put_once(cursor, "pump", "k", many, numbered=numbered)
        connection.commit()
    sent = world.query("airline", 'select payload, message_id::text, epoch, "index" from relaybox.outbox order by seq')
    assert sent == [
        (f"m{n}", str(put_message_id("pump", "k", n + 1)), *((2, n + 2) if numbered else (1, None))) for n in range(25_001)
    ]
    assert world.value("airline", "select relaybox.next_index('pump')") == (25_003 if numbered else 2)


def test_large_messages_are_spread_over_statements(world: World) -> None:
    """A statement has about 8 MiB, or one message."""
    large = [Draft("flights", letter * (5 * 2**20)) for letter in "abc"]
    with world.session() as connection, connection.cursor(cursor_factory=CountingCursor) as cursor:
        assert put_once(cursor, "UA", "large", [*large, Draft("flights", b"\xff" * 2**24), Draft("flights", "last")])
        assert cursor.statement_count == 2 + 5
        connection.commit()
    sent = "select left(payload, 1), coalesce(length(payload), length(payload_bytes)) from relaybox.outbox order by seq"
    size = 5 * 2**20
    assert world.query("airline", sent) == [("a", size), ("b", size), ("c", size), (None, 2**24), ("l", 4)]


def test_a_message_of_a_put_is_the_same_as_one_put_alone(world: World) -> None:
    """Each payload, key and headers as put() inserts them: nothing is changed on the way through JSON."""
    payloads: list[Any] = [
        "",
        "\\ \" ' \x01 \x7f ü 😀 \u2028 {braces} :colon %s",
        b"",
        bytes(range(256)),
        {"n": 10**40, "x": 1.5},
        [],
        ["\\u0000"],
    ]
    drafts = [Draft("flights", payload, key="\\'\"", headers={"h": [1e300, None, "ü"]}) for payload in payloads]
    with world.session() as connection, connection.cursor() as cursor:
        assert put_once(cursor, "UA", "k", drafts)
        for draft in drafts:
            put_one(cursor, draft.topic, "UA", draft.payload, key=draft.key, headers=draft.headers)
        connection.commit()
    columns = "topic, sender, epoch, index, key, headers::text, payload, payload_bytes, clock"
    sent = world.query("airline", f"select {columns} from relaybox.outbox order by seq")
    assert len(sent) == 2 * len(payloads)
    assert [[bytes(one) if isinstance(one, memoryview) else one for one in row] for row in sent[: len(payloads)]] == [
        [bytes(one) if isinstance(one, memoryview) else one for one in row] for row in sent[len(payloads) :]
    ]


def test_a_trigger_that_drops_messages_of_a_put_is_an_error(world: World) -> None:
    """A put that is on record has sent all of its messages."""
    world.query(
        "airline",
        """
        create function public.dropping() returns trigger language plpgsql as
        $$begin if new.payload = 'a' then return null; end if; return new; end$$;
        create trigger dropping before insert on relaybox.outbox for each row execute function public.dropping()
        """,
    )
    with world.session() as connection, connection.cursor() as cursor:
        with pytest.raises(RuntimeError, match="1 of 2 messages were inserted"):
            put_once(cursor, "UA", "k", TWO)
        connection.rollback()
    assert world.value("airline", "select count(*) from relaybox_internal.put") == 0


@pytest.mark.parametrize("index_count", [0, -1, None])
def test_indexes_are_taken_by_a_number_from_one(world: World, index_count: int | None) -> None:
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    with pytest.raises(psycopg2.Error, match="next_indexes gives 1 index or more") as refused:
        world.query("airline", "select relaybox.next_indexes('pump', %s)", index_count)
    assert refused.value.pgcode == "RB036"
    assert world.value("airline", "select relaybox.next_indexes('pump', 3)") == 1
    assert world.value("airline", "select relaybox.next_indexes('pump', 2)") == 4


@pytest.mark.parametrize("by", ["psycopg2", "sqlalchemy"])
def test_a_session_that_commits_each_statement_is_refused_and_records_nothing(world: World, by: str) -> None:
    connection = psycopg2.connect(service="airline")
    connection.autocommit = True
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg2://", creator=lambda: psycopg2.connect(service="airline"), isolation_level="AUTOCOMMIT"
    )
    with closing(connection), closing(engine.connect()) as session, connection.cursor() as cursor:
        with pytest.raises(ValueError, match="autocommit"):
            put_once(cursor if by == "psycopg2" else session, "UA", "k", [TWO[0], Draft("Bad Topic!", "b")])
        assert world.value("airline", "select count(*) from relaybox_internal.put") == 0
        cursor.execute("begin")
        assert put_once(cursor, "UA", "k", TWO)
        cursor.execute("commit")
    engine.dispose()
    assert not put(world, TWO, key="k")


def test_names_of_members_of_several_types_are_taken(world: World) -> None:
    assert put(world, [Draft("flights", {1: {2: 1, "x": 2}, "b": 2, None: 3})])
    assert not put(world, [Draft("flights", {None: 3, "b": 2, 1: {"x": 2, 2: 1}})])
