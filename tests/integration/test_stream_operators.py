"""Operators of streams: a role acts on all subscriptions of its stream, on no other, and fetches from none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest

from tests.integration.subscription_roles import (
    CALLS,
    SEEN,
    ask,
    bind,
    bind_subscriptions,
    letter_of,
    login,
    refusal,
)
from tests.support.patience import patience
from tests.support.services import add_route, read_service
from tests.support.streams import STORE, deliver
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

OPERATORS = ("ops_flights", "ops_crew", "ops_none", "ops_plain", "ops_member", "ops_heir")
STREAM_OF = {"ops_flights": "flights", "ops_crew": "crew", "ops_plain": "flights"}
FETCHING = tuple(f"relaybox.{name}(" for name in ("subscribe", "fetch", "ack", "nack", "release"))


def bind_operator(world: World, stream: str, role: str) -> None:
    assert world.value(STORE, "select relaybox_internal.bind_operator(%s, %s)", stream, role)


def unbind_operator(world: World, stream: str, role: str) -> None:
    assert world.value(STORE, "select relaybox_internal.unbind_operator(%s, %s)", stream, role)


@pytest.fixture
def operated(world: World) -> Iterator[World]:
    """Streams flights and crew, each with two subscriptions, a dead letter of each and a replay.

    ops_flights and ops_crew are operators of one stream each. ops_none is bound to no stream, ops_plain is no
    member of relaybox_operator. team_flights is bound to flights: ops_heir inherits it, ops_member only may set it.
    """
    add_route(world.path, "crew", topics=["crew"], path=["airline", "hub"])
    world.register()
    deliver(world, 12)
    world.send(*[f"c{number}" for number in range(5)], topic="crew")
    world.transfer(world.routes.hop("crew/1"))
    for role in OPERATORS:
        world.query(STORE, f"create role {role} login password 'secret' in role relaybox_consumer")
        if role != "ops_plain":
            world.query(STORE, f"grant relaybox_operator to {role}")
    world.query(STORE, "create role team_flights; grant team_flights to ops_heir")
    world.query(STORE, "alter role ops_member noinherit; grant team_flights to ops_member")
    if int(world.value(STORE, "show server_version_num")) >= 160000:  # there a grant has its own option
        world.query(STORE, "grant team_flights to ops_member with inherit false")
        world.query(STORE, "grant relaybox_operator to ops_member with inherit true")
    for subscription, stream in (("billing", "flights"), ("audit", "flights"), ("roster", "crew"), ("payroll", "crew")):
        world.query(STORE, "select relaybox.subscribe(%s, %s, nack_limit => 1)", subscription, stream)
        world.query(STORE, f"select * from relaybox.fetch('{subscription}'); select relaybox.nack('{subscription}', 1, 'no')")
        world.query(
            STORE,
            "select * from relaybox_internal.ask_replay(%s, %s, '2', '3', 'why', 'ada')",
            subscription,
            f"{subscription}.copy",
        )
    assert bind_subscriptions(world, asked=True) == "switched on"
    for role, stream in (*STREAM_OF.items(), ("team_flights", "flights")):
        bind_operator(world, stream, role)
    yield world
    for role in (*OPERATORS, "team_flights"):
        world.query(STORE, f"drop owned by {role}; drop role {role}")


def stream_letter(world: World, stream: str) -> int:
    """A dead letter that the stream itself set aside."""
    return int(
        world.value(
            STORE,
            "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason) "
            "select l.stream_id, l.log_id, 2, 'late' from relaybox_internal.stream_log l "
            "join relaybox_internal.stream s on s.stream_id = l.stream_id where s.stream = %s returning dead_letter_id",
            stream,
        )
    )


def state(world: World) -> list[tuple[str, ...]]:
    return sorted(
        world.query(
            STORE,
            "select s::text, c::text, d.letters from relaybox_internal.subscription s "
            "left join relaybox_internal.cursor c using (subscription_id) "
            "cross join (select array_agg(d::text order by dead_letter_id)::text as letters from relaybox_internal.dead_letter d) d",
        )
    )


@pytest.mark.parametrize(
    ("role", "own"), [("ops_flights", ("billing", "audit")), ("ops_crew", ("roster", "payroll")), ("ops_heir", ("audit",))]
)
def test_an_operator_acts_on_every_subscription_of_its_stream(operated: World, role: str, own: tuple[str, ...]) -> None:
    for subscription in own:
        with login(role) as cursor:
            assert ask(cursor, "select count(*) from relaybox.lag(%s)", subscription) == [(1,)]
            assert ask(cursor, "select relaybox.redrive(%s, 'repaired')", subscription) == [(1,)]
            counted = "select message_count from relaybox.replay(%s, 'earliest', 'why', null, true, null, true)"
            assert ask(cursor, counted, subscription)[0][0] >= 5
            ((copy,),) = ask(
                cursor, "select replayed_as from relaybox.replay(%s, '1', 'why', second_cursor => true)", subscription
            )
            assert ask(cursor, "select relaybox.cancel_replay(%s, 'no')", copy) == [(copy,)]
            assert ask(cursor, "select relaybox.cancel_replay(%s, 'no')", f"{subscription}.copy") == [(f"{subscription}.copy",)]
            assert len(ask(cursor, "select relaybox.fetch_one_at_a_time(%s, 'looks bad')", subscription)) == 1
            cursor.execute("select relaybox.unsubscribe(%s, 'over')", (subscription,))
            actions = ask(
                cursor, "select action from relaybox.consumer_action where subscription = %s order by action_id", subscription
            )
            assert [action for (action,) in actions][-4:] == ["redrive", "replay", "fetch_one_at_a_time", "unsubscribe"]


def test_an_operator_gets_later_subscriptions_and_those_that_ended(operated: World) -> None:
    """Without another binding; of an ended one it drops the letter, whenever it ended: open letters keep messages."""
    letter = letter_of(operated, "billing")
    operated.query(STORE, "select relaybox.unsubscribe('billing', 'over')")
    operated.query(STORE, "select relaybox.subscribe('later', 'flights')")
    unbind_operator(operated, "flights", "ops_flights")
    bind_operator(operated, "flights", "ops_flights")
    with login("ops_flights") as cursor:
        assert ask(cursor, "select stream_positions_behind from relaybox.lag('later')") == [(12,)]
        cursor.execute("select relaybox.drop_dead_letter(%s, 'nobody reads it')", (letter,))
    assert operated.value(STORE, "select state from relaybox.dead_letters where dead_letter_id = %s", letter) == "dropped"


def test_an_operator_drops_what_its_stream_set_aside(operated: World) -> None:
    """And sees that it did. A redrive says how such a message is sent again. Letters of other streams stay."""
    own, foreign = stream_letter(operated, "flights"), stream_letter(operated, "crew")
    with login("ops_flights") as cursor:
        assert refusal(cursor, f"select relaybox.redrive('billing', 'why', {own})")[0] == "RB037"
        cursor.execute("select relaybox.drop_dead_letter(%s, 'sent again')", (own,))
        assert ask(cursor, "select subscription, reason from relaybox.consumer_action where action = 'drop'") == [
            ("flights", "sent again")
        ]
        assert refusal(cursor, f"select relaybox.drop_dead_letter({foreign}, 'why')")[0] == "RB040"
    operated.query(STORE, "select relaybox.drop_dead_letter(%s, 'of crew')", foreign)
    with login("ops_flights") as cursor:
        assert ("of crew",) not in ask(cursor, "select reason from relaybox.consumer_action")
    with login("ops_crew") as cursor:
        assert ("of crew",) in ask(cursor, "select reason from relaybox.consumer_action")


@pytest.mark.parametrize("call", CALLS)
def test_an_operator_has_nothing_on_other_streams(operated: World, call: str) -> None:
    """The words are the same for a subscription of others, its second cursor, and one that does not exist; nothing changes."""
    before = state(operated)
    for role in ("ops_crew", "ops_none", "ops_plain", "ops_member"):
        with login(role) as cursor:
            said = {
                name: tuple(text.replace(name, "NAME") for text in refusal(cursor, call.format(name)))
                for name in ("audit", "audit.copy", "no_such_name")
            }
        assert len(set(said.values())) == 1, said
        code, message, hint = said["audit"]
        assert (code, message) == ("RB040", f"role {role} is not bound to subscription NAME")
        could_operate = role != "ops_plain" and not any(word in call for word in FETCHING)
        assert ("relaybox operators bind hub STREAM" in hint) == could_operate, hint
    assert state(operated) == before


@pytest.mark.parametrize("call", [call for call in CALLS if any(word in call for word in FETCHING)])
def test_an_operator_fetches_and_acknowledges_nothing(operated: World, call: str) -> None:
    before = state(operated)
    with login("ops_flights") as cursor:
        for name in ("audit", "audit.copy", "no_such_name"):
            assert refusal(cursor, call.format(name))[:2] == ("RB040", f"role ops_flights is not bound to subscription {name}")
    assert state(operated) == before


def test_no_operator_touches_letters_of_other_streams(operated: World) -> None:
    """A lane that another session holds is not waited for."""
    foreign = letter_of(operated, "audit")
    holder = psycopg2.connect(**read_service(STORE))
    with holder.cursor() as held:
        held.execute("select from relaybox_internal.lane for update")
        for role in ("ops_crew", "ops_none", "ops_plain", "ops_member"):
            with login(role) as cursor:
                cursor.execute("set lock_timeout = '5s'")
                for number in (foreign, 999_999):
                    code, message, _ = refusal(cursor, f"select relaybox.drop_dead_letter({number}, 'why')")
                    assert (code, message) == (
                        "RB040",
                        f"role {role} is bound to no subscription that has a dead letter {number}",
                    )
    holder.close()
    with login("ops_crew") as cursor:
        assert refusal(cursor, f"select relaybox.redrive('roster', 'why', {foreign})")[0] == "RB040"
    assert operated.value(STORE, "select state from relaybox.dead_letters where dead_letter_id = %s", foreign) == "open"


@pytest.mark.parametrize("view", SEEN)
def test_an_operator_sees_its_stream_and_no_other(operated: World, view: str) -> None:
    streams = {
        "flights": {"billing", "billing.copy", "audit", "audit.copy"},
        "crew": {"roster", "roster.copy", "payroll", "payroll.copy"},
    }
    for stream in streams:
        stream_letter(operated, stream)
    everything = {name for (name,) in operated.query(STORE, SEEN[view])}
    for role, stream in (("ops_flights", "flights"), ("ops_heir", "flights"), ("ops_crew", "crew")):
        with login(role) as cursor:
            found = {name for (name,) in ask(cursor, SEEN[view])}
        of_stream = {None} if view == "dead_letters" else set()
        assert found == everything & (streams[stream] | of_stream), role
    for role in ("ops_none", "ops_plain", "ops_member"):
        with login(role) as cursor:
            assert ask(cursor, SEEN[view]) == [], role
    with login("ops_crew") as cursor:
        assert {stream for (stream,) in ask(cursor, "select stream from relaybox.dead_letters")} == {"crew"}


def test_both_memberships_are_asked_of_the_role_that_is_set(operated: World) -> None:
    """`set role` to the team gives its streams only if the team inherits relaybox_operator; and takes the login's own away."""
    with login("ops_member") as cursor:
        cursor.execute("set role team_flights")
        assert refusal(cursor, "select * from relaybox.lag('billing')")[0] == "42501"  # the team is no consumer
        operated.query(STORE, "grant relaybox_consumer to team_flights")
        assert refusal(cursor, "select * from relaybox.lag('billing')")[0] == "RB040"
        operated.query(STORE, "grant relaybox_operator to team_flights")
        assert ask(cursor, "select lane from relaybox.lag('billing')") == [(1,)]
        cursor.execute("reset role")
        assert refusal(cursor, "select * from relaybox.lag('billing')")[0] == "RB040"
    with login("ops_flights") as cursor:
        assert ask(cursor, "select lane from relaybox.lag('billing')") == [(1,)]
        operated.query(STORE, "revoke relaybox_operator from ops_flights")
        assert refusal(cursor, "select * from relaybox.lag('billing')")[0] == "RB040"
        assert ask(cursor, SEEN["subscriptions"]) == []


