"""Statements of the library run through a StoreSession: typed rows, and errors that say where and while what."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from relaybox import errors
from relaybox.stores.sessions.store_session import StoreSession
from tests.faults.library import CORE, name_of
from tests.support.world import World


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class NamedPoint:
    name: str
    x: int
    y: int = 0


@pytest.fixture
def hub(world: World) -> Iterator[StoreSession]:
    with world.store_session("hub") as session:
        yield session.doing("measuring")


def test_a_row_is_made_by_the_names_of_its_columns(hub: StoreSession) -> None:
    """Whatever their order; columns that the class has not are left out, and what is no column is given."""
    assert hub.row(Point, "select 2 as y, 1 as x, 3 as z") == Point(1, 2)
    assert hub.row(NamedPoint, "select %s as x", 7, name="a") == NamedPoint("a", 7)
    assert hub.rows(Point, "select n as x, -n as y from generate_series(1, %(last)s) n", {"last": 2}) == [(1, -1), (2, -2)]
    assert hub.row_if_any(Point, "select 1 as x, 2 as y where false") is None


def test_a_column_that_a_class_needs_and_a_statement_has_not_is_an_error(hub: StoreSession) -> None:
    with pytest.raises(TypeError, match="'y'"):
        hub.row(Point, "select 1 as x, 2 as why")


def test_a_statement_without_the_row_that_it_always_gives_is_an_error(hub: StoreSession) -> None:
    with pytest.raises(errors.StoreFailed, match=r"^store hub: while measuring: the statement gave no row"):
        hub.row(Point, "select 1 as x, 2 as y where false")


def test_values_calls_and_counts(hub: StoreSession) -> None:
    """A percent sign in a statement without arguments stands for itself."""
    assert hub.value("select %s || %s", "a", "b") == "ab"
    assert hub.value("select 'a%' where 'ab' like 'a%'") == "a%"
    assert hub.value("select 1 where false") is None
    assert hub.values("select * from generate_series(1, 3)") == [1, 2, 3]
    assert hub.call("pg_catalog.upper", "a") == "A"
    assert hub.execute("create temporary table t as select * from generate_series(1, 4) n") == 4
    assert hub.execute("delete from t where n > %s", 1) == 3


FAILING: dict[str, Callable[[StoreSession], object]] = {
    "row": lambda session: session.row(Point, "select 1 / 0"),
    "row_if_any": lambda session: session.row_if_any(Point, "select 1 / 0"),
    "rows": lambda session: session.rows(Point, "select 1 / 0"),
    "value": lambda session: session.value("select 1 / 0"),
    "values": lambda session: session.values("select 1 / 0"),
    "call": lambda session: session.call("pg_catalog.int4div", 1, 0),
    "execute": lambda session: session.execute("select 1 / 0"),
}


@pytest.mark.parametrize("use", FAILING.values(), ids=FAILING)
def test_an_error_says_at_which_store_and_while_what(hub: StoreSession, use: Callable[[StoreSession], object]) -> None:
    with pytest.raises(errors.StoreFailed, match=r"^store hub: while measuring: division by zero \(22012\)\."):
        use(hub)
    hub.rollback()
    assert hub.doing("looking").value("select 1") == 1


ENDING: dict[str, Callable[[StoreSession], object]] = {
    "commit": lambda session: session.commit(),
    "commit of a step": lambda session: session.commit("slice"),
    "commit_durably": lambda session: session.commit_durably("plan"),
    "rollback": lambda session: session.rollback(),
    "cursor": lambda session: session.cursor().__enter__(),
}


@pytest.mark.parametrize("end", ENDING.values(), ids=ENDING)
def test_a_session_that_has_ended_is_an_unreachable_store(
    world: World, hub: StoreSession, end: Callable[[StoreSession], object]
) -> None:
    hub.value("select 1")
    world.query("hub", "select pg_terminate_backend(%s, 10000)", hub.connection.info.backend_pid)
    hub.connection.close()
    with pytest.raises(errors.StoreUnreachable, match=r"^store hub: while measuring: "):
        end(hub)
    assert hub.closed


OF_ITS_OWN = {
    "failpoints.py": "has a server raise an error",
    "payloads/store_references.py": "a named cursor: references may be more rows than fit into memory",
    "clients/django.py": "a consumer brings her own connection",
    "clients/psycopg.py": "a consumer brings her own connection",
    "clients/sqlalchemy.py": "a consumer brings her own connection",
    "clients/rows.py": "a producer brings her own connection",
    "testing/clusters.py": "the administrator of a server of tests",
    "testing/stores.py": "an application of tests has its own connections",
    "django/admin.py": "an application has its own connections",
    "django/checks.py": "an application has its own connections",
    "stores/sessions/connections.py": "ends a transaction durably",
    "stores/sessions/poolers.py": "asks a new connection whether its pooler lends whole transactions",
    "stores/sessions/settings.py": "pins the settings of a connection before there is a session of ours",
    "stores/binary_copy/frame_relay.py": "asks the connection of a COPY whether its socket is encrypted",
    "stores/binary_copy/pipe.py": "runs two COPYs against each other",
    "stores/sessions/store_session.py": "is the door",
    "recovery/anchoring.py": "tries a lock again and again, in a cursor of the session",
    "recovery/new_generation.py": "inserts many rows with one statement, in a cursor of the session",
    "retention/segments.py": "passes over a hop that is locked, in a cursor of the session",
    "streams/senders.py": "tells a role that is not there from other errors, in a cursor of the session",
    "stores/sessions/producer_sessions.py": "pins settings within the transaction of an application, in a cursor of its session",
    "subscriptions/replays.py": "reads the open ranges in the cursor of the triggerer",
}
"""Modules of the core that use cursors, and why."""


def uses_cursors(path: Path) -> bool:
    """Whether a module opens a cursor, fetches from one, or tells errors of one by itself."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    called = {getattr(node.func, "attr", None) for node in nodes if isinstance(node, ast.Call)}
    imported = {node.name for node in nodes if isinstance(node, ast.alias)}
    return bool(called & {"cursor", "fetchone", "fetchall"} or imported & {"store_errors", "NamedTupleCursor"})


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_statements_of_the_core_run_through_its_sessions(path: Path) -> None:
    assert uses_cursors(path) == (name_of(path) in OF_ITS_OWN)
