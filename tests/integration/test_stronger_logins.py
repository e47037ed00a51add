"""A superuser who runs an init in the store of a lesser role stays the only superuser: nothing of the owner's code is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest

from relaybox import errors
from relaybox.stores.opening import open_store
from tests.support.cli import invoke
from tests.support.init_scripts import write_script
from tests.support.patience import patience
from tests.support.psql import run_psql, start_psql
from tests.support.services import break_service, read_service
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

HUB = "hub"
SUPERUSER = "administer_hub"

EVIL = """
create schema evil;
create function evil.rise() returns boolean language plpgsql volatile as $$
begin
    begin
        perform set_config('role', 'none', true);
        execute 'reset session authorization';
    exception when others then null; -- a build of an index may do neither
    end;
    begin
        execute 'alter role app_owner superuser';
    exception when insufficient_privilege then null;
    end;
    return true;
end $$;
create function evil.rise_in_trigger() returns trigger language plpgsql as $$
begin perform evil.rise(); return coalesce(new, old); end $$;
create function evil.rise_of(value text) returns text language plpgsql immutable as $$
begin perform evil.rise(); return value; end $$;
"""

TRAPS: Mapping[str, str] = {
    "trigger": """
        create trigger trap after update or insert on relaybox.migration for each statement execute function evil.rise_in_trigger()
    """,
    "view": """
        alter table relaybox.migration rename to migration_before;
        create view relaybox.migration as
            select number, name, applied_at, phase from relaybox.migration_before where evil.rise()
    """,
    "default": "alter table relaybox.migration alter column name set default evil.rise_of('x'), alter column phase set default evil.rise_of('post')",
    "index": "create index trap on relaybox.migration (evil.rise_of(name))",
    "rule": "create rule trap as on update to relaybox.migration do also select evil.rise()",
    "check": "alter table relaybox_internal.store add constraint trap check (evil.rise())",
    "domain": """
        create domain evil.trapped as text check (evil.rise());
        alter table relaybox_internal.store add column trap evil.trapped default 'x'
    """,
    "function": """
        create or replace function relaybox_internal.list_right_defects()
        returns table (kind text, identity text, defect text, statement text, is_mendable boolean)
        language plpgsql as $$ begin perform evil.rise(); return; end $$
    """,
    "search_path": """
        create function evil.count(text) returns bigint language plpgsql as $$ begin perform evil.rise(); return 0; end $$;
        create function evil.set_config(text, text, boolean) returns text language plpgsql as $$
        begin perform evil.rise(); return $2; end $$;
        create function evil.pg_has_role(oid, text) returns boolean language plpgsql as $$ begin return evil.rise(); end $$;
        create function evil.to_regclass(text) returns regclass language plpgsql as $$
        begin perform evil.rise(); return pg_catalog.to_regclass($1); end $$;
        do $$ begin execute format('alter database %%I set search_path = evil, pg_catalog', current_database()); end $$
    """,
    "operator": """
        create function evil.differs(integer, integer) returns boolean language plpgsql as $$
        begin perform evil.rise(); return $1 operator(pg_catalog.<>) $2; end $$;
        create operator evil.<> (leftarg = integer, rightarg = integer, function = evil.differs);
        create function evil.equals(text, text) returns boolean language plpgsql as $$
        begin perform evil.rise(); return $1 operator(pg_catalog.=) $2; end $$;
        create operator evil.= (leftarg = text, rightarg = text, function = evil.equals);
        create function evil.equals(oid, oid) returns boolean language plpgsql as $$
        begin perform evil.rise(); return $1 operator(pg_catalog.=) $2; end $$;
        create operator evil.= (leftarg = oid, rightarg = oid, function = evil.equals);
        create function evil.equals(name, name) returns boolean language plpgsql as $$
        begin perform evil.rise(); return $1 operator(pg_catalog.=) $2; end $$;
        create operator evil.= (leftarg = name, rightarg = name, function = evil.equals);
        grant usage on schema evil to public;
        do $$ begin execute format('alter database %%I set search_path = evil, pg_catalog', current_database()); end $$
    """,
}


@pytest.fixture
def trapped(owned: World) -> World:
    """The hub is a store of app_owner, who may do nothing but own it, and has functions that make it a superuser."""
    assert invoke("init", HUB).exit_code == 0
    owned.query(SUPERUSER, "alter role app_owner nocreaterole")
    owned.query(HUB, EVIL)
    return owned


def rose(world: World) -> bool:
    """Whether app_owner got what the traps try to give it; then it is taken back."""
    is_superuser = bool(world.value(SUPERUSER, "select rolsuper from pg_roles where rolname = 'app_owner'"))
    world.query(SUPERUSER, "alter role app_owner nosuperuser")
    return is_superuser


@contextmanager
def logged_in(**parameters: str) -> Iterator[None]:
    """The section of the hub has these parameters."""
    before = read_service(HUB)
    break_service(HUB, **parameters)
    try:
        yield
    finally:
        break_service(HUB, **{name: str(before.get(name, "")) for name in parameters})


def superuser_login() -> dict[str, str]:
    parameters = read_service(SUPERUSER)
    return {"user": str(parameters["user"]), "password": str(parameters.get("password", ""))}


@pytest.mark.parametrize("trap", TRAPS)
def test_no_code_of_the_owner_runs_as_a_superuser(trapped: World, tmp_path: Path, trap: str) -> None:
    """Init, its dry run, its script, and commands that read: each refuses, and names login and owner. The trap works, if it is run."""
    trapped.query(HUB, TRAPS[trap])
    script, for_owner = write_script(tmp_path, HUB), write_script(tmp_path, HUB, "--owner", "app_owner")
    said = "may do more than app_owner, which owns schema relaybox: it is a superuser"
    with logged_in(**superuser_login()):
        for arguments in (("init", HUB), ("init", "--dry-run", HUB)):
            done = invoke(*arguments)
            assert not rose(trapped)
            assert done.exit_code != 0
            assert said in done.stderr
            assert "Log in as app_owner" in done.stderr
        for command in ("status", "doctor hub"):
            done = invoke(*command.split())
            assert not rose(trapped), command
            assert done.exit_code != 0
    for path in (script, for_owner):
        done = run_psql(path, SUPERUSER)
        assert not rose(trapped)
        assert done.returncode == 3, done.stdout
        assert said in done.stderr
        assert "run this script again" in done.stderr


@pytest.mark.parametrize("statement", ["set session authorization app_owner", "set role app_owner"])
def test_a_superuser_is_seen_behind_another_role(trapped: World, tmp_path: Path, statement: str) -> None:
    """Code of the owner could undo both. The login that the server admitted counts."""
    trapped.query(HUB, TRAPS["trigger"])
    script = write_script(tmp_path, HUB)
    script.write_text(f"{statement};\n" + script.read_text())
    done = run_psql(script, SUPERUSER)
    assert not rose(trapped)
    assert done.returncode == 3
    assert "may do more than app_owner" in done.stderr
    with logged_in(**superuser_login(), options="-c role=app_owner"):
        assert invoke("init", HUB).exit_code != 0
        assert not rose(trapped)


@pytest.mark.parametrize("trap", [one for one in TRAPS if one not in ("view", "search_path", "operator")])
def test_the_traps_are_traps(trapped: World, trap: str) -> None:
    """A superuser who does what an init does is caught by each of them."""
    trapped.query(HUB, TRAPS[trap])
    with trapped.session(SUPERUSER) as session, session.cursor() as cursor:
        cursor.execute("set local role app_owner")
        cursor.execute(
            "insert into relaybox.migration (number) values (9999) on conflict do nothing"
        ) if trap == "default" else None
        cursor.execute("update relaybox.migration set name = name || ' '")
        cursor.execute("update relaybox_internal.store set store = store")
        cursor.execute("update relaybox_internal.store set trap = 'y'") if trap == "domain" else None
        cursor.execute("select * from relaybox_internal.list_right_defects()")
        session.commit()
    assert rose(trapped)


RIGHTS: Mapping[str, tuple[str, str]] = {
    "createrole": ("alter role deployer createrole", "it has createrole"),
    "createdb": ("alter role deployer createdb", "it has createdb"),
    "replication": ("alter role deployer replication", "it has replication"),
    "bypassrls": ("alter role deployer bypassrls", "it has bypassrls"),
    "membership": ("grant pg_read_all_data to deployer", "it has more of role pg_read_all_data (member"),
    "a role of Relaybox": ("grant relaybox_driver to deployer", "it has more of role relaybox_driver (member"),
    "admin option": (
        "grant pg_monitor to app_owner; grant pg_monitor to deployer with admin option",
        "it has more of role pg_monitor (member with admin option)",
    ),
    "own table": ("create table public.theirs (); alter table public.theirs owner to deployer", "it has rights of its own on table public.theirs"),
    "a grant": ("create table public.theirs (); grant select on public.theirs to deployer", "it has rights of its own on table public.theirs"),
}  # fmt: skip


@pytest.mark.parametrize("right", RIGHTS)
def test_a_member_of_the_owner_with_another_right_is_refused(trapped: World, tmp_path: Path, right: str) -> None:
    """Without it the same login inits, and runs the script."""
    grant, said = RIGHTS[right]
    script = write_script(tmp_path, HUB)
    trapped.query(SUPERUSER, "create role deployer login password 'secret' in role app_owner")
    try:
        with logged_in(user="deployer"):
            assert invoke("init", HUB).exit_code == 0
            assert run_psql(script, HUB).returncode == 0
            trapped.query(SUPERUSER, grant)
            done, scripted = invoke("init", HUB), run_psql(script, HUB)
        for told in (done.stderr, scripted.stderr):
            assert f"login deployer may do more than app_owner, which owns schema relaybox: {said}" in told.replace(
                "tables", "table"
            )
        trapped.query(SUPERUSER, "grant usage, create on schema public to app_owner")
    finally:
        trapped.query(
            SUPERUSER,
            "revoke pg_monitor from app_owner; drop table if exists public.theirs; drop owned by deployer; drop role deployer",
        )


def test_an_owner_who_can_not_log_in_gets_a_login(trapped: World) -> None:
    """The error has the statement that makes it."""
    trapped.query(SUPERUSER, "alter role app_owner nologin")
    with logged_in(**superuser_login()):
        done = invoke("init", HUB)
    assert "create role NAME login password '...' in role app_owner; then run: relaybox init" in done.stderr
    trapped.query(SUPERUSER, "create role deployer login password 'secret' in role app_owner")
    try:
        with logged_in(user="deployer"):
            assert invoke("init", HUB).exit_code == 0
    finally:
        trapped.query(SUPERUSER, "drop role deployer; alter role app_owner login")


def test_a_command_of_a_superuser_reads_no_store_of_a_lesser_role(trapped: World) -> None:
    store = trapped.routes.store(HUB)
    said = "is a superuser, and app_owner, which owns schema relaybox, is not"
    with logged_in(**superuser_login()), pytest.raises(errors.StoreUnusable, match=said):
        open_store(store, application_name="test")
    open_store(store, application_name="test").close()


def test_a_superuser_makes_a_store_for_a_role_that_waits_for_it(owned: World, tmp_path: Path) -> None:
    """The role replaces a function as soon as it sees the store: nothing of the script runs after that."""
    owned.query(SUPERUSER, "alter role app_owner nocreaterole")
    owned.query(HUB, EVIL)
    script = write_script(tmp_path, HUB, "--owner", "app_owner")
    text = script.read_text()
    committed = text.rindex("-- Make outbox segments.")
    first, last = tmp_path / "first.sql", tmp_path / "last.sql"
    first.write_text(text[:committed])
    last.write_text("\\set ON_ERROR_STOP on\n" + text[committed:])
    done = run_psql(first, SUPERUSER)
    assert done.returncode == 0, done.stderr
    assert owned.value(HUB, "select count(*) from relaybox_internal.segments()") > 0
    owned.query(
        HUB,
        "create or replace function relaybox_internal.ensure_outbox_segments(ahead_count integer default 4) returns text[] "
        "language plpgsql as $$ begin perform evil.rise(); return '{}'; end $$",
    )
    run_psql(last, SUPERUSER)
    assert not rose(owned)
    assert invoke("init", HUB).exit_code == 0
    refused = run_psql(script, SUPERUSER)
    assert refused.returncode == 3
    assert "may do more than app_owner" in refused.stderr


def test_a_store_that_another_role_makes_meanwhile_is_no_store_of_the_superuser(owned: World, tmp_path: Path) -> None:
    """The superuser's first init waits for the schema that keeps inits apart. The role holds it, makes a store with a trap, and lets go."""
    owned.query(SUPERUSER, "alter role app_owner nocreaterole")
    owned.query(HUB, EVIL)
    script = write_script(tmp_path, HUB, "--owner", "app_owner")
    with owned.session(HUB) as holder, holder.cursor() as cursor:
        cursor.execute("create schema relaybox_first_init_1")
        waiting = start_psql(script, SUPERUSER)
        waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        wait_until(lambda: owned.value(SUPERUSER, waits) == 1, "the script waits")
        cursor.execute(
            "drop schema relaybox_first_init_1; create schema relaybox; "
            "create view relaybox.migration as select 1 as number, ''::text as name, now() as applied_at where evil.rise()"
        )
        holder.commit()
    _, told = waiting.communicate(timeout=patience(120))
    assert waiting.returncode == 3
    assert not rose(owned)
    assert "may do more than app_owner" in told


