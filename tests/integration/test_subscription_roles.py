"""Subscriptions that are bound to database roles: no role uses another's, or learns that there is one."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest

from relaybox import errors
from relaybox.consumer import Consumer
from relaybox.subscriptions.bindings import bind_subscription
from relaybox.subscriptions.replays import second_cursor
from tests.integration.subscription_roles import CALLS, SEEN, ask, bind, bind_subscriptions, letter_of, login, refusal, unbind
from tests.support.services import break_service, read_service
from tests.support.streams import STORE, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

LOGINS = ("app_billing", "app_audit", "app_free", "app_member")


@pytest.fixture
def roles(world: World) -> Iterator[World]:
    """`billing` is bound to app_billing, `audit` to team_audit with member app_audit; `app_free` to nothing.

    Both subscriptions have a dead letter, a replay and actions. app_member is a member of team_audit that inherits nothing.
    """
    deliver(world, 12)
    for role in LOGINS:
        world.query(STORE, f"create role {role} login noinherit password 'secret'; grant usage on schema relaybox to {role}")
        world.query(STORE, f"grant execute on all functions in schema relaybox to {role}")
        world.query(STORE, f"grant select on all tables in schema relaybox to {role}")
        if role != "app_member":  # what a membership gives is decided when it is granted
            world.query(STORE, f"alter role {role} inherit; grant relaybox_consumer to {role}")
    world.query(STORE, "create role team_audit in role relaybox_consumer; grant team_audit to app_audit, app_member")
    for subscription in ("billing", "audit"):
        world.query(STORE, "select relaybox.subscribe(%s, 'flights', nack_limit => 1)", subscription)
        world.query(STORE, f"select * from relaybox.fetch('{subscription}'); select relaybox.nack('{subscription}', 1, 'no')")
        world.query(
            STORE,
            "select * from relaybox_internal.ask_replay(%s, %s, '2', '5', 'why', 'ada')",
            subscription,
            f"{subscription}.copy",
        )
    assert bind_subscriptions(world, asked=True) == "switched on"
    bind(world, "billing", "app_billing")
    bind(world, "audit", "team_audit")
    yield world
    for role in (*LOGINS, "team_audit"):
        world.query(STORE, f"drop owned by {role}; drop role {role}")


def test_a_bound_role_does_everything(roles: World) -> None:
    """Bound itself, or through a group that it inherits; with replays and dead letters, to the end and a new beginning."""
    for role, subscription in (("app_billing", "billing"), ("app_audit", "audit")):
        with login(role) as cursor:
            position, token = ask(cursor, "select stream_position, token from relaybox.fetch(%s, 3)", subscription)[-1]
            assert ask(cursor, "select relaybox.ack(%s, %s, %s)", subscription, position, token) == [(12,)]
            assert ask(cursor, "select relaybox.redrive(%s, 'repaired')", subscription) == [(1,)]
            assert len(ask(cursor, "select * from relaybox.fetch(%s, 10)", f"{subscription}.copy")) == 4
            ((copy,),) = ask(
                cursor, "select replayed_as from relaybox.replay(%s, '1', 'why', second_cursor => true)", subscription
            )
            assert ask(cursor, "select done_stream_position from relaybox.lag(%s)", copy) == [(0,)]
            cursor.execute("select relaybox.unsubscribe(%s, 'over')", (subscription,))
            cursor.execute("select relaybox.subscribe(%s, 'flights')", (subscription,))


@pytest.mark.parametrize("call", CALLS)
def test_no_role_uses_the_subscription_of_another(roles: World, call: str) -> None:
    """The words are the same for one that exists, its second cursor, and one that does not; nothing changes."""
    state = "select s::text, c::text from relaybox_internal.subscription s left join relaybox_internal.cursor c using (subscription_id)"
    before = sorted(roles.query(STORE, state))
    for role in ("app_free", "app_billing", "app_member"):
        with login(role) as cursor:
            for name in ("audit", "audit.copy", "no_such_name"):
                assert refusal(cursor, call.format(name)) == (
                    "RB040",
                    f"role {role} is not bound to subscription {name}",
                    f"This store binds subscriptions to roles. An administrator runs: relaybox subscriptions bind {STORE} {name} {role}",
                )
    assert sorted(roles.query(STORE, state)) == before


def test_no_role_drops_or_redrives_the_dead_letter_of_another(roles: World) -> None:
    """The words tell neither its state nor whether there is one. A lane that another session holds is not waited for."""
    foreign = letter_of(roles, "audit")
    holder = psycopg2.connect(**read_service(STORE))
    with holder.cursor() as cursor:
        cursor.execute("select from relaybox_internal.lane for update")
        with login("app_billing") as stranger:
            stranger.execute("set lock_timeout = '5s'")
            for number in (foreign, 999_999):
                code, message, hint = refusal(stranger, f"select relaybox.drop_dead_letter({number}, 'why')")
                assert (code, message) == (
                    "RB040",
                    f"role app_billing is bound to no subscription that has a dead letter {number}",
                )
                assert hint.endswith(f"relaybox subscriptions bind {STORE} SUBSCRIPTION app_billing")
                assert refusal(stranger, f"select relaybox.redrive('billing', 'why', {number})")[0] == "RB040"
    holder.close()
    with login("app_billing") as cursor:
        cursor.execute("select relaybox.drop_dead_letter(%s, 'why')", (letter_of(roles, "billing"),))
        assert refusal(cursor, f"select relaybox.drop_dead_letter({letter_of(roles, 'billing')}, 'why')")[0] == "RB037"
    assert roles.value(STORE, "select state from relaybox.dead_letters where dead_letter_id = %s", foreign) == "open"


@pytest.mark.parametrize("view", SEEN)
def test_no_role_sees_the_subscription_of_another(roles: World, view: str) -> None:
    roles.query(
        STORE, "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason) values (1, 1, 9, 'late')"
    )
    for role, seen in (("app_billing", {"billing", "billing.copy"}), ("app_audit", {"audit", "audit.copy"}), ("app_free", set())):
        with login(role) as cursor:
            found = {name for (name,) in ask(cursor, SEEN[view])}
            assert found <= seen, (role, found)
            assert found or role == "app_free"
    with login("app_member") as cursor:
        assert ask(cursor, SEEN[view]) == []
        cursor.execute("set role team_audit")
        assert {name for (name,) in ask(cursor, SEEN[view])} <= {"audit", "audit.copy"}
    everything = {name for (name,) in roles.query(STORE, SEEN[view])}
    assert everything >= {"billing", "audit"}


def test_no_condition_of_a_query_meets_the_rows_of_another(roles: World) -> None:
    """A condition that fails on a row would tell what the row has, if it were asked before the binding."""
    deny = "select 1 from relaybox.dead_letters where payload::int4range is not null"
    with login("app_free") as cursor:
        assert ask(cursor, deny) == []
    with login("app_billing") as cursor:
        assert refusal(cursor, deny)[0] == "22P02"


def test_the_hint_for_a_wrong_name_lists_what_the_role_may_use(roles: World) -> None:
    bind(roles, "biling", "app_billing")
    with login("app_billing") as cursor:
        code, _, hint = refusal(cursor, "select * from relaybox.fetch('biling')")
        assert code == "RB031"
        assert hint.endswith("Known here: billing, billing.copy.")


def test_a_binding_that_is_taken_back_ends_a_fetch_in_the_middle(roles: World) -> None:
    """Nothing is acknowledged by the role that lost its binding; the messages come again to another one when the lease ends."""
    with login("app_billing") as cursor:
        rows = ask(cursor, "select stream_position, token from relaybox.fetch('billing', 3, worker => 'first')")
        unbind(roles, "billing", "app_billing")
        position, token = rows[-1]
        for call in (
            f"ack('billing', {position}, '{token}')", f"nack('billing', {position}, 'no', '{token}')", f"release('billing', '{token}')",
        ):  # fmt: skip
            assert refusal(cursor, f"select relaybox.{call}")[0] == "RB040"
    bind(roles, "billing", "team_audit")
    with login("app_audit") as cursor:
        assert ask(cursor, "select * from relaybox.fetch('billing', 3)") == []
        roles.query(
            STORE,
            "update relaybox_internal.cursor set leased_until = clock_timestamp() - interval '1 second' where worker is not null",
        )
        again = ask(cursor, "select stream_position from relaybox.fetch('billing', 3)")
    assert again == [(position,) for position, _ in rows]


def test_a_new_subscription_of_an_old_name_shows_nothing_of_the_old_one(roles: World) -> None:
    """The name changes hands: letters, replays and actions of the ended subscription stay with roles that were bound before."""
    old = letter_of(roles, "billing")
    roles.query(STORE, "select relaybox.unsubscribe('billing', 'moves to another team')")
    unbind(roles, "billing", "app_billing")
    bind(roles, "billing", "app_free")
    with login("app_free") as cursor:
        cursor.execute("select relaybox.subscribe('billing', 'flights', start => 'latest')")
        assert [ask(cursor, SEEN[view]) for view in SEEN] == [[("billing",)], [], [], [("billing",)]]
        assert refusal(cursor, f"select relaybox.drop_dead_letter({old}, 'why')")[0] == "RB040"
        roles.query(STORE, "select relaybox.drop_dead_letter(%s, 'a reason that names a customer')", old)
        assert ask(cursor, "select action from relaybox.consumer_action") == [("subscribe",)]
    with login("app_billing") as cursor:
        assert [ask(cursor, SEEN[view]) for view in SEEN] == [[], [], [], []]


def test_a_role_that_stays_bound_sees_the_ended_subscription(roles: World) -> None:
    with login("app_billing") as cursor:
        cursor.execute("select relaybox.unsubscribe('billing', 'over')")
        assert ask(cursor, SEEN["dead_letters"]) == [("billing",)]
        cursor.execute("select relaybox.drop_dead_letter(%s, 'why')", (letter_of(roles, "billing"),))
        assert ask(cursor, "select action from relaybox.consumer_action order by action_id desc limit 2") == [
            ("drop",),
            ("unsubscribe",),
        ]


def test_a_role_that_was_dropped_leaves_the_subscription_to_the_others(roles: World) -> None:
    roles.query(STORE, "create role leaving")
    bind(roles, "billing", "leaving")
    roles.query(STORE, "drop role leaving")
    with login("app_billing") as cursor:
        assert ask(cursor, "select * from relaybox.fetch('billing', 3)")
    unbind(roles, "billing", "leaving")


@pytest.mark.parametrize(
    "call",
    [
        "* from relaybox.fetch('audit', 1)",
        "relaybox.unsubscribe('audit', 'why')",
        "relaybox.subscribe('more', 'flights')",
        "relaybox.drop_dead_letter(1, 'why')",
    ],
)
@pytest.mark.parametrize("maintenance", ["analyze app_free.own", "vacuum analyze app_free.own", "reindex table app_free.own"])
def test_no_role_borrows_the_rights_of_who_maintains_its_table(roles: World, call: str, maintenance: str) -> None:
    """An index calls a function of its owner: Postgres runs it below autovacuum too, as a superuser's session."""
    roles.query(STORE, "create schema app_free authorization app_free")
    with login("app_free") as cursor:
        cursor.execute("create table app_free.own as select 0 as a from generate_series(1, 100)")
        cursor.execute("create function app_free.f(a integer) returns integer language sql immutable as 'select a'")
        cursor.execute("create index on app_free.own (app_free.f(a))")
        cursor.execute(
            "create or replace function app_free.f(a integer) returns integer language plpgsql immutable as "
            f"$$ begin execute $call$select {call}$call$; return a; end $$"
        )
    with roles.session(STORE, autocommit=True) as owner, owner.cursor() as cursor:
        assert refusal(cursor, maintenance)[0] == "42501"
    assert roles.value(STORE, "select count(*) from relaybox.subscriptions where subscription = 'audit'") == 1
    roles.query(STORE, "drop schema app_free cascade")


