"""Topics that are granted to database roles: no role reads a message of another topic, and no message is skipped for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from relaybox import errors
from relaybox.consumer import Consumer
from tests.support.services import break_service, read_service
from tests.support.streams import STORE, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

ODD = "Röle 'x\"; drop"
LOGINS = ("app_flights", "app_crew", "app_all", "app_none", "app_member", ODD)

OF_MESSAGES = {
    "inbox": "select topic from relaybox.inbox",
    "dead_letters": "select topic from relaybox.dead_letters",
    "fetch of the topic": "select topic from relaybox.fetch('flights_only', 100)",
    "fetch of the stream": "select topic from relaybox.fetch('whole', 100)",
    "read_stream": "select topic from relaybox.read_stream('flights', 0, 100)",
    "read_log": "select topic from relaybox.read_log('flights/1', 0, 100)",
}
"""Every way by which a consumer gets messages."""

AGAIN = (
    "select relaybox.redrive('{0}', 'why')",
    "select relaybox.replay('{0}', 'earliest', 'why')",
    "select relaybox.replay('{0}', 'earliest', 'why', second_cursor => true)",
    "select relaybox.replay('{0}', 'earliest', 'why', dry_run => true)",
)


def bind_topics(world: World, *, asked: bool) -> bool:
    return bool(world.value(STORE, "select relaybox_internal.bind_topics(%s)", asked))


def grant(world: World, role: str, *topics: str) -> None:
    for topic in topics:
        assert world.value(STORE, "select relaybox_internal.grant_topic(%s, %s)", topic, role)


def revoke(world: World, role: str, *topics: str) -> None:
    for topic in topics:
        assert world.value(STORE, "select relaybox_internal.revoke_topic(%s, %s)", topic, role)


@contextmanager
def login(role: str, *, autocommit: bool = True) -> Iterator[Any]:
    """A session of a consumer under its own name, each statement a transaction."""
    connection = psycopg2.connect(service=STORE, user=role, password="secret")
    connection.autocommit = autocommit
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def ask(cursor: Any, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    cursor.execute(statement, arguments or None)
    return list(cursor.fetchall())


def refusal(cursor: Any, statement: str, *arguments: object) -> tuple[str, str, str]:
    """Code, message and hint."""
    with pytest.raises(psycopg2.Error) as raised:
        cursor.execute(statement, arguments or None)
    diag = raised.value.diag
    return str(raised.value.pgcode), str(diag.message_primary), str(diag.message_hint)


def refused(role: str, topics: str, granted: str, where: str = "") -> tuple[str, str, str]:
    return (
        "RB041",
        f"role {role} may not read {topics}{where}",
        f"This store grants topics to roles. An administrator runs: relaybox topics grant {STORE} {granted} {role}",
    )


@pytest.fixture
def roles(world: World) -> Iterator[World]:
    """The stream `flights` has the topics `flights` (stream positions 1 to 6) and `crew` (7 to 12), each with a dead letter.

    app_flights is granted `flights`, team_crew with member app_crew `crew`, app_all each topic, app_none nothing. app_member is a
    member of team_crew that inherits nothing. `flights_only` reads the topic from another stream name, `whole` the stream.
    """
    world.query(STORE, "select relaybox_internal.register_topics('flights', '{flights,crew}')")
    deliver(world, 6)
    deliver(world, 6, topic="crew")
    world.query(STORE, "update relaybox_internal.hop_in set published_position = 12")
    for role in LOGINS:
        world.query(
            STORE,
            sql.SQL(
                "create role {0} login noinherit password 'secret'; grant usage on schema relaybox to {0}; "
                "grant execute on all functions in schema relaybox to {0}; grant select on all tables in schema relaybox to {0}"
            ).format(sql.Identifier(role)),
        )
        if role != "app_member":  # what a membership gives is decided when it is granted
            world.query(STORE, sql.SQL("alter role {0} inherit; grant relaybox_consumer to {0}").format(sql.Identifier(role)))
    world.query(STORE, "create role team_crew in role relaybox_consumer; grant team_crew to app_crew, app_member")
    for subscription, source in (("crew_only", "crew"), ("whole", "flights")):
        world.query(STORE, "select relaybox.subscribe(%s, %s, nack_limit => 1)", subscription, source)
    # a stream hides a topic of its own name
    world.query(
        STORE,
        "select relaybox.subscribe('flights_only', 'flights', nack_limit => 1); "
        "update relaybox_internal.subscription set topic = 'flights' where subscription = 'flights_only'",
    )
    for subscription, position in (("crew_only", 7), ("flights_only", 1)):
        world.query(
            STORE,
            f"select * from relaybox.fetch('{subscription}', 1); select relaybox.nack('{subscription}', {position}, 'no')",
        )
    assert bind_topics(world, asked=True)
    grant(world, "app_flights", "flights")
    grant(world, "team_crew", "crew")
    grant(world, "app_all", "*")
    yield world
    for role in (*LOGINS, "team_crew"):
        world.query(STORE, sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role)))


def test_a_role_reads_the_topics_that_it_was_granted(roles: World) -> None:
    """Itself, or through a group that it inherits: in the views, and from a subscription to its end."""
    for role, topic, subscription, first in (("app_flights", "flights", "flights_only", 1), ("app_crew", "crew", "crew_only", 7)):
        with login(role) as cursor:
            assert ask(cursor, "select log_position, topic from relaybox.inbox order by 1") == [
                (n, topic) for n in range(first, first + 6)
            ]
            assert ask(cursor, "select topic, payload from relaybox.dead_letters") == [(topic, f"m{first}")]
            rows = ask(cursor, "select stream_position, token, topic from relaybox.fetch(%s, 3)", subscription)
            assert [(position, read) for position, _, read in rows] == [(n, topic) for n in range(first + 1, first + 4)]
            cursor.execute("select relaybox.ack(%s, %s, %s)", (subscription, *rows[-1][:2]))
            assert ask(cursor, "select relaybox.redrive(%s, 'repaired')", subscription) == [(1,)]
            assert ask(cursor, "select stream_position from relaybox.fetch(%s, 3)", subscription) == [(first,)]
            ((copy,),) = ask(
                cursor, "select replayed_as from relaybox.replay(%s, '1', 'why', second_cursor => true)", subscription
            )
            assert {read for (read,) in ask(cursor, "select topic from relaybox.fetch(%s)", copy)} == {topic}
            cursor.execute("select relaybox.unsubscribe(%s, 'over')", (subscription,))


def test_a_role_with_every_topic_reads_whole_streams(roles: World) -> None:
    """Granted as *, or each topic of the stream by its name."""
    grant(roles, "app_none", "flights", "crew")
    for role in ("app_all", "app_none"):
        with login(role) as cursor:
            for name, read in OF_MESSAGES.items():
                found = [topic for (topic,) in ask(cursor, read)]
                assert set(found) == ({"flights"} if name == "fetch of the topic" else {"flights", "crew"}), (role, name)
            cursor.execute("select relaybox.subscribe('mine', 'flights'); select relaybox.unsubscribe('mine')")
            roles.query(STORE, "update relaybox_internal.cursor set worker = null, leased_until = null")


@pytest.mark.parametrize("name", OF_MESSAGES)
def test_no_role_gets_a_message_of_a_topic_that_it_was_not_granted(roles: World, name: str) -> None:
    """In a view there is none of it, not even for a condition that fails; elsewhere all is refused, and nothing moves."""
    read = OF_MESSAGES[name]
    state = "select c::text from relaybox_internal.cursor c union all select f::text from relaybox_internal.failed_attempt f"
    before = sorted(roles.query(STORE, state))
    for role, granted, missing in (
        ("app_flights", {"flights"}, "crew"), ("app_crew", {"crew"}, "flights"), ("app_none", set(), "crew flights"),
        ("app_member", set(), "crew flights"),
    ):  # fmt: skip
        with login(role) as cursor:
            if name in ("inbox", "dead_letters"):
                assert {topic for (topic,) in ask(cursor, read)} == granted, role
                assert (
                    ask(cursor, f"{read} where topic not in ('', %s) and payload::int4range is not null", *granted or {""}) == []
                )
            elif name == "fetch of the topic":
                if not granted >= {"flights"}:
                    assert refusal(cursor, read) == refused(role, "topic flights", "flights", " of stream flights")
            elif name == "read_log":
                assert refusal(cursor, read)[0] == "RB041"
            else:
                topics = f"topic{'s' if ' ' in missing else ''} {missing.replace(' ', ', ')}"
                assert refusal(cursor, read) == refused(role, topics, missing, " of stream flights")
    if name != "fetch of the topic":
        assert sorted(roles.query(STORE, state)) == before


@pytest.mark.parametrize("call", AGAIN)
def test_no_role_has_messages_given_again_that_it_may_not_read(roles: World, call: str) -> None:
    with login("app_flights") as cursor:
        for subscription in ("crew_only", "whole"):
            assert refusal(cursor, call.format(subscription)) == refused(
                "app_flights", "topic crew", "crew", " of stream flights"
            )
        assert ask(cursor, call.format("flights_only"))


def test_no_role_subscribes_to_what_it_may_not_read(roles: World) -> None:
    """A topic, a whole stream, and a topic that nothing carries yet: that one is not asked for either, and no notice says so."""
    roles.query(STORE, "update relaybox_internal.stream set topics_by_subscription = true")
    with login("app_flights") as cursor:
        assert refusal(cursor, "select relaybox.subscribe('mine', 'crew')") == refused("app_flights", "topic crew", "crew")
        assert refusal(cursor, "select relaybox.subscribe('mine', 'flights')") == refused(
            "app_flights", "topic crew", "crew", " of stream flights"
        )
        assert refusal(cursor, "select relaybox.subscribe('mine', 'new')") == refused("app_flights", "topic new", "new")
        assert cursor.connection.notices == []
        assert refusal(cursor, "select relaybox.subscribe('mine', 'no such!')")[0] == "RB032"
        assert refusal(cursor, "select relaybox.subscribe('mine', null)")[0] == "RB032"
    assert roles.query(STORE, "select topic from relaybox_internal.topic_request") == []
    assert roles.query(STORE, "select from relaybox_internal.subscription where subscription = 'mine'") == []


def test_a_topic_is_granted_before_it_exists(roles: World) -> None:
    roles.query(STORE, "update relaybox_internal.stream set topics_by_subscription = true")
    grant(roles, "app_flights", "gate-2_b.new")
    with login("app_flights") as cursor:
        cursor.execute("select relaybox.subscribe('mine', 'gate-2_b.new')")
        assert ask(cursor, "select topic from relaybox.fetch('mine')") == []
        deliver(roles, 2, topic="gate-2_b.new")
        assert ask(cursor, "select topic from relaybox.fetch('mine')") == [("gate-2_b.new",)] * 2
    with login("app_crew") as cursor:
        assert refusal(cursor, "select * from relaybox.fetch('mine')")[0] == "RB041"


def test_a_revoked_topic_ends_at_the_next_fetch_and_nothing_is_acknowledged(roles: World) -> None:
    """What was fetched before may be acknowledged or given back; a fetch that would acknowledge acknowledges nothing."""
    with login("app_flights") as cursor:
        rows = ask(cursor, "select stream_position, token from relaybox.fetch('flights_only', 2, worker => 'w')")
        revoke(roles, "app_flights", "flights")
        done = "select done_stream_position from relaybox.lag('flights_only')"
        before = ask(cursor, done)
        position, token = rows[-1]
        for again in (
            f"fetch('flights_only', 2, {position}, '{token}', worker => 'w')", "fetch('flights_only', 2, worker => 'w')",
        ):  # fmt: skip
            assert refusal(cursor, f"select * from relaybox.{again}") == refused(
                "app_flights", "topic flights", "flights", " of stream flights"
            )
            assert ask(cursor, done) == before
        cursor.execute("select relaybox.ack('flights_only', %s, %s)", (position, token))
        assert ask(cursor, done) == [(position,)]
        assert ask(cursor, "select topic from relaybox.inbox") == []
        grant(roles, "app_flights", "flights")
        (following,) = ask(cursor, "select stream_position from relaybox.fetch('flights_only', 1)")
        assert following == (position + 1,)


def test_a_topic_that_is_revoked_in_the_middle_of_a_replay_stops_it(roles: World) -> None:
    """It goes on where it was when the topic is granted again, for the second cursor and for the subscription itself."""
    with login("app_flights") as cursor:
        ((copy,),) = ask(cursor, "select replayed_as from relaybox.replay('flights_only', '1', 'why', second_cursor => true)")
        position, token = ask(cursor, "select stream_position, token from relaybox.fetch(%s, 2)", copy)[-1]
        cursor.execute("select relaybox.ack(%s, %s, %s)", (copy, position, token))
        revoke(roles, "app_flights", "flights")
        for name in (copy, "flights_only"):
            assert refusal(cursor, "select * from relaybox.fetch(%s)", name)[0] == "RB041"
        grant(roles, "app_flights", "flights")
        assert ask(cursor, "select stream_position from relaybox.fetch(%s, 1)", copy) == [(position + 1,)]


def test_a_topic_that_is_revoked_while_dead_letters_are_given_again_stops_them(roles: World) -> None:
    with login("app_crew") as cursor:
        assert ask(cursor, "select relaybox.redrive('crew_only', 'repaired')") == [(1,)]
        revoke(roles, "team_crew", "crew")
        assert refusal(cursor, "select * from relaybox.fetch('crew_only')")[0] == "RB041"
        grant(roles, "team_crew", "crew")
        assert ask(cursor, "select stream_position from relaybox.fetch('crew_only')") == [(7,)]


@pytest.mark.parametrize("backwards", [False, True])
def test_a_message_of_a_topic_that_the_store_was_not_told_of_is_refused(roles: World, *, backwards: bool) -> None:
    """A store of origin with a newer relaybox.yaml sends it before this store has it: the reads of whole streams look at messages."""
    grant(roles, "app_flights", "crew")
    deliver(roles, 2, topic="secret", backwards=backwards)
    roles.query(STORE, "update relaybox_internal.hop_in set published_position = 14")
    with login("app_flights") as cursor:
        token = ask(cursor, "select token from relaybox.fetch('whole', 12)")[-1][0]
        cursor.execute("select relaybox.ack('whole', 12, %s)", (token,))
        at = "topic secret, which the message at stream position 13 of stream flights has"
        assert refusal(cursor, "select * from relaybox.fetch('whole')") == refused("app_flights", at, "secret")
        assert len(ask(cursor, "select * from relaybox.read_stream('flights', 0, 12)")) == 12
        assert refusal(cursor, "select * from relaybox.read_stream('flights', 0, 13)") == refused("app_flights", at, "secret")
        assert len(ask(cursor, "select * from relaybox.read_log('flights/1', 0, 12)")) == 12
        at = "topic secret, which the message at position 13 of hop flights/1 has"
        assert refusal(cursor, "select * from relaybox.read_log('flights/1', 6, 100)") == refused("app_flights", at, "secret")
        assert "secret" not in {topic for (topic,) in ask(cursor, "select topic from relaybox.inbox")}
        assert ask(cursor, "select done_stream_position, worker from relaybox.lag('whole')") == [(12, None)]


def test_the_role_that_is_set_counts(roles: World) -> None:
    """Also in a function with the rights of its owner, which may read every topic: it lends no right."""
    roles.query(
        STORE,
        "create schema lent; grant usage on schema lent to public; create function lent.inbox() returns setof text language sql "
        "security definer as 'select topic from relaybox.fetch(''crew_only'')'; alter function lent.inbox() owner to app_all",
    )
    try:
        with login("app_member") as cursor:
            assert ask(cursor, OF_MESSAGES["inbox"]) == []
            cursor.execute("set role team_crew")
            assert {topic for (topic,) in ask(cursor, OF_MESSAGES["inbox"])} == {"crew"}
            assert ask(cursor, "select topic from relaybox.fetch('crew_only', 1)") == [("crew",)]
            cursor.execute("reset role")
            assert refusal(cursor, OF_MESSAGES["fetch of the stream"])[0] == "RB041"
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute("set role app_all")
            assert refusal(cursor, "select * from lent.inbox()")[0] == "RB041"
    finally:
        roles.query(STORE, "drop schema lent cascade")


def test_no_view_lends_the_rights_of_who_analyses_a_table(roles: World) -> None:
    """Below ANALYZE, autovacuum's too, Postgres runs an expression of an index as the owner of the table, in the session of another."""
    roles.query(
        STORE,
        """
        create schema evil authorization app_flights;
        create function evil.look(n integer) returns integer language plpgsql immutable as $$
        declare
            seen text := (select string_agg(distinct topic, ' ') from relaybox.inbox);
        begin
            if n > 0 then raise exception 'seen: %%', seen; end if;
            return n;
        end $$;
        create table evil.bait (n integer);
        insert into evil.bait values (1);
        alter table evil.bait owner to app_flights;
        alter function evil.look(integer) owner to app_flights;
        """,
    )
    try:
        with roles.session(STORE) as session, session.cursor() as cursor, pytest.raises(psycopg2.Error, match=r"seen: flights\n"):
            cursor.execute("create index on evil.bait (evil.look(n))")
    finally:
        roles.query(STORE, "drop schema evil cascade")


