"""Drivers, producers, consumers and open sessions of one version go on through `relaybox init` of the next one, failed or not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.opening import open_store
from relaybox.stores.schema import migrations
from tests.support.world import World
from tests.upgrades.traffic import STORE, traffic

pytestmark = pytest.mark.thorough

INIT = """
import sys
from pathlib import Path
from relaybox import cli
from relaybox.stores.schema import migrations

directory, config = sys.argv[1:]
migrations.sql_directory = lambda: Path(directory)
sys.argv = ["relaybox", "--config", config, "init"]
cli.main()
"""
"""`relaybox init` of the next version: a process of its own, as the callers are of this version and stay so."""

NEXT = """-- pre: adds columns only
alter table relaybox_internal.cursor add column made_up text;
alter table relaybox_internal.subscription add column made_up text;
alter table relaybox_internal.stream add column made_up text not null default 'made up';
alter table relaybox_internal.hop_in add column made_up text;
alter table relaybox.outbox add column made_up text;
create table relaybox.made_up (made_up text);
"""
BROKEN = """-- pre: breaks when all of the version before it is applied
alter table relaybox_internal.batch add column made_up text;
select 1 / 0;
"""


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """`sql/` of a made-up version N: a `pre` migration, changed functions and a changed view."""
    directory = tmp_path / "next" / "sql"
    shutil.copytree(migrations.sql_directory(), directory)
    (directory / "migrations" / "0990_made_up.sql").write_text(NEXT)
    for path in [
        *(directory / "functions" / "subscriptions" / f"{name}.sql" for name in ("fetch", "ack", "choose_next", "move_cursor")),
        *(directory / "functions" / "hops" / f"{name}.sql" for name in ("publish_batch", "lock_hop")),
    ]:
        text = path.read_text()
        assert "as $$\n" in text
        path.write_text(text.replace("as $$\n", "as $$\n-- the next version\n", 1))
    view = directory / "views" / "lane_cursors.sql"
    view.write_text(f"{view.read_text()}-- the next version\n")
    return directory


def run_init(world: World, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", INIT, str(directory), str(world.path)], capture_output=True, text=True, check=False, cwd="/"
    )


def shape(world: World) -> str:
    """Every column, function and migration of a store."""
    return str(
        world.value(
            STORE,
            """
            select md5(string_agg(what, ' ' order by what)) from (
                select a.attrelid::regclass || '.' || a.attname as what from pg_attribute a join pg_class c on c.oid = a.attrelid
                where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind in ('r', 'p', 'v') and
                not c.relispartition
                union all
                select p.oid || p.prosrc from pg_proc p
                    where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
                union all
                select number::text from relaybox.migration
            ) found
            """,
        )
    )


def test_nobody_fails_while_the_next_version_is_applied(world: World, next_version: Path) -> None:
    """A failed init leaves this version whole; one that succeeds serves callers of this version too, also in new sessions."""
    broken = next_version / "migrations" / "0991_broken.sql"
    broken.write_text(BROKEN)
    before = shape(world)
    with traffic(world) as callers:
        failed = run_init(world, next_version)
        assert failed.returncode == 5, failed
        assert "division by zero" in failed.stderr
        assert shape(world) == before
        callers.go_on()
        broken.unlink()
        done = run_init(world, next_version)
        assert done.returncode == 0, done
        assert "0990 made_up (pre)" in done.stdout
        callers.go_on()
    assert world.value(STORE, "select max(number) from relaybox.migration") == 990


def test_code_of_the_previous_version_refuses_a_store_after_a_post_migration(
    world: World, next_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And init refuses that migration while sessions of the previous version are open, by name."""
    migration = next_version / "migrations" / "0990_made_up.sql"
    migration.write_text(NEXT.replace("-- pre", "-- post"))
    store = world.routes.store(STORE)
    with monkeypatch.context() as upgraded:
        session = open_store(store, application_name="relaybox flights/1 driver")
        upgraded.setattr(migrations, "sql_directory", lambda: next_version)
        with pytest.raises(errors.StoreBusy, match="0990 made_up, and it has sessions: relaybox flights/1 driver"):
            initialise_store(store, world.routes)
        session.close()
        initialise_store(store, world.routes)
    with pytest.raises(errors.SchemaTooNew, match="its schema is version 990"):
        open_store(store, application_name="relaybox flights/1 driver")


def test_every_migration_says_whether_the_previous_version_goes_on() -> None:
    """In its first line, with the reason."""
    assert {migration.phase for migration in migrations.read_migrations()} == {"pre", "post"}


def test_a_migration_that_does_not_say_it_is_refused(next_version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its path."""
    path = next_version / "migrations" / "0990_made_up.sql"
    path.write_text(NEXT.replace("-- pre: ", "-- "))
    monkeypatch.setattr(migrations, "sql_directory", lambda: next_version)
    with pytest.raises(ValueError, match=r"0990_made_up.sql: its first line must be"):
        _ = migrations.read_migrations()[-1].phase
