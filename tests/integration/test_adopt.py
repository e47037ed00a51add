"""An outbox table that exists is adopted: what is inserted into it is sent, in the application's own transaction (G1 to G5)."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import psycopg2
import pytest

from relaybox import errors
from relaybox.adoption.adopting import send_unmapped
from tests.support.adoption import INSERT, TABLE, adopt, application, make_table, messages, problems, sent, unadopt, write
from tests.support.database_dump import dump
from tests.support.world import World


def test_rows_reach_a_consumer_of_the_last_store_also_if_they_are_deleted_at_once(world: World) -> None:
    """G1. The application knows nothing of Relaybox: it inserts and deletes, as Debezium's outbox does it."""
    make_table(world)
    done = adopt(world)
    assert (done.is_new, done.backlog_count, done.wanted.is_in_file) == (True, None, False)
    world.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    with application(world) as cursor:
        for number in range(3):
            cursor.execute(f"with made as ({INSERT} returning id) select id from made", (str(number), str(number)))
            cursor.execute("delete from app.outboxevent where id = %s", (cursor.fetchone()[0],))
    world.transfer_all()
    fetched = world.query("analytics", "select sender, key, headers, payload from relaybox.fetch('billing', max_count => 10)")
    assert fetched == [("airline", str(n), {"type": "Landed"}, str(n)) for n in range(3)]
    assert world.value("airline", "select count(*) from app.outboxevent") == 0


def test_g1_what_rolls_back_is_not_sent(world: World) -> None:
    """Whole transactions, and savepoints in them. The message id is the row's."""
    make_table(world)
    adopt(world)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(INSERT, ("lost", '"lost"'))
        connection.rollback()
        cursor.execute(INSERT, ("kept", '"kept"'))
        cursor.execute("savepoint s")
        cursor.execute(INSERT, ("back", '"back"'))
        cursor.execute("rollback to savepoint s")
        connection.commit()
    assert messages(world, "payload", "message_id") == world.query("airline", "select payload::text, id from app.outboxevent")
    assert sent(world) == ['"kept"']


def test_g5_statements_of_many_rows_keep_the_order_of_their_rows(world: World) -> None:
    """Values, insert .. select, COPY, a common table expression: each row once, in the order in which it is inserted."""
    make_table(world)
    adopt(world)
    rows = "insert into app.outboxevent (aggregatetype, aggregateid, type, payload)"
    write(world, "1")
    world.query("airline", f"{rows} values ('Flights', 'k', 'Landed', '2'), ('Flights', 'k', 'Landed', '3')")
    world.query("airline", f"{rows} select 'Flights', n, 'Landed', to_jsonb(n) from generate_series(4, 1000) n")
    with world.session() as connection, connection.cursor() as cursor:
        text = StringIO("".join(f"Flights\tk\tLanded\t{n}\n" for n in range(1001, 2001)))
        cursor.copy_expert("copy app.outboxevent (aggregatetype, aggregateid, type, payload) from stdin", text)
        connection.commit()
    world.query("airline", f"with made as ({rows} values ('Flights', 'k', 'Landed', '2001') returning 1) select * from made")
    assert sent(world) == [str(n) for n in range(1, 2002)]


def test_only_rows_that_are_inserted_are_sent(world: World) -> None:
    """Of on conflict those that are new, of MERGE the same; no update, no delete, no truncate."""
    make_table(world, "create unique index on app.outboxevent (aggregateid)")
    adopt(world)
    upsert = INSERT + " on conflict (aggregateid) do {}"
    for key, action in [("a", "nothing"), ("a", "nothing"), ("b", "update set type = 'x'"), ("a", "update set type = 'x'")]:
        world.query("airline", upsert.format(action), key, f'"{key} {action[0]}"')
    world.query("airline", "update app.outboxevent set payload = '\"changed\"'")
    has_merge = world.value("airline", "select current_setting('server_version_num')::integer >= 150000")
    world.query(
        "airline",
        "insert into app.outboxevent (aggregatetype, aggregateid, type, payload) values ('Flights', 'c', 'Landed', '\"merged\"')"
        if not has_merge
        else "merge into app.outboxevent o using (values ('a'), ('c')) v (key) on o.aggregateid = v.key "
        "when matched then update set type = 'y' when not matched then insert (aggregatetype, aggregateid, type, payload) "
        "values ('Flights', v.key, 'Landed', '\"merged\"')",
    )
    world.query("airline", "truncate app.outboxevent")
    assert messages(world, "key", "payload") == [("a", '"a n"'), ("b", '"b u"'), ("c", '"merged"')]


