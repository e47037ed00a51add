"""What a server, a database or a role has set changes nothing of what our sessions do."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from relaybox import errors
from relaybox.consumer import Consumer, Message
from relaybox.stores.sessions.answer_limits import LimitedCursor
from relaybox.stores.sessions.connections import connect, open_session
from relaybox.stores.sessions.settings import PLANNER_SETTINGS, duration
from tests.support.cli import diagnose, invoke
from tests.support.world import STORES, World, routes_file, wait_until

pytestmark = pytest.mark.thorough

ISOLATIONS = ("repeatable read", "serializable")


def set_for_database(world: World, name: str, value: str) -> None:
    for store in STORES:
        with world.session(store, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"alter database {connection.info.dbname} set {name} = %s", (value,))


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_hop_moves_whatever_the_default_isolation(world: World, isolation: str) -> None:
    """Planning needs READ COMMITTED, and takes it."""
    set_for_database(world, "default_transaction_isolation", isolation)
    world.send("a", "b")
    world.transfer_all()
    world.settle_all()
    assert world.payloads("flights/2") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("default_transaction_read_only", "on"), ("default_transaction_deferrable", "on"), ("exit_on_error", "on")],
)
def test_a_hop_moves_whatever_else_is_the_default_of_transactions(world: World, name: str, value: str) -> None:
    world.send("a", "b")
    set_for_database(world, name, value)
    world.transfer_all()
    world.settle_all()
    assert world.payloads("flights/2") == ["a", "b"]


def test_backslashes_in_our_functions_mean_what_they_mean(world: World) -> None:
    """standard_conforming_strings stays as a session begins, since psycopg2 quotes by it: our literals must not depend on it."""
    set_for_database(world, "standard_conforming_strings", "off")
    run = invoke("init", "--dry-run")
    assert (run.exit_code, run.stdout.count("up to date")) == (0, len(STORES)), run.stdout + run.stderr
    world.initialise()
    assert [severity for severity, _, _ in diagnose("hub", "tables")] == ["ok"]


def test_a_store_is_initialised_whatever_is_set(world: World) -> None:
    """`relaybox init` writes where sessions are read only by default."""
    set_for_database(world, "default_transaction_read_only", "on")
    routes_file(world.path.parent, route={"topics": ["flights", "weather"]})
    world.initialise()
    assert world.value("airline", "select topics from relaybox_internal.hop_out where hop = 'flights/1'") == [
        "flights",
        "weather",
    ]


def test_our_sessions_stand_above_database_role_and_what_is_set_later(world: World) -> None:
    """A reload of the server's configuration does not reach into a session that runs."""
    set_for_database(world, "idle_session_timeout", "10s")
    set_for_database(world, "search_path", "nowhere")
    with closing(connect("airline", application_name="test")) as connection, connection.cursor() as cursor:
        world.query("airline", "alter system set default_transaction_isolation = 'serializable'")
        try:
            world.query("airline", "select pg_reload_conf()")
            changed = "show default_transaction_isolation"
            wait_until(lambda: world.value("airline", changed) == "serializable", "the server has reloaded")
            cursor.execute("select current_setting('transaction_isolation'), current_setting('idle_session_timeout')")
            assert cursor.fetchone() == ("read committed", "0")
            cursor.execute("show search_path")
            assert cursor.fetchone() == ("pg_catalog",)
        finally:
            world.query("airline", "alter system reset default_transaction_isolation")
            world.query("airline", "select pg_reload_conf()")


def test_what_a_database_takes_from_the_planner_is_given_back(world: World) -> None:
    """Plans are tested with all kinds of nodes: without hash joins a verification did not end."""
    for name, value in PLANNER_SETTINGS.items():
        if value in {"on", "off"}:
            set_for_database(world, name, "off" if value == "on" else "on")
    with closing(connect("airline", application_name="test")) as connection, connection.cursor() as cursor:
        for name, value in PLANNER_SETTINGS.items():
            cursor.execute("select current_setting(%s)", (name,))
            assert cursor.fetchone() == (value,), name
    assert world.value("airline", "show enable_hashjoin") == "off"
    world.send("a", "b")
    world.transfer_all()
    assert world.payloads("flights/2") == ["a", "b"]


