"""`schema_checks` of relaybox.yaml: the outbox itself refuses a message that does not conform to the schema of its topic."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox.payloads import PayloadStore
from tests.support.adoption import INSERT as ADOPTED_INSERT
from tests.support.adoption import adopt, make_table
from tests.support.cli import invoke
from tests.support.database_dump import dump
from tests.support.init_scripts import init_by_script
from tests.support.patience import patience
from tests.support.psql import run_psql
from tests.support.world import STORES, World, wait_until

STORE = "airline"
FIRST = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["number"]}
SECOND = {**FIRST, "properties": {"seats": {"type": "integer"}, "gate": {"type": "string", "maxLength": 3}}}
GOOD, BAD = '{"number": "UA 231", "seats": 3}', '{"number": "UA 231", "seats": "many"}'
INSERT = "insert into relaybox.outbox (topic, sender, payload, headers) values (%s, 'UA', %s, %s)"
TRIGGERS = """
select count(*) filter (where tgparentid = 0), count(*) filter (where tgparentid <> 0) from pg_trigger where tgname = 'refuse_payload'
"""


def ask(world: World, *documents: Any, checks: Any = "refuse", topics: tuple[str, ...] = ("flights", "bookings")) -> None:
    """Writes relaybox.yaml with these versions of the schema of flights; `checks` None: nobody asks for a check."""
    folder = world.path.parent
    for version, document in enumerate(documents, 1):
        (folder / f"flights-{version}.json").write_text(json.dumps(document))
    file = {
        "stores": {store: {} for store in STORES},
        "routes": {"flights": {"topics": list(topics), "path": list(STORES)}},
        "schemas": {"flights": [f"flights-{version}.json" for version in range(1, len(documents) + 1)]},
        **({} if checks is None else {"schema_checks": {"flights": {"outbox": checks}}}),
    }
    world.path.write_text(yaml.safe_dump(file))


def put(world: World, payload: str | None, *, topic: str = "flights", version: Any = None) -> None:
    world.query(STORE, INSERT, topic, payload, None if version is None else json.dumps({"schema_version": version}))


@contextmanager
def refused(told: str) -> Iterator[None]:
    with pytest.raises(psycopg2.errors.CheckViolation) as found:
        yield
    assert found.value.diag.message_primary == told
    assert found.value.diag.constraint_name == "payload_is_of_its_schema"
    assert (found.value.diag.schema_name, found.value.diag.table_name) == ("relaybox", "outbox")
    assert "docs/contracts.md" in str(found.value.diag.message_hint)


def diagnose(store: str = STORE) -> list[tuple[str, str]]:
    """The result of the check of doctor: severity and text."""
    document = json.loads(invoke("doctor", store, "--json").stdout)
    (examined,) = document["stores"]
    return [(one["severity"], one["what"]) for one in examined["results"] if one["check"] == "schema_checks"]


def test_the_outbox_refuses_what_does_not_conform_and_takes_it_when_nobody_asks_any_more(world: World) -> None:
    """With topic, version and place; in the first store of the route alone; other topics are as before."""
    ask(world, FIRST)
    done = invoke("init")
    assert done.exit_code == 0, done.stderr
    assert "the outbox checks flights" in done.stdout
    put(world, GOOD)
    with refused("topic flights, schema version 1: /seats: its type is not integer"):
        put(world, BAD)
    with refused(
        "topic flights, schema version 1: the payload: it is no JSON that Postgres reads: invalid input syntax for type json"
    ):
        put(world, "{")
    put(world, BAD, topic="bookings")
    assert world.sent() == [GOOD, BAD]
    assert world.value("hub", "select count(*) from pg_trigger where tgname = 'refuse_payload'") == 0
    assert world.value("hub", "select count(*) from relaybox_internal.check_function") == 0
    assert invoke("init", "--dry-run").exit_code == 0

    ask(world, FIRST, checks=None)
    plan = invoke("init", "--dry-run")
    assert plan.exit_code == 1
    assert "topic flights is checked no more" in plan.stdout
    assert invoke("init").exit_code == 0
    put(world, BAD)
    left = world.query(
        STORE, "select proname from pg_proc where proname like 'payload.%%' or proname in ('payload_problem', 'refuse_payload')"
    )
    assert left == []
    assert world.query(STORE, TRIGGERS) == [(0, 0)]
    assert invoke("init", "--dry-run").exit_code == 0


def test_a_producer_is_checked_with_its_own_rights_alone(world: World) -> None:
    """It needs no right on the functions, and its search_path and quotes change nothing."""
    ask(world, FIRST)
    world.register()
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("create schema other; grant usage on schema other to public")
        cursor.execute("create function other.jsonb_typeof(jsonb) returns text language sql return 'integer'")
        connection.commit()
        cursor.execute("set role relaybox_producer; set search_path = other, pg_catalog; set standard_conforming_strings = off")
        insert = "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', %s)"
        cursor.execute(insert, (GOOD,))
        connection.commit()
        with pytest.raises(psycopg2.errors.CheckViolation, match="flights, schema version 1: /seats: its type is not integer"):
            cursor.execute(insert, (BAD,))
        connection.rollback()
        cursor.execute("set role relaybox_producer")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute("select relaybox_internal.payload_problem('flights', null, '{}', null)")


def test_every_version_is_checked_by_its_own_schema_while_a_version_is_added(world: World) -> None:
    """Producers of the version before go on, with a transaction that is open over the init; the init locks nothing for them."""
    ask(world, FIRST)
    world.register()
    with refused("topic flights, schema version 2: there is no schema of this version here; versions are 1 to 1"):
        put(world, GOOD, version=2)
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute(INSERT, ("flights", GOOD, '{"schema_version": 1}'))
        ask(world, FIRST, SECOND)
        done = invoke("init")
        assert done.exit_code == 0, done.stderr
        assert "topic flights: outbox refuse, first_hop none, versions 1 to 2" in done.stdout
        cursor.execute(INSERT, ("flights", '{"number": "x", "gate": 1}', '{"schema_version": 1}'))
        connection.commit()
    put(world, '{"number": "x", "gate": "A 12"}', version=1)
    for version in (2, "2", None):
        with refused("topic flights, schema version 2: /gate: it has more characters than 3"):
            put(world, '{"number": "x", "gate": "A 12"}', version=version)
    for version in (0, 3, "two", 1.5, [1], 10**12):
        with pytest.raises(psycopg2.errors.CheckViolation, match="there is no schema of this version here; versions are 1 to 2"):
            put(world, GOOD, version=version)


def test_a_version_that_breaks_the_one_before_changes_nothing(world: World) -> None:
    ask(world, FIRST)
    world.register()
    ask(world, FIRST, {**FIRST, "required": ["number", "seats"]})
    done = invoke("init")
    assert done.exit_code == 2
    assert "topic flights, version 2 after 1: /seats: it is required now" in done.stderr
    put(world, '{"number": "x"}')
    (world.path.parent / "flights-2.json").unlink()
    missing = invoke("init")
    assert missing.exit_code == 2
    assert "schema version 2 of topic flights" in missing.stderr
    ask(world, {"multipleOf": 2})
    assert "/multipleOf: this keyword can't be checked in SQL" in invoke("init").stderr


def test_bytes_and_references_to_files(world: World, tmp_path: Path) -> None:
    """Bytes are read as UTF-8. A payload in a file is not here, so it is not checked; a header alone is no such reference."""
    ask(world, FIRST)
    world.register()
    insert = "insert into relaybox.outbox (topic, sender, payload_bytes) values ('flights', 'UA', %s)"
    world.query(STORE, insert, GOOD.encode())
    for content, told in (
        (BAD.encode(), "/seats: its type is not integer"),
        (b"\xff", "the payload: its bytes are no text in UTF-8"),
    ):
        with pytest.raises(psycopg2.errors.CheckViolation, match=told):
            world.query(STORE, insert, content)
    payloads = PayloadStore(tmp_path / "payloads")
    payloads.prepare()
    large = payloads.write(BAD)
    world.query(STORE, INSERT, "flights", json.dumps(large.payload), json.dumps(large.headers))
    with pytest.raises(psycopg2.errors.CheckViolation):
        world.query(STORE, INSERT, "flights", BAD, json.dumps(large.headers))
    with pytest.raises(psycopg2.errors.CheckViolation):
        world.query(STORE, INSERT, "flights", "no json", json.dumps(large.headers))


@pytest.mark.parametrize(
    "payload", ["[" * 20_000 + "]" * 20_000, '{"number": 1e400000}', '{"a": "\\u0000"}', "", '{"number": -1e-200000}']
)
def test_an_odd_payload_is_refused_as_one_that_does_not_conform(world: World, payload: str) -> None:
    ask(world, {"type": "object", "properties": {"number": {"type": "integer", "minimum": 0}}})
    world.register()
    with pytest.raises(psycopg2.errors.CheckViolation, match="topic flights, schema version 1: "):
        put(world, payload)


def test_rows_that_were_accepted_before_are_moved_restored_and_numbered_anew(world: World) -> None:
    """The trigger looks at what its own transaction sends: not at what a dump, a segment or renumber_late_rows() brings."""
    ask(world, FIRST, checks=None)
    world.register()
    put(world, BAD)
    ask(world, FIRST)
    world.register()
    world.query(STORE, "update relaybox.outbox set seq = 3000000 where payload = %s", BAD)  # into another partition, as an insert
    assert world.query(STORE, "select tableoid::regclass::text from relaybox.outbox") == [("relaybox_internal.outbox_overflow",)]
    world.query(STORE, "select relaybox_internal.ensure_outbox_segments()")
    with refused("topic flights, schema version 1: /seats: its type is not integer"):
        put(world, BAD)
    text = dump(STORE)
    world.query("hub", "drop schema relaybox, relaybox_internal cascade")
    path = world.path.parent / "dump.sql"
    path.write_text(text)
    loaded = run_psql(path, "hub")
    assert loaded.returncode == 0, loaded.stderr
    assert world.query("hub", "select payload from relaybox.outbox") == [(BAD,)]
    assert world.query("hub", TRIGGERS)[0][0] == 1
    with pytest.raises(psycopg2.errors.CheckViolation, match="/seats"):
        world.query("hub", INSERT, "flights", BAD, None)


@pytest.mark.parametrize("role", ["replica", "local"])
def test_a_session_is_checked_whatever_its_session_replication_role_is(world: World, role: str) -> None:
    """In segments of before and of after; rows with the transaction number of another cluster were sent there, and are taken."""
    world.cut_small_segments(10)
    ask(world, FIRST)
    world.register()
    for _ in range(3):
        with world.session(STORE) as connection, connection.cursor() as cursor:
            cursor.execute(f"set session_replication_role = {role}")
            with pytest.raises(
                psycopg2.errors.CheckViolation, match="flights, schema version 1: /seats: its type is not integer"
            ):
                cursor.execute(INSERT, ("flights", BAD, None))
            connection.rollback()
            cursor.execute(INSERT, ("flights", GOOD, None))
            cursor.execute("insert into relaybox.outbox (topic, sender, payload, xid) values ('flights', 'UA', %s, '3')", (BAD,))
            connection.commit()
        world.query(
            STORE,
            "insert into relaybox.outbox (topic, sender, payload) select 'flights', 'UA', %s from generate_series(1, 30)",
            GOOD,
        )
        world.query(STORE, "select relaybox_internal.ensure_outbox_segments()")
    assert world.sent().count(BAD) == 3


def test_an_adopted_table_is_checked_in_a_session_of_replicas_too(world: World) -> None:
    """Its rows are sent there, so the outbox refuses them as in each other session."""
    ask(world, FIRST)
    world.register()
    make_table(world)
    adopt(world, mapped={"topic": {"parts": ["flights"]}})
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("set session_replication_role = replica")
        cursor.execute(ADOPTED_INSERT, ("k", GOOD))
        connection.commit()
        with pytest.raises(psycopg2.errors.CheckViolation, match="flights, schema version 1: /seats: its type is not integer"):
            cursor.execute(ADOPTED_INSERT, ("k", BAD))
    assert [json.loads(payload) for payload in world.sent()] == [json.loads(GOOD)]


def test_new_segments_are_checked_too(world: World) -> None:
    world.cut_small_segments(10)
    ask(world, FIRST)
    world.register()
    for _ in range(3):
        world.query(
            STORE,
            "insert into relaybox.outbox (topic, sender, payload) select 'flights', 'UA', %s from generate_series(1, 30)",
            GOOD,
        )
        world.query(STORE, "select relaybox_internal.ensure_outbox_segments()")
        with pytest.raises(psycopg2.errors.CheckViolation):
            put(world, BAD)
    world.transfer_all()
    assert len(world.payloads("flights/2")) == 90


def test_an_init_waits_for_open_producers_in_short_attempts(world: World) -> None:
    """While it waits, others send: it queues for no longer than half of deadlock_timeout at once."""
    ask(world, FIRST, checks=None)
    world.register()
    ask(world, FIRST)
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute(INSERT, ("flights", GOOD, None))
        done: list[Any] = []
        init = threading.Thread(target=lambda: done.append(invoke("init", STORE)))
        init.start()
        waiting = (
            "select count(*) from pg_stat_activity where application_name = 'relaybox init' and query like '%%place_payload%%'"
        )
        wait_until(lambda: world.value(STORE, waiting) == 1, "init waits for the producer")
        with world.session(STORE) as other, other.cursor() as sending:
            for _ in range(5):
                sending.execute(f"set statement_timeout = '{patience(2)}s'")
                sending.execute(INSERT, ("flights", GOOD, None))
                other.commit()
        assert init.is_alive()
        connection.commit()
        init.join(patience(30))
    assert done[0].exit_code == 0, done[0].stderr
    with pytest.raises(psycopg2.errors.CheckViolation):
        put(world, BAD)


def test_an_init_that_waits_in_vain_names_who_is_in_its_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one completes it; until then messages are taken unchecked, and doctor says so."""
    ask(world, FIRST, checks=None)
    world.register()
    ask(world, FIRST)
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("set application_name = 'a slow producer'")
        cursor.execute(INSERT, ("flights", BAD, None))
        failed = invoke("init", STORE)
        assert failed.exit_code == 4
        assert "a slow producer" in failed.stderr
        connection.commit()
    assert [severity for severity, _ in diagnose()] == ["error"]
    assert "checks nothing, and not flights" in diagnose()[0][1]
    assert invoke("init", STORE).exit_code == 0
    assert [severity for severity, _ in diagnose()] == ["ok"]