@pytest.mark.parametrize("role", ["replica", "local"])
def test_rows_are_sent_whatever_session_replication_role_says(world: World, role: str) -> None:
    """A message exists if its row was inserted: a tool that loads rows with triggers off does not lose messages."""
    make_table(world)
    adopt(world)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(f"set session_replication_role = {role}")
        cursor.execute(INSERT, ("k", "1"))
        connection.commit()
    assert sent(world) == ["1"]


def test_who_inserts_needs_no_right_on_relaybox_and_gets_none(world: World) -> None:
    """The trigger runs as the owner of the outbox. Its functions can't be called by anybody else, nor led astray by a search_path."""
    make_table(world)
    adopt(world)
    with application(world, "create on schema app") as cursor:
        cursor.execute(
            "create table app.outbox (x integer); create function app.lower(text) returns text language sql return 'stolen'; "
            "create function app.uuidv7() returns uuid language sql return null::uuid; "
            "create temporary table new_rows (id uuid); create temporary table outbox (x integer)"
        )
        cursor.execute("set search_path = app, pg_temp, pg_catalog")
        cursor.execute(INSERT, ("k", "1"))
        for refused in (
            "select relaybox_internal.send_rows_1()",
            "select * from relaybox_internal.message_of_json_1('{}')",
            "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'x', 'x')",
            "select * from relaybox_internal.adopted_row",
        ):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(refused)
        cursor.execute(
            "create function app.length(text) returns integer language plpgsql as "
            "$$ begin raise notice 'called as %', current_user; return 1; end $$"
        )
        with pytest.raises(psycopg2.Error, match="payload is null"):
            cursor.execute(INSERT, ("k", None))
        assert not any("called as" in notice for notice in cursor.connection.notices)
        cursor.execute("drop function app.lower(text), app.uuidv7(), app.length(text); drop table app.outbox")
    assert messages(world, "topic", "payload") == [("flights", "1")]


def test_row_level_security_of_the_table_hides_no_row(world: World) -> None:
    """A policy decides what a role sees, not what it sends."""
    make_table(
        world,
        "alter table app.outboxevent enable row level security",
        "create policy insert_only on app.outboxevent for insert with check (true)",
    )
    adopt(world)
    with application(world) as cursor:
        cursor.execute(INSERT, ("k", "1"))
        cursor.execute("select count(*) from app.outboxevent")
        assert cursor.fetchone() == (0,)
    assert sent(world) == ["1"]


def test_other_triggers_of_the_table_have_their_say(world: World) -> None:
    """One before the insert changes the row, or drops it; one after it deletes the row at once. What was inserted is sent."""
    make_table(
        world,
        """
        create function app.before() returns trigger language plpgsql as $$ begin
            if new.payload = '"drop"' then return null; end if;
            new.payload := jsonb_build_object('was', new.payload);
            return new;
        end $$""",
        "create function app.after() returns trigger language plpgsql as $$ begin "
        "delete from app.outboxevent o where o.id = new.id; return null; end $$",
        "create trigger a_before before insert on app.outboxevent for each row execute function app.before()",
        "create trigger a_after after insert on app.outboxevent for each row execute function app.after()",
    )
    adopt(world)
    write(world, "1", '"drop"', "2")
    assert sent(world) == ['{"was": 1}', '{"was": 2}']