@pytest.mark.parametrize("read", ["read_stream", "read_log", "fetch of the stream"])
def test_no_function_reads_for_who_maintains_a_table(roles: World, read: str) -> None:
    """The session is the owner's, who may read everything: the call is refused, also in a read-only transaction of a role."""
    roles.query(
        STORE,
        f"""
        create schema evil;
        create function evil.look() returns bigint language plpgsql as $$ begin return (select count(*) from ({OF_MESSAGES[read]}) m); end $$;
        create function evil.pure(n integer) returns bigint language sql immutable as 'select evil.look()';
        alter function evil.look() owner to app_flights; alter function evil.pure(integer) owner to app_flights;
        create table evil.bait (n integer); insert into evil.bait values (1);
        alter table evil.bait owner to app_flights; grant usage on schema evil to app_flights;
        """,
    )
    try:
        with roles.session(STORE) as session, session.cursor() as cursor:
            assert refusal(cursor, "create index on evil.bait (evil.pure(n))")[0] == "42501"
    finally:
        roles.query(STORE, "drop schema evil cascade")
    with login("app_all", autocommit=False) as cursor:
        cursor.connection.set_session(readonly=True)
        if read != "fetch of the stream":
            assert len(ask(cursor, OF_MESSAGES[read])) == 12


def test_a_role_that_was_renamed_after_it_was_set_reads_nothing(roles: World) -> None:
    with login("app_member") as cursor:
        cursor.execute("set role team_crew")
        roles.query(STORE, "alter role team_crew rename to crew_team")
        try:
            assert ask(cursor, OF_MESSAGES["inbox"]) == []
            code, message, hint = refusal(cursor, "select * from relaybox.fetch('crew_only')")
            assert (code, hint.split(".")[0]) == ("RB041", "Run: reset role")
            assert "has set role team_crew" in message
        finally:
            roles.query(STORE, "alter role crew_team rename to team_crew")


