"""What an application does to its adopted table later: nothing of it breaks the sending without a word."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.adoption.tables import read_adopted
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.adoption import INSERT, adopt, make_table, problems, sent, unadopt, write
from tests.support.cli import diagnose, invoke
from tests.support.database_dump import dump
from tests.support.world import World


def alter(world: World, statement: str) -> None:
    world.query("airline", f"alter table app.outboxevent {statement}")


def in_file(world: World, **said: Any) -> None:
    """relaybox.yaml has the table."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["airline"] = {"adopt": {"app.outboxevent": said}}
    world.path.write_text(yaml.safe_dump(document))


def test_columns_that_are_added_or_renamed_change_nothing(world: World) -> None:
    """The function of the table follows a new name. Doctor names it until the map has it."""
    make_table(world)
    in_file(world)
    adopt(world)
    write(world, "1")
    alter(world, "add column more integer default 7")
    write(world, "2")
    alter(world, "drop column more")
    alter(world, "rename column payload to body")
    world.query("airline", INSERT.replace("payload", "body"), "k", "3")
    assert sent(world) == ["1", "2", "3"]
    (found,) = diagnose("airline", "adopted_tables")[:1]
    assert found[:2] == (
        "warning",
        "Adopted table app.outboxevent: column payload was renamed: the map names payload, the table has body; its rows are sent.",
    )
    in_file(world, payload="body")
    assert adopt(world).changed == ("map",)
    world.query("airline", INSERT.replace("payload", "body"), "k", "4")
    assert sent(world) == ["1", "2", "3", "4"]
    assert [one[0] for one in diagnose("airline", "adopted_tables")] == ["ok"]


@pytest.mark.parametrize(
    "statement", ["drop column payload", "alter column payload type text", "alter column aggregateid type integer using 1"]
)
def test_a_mapped_column_can_not_be_dropped_or_retyped_by_the_way(world: World, statement: str) -> None:
    """Postgres refuses it and names the function, whose comment says what to do."""
    make_table(world)
    adopt(world)
    with pytest.raises(psycopg2.Error) as caught:
        alter(world, statement)
    assert "message_of_row_1(app.outboxevent)" in str(caught.value.diag.message_detail)
    told = world.value("airline", "select obj_description('relaybox_internal.message_of_row_1(app.outboxevent)'::regprocedure)")
    assert 'docs/adopt.md, "Change the table"' in told
    with pytest.raises(psycopg2.errors.DependentObjectsStillExist):
        world.query("airline", "drop table app.outboxevent")
    write(world, "1")
    assert sent(world) == ["1"]


def test_a_migration_that_retypes_a_mapped_column_loses_no_row(world: World) -> None:
    """In one transaction of the owner: let the columns go, change them, take them again. Without the last step inserts fail aloud."""
    make_table(world)
    adopt(world)
    write(world, "1")
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("select relaybox_internal.release_columns('app.outboxevent')")
        cursor.execute("alter table app.outboxevent alter column payload type text, alter column aggregateid type text")
        cursor.execute("select relaybox_internal.take_columns('app.outboxevent')")
        connection.commit()
    write(world, "2")
    assert sent(world) == ["1", "2"]
    world.query("airline", "select relaybox_internal.release_columns('app.outboxevent')")
    with pytest.raises(psycopg2.Error, match="message_of_row_1"):
        write(world, "3")
    assert ("function", True) in problems(world)
    adopt(world)
    write(world, "3")
    assert sent(world) == ["1", "2", "3"]
    assert problems(world) == []


def test_a_table_that_is_renamed_is_still_sent(world: World) -> None:
    """Also by sessions that begin later, and into another schema. Doctor says the new name."""
    make_table(world, "create schema shop")
    adopt(world)
    alter(world, "rename to events")
    world.query("airline", "alter table app.events set schema shop")
    world.query("airline", INSERT.replace("app.outboxevent", "shop.events"), "k", "1")
    with pytest.raises(psycopg2.Error, match=r"table shop.events: a row can't be a message"):
        world.query("airline", INSERT.replace("app.outboxevent", "shop.events"), "k", None)
    assert sent(world) == ["1"]
    assert "the table is named shop.events now; its rows are sent" in diagnose("airline", "adopted_tables")[0][1]
    world.query("airline", "alter table shop.events disable trigger relaybox_adopted")
    told = diagnose("airline", "adopted_tables")
    assert {severity for severity, _, _ in told} == {"warning", "error"}
    assert len([1 for _, _, command in told if "relaybox adopt airline shop.events" in command]) == 3
    assert not any("app.outboxevent" in command for _, _, command in told)
    world.query("airline", "alter table shop.events enable always trigger relaybox_adopted")
    assert adopt(world, "shop.events").changed == ("name",)
    world.query("airline", INSERT.replace("app.outboxevent", "shop.events"), "k", "2")
    assert sent(world) == ["1", "2"]
    assert problems(world) == []
    assert unadopt(world, "shop.events").was_adopted


