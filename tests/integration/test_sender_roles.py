"""Senders that are bound to database roles: nobody sends as another, and a store that does not ask pays nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import psycopg2
import pytest
import yaml

from relaybox.outbox import Draft, put_once
from relaybox.stores.init.one_store import initialise_store
from tests.support.world import World

pytestmark = pytest.mark.thorough

INSERT = "insert into relaybox.outbox (topic, sender, payload) values ('flights', %s, %s) returning message_id"
AS_BA, AS_UA = (
    f"insert into relaybox.outbox (topic, sender, payload) values ('flights', '{sender}', 'x')" for sender in ("BA", "UA")
)


def bind_senders(world: World, asked: bool) -> str:
    """Writes it into relaybox.yaml and runs init; what init says about it."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["airline"] = {"bind_senders": asked}
    world.path.write_text(yaml.safe_dump(document))
    return initialise_store(world.routes.stores["airline"], world.routes).sender_binding


@pytest.fixture
def roles(world: World) -> Iterator[World]:
    """The store asks; login `app_ua` is bound to sender UA, group `team_ba` to BA with member `app_ba`; `app_free` to nothing."""
    logins = ("app_ua", "app_ba", "app_free")
    for role in logins:
        world.query("airline", f"create role {role} login password 'secret' in role relaybox_producer")
    world.query("airline", "create role team_ba; grant team_ba to app_ba")
    assert bind_senders(world, asked=True) == "switched on"
    world.query("airline", "select relaybox_internal.bind_sender('UA', 'app_ua'), relaybox_internal.bind_sender('BA', 'team_ba')")
    yield world
    for role in (*logins, "team_ba"):
        world.query("airline", f"drop owned by {role}; drop role {role}")


@contextmanager
def login(world: World, role: str) -> Iterator[Any]:
    """A session of an application under its own name."""
    connection = psycopg2.connect(service="airline", user=role, password="secret")
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def test_a_role_records_puts_of_its_own_senders_only(roles: World) -> None:
    """Or it could keep another's messages from being sent, under a key that it guesses."""
    with login(roles, "app_ua") as cursor:
        for is_first in (True, False):
            cursor.execute("begin")
            assert put_once(cursor, "UA", "k", [Draft("flights", "a")]) is is_first
            cursor.execute("commit")
        cursor.execute("begin")
        with pytest.raises(psycopg2.Error) as refused:
            put_once(cursor, "BA", "k", [Draft("flights", "a")])
        cursor.execute("rollback")
    assert refused.value.pgcode == "RB023"
    assert roles.value("airline", "select count(*) from relaybox.outbox") == 1


def test_a_role_sends_as_its_senders_and_movers_see_everything(roles: World) -> None:
    """Bound itself, or through a group that it inherits; `returning message_id` works as ever."""
    with login(roles, "app_ua") as cursor:
        cursor.execute(INSERT, ("UA", "one"))
        assert cursor.fetchone()
    with login(roles, "app_ba") as cursor:
        cursor.execute(INSERT, ("BA", "two"))
    roles.transfer_all()
    assert roles.payloads("flights/2") == ["one", "two"]


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("app_ba", AS_UA),
        ("app_free", AS_UA),
        ("app_free", AS_UA.replace("UA", "unbound")),
        ("app_ba", f"set role relaybox_producer; {AS_BA}"),
        ("app_ba", f"set role relaybox_producer; {AS_UA}"),
        ("app_ba", "set role app_ua"),
        ("app_ba", "set session authorization app_ua"),
        ("app_ba", f"set row_security = off; {AS_UA}"),
        ("app_ba", f"{AS_UA} on conflict do nothing"),
        ("app_ba", f"{AS_BA} on conflict (seq) do update set sender = 'UA'"),
        ("app_ba", f"{AS_BA}, ('flights', 'UA', 'among mine')"),
        ("app_ba", AS_UA.replace("relaybox.outbox", "relaybox_internal.outbox_s000000")),
        ("app_ba", "alter table relaybox.outbox disable row level security"),
        ("app_ba", "drop policy role_is_bound_to_sender on relaybox.outbox"),
        ("app_ba", "insert into relaybox.sender_role (sender, role_name) values ('UA', 'app_ba')"),
    ],
)
def test_nobody_sends_as_another(roles: World, role: str, statement: str) -> None:
    with login(roles, role) as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
        cursor.execute(statement)
    assert roles.sent() == []