SPOILINGS = [
    (
        "alter table relaybox.outbox disable trigger refuse_payload",
        "refuse_payload of relaybox.outbox checks nothing, and not flights",
    ),
    (
        "alter table relaybox.outbox disable trigger all; alter table relaybox.outbox enable trigger all",
        "refuse_payload of relaybox.outbox checks nothing, and not flights",
    ),
    (
        "alter table relaybox_internal.outbox_s000000 enable trigger refuse_payload",
        "refuse_payload of relaybox.outbox checks nothing, and not flights",
    ),
    ("drop trigger refuse_payload on relaybox.outbox", "refuse_payload of relaybox.outbox checks nothing, and not flights"),
    (
        'create or replace function relaybox_internal."payload.flights.v1"(payload text) returns text language sql return null',
        "Function relaybox_internal.payload.flights.v1 is missing, or not as init made it",
    ),
    (
        "drop function relaybox_internal.payload_problem",
        "Function relaybox_internal.payload_problem is missing, or not as init made it",
    ),
    (
        "alter function relaybox_internal.refuse_payload security invoker",
        "Function relaybox_internal.refuse_payload is missing, or not",
    ),
]


@pytest.mark.parametrize(("statement", "told"), SPOILINGS)
def test_what_was_changed_by_hand_is_told_and_made_anew(world: World, statement: str, told: str) -> None:
    ask(world, FIRST)
    world.register()
    assert [severity for severity, _ in diagnose()] == ["ok"]
    world.query(STORE, statement)
    ((severity, what),) = diagnose()
    assert (severity, told in what) == ("error", True), what
    assert invoke("init", STORE).exit_code == 0
    assert [severity for severity, _ in diagnose()] == ["ok"]
    with pytest.raises(psycopg2.errors.CheckViolation):
        put(world, BAD)