@pytest.mark.parametrize(
    ("statement", "severity", "told"),
    [
        ("alter table app.outboxevent disable trigger relaybox_adopted", "error", "trigger relaybox_adopted is disabled on app.outboxevent"),
        ("alter table app.outboxevent disable trigger all; alter table app.outboxevent enable trigger all", "error", "does not fire with session_replication_role = replica"),
        ("drop trigger relaybox_adopted on app.outboxevent", "error", "trigger relaybox_adopted was dropped: what is inserted is not sent"),
        ("alter table app.outboxevent drop column payload cascade", "error", "its column payload, which the map names, is gone"),
        ("drop table app.outboxevent cascade", "error", "the table is gone"),
    ],
    ids=["disabled", "off for replicas", "dropped", "column dropped", "table dropped"],
)  # fmt: skip
def test_what_stops_the_sending_is_an_error_of_doctor_and_shown_by_status(
    world: World, statement: str, severity: str, told: str
) -> None:
    """With the command that repairs it, or ends the adoption of a table that is gone."""
    make_table(world)
    in_file(world)
    adopt(world)
    world.query("airline", statement)
    found = diagnose("airline", "adopted_tables")
    assert any(one[0] == severity and told in one[1] for one in found), found
    (shown,) = invoke("status", "--json").document["adopted_tables"]
    assert any(told in problem for problem in shown["problems"]), shown
    assert told in " ".join(invoke("status").stdout.split())
    if "drop table" in statement or "drop column" in statement:
        assert unadopt(world).was_adopted
        return
    assert any("trigger" in change for change in adopt(world).changed)
    write(world, "1")
    assert sent(world) == ["1"]
    assert [one[0] for one in diagnose("airline", "adopted_tables")] == ["ok"]


def test_the_file_decides_and_doctor_compares_it_with_the_store(world: World) -> None:
    """Of a table that is only here or only there, or with another map; and the command may not say something else than the file."""
    make_table(world)
    adopt(world)
    assert "relaybox.yaml has no stores.airline.adopt.app.outboxevent" in diagnose("airline", "adopted_tables")[0][1]
    in_file(world, sender="'shop'")
    assert "relaybox.yaml says another map or on_unmapped" in diagnose("airline", "adopted_tables")[0][1]
    refused = invoke("adopt", "airline", "app.outboxevent", "--map", "sender='bar'", "--json")
    assert (refused.exit_code, refused.document["error"]["kind"]) == (2, "ConfigurationError")
    assert adopt(world).changed == ("map",)
    assert [one[0] for one in diagnose("airline", "adopted_tables")] == ["ok"]
    unadopt(world)
    assert "the table is not adopted: its rows are not sent" in diagnose("airline", "adopted_tables")[0][1]


def test_a_name_that_another_table_took_ends_no_adoption_and_is_an_error_of_doctor(world: World) -> None:
    """Also after the trigger was dropped: the adoption is of the old table, whose rows its functions take."""
    make_table(world)
    adopt(world)
    alter(world, "rename to outboxevent_old")
    assert problems(world) == [("renamed", False)]
    world.query("airline", "create table app.outboxevent (like app.outboxevent_old including all)")
    severity, what, _ = diagnose("airline", "adopted_tables")[0]
    assert severity == "error"
    assert (
        "named app.outboxevent_old now; its rows are sent. app.outboxevent is another table now, whose rows are not sent" in what
    )
    with pytest.raises(
        errors.AdoptionRefused, match=r"named app\.outboxevent_old now, and app\.outboxevent is another table"
    ) as refused:
        unadopt(world)
    assert "relaybox unadopt airline app.outboxevent_old" in str(refused.value)
    world.query("airline", "drop trigger relaybox_adopted on app.outboxevent_old")
    with pytest.raises(errors.AdoptionRefused, match=r"named app\.outboxevent_old now, and app\.outboxevent is another table"):
        adopt(world)
    assert unadopt(world, "app.outboxevent_old").was_adopted
    assert adopt(world).is_new
    write(world, "1")
    assert sent(world) == ["1"]


