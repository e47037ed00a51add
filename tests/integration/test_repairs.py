"""What was dropped, replaced, revoked or left out by a dump: `relaybox doctor` names it, `relaybox init` repairs it, nothing else changes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg2
import pytest

from relaybox import errors
from relaybox.local.clusters import Cluster, postgres_binaries
from relaybox.stores.init.one_store import StoreInitialised, init_transaction, initialise_store, make_way
from relaybox.stores.init.server import ROLES
from relaybox.stores.schema import object_defects
from relaybox.stores.schema.functions import read_files
from relaybox.stores.schema.object_defects import StoreDefects, find_defects
from relaybox.stores.schema.sql_files import sql_directory
from relaybox.stores.sessions.settings import pin_settings, session_settings
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.cli import invoke
from tests.support.init_scripts import init_by_script
from tests.support.patience import patience
from tests.support.services import break_service, read_service
from tests.support.world import World

pytestmark = pytest.mark.thorough

STORE = "hub"

RIGHTS = """
with ours as (select n.oid from pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal'))
select r.what, a.privilege_type, a.grantee::regrole::text as grantee, r.statement
from (
    select c.oid::regclass::text as what, format('revoke {what} on %s %s from {whom}', case c.relkind when 'S' then 'sequence' else 'table' end,
        c.oid::regclass) as statement, c.relacl as acl
    from pg_class c where c.relnamespace in (select oid from ours)
    union all
    select format('%s.%s', t.attrelid::regclass, t.attname), format('revoke {what} (%I) on table %s from {whom}', t.attname, t.attrelid::regclass),
        t.attacl
    from pg_attribute t join pg_class c on c.oid = t.attrelid where c.relnamespace in (select oid from ours) and t.attnum > 0
    union all
    select p.oid::regprocedure::text, format('revoke {what} on function %s from {whom}', p.oid::regprocedure), p.proacl
    from pg_proc p where p.pronamespace in (select oid from ours)
    union all
    select n.nspname, format('revoke {what} on schema %s from {whom}', n.nspname), n.nspacl from pg_namespace n where n.oid in (select oid from ours)
    union all
    select 'new tables in ' || n.nspname,
        format('alter default privileges for role %s in schema %s revoke {what} on tables from {whom}', d.defaclrole::regrole, n.nspname), d.defaclacl
    from pg_default_acl d join pg_namespace n on n.oid = d.defaclnamespace where n.oid in (select oid from ours)
) r
cross join aclexplode(r.acl) a
where a.grantee::regrole::text ~ '^relaybox_' or a.grantee = 0
order by 1, 2, 3
"""
"""Every right of a role of Relaybox, and of PUBLIC, as the catalog has it; and the statement that takes it."""

Right = tuple[str, str, str, str]


def read_rights(world: World, store: str = STORE) -> list[Right]:
    with world.session(store) as session, session.cursor() as cursor:
        cursor.execute("set search_path = pg_catalog")
        cursor.execute(RIGHTS)
        return [(*row[:3], row[3].format(what=row[1], whom=row[2])) for row in cursor.fetchall()]


def init(world: World, store: str = STORE) -> StoreInitialised:
    return initialise_store(world.routes.store(store), world.routes)


def defects(world: World, store: str = STORE) -> StoreDefects:
    with world.session(store) as connection:
        pin_settings(connection, session_settings(), store=store)
        return find_defects(StoreSession(connection, store))


def named(found: StoreDefects) -> list[str]:
    assert found.rights is not None
    return [*found.objects, *(one.defect for one in found.rights)]


def test_each_right_that_is_revoked_is_named_and_given_back(world: World) -> None:
    """Every right that the catalog of a store with messages has, at most one of an object at once; after it the catalog is as before."""
    world.send("a")
    world.transfer_all()
    rights = read_rights(world)
    assert len(rights) > 1500
    assert {grantee for _, _, grantee, _ in rights} == set(ROLES) - {"relaybox_operator"}
    with world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute("set search_path = pg_catalog")
        for revoked in _one_of_each_object(rights):
            for *_, statement in revoked:
                cursor.execute(statement)
            cursor.execute("select defect, statement, is_mendable from relaybox_internal.list_right_defects()")
            found = cursor.fetchall()
            assert len(found) == len(revoked)
            assert {tuple(defect.split(" ")[:3:2]) for defect, *_ in found} == {
                (grantee, privilege) for _, privilege, grantee, _ in revoked
            }
            for _, statement, is_mendable in found:
                assert is_mendable
                cursor.execute(statement)
        session.commit()
    assert read_rights(world) == rights


def _one_of_each_object(rights: list[Right]) -> Iterator[list[Right]]:
    """The rights in rounds: the first right of each object, the second one of each object that has two, and so on."""
    left = rights
    while left:
        chosen = list({right[0]: right for right in left}.values())
        yield chosen
        left = [right for right in left if right not in chosen]


def test_all_rights_at_once_are_named_and_given_back_by_init(world: World) -> None:
    """Doctor names ten of them and how many more; init names all in its JSON; a dry run too, and changes nothing."""
    rights = read_rights(world)
    for *_, statement in rights:
        world.query(STORE, statement)
    assert read_rights(world) == []
    (result,) = [one for one in _doctor(1) if one["check"] == "rights"]
    assert result["severity"] == "error"
    assert re.search(rf"; and {len(rights) - object_defects.SHOWN_DEFECTS:,} more\.$", result["what"])
    assert result["next_step"] == "Run: relaybox init"
    planned = invoke("init", "--dry-run", "--json", STORE)
    assert (planned.exit_code, read_rights(world)) == (1, [])
    told = " ".join(invoke("init", "--dry-run", STORE).stdout.split())
    assert re.search(rf"repaired: relaybox_\w+ lacks .*; and {len(rights) - object_defects.SHOWN_DEFECTS:,} more$", told)
    done = invoke("init", "--json", STORE).document["stores"][0]
    assert done["repaired"] == planned.document["stores"][0]["repaired"]
    assert len(done["repaired"]) == len(rights)
    assert done["changed"]
    assert not done["functions_renewed"]
    assert read_rights(world) == rights
    assert [one for one in _doctor(0) if one["check"] == "rights"] == []
    assert not init(world).changed


def _doctor(exit_code: int) -> list[Mapping[str, str]]:
    done = invoke("doctor", "--json", STORE)
    assert done.exit_code == exit_code, done.stdout
    (store,) = done.document["stores"]
    return [one for one in store["results"] if one["severity"] in ("warning", "error")]


STUBS = """
select o.kind, o.identity, case o.kind
    when 'view' then (
        select format('create or replace view %s as select %s where false', o.identity, string_agg(
            format('null::%s as %I', format_type(t.atttypid, t.atttypmod), t.attname), ', ' order by t.attnum
        ))
        from pg_attribute t where t.attrelid = to_regclass(o.identity) and t.attnum > 0 and not t.attisdropped
    )
    else regexp_replace(
        pg_get_functiondef(to_regprocedure(o.identity)), '\\$function\\$.*\\$function\\$', '$function$ select 1 $function$'
    )
end
from relaybox_internal.installed_object o order by o.identity
"""


def test_each_object_that_is_replaced_is_named_and_repaired(world: World) -> None:
    """Every function and view file: each is a stub with the same signature and columns."""
    world.send("before")
    rights = read_rights(world)
    with world.session(STORE) as session, session.cursor() as cursor:
        pin_settings(session, session_settings(), store=STORE)
        store = StoreSession(session, STORE)
        cursor.execute("set check_function_bodies = off")
        cursor.execute(STUBS)
        stubs = cursor.fetchall()
        assert len(stubs) == len(read_files(sql_directory()))
        for _, _, stub in stubs:
            cursor.execute(stub)
        assert set(find_defects(store).objects) == {
            f"{kind} {_shown(identity)} is not as init made it" for kind, identity, _ in stubs
        }
        session.commit()
    (objects, judges) = [one for one in _doctor(1) if one["check"] in ("objects", "rights")]
    assert f"and {len(stubs) - object_defects.SHOWN_DEFECTS} more" in objects["what"]
    assert judges["what"] == "The functions that know the rights are not as init made them."
    done = init(world)
    assert set(done.repaired) == {f"{kind} {_shown(identity)} is not as init made it" for kind, identity, _ in stubs}
    assert named(defects(world)) == []
    assert read_rights(world) == rights
    world.transfer_all()
    assert world.payloads("flights/2") == ["before"]
    assert not init(world).changed


def _shown(identity: str) -> str:
    return identity.replace("pg_catalog.", "")


def test_dropped_objects_are_made_again_with_their_rights(world: World) -> None:
    """All functions and views, but for a few on which others depend: of those each is named."""
    world.send("before")
    rights = read_rights(world)
    dropped = []
    for kind, identity in world.query(STORE, "select kind, identity from relaybox_internal.installed_object order by 2"):
        try:
            world.query(STORE, f"drop {kind} {identity}")
        except psycopg2.errors.DependentObjectsStillExist:
            with world.session(STORE) as session, session.cursor() as cursor:
                pin_settings(session, session_settings(), store=STORE)
                cursor.execute(f"drop {kind} {identity} cascade")
                assert f"{kind} {_shown(identity)} is missing" in find_defects(StoreSession(session, STORE)).objects
            continue
        dropped.append(f"{kind} {_shown(identity)} is missing")
    assert len(dropped) > 380
    assert [one["check"] for one in _doctor(1) if one["check"] in ("objects", "rights")] == ["objects", "rights"]
    assert set(init(world).repaired) == set(dropped)
    assert read_rights(world) == rights
    world.transfer_all()
    assert world.payloads("flights/2") == ["before"]
    assert not init(world).changed


@pytest.mark.parametrize(
    ("change", "what"),
    {
        "alter function relaybox.ack(text, bigint, text) reset search_path": "function relaybox.ack(",
        "alter function relaybox.ack(text, bigint, text) security invoker": "function relaybox.ack(",
        "alter function relaybox.lag(text) volatile parallel unsafe leakproof": "function relaybox.lag(",
        "alter view relaybox.dead_letters reset (security_barrier)": "view relaybox.dead_letters ",
        "alter view relaybox.inbox set (security_barrier = false)": "view relaybox.inbox ",
        "drop function relaybox.lag(text); create function relaybox.lag(text) returns integer language sql as 'select 1'": (
            "function relaybox.lag(text) "
        ),
        "grant execute on function relaybox.fetch(text, integer, bigint, text, integer, text) to public": (
            'PUBLIC has EXECUTE on function relaybox."fetch"('
        ),
        "grant execute on function relaybox.new_message_id() to public": "PUBLIC has EXECUTE on function relaybox.new_message_id()",
        "grant select (payload) on relaybox.outbox to public": "PUBLIC has SELECT (payload) on table relaybox.outbox",
        "grant select on relaybox_internal.outbox_s000000 to public": "PUBLIC has SELECT on table relaybox_internal.outbox_s000000",
        "grant usage on schema relaybox_internal to public": "PUBLIC has USAGE on schema relaybox_internal",
        "alter default privileges in schema relaybox_internal grant select on tables to public": (
            "PUBLIC has SELECT on new tables in schema relaybox_internal"
        ),
        "grant select on relaybox.inbox to teller with grant option; set role teller; grant select on relaybox.inbox to public": (
            "PUBLIC has SELECT on view relaybox.inbox"
        ),
        "alter function relaybox.ack(text, bigint, text) owner to teller": "function relaybox.ack(text, bigint, text) belongs to",
        "alter table relaybox_internal.hop_in owner to teller": "table relaybox_internal.hop_in belongs to teller",
        "alter view relaybox.inbox owner to teller": "view relaybox.inbox belongs to teller",
        "alter table relaybox_internal.outbox_s000000 owner to teller": "table relaybox_internal.outbox_s000000 belongs to teller",
    }.items(),
)
def test_one_change_by_hand_is_named_and_undone(world: World, teller: str, change: str, what: str) -> None:
    """Rights of the role `teller`, which belongs to the user, stay."""
    world.query(STORE, f"grant select on relaybox.inbox, relaybox_internal.hop_out to {teller}")
    assert named(defects(world)) == []
    before = read_rights(world)
    world.query(STORE, change.replace("teller", teller))
    (found,) = named(defects(world))
    assert found.startswith(what.replace("teller", teller)) or found.replace(",", ", ").startswith(what)
    assert [one["severity"] for one in _doctor(1) if one["check"] in ("objects", "rights")] == ["error"]
    revoked = (f"revoked SELECT (grant option) on view relaybox.inbox from {teller}",) if "grant option" in change else ()
    assert init(world).repaired == (found, *revoked)
    assert named(defects(world)) == []
    assert read_rights(world) == before
    kept = "select has_table_privilege(%s, 'relaybox.inbox', 'select') and has_table_privilege(%s, 'relaybox_internal.hop_out', 'select')"
    # of what a role owned, Postgres keeps no right for it when it goes to another owner
    assert world.value(STORE, kept, teller, teller) or "inbox owner to" in change
    assert not init(world).changed


@pytest.fixture
def teller(world: World) -> Iterator[str]:
    """A role of the user."""
    role = f"teller_{os.getpid()}"
    world.query(STORE, f"create role {role}; grant usage, create on schema relaybox, relaybox_internal to {role}")
    yield role
    world.query(STORE, f"reassign owned by {role} to current_user; drop owned by {role}; drop role {role}")


def test_what_the_owner_can_not_take_back_is_an_error_with_the_statement(owned: World) -> None:
    """A function that belongs to a superuser: an init of the owner changes nothing, and says what a superuser runs."""
    init(owned)
    superuser = f"administer_{STORE}"
    owned.query(superuser, "alter function relaybox.lag(text) owner to current_user")
    owned.query(superuser, "revoke select on relaybox.inbox from relaybox_consumer")
    (result,) = [one for one in _doctor(1) if "As a superuser" in one["next_step"]]
    with pytest.raises(errors.StoreUnusable, match=r"function relaybox.lag\(text\) belongs to \w+, not to app_owner") as refused:
        init(owned)
    statement = "alter function relaybox.lag(text) owner to app_owner"
    assert f"As a superuser: {statement}" in refused.value.next_step
    assert statement in result["next_step"]
    assert not owned.value(superuser, "select has_table_privilege('relaybox_consumer', 'relaybox.inbox', 'select')")
    owned.query(superuser, statement)
    assert init(owned).repaired == ("relaybox_consumer lacks SELECT on view relaybox.inbox",)


@pytest.mark.parametrize("role", ["relaybox_driver", "relaybox_viewer", "relaybox_reader"])
def test_doctor_judges_with_the_login_of_each_role_that_looks(owned: World, role: str) -> None:
    """Drivers, viewers and readers see a right that is missing, and a function that was changed; none of them may repair it."""
    init(owned)
    login = f"looking_{os.getpid()}"
    owned.query(f"administer_{STORE}", f"create role {login} login password 'p' in role {role}, pg_read_all_stats")
    try:
        break_service(STORE, user=login, password="p")
        assert [one for one in _results() if one["check"] in ("objects", "rights") and one["severity"] != "ok"] == []
        owned.query(f"administer_{STORE}", "revoke select on relaybox.inbox from relaybox_consumer")
        owned.query(f"administer_{STORE}", "alter function relaybox.lag(text) volatile")
        told = {one["check"]: (one["severity"], one["what"], one["next_step"]) for one in _results()}
        missing = "Rights that are not as init gave them: relaybox_consumer lacks SELECT on view relaybox.inbox."
        assert told["rights"] == ("error", missing, "Run: relaybox init")
        assert told["objects"] == (
            "error",
            "Changed since init: function relaybox.lag(text) is not as init made it.",
            "Run: relaybox init",
        )
        owned.query(f"administer_{STORE}", f"revoke execute on function relaybox_internal.list_right_defects() from {role}")
        told = {one["check"]: (one["severity"], one["what"], one["next_step"]) for one in _results()}
        assert told["rights"][0] == "error"
        assert "could not be checked" in told["rights"][1]
    finally:
        owned.query(f"administer_{STORE}", f"drop role {login}")


def _results() -> list[Mapping[str, str]]:
    (store,) = invoke("doctor", "--json", STORE).document["stores"]
    return list(store["results"])


def test_a_segment_that_retention_drops_meanwhile_stops_no_repair(world: World) -> None:
    """It was listed with a missing right, and is gone when its turn comes."""
    for number in (0, 1, 2):
        world.query(STORE, f"revoke select on relaybox_internal.outbox_s00000{number} from relaybox_reader")
    world.query(
        STORE,
        """
        create function public.drop_segment() returns event_trigger language plpgsql as $$
        begin drop table if exists relaybox_internal.outbox_s000001; end $$;
        create event trigger drop_segment on ddl_command_start when tag in ('GRANT') execute function public.drop_segment()
        """,
    )
    assert len(init(world).repaired) == 3
    assert world.value(STORE, "select to_regclass('relaybox_internal.outbox_s000001')") is None
    world.query(STORE, "drop event trigger drop_segment")
    assert named(defects(world)) == []


def test_rights_that_go_with_a_right_of_public_are_named(world: World, teller: str) -> None:
    """`teller` granted on what it had with the grant option. Taking the right from PUBLIC takes it from the others too: a dry run says so."""
    other = f"other_{teller}"
    world.query(STORE, f"create role {other}")
    try:
        world.query(STORE, f"grant select on relaybox.inbox to {teller} with grant option")
        world.query(STORE, f"set role {teller}; grant select on relaybox.inbox to public, {other}")
        revoked = (
            f"revoked SELECT (grant option) on view relaybox.inbox from {teller}",
            f"revoked SELECT on view relaybox.inbox from {other}",
        )
        (planned,) = invoke("init", "--dry-run", "--json", STORE).document["stores"]
        assert tuple(planned["repaired"]) == ("PUBLIC has SELECT on view relaybox.inbox", *revoked)
        assert world.value(STORE, "select has_table_privilege(%s, 'relaybox.inbox', 'select')", other)
        assert init(world).repaired == ("PUBLIC has SELECT on view relaybox.inbox", *revoked)
        assert not world.value(STORE, "select has_table_privilege(%s, 'relaybox.inbox', 'select')", other)
    finally:
        world.query(STORE, f"drop owned by {other}; drop role {other}")


def test_a_superuser_is_sent_to_the_owner_s_login(owned: World) -> None:
    """Neither init nor a command that reads runs a function of the owner with the rights of a superuser; the owner's init repairs."""
    init(owned)
    owned.query(STORE, "drop function relaybox.lag(text)")
    administrator = read_service(f"administer_{STORE}")
    break_service(STORE, user=administrator["user"], password=administrator.get("password", ""))
    with pytest.raises(
        errors.StoreUnusable, match="may do more than app_owner, which owns schema relaybox: it is a superuser"
    ) as refused:
        init(owned)
    assert "Log in as app_owner (user=app_owner in the service file); then run: relaybox init" in refused.value.next_step
    for command in ("status", "doctor"):
        done = invoke(command)
        assert done.exit_code != 0
        assert "is a superuser, and app_owner, which owns schema relaybox, is not" in " ".join(
            (done.stdout + done.stderr).split()
        )
    break_service(STORE, user="app_owner", password="secret")
    assert init(owned).repaired == ("function relaybox.lag(text) is missing",)


def test_a_dump_without_rights_is_seen_and_repaired(world: World, clusters: Mapping[str, Cluster]) -> None:
    """pg_dump -x of a store with messages: every function has EXECUTE for PUBLIC, no role has a right. Then a hop moves on."""
    world.send("a", "b")
    world.transfer_all()
    rights = read_rights(world, "analytics")
    _reload_without_rights(world, clusters["analytics"])
    public = {right[:3] for right in read_rights(world, "analytics")}
    assert public == set()
    found = defects(world, "analytics")
    assert found.objects == ()
    assert {one.kind for one in found.rights or ()} == {"missing", "public"}
    done = invoke("doctor", "--json", "analytics")
    assert done.exit_code == 1
    assert {one["check"] for one in done.document["stores"][0]["results"] if one["severity"] == "error"} == {"rights"}
    repaired = init(world, "analytics").repaired
    assert "PUBLIC has EXECUTE on function relaybox.ack(text,bigint,text)" in repaired
    assert "relaybox_consumer lacks SELECT on view relaybox.inbox" in repaired
    assert "relaybox_reader lacks SELECT on new tables in schema relaybox_internal" in repaired
    assert read_rights(world, "analytics") == rights
    world.send("c")
    world.transfer_all()
    assert world.payloads("flights/2") == ["a", "b", "c"]
    assert not init(world, "analytics").changed


def _reload_without_rights(world: World, cluster: Cluster) -> None:
    """Dumps the store `analytics` without rights into a database of the same name."""
    database = world.value("analytics", "select current_database()")
    parameters = cluster.parameters(database)
    environment = {**os.environ, "PGPASSWORD": parameters.get("password", "")}
    login = ["--host", str(parameters["host"]), "--port", str(parameters["port"]), "--username", str(parameters["user"])]

    def run(program: str, *arguments: str, text: str | None = None) -> str:
        command = [str(postgres_binaries() / program), *login, *arguments]
        return subprocess.run(
            command, env=environment, input=text, capture_output=True, text=True, check=True, timeout=patience(120)
        ).stdout

    dumped = run("pg_dump", "--no-privileges", database)
    run("psql", "--dbname", "postgres", "--command", f"drop database {database} with (force)")
    run("psql", "--dbname", "postgres", "--command", f"create database {database}")
    run("psql", "--dbname", database, "--quiet", "--set", "ON_ERROR_STOP=1", text=dumped)


def test_a_view_that_is_made_again_is_locked_before_anything_changes(world: World) -> None:
    """As a view whose file changed: an init takes all its locks at once, or none."""
    world.query(STORE, "alter view relaybox.dead_letters reset (security_barrier)")
    locked = """
        select l.relation::regclass::text from pg_locks l join pg_class c on c.oid = l.relation
        where l.pid = pg_backend_pid() and l.mode = 'AccessExclusiveLock' and c.relkind = 'v'
    """
    with init_transaction(world.routes.store(STORE)) as session:
        make_way(session)
        # to lock a view locks the views that it reads
        assert set(session.values(locked)) >= {"relaybox.dead_letters"}
        session.rollback()
    assert init(world).repaired == ("view relaybox.dead_letters is not as init made it",)
    with init_transaction(world.routes.store(STORE)) as session:
        make_way(session)
        assert session.values(locked) == []


def test_a_script_of_init_repairs_the_same(world: World, tmp_path: Path) -> None:
    """`relaybox init --sql`: a function that was replaced, a view that was dropped, rights, PUBLIC; and what it can't repair."""
    rights = read_rights(world)
    for statement in (
        "alter function relaybox.ack(text, bigint, text) reset search_path",
        "drop view relaybox.replay_ranges",
        "alter view relaybox.dead_letters reset (security_barrier)",
        "revoke select on relaybox.inbox from relaybox_consumer",
        "grant execute on function relaybox.lag(text) to public",
    ):
        world.query(STORE, statement)
    init_by_script(tmp_path, STORE)
    assert named(defects(world)) == []
    assert read_rights(world) == rights
    assert not init(world).changed


def test_a_view_that_another_version_of_postgres_made_is_made_again_once(world: World) -> None:
    """Each version writes views in its own way: after pg_upgrade no view counts as changed. Functions are judged on every version."""
    world.query(STORE, "update relaybox_internal.installed_object set made_on = 13, definition = 'x' where kind = 'view'")
    world.query(STORE, "update relaybox_internal.installed_object set made_on = 13 where kind = 'function'")
    found = defects(world)
    views = world.value(STORE, "select count(*) from relaybox_internal.installed_object where kind = 'view'")
    assert (named(found), len(found.unrecorded)) == ([], views)
    assert _doctor(0) == []
    done = init(world)
    assert (done.functions_renewed, done.repaired) == (True, ())
    assert (defects(world).unrecorded, init(world).changed) == ((), False)


def test_a_right_on_the_database_is_named_and_the_owner_s_init_gives_it(owned: World) -> None:
    """`connect`, where PUBLIC has it no more."""
    init(owned)
    database = owned.value(STORE, "select current_database()")
    owned.query(STORE, f"revoke connect on database {database} from relaybox_viewer")
    assert named(defects(owned)) == [f"relaybox_viewer lacks CONNECT on database {database}"]
    assert init(owned).repaired == (f"relaybox_viewer lacks CONNECT on database {database}",)
    owned.query(f"administer_{STORE}", f"revoke connect on database {database} from relaybox_viewer")
    owned.query(
        f"administer_{STORE}",
        f"alter database {database} owner to current_user; grant connect on database {database} to app_owner",
    )
    assert init(owned).repaired == ()
    (result,) = [one for one in _doctor(1) if one["check"] == "rights"]
    assert result["next_step"] == f"As the owner of the database: grant connect on database {database} to relaybox_viewer;"


def test_every_table_is_in_the_list_of_rights(world: World) -> None:
    """A table that is not in the list is granted to nobody: each of a new store is in it, for readers and for drivers."""
    tables = """
        select c.oid::regclass::text from pg_class c where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            and c.relkind in ('r', 'p') order by 1
    """
    listed = """
        select distinct object::regclass::text from relaybox_internal.list_role_rights()
        where kind = 'relation' and column_name is null and privilege = 'SELECT' and grantee = %s order by 1
    """
    for role in ("relaybox_reader", "relaybox_driver"):
        granted = {table for (table,) in world.query(STORE, listed, role)}
        assert {table for (table,) in world.query(STORE, tables)} - granted == set(), role


def test_a_thousand_segments_cost_an_init_and_doctor_little(world: World) -> None:
    """Medians of one run, in turn: the same store without and with 1,000 segments that were made later; none of them lacks a right."""
    few = _median_seconds(world)
    world.query(STORE, "select relaybox_internal.ensure_outbox_segments(1000)")
    assert world.value(STORE, "select count(*) from relaybox_internal.segments() where log_id is null") >= 1000
    assert named(defects(world)) == []
    many = _median_seconds(world)
    print(f"few {few:.3f} s, many {many:.3f} s, ratio {many / few:.2f}")
    assert many / few < 5


def _median_seconds(world: World) -> float:
    def once() -> float:
        begun = time.perf_counter()
        defects(world)
        return time.perf_counter() - begun

    return sorted(once() for _ in range(7))[3]