def test_partitions_are_adopted_with_their_table(world: World) -> None:
    """Also rows that are inserted into a partition by its own name, with its columns in another order. A row that an update moves
    to another partition is not sent again. A partition that comes later is named by doctor until adopt has seen it.
    """
    make_table(world, "drop table app.outboxevent")
    world.query(
        "airline",
        "create table app.outboxevent (id uuid not null default gen_random_uuid(), aggregatetype text not null, aggregateid text, "
        "type text, payload json, region text not null) partition by list (region)",
    )
    world.query(
        "airline",
        "create table app.east (region text not null, payload json, gone integer, type text, aggregateid text, "
        "aggregatetype text not null, id uuid not null default gen_random_uuid())",
    )
    world.query("airline", "alter table app.east drop column gone")
    world.query("airline", "alter table app.outboxevent attach partition app.east for values in ('east')")
    world.query(
        "airline", "create table app.west partition of app.outboxevent for values in ('west') partition by range (aggregateid)"
    )
    world.query("airline", "create table app.west_all partition of app.west default")
    adopt(world)
    rows = "insert into app.{} (aggregatetype, aggregateid, type, payload, region) values ('Flights', 'k', 'Landed', '{{\"n\":  {}}}', '{}')"
    for number, (table, region) in enumerate(
        [("outboxevent", "east"), ("outboxevent", "west"), ("east", "east"), ("west", "west"), ("west_all", "west")]
    ):
        world.query("airline", rows.format(table, number, region))
    world.query("airline", "update app.outboxevent set region = 'west' where region = 'east'")
    assert sent(world) == [f'{{"n":  {n}}}' for n in range(5)]
    assert problems(world) == []

    world.query("airline", "create table app.south partition of app.outboxevent for values in ('south')")
    world.query("airline", rows.format("outboxevent", 5, "south"))
    assert problems(world) == [("trigger", True)]
    assert adopt(world).changed == ("trigger on app.south",)
    world.query("airline", rows.format("south", 6, "south"))
    assert sent(world)[5:] == ['{"n":  5}', '{"n":  6}']
    world.query("airline", "drop table app.west")
    world.query("airline", "alter table app.outboxevent detach partition app.south")
    assert problems(world) == [("detached", False)]
    unadopt(world)
    assert world.value("airline", "select count(*) from pg_trigger where tgname = 'relaybox_adopted'") == 0


@pytest.mark.parametrize("on_unmapped", ["fail", "set_aside"])
def test_a_row_of_a_partition_is_read_column_by_column(world: World, on_unmapped: str) -> None:
    """Whatever its other columns are: an hstore has a JSON that it can't be read from. A payload of JSON null is a payload."""
    make_table(world, "drop table app.outboxevent", "create extension hstore")
    columns = (
        "id uuid not null default gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload jsonb, more hstore"
    )
    world.query("airline", f"create table app.outboxevent ({columns}) partition by list (aggregateid)")
    world.query("airline", f"create table app.east (gone integer, {', '.join(reversed(columns.split(', ')))})")
    world.query("airline", "alter table app.east drop column gone")
    world.query("airline", "alter table app.outboxevent attach partition app.east for values in ('east')")
    adopt(world, on_unmapped=on_unmapped)
    insert = "insert into app.east (aggregatetype, aggregateid, type, payload, more) values (%s, 'east', 'Landed', %s, 'a=>1')"
    world.query("airline", insert, "Flights", "1")
    world.query("airline", insert, "Flights", "null")
    world.query(
        "airline", "alter table app.outboxevent rename payload to body; alter table app.outboxevent add column later hstore"
    )
    world.query("airline", insert.replace("payload", "body"), "Flights", "2")
    assert messages(world, "key", "payload") == [("east", "1"), ("east", "null"), ("east", "2")]
    if on_unmapped == "fail":
        with pytest.raises(psycopg2.Error, match="topic is null, or not 1 to 48") as caught:
            world.query("airline", insert.replace("payload", "body"), "no topic", "3")
        assert caught.value.pgcode == "RB045"
    else:
        world.query("airline", insert.replace("payload", "body"), "no topic", "3")
        assert problems(world) == [("unmapped", False), ("column", False)][::-1]
    assert len(sent(world)) == 3


def test_a_table_that_was_a_partition_is_refused_aloud_if_it_lacks_a_mapped_column(world: World) -> None:
    """It still has the trigger. A column that the map does not name may be gone; one that it names is never sent as null."""
    make_table(world, "drop table app.outboxevent")
    world.query(
        "airline",
        "create table app.outboxevent (id uuid not null default gen_random_uuid(), aggregatetype text, aggregateid text, type text, "
        "payload json, more text) partition by list (aggregateid)",
    )
    world.query("airline", "create table app.east partition of app.outboxevent for values in ('east')")
    adopt(world)
    world.query("airline", "alter table app.outboxevent detach partition app.east")
    world.query("airline", "alter table app.east drop column more")
    insert = "insert into app.east (aggregatetype, aggregateid, payload) values ('flights', 'east', '1')"
    world.query("airline", insert)
    assert sent(world) == ["1"]
    world.query("airline", "alter table app.east drop column type")
    with pytest.raises(psycopg2.Error, match=r"app\.east .* lacks its column type") as caught:
        world.query("airline", insert)
    assert caught.value.pgcode == "RB045"
    assert "drop trigger relaybox_adopted on app.east" in str(caught.value.diag.message_hint)


