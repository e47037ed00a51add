"""A lock that was not to be had: the error names who holds it, since when, and the statement that ends it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg2
import pytest

from relaybox import errors
from relaybox.stores.opening import open_store
from relaybox.stores.sessions import settings as session_settings
from relaybox.stores.sessions.lock_holders import naming_lock_holders
from tests.support.breaking import transfer_until
from tests.support.cli import invoke
from tests.support.world import World, wait_until

HELD = {
    "airline": "select from relaybox_internal.hop_out where hop = 'flights/1' for update",
    "hub": "select from relaybox_internal.hop_in where hop = 'flights/1' for update",
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_settings, "LOCK_TIMEOUT_SECONDS", 0.5)


@contextmanager
def holder_of(store: str, statement: str, *, name: str = "nightly report") -> Iterator[psycopg2.extensions.connection]:
    """Its locks are gone with the block: a busy server may notice the end of a session later than the next one gives up waiting."""
    with closing(psycopg2.connect(service=store, application_name=name)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        try:
            yield connection
        finally:
            connection.rollback()


@pytest.mark.parametrize("store", HELD)
def test_a_transfer_that_waits_in_vain_names_who_holds_the_hop(world: World, store: str) -> None:
    """At either store; a session that only reads is named last. When the holder has ended, the messages arrive."""
    world.send("a")
    with (
        holder_of(store, "select count(*) from relaybox_internal.hop_in", name="old reader"),
        holder_of(store, HELD[store]) as holder,
        pytest.raises(errors.StoreBusy) as raised,
    ):
        pid = holder.info.backend_pid
        world.transfer()
    told = Exception.__str__(raised.value)
    assert re.search(
        rf"^store {store}: while .*\(55P03\)\. Open transactions with locks on its tables: nightly report \(pid ", told
    )
    assert re.search(r"nightly report \(pid \d+, login \w+, idle in transaction since [\d: -]+ UTC\), .*old reader \(pid ", told)
    assert f"as a login with pg_signal_backend: select pg_terminate_backend({pid})" in raised.value.next_step
    world.transfer()
    assert world.payloads() == ["a"]


def test_a_slice_that_waits_in_vain_names_who_holds_its_segment(world: World) -> None:
    """The session of a slice is another one than the driver's."""
    world.send("a")
    lock = "lock table relaybox_internal.log_1_s000000 in share mode"
    with holder_of("hub", lock) as holder, pytest.raises(errors.StoreBusy) as raised:
        pid = holder.info.backend_pid
        world.transfer()
    told = Exception.__str__(raised.value)
    assert re.search(
        r"^store hub: while copying slice 1 of batch 1 .*\(55P03\)\. Open transactions .*: nightly report \(pid ", told
    )
    assert f"select pg_terminate_backend({pid})" in raised.value.next_step
    world.transfer()
    assert world.payloads() == ["a"]


def test_a_session_that_waits_for_a_strong_lock_is_named_as_well(world: World) -> None:
    """Postgres asks for the rights of `create rule` after it has the lock: any role with USAGE keeps readers out while it waits."""
    world.query("airline", "create role app_sends login password 'secret' in role relaybox_producer")
    insert = "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'a')"
    try:
        with (
            closing(
                psycopg2.connect(service="airline", user="app_sends", password="secret", application_name="writes")
            ) as writes,
            closing(psycopg2.connect(service="airline", user="app_sends", password="secret", application_name="waits")) as waits,
            ThreadPoolExecutor(1) as pool,
        ):
            writes.cursor().execute(insert)
            rule = pool.submit(waits.cursor().execute, "create rule mine as on insert to relaybox.outbox do nothing")
            waiting = "select exists (select from pg_locks l where not l.granted and l.relation = 'relaybox.outbox'::regclass)"
            wait_until(lambda: world.value("airline", waiting), "the rule waits for its lock")
            with pytest.raises(errors.StoreBusy) as raised:
                world.transfer()
            writes.commit()
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                rule.result()
            waits.rollback()
        assert "Open transactions with locks on its tables: waits (pid " in str(raised.value)
        assert ", writes (pid " in str(raised.value)
        world.transfer()
        assert world.payloads() == ["a"]
    finally:
        world.query("airline", "drop role app_sends")


