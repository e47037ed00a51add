"""`relaybox init`: the schema of a store, applied once, upgraded in place, and shown in sql/schema.sql as it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.local.clusters import Cluster
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.opening import open_store
from relaybox.stores.schema import migrations
from relaybox.stores.schema.migrations import newest_migration, oldest_version
from relaybox.stores.schema.sql_files import sql_directory
from tests.support.schema_dump import DUMP, dump_schema, expected_dump
from tests.support.world import World, routes_file


def test_init_says_what_it_did_and_does_nothing_the_second_time(
    databases: Mapping[str, Mapping[str, str]], tmp_path: Path
) -> None:
    """First run: tables, functions, segments, hops. Second run: nothing."""
    world = World(routes_file(tmp_path))
    hub = world.routes.stores["hub"]
    first = initialise_store(hub, world.routes)
    again = initialise_store(hub, world.routes)
    assert first.migrations == (f"tables of version {newest_migration().number:04d}",)
    assert first.functions_renewed
    assert first.hops == {"flights/1 in": "registered", "flights/2 out": "registered"}
    assert first.segments_made[0] == "outbox_s000000"
    assert not again.changed
    assert again.hops == {"flights/1 in": "unchanged", "flights/2 out": "unchanged"}


def test_init_renews_functions_in_place_and_keeps_every_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade with messages in flight: functions are made anew, rows and ledgers stay, hops go on."""
    world.send("before")
    world.transfer_all()
    for store in world.routes.stores:
        world.query(store, "update relaybox_internal.installed_object set digest = 'older'")
        world.query(store, "create function relaybox.left_over() returns integer language sql as 'select 1'")
        world.query(
            store, "insert into relaybox_internal.installed_object values ('relaybox.left_over()', 'function', 'left_over', '')"
        )
    assert all(initialise_store(store, world.routes).functions_renewed for store in world.routes.stores.values())
    assert world.value("airline", "select to_regproc('relaybox.left_over')") is None
    world.send("after")
    world.transfer_all()
    assert world.payloads("flights/2") == ["before", "after"]


def test_a_hop_keeps_its_path_for_ever(world: World) -> None:
    """A registered hop can't be sent elsewhere: its ledger would not be true any more."""
    routes_file(world.path.parent, route={"path": ["airline", "analytics"]})
    with pytest.raises(errors.HopChanged, match="flights/1 is registered here with destination hub"):
        initialise_store(world.routes.stores["airline"], world.routes)


def test_a_database_that_is_another_store_is_refused(world: World) -> None:
    """Two names for one database would move messages in a loop."""
    world.query("hub", "update relaybox_internal.store set store = 'elsewhere'")
    with pytest.raises(errors.ConfigurationError, match="already store elsewhere"):
        initialise_store(world.routes.stores["hub"], world.routes)