def test_what_an_adoption_left_nothing_of_is_as_before(world: World) -> None:
    """The schema of the whole database is the same as before, after two adoptions and all that they did."""
    make_table(world, "create table app.second (like app.outboxevent including all)")
    before = dump("airline", "--schema-only")
    for _ in range(2):
        adopt(world, with_backlog=True)
        adopt(world, "app.second", on_unmapped="set_aside")
        write(world, "1")
        assert unadopt(world).was_adopted
        assert unadopt(world, "app.second").was_adopted
        assert not unadopt(world).was_adopted
    assert dump("airline", "--schema-only") == before
    write(world, "2")
    assert sent(world) == ["1", "1", "1"]  # the second adoption had the first row as its backlog
    for table in ("adopted_table", "adopted_row", "unmapped_row"):
        assert world.value("airline", f"select count(*) from relaybox_internal.{table}") == 0


MAPS: list[tuple[str, str, dict[str, Any], tuple[Any, ...]]] = [
    (
        "a constant topic, a sender of a column, a pattern as key, no id, no headers",
        "create table app.t (n integer, who text, body text)",
        {"topic": "'flights'", "sender": "who", "key": "{who}/{n}", "message_id": "none", "payload": "body"},
        ("flights", "UA", "UA/7", None, "text", None),
    ),
    (
        "bytes stay bytes",
        "create table app.t (n integer, who text, body bytea)",
        {"topic": "'flights'", "sender": "'UA'", "key": "n", "message_id": "none", "payload": "body"},
        ("flights", "UA", "7", None, None, b"text"),
    ),
    (
        "bytes as base64, and a header of a number",
        "create table app.t (n integer, who text, body bytea)",
        {"topic": "'flights'", "sender": "'UA'", "message_id": "none", "payload": "{body:base64}", "headers": {"n": "n"}},
        ("flights", "UA", None, {"n": 7}, "dGV4dA==", None),
    ),
    (
        "the whole row, a header of a pattern",
        "create table app.t (n integer, who text, body text)",
        {"topic": "'flights'", "sender": "'UA'", "message_id": "none", "payload": "*", "headers": {"a-b": "<{who:lower}>"}},
        ("flights", "UA", None, {"a-b": "<ua>"}, '{"n": 7, "who": "UA", "body": "text"}', None),
    ),
    (
        "an enum as topic, a column with another letter",
        "create type app.kind as enum ('Flights', 'UA'); create table app.t (n integer, who app.kind, \"The Body\" text)",
        {"topic": "'flights'", "sender": "who", "message_id": "none", "payload": "{The Body}", "headers": {"kind": "who"}},
        ("flights", "UA", None, {"kind": "UA"}, "text", None),
    ),
]