def test_adopted_tables_that_swap_names_are_both_sent_and_can_be_adopted_by_their_new_names(world: World) -> None:
    """Three in a circle, too."""
    make_table(world, *(f"create table app.{name} (like app.outboxevent including all)" for name in ("second", "third")))
    names = ("app.outboxevent", "app.second", "app.third")
    for name in names:
        adopt(world, name, mapped={"sender": {"parts": [name.replace(".", "-")]}})
    alter(world, "rename to spare")
    for old, new in (("second", "outboxevent"), ("third", "second"), ("spare", "third")):
        world.query("airline", f"alter table app.{old} rename to {new}")
    assert {kind for kind, stops in problems(world) if not stops} == {"renamed"}
    assert len(problems(world)) == 3
    assert adopt(world, "app.outboxevent").changed == ("name",)
    assert problems(world) == []
    for name in names:
        adopt(world, name)
        world.query("airline", INSERT.replace("app.outboxevent", name), "k", f'"{name}"')
    assert world.query("airline", "select payload, sender from relaybox.outbox order by seq") == [
        ('"app.outboxevent"', "app-second"),
        ('"app.second"', "app-third"),
        ('"app.third"', "app-outboxevent"),
    ]
    assert {unadopt(world, name).was_adopted for name in names} == {True}


def test_an_init_makes_functions_of_an_older_version_anew(world: World) -> None:
    """And leaves adoptions alone otherwise: the schema of the database is the same after it."""
    make_table(world)
    adopt(world)
    before = dump("airline", "--schema-only")
    world.query("airline", "update relaybox_internal.adopted_table set template = 0")
    world.query(
        "airline",
        "create or replace function relaybox_internal.send_rows_1() returns trigger language plpgsql as 'begin return null; end'",
    )
    initialise_store(world.routes.stores["airline"], world.routes)
    write(world, "1")
    assert sent(world) == ["1"]
    initialise_store(world.routes.stores["airline"], world.routes)
    assert dump("airline", "--schema-only") == before


@pytest.mark.parametrize("role", ["relaybox_viewer", "relaybox_reader", "relaybox_driver"])
def test_logins_that_watch_see_adopted_tables_and_their_defects(world: World, role: str) -> None:
    """The page's login is a viewer: it sees how many rows wait or are set aside, and nothing of them."""
    make_table(world)
    adopt(world, on_unmapped="set_aside")
    world.query("airline", INSERT.replace("Flights", "no topic"), "k", "1")
    world.query("airline", f"create role watcher login password 'secret' in role {role}")
    connection = psycopg2.connect(service="airline", user="watcher", password="secret")
    try:
        connection.autocommit = True
        (state,) = read_adopted(StoreSession(connection, "airline"))
        assert (state.table_name, state.unmapped_count, len(state.problems)) == ("app.outboxevent", 1, 1)
        with connection.cursor() as cursor:
            if role == "relaybox_viewer":
                for table in ("unmapped_row", "adopted_row"):
                    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                        cursor.execute(f"select * from relaybox_internal.{table}")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute("delete from relaybox_internal.adopted_table")
    finally:
        connection.close()
        world.query("airline", "drop role watcher")


def test_a_table_that_takes_the_name_of_an_adopted_one_breaks_no_insert(world: World) -> None:
    """It is refused until the adoption has the other table's new name; then it is adopted by itself."""
    make_table(world)
    adopt(world)
    alter(world, "rename to outboxevent_old")
    world.query("airline", "create table app.outboxevent (like app.outboxevent_old including all)")
    with pytest.raises(errors.AdoptionRefused, match=r"named app\.outboxevent_old now, and app\.outboxevent is another table"):
        adopt(world)
    world.query("airline", INSERT.replace("outboxevent", "outboxevent_old"), "1", "1")
    write(world, "2")
    assert sent(world) == ["1"]
    assert adopt(world, "app.outboxevent_old").changed == ("name",)
    assert adopt(world).is_new
    world.query("airline", INSERT.replace("outboxevent", "outboxevent_old"), "3", "3")
    write(world, "4")
    assert sent(world) == ["1", "3", "4"]