def test_names_with_odd_characters(roles: World) -> None:
    """The command in the hint is one that a shell takes; a name that no topic can have is refused."""
    with login(ODD) as cursor:
        code, message, hint = refusal(cursor, "select relaybox.subscribe('mine', 'crew')")
        assert (code, message) == ("RB041", f"role {ODD} may not read topic crew")
        assert hint.endswith(f"""relaybox topics grant {STORE} crew 'Röle '\\''x"; drop'""")
        grant(roles, ODD, "crew")
        assert {topic for (topic,) in ask(cursor, OF_MESSAGES["inbox"])} == {"crew"}
        assert ask(cursor, "select topic from relaybox.fetch('crew_only', 1)") == [("crew",)]
    with roles.session(STORE) as session, session.cursor() as cursor:
        for topic in ("Crew", "", "a b", "crew*", "é", None, "x" * 49):
            assert refusal(cursor, "select relaybox_internal.grant_topic(%s, 'app_none')", topic)[0] == "RB036"
            session.rollback()
        assert refusal(cursor, "select relaybox_internal.grant_topic('crew', 'nobody_of_this_name')")[0] == "RB036"


def test_a_role_that_was_dropped_leaves_the_topic_to_the_others(roles: World) -> None:
    roles.query(STORE, "create role leaving")
    grant(roles, "leaving", "crew")
    roles.query(STORE, "drop role leaving")
    with login("app_crew") as cursor:
        assert len(ask(cursor, OF_MESSAGES["inbox"])) == 6
    revoke(roles, "leaving", "crew")


