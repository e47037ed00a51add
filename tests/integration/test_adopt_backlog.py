"""The rows that are there when a table is adopted: each is sent once, in an order that is said, before what comes later."""

from __future__ import annotations

import threading
from contextlib import closing
from itertools import count
from typing import Any, Self

import psycopg2
import pytest

from relaybox import errors
from relaybox.adoption import adopting
from relaybox.adoption.adopting import unadopt_table
from tests.support.adoption import INSERT, TABLE, adopt, make_table, messages, numbers, problems, sent, unadopt, write
from tests.support.world import World, wait_until

FILL = (
    "insert into app.outboxevent (aggregatetype, aggregateid, type, payload) "
    "select 'Flights', n, 'Landed', to_jsonb(n) from generate_series({}, {}) n"
)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adopting, "MOVED_ROWS", 100)


def make_ordered(world: World, rows: int) -> None:
    """Debezium's table with a time, whose rows lie in another order than that of time."""
    make_table(world, "alter table app.outboxevent add column created_at timestamptz not null default clock_timestamp()")
    world.query("airline", FILL.format(1, rows))
    world.query("airline", "update app.outboxevent set payload = payload where mod(payload::text::integer, 3) = 0")


def test_a_backlog_is_sent_once_in_the_order_of_its_time(world: World) -> None:
    """And again only if nothing tells what was sent: a second call moves nothing."""
    make_ordered(world, 450)
    done = adopt(world, with_backlog=True)
    assert (done.backlog_count, done.moved_count, done.examination.order) == (450, 450, ("created_at", "id"))
    assert numbers(sent(world)) == list(range(1, 451))
    again = adopt(world, with_backlog=True)
    assert (again.is_new, again.changed, again.moved_count) == (False, (), 0)
    assert world.value("airline", "select count(*) from relaybox_internal.adopted_row") == 0
    write(world, "451")
    assert numbers(sent(world)) == list(range(1, 452))


def test_the_order_can_be_said_and_has_to_be_where_the_table_has_none(world: World) -> None:
    """By columns; a number that is the primary key needs no word."""
    world.query("airline", "create schema app; create table app.t (rank integer, aggregatetype text, payload text)")
    world.query("airline", "insert into app.t values (3, 'flights', 'c'), (1, 'flights', 'a'), (2, 'flights', 'b')")
    with pytest.raises(
        errors.AdoptionRefused, match=r"its backlog has no order\. Say it: relaybox adopt airline app\.t --backlog --order-by"
    ):
        adopt(world, "app.t", with_backlog=True)
    with pytest.raises(errors.AdoptionRefused, match=r"has no column weight to order a backlog by\. Its columns: rank, "):
        adopt(world, "app.t", with_backlog=True, order_by=["weight"])
    adopt(world, "app.t", with_backlog=True, order_by=["rank"])
    assert sent(world) == ["a", "b", "c"]


def test_random_keys_are_no_order_the_place_in_the_table_is(world: World) -> None:
    """Debezium's table has nothing else; the command says so."""
    make_table(world)
    write(world, *map(str, range(1, 31)))
    assert adopt(world, with_backlog=True).examination.order == ("ctid",)
    assert numbers(sent(world)) == list(range(1, 31))


def test_without_a_backlog_nothing_of_before_is_sent_and_that_is_final(world: World) -> None:
    """What was sent since can't be told from what was there: a backlog is refused, with the way out."""
    make_table(world)
    write(world, "1")
    adopt(world)
    write(world, "2")
    with pytest.raises(errors.AdoptionRefused, match=r"was adopted at .* without its backlog"):
        adopt(world, with_backlog=True)
    assert sent(world) == ["2"]


