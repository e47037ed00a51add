"""`relaybox init --sql`: a script of psql leaves a store as `relaybox init` does, whoever runs it and whatever it meets."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from relaybox.stores.init import script as init_script
from relaybox.stores.schema.migrations import newest_migration
from tests.support.cli import invoke, start
from tests.support.database_dump import dump
from tests.support.init_scripts import init_by_script, picture_of, write_script
from tests.support.patience import patience
from tests.support.psql import run_psql, start_psql
from tests.support.services import break_service, read_service
from tests.support.world import STORES, World, routes_file, wait_until

pytestmark = pytest.mark.thorough

DROP = "drop schema if exists relaybox, relaybox_internal cascade"


@pytest.fixture
def empty(databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three databases without a store."""
    path = routes_file(tmp_path, route={"order": "fifo"})
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    return World(path)


def refused(done: subprocess.CompletedProcess[str], *said: str) -> None:
    """psql ended with an error that says this."""
    assert done.returncode == 3, done.stdout + done.stderr
    for words in said:
        assert words in done.stderr, done.stderr
    assert done.stdout == ""


def test_a_new_store_is_what_init_makes(empty: World, tmp_path: Path) -> None:
    """Schema, rights, comments and rows are the same, in each store; then init has nothing to do, and messages move."""
    for store in STORES:
        init_by_script(tmp_path, store, "--owner", login_name(empty, store))
    by_script = {store: picture_of(empty, store) for store in STORES}
    assert invoke("init", "--dry-run").exit_code == 0
    empty.send("a", "b")
    empty.transfer_all()
    assert empty.payloads("flights/2") == ["a", "b"]
    for store in STORES:
        empty.query(store, DROP)
    assert invoke("init").exit_code == 0
    for store in STORES:
        schema, rows = picture_of(empty, store)
        for one, other in zip(rows, by_script[store][1], strict=True):
            assert one == other
        assert schema == by_script[store][0]


def test_a_script_is_written_without_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no service file. It contains the settings of relaybox.yaml and no password."""
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none"))
    monkeypatch.setenv("PGPASSWORD", "secret-of-the-environment")
    monkeypatch.setenv("RELAYBOX_CONFIG", str(routes_file(tmp_path)))
    text = write_script(tmp_path, "hub").read_text()
    assert "-- relaybox init of store hub, as a script." in text
    assert "from 2 hops of relaybox.yaml: flights/1, flights/2" in text
    assert "psql -X -v ON_ERROR_STOP=1 -f FILE" in text
    assert "secret-of-the-environment" not in text
    assert write_script(tmp_path, "hub").read_text() == text


def test_a_store_that_is_up_to_date_is_not_changed(world: World, tmp_path: Path) -> None:
    """Not one row, and no number of a sequence."""
    world.send("a")
    world.transfer_all()
    before = {store: dump(store) for store in STORES}
    for store in STORES:
        init_by_script(tmp_path, store)
    for store in STORES:
        assert dump(store).splitlines() == before[store].splitlines()


def test_switches_retention_and_topics_are_those_of_the_file(world: World, tmp_path: Path) -> None:
    """A changed file: the script does what init would do, and init then has nothing to do."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["hub"] = {
        "bind_senders": True, "bind_subscriptions": True, "bind_topics": True, "require_approval": True,
        "durability": "provider", "durability_reason": "the provider's \\ replicas: it's quoted",
        "retention": {"replay_window_seconds": 77},
    }  # fmt: skip
    document["routes"]["flights"]["topics"] = ["flights", "o.hare"]
    world.path.write_text(yaml.safe_dump(document))
    init_by_script(tmp_path, "hub")
    assert invoke("init", "hub", "--dry-run").exit_code == 0
    assert world.value("hub", "select array_agg(topic order by topic) from relaybox_internal.stream_topic") == [
        "flights",
        "o.hare",
    ]