def test_owner_drivers_and_readers_need_no_grant(roles: World) -> None:
    for member, role in (("app_none", "relaybox_driver"), ("app_crew", "relaybox_reader")):
        roles.query(STORE, f"grant {role} to {member}")
        with login(member) as cursor:
            for name, read in OF_MESSAGES.items():
                assert ask(cursor, read), (role, name)
        roles.query(STORE, "update relaybox_internal.cursor set worker = null, leased_until = null")
    assert len(roles.query(STORE, OF_MESSAGES["read_stream"])) == 12


@pytest.mark.parametrize(
    "statement",
    [
        "insert into relaybox_internal.topic_role (topic, role_name) values ('crew', 'app_flights')",
        "select relaybox_internal.grant_topic('crew', 'app_flights')",
        "select relaybox_internal.revoke_topic('crew', 'team_crew')",
        "select relaybox_internal.bind_topics(false)",
        "select * from relaybox_internal.allowed_topics",
        "select * from relaybox_internal.read_redriven(null)",
        "select payload from relaybox_internal.log",
        "set role team_crew",
    ],
)
def test_no_role_grants_itself_a_topic(roles: World, statement: str) -> None:
    with login("app_flights") as cursor, pytest.raises(psycopg2.errors.InsufficientPrivilege):
        cursor.execute(statement)