def test_later_rows_wait_behind_a_backlog_that_is_not_moved_yet(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed command leaves all rows waiting, in order; the next one goes on, without the option too."""
    make_ordered(world, 250)
    with monkeypatch.context() as killed:
        killed.setattr(adopting, "_move_backlog", lambda *_: 0)
        adopt(world, with_backlog=True)
    write(world, "251")
    world.query("airline", "delete from app.outboxevent")
    assert sent(world) == []
    assert problems(world) == [("backlog", True)]
    told: list[tuple[int, int]] = []
    assert adopt(world, progress=lambda *one: told.append(one)).moved_count == 251
    assert told == [(100, 251), (200, 251), (251, 251), (251, 251)]
    write(world, "252")
    assert numbers(sent(world)) == list(range(1, 253))
    assert problems(world) == []


def test_unadopt_sends_what_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in flight are not lost: those of the backlog, and those behind it."""
    make_ordered(world, 250)
    monkeypatch.setattr(adopting, "_move_backlog", lambda *_: 0)
    adopt(world, with_backlog=True)
    write(world, "251")
    assert unadopt(world).moved_count == 251
    write(world, "252")
    assert numbers(sent(world)) == list(range(1, 252))


def test_rows_that_can_not_be_messages_stop_a_backlog_or_are_set_aside(world: World) -> None:
    """Nothing is changed by a refusal."""
    make_table(world)
    write(world, "1", "2")
    world.query("airline", "update app.outboxevent set aggregatetype = 'A B' where payload = '1'")
    with pytest.raises(errors.AdoptionRefused, match=r"1 row can't be a message: topic is null"):
        adopt(world, with_backlog=True)
    assert world.value("airline", "select count(*) from relaybox_internal.adopted_table") == 0
    done = adopt(world, with_backlog=True, on_unmapped="set_aside")
    assert (done.backlog_count, done.moved_count) == (1, 1)
    assert sent(world) == ["2"]
    assert problems(world) == [("unmapped", False)]


class Writers:
    """Sessions of an application that insert numbered rows until they are told to end; each notes what it has committed."""

    def __init__(self, world: World, sessions: int) -> None:
        self.world, self.stopped, self.committed, self.failed = world, threading.Event(), [0] * sessions, []
        self.threads = [threading.Thread(target=self._write, args=(number,)) for number in range(sessions)]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        self.wait_for(5)
        return self

    def wait_for(self, more: int) -> None:
        """Until each has committed this many more."""
        wanted = [one + more for one in self.committed]
        wait_until(lambda: all(a >= b for a, b in zip(self.committed, wanted, strict=True)) or bool(self.failed), "writers go on")

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        assert not self.failed, self.failed

    def _write(self, number: int) -> None:
        try:
            with closing(psycopg2.connect(service="airline")) as connection, connection.cursor() as cursor:
                for n in count(1):
                    cursor.execute(INSERT, (f"w{number}", str(n)))
                    if n % 3 == 0:
                        cursor.execute("delete from app.outboxevent where aggregateid = %s", (f"w{number}",))
                    connection.commit()
                    self.committed[number] = n
                    if self.stopped.is_set():
                        return
        except psycopg2.Error as error:
            self.failed.append(error)


def assert_each_once_in_order(world: World, committed: list[int]) -> None:
    """Each session's rows from the first that was there at the cut are sent once, in their order.

    Rows leave the table three at a time, so the first one that is there is the first of three.
    """
    by_key: dict[str, list[int]] = {}
    for key, payload in messages(world, "key", "payload"):
        by_key.setdefault(key, []).append(int(payload))
    for number, last in enumerate(committed):
        key = f"w{number}"
        assert by_key[key] == list(range(by_key[key][0], last + 1)), key
        assert by_key[key][0] % 3 == 1, key


def test_no_row_of_writers_is_lost_doubled_or_overtaken_at_the_cut(world: World) -> None:
    """Four sessions insert and delete while the table is adopted with its backlog, by two commands at once, ended, and adopted again."""
    make_table(world)
    with Writers(world, 4) as writers:
        results: list[Any] = []
        commands = [
            threading.Thread(target=lambda: results.append(adopt(world, with_backlog=True, order_by=["aggregateid", "payload"])))
            for _ in range(2)
        ]
        for command in commands:
            command.start()
        for command in commands:
            command.join()
        assert sorted(one.is_new for one in results) == [False, True]
        writers.wait_for(20)
    assert_each_once_in_order(world, writers.committed)
    assert world.value("airline", "select count(*) from relaybox_internal.adopted_row") == 0


def test_unadopt_beside_writers_sends_each_committed_row_up_to_a_cut(world: World) -> None:
    """And no later one: what each session has sent is a prefix of what it has committed."""
    make_table(world)
    adopt(world)
    with Writers(world, 3) as writers:
        unadopt(world)
        writers.wait_for(5)
    by_key: dict[str, list[int]] = {}
    for key, payload in messages(world, "key", "payload"):
        by_key.setdefault(key, []).append(int(payload))
    for number, last in enumerate(writers.committed):
        found = by_key[f"w{number}"]
        assert found == list(range(1, len(found) + 1))
        assert len(found) <= last - 5


def test_a_writer_that_stays_open_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command waits in short turns, so that writers behind it go on, and gives up with the session that is in the way."""
    monkeypatch.setattr(adopting, "_LOCK_ATTEMPTS", 2)
    make_table(world)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(INSERT, ("k", "1"))
        pid = connection.info.backend_pid
        with pytest.raises(
            errors.StoreBusy, match=rf"table app\.outboxevent was never free of writers for a moment: .*pid {pid}"
        ):
            adopt(world)
        write(world, "2")
        connection.commit()
    assert adopt(world).is_new
    write(world, "3")
    assert sent(world) == ["3"]


def test_a_row_that_comes_behind_the_last_batch_is_moved_with_the_switch(world: World) -> None:
    """It waits in no table that nobody looks at any more."""
    make_ordered(world, 50)
    late = ["51"]
    adopt(world, with_backlog=True, progress=lambda *_: write(world, late.pop()) if late else None)
    write(world, "52")
    assert numbers(sent(world)) == list(range(1, 53))


def test_the_switch_waits_for_writers_whose_rows_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that was inserted behind a backlog and commits late is not left there when the trigger is switched to the outbox."""
    make_ordered(world, 50)
    with monkeypatch.context() as killed:
        killed.setattr(adopting, "_move_backlog", lambda *_: 0)
        adopt(world, with_backlog=True)
    monkeypatch.setattr(adopting, "_LOCK_ATTEMPTS", 1)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(INSERT, ("51", "51"))
        with pytest.raises(errors.StoreBusy, match="was never free of writers"):
            adopting.adopt_table(world.routes.stores["airline"], TABLE)
        connection.commit()
    adopt(world)
    write(world, "52")
    assert numbers(sent(world)) == list(range(1, 53))


def test_commands_on_tables_that_are_not_adopted_say_so(world: World) -> None:
    make_table(world)
    assert not unadopt_table(world.routes.stores["airline"], TABLE).was_adopted
    with pytest.raises(errors.AdoptionRefused, match=r"table app\.outboxevent is not adopted\. Run: relaybox adopt airline"):
        adopting.send_unmapped(world.routes.stores["airline"], TABLE)


def test_headers_that_the_outbox_refuses_are_unmapped_and_stop_no_backlog(world: World) -> None:
    """Numbers that no driver reads, and headers that nest too deep: the check knows each rule of the outbox."""
    make_table(world, "alter table app.outboxevent add column meta jsonb")
    nested = '{"a": ' * 70 + "1" + "}" * 70
    for meta in ('{"x": 1}', '{"x": 1e308}', nested, None):
        world.query(
            "airline",
            "insert into app.outboxevent (aggregatetype, aggregateid, type, payload, meta) values ('Flights', 1, 'Landed', '1', %s)",
            meta,
        )
    mapped = {"headers": {"column": "meta"}}
    with pytest.raises(errors.AdoptionRefused, match=r"headers have a number of 1e308 or more, or nest more than 64 levels"):
        adopt(world, mapped=mapped, with_backlog=True)
    done = adopt(world, mapped=mapped, with_backlog=True, on_unmapped="set_aside")
    assert (done.moved_count, len(sent(world))) == (2, 2)
    assert world.value("airline", "select count(*) from relaybox_internal.unmapped_row") == 2


def test_a_row_that_comes_late_from_a_detached_partition_is_told_and_moved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transaction is not waited for by the switch: it writes into a table that is no partition any more."""
    make_table(world, "drop table app.outboxevent")
    world.query(
        "airline",
        "create table app.outboxevent (id uuid default gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload jsonb) "
        "partition by list (aggregateid)",
    )
    world.query("airline", "create table app.east partition of app.outboxevent for values in ('east')")
    world.query("airline", INSERT, "east", "1")
    with monkeypatch.context() as killed:
        killed.setattr(adopting, "_move_backlog", lambda *_: 0)
        adopt(world, with_backlog=True, order_by=["aggregateid"])
    world.query("airline", "alter table app.outboxevent detach partition app.east")
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(INSERT.replace("outboxevent", "east"), ("east", "2"))
        assert adopt(world).moved_count == 1
        connection.commit()
    assert world.query("airline", "select kind, stops, problem from relaybox_internal.list_adoption_defects() where stops") == [
        ("backlog", True, "its backlog is not moved: 1 message waits, with those of later inserts")
    ]
    assert adopt(world).moved_count == 1
    assert sent(world) == ["1", "2"]


@pytest.mark.parametrize("ending", [False, True], ids=["adopt", "unadopt"])
def test_a_message_that_the_outbox_refuses_for_a_reason_of_its_own_stops_no_backlog(
    world: World, monkeypatch: pytest.MonkeyPatch, ending: bool
) -> None:
    """It is unmapped, with the reason, and is sent with the id that it has when the outbox takes it."""
    make_ordered(world, 30)
    world.query("airline", "alter table relaybox.outbox add constraint no_odd_seven check (payload not in ('7', '17'))")
    monkeypatch.setattr(adopting, "MOVED_ROWS", 10)
    if ending:
        with monkeypatch.context() as killed:
            killed.setattr(adopting, "_move_backlog", lambda *_: 0)
            adopt(world, with_backlog=True)
        with pytest.raises(errors.AdoptionRefused, match="2 rows are unmapped and never sent"):
            unadopt(world)
        assert sent(world) == []
        assert unadopt(world, drop_unmapped=True).dropped_count == 2
        assert numbers(sent(world)) == [n for n in range(1, 31) if n not in {7, 17}]
        return
    done = adopt(world, with_backlog=True)
    assert (done.moved_count, done.unmapped_count) == (28, 2)
    assert world.query("airline", "select problem from relaybox_internal.list_adoption_defects()") != []
    assert numbers(sent(world)) == [n for n in range(1, 31) if n not in {7, 17}]
    left = adopting.send_unmapped(world.routes.stores["airline"], TABLE)
    assert (left.sent_count, left.left_count) == (0, 2)
    assert "no_odd_seven" in left.left[0].problem
    world.query("airline", "alter table relaybox.outbox drop constraint no_odd_seven")
    assert adopting.send_unmapped(world.routes.stores["airline"], TABLE)[:2] == (2, 0)
    assert numbers(sent(world))[-2:] == [7, 17]


def test_the_check_of_adopted_rows_says_what_the_outbox_says(world: World) -> None:
    """Row by row: what the check calls a message, the outbox takes, and the other way round."""
    make_table(
        world,
        "alter table app.outboxevent add column sent_by text default 'UA', add column meta jsonb, alter column aggregatetype drop not null, "
        "alter column aggregateid drop not null, alter column type drop not null",
    )
    mapped = {
        "headers": {"column": "meta"},
        "sender": {"parts": [{"column": "sent_by", "filter": None}]},
        "topic": {"parts": [{"column": "aggregatetype", "filter": None}]},
    }
    adopt(world, mapped=mapped, on_unmapped="set_aside")
    world.query("airline", "drop trigger relaybox_adopted on app.outboxevent")
    odd = {
        "aggregatetype": [None, "", "a b", "A", "a" * 48, "a" * 49, "a.b_c-d", "a\n", "\u00e4"],
        "sent_by": [None, "", "a b", "A:b.c_d-e", "a" * 48, "a" * 49, "a\n", "\u00e4"],
        "aggregateid": [None, "", "k" * 200, "k" * 201, "\u00e4" * 200, "\u00e4" * 201],
        "payload": [None, "null", "1", '""', "{}"],
        "meta": [
            *(
                None,
                "null",
                "[]",
                "1",
                '"a"',
                "{}",
                '{"a": null}',
                '{"a": 1e307}',
                '{"a": 1e308}',
                '{"a": -1e308}',
                '{"a": [1, 1e400]}',
            ),
            *(
                f'{{"{name}": {value}}}'
                for name in ("relaybox-expires-at", "relaybox-deliver-after")
                for value in (
                    "null",
                    '"1"',
                    "[1]",
                    "{}",
                    "-1",
                    "-0.5",
                    "0",
                    "1.5",
                    "253402300799",
                    "253402300799.5",
                    "1e15",
                    "1e308",
                )
            ),
            *(f'{{"relaybox-expires-at": 10, "relaybox-deliver-after": {due}}}' for due in ("9", "10", "11", '"x"')),
            *(('{"a": ' * depth + "1" + "}" * depth) for depth in (63, 64, 65, 66)),
            *('{"a": ' + "[" * depth + "]" * depth + "}" for depth in (62, 63, 64, 65)),
            *('{"a": "%s"}' % ("x" * length) for length in (65526, 65527, 65528, 65529)),
            *('{"a": "%s"}' % ("\u00e4" * length) for length in (32760, 32763, 32764, 32765)),
        ],
    }
    usual = {"aggregatetype": "flights", "sent_by": "UA", "aggregateid": "k", "payload": "1", "meta": None}
    rows = [{**usual, column: value} for column, values in odd.items() for value in values]
    for row in rows:
        world.query(
            "airline",
            f"insert into app.outboxevent ({', '.join(row)}) values ({', '.join(['%s'] * len(row))})",
            *row.values(),
        )
    world.query(
        "airline",
        """
        create type app.message as (
            message_id uuid, topic text, sender text, key text, headers jsonb, payload text, payload_bytes bytea
        );
        create function app.takes(m app.message) returns boolean language plpgsql as $$
        begin
            insert into relaybox.outbox (message_id, topic, sender, key, headers, payload, payload_bytes)
            values (m.message_id, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes);
            return true;
        exception when integrity_constraint_violation then
            return false;
        end $$
        """,
    )
    compared = world.query(
        "airline",
        "select m.is_good, app.takes(row(m.message_id, m.topic, m.sender, m.key, m.headers, m.payload, m.payload_bytes)::app.message), "
        "m.problem, left(row_to_json(relaybox_row)::text, 300) from app.outboxevent relaybox_row "
        "cross join lateral relaybox_internal.message_of_row_1(relaybox_row) m",
    )
    assert len(compared) == len(rows)
    assert [one for one in compared if one[0] != one[1]] == []
    assert {one[0] for one in compared} == {True, False}