def test_doctor_compares_the_store_with_the_files(world: World) -> None:
    ask(world, FIRST, checks=None)
    world.register()
    assert diagnose() == [("ok", "Topics whose messages are checked by their schemas here: none; relaybox.yaml says the same.")]
    ask(world, FIRST)
    assert diagnose()[0] == (
        "error",
        "relaybox.yaml says schema_checks.flights with outbox: refuse, first_hop: none, versions 1 to 1, and the store has no check of this topic.",
    )
    world.register()
    ask(world, SECOND)
    assert diagnose() == [
        ("error", "Function relaybox_internal.payload.flights.v1 was made of another schema than the files have now.")
    ]
    ask(world, FIRST, SECOND)
    assert "versions 1 to 2, and the store has outbox: refuse, first_hop: none, versions 1 to 1" in diagnose()[0][1]
    world.register()
    assert diagnose() == [
        ("ok", "Topics whose messages are checked by their schemas here: flights (versions 1 to 2); relaybox.yaml says the same.")
    ]
    ask(world, FIRST, SECOND, checks=None)
    assert diagnose() == [("error", "Messages of topic flights are checked, and relaybox.yaml does not ask for it.")]
    (world.path.parent / "flights-2.json").write_text("{")
    ask_again = yaml.safe_load(world.path.read_text()) | {"schema_checks": {"flights": {"outbox": "refuse"}}}
    world.path.write_text(yaml.safe_dump(ask_again))
    assert "can't be compared with the store: schema version 2 of topic flights" in diagnose()[0][1]