def test_a_role_that_was_renamed_since_it_was_set_is_no_other_role(roles: World) -> None:
    """The setting `role` is a text: another role that takes the name gives the session nothing."""
    roles.query(STORE, "create role app_old in role relaybox_consumer; grant app_old to app_free; create role app_new")
    bind(roles, "audit", "app_old")
    try:
        with login("app_free") as cursor:
            cursor.execute("set role app_old")
            roles.query(STORE, "alter role app_old rename to app_older")
            for gone in (True, False):
                code, message, hint = refusal(cursor, "select * from relaybox.fetch('audit', 1)")
                assert (code, "app_old" in message, "reset role" in hint) == ("RB040", True, True)
                assert ask(cursor, SEEN["subscriptions"]) == []
                if gone:
                    roles.query(STORE, "alter role app_new rename to app_old")
            cursor.execute("reset role")
            assert refusal(cursor, "select * from relaybox.fetch('audit', 1)")[0] == "RB040"
    finally:
        roles.query(STORE, "drop role if exists app_old, app_older, app_new")


def test_owner_drivers_and_readers_see_all_and_readers_change_nothing(roles: World) -> None:
    """The driver role of a store is known by its name, also when it was made after init."""
    world = roles
    made = not world.value(STORE, "select exists (select from pg_roles where rolname = 'relaybox_driver')")
    if made:
        world.query(STORE, "create role relaybox_driver")
    world.query(STORE, "grant relaybox_driver to app_free; grant relaybox_reader to app_audit")
    try:
        with login("app_free") as cursor:
            assert ask(cursor, "select * from relaybox.fetch('billing', 3)")
            assert {name for (name,) in ask(cursor, SEEN["subscriptions"])} >= {"billing", "audit"}
        with login("app_audit") as cursor:
            assert {name for (name,) in ask(cursor, SEEN["subscriptions"])} >= {"billing", "audit"}
            assert ask(cursor, "select lane from relaybox.lag('billing')") == [(1,)]
            assert ask(cursor, "select message_count from relaybox.count_replay('billing', 'earliest')") == [(12,)]
            for call in CALLS:
                if "lag(" not in call and "dry_run" not in call:
                    assert refusal(cursor, call.format("billing"))[0] == "RB040"
            assert refusal(cursor, f"select relaybox.drop_dead_letter({letter_of(world, 'billing')}, 'why')")[0] == "RB040"
    finally:
        if made:
            world.query(STORE, "drop role relaybox_driver")