@pytest.mark.parametrize("options", [(), ("-1",), ("-v", "ON_ERROR_ROLLBACK=on", "-v", "AUTOCOMMIT=off", "-v", "n=1")])
def test_settings_of_the_role_and_of_psql_do_not_matter(empty: World, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Those that change how text is read, what is found by a name, and whether a transaction may write."""
    login = empty.value("hub", "select quote_ident(current_user)")
    database = empty.value("hub", "select quote_ident(current_database())")
    owner = ("--owner", login_name(empty, "hub"))
    init_by_script(tmp_path, "hub", *owner)
    before = picture_of(empty, "hub")
    empty.query("hub", DROP)
    settings = {
        "search_path": "public, pg_catalog", "standard_conforming_strings": "off", "client_encoding": "LATIN1",
        "quote_all_identifiers": "on", "default_transaction_isolation": "serializable",
        "check_function_bodies": "on", "bytea_output": "escape", "lock_timeout": "1", "row_security": "on", "default_transaction_read_only": "on",
    }  # fmt: skip
    empty.query("hub", "create function public.format(text, text) returns text language sql as 'select ''hijacked'''")
    try:
        for name, value in settings.items():
            empty.query("hub", f"alter role {login} in database {database} set {name} = {value}")
        done = run_psql(write_script(tmp_path, "hub", *owner), "hub", *options, environment={"PGCLIENTENCODING": "LATIN1"})
        assert done.returncode == 0, done.stderr
    finally:
        with empty.session("hub") as session, session.cursor() as cursor:
            cursor.execute("set transaction read write")
            cursor.execute(f"alter role {login} in database {database} reset all")
            cursor.execute("drop function public.format(text, text)")
            session.commit()
    assert picture_of(empty, "hub") == before
    assert invoke("init", "hub", "--dry-run").exit_code == 0


OWNERS = ("my_owner", 'My-"Owner"')


@pytest.mark.parametrize("owner", OWNERS)
def test_a_superuser_runs_it_for_an_owner_that_is_none(empty: World, tmp_path: Path, owner: str) -> None:
    """All that is ours belongs to the owner, who may neither make roles nor schemas. The owner repairs and upgrades it."""
    quoted = '"{}"'.format(owner.replace('"', '""'))
    superuser = read_service("hub")
    with role(empty, quoted, "login password 'secret'"):
        printed = init_by_script(tmp_path, "hub", "--owner", owner)
        assert f"store hub: owner: {quoted if owner != 'my_owner' else owner}\n" in printed
        assert "store hub: migrations: tables of version " in printed
        assert "store hub: hops: flights/1 in registered, flights/2 out registered\n" in printed
        assert owners(empty) == [owner]
        empty.query("hub", "update relaybox_internal.installed_object set digest = 'older'")
        empty.query("hub", "drop function relaybox.my_quota()")
        refused(
            run_psql(write_script(tmp_path, "hub"), "hub"),
            "is a superuser",
            f"Log in as {quoted if owner != 'my_owner' else owner} ",
        )
        empty.query("hub", "create role somebody_else")
        try:
            path = write_script(tmp_path, "hub", "--owner", "somebody_else")
            refused(run_psql(path, "hub"), "schema relaybox belongs to ", "not to somebody_else", "--owner")
        finally:
            empty.query("hub", "drop role somebody_else")
        database = empty.value("hub", "select quote_ident(current_database())")
        empty.query("hub", f"grant connect on database {database} to {quoted}")
        break_service("hub", user=owner, password="secret")
        printed = init_by_script(tmp_path, "hub")
        assert "store hub: repaired: function relaybox.my_quota() is missing\n" in printed
        assert "store hub: functions: replaced\n" in printed
        assert owners(empty) == [owner]
        assert invoke("init", "hub", "--dry-run").exit_code == 0
        break_service("hub", user=str(superuser["user"]), password=str(superuser.get("password", "")))


def login_name(world: World, store: str) -> str:
    """The superuser of the tests, as --owner."""
    return str(world.value(store, "select current_user"))


def test_a_superuser_becomes_the_owner_of_a_store_only_if_told_so(empty: World, tmp_path: Path) -> None:
    """Without --owner nothing is made, and no right is taken from PUBLIC."""
    done = run_psql(write_script(tmp_path, "hub"), "hub")
    refused(done, "is a superuser, and would own the store", "relaybox init --sql hub --owner ROLE")
    assert empty.value(
        "hub", "select to_regnamespace('relaybox') is null and has_database_privilege('public', current_database(), 'connect')"
    )
    printed = init_by_script(tmp_path, "hub", "--owner", login_name(empty, "hub"))
    assert "store hub: rights: CONNECT and TEMPORARY revoked from PUBLIC\n" in printed


def test_a_script_prints_what_it_keeps_revokes_and_repairs(world: World, tmp_path: Path) -> None:
    """The same as init: switches that the file does not have, and each right that goes with one of PUBLIC."""
    world.query("hub", "select relaybox_internal.bind_subscriptions(true)")
    with role(world, "giver", ""), role(world, "receiver", ""):
        world.query("hub", "grant usage on schema relaybox to giver; grant select on relaybox.inbox to giver with grant option")
        world.query("hub", "set role giver; grant select on relaybox.inbox to public, receiver")
        printed = init_by_script(tmp_path, "hub")
    for line in (
        "store hub: bind_subscriptions: stays on: relaybox.yaml does not have it. To switch it off, write bind_subscriptions: false",
        "store hub: repaired: PUBLIC has SELECT on view relaybox.inbox",
        "store hub: rights: revoked SELECT (grant option) on view relaybox.inbox from giver",
        "store hub: rights: revoked SELECT on view relaybox.inbox from receiver",
    ):
        assert f"{line}\n" in printed


def test_a_script_says_which_hops_in_use_it_removes(world: World, tmp_path: Path) -> None:
    """The same as init: an older relaybox.yaml may have written it. A second script has nothing to say of it, and a newer one brings it back."""
    newer = world.path.read_text()
    routes = {"cargo": {"topics": ["cargo"], "path": ["airline", "hub"]}}
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    printed = init_by_script(tmp_path, "airline")
    assert "store airline: hops: cargo/1 out registered, flights/1 out removed\n" in printed
    assert re.search(
        r"\nstore airline: hop flights/1: the relaybox.yaml of the init of 20.+ UTC by .+ has it\. If this relaybox", printed
    )
    again = init_by_script(tmp_path, "airline")
    assert "the relaybox.yaml of the init" not in again
    assert "store airline: hops:" not in again
    world.path.write_text(newer)
    assert "store airline: hops: cargo/1 out removed, flights/1 out changed\n" in init_by_script(tmp_path, "airline")


@pytest.mark.parametrize("owner", ["$refuse$", "a$file$ $waiting$ $refuse1$", "it's $$"])
def test_the_name_of_the_owner_closes_no_quote(empty: World, tmp_path: Path, owner: str) -> None:
    refused(run_psql(write_script(tmp_path, "hub", "--owner", owner), "hub"), f'there is no role "{owner}"')
    with role(empty, f'"{owner}"', ""):
        init_by_script(tmp_path, "hub", "--owner", owner)
        assert owners(empty) == [owner]


def owners(world: World) -> list[str]:
    """Of the schemas and of all in them."""
    return [
        name
        for (name,) in world.query(
            "hub",
            """
            select distinct pg_get_userbyid(o.owner)::text from (
                select c.relowner as owner from pg_class c where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
                union all
                select p.proowner from pg_proc p where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
                union all
                select n.nspowner from pg_namespace n where n.nspname in ('relaybox', 'relaybox_internal')
            ) o
            """,
        )
    ]


@contextmanager
def role(world: World, quoted: str, options: str) -> Iterator[None]:
    """A role of the hub's cluster, gone afterwards with all that it owns."""
    world.query("hub", f"create role {quoted} {options}")
    try:
        yield
    finally:
        world.query("hub", f"drop owned by {quoted} cascade")
        world.query("hub", f"drop role {quoted}")


def test_a_login_with_createrole_runs_it(owned: World, tmp_path: Path) -> None:
    """The owner of the database, no superuser: for itself, and for a role that it is a member of."""
    for store in STORES:
        init_by_script(tmp_path, store)
    assert invoke("init", "--dry-run").exit_code == 0
    owned.send("a")
    owned.transfer_all()
    assert owned.payloads("flights/2") == ["a"]
    owned.query("hub", DROP)
    owned.query("administer_hub", "create role schemas_owner")
    try:
        refused(
            run_psql(write_script(tmp_path, "hub", "--owner", "schemas_owner"), "hub"),
            "login app_owner may not SET ROLE to schemas_owner",
            "grant schemas_owner to app_owner",
        )
        owned.query("administer_hub", "grant schemas_owner to app_owner")
        init_by_script(tmp_path, "hub", "--owner", "schemas_owner")
        refused(
            run_psql(write_script(tmp_path, "hub"), "hub"), "login app_owner may do more than schemas_owner", "it has createrole"
        )
        owned.query("administer_hub", "create role deployer login password 'secret' in role schemas_owner")
        database = owned.value("administer_hub", "select quote_ident(current_database())")
        owned.query("administer_hub", f"grant connect on database {database} to schemas_owner")
        break_service("hub", user="deployer")
        init_by_script(tmp_path, "hub")
        assert (
            owned.value("hub", "select nspowner::regrole::text from pg_namespace where nspname = 'relaybox'") == "schemas_owner"
        )
        assert invoke("init", "hub", "--dry-run").exit_code == 0
    finally:
        owned.query("administer_hub", "drop role if exists deployer; drop owned by schemas_owner cascade")
        owned.query("administer_hub", "drop role schemas_owner")


REFUSALS = {
    "another store": (
        "update relaybox_internal.store set store = 'elsewhere'",
        "is already store elsewhere",
        "Correct the service",
    ),
    "newer": (
        "insert into relaybox.migration (number, name) values (999, 'later')",
        "its schema is version 999, this Relaybox knows version",
        "Install the newer Relaybox",
    ),
    "too old": (
        "delete from relaybox.migration where number >= 18",
        "This Relaybox upgrades stores from version 18 on",
        "earlier Relaybox",
    ),
    "foreign schema": (
        "drop schema relaybox, relaybox_internal cascade; create schema relaybox; create table relaybox.theirs ()",
        "has objects, but table relaybox.migration of a store is not there: table relaybox.theirs",
        "run this script again",
    ),
    "in the way": (
        """
        create view public.theirs as select subscription from relaybox.subscriptions;
        update relaybox_internal.installed_object set digest = 'older', name = 'a_former_view' where name = 'subscriptions' and kind = 'view'
        """,
        "It must drop view relaybox.subscriptions, which is not part of this version. On it depend: view public.theirs",
        "Drop or change these objects",
    ),
    "delivered": (
        "update relaybox_internal.stream set delivery_order = 'fifo', arrival_seq = 1; drop view if exists public.theirs",
        "stream flights changes its rules in its stores analytics, hub",
        "Run `relaybox init`",
    ),
    "unfinished init": ("update relaybox_internal.stream set rules_pending = true", "changes its rules", "Run `relaybox init`"),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_init_refuses_the_script_refuses(world: World, tmp_path: Path, what: str) -> None:
    """With the next step, and without a change."""
    spoil, *said = REFUSALS[what]
    world.query("hub", spoil)
    before = dump("hub")
    refused(run_psql(write_script(tmp_path, "hub"), "hub"), *said)
    assert dump("hub") == before
    assert invoke("init", "hub").exit_code != 0


def test_missing_roles_are_named_to_a_login_that_may_not_make_them(owned: World, tmp_path: Path) -> None:
    """Roles belong to the cluster: the test renames one."""
    owned.query("administer_hub", "alter role app_owner nocreaterole")
    script = write_script(tmp_path, "hub").read_text().replace("relaybox_viewer", "relaybox_unknown_viewer")
    path = tmp_path / "renamed.sql"
    path.write_text(script)
    refused(
        run_psql(path, "hub"),
        "roles are missing (relaybox_unknown_viewer)",
        "create role relaybox_unknown_viewer nologin; Then run this",
    )
    assert owned.value("hub", "select to_regnamespace('relaybox') is null")


def test_a_login_without_rights_is_told_what_it_needs(owned: World, tmp_path: Path) -> None:
    init_by_script(tmp_path, "hub")
    owned.query("administer_hub", "create role a_stranger login password 'secret'")
    owned.query("administer_hub", f"grant connect on database {owned.value('hub', 'select current_database()')} to a_stranger")
    try:
        path = write_script(tmp_path, "hub")
        done = run_psql(path, "hub", "-U", "a_stranger", environment={"PGPASSWORD": "secret"})
        refused(done, "login a_stranger does not own schema relaybox; app_owner does", "run this script again")
    finally:
        owned.query("administer_hub", "drop owned by a_stranger; drop role a_stranger")


@contextmanager
def held(world: World, statement: str) -> Iterator[Any]:
    """A transaction of the hub that ran a statement."""
    with world.session("hub") as holder, holder.cursor() as cursor:
        cursor.execute("set application_name = 'a session that hangs'")
        cursor.execute(statement)
        yield holder


def waiting_scripts(world: World) -> int:
    return int(
        world.value(
            "hub",
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and application_name = 'relaybox init' and wait_event_type in ('Lock', 'Timeout')",
        )
    )


def test_a_script_that_waited_in_vain_names_who_holds_the_store(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(init_script, "OTHER_INIT_SECONDS", 1)
    monkeypatch.setattr(init_script, "LOCK_TIMEOUT_SECONDS", 1)
    path = write_script(tmp_path, "hub")
    with held(world, "select from relaybox.migration where number = 1 for update") as holder:
        refused(run_psql(path, "hub"), "another init has held it for 1 s: a session that hangs (pid ", "pg_terminate_backend")
        holder.rollback()
    world.query("hub", "update relaybox_internal.installed_object set digest = 'older'")
    before = dump("hub")
    with held(world, "select count(*) from relaybox.inbox") as holder:
        refused(run_psql(path, "hub"), "init waited 1 s for what other transactions hold: a session that hangs (pid ")
        holder.rollback()
    assert dump("hub") == before
    assert run_psql(path, "hub").returncode == 0


def test_scripts_and_inits_of_one_store_come_one_after_the_other(
    empty: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first init of a database pauses before its commit. Two scripts wait for it, and find a store that is up to date."""
    path = write_script(tmp_path, "hub", "--owner", login_name(empty, "hub"))
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", "init.applied=pause")
    paused = start("init", "hub")
    wait_until((tmp_path / "hits.jsonl").exists, "the init has applied all")
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    scripts = [start_psql(path, "hub"), start_psql(path, "hub")]
    wait_until(lambda: waiting_scripts(empty) >= 2, "both scripts wait")
    (tmp_path / "init.applied.go").touch()
    assert paused.communicate(timeout=patience(120))[1] == ""
    for script in scripts:
        assert script.communicate(timeout=patience(120))[1] == ""
        assert script.returncode == 0
    assert invoke("init", "hub", "--dry-run").exit_code == 0
    assert empty.value("hub", "select count(*) from pg_namespace where nspname like 'relaybox_first_init%%'") == 0


def test_two_scripts_make_one_store(empty: World, tmp_path: Path) -> None:
    """In a database without a store, for an owner that may not make a schema."""
    with role(empty, "my_owner", "login"):
        path = write_script(tmp_path, "hub", "--owner", "my_owner")
        scripts = [start_psql(path, "hub") for _ in range(2)]
        told = sorted((script.communicate(timeout=patience(120))[1], script.returncode) for script in scripts)
        assert told[0] == ("", 0)
        # the second one may find a store of another role
        assert told[1] == ("", 0) or (told[1][1] == 3 and "may do more than my_owner" in told[1][0])
        assert owners(empty) == ["my_owner"]


CUTS = ("do $renew_functions$", "do $restore_rights$", "-- Hops and streams", "-- Make outbox segments")


@pytest.mark.parametrize("killed_before", CUTS)
def test_a_script_that_was_killed_changed_nothing_or_all(empty: World, tmp_path: Path, killed_before: str) -> None:
    """psql is killed while the server waits in the middle of the script. A second run ends well."""
    owner = ("--owner", login_name(empty, "hub"))
    lines = write_script(tmp_path, "hub", *owner).read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.startswith(killed_before))
    path = tmp_path / "cut.sql"
    path.write_text("".join(lines[:at]) + "select pg_catalog.pg_sleep(600);\n")
    script = start_psql(path, "hub")
    sleeping = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
    wait_until(lambda: empty.value("hub", sleeping) == 1, "the script is in the middle", deadline_seconds=60)
    script.send_signal(signal.SIGKILL)
    script.communicate(timeout=patience(60))
    empty.query(
        "hub",
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'",
    )
    wait_until(lambda: empty.value("hub", sleeping) == 0, "the server has ended the session")
    is_there = empty.value("hub", "select to_regclass('relaybox.migration') is not null")
    assert is_there == (killed_before == "-- Make outbox segments")
    init_by_script(tmp_path, "hub", *owner)
    assert invoke("init", "hub", "--dry-run").exit_code == 0


@contextmanager
def database(world: World, name: str, options: str) -> Iterator[str]:
    """One more database of the hub's cluster; how psql connects to it."""
    quoted = '"{}"'.format(name.replace('"', '""'))
    world.query("hub", f"create database {quoted} {options} lc_collate 'C' lc_ctype 'C' template template0")
    try:
        yield "hub dbname='{}'".format(name.replace("\\", r"\\").replace("'", r"\'"))
    finally:
        world.query("hub", f"drop database {quoted} with (force)")


def test_a_wrong_encoding_is_refused(world: World, tmp_path: Path) -> None:
    with database(world, "latin_store", "encoding 'LATIN1'") as service:
        done = run_psql(write_script(tmp_path, "hub", "--owner", login_name(world, "hub")), service)
        refused(done, "store hub: its encoding is LATIN1, which can't be changed", "run this script again")


def test_a_database_whose_name_needs_quotes_becomes_a_store(world: World, tmp_path: Path) -> None:
    with database(world, """o'dd "Name\"""", "encoding 'UTF8'") as service:
        for _ in range(2):
            done = run_psql(write_script(tmp_path, "hub", "--owner", login_name(world, "hub")), service)
            assert (done.returncode, done.stderr) == (0, "")


def test_wrong_usage_is_told(world: World) -> None:
    """A script is one store's, and it is all that the command writes."""
    for arguments, said in {
        ("--sql",): "name one store",
        ("--sql", "hub", "airline"): "name one store",
        ("--sql", "hub", "--json"): "not with --json",
        ("--sql", "hub", "--dry-run"): "not with --dry-run",
        ("hub", "--owner", "me"): "only with --sql",
        ("--sql", "hub", "--owner", " "): "the name of the role is empty",
        ("--sql", "hub", "--owner", "a\nb"): "the name of the role has a control character",
    }.items():
        run = invoke("init", *arguments)
        assert run.exit_code == 2
        assert said in re.sub(r"[\s│]+", " ", run.stderr + run.stdout), arguments
    assert newest_migration().number > 0