def test_the_script_of_init_does_the_same(world: World, tmp_path: Path) -> None:
    ask(world, FIRST)
    told = init_by_script(tmp_path, STORE)
    assert "schema checks: topic flights: outbox refuse, first_hop none, versions 1 to 1" in told
    with refused("topic flights, schema version 1: /seats: its type is not integer"):
        put(world, BAD)
    assert invoke("init", STORE, "--dry-run").exit_code == 0
    ask(world, FIRST, checks=None)
    assert "schema checks: topic flights is checked no more" in init_by_script(tmp_path, STORE)
    put(world, BAD)
    assert invoke("init", STORE, "--dry-run").exit_code == 0


EVENTS = "create table public.events (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb)"
EVENT = "insert into public.events select gen_random_uuid(), 'flights', 'k', 't', p::jsonb from unnest(%s::text[]) p"


@pytest.mark.parametrize("on_unmapped", ["fail", "set_aside"])
def test_a_row_of_an_adopted_table_that_does_not_conform(world: World, on_unmapped: str) -> None:
    """Its insert fails; with on_unmapped: set_aside the row is kept apart, and sent once it conforms."""
    ask(world, FIRST)
    world.register()
    world.query(STORE, EVENTS)
    assert invoke("adopt", STORE, "public.events", "--on-unmapped", on_unmapped).exit_code == 0
    world.query(STORE, EVENT, [GOOD])
    if on_unmapped == "fail":
        with pytest.raises(psycopg2.errors.CheckViolation, match="flights, schema version 1: /seats: its type is not integer"):
            world.query(STORE, EVENT, [GOOD, BAD])
        assert len(world.sent()) == 1
        return
    world.query(STORE, EVENT, [GOOD, BAD])
    assert len(world.sent()) == 2
    assert world.query(STORE, "select problem from relaybox_internal.unmapped_row") == [
        ("schema version 1: /seats: its type is not integer",)
    ]
    assert invoke("adopt", STORE, "public.events", "--send-unmapped").exit_code == 1  # one is left
    assert len(world.sent()) == 2
    ask(world, FIRST, checks=None)
    world.register()
    assert invoke("adopt", STORE, "public.events", "--send-unmapped").exit_code == 0
    assert len(world.sent()) == 3