@pytest.mark.parametrize(
    "statement",
    [
        "insert into relaybox_internal.subscription_role (subscription, role_name) values ('audit', 'app_billing')",
        "select relaybox_internal.bind_subscription('audit', 'app_billing')",
        "select relaybox_internal.bind_subscriptions(false)",
        "select * from relaybox_internal.acting_role",
        "select * from relaybox_internal.consumer_action",
        "insert into relaybox.consumer_action (subscription, action, detail) values ('billing', 'drop', '{}')",
        "delete from relaybox.consumer_action",
        "set role team_audit",
        "set session authorization app_audit",
    ],
)
def test_no_role_binds_itself(roles: World, statement: str) -> None:
    with login("app_billing") as cursor:
        assert refusal(cursor, statement)[0] == "42501"


def test_a_store_that_does_not_ask_refuses_nothing(roles: World) -> None:
    """Upgrades keep what was asked, and so does a file without the key; off again, bindings wait for the next time."""
    roles.query(STORE, "update relaybox_internal.installed_object set digest = 'older'")
    assert bind_subscriptions(roles, asked=True) == "unchanged"
    with login("app_free") as cursor:
        assert refusal(cursor, "select * from relaybox.fetch('billing')")[0] == "RB040"
        assert bind_subscriptions(roles, asked=None) == "unchanged"
        assert refusal(cursor, "select * from relaybox.fetch('billing')")[0] == "RB040"
        assert bind_subscriptions(roles, asked=False) == "switched off"
        assert bind_subscriptions(roles, asked=None) == "unchanged"
        assert ask(cursor, "select stream_position from relaybox.fetch('billing', 1)")
        assert len(ask(cursor, SEEN["dead_letters"])) == 2
        assert bind_subscriptions(roles, asked=True) == "switched on"
        assert refusal(cursor, "select * from relaybox.fetch('billing')")[0] == "RB040"
    with login("app_billing") as cursor:
        assert ask(cursor, "select lane from relaybox.lag('billing')") == [(1,)]