@pytest.mark.parametrize(("_", "table", "written", "expected"), MAPS, ids=[one[0] for one in MAPS])
def test_every_part_of_a_message_can_be_mapped(
    world: World, _: str, table: str, written: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    """From a column, a constant or a pattern."""
    from relaybox.routes.adopt_rules import parse_headers, parse_mapped

    world.query("airline", f"create schema app; {table}")
    mapped = {
        field: parse_headers(value) if field == "headers" else parse_mapped(value, field=field)
        for field, value in written.items()
    }
    adopt(world, "app.t", mapped=mapped)
    world.query("airline", "insert into app.t values (7, 'UA', 'text')")
    (found,) = messages(world, "topic", "sender", "key", "headers", "payload", "payload_bytes")
    assert (*found[:5], found[5] and bytes(found[5])) == expected


def test_ids_of_other_types_become_uuids_that_stay_the_same(world: World) -> None:
    """A text that is a uuid is one; of a number the hash of table and number is."""
    world.query("airline", "create schema app; create table app.t (id text, n bigint, aggregatetype text, payload text)")
    world.query("airline", "create table app.u (id bigint, aggregatetype text, payload text)")
    adopt(world, "app.t")
    adopt(world, "app.u", mapped={"message_id": {"parts": [{"column": "id", "filter": None}]}})
    text_id = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
    world.query(
        "airline", "insert into app.t values (%s, 1, 'flights', 'x'); insert into app.u values (7, 'flights', 'x')", text_id
    )
    assert messages(world, "message_id::text") == [
        (text_id.lower(),),
        (world.value("airline", "select md5('app.u/7')::uuid::text"),),
    ]


def test_times_in_headers_are_utc_whatever_the_session_says(world: World) -> None:
    """The application's time zone and date style do not show in messages."""
    make_table(world, "alter table app.outboxevent add column timestamp timestamptz")
    adopt(world)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("set timezone = 'Asia/Tokyo'; set datestyle = 'German'")
        cursor.execute(
            "insert into app.outboxevent (aggregatetype, aggregateid, type, payload, timestamp) "
            "values ('Flights', 'k', 'Landed', '1', '2026-11-27 09:00:00.5+09')"
        )
        connection.commit()
    assert messages(world, "headers") == [({"type": "Landed", "timestamp": "2026-11-27T00:00:00.500000Z"},)]


@pytest.mark.parametrize("payload", [{"row": True}, {"column": "payload"}])
def test_settings_of_a_session_change_no_message(world: World, monkeypatch: pytest.MonkeyPatch, payload: dict[str, Any]) -> None:
    """Not of the one that inserts, not of the one that adopts: the trigger, the backlog and the dry run give the same message."""
    make_table(
        world,
        "alter table app.outboxevent add column price float8, add column raw bytea, add column span interval, add column days daterange",
    )
    settings = (
        "set extra_float_digits = -10; set bytea_output = escape; set intervalstyle = iso_8601; "
        "set datestyle = 'German'; set timezone = 'Asia/Tokyo'"
    )
    insert = (
        "insert into app.outboxevent (id, aggregatetype, aggregateid, type, payload, price, raw, span, days) values "
        "(%s, 'Flights', 'k', 'Landed', '1', 0.1::float8 + 0.2::float8, '\\x00ff', '1 mon 2 days', '[2026-11-27,2026-11-29)')"
    )
    mapping = {
        "message_id": {"column": "id"},
        "topic": {"parts": ["flights"]},
        "sender": {"parts": ["app"]},
        "payload": payload,
        "header": {name: {"column": name} for name in ("price", "span", "days")},
    }
    mapped = {"payload": payload, "headers": {"headers": mapping["header"]}}
    one, two = (f"00000000-0000-0000-0000-00000000000{number}" for number in (1, 2))
    dry_run = (
        "select headers, payload from relaybox_internal.preview_messages('app.outboxevent', 'app.outboxevent', %s, '{id}', 9)"
    )
    world.query("airline", insert, one)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(settings)
        cursor.execute(dry_run, (json.dumps(mapping),))
        shown = cursor.fetchall()
    monkeypatch.setenv(
        "PGOPTIONS", "-c extra_float_digits=-10 -c intervalstyle=iso_8601 -c datestyle=german -c bytea_output=escape"
    )
    adopt(world, mapped=mapped, with_backlog=True)
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute(settings)
        cursor.execute(insert, (two,))
        connection.commit()
    backlog, inserted = messages(world, "headers", "payload")
    assert backlog == shown[0]
    assert inserted == (backlog[0], backlog[1].replace(one, two))
    assert backlog[0] == {"price": 0.30000000000000004, "span": "1 mon 2 days", "days": "[2026-11-27,2026-11-29)"}
    if "row" in payload:
        assert '"price": 0.30000000000000004' in backlog[1]
        assert '"raw": "\\\\x00ff"' in backlog[1]


VIRTUAL = "add column n integer default 1, add column v integer generated always as (n + 1) virtual"


@pytest.fixture
def with_virtual_columns(world: World) -> World:
    if int(world.value("airline", "show server_version_num")) < 180000:
        pytest.skip("virtual columns came with Postgres 18")
    return world


def test_a_virtual_column_can_not_be_mapped(with_virtual_columns: World) -> None:
    """A trigger can't read one: each insert would fail. Nothing is changed. A table whose virtual column is not mapped is adopted."""
    world = with_virtual_columns
    make_table(world, f"alter table app.outboxevent {VIRTUAL}")
    with pytest.raises(errors.AdoptionRefused, match=r"column v of app\.outboxevent is generated and virtual"):
        adopt(world, mapped={"key": {"column": "v"}})
    write(world, "1")
    adopt(world)
    write(world, "2")
    assert sent(world) == ["2"]


def test_what_an_adoption_would_be_refused_for_and_that_came_later_is_told_by_doctor(world: World) -> None:
    """A rule in the place of inserts, another column of the name of a renamed one, a type of another owner."""
    make_table(world)
    adopt(world)
    world.query("airline", "create rule nothing as on insert to app.outboxevent do instead nothing")
    assert problems(world) == [("rule", True)]
    world.query("airline", "drop rule nothing on app.outboxevent")
    world.query("airline", "alter table app.outboxevent rename payload to body")
    world.query("airline", "alter table app.outboxevent add column payload integer")
    assert problems(world) == [("column", False), ("type", False)]
    told, _ = world.value("airline", "select array_agg(problem) from relaybox_internal.list_adoption_defects()")
    assert told.endswith("its rows are sent with that one. Column payload is another one now"), told
    write_body = INSERT.replace("payload", "body")
    world.query("airline", write_body, "k", "1")
    assert sent(world) == ["1"]
    adopt(world, mapped={"payload": {"column": "body"}})
    assert problems(world) == []
    adopt(world, mapped={"payload": {"row": True}})
    world.query(
        "airline", "create role of_a_type; create domain app.checked integer; alter domain app.checked owner to of_a_type"
    )
    world.query("airline", "alter table app.outboxevent add column checked app.checked")
    try:
        assert problems(world) == [("foreign_type", False)]
    finally:
        world.query("airline", "alter domain app.checked owner to current_user; drop role of_a_type")


@pytest.mark.parametrize("on_unmapped", ["fail", "set_aside"])
@pytest.mark.parametrize("is_partitioned", [False, True])
@pytest.mark.parametrize("is_there", [False, True], ids=["added later", "there before"])
def test_a_whole_row_lacks_its_virtual_columns(
    with_virtual_columns: World, is_there: bool, is_partitioned: bool, on_unmapped: str
) -> None:
    """One that is added later stops no insert; doctor tells. By the name of the table and of a partition, and in a backlog."""
    world = with_virtual_columns
    make_table(world)
    if is_partitioned:
        world.query("airline", "alter table app.outboxevent rename to east")
        world.query("airline", "create table app.outboxevent (like app.east including defaults) partition by list (type)")
        world.query("airline", "alter table app.outboxevent attach partition app.east default")
    names = ["app.outboxevent", "app.east"] if is_partitioned else ["app.outboxevent"]
    if is_there:
        world.query("airline", f"alter table app.outboxevent {VIRTUAL}")
    write(world, "0")
    options = {"with_backlog": True, "order_by": ["aggregateid"], "on_unmapped": on_unmapped}
    done = adopt(world, mapped={"payload": {"row": True}}, **options)
    assert ["is generated and virtual" in one.problem for one in done.examination.obstacles].count(True) == is_there
    if not is_there:
        assert problems(world) == []
        world.query("airline", f"alter table app.outboxevent {VIRTUAL}")
    assert problems(world) == [("left_out", False)]
    for name in names:
        world.query("airline", INSERT.replace("app.outboxevent", name), "k", "1")
    if on_unmapped == "set_aside":
        world.query("airline", INSERT.replace("'Flights'", "'no topic'"), "k", "2")
        adopt(world, mapped={"payload": {"row": True}, "topic": {"parts": ["flights"]}}, on_unmapped=on_unmapped)
        assert send_unmapped(world.routes.stores["airline"], TABLE).sent_count == 1
    columns = {"id", "aggregatetype", "aggregateid", "type", "payload"}
    payloads = [json.loads(payload) for payload in sent(world)]
    assert [one["payload"] for one in payloads] == [0, *(1 for _ in names), *([2] if on_unmapped == "set_aside" else [])]
    assert set(payloads[0]) == (columns | {"n"} if is_there else columns)
    assert all(set(one) == columns | {"n"} and one["n"] == 1 for one in payloads[1:]), payloads
    assert adopt(world, mapped={"payload": {"row": True}} if on_unmapped == "fail" else None).changed == ()
    unadopt(world)
    assert world.value("airline", "select count(*) from pg_proc where proname ~ '^message_of_'") == 0


def test_a_row_that_can_not_be_a_message_fails_aloud(world: World) -> None:
    """By default: the application's statement fails, with the table, the reason and the row. Nothing of its transaction is kept."""
    make_table(world)
    adopt(world)
    with pytest.raises(psycopg2.Error) as caught:
        world.query("airline", INSERT.replace("Flights", "Flights of 2013"), "k", "1")
    assert caught.value.pgcode == "RB045"
    assert "table app.outboxevent: a row can't be a message of Relaybox" in str(caught.value)
    assert "topic is null, or not 1 to 48 of a-z 0-9 _ . -" in str(caught.value)
    assert '"aggregatetype":"Flights of 2013"' in str(caught.value)
    assert "--on-unmapped set_aside" in str(caught.value.diag.message_hint)
    assert world.value("airline", "select count(*) from app.outboxevent") == 0


@pytest.mark.parametrize("kind", ["jsonb", "json"])
def test_headers_of_json_null_are_refused_with_the_reason(world: World, kind: str) -> None:
    """The row as JSON does not tell JSON null from SQL null, which is a message without headers."""
    make_table(world, f'alter table app.outboxevent add column "own meta" {kind}')
    adopt(world, mapped={"headers": {"column": "own meta"}, "header": {}})
    insert = INSERT.replace("payload)", 'payload, "own meta")').replace("%s)", "%s, %s)")
    with pytest.raises(psycopg2.Error) as caught:
        world.query("airline", insert, "k", "1", "null")
    assert caught.value.pgcode == "RB045"
    assert 'has adopted the table: "own meta" is JSON null, and no JSON object: write SQL null for no headers. The row: {' in str(
        caught.value
    )
    world.query("airline", insert, "k", "1", None)
    assert messages(world, "headers") == [(None,)]


def test_rows_that_can_not_be_messages_are_set_aside_where_asked(world: World) -> None:
    """The others of their statement are sent. They are named, sent when the map takes them, and not lost by unadopt."""
    make_table(world)
    adopt(world, on_unmapped="set_aside")
    world.query(
        "airline",
        "insert into app.outboxevent (aggregatetype, aggregateid, type, payload) values "
        "('Flights', '1', 'x', '1'), ('F L', '2', 'x', '2'), ('Flights', '3', 'x', null), ('Flights', repeat('4', 201), 'x', '4')",
    )
    world.query("airline", "delete from app.outboxevent")
    assert sent(world) == ["1"]
    assert world.query("airline", "select problem from relaybox_internal.unmapped_row order by unmapped_id") == [
        ("topic is null, or not 1 to 48 of a-z 0-9 _ . -",),
        ("payload is null",),
        ("key has more than 200 characters",),
    ]
    assert problems(world) == [("unmapped", False)]
    with pytest.raises(errors.AdoptionRefused, match="3 rows are unmapped and never sent"):
        unadopt(world)

    from relaybox.adoption.adopting import send_unmapped

    adopt(world, mapped={"topic": {"parts": ["flights"]}}, on_unmapped="set_aside")
    assert send_unmapped(world.routes.stores["airline"], TABLE)[:2] == (1, 2)
    assert messages(world, "key", "payload") == [("1", "1"), ("2", "2")]
    assert unadopt(world, drop_unmapped=True).dropped_count == 2


def test_what_keeps_a_table_from_being_adopted_is_named_all_at_once(world: World) -> None:
    """Before anything is changed, with counts and the first rows, and what to do about each."""
    world.query("airline", "create schema app; create table app.t (id bigint, kind text, payload xml, region text)")
    before = dump("airline")
    with pytest.raises(errors.AdoptionRefused) as caught:
        adopt(world, "app.t")
    told = str(caught.value)
    for part in (
        "table app.t can't be adopted, and nothing was changed",
        "app.t has no column aggregatetype, which the map names for topic. Its columns: id, kind, payload, region.",
        "column id is bigint, which can't be the message_id. Map message_id={id}, a hash of the column, or message_id=none.",
        "column payload is xml, which can't be the payload. Map a column of json, jsonb, text or bytea, or payload=* for the whole row.",
    ):
        assert part in told, told
    for name, value in (("relaybox-expires-at", {"column": "kind"}), ("relaybox-deliver-after", {"parts": ["1"]})):
        with pytest.raises(errors.AdoptionRefused, match=f"header {name} is mapped to no column of numbers"):
            adopt(world, "app.t", mapped={"headers": {"headers": {name: value}}})
    world.query("airline", "insert into app.t select n, 'Bad kind', null, 'r' from generate_series(1, 12) n")
    mapped = {"topic": {"column": "kind"}, "message_id": {}, "payload": {"column": "region"}}
    with pytest.raises(
        errors.AdoptionRefused,
        match=r"12 rows can't be messages: topic is null, or not .* such as {\"id\":1,\"kind\":\"Bad kind\"",
    ):
        adopt(world, "app.t", mapped=mapped)
    world.query("airline", "delete from app.t")
    assert dump("airline") == before


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("create view app.t as select 1 as id", "app.t is a view"),
        ("create materialized view app.t as select 1 as id", "app.t is a materialized view"),
        (
            """
            create table app.p (id uuid, aggregatetype text, payload text) partition by list (aggregatetype);
            create table app.t partition of app.p default
            """,
            "app.t is a partition of app.p",
        ),
        (
            """
            create table app.t (id uuid, aggregatetype text, payload text);
            create rule r as on insert to app.t do instead nothing
            """,
            "rule r of app.t may put something else in the place of an insert",
        ),
        (
            "create type app.m as (x integer); create table app.t (id uuid, aggregatetype text, payload app.m)",
            "column payload is app.m, which can't be the payload. Map a column of a type of Postgres, or an enum.",
        ),
        (
            """
            create table app.t (id uuid, aggregatetype text, payload text);
            create function app.f() returns trigger language plpgsql as $$ begin return null; end $$;
            create trigger relaybox_adopted after insert on app.t for each statement execute function app.f()
            """,
            "app.t has a trigger relaybox_adopted that no adoption has made",
        ),
    ],
    ids=["view", "materialized view", "partition", "rule", "type", "trigger"],
)
def test_tables_that_can_not_be_adopted_are_refused(world: World, made: str, told: str) -> None:
    world.query("airline", f"create schema app; {made}")
    with pytest.raises(errors.AdoptionRefused) as caught:
        adopt(world, "app.t")
    assert told in str(caught.value)