def test_a_role_that_was_renamed_or_dropped_is_no_operator(operated: World) -> None:
    """Neither as a session of its own, nor as a role that a session had set before."""
    operated.query(STORE, "create role ops_old in role relaybox_consumer, relaybox_operator; grant ops_old to ops_none")
    bind_operator(operated, "flights", "ops_old")
    operated.query(STORE, "revoke ops_old from ops_none")
    operated.query(STORE, "grant ops_old to ops_none")
    try:
        with login("ops_none") as cursor:
            cursor.execute("set role ops_old")
            assert ask(cursor, "select lane from relaybox.lag('billing')") == [(1,)]
            operated.query(STORE, "alter role ops_old rename to ops_older")
            code, message, _ = refusal(cursor, "select relaybox.redrive('billing', 'why')")
            assert (code, "ops_old" in message) == ("RB040", True)
            assert ask(cursor, SEEN["subscriptions"]) == []
            cursor.execute("reset role")
            assert refusal(cursor, "select relaybox.redrive('billing', 'why')")[0] == "RB040"
        operated.query(STORE, "drop role ops_older")
        with login("ops_flights") as cursor:  # a binding to a role that is gone disturbs nobody
            assert ask(cursor, "select relaybox.redrive('billing', 'why')") == [(1,)]
        unbind_operator(operated, "flights", "ops_old")
    finally:
        operated.query(STORE, "drop role if exists ops_old, ops_older")