def test_drivers_and_readers_grant_nothing(roles: World) -> None:
    roles.query(STORE, "grant relaybox_driver to app_none; grant relaybox_reader to app_crew")
    for member in ("app_none", "app_crew"):
        with login(member) as cursor:
            for call in ("grant_topic('crew', 'app_none')", "revoke_topic('crew', 'team_crew')", "bind_topics(false)"):
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    cursor.execute(f"select relaybox_internal.{call}")


def test_topics_and_subscriptions_are_bound_apart(roles: World) -> None:
    """A role that is bound to a subscription reads only its topics from it, and the dead letters of both."""
    roles.query(STORE, "select relaybox_internal.bind_subscriptions(true)")
    roles.query(STORE, "select relaybox_internal.bind_subscription('crew_only', 'app_flights')")
    with login("app_flights") as cursor:
        assert refusal(cursor, "select * from relaybox.fetch('crew_only')")[0] == "RB041"
        assert refusal(cursor, "select * from relaybox.fetch('flights_only')")[0] == "RB040"
        assert ask(cursor, OF_MESSAGES["dead_letters"]) == []
        grant(roles, "app_flights", "crew")
        assert ask(cursor, "select topic from relaybox.fetch('crew_only', 1)") == [("crew",)]
        assert ask(cursor, OF_MESSAGES["dead_letters"]) == [("crew",)]