def test_a_copy_into_the_outbox_is_refused_where_senders_are_bound(roles: World) -> None:
    """Postgres has no policies for COPY, and refuses it instead of passing them over."""
    with login(roles, "app_ba") as cursor, pytest.raises(psycopg2.errors.FeatureNotSupported, match="row-level security"):
        cursor.copy_expert("copy relaybox.outbox (topic, sender, payload) from stdin", StringIO("flights\tUA\tspoofed\n"))
    assert roles.sent() == []


@pytest.mark.parametrize(
    "call", ["declare_sender('UA', 'gapless')", "new_epoch('UA')", "next_index('UA')", "next_indexes('UA', 5)"]
)
def test_nobody_uses_up_the_numbers_of_another(roles: World, call: str) -> None:
    """An index that another role takes would be a gap for ever, and an epoch would fence its sender."""
    with login(roles, "app_ua") as cursor:
        cursor.execute("select relaybox.declare_sender('UA', 'gapless'), relaybox.new_epoch('UA'), relaybox.next_index('UA')")
        cursor.execute("set role relaybox_producer")
        with pytest.raises(psycopg2.Error, match="role relaybox_producer may not speak for sender UA"):
            cursor.execute(f"select relaybox.{call}")
    with login(roles, "app_ba") as cursor, pytest.raises(psycopg2.Error, match="role app_ba may not speak") as error:
        cursor.execute(f"select relaybox.{call}")
    assert error.value.pgcode == "RB023"
    assert "relaybox senders bind STORE UA app_ba" in str(error.value.diag.message_hint)
    assert roles.value("airline", "select relaybox.next_index('UA')") == 2, "the owner may"


def test_what_is_taken_back_holds_from_the_next_insert(roles: World) -> None:
    with login(roles, "app_ua") as cursor:
        cursor.execute(INSERT, ("UA", "before"))
        assert roles.value("airline", "select relaybox_internal.unbind_sender('UA', 'app_ua')")
        assert not roles.value("airline", "select relaybox_internal.unbind_sender('UA', 'app_ua')")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            cursor.execute(INSERT, ("UA", "after"))


def test_a_role_that_was_dropped_leaves_its_sender_to_the_others(roles: World) -> None:
    """A binding to nobody breaks nothing."""
    roles.query("airline", "create role leaving; select relaybox_internal.bind_sender('UA', 'leaving')")
    roles.query("airline", "drop role leaving")
    with login(roles, "app_ua") as cursor:
        cursor.execute(INSERT, ("UA", "still here"))
    assert roles.sent() == ["still here"]


def test_binding_to_no_role_is_refused(world: World) -> None:
    with pytest.raises(psycopg2.errors.UndefinedObject, match="there is no role nobody_here in this cluster"):
        world.query("airline", "select relaybox_internal.bind_sender('UA', 'nobody_here')")


def test_upgrades_keep_the_binding_and_segments_are_under_it(roles: World) -> None:
    """Functions are made anew below it, and a new segment of the outbox is no way round."""
    roles.query("airline", "update relaybox_internal.store set segment_rows = 10")
    roles.query("airline", "update relaybox_internal.installed_object set digest = 'older'")
    assert bind_senders(roles, asked=True) == "unchanged"
    roles.query("airline", "select setval('relaybox.outbox_seq', 50000)")
    roles.query("airline", "select relaybox_internal.ensure_outbox_segments()")
    with login(roles, "app_ba") as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
        cursor.execute(INSERT, ("UA", "spoofed"))


def test_a_store_that_does_not_ask_has_no_policy(world: World) -> None:
    """Neither before it asked nor after it stopped asking: its inserts have nothing to check."""
    state = (
        "select o.relrowsecurity, (select count(*) from pg_policy p where p.polrelid = o.oid), "
        "(select count(*) from pg_trigger t where t.tgrelid = o.oid) "
        "from pg_class o where o.oid = 'relaybox.outbox'::regclass"
    )
    assert world.query("airline", state) == [(False, 0, 0)]
    assert [bind_senders(world, asked=True), bind_senders(world, asked=True)] == ["switched on", "unchanged"]
    assert world.query("airline", state) == [(True, 2, 0)]
    assert [bind_senders(world, asked=False), bind_senders(world, asked=False)] == ["switched off", "unchanged"]
    assert world.query("airline", state) == [(False, 0, 0)]