def test_a_binding_that_changes_in_the_middle(operated: World) -> None:
    """What an operator began goes on for its consumers; the operator is refused at the next call, and the lanes stay as they are."""
    bind(operated, "billing", "ops_plain")
    with login("ops_flights") as cursor:
        ((copy,),) = ask(cursor, "select replayed_as from relaybox.replay('billing', '1', 'why', second_cursor => true)")
        cursor.execute("select relaybox.redrive('billing', 'why')")
        unbind_operator(operated, "flights", "ops_flights")
        for call in (f"select relaybox.cancel_replay('{copy}', 'why')", "select relaybox.redrive('billing', 'why')"):
            assert refusal(cursor, call)[0] == "RB040"
        assert ask(cursor, SEEN["subscriptions"]) == []
    with login("ops_plain") as cursor:
        assert ask(cursor, "select stream_position from relaybox.fetch('billing', 5)")
        assert len(ask(cursor, "select * from relaybox.fetch(%s, 5)", copy)) == 5
    bind_operator(operated, "flights", "ops_flights")
    with login("ops_flights") as cursor:
        assert ask(cursor, "select relaybox.cancel_replay(%s, 'why')", copy) == [(copy,)]


def test_a_call_that_waits_for_a_lane_goes_on_with_the_bindings_of_its_beginning(operated: World) -> None:
    """As with subscriptions: the call was allowed when it began."""
    holder = psycopg2.connect(**read_service(STORE))
    with holder.cursor() as held, ThreadPoolExecutor(1) as pool, login("ops_flights") as cursor:
        held.execute("select from relaybox_internal.lane for update")
        waiting = pool.submit(ask, cursor, "select relaybox.redrive('billing', 'why')")
        blocked = "select count(*) from pg_stat_activity where usename = 'ops_flights' and wait_event_type = 'Lock'"
        wait_until(lambda: operated.value(STORE, blocked) == 1, "the redrive waits for the lane")
        unbind_operator(operated, "flights", "ops_flights")
        holder.rollback()
        assert waiting.result(patience(30)) == [(1,)]
        assert refusal(cursor, "select relaybox.redrive('billing', 'why')")[0] == "RB040"
    holder.close()