def test_a_dead_letter_whose_message_is_gone_has_the_topic_of_its_subscription(roles: World) -> None:
    """Of a subscription to a whole stream nothing is known of it: only a role with every topic sees it."""
    with roles.session(STORE, autocommit=True) as session, session.cursor() as cursor:
        cursor.execute("select token from relaybox.fetch('whole', 1)")
        cursor.execute("select relaybox.nack('whole', 1, 'content of it', %s)", cursor.fetchone())
    roles.query(STORE, "delete from relaybox_internal.log where log_position in (1, 7)")
    seen = "select subscription from relaybox.dead_letters order by 1"
    for role, expected in (
        ("app_flights", ["flights_only"]), ("app_crew", ["crew_only"]), ("app_none", []), ("app_all", ["crew_only", "flights_only", "whole"]),
    ):  # fmt: skip
        with login(role) as cursor:
            assert [name for (name,) in ask(cursor, seen)] == expected


def test_a_store_that_does_not_ask_refuses_nothing(roles: World) -> None:
    """Grants wait for the next time it is switched on."""
    with login("app_none") as cursor:
        assert refusal(cursor, OF_MESSAGES["read_stream"])[0] == "RB041"
        assert bind_topics(roles, asked=False)
        assert not bind_topics(roles, asked=False)
        for name, read in OF_MESSAGES.items():
            assert ask(cursor, read), name
        assert bind_topics(roles, asked=True)
        assert refusal(cursor, OF_MESSAGES["read_stream"])[0] == "RB041"


