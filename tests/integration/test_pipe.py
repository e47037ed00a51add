"""The pipe between two COPYs, and the limits of every session: each way of failing ends, loudly, on the right side."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from relaybox import errors
from relaybox.stores.binary_copy import frame_relay, pipe
from relaybox.stores.binary_copy.pipe import CopySender, SendingFailed, pipe_copy, pipe_sessions
from relaybox.stores.sessions.answer_limits import cut_session
from relaybox.stores.sessions.connections import connect, store_errors
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.patience import patience
from tests.support.world import World, wait_until

INTO = sql.SQL("copy numbers from stdin")


@pytest.fixture(params=["frames", "rows"])
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the pipe hands rows on; as rows where a session is encrypted, which is made up here."""
    if request.param == "rows":
        monkeypatch.setattr(pipe, "is_plain", lambda _connection: False)
    return str(request.param)


@pytest.fixture
def sessions(world: World, unit: str) -> Iterator[tuple[Any, Any]]:
    """A session to the source, and one to the destination with a table for numbers."""
    source = connect("airline", application_name="pipe source")
    destination = connect("hub", application_name="pipe destination")
    with destination.cursor() as cursor:
        cursor.execute("create temporary table numbers (n bigint primary key)")
    yield source, destination
    source.close()
    destination.close()


def copy_out(query: str) -> sql.Composed:
    return sql.SQL("copy ({}) to stdout").format(sql.SQL(query))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "relaybox-pipe-sender"]


def test_rows_and_bytes_are_counted_where_they_arrive(sessions: tuple[Any, Any], unit: str) -> None:
    """The destination's own count, and the bytes that passed."""
    assert pipe_copy(*_pair(sessions, "select generate_series(1, 1000)"), timeout_seconds=30) == (1000, 3893, unit)


