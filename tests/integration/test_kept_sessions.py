"""World.query() leaves its session to the next statement, which finds what it would find in a new one."""

from __future__ import annotations

import pytest
from psycopg2 import Error

from tests.support.services import break_service
from tests.support.world import World

PID = "select pg_backend_pid()"


def test_a_statement_gets_the_session_of_the_last_one(world: World) -> None:
    assert world.value("hub", PID) == world.value("hub", PID)
    assert world.value("airline", "select current_database()") == world.value("hub", "select current_database()")
    assert world.value("airline", "show cluster_name") == "airline"


@pytest.mark.parametrize(
    "statement",
    [
        "set statement_timeout = '7s'; select 1",
        "select set_config('statement_timeout', '7s', false)",
        "create temporary table store (n integer); select 1",
        "begin; select 1",
        "select pg_advisory_lock(7)",
        "do $$ begin raise notice 'said'; end $$",
    ],
)
def test_a_session_that_may_not_be_as_it_was_is_left_to_nobody(world: World, statement: str) -> None:
    before = world.value("hub", PID)
    world.query("hub", statement)
    assert world.value("hub", PID) != before
    assert world.value("hub", "show statement_timeout") == "0"


def test_a_session_with_an_error_is_left_to_nobody(world: World) -> None:
    before = world.value("hub", PID)
    with pytest.raises(Error):
        world.query("hub", "select 1 / 0")
    assert world.value("hub", PID) != before


def test_a_session_that_was_ended_is_opened_anew(world: World) -> None:
    before = world.value("hub", PID)
    with world.session("hub") as session, session.cursor() as cursor:
        cursor.execute("select pg_terminate_backend(%s, 10000)", (before,))
    assert world.value("hub", PID) != before


def test_a_changed_role_or_service_file_counts_at_once(world: World) -> None:
    database = world.value("hub", "select current_database()")
    world.query("hub", f"alter database {database} set statement_timeout = '7s'")
    assert world.value("hub", "show statement_timeout") == "7s"
    break_service("hub", dbname="postgres")
    assert world.value("hub", "select current_database()") == "postgres"