def test_tables_of_relaybox_and_missing_ones_are_refused(world: World) -> None:
    """The nearest table is named."""
    with pytest.raises(errors.AdoptionRefused, match=r"relaybox\.outbox belongs to Relaybox"):
        adopt(world, "relaybox.outbox")
    world.query("airline", 'create schema app; create table app."Outbox" (id uuid)')
    with pytest.raises(errors.AdoptionRefused, match=r"there is no table public\.outbox\. Did you mean app\.Outbox\?"):
        adopt(world, "outbox")


def test_what_is_worth_knowing_is_a_note(world: World) -> None:
    """Tables that inherit are not adopted with their parent; nothing is said of a table that has nothing of it."""
    make_table(world, "create table app.child () inherits (app.outboxevent)")
    done = adopt(world)
    assert [one.problem for one in done.examination.obstacles] == [
        "app.outboxevent inherits to app.child: rows that are inserted there are not sent"
    ]
    world.query("airline", INSERT.replace("app.outboxevent", "app.child"), "k", "1")
    adopt(world, "app.child")
    world.query("airline", INSERT.replace("app.outboxevent", "app.child"), "k", "2")
    assert sent(world) == ["2"]


def test_bound_senders_are_asked_for_if_the_row_names_the_sender(world: World) -> None:
    """A constant sender is the word of who adopts; a sender of a column is that of who inserts."""
    make_table(world, "select relaybox_internal.bind_senders(true)")
    adopt(world, mapped={"sender": {"column": "type"}})
    with application(world) as cursor:
        with pytest.raises(psycopg2.Error) as caught:
            cursor.execute(INSERT, ("k", "1"))
        assert caught.value.pgcode == "RB023"
        world.query("airline", "select relaybox_internal.bind_sender('Landed', 'app_writer')")
        cursor.execute(INSERT, ("k", "2"))
        adopt(world, mapped={"sender": {"parts": ["shop"]}})
        cursor.execute(INSERT, ("k", "3"))
    assert messages(world, "sender", "payload") == [("Landed", "2"), ("shop", "3")]