def test_the_python_consumer_says_what_to_do(roles: World) -> None:
    service = read_service(STORE)
    break_service(STORE, user="app_free", password="secret")
    try:
        with pytest.raises(errors.RoleNotBound, match=r"\(RB040\).* relaybox subscriptions bind hub billing app_free"):
            list(Consumer(STORE, "billing", until_empty=True))
    finally:
        break_service(STORE, user=service["user"], password=service["password"])


@pytest.mark.parametrize("view", SEEN)
def test_where_nothing_is_bound_no_binding_is_read(world: World, view: str) -> None:
    """The question is asked once for a statement, and the bindings are not touched."""
    plan = world.query(STORE, f"explain (analyze, costs off, timing off, summary off) select * from relaybox.{view}")
    lines = [line for (line,) in plan]
    reads = [line for line in lines if "Scan" in line and "subscription_role" in line]
    assert reads
    assert all("never executed" in line for line in reads), lines
    assert [line for line in lines if "InitPlan" in line], lines


OF_SECOND_CURSORS = ("billing.replay", "billing.replay-1", "never.replay-7", f"{'a' * 35}-12345678.replay")


@pytest.mark.parametrize("name", OF_SECOND_CURSORS)
def test_the_name_of_a_second_cursor_is_nobodys_to_take(roles: World, name: str) -> None:
    """Neither a subscription nor a binding can have it, so that a replay gives its messages to no other team."""
    with pytest.raises(psycopg2.Error, match="is that of a second cursor: only a replay makes such a subscription") as refused:
        roles.query(STORE, "select relaybox.subscribe(%s, 'flights')", name)
    assert refused.value.pgcode == "RB036"
    with pytest.raises(errors.RequestRefused, match=f"subscription {name} is a second cursor"):
        bind_subscription(roles.routes.store(STORE), name, "app_free")