def test_a_command_names_them_too_in_text_and_json(world: World) -> None:
    """A prepared transaction belongs to no session: what ends it is `rollback prepared`."""
    world.query("hub", "create role app_hold")
    with world.session("hub") as session, session.cursor() as cursor:
        cursor.execute("select from relaybox_internal.store for update; prepare transaction 'left behind'")
    try:
        world.send("a")
        world.transfer()
        refused = invoke("topics", "grant", "hub", "flights", "app_hold", "--json")
        assert refused.exit_code == 0, "grants lock no row of the store"
        with holder_of("hub", "lock table relaybox_internal.topic_role in exclusive mode", name="x" * 70):
            refused = invoke("topics", "grant", "hub", "crew", "app_hold", "--json")
        assert refused.exit_code != 0
        error = refused.document["error"]
        assert f"{'x' * 63} (pid " in error["message"]
        assert "prepared transaction 'left behind' (login " in error["message"]
        assert "rollback prepared 'left behind'" in error["next_step"]
    finally:
        with world.session("hub", autocommit=True) as session, session.cursor() as cursor:
            cursor.execute("rollback prepared 'left behind'; ")
            cursor.execute("drop role app_hold")


def test_a_login_that_may_not_see_the_sessions_of_others_still_has_their_pids(world: World) -> None:
    """Without pg_read_all_stats Postgres shows pid and login of another login's session, and nothing else."""
    world.query("hub", "create role app_drives login password 'secret' in role relaybox_driver")
    try:
        with (
            holder_of("hub", HELD["hub"]) as holder,
            closing(open_store(world.routes.store("hub"), application_name="relaybox test")) as session,
        ):
            session.execute("set session authorization app_drives")
            session.commit()
            with pytest.raises(errors.StoreBusy) as raised, naming_lock_holders(session):
                session.execute(HELD["hub"])
            pid = holder.info.backend_pid
            assert f"(pid {pid}, login {holder.info.user}, its start needs pg_read_all_stats)" in str(raised.value)
            assert f"select pg_terminate_backend({pid})" in raised.value.next_step
    finally:
        world.query("hub", "drop role app_drives")


def test_other_errors_and_those_of_other_sessions_are_left_as_they_are(world: World) -> None:
    """The transaction of a session that did not wait is not touched."""
    hub = world.routes.store("hub")
    with (
        holder_of("hub", HELD["hub"]),
        closing(open_store(hub, application_name="relaybox one")) as one,
        closing(open_store(hub, application_name="relaybox two")) as two,
    ):
        one.execute("create temporary table mine on commit drop as select 1 as x")
        with pytest.raises(errors.StoreBusy) as raised, naming_lock_holders(one):
            two.execute(HELD["hub"])
        assert "Open transactions" not in str(raised.value)
        assert one.value("select x from mine") == 1
        with pytest.raises(errors.StoreBusy) as busy, naming_lock_holders(one):
            one.execute("do $$ begin raise sqlstate '40001'; end $$")
        assert "Open transactions" not in str(busy.value)


def test_an_open_transaction_of_a_consumer_that_set_a_message_aside_stops_no_driver(world: World) -> None:
    """Its dead letter locks the rows of hop and stream FOR KEY SHARE: confirming after a kill, a generation and a skip do not wait for it."""
    world.send("a")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    world.send("b")
    transfer_until(world.first_hop, lambda progress: progress.published)
    with holder_of("hub", "select from relaybox.fetch('billing', 1)") as consumer, consumer.cursor() as cursor:
        cursor.execute("select relaybox.nack('billing', 1, 'no')")
        world.transfer()
        assert world.payloads() == ["a", "b"]
        with world.session("hub") as session, session.cursor() as other:
            other.execute("set local lock_timeout = '200ms'")
            other.execute("select relaybox_internal.begin_generation(1, 2)")
            with pytest.raises(psycopg2.Error) as refused:
                other.execute("select relaybox_internal.skip_gap('flights', 'UA', 7, 'why', 'ada')")
            assert refused.value.pgcode == "RB017", "it was not the lock"
            session.rollback()
