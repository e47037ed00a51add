"""A trigger of another role runs in a session whose rights it has not: functions that ask for the session's role refuse it.

Postgres runs the triggers of a table as the table's owner when a foreign key to another role's table cascades; the session stays the other
role's. So a team that owns a table with such a foreign key has code in the sessions of the team that it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest

from tests.support.streams import STORE
from tests.support.world import World

VICTIM, ATTACKER = "team_victim", "team_attacker"

CONSUMER_CALLS = (
    "select count(*) from relaybox.fetch('victims', 5)",
    "select relaybox.ack('victims', 1)",
    "select relaybox.nack('victims', 1, 'no')",
    "select relaybox.release('victims')",
    "select count(*) from relaybox.lag('victims')",
    "select relaybox.replay('victims', 'earliest', 'why')",
    "select relaybox.redrive('victims', 'why')",
    "select relaybox.cancel_replay('victims', 'why')",
    "select relaybox.fetch_one_at_a_time('victims', 'why')",
    "select relaybox.change_delayed('victims', 'pass', 'why')",
    "select relaybox.drop_dead_letter(1, 'why')",
    "select relaybox.unsubscribe('victims')",
    "select relaybox.subscribe('victims', 'flights')",
    "select count(*) from relaybox.read_stream('flights', 0, 5)",
    "select count(*) from relaybox.stream_range('flights')",
    "select count(*) from relaybox.stream_range_with_files('flights')",
    "select count(*) from relaybox.read_detached('flights', 0, 5)",
    "select count(*) from relaybox.detached_files('flights', '/files')",
    "select count(*) from relaybox.read_log('flights/1', 0, 5)",
)
SENDER_CALLS = ("select relaybox.new_epoch('victim')", "select relaybox.declare_sender('victim', 'sparse')")


@contextmanager
def login(store: str, user: str) -> Iterator[Any]:
    with closing(psycopg2.connect(service=store, user=user, password="secret")) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        yield cursor


@contextmanager
def two_teams(world: World, store: str, group: str) -> Iterator[None]:
    """The attacker's table refers to the victim's; deleting there calls what the attacker's table `calls` says."""
    for role in (VICTIM, ATTACKER):
        world.query(store, f"create role {role} login password 'secret' in role {group}")
        world.query(store, f"create schema {role} authorization {role}")
    with login(store, VICTIM) as victim, login(store, ATTACKER) as attacker:
        victim.execute(f"create table {VICTIM}.customer (id integer primary key)")
        victim.execute(
            f"grant usage on schema {VICTIM} to {ATTACKER}; grant references, select on {VICTIM}.customer to {ATTACKER}"
        )
        attacker.execute(f"create table {ATTACKER}.note (id integer references {VICTIM}.customer on delete cascade, call text)")
        attacker.execute(f"create table {ATTACKER}.answer (code text, said text)")
        attacker.execute(f"""
            create function {ATTACKER}.act() returns trigger language plpgsql as $$
            declare found text;
            begin
                execute old.call into found;
                insert into {ATTACKER}.answer values ('00000', found);
                return old;
            exception when others then
                insert into {ATTACKER}.answer values (sqlstate, sqlerrm);
                return old;
            end $$;
            create trigger act before delete on {ATTACKER}.note for each row execute function {ATTACKER}.act()
        """)
    try:
        yield
    finally:
        for role in (ATTACKER, VICTIM):
            world.query(store, f"drop schema {role} cascade; drop owned by {role}; drop role {role}")


def called_in_the_victims_session(store: str, call: str) -> tuple[str, str]:
    """SQLSTATE and message, or 00000 and the answer."""
    with login(store, VICTIM) as victim, login(store, ATTACKER) as attacker:
        victim.execute(f"insert into {VICTIM}.customer values (1)")
        attacker.execute(f"insert into {ATTACKER}.note values (1, %s)", (call,))
        victim.execute(f"delete from {VICTIM}.customer")
        attacker.execute(f"delete from {ATTACKER}.answer returning code, said")
        ((code, said),) = attacker.fetchall()
        return code, said


@pytest.mark.parametrize("switch", ["bind_subscriptions", "bind_topics", "require_approvals"])
def test_a_foreign_key_lends_no_rights_of_a_consumer(world: World, switch: str) -> None:
    """Nothing is read, acknowledged, ended or given again with the rights of who only deletes a row of its own."""
    world.send(*"abcdef")
    world.transfer()
    with two_teams(world, STORE, "relaybox_consumer"):
        world.query(STORE, "select relaybox.subscribe('victims', 'flights')")
        world.query(STORE, f"select relaybox_internal.bind_subscription('victims', '{VICTIM}')")
        world.query(STORE, f"select relaybox_internal.grant_topic('flights', '{VICTIM}')")
        world.query(STORE, f"select relaybox_internal.{switch}(true)")
        state = "select done_stream_position, fetched_stream_position from relaybox_internal.lane_cursors"
        before = world.query(STORE, state)
        answers = {call: called_in_the_victims_session(STORE, call) for call in CONSUMER_CALLS}
        reading = {
            call for call in CONSUMER_CALLS if re.search("read_|stream_range|detached_files", call) and switch != "bind_topics"
        }
        assert {call for call, (code, _) in answers.items() if code != "42501"} == reading
        assert all("is not for triggers" in said for code, said in answers.values() if code == "42501")
        assert world.query(STORE, state) == before
        with login(STORE, VICTIM) as victim:
            victim.execute("select stream_position from relaybox.fetch('victims', 6)")
            assert len(victim.fetchall()) == 6


def test_a_store_that_asks_for_no_role_allows_calls_in_triggers(world: World) -> None:
    world.send(*"abcdef")
    world.transfer()
    with two_teams(world, STORE, "relaybox_consumer"):
        world.query(STORE, "select relaybox.subscribe('victims', 'flights')")
        assert called_in_the_victims_session(STORE, CONSUMER_CALLS[0]) == ("00000", "5")


def test_a_foreign_key_begins_no_epoch_of_another_sender(world: World) -> None:
    """A producer's own trigger still numbers messages: next_index and sender_epoch are for triggers."""
    with two_teams(world, "airline", "relaybox_producer"):
        world.query("airline", f"select relaybox_internal.bind_sender('victim', '{VICTIM}')")
        world.query("airline", "select relaybox_internal.bind_senders(true)")
        with login("airline", VICTIM) as victim:
            victim.execute("select relaybox.declare_sender('victim', 'gapless')")
            victim.execute(f"""
                create function {VICTIM}.send() returns trigger language plpgsql as $$ begin
                    insert into relaybox.outbox (topic, sender, epoch, index, payload)
                    values ('flights', 'victim', relaybox.sender_epoch('victim'), relaybox.next_index('victim'), new.id::text);
                    return new;
                end $$;
                create table {VICTIM}.business (id integer);
                create trigger send after insert on {VICTIM}.business for each row execute function {VICTIM}.send();
                insert into {VICTIM}.business values (7)
            """)
        assert world.sent() == ["7"]
        for call in SENDER_CALLS:
            code, said = called_in_the_victims_session("airline", call)
            assert (code, "is not for triggers" in said) == ("42501", True)
        assert world.value("airline", "select max(epoch) from relaybox_internal.sender where sender = 'victim'") == 1
        world.query("airline", "select relaybox_internal.bind_senders(false)")
        assert called_in_the_victims_session("airline", SENDER_CALLS[0])[0] == "00000"