def test_the_bytes_of_every_read_are_counted_and_the_first_one_only_is_the_beginning(
    sessions: tuple[Any, Any], unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a pipe holds: numbers of six digits and their line ends."""
    reached: list[str] = []
    for module in (pipe, frame_relay):
        monkeypatch.setattr(module, "reach", lambda point, _connection: reached.append(point))
    assert pipe_copy(*_pair(sessions, "select generate_series(100001, 600000)"), timeout_seconds=60) == (500_000, 3_500_000, unit)
    assert reached == ["slice.piping"]


def _pair(sessions: tuple[Any, Any], query: str) -> tuple[Any, sql.Composed, Any, sql.SQL]:
    return sessions[0], copy_out(query), sessions[1], INTO


def test_a_source_that_fails_mid_stream_never_looks_like_a_whole_copy(sessions: tuple[Any, Any]) -> None:
    """After 100,000 good rows the source divides by zero: the source is blamed, the destination keeps nothing."""
    with pytest.raises(SendingFailed) as failed:
        pipe_copy(*_pair(sessions, "select n + 0 / (100001 - n) from generate_series(1, 100001) n"), timeout_seconds=30)
    assert failed.value.error.pgcode == "22012"
    sessions[1].rollback()
    assert threads() == []


def test_a_destination_that_refuses_a_row_is_the_one_to_blame(sessions: tuple[Any, Any]) -> None:
    """A duplicate key ends the COPY at once; the sender ends too, though it had much more to say."""
    with pytest.raises(psycopg2.errors.UniqueViolation):
        pipe_copy(*_pair(sessions, "select 1 from generate_series(1, 5000000)"), timeout_seconds=60)
    assert threads() == []


def test_a_frozen_source_holds_the_destination_only_until_the_time_limit(sessions: tuple[Any, Any]) -> None:
    """A source that sends nothing is given up; a retry may help, and the error names the store."""
    source, destination = sessions
    late = r"^store airline: while sending: not everything was sent within 1 s\.$"
    with pytest.raises(errors.StoreUnreachable, match=late):
        pipe_sessions(
            StoreSession(source, "airline", "sending"),
            copy_out("select pg_sleep(600)::text::bigint"),
            StoreSession(destination, "hub", "receiving"),
            INTO,
            timeout_seconds=1,
        )
    assert threads() == []


@pytest.mark.parametrize(
    ("query", "kind", "said"),
    [
        (
            "select 1 / (2 - n) from generate_series(1, 2) n",
            errors.StoreFailed,
            r"^store airline: while sending: division by zero",
        ),
        ("select -n from generate_series(1, 2) n", errors.StoreFailed, r"^store hub: while receiving: .* violates check"),
    ],
    ids=["source", "destination"],
)
def test_an_error_of_a_pipe_names_the_store_that_it_is_of(
    sessions: tuple[Any, Any], query: str, kind: type[errors.RelayboxError], said: str
) -> None:
    source, destination = sessions
    with destination.cursor() as cursor:
        cursor.execute("alter table numbers add check (n > 0)")
    with pytest.raises(kind, match=said):
        pipe_sessions(
            StoreSession(source, "airline", "sending"),
            copy_out(query),
            StoreSession(destination, "hub", "receiving"),
            INTO,
            timeout_seconds=30,
        )


def test_the_sender_holds_no_process_up(sessions: tuple[Any, Any]) -> None:
    """A source that is frozen never lets it end: a process that is interrupted once more ends all the same."""
    read_end, write_end = os.pipe()
    try:
        assert CopySender(sessions[0], copy_out("select 1"), write_end).daemon
    finally:
        os.close(read_end)
        os.close(write_end)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_session_that_is_killed_mid_stream_ends_the_pipe(world: World, sessions: tuple[Any, Any], side: str) -> None:
    """pg_terminate_backend on either side: an error at once, on that side, and no thread left."""
    store = {"source": "airline", "destination": "hub"}[side]
    endless = "select generate_series(1, 1000000000)"
    with ThreadPoolExecutor(1) as pool:
        pipe = pool.submit(pipe_copy, *_pair(sessions, endless), timeout_seconds=60)
        active = "select count(*) from pg_stat_activity where application_name = %s and query like 'copy%%' and state = 'active'"
        wait_until(lambda: world.value(store, active, f"pipe {side}") == 1, "the copy runs")
        world.query(store, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", f"pipe {side}")
        with pytest.raises((SendingFailed, psycopg2.Error)) as ended:
            pipe.result(patience(30))
    assert isinstance(ended.value, SendingFailed) == (side == "source")
    assert threads() == []


def test_every_wait_of_a_session_has_a_limit(world: World) -> None:
    """Locks, statements, idle transactions, a dead network: nothing is waited for without end."""
    with connect("hub", application_name="limits", statement_timeout_seconds=7) as session, session.cursor() as cursor:
        limits = {}
        for name in (
            "lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout", "client_connection_check_interval", "row_security",
        ):  # fmt: skip
            cursor.execute(f"show {name}")
            limits[name] = cursor.fetchone()[0]
        parameters = session.get_dsn_parameters()
    assert limits == {
        "lock_timeout": "10s",
        "idle_in_transaction_session_timeout": "1min",
        "statement_timeout": "7s",
        "client_connection_check_interval": "5s",
        "row_security": "off",
    }
    assert {name: parameters[name] for name in ("connect_timeout", "keepalives_idle", "tcp_user_timeout")} == {
        "connect_timeout": "10",
        "keepalives_idle": "10",
        "tcp_user_timeout": "30000",
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("40001", errors.StoreBusy),
        ("40P01", errors.StoreBusy),
        ("53100", errors.StoreBusy),
        ("55P03", errors.StoreBusy),
        ("57014", errors.StoreBusy),
        ("57P01", errors.StoreUnreachable),
        ("08006", errors.StoreUnreachable),
        ("42501", errors.StoreUnusable),
        ("22012", errors.StoreFailed),
        ("RB001", errors.StoreUnusable),
        ("RB003", errors.StoreUnusable),
        ("RB004", errors.UnknownHop),
        ("RB005", errors.PlanRefused),
        ("RB006", errors.HopChanged),
        ("RB011", errors.HistoryLost),
        ("RB012", errors.ContentDiffers),
        ("RB013", errors.SliceMissing),
        ("RB014", errors.HistoryLost),
        ("RB015", errors.SliceSuperseded),
        ("RB016", errors.HistoryLost),
        ("RB021", errors.SenderRefused),
        ("RB022", errors.SenderRefused),
        ("RB023", errors.SenderRefused),
    ],
)
def test_each_sqlstate_is_one_of_our_errors(world: World, code: str, kind: type[errors.RelayboxError]) -> None:
    """By code, never by message: a store that speaks another language is understood."""
    with pytest.raises(kind, match="store hub: while testing: a message"), store_errors("hub", "testing"):
        world.query("hub", f"do $$ begin raise exception 'a message' using errcode = '{code}'; end $$")


def test_a_session_that_its_server_has_cut_is_cut_without_an_error(world: World, sessions: tuple[Any, Any]) -> None:
    """Two drivers at once: the newer one ends the sessions of the older one, which cuts them too when it sees one of them fail."""
    source, _ = sessions
    cut_session(source)
    wait_until(
        lambda: world.value("airline", "select count(*) from pg_stat_activity where application_name = 'pipe source'") == 0,
        "the server has closed the session",
    )
    cut_session(source)