def test_a_second_cursor_belongs_to_those_who_may_use_its_subscription(roles: World) -> None:
    """Whatever its name is, and whoever was bound to that name before; a role that may use it need not wait for it with an error."""
    roles.query(
        STORE, "insert into relaybox_internal.subscription_role (subscription, role_name) values ('billing.replay', 'app_free')"
    )
    bind(roles, "mine", "app_free")
    with login("app_billing") as cursor:
        assert refusal(cursor, "select * from relaybox.fetch('billing.replay')")[0] == "RB031"
    ask_for = "select * from relaybox_internal.ask_replay('billing', %s, '2', '5', 'why', 'ada')"
    for name in ("billing.replay", "mine"):
        roles.query(STORE, ask_for, name)
        with login("app_free") as cursor:
            assert refusal(cursor, f"select * from relaybox.fetch('{name}')")[0] == "RB040"
            for view in SEEN.values():
                assert (name,) not in ask(cursor, view)
        with login("app_billing") as cursor:
            assert len(ask(cursor, "select * from relaybox.fetch(%s, 10)", name)) == 4
            assert (name,) in ask(cursor, "select subscription from relaybox.subscriptions")


def test_a_second_cursor_has_no_name_of_another_subscription(roles: World) -> None:
    for name in ("audit.replay", "audit.replay-3", "billing.replay.replay"):
        with pytest.raises(psycopg2.Error, match=f"the name {name} is that of a second cursor of another") as refused:
            roles.query(STORE, "select * from relaybox_internal.ask_replay('billing', %s, '2', '5', 'why', 'ada')", name)
        assert refused.value.pgcode == "RB036"
        assert "Give the name billing.replay, or one that" in str(refused.value)


@pytest.mark.parametrize("subscription", ["billing", "b" * 44, "b" * 45, "b" * 60])
def test_a_replay_in_sql_and_one_in_airflow_name_second_cursors_alike(roles: World, subscription: str) -> None:
    """`relaybox replay` adds a number."""
    if subscription != "billing":
        roles.query(STORE, "select relaybox.subscribe(%s, 'flights')", subscription)
        bind(roles, subscription, "app_billing")
    name = second_cursor(subscription)
    assert roles.value(STORE, "select relaybox_internal.second_cursor_name(%s)", subscription) == name
    replaying = "select replayed_as from relaybox.replay(%s, '1', 'why', second_cursor => true)"
    number = roles.value(STORE, "select 1 + count(*) from relaybox.subscriptions where replay_of = %s", subscription)
    assert roles.value(STORE, replaying, subscription) == f"{name}-{number}"
    roles.query(STORE, "select * from relaybox_internal.ask_replay(%s, %s, '2', '5', 'why', 'ada')", subscription, name)
    with login("app_billing") as cursor:
        assert refusal(cursor, f"select * from relaybox.fetch('{name}-9')")[0] == "RB031"
        assert len(ask(cursor, "select * from relaybox.fetch(%s, 10)", name)) == 4
    with login("app_free") as cursor:
        code, _, hint = refusal(cursor, f"select * from relaybox.fetch('{name}')")
        assert (code, hint.split("subscriptions bind ")[1]) == (
            "RB040",
            f"{STORE} {subscription if len(subscription) < 44 else 'SUBSCRIPTION'} app_free",
        )


def test_a_subscription_of_before_keeps_the_name_of_a_second_cursor(roles: World) -> None:
    """Earlier versions let anyone subscribe under such a name: it is bound by its own name, not by that of another."""
    roles.query(STORE, "select relaybox.subscribe('old', 'flights')")
    roles.query(STORE, "update relaybox_internal.subscription set subscription = 'billing.replay-4' where subscription = 'old'")
    bind(roles, "billing.replay-4", "app_free")
    with login("app_free") as cursor:
        assert len(ask(cursor, "select * from relaybox.fetch('billing.replay-4', 10)")) == 10
    with login("app_billing") as cursor:
        assert refusal(cursor, "select * from relaybox.fetch('billing.replay-4')")[0] == "RB040"