def test_an_older_store_is_not_used_before_it_is_initialised(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that needs a newer schema says so before it touches anything."""
    world.query("hub", "delete from relaybox.migration where number = (select max(number) from relaybox.migration)")
    with pytest.raises(errors.StoreNotInitialised, match="Run: relaybox init"):
        open_store(world.routes.stores["hub"], application_name="test")


def test_a_store_that_is_too_old_is_refused(world: World) -> None:
    """Migrations of its version are no longer there; half an upgrade would be worse than none."""
    oldest = oldest_version()
    world.query("hub", f"delete from relaybox.migration where number >= {oldest}")
    with pytest.raises(
        errors.StoreUnusable, match=f"version {oldest - 1}. This Relaybox upgrades stores from version {oldest} on"
    ):
        initialise_store(world.routes.stores["hub"], world.routes)


def test_a_new_store_that_fails_leaves_nothing(
    databases: Mapping[str, Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """init is one transaction: after a failure there is no half schema."""
    world = World(routes_file(tmp_path))
    directory = tmp_path / "sql"
    shutil.copytree(migrations.sql_directory(), directory)
    (directory / "tables" / "9_broken.sql").write_text("select 1/0")
    with monkeypatch.context() as patch, pytest.raises(errors.StoreFailed, match="division by zero"):
        patch.setattr(migrations, "sql_directory", lambda: directory)
        initialise_store(world.routes.stores["hub"], world.routes)
    assert world.value("hub", "select to_regnamespace('relaybox')") is None


def test_nothing_is_granted_to_public(world: World) -> None:
    """Functions are executable by PUBLIC by default; here none is, and no table either."""
    assert (
        world.query(
            "airline",
            """
            select p.proname from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
            where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and a.grantee = 0
            union all
            select c.relname from pg_class c, aclexplode(c.relacl) a
            where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and a.grantee = 0
            """,
        )
        == []
    )


def test_security_definer_functions_pin_their_search_path(world: World) -> None:
    """An attacker's function or temporary table can't take the place of ours."""
    settings = dict(
        world.query(
            "airline",
            "select proname, proconfig from pg_proc "
            "where pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and prosecdef",
        )
    )
    assert {"read_log", "read_stream", "subscribe", "fetch", "ack", "nack", "replay", "next_index"} <= set(settings)
    assert {name for name, set_ in settings.items() if "search_path=pg_catalog, relaybox, pg_temp" not in (set_ or [])} == set()
    assert {name for name, set_ in settings.items() if "row_security=off" not in (set_ or [])} == set()


def test_the_schema_dump_in_the_repository_is_current(clusters: Mapping[str, Cluster], world: World) -> None:
    """sql/schema.sql is what init makes; a schema change reads as its diff. UPDATE_SCHEMA=1 writes it."""
    dump = dump_schema(clusters["airline"], world.value("airline", "select current_database()"))
    if os.environ.get("UPDATE_SCHEMA") == "1":
        DUMP.write_text(dump)
    assert expected_dump(clusters["airline"]) == dump, "run: make schema"


def test_the_table_definitions_in_the_repository_are_current(world: World) -> None:
    """sql/table_definitions.json is what the catalog of a new store says, on each version of Postgres. UPDATE_SCHEMA=1 writes it."""
    world.query("airline", "select relaybox_internal.bind_senders(true)")
    rows = world.query("airline", "select table_name, kind, name, definition from relaybox_internal.list_table_definitions()")
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for table, kind, name, definition in sorted(rows):
        tables.setdefault(table, {}).setdefault(kind, {})[name] = definition
    path = sql_directory() / "table_definitions.json"
    if os.environ.get("UPDATE_SCHEMA") == "1":
        path.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == tables, "run: make schema"


@pytest.mark.parametrize("recorded_quoted", [False, True])
def test_init_renews_whether_identifiers_are_quoted_or_not(world: World, recorded_quoted: bool) -> None:
    """quote_all_identifiers writes the names of objects differently; each is renewed, and none takes itself for another."""
    identities = "select array_agg(identity order by identity) from relaybox_internal.installed_object"
    before = world.value("hub", identities)
    if recorded_quoted:  # as an init of before recorded them, whose login had the setting
        with world.session("hub") as session, session.cursor() as cursor:
            cursor.execute("set quote_all_identifiers = on")
            cursor.execute(
                """
                update relaybox_internal.installed_object o set identity = case o.kind
                    when 'view' then (pg_identify_object('pg_class'::regclass, to_regclass(o.identity), 0)).identity
                    else (pg_identify_object('pg_proc'::regclass, to_regprocedure(o.identity), 0)).identity
                end
                """
            )
            session.commit()
        assert world.value("hub", identities) != before
    database = world.value("hub", "select current_database()")
    world.query("hub", f"alter database {database} set quote_all_identifiers = on")
    try:
        world.query("hub", "update relaybox_internal.installed_object set digest = 'older'")
        assert initialise_store(world.routes.stores["hub"], world.routes).functions_renewed
        assert world.value("hub", identities) == before
        assert not initialise_store(world.routes.stores["hub"], world.routes).changed
    finally:
        world.query("hub", f"alter database {database} reset quote_all_identifiers")