def test_the_backlog_of_an_adopted_table_keeps_apart_what_does_not_conform(world: World) -> None:
    ask(world, FIRST)
    world.register()
    world.query(STORE, EVENTS)
    world.query(STORE, EVENT, [GOOD, BAD, GOOD])
    assert invoke("adopt", STORE, "public.events", "--backlog").exit_code == 0
    assert len(world.sent()) == 2
    ((problem,),) = world.query(STORE, "select problem from relaybox_internal.unmapped_row")
    assert "schema version 1: /seats: its type is not integer (23514)" in problem


def test_a_topic_that_is_not_sent_from_a_store_is_not_checked_there(world: World) -> None:
    """The second store of a route may have an outbox of its own, for other routes."""
    ask(world, FIRST)
    world.register()
    world.query("hub", INSERT, "flights", BAD, None)
    assert world.value("hub", "select count(*) from relaybox_internal.checked_topic") == 0


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        (
            {"fligths": {"outbox": "refuse"}},
            "schema_checks.fligths: schemas has no topic fligths; expected a topic of schemas. Did you mean",
        ),
        ({"flights": {"outbox": "reject"}}, 'schema_checks.flights.outbox: got "reject"; expected none or refuse'),
        ({"flights": {"inbox": "refuse"}}, "schema_checks.flights.inbox: unknown key"),
        ({"flights": "refuse"}, 'schema_checks.flights: got "refuse"; expected a section with the keys outbox, first_hop'),
    ],
)
def test_a_wrong_section_is_refused(world: World, checks: Any, told: str) -> None:
    ask(world, FIRST, checks=None)
    world.path.write_text(yaml.safe_dump(yaml.safe_load(world.path.read_text()) | {"schema_checks": checks}))
    done = invoke("schemas")
    assert done.exit_code == 2
    assert told in done.stderr


def test_a_pattern_that_postgres_finds_too_large_is_refused_by_init(world: World) -> None:
    """Else each message would be refused because of it."""
    ask(world, {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(?:(?:a{1,255}){1,255}){1,255}$"}}})
    done = invoke("init", STORE)
    assert done.exit_code == 5
    assert "topic flights, schema version 1: /properties/name/pattern: Postgres can't use it" in done.stderr
    assert world.value(STORE, "select count(*) from relaybox_internal.check_function") == 0