def test_a_name_that_moves_to_another_stream_is_no_longer_the_operators(operated: World) -> None:
    """The subscription ends, and the name begins anew in a stream of others: the operator keeps the old one's letters only."""
    old = letter_of(operated, "billing")
    operated.query(STORE, "select relaybox.unsubscribe('billing', 'moves'); select relaybox.subscribe('billing', 'crew')")
    with login("ops_flights") as cursor:
        assert refusal(cursor, "select relaybox.redrive('billing', 'why')")[0] == "RB040"
        assert ask(cursor, "select stream from relaybox.dead_letters where subscription = 'billing'") == [("flights",)]
        cursor.execute("select relaybox.drop_dead_letter(%s, 'why')", (old,))
        assert ("billing",) not in ask(cursor, SEEN["subscriptions"])
    with login("ops_crew") as cursor:
        assert ask(cursor, "select lane from relaybox.lag('billing')") == [(1,)]
        assert ask(cursor, "select subscription from relaybox.dead_letters where subscription = 'billing'") == []


def test_a_route_that_gets_another_stream_takes_no_operator_with_it(operated: World) -> None:
    """Bindings are to the name of the stream. The binding to the old name stays in the list, and says what became of it."""
    document = operated.path.read_text()
    operated.path.write_text(document.replace("  crew:\n", "  cabin:\n", 1))
    operated.query(STORE, "select relaybox.unsubscribe(s, 'moves') from unnest('{roster, payroll}'::text[]) s")
    operated.register()
    operated.query(STORE, "select relaybox.subscribe('roster', 'cabin')")
    with login("ops_crew") as cursor:
        assert refusal(cursor, "select relaybox.redrive('roster', 'why')")[0] == "RB040"
        assert ask(cursor, SEEN["subscriptions"]) == []
        assert {stream for (stream,) in ask(cursor, "select stream from relaybox.dead_letters")} == {"crew"}
    bind_operator(operated, "cabin", "ops_crew")
    with login("ops_crew") as cursor:
        assert ask(cursor, "select relaybox.redrive('roster', 'why')") == [(0,)]


