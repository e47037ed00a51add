"""`relaybox doctor` on a store in which one thing is wrong: the check, its severity, the exit code, and a statement that corrects it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.memory import fast_temporary_directory
from tests.support.services import break_service, read_service
from tests.support.standby import start_standby
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

EXIT_CODES = {"notice": 0, "warning": 3, "error": 1}
RELOAD = "select pg_reload_conf()"


@dataclass(frozen=True)
class Spoiling:
    """One thing that is wrong, for `{database}` of the store `hub`.

    Attributes:
        spoil: the superuser's statements.
        corrected_by: the statements that doctor gives, which the superuser runs; `relaybox init` is run as the command.
        undo: what remains of it in the cluster after the test.
    """

    check: str
    severity: str
    spoil: tuple[str, ...]
    corrected_by: tuple[str, ...]
    undo: tuple[str, ...] = ()


FUNCTION = "create function public.nothing() returns trigger language plpgsql as $$ begin return new; end $$"
EVENT_FUNCTION = "create function public.nothing() returns event_trigger language plpgsql as $$ begin end $$"

SPOILINGS: Mapping[str, Spoiling] = {
    **{
        name: Spoiling(
            check,
            severity,
            (f"alter system set {name} = {wrong}", RELOAD),
            (f"alter system set {name} = {right}", RELOAD),
            (f"alter system reset {name}", RELOAD),
        )
        for name, check, severity, wrong, right in (
            ("fsync", "durability", "error", "off", "on"),
            ("full_page_writes", "durability", "error", "off", "on"),
            ("autovacuum", "autovacuum", "warning", "off", "on"),
            ("synchronous_standby_names", "standbys", "error", "'gone'", "''"),
        )
    },
    "synchronous_commit": Spoiling(
        "durability",
        "warning",
        ("alter database {database} set synchronous_commit = off",),
        ("alter database {database} set synchronous_commit = on",),
    ),
    "a function of the WAL": Spoiling(
        "wal",
        "error",
        ("revoke execute on function pg_control_system() from public",),
        ("grant execute on function pg_control_system() to app_owner",),
    ),
    "a setting of the role": Spoiling(
        "settings",
        "notice",
        ("alter role app_owner in database {database} set DateStyle = 'German'",),
        ("alter role app_owner in database {database} reset DateStyle",),
    ),
    "an unused slot": Spoiling(
        "replication_slots",
        "warning",
        ("select pg_create_physical_replication_slot('slot_of_{database}', true)",),
        ("select pg_drop_replication_slot('slot_of_{database}')",),
    ),
    "few connections": Spoiling(
        "connections",
        "warning",
        ("alter role app_owner connection limit 1",),
        ("alter role app_owner connection limit 10",),
    ),
    "autovacuum of a table": Spoiling(
        "autovacuum",
        "warning",
        ("alter table relaybox_internal.hop_in set (autovacuum_enabled = false)",),
        ("alter table relaybox_internal.hop_in reset (autovacuum_enabled)",),
    ),
    "an extension in our schema": Spoiling(
        "extensions",
        "warning",
        ("create extension hstore schema relaybox",),
        ("alter extension hstore set schema public",),
    ),
    "an event trigger": Spoiling(
        "event_triggers",
        "warning",
        (EVENT_FUNCTION, "create event trigger watcher on ddl_command_end execute function public.nothing()"),
        ("alter event trigger watcher disable",),
    ),
    "an event trigger on dropped tables": Spoiling(
        "event_triggers",
        "warning",
        (
            EVENT_FUNCTION,
            "create event trigger watcher on sql_drop when tag in ('DROP TABLE') execute function public.nothing()",
            "alter event trigger watcher enable always",
        ),
        ("alter event trigger watcher disable",),
    ),
    "an event trigger on other commands": Spoiling(
        "event_triggers",
        "notice",
        (
            EVENT_FUNCTION,
            "create event trigger watcher on ddl_command_start when tag in ('CREATE FUNCTION') execute function public.nothing()",
        ),
        ("alter event trigger watcher disable",),
    ),
    "an unlogged segment": Spoiling(
        "unlogged",
        "error",
        ("alter table relaybox_internal.outbox_s000000 set unlogged",),
        ("alter table relaybox_internal.outbox_s000000 set logged",),
    ),
    "unlogged ledgers": Spoiling(
        "unlogged",
        "error",
        (
            "alter table relaybox_internal.held set unlogged",
            "alter table relaybox_internal.index_range set unlogged",
            "alter table relaybox_internal.seen set unlogged",
            "alter table relaybox_internal.sender_state set unlogged",  # the others refer to it
            "alter table relaybox_internal.arrival set unlogged",
        ),
        (),
    ),
    "an unlogged sequence": Spoiling(
        "unlogged",
        "error",
        ("alter sequence relaybox.outbox_seq set unlogged",),
        ("alter sequence relaybox.outbox_seq set logged",),
    ),
    "statements in the log of the server": Spoiling(
        "statement_logs",
        "notice",
        ("alter system set log_statement = 'mod'", RELOAD),
        ("alter system reset log_statement", RELOAD),
        ("alter system reset log_statement", RELOAD),
    ),
    "statements of a role in the log of the server": Spoiling(
        "statement_logs",
        "notice",
        ("alter role app_owner in database {database} set log_min_duration_statement = 0",),
        ("alter role app_owner in database {database} reset log_min_duration_statement",),
    ),
    "durability on record": Spoiling(
        "switches",
        "warning",
        ("select relaybox_internal.set_durability('provider', 'volumes of the provider')",),
        ("relaybox init hub",),
    ),
    "a trigger on the outbox and so on its segments": Spoiling(
        "foreign_objects",
        "warning",
        (FUNCTION, "create trigger mine before insert on relaybox.outbox for each row execute function public.nothing()"),
        ("drop trigger mine on relaybox.outbox",),
    ),
    "a rule": Spoiling(
        "foreign_objects",
        "warning",
        ("create rule mine as on delete to relaybox_internal.hop_out do also select 1",),
        ("drop rule mine on relaybox_internal.hop_out",),
    ),
    "a policy": Spoiling(
        "foreign_objects",
        "warning",
        ("create policy mine on relaybox_internal.hop_in using (true)",),
        ("drop policy mine on relaybox_internal.hop_in",),
    ),
    "row security": Spoiling(
        "foreign_objects",
        "warning",
        ("alter table relaybox_internal.hop_in enable row level security",),
        ("alter table relaybox_internal.hop_in disable row level security",),
    ),
    "a foreign key": Spoiling(
        "foreign_objects",
        "warning",
        ("create table public.child (log_id integer constraint mine references relaybox_internal.hop_in (log_id))",),
        ("alter table public.child drop constraint mine",),
        ("drop table public.child",),
    ),
    "a superuser": Spoiling("login", "notice", ("alter role app_owner superuser",), ()),
    "hidden statistics": Spoiling(
        "login",
        "notice",
        ("revoke pg_read_all_stats from app_owner",),
        ("grant pg_read_all_stats to app_owner",),
    ),
    "a role that the login may not make": Spoiling(
        "roles",
        "error",
        ("alter role app_owner nocreaterole", "alter role relaybox_driver rename to renamed_driver"),
        ("create role relaybox_driver nologin", "relaybox init"),
        (
            "do $$ begin if to_regrole('relaybox_driver') is not null then drop owned by relaybox_driver; end if; end $$",
            *("drop role if exists relaybox_driver", "alter role renamed_driver rename to relaybox_driver"),
        ),
    ),
    "a right": Spoiling(
        "rights",
        "error",
        ("revoke select on relaybox.inbox from relaybox_consumer",),
        ("relaybox init",),
    ),
    "a function": Spoiling(
        "objects",
        "error",
        ("alter function relaybox.ack(text, bigint, text) reset search_path",),
        ("relaybox init",),
    ),
    "functions of another version": Spoiling(
        "functions",
        "error",
        ("update relaybox_internal.installed_object set digest = 'other' where name = 'lag'",),
        ("relaybox init",),
    ),
    "a default of the outbox": Spoiling(
        "tables",
        "error",
        ("alter table relaybox.outbox alter column xid set default '3'",),
        ("relaybox init",),
    ),
    "a foreign key that is switched off": Spoiling(
        "tables",
        "error",
        ("alter table relaybox_internal.receipt disable trigger all",),
        ("alter table relaybox_internal.receipt enable trigger all",),
    ),
    "a constraint of others": Spoiling(
        "tables",
        "warning",
        ("alter table relaybox_internal.hop_out add constraint mine check (hop <> 'x')",),
        ("alter table relaybox_internal.hop_out drop constraint mine",),
    ),
    "a trigger with a function in our schema": Spoiling(
        "foreign_objects",
        "warning",
        (
            "create function relaybox.nothing() returns trigger language plpgsql as $$ begin return null; end $$",
            "create trigger mine before insert on relaybox_internal.log_1 for each row execute function relaybox.nothing()",
        ),
        ("drop trigger mine on relaybox_internal.log_1",),
        ("drop function relaybox.nothing()",),
    ),
    "a policy of a log with the name of ours": Spoiling(
        "foreign_objects",
        "warning",
        ("create policy role_is_bound_to_sender on relaybox_internal.log_1 using (false)",),
        ("drop policy role_is_bound_to_sender on relaybox_internal.log_1",),
    ),
    "a function of another owner": Spoiling(
        "rights",
        "error",
        ("alter function relaybox.ack(text, bigint, text) owner to current_user",),
        ("alter function relaybox.ack(text,bigint,text) owner to app_owner",),
    ),
    "schemas of another owner": Spoiling(
        "owner",
        "error",
        (
            "alter schema relaybox owner to current_user",
            "alter schema relaybox_internal owner to current_user",
            "grant usage on schema relaybox, relaybox_internal to app_owner",
        ),
        ("alter schema relaybox owner to app_owner", "alter schema relaybox_internal owner to app_owner"),
    ),
    "one schema of another owner": Spoiling(
        "owner",
        "error",
        ("alter schema relaybox_internal owner to current_user", "grant usage on schema relaybox_internal to app_owner"),
        ("alter schema relaybox_internal owner to app_owner",),
    ),
}  # fmt: skip


@pytest.fixture
def store(owned: World) -> World:
    """The store `hub`, of an owner that is no superuser; doctor has nothing to say of it but that the disk is not known."""
    owned.query("administer_hub", "grant pg_read_all_stats to app_owner")
    initialise_store(owned.routes.store("hub"), owned.routes)
    return owned


@pytest.mark.parametrize("name", SPOILINGS)
def test_one_spoiled_thing_is_named_and_its_statement_corrects_it(store: World, name: str) -> None:
    """No other check than the spoiled one finds anything, before and after."""
    spoiling = SPOILINGS[name]
    database = store.value("hub", "select current_database()")

    def administer(statements: tuple[str, ...]) -> None:
        for statement in statements:
            if statement.startswith("relaybox "):
                assert invoke(*statement.split()[1:]).exit_code == 0
            else:
                store.query("administer_hub", statement.replace("{database}", database))

    assert _found() == (0, [])
    try:
        administer(spoiling.spoil)
        wait_until(lambda: _found()[1] != [], "the setting is in force")
        code, found = _found()
        assert code == EXIT_CODES[spoiling.severity]
        assert {(one["check"], one["severity"]) for one in found} == {(spoiling.check, spoiling.severity)}
        (result,) = found
        for statement in spoiling.corrected_by:
            assert statement.replace("{database}", database) in result["next_step"]
        if spoiling.check == "unlogged":  # several statements, in an order that foreign keys allow
            administer(tuple(result["next_step"].partition(": ")[2].removesuffix(";").split("; ")))
            wait_until(lambda: _found()[1] == [], "the statements corrected it")
        elif spoiling.corrected_by:
            administer(spoiling.corrected_by)
            wait_until(lambda: _found()[1] == [], "the statement corrected it")
    finally:
        administer(spoiling.undo)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_pooler_is_named(world: World, clusters: Mapping[str, Cluster], mode: str) -> None:
    with _changed_service(), _running(PgBouncer(clusters["hub"], mode)) as pooler:
        break_service("hub", port=str(pooler.port))
        code, found = _found()
    assert code == 1
    (result,) = [one for one in found if one["check"] in {"pooler", "connection"}]
    assert result["severity"] == "error"
    assert "section [hub] of the service file" in result["next_step"]


def test_a_standby_is_named(world: World, clusters: Mapping[str, Cluster]) -> None:
    with fast_temporary_directory("standby") as directory, _changed_service():
        standby = start_standby(clusters["hub"], Path(directory) / "standby")
        try:
            break_service("hub", port=str(standby.port))
            code, found = _found()
        finally:
            standby.remove()
    assert code == 1
    (result,) = [one for one in found if one["severity"] == "error"]
    assert result["check"] == "primary"
    assert "target_session_attrs=read-write" in result["next_step"]


@contextmanager
def _changed_service() -> Iterator[None]:
    before = read_service("hub")["port"]
    try:
        yield
    finally:
        break_service("hub", port=before)


@contextmanager
def _running(pooler: PgBouncer) -> Iterator[PgBouncer]:
    try:
        pooler.start()
        yield pooler
    finally:
        pooler.remove()


def _found() -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and all results that are not ok, but for the disk of the server."""
    run = invoke("doctor", "hub", "--json")
    (store,) = json.loads(run.stdout)["stores"]
    return run.exit_code, [one for one in store["results"] if one["severity"] != "ok" and one["check"] != "disk"]