def test_a_function_of_an_event_trigger_belongs_to_a_superuser(owned: World) -> None:
    """Another role could replace it: a superuser's init would run it."""
    owned.query(HUB, EVIL.replace("returns trigger", "returns event_trigger").replace("return coalesce(new, old);", ""))
    owned.query(SUPERUSER, "create event trigger trap on ddl_command_end execute function evil.rise_in_trigger()")
    try:
        with logged_in(**superuser_login()):
            done = invoke("init", HUB)
        assert not rose(owned)
        assert "event trigger trap runs evil.rise_in_trigger() in the statements of init, a function of app_owner" in done.stderr
        assert "alter function evil.rise_in_trigger() owner to" in done.stderr
    finally:
        owned.query(SUPERUSER, "drop event trigger trap")


@pytest.mark.parametrize("arguments", [("init", HUB), ("init", "--dry-run", HUB)])
def test_an_event_trigger_that_ends_an_init_is_named(owned: World, arguments: tuple[str, ...]) -> None:
    """With its function and the statements that let the init pass; a script names it before it begins."""
    owned.query(
        SUPERUSER,
        """
        create function public.no_ddl() returns event_trigger language plpgsql as $$ begin raise 'nobody changes tables'; end $$;
        create event trigger no_ddl on ddl_command_start execute function public.no_ddl()
        """,
    )
    owned.query(SUPERUSER, "alter event trigger no_ddl enable always")
    try:
        done = invoke(*arguments)
        assert done.exit_code != 0
        told = " ".join(done.stderr.split())
        assert "event trigger no_ddl ended init: its function public.no_ddl() raised: nobody changes tables (P0001)" in told
        disable, enable = "alter event trigger no_ddl disable; then run", "then: alter event trigger no_ddl enable always;"
        assert disable in told
        assert enable in told
        assert owned.value(HUB, "select to_regnamespace('relaybox') is null")
    finally:
        owned.query(SUPERUSER, "drop event trigger no_ddl; drop function public.no_ddl()")


def test_a_script_names_event_triggers(owned: World, tmp_path: Path) -> None:
    owned.query(
        SUPERUSER,
        """
        create function public.no_ddl() returns event_trigger language plpgsql as $$ begin raise 'nobody changes tables'; end $$;
        create event trigger no_ddl on ddl_command_start execute function public.no_ddl()
        """,
    )
    try:
        done = run_psql(write_script(tmp_path, HUB), HUB)
        assert done.returncode == 3
        assert done.stdout.startswith("event trigger no_ddl runs function public.no_ddl() in the statements of this script.")
        assert "public.no_ddl()" in done.stderr
    finally:
        owned.query(SUPERUSER, "drop event trigger no_ddl; drop function public.no_ddl()")


def test_what_another_role_may_not_grant_itself(trapped: World) -> None:
    """The function of the traps gives nothing to a login that is no superuser."""
    with trapped.session(HUB) as session, session.cursor() as cursor, pytest.raises(psycopg2.Error):
        cursor.execute("alter role app_owner superuser")
    trapped.query(HUB, "select evil.rise()")
    assert not rose(trapped)