@pytest.mark.parametrize(
    "call",
    [
        "relaybox.redrive('billing', 'why')",
        "relaybox.unsubscribe('billing', 'why')",
        "relaybox.drop_dead_letter(1, 'why')",
        "* from relaybox.lag('billing')",
    ],
)
def test_no_role_borrows_the_rights_of_an_operator_who_maintains_its_table(operated: World, call: str) -> None:
    """The operator owns the table by membership; the function of its index is another one's."""
    _trap(operated, f"execute $call$select {call}$call$;")
    before = state(operated)
    with login("ops_flights") as cursor:
        assert refusal(cursor, "analyze app_trap.own")[0] == "42501"
    assert state(operated) == before
    _remove_trap(operated)


@pytest.mark.parametrize("view", SEEN)
def test_no_role_sees_by_the_eyes_of_who_maintains_its_table(operated: World, view: str) -> None:
    """A view asks the role that reads it too: below ANALYZE that is the owner of the table, and the session is an operator's."""
    stream_letter(operated, "flights")
    bind(operated, "roster", "ops_flights")
    _trap(operated, f"raise notice 'seen: %', (select count(*) from ({SEEN[view]}) s);")
    try:
        for role in (None, "ops_flights"):
            with closing(psycopg2.connect(service=STORE, **({"user": role, "password": "secret"} if role else {}))) as session:
                session.autocommit = True
                with session.cursor() as cursor:
                    assert ask(cursor, f"select count(*) from ({SEEN[view]}) s") > [(0,)]
                    cursor.execute("analyze app_trap.own")
                assert {notice.strip() for notice in session.notices} == {"NOTICE:  seen: 0"}, role
    finally:
        _remove_trap(operated)


def _trap(world: World, statement: str) -> None:
    """A table of role app_trap, which every operator may maintain, with an index whose function does something else since."""
    world.query(STORE, "create role app_trap login password 'secret' in role relaybox_consumer; grant app_trap to ops_flights")
    world.query(STORE, "create schema app_trap authorization app_trap")
    with login("app_trap") as cursor:
        cursor.execute("create table app_trap.own as select 0 as a from generate_series(1, 100)")
        cursor.execute("create function app_trap.f(a integer) returns integer language sql immutable as 'select a'")
        cursor.execute("create index on app_trap.own (app_trap.f(a))")
        cursor.execute(
            "create or replace function app_trap.f(a integer) returns integer language plpgsql immutable as "
            f"$$ begin {statement} return a; end $$"
        )


def _remove_trap(world: World) -> None:
    world.query(STORE, "drop schema app_trap cascade; drop owned by app_trap; drop role app_trap")


