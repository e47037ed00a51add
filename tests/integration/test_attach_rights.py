"""Who may read and write a segment while it comes back from its files, and afterwards: an init in between gives nobody more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from relaybox import errors
from relaybox.retention.attaching import attach_segments
from relaybox.retention.segment_archive import DetachedFile, DetachPart
from relaybox.stores.binary_copy.log_rows import RowsDigest
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.init.server import ROLES
from relaybox.stores.schema.migrations import read_migrations
from tests.integration.store_metrics import put_back
from tests.integration.two_logs import fill_two_logs
from tests.support.world import World

FIRST, SECOND = "log_1_s000000", "log_1_s000001"
RIGHTS = """
select string_agg(distinct p.privilege, ' ' order by p.privilege)
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) p (privilege)
where c.oid = to_regclass('relaybox_internal.' || %(table)s) and has_column_privilege(%(role)s, c.oid, a.attnum, p.privilege)
"""
OF_A_SEGMENT = {"relaybox_reader": "SELECT", "relaybox_driver": "SELECT"}
OF_STAGING = {"relaybox_reader": "SELECT", "relaybox_driver": "INSERT SELECT"}
DETACHES = """
update relaybox_internal.hop_in set stopped_consumer = 'detach', detach_after_seconds = 3600, detach_to = '/files/',
    replay_window_seconds = 0;
update relaybox_internal.hop_out set retired_at = now(), retired_by = 'test', retired_reason = 'why';
create table public.saved as select * from relaybox_internal.log;
"""
_spaces = itertools.count(1)


@dataclass
class SavedRows:
    """Files of detached segments: the table public.saved."""

    world: World

    def write(self, part: DetachPart) -> None:
        raise NotImplementedError

    def digest(self, directory: str) -> RowsDigest:
        raise NotImplementedError

    def list_files(self, directory: str) -> list[DetachedFile]:
        raise NotImplementedError

    def remove(self, directory: str) -> None:
        raise NotImplementedError

    def copy_back(self, part: DetachPart) -> None:
        self.world.query(
            "hub",
            f"insert into relaybox_internal.{part.table} select * from public.saved where log_id = 1 and log_position between %s and %s",
            *(part.first, part.last),
        )


@pytest.fixture(scope="module")
def two_logs(make_template: Any) -> str:
    """Segments of ten positions; a stopped consumer needs the first ones."""

    def fill(world: World) -> None:
        fill_two_logs(world, segment_rows=10)
        for name, start in (("live", "latest"), ("dead", "6")):
            world.query("hub", "select relaybox.subscribe(%s, 'flights', %s)", name, start)
        world.query("hub", DETACHES)
        put_back(world, "decision.decided_at", 24)
        put_back(world, "cursor.moved_at", 24)

    return make_template(fill)


@pytest.fixture
def detached(two_logs: str, make_world: Any) -> Iterator[World]:
    """The segments of positions 0 to 9 and 10 to 19 are in files."""
    with make_world(two_logs) as world:
        fill_routes(world)
        for _ in range(2):
            ((first, attempt),) = world.query("hub", "select d.first, d.attempt from relaybox_internal.begin_detach(1, 'test') d")
            world.query("hub", "select * from relaybox_internal.drop_oldest_segment(1, 'test', %s, %s)", first, attempt)
        yield world


def fill_routes(world: World) -> None:
    """The routes of the template end in the hub: what went on from there is retired."""
    retention = {"replay_window_seconds": 0, "stopped_consumer": "detach", "detach_after_seconds": 3600, "detach_to": "/files/"}
    routes = {name: {"path": ["airline", "hub"], "topics": [name], "retention": retention} for name in ("flights", "other")}
    world.path.write_text(yaml.safe_dump({"stores": {"airline": {}, "hub": {}}, "routes": routes}))


def attach(world: World, **options: Any) -> list[int]:
    store = world.routes.store("hub")
    return [one.first for one in attach_segments(store, "flights/1", SavedRows(world), recorded_by="test", **options)]


def init_with_grants(world: World) -> None:
    """An init that applies grants.sql, as the next version's does."""
    world.query("hub", "update relaybox_internal.store set grants_digest = 'older'")
    assert initialise_store(world.routes.store("hub"), world.routes).functions_renewed