def test_types_of_an_application_run_no_code_with_the_rights_of_relaybox(world: World) -> None:
    """JSON of a row would run casts of its types: the row is not shown, and what needs it is refused."""
    world.query("airline", "create role app_maker; grant app_maker to current_user; create schema app authorization app_maker")
    try:
        world.query(
            "airline",
            """
            set role app_maker;
            create type app.spy as enum ('x');
            create table app.seen (who text);
            create function app.spy_json(app.spy) returns json language plpgsql as
                $$ begin insert into app.seen values (current_user); return '1'; end $$;
            create cast (app.spy as json) with function app.spy_json(app.spy);
            create table app.outboxevent (
                id uuid primary key default gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload text,
                spy app.spy default 'x'
            );
            grant insert on app.seen to public; grant usage on schema app to public
            """,
        )
        for options in ({"on_unmapped": "set_aside"}, {"mapped": {"payload": {"row": True}}}):
            with pytest.raises(errors.AdoptionRefused, match="would run their casts and checks with these rights"):
                adopt(world, **options)
        adopt(world, mapped={"headers": {"headers": {"spy": {"column": "spy"}}}})
        write(world, '"1"')
        with pytest.raises(psycopg2.Error, match=r"payload is null\.\n"):
            world.query("airline", INSERT, "k", None)
        assert messages(world, "headers") == [({"spy": "x"},)]
        assert world.query("airline", "select * from app.seen") == []
    finally:
        world.query("airline", "drop schema app cascade; drop role app_maker")