def test_the_python_consumer_says_what_to_do(roles: World) -> None:
    service = read_service(STORE)
    break_service(STORE, user="app_none", password="secret")
    try:
        with pytest.raises(errors.TopicNotGranted, match=r"\(RB041\).* relaybox topics grant hub crew app_none"):
            list(Consumer(STORE, "crew_only", until_empty=True))
    finally:
        break_service(STORE, user=service["user"], password=service["password"])


@pytest.mark.parametrize("view", ["inbox", "dead_letters"])
def test_where_no_topic_is_bound_no_grant_is_read(world: World, view: str) -> None:
    """The question is asked once for a statement, and the grants are not touched."""
    deliver(world, 12)
    world.query(STORE, "update relaybox_internal.hop_in set published_position = 12")
    plan = world.query(STORE, f"explain (analyze, costs off, timing off, summary off) select * from relaybox.{view}")
    lines = [line for (line,) in plan]
    reads = [line for line in lines if "Scan" in line and "topic_role" in line]
    assert reads
    assert all("never executed" in line for line in reads), lines
    assert [line for line in lines if "InitPlan" in line], lines


def observed(plan: Any) -> Any:
    """What EXPLAIN ANALYZE says of a run, without its times and the planner's guesses."""
    if isinstance(plan, list):
        return [observed(one) for one in plan]
    if isinstance(plan, dict):
        kept = (
            "Plan",
            "Plans",
            "Node Type",
            "Relation Name",
            "Subplan Name",
            "Actual Rows",
            "Actual Loops",
            "Rows Removed by Filter",
        )
        return {key: observed(value) for key, value in plan.items() if key in kept}
    return plan


@pytest.mark.parametrize("view", ["inbox", "dead_letters"])
@pytest.mark.parametrize("setting", ["set work_mem = '64kB'", "set cpu_operator_cost = 0", "set enable_hashjoin = off"])
def test_explain_analyze_tells_nothing_of_a_hidden_message(roles: World, view: str, setting: str) -> None:
    """Whether its content meets a condition shows nowhere: the topic is asked first, whatever the condition costs."""
    where = "hop = 'flights/1' and log_position = 7 and"
    right = ("payload = 'm7'", "payload >= 'm'", "sender = 's1'", "topic = 'crew'", "key = 'k0'")
    wrong = ("payload = 'no'", "payload >= 'z'", "sender = 'no'", "topic = 'none'", "key = 'no'")
    with login("app_flights") as cursor:
        cursor.execute(f"set max_parallel_workers_per_gather = 0; {setting}")

        def run(condition: str) -> Any:
            cursor.execute(f"explain (analyze, format json) select from relaybox.{view} where {where} {condition}")
            return observed(cursor.fetchone()[0])

        for meets, fails in zip(right, wrong, strict=True):
            assert run(meets) == run(fails), meets