def rights(world: World, table: str) -> dict[str, str]:
    with world.session("hub") as session, session.cursor() as cursor:
        found = {}
        for role in ROLES:
            cursor.execute(RIGHTS, {"table": table, "role": role})
            found[role] = cursor.fetchone()[0]
        return {role: privileges for role, privileges in found.items() if privileges}


@pytest.mark.parametrize("failpoint", ["attach.begun", "attach.copied", "attach.attached"])
def test_an_init_in_the_middle_of_an_attach_gives_nobody_more(
    detached: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failpoint: str
) -> None:
    """A viewer never reads what was attached; a segment that came back has the rights of one that never left."""
    made = rights(detached, "log_1_s000003")
    assert made == OF_A_SEGMENT
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", f"{failpoint}=raise 40001{' ' * next(_spaces)}")
    with pytest.raises(errors.RelayboxError, match="40001"):
        attach(detached)
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    tables = detached.query("hub", "select relname from pg_class where relname ~ '^log_1_s000001(_attempt_[0-9]+)?$'")
    ((staging,),) = tables
    expected = OF_A_SEGMENT if failpoint == "attach.attached" else OF_STAGING
    assert rights(detached, staging) == expected
    init_with_grants(detached)
    assert rights(detached, staging) == expected
    assert attach(detached) == ([0] if failpoint == "attach.attached" else [10, 0])
    for segment in (FIRST, SECOND):
        assert rights(detached, segment) == OF_A_SEGMENT
    init_with_grants(detached)
    assert rights(detached, SECOND) == OF_A_SEGMENT


def test_an_init_between_copying_and_attaching_leaves_the_running_attach_alone(detached: World) -> None:
    """The attach that was running during the init ends as if there had been none."""
    archive = SavedRows(detached)

    class WithInit(SavedRows):
        def copy_back(self, part: DetachPart) -> None:
            init_with_grants(detached)
            assert rights(detached, part.table) == OF_STAGING
            archive.copy_back(part)
            init_with_grants(detached)
            assert rights(detached, part.table) == OF_STAGING

    store = detached.routes.store("hub")
    done = attach_segments(store, "flights/1", WithInit(detached), recorded_by="test", count=1)
    assert [one.first for one in done] == [10]
    assert rights(detached, SECOND) == OF_A_SEGMENT


def test_the_migration_takes_back_what_earlier_inits_gave(detached: World) -> None:
    """On segments, and on a table that an interrupted attach left behind; other roles keep their rights."""
    assert attach(detached, count=1) == [10]
    detached.query("hub", "select relaybox_internal.begin_attach(1, 'test')")
    ((left_behind,),) = detached.query("hub", "select relname from pg_class where relname ~ '^log_1_s000000_attempt_[0-9]+$'")
    for table in (SECOND, left_behind):
        detached.query("hub", f"grant select on relaybox_internal.{table} to relaybox_viewer")
        detached.query("hub", f"grant insert on relaybox_internal.{table} to relaybox_driver")
    (migration,) = [one for one in read_migrations() if one.name == "definitions"]
    (block,) = [part for part in migration.text.split("\n\n") if "revoking text" in part]
    with detached.session("hub") as session, session.cursor() as cursor:
        cursor.execute(block)
        session.commit()
    assert rights(detached, SECOND) == OF_A_SEGMENT
    assert rights(detached, left_behind) == OF_STAGING


def test_a_table_of_the_owner_s_own_is_granted_to_no_viewer(detached: World) -> None:
    """A copy of messages that the owner made in a schema of Relaybox: no init grants it."""
    detached.query("hub", "create table relaybox_internal.copy_of_log as select * from relaybox_internal.log")
    detached.query("hub", "create table relaybox.log_of_today as select * from relaybox_internal.log")
    init_with_grants(detached)
    assert rights(detached, "copy_of_log") == OF_A_SEGMENT
    assert "relaybox_viewer" not in rights(detached, "log_of_today")
    detached.query("hub", "drop table relaybox_internal.copy_of_log, relaybox.log_of_today")