@pytest.mark.parametrize(
    "statement",
    [
        "insert into relaybox_internal.stream_role (stream, role_name) values ('crew', 'ops_flights')",
        "select relaybox_internal.bind_operator('crew', 'ops_flights')",
        "select relaybox_internal.unbind_operator('crew', 'ops_crew')",
        "select * from relaybox_internal.allowed_streams",
        "select * from relaybox_internal.stream_role",
        "set role ops_crew",
    ],
)
def test_no_operator_binds_itself(operated: World, statement: str) -> None:
    with login("ops_flights") as cursor:
        assert refusal(cursor, statement)[0] == "42501"


@pytest.mark.parametrize(
    "statement", ["delete from relaybox_internal.stream_role", "select relaybox_internal.bind_operator('crew', 'ops_none')"]
)
def test_no_driver_and_no_reader_binds_an_operator(operated: World, statement: str) -> None:
    operated.query(STORE, "grant relaybox_driver, relaybox_reader to ops_none")
    with login("ops_none") as cursor:
        assert ask(cursor, "select stream from relaybox_internal.stream_role")
        assert refusal(cursor, statement)[0] == "42501"


def test_an_approval_is_asked_of_operators_too(operated: World) -> None:
    operated.query(STORE, "update relaybox_internal.store set require_approval = true")
    with login("ops_flights") as cursor:
        for call in ("redrive('billing', 'why')", "replay('billing', 'earliest', 'why')"):
            assert refusal(cursor, f"select relaybox.{call}")[0] == "RB042"
        assert refusal(cursor, "select relaybox.redrive('roster', 'why')")[0] == "RB040"  # the binding is asked first
        cursor.execute("select relaybox.drop_dead_letter(%s, 'why')", (letter_of(operated, "billing"),))


def test_an_operator_gives_no_message_again_whose_topic_it_may_not_read(operated: World) -> None:
    operated.query(STORE, "update relaybox_internal.store set bind_topics = true")
    with login("ops_flights") as cursor:
        assert refusal(cursor, "select relaybox.redrive('billing', 'why')")[0] == "RB041"
        assert ask(cursor, SEEN["dead_letters"]) == []
        operated.query(STORE, "select relaybox_internal.grant_topic('flights', 'ops_flights')")
        assert ask(cursor, "select relaybox.redrive('billing', 'why')") == [(1,)]
        assert len(ask(cursor, SEEN["dead_letters"])) == 2


def test_two_at_once_bind_once(operated: World) -> None:
    """The second waits for the first: it finds the binding if that committed, and makes it if that was killed."""
    waits = "select count(*) from pg_stat_activity where query like '%%bind_operator%%' and wait_event_type = 'Lock'"
    for is_killed in (False, True):
        first = psycopg2.connect(**read_service(STORE))
        with first.cursor() as cursor, ThreadPoolExecutor(1) as pool:
            cursor.execute("select relaybox_internal.bind_operator('crew', 'ops_none'), pg_backend_pid()")
            ((is_new, pid),) = cursor.fetchall()
            assert is_new
            begun = threading.Event()

            def second(begun: threading.Event = begun) -> bool:
                begun.set()
                return bool(operated.value(STORE, "select relaybox_internal.bind_operator('crew', 'ops_none')"))

            other = pool.submit(second)
            assert begun.wait(patience(30))
            wait_until(lambda: operated.value(STORE, waits) == 1, "the second waits for the first")
            if is_killed:
                operated.query(STORE, "select pg_terminate_backend(%s)", pid)
            else:
                first.commit()
            assert other.result(patience(30)) is is_killed
        first.close()
        assert operated.value(STORE, "select count(*) from relaybox_internal.stream_role where role_name = 'ops_none'") == 1
        unbind_operator(operated, "crew", "ops_none")


def test_where_the_store_does_not_ask_no_operator_is_looked_up(operated: World) -> None:
    bind_subscriptions(operated, asked=False)
    with login("ops_none") as cursor:
        assert ask(cursor, "select relaybox.redrive('billing', 'why')") == [(1,)]
    for view in SEEN:
        plan = operated.query(STORE, f"explain (analyze, costs off, timing off, summary off) select * from relaybox.{view}")
        reads = [line for (line,) in plan if "Scan" in line and "stream_role" in line]
        assert reads
        assert all("never executed" in line for line in reads), reads