BACKSLASHES = ("a\\b", "it's \\' and \\\\ ", "\\", "\\'); drop table relaybox.outbox; --", "plain")


@pytest.mark.parametrize("value", ["off", "on"])
def test_a_backslash_arrives_as_it_was_written(world: World, value: str) -> None:
    """psycopg2 quotes by what standard_conforming_strings was at login; a reload changes neither a session nor what it reads."""
    set_for_database(world, "standard_conforming_strings", value)
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    with closing(connect("hub", application_name="test")) as connection, connection.cursor() as cursor:
        world.query("hub", f"alter system set standard_conforming_strings = {'on' if value == 'off' else 'off'}")
        try:
            world.query("hub", "select pg_reload_conf()")
            for text in BACKSLASHES:
                cursor.execute("select %s, %s::text[]", (text, [text]))
                assert cursor.fetchone() == (text, [text])
        finally:
            world.query("hub", "alter system reset standard_conforming_strings")
            world.query("hub", "select pg_reload_conf()")
    world.send(*BACKSLASHES)
    world.transfer()

    def refuse(_: object, message: Message) -> None:
        raise ValueError(message.payload)

    with Consumer("hub", "billing", until_empty=True, max_count=1) as consumer:
        consumer.run(refuse)
    details = world.query("hub", "select payload, detail from relaybox.dead_letters order by stream_position")
    assert [payload for payload, _ in details] == list(BACKSLASHES)
    assert [detail for _, detail in details] == [f"ValueError: {payload}".strip() for payload in BACKSLASHES]


def test_a_setting_that_does_not_take_is_named(world: World) -> None:
    """Nothing is passed over: a name that the server does not know, or a value that it refuses."""
    for settings in ({"no_such_setting": "on"}, {"search_path": "pg_catalog", "lock_timeout": "soon"}):
        with pytest.raises(errors.StoreFailed, match=f"store airline: while pinning the settings.*{list(settings)[-1]}"):
            open_session("airline", application_name="test", settings=settings, statement_timeout_seconds=1)


def test_options_of_the_service_file_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not replaced by ours; where both name a setting, ours holds."""
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=1MB -c timezone=Asia/Tokyo -c default_transaction_isolation=serializable")
    with closing(connect("airline", application_name="test")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select current_setting('work_mem'), current_setting('timezone'), current_setting('transaction_isolation')"
        )
        assert cursor.fetchone() == ("1MB", "UTC", "read committed")


def test_a_session_that_could_not_be_pinned_is_closed(world: World) -> None:
    with pytest.raises(errors.StoreFailed):
        open_session("airline", application_name="half open", settings={"no_such_setting": "on"}, statement_timeout_seconds=1)
    with closing(psycopg2.connect(service="airline")) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from pg_stat_activity where application_name = 'half open' and state <> 'idle'")
        assert cursor.fetchone() == (0,)


def test_a_setting_that_reads_back_otherwise_is_refused(world: World) -> None:
    """The server rounds this one: what the session has is not what it asked for."""
    with pytest.raises(
        errors.StoreUnusable, match=r"store airline: the session set work_mem to '65537B', and reads back '64kB'\."
    ) as refused:
        open_session("airline", application_name="test", settings={"work_mem": "65537B"}, statement_timeout_seconds=1)
    assert "pooler" in refused.value.next_step


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0"), (0.25, "250ms"), (1, "1s"), (90, "90s"), (120, "2min"), (5400, "90min"), (7200, "2h")]
)
def test_a_duration_is_written_as_the_server_shows_it(world: World, seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
    session = connect("airline", application_name="test", statement_timeout_seconds=seconds)
    with closing(session), session.cursor() as cursor:
        cursor.execute("show statement_timeout")
        assert cursor.fetchone() == (shown,)


def test_the_settings_take_one_round_trip(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting and reading back are one message to the server."""
    sent = []
    execute = LimitedCursor.execute

    def count(self: LimitedCursor, *arguments: object) -> None:
        sent.append(arguments[0])
        execute(self, *arguments)

    monkeypatch.setattr(LimitedCursor, "execute", count)
    connect("airline", application_name="test").close()
    assert len(sent) == 1
