"""`relaybox init` over several stores: all are checked before one changes, and a half-done init is finished or taken back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from relaybox import errors
from relaybox.failpoints import INIT_FAILPOINTS
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.routes import load_routes
from relaybox.stores.init import all_stores
from relaybox.stores.init.locks import schema_is_held
from relaybox.stores.opening import open_store
from relaybox.stores.schema import migrations
from tests.support.cli import invoke, start
from tests.support.patience import patience
from tests.support.services import break_service, read_service
from tests.support.world import STORES, World, routes_file, wait_until

pytestmark = pytest.mark.thorough


@pytest.fixture
def empty(databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three databases without a schema."""
    path = routes_file(tmp_path)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    return World(path)


ORDER = "select s.delivery_order from relaybox_internal.stream s join relaybox_internal.stream_log l using (stream_id)"
REACHED = {"init.checked": 1, "init_hold.committing": 2, "init_hold.committed": 2}
"""How often an init that changes the rules of a stream in two of three stores reaches its failpoints; the others: once per store."""


def orders(world: World) -> set[str]:
    """Of the stream, in the stores that it is in."""
    return {world.value(store, ORDER) for store in ("hub", "analytics")}


def file_with(world: World, order: str) -> str:
    """A relaybox.yaml beside the test's, whose route has this order."""
    document = yaml.safe_load(world.path.read_text())
    document["routes"]["flights"]["order"] = order
    path = world.path.with_name(f"{order}.yaml")
    path.write_text(yaml.safe_dump(document))
    return str(path)


def init(path: str) -> int:
    return invoke("--config", path, "init").exit_code


def drive(world: World, path: str) -> list[str]:
    """Each hop once, by one deployment's file; the names of the errors."""
    failed = []
    for hop in load_routes(Path(path)).route("flights").hops:
        try:
            transfer_hop(hop, ThreadRunner(1), recorded_by="test")
        except errors.RelayboxError as error:
            failed.append(type(error).__name__)
    return failed


def test_a_change_that_one_store_refuses_changes_no_other_store(world: World) -> None:
    """The hub has delivered, the last store has not: it would have taken the other order, and no init would have succeeded again."""
    former, other = file_with(world, "none"), file_with(world, "fifo")
    world.send("a", "b")
    world.transfer()
    refused = invoke("--config", other, "init")
    assert (refused.exit_code, refused.stdout) == (5, "no store was changed\n")
    assert "stream flights was delivered here with order none" in refused.stderr
    assert orders(world) == {"none"}
    assert init(former) == 0
    world.transfer_all()
    assert world.payloads("flights/2") == ["a", "b"]


INJECTIONS = [(failpoint, hit) for failpoint in INIT_FAILPOINTS for hit in range(1, REACHED.get(failpoint, len(STORES)) + 1)]


@pytest.mark.parametrize(("failpoint", "hit"), INJECTIONS)
def test_an_init_that_was_killed_anywhere_is_finished_or_taken_back(
    world: World, monkeypatch: pytest.MonkeyPatch, failpoint: str, hit: int
) -> None:
    """Whatever drivers of both files do meanwhile, every store decides by the same rules in the end."""
    assert failpoint in INIT_FAILPOINTS
    former, other = file_with(world, "none"), file_with(world, "fifo")
    world.send("a", "b")
    kill(world, monkeypatch, other, failpoint, hit)
    failed = [*drive(world, former), *drive(world, other)]
    assert set(failed) <= {"InitUnfinished"}
    assert 0 in [init(former), init(other)]
    assert drive(world, former) == []
    assert_same_rules(world)
    assert world.payloads("flights/2") == ["a", "b"]


@pytest.mark.parametrize(("failpoint", "hit"), [inject for inject in INJECTIONS if inject[0].endswith(".committed")])
def test_an_init_that_was_killed_can_be_taken_back_and_begun_again(
    world: World, monkeypatch: pytest.MonkeyPatch, failpoint: str, hit: int
) -> None:
    """As long as nothing was delivered: the former file, then the other one, succeed in all stores."""
    former, other = file_with(world, "none"), file_with(world, "fifo")
    kill(world, monkeypatch, other, failpoint, hit)
    for path, order in ((former, "none"), (other, "fifo")):
        assert init(path) == 0
        assert orders(world) == {order}
    world.send("a", "b")
    assert drive(world, other) == []
    assert_same_rules(world)


def kill(world: World, monkeypatch: pytest.MonkeyPatch, path: str, failpoint: str, hit: int) -> None:
    inject(world, monkeypatch, f"{failpoint}:{hit}=kill")
    killed = start("--config", path, "init")
    killed.communicate(timeout=patience(120))
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    assert killed.returncode == -9, failpoint


def assert_same_rules(world: World) -> None:
    assert len(orders(world)) == 1
    assert not any(
        world.value(store, "select bool_or(rules_pending) from relaybox_internal.stream") for store in ("hub", "analytics")
    )


def test_a_stream_whose_rules_are_changing_decides_nothing(world: World) -> None:
    """The error says what to do; after an init the same batch is decided on."""
    world.query("hub", "select relaybox_internal.hold_stream('flights/1')")
    world.send("a")
    with pytest.raises(errors.InitUnfinished, match="Run: relaybox init"):
        world.transfer()
    assert invoke("init").exit_code == 0
    world.transfer()
    assert world.value("hub", "select last_stream_position from relaybox_internal.stream") == 1


def test_two_inits_with_different_files_come_one_after_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits until the first has changed its last store: all stores have the rules of the second."""
    first, second = file_with(world, "total"), file_with(world, "fifo")
    directory = inject(world, monkeypatch, "init.applied:2=pause")
    paused = start("--config", first, "init")
    wait_until((directory / "hits.jsonl").exists, "the first init is in its second store")
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    waiting = start("--config", second, "init")
    wait_until(lambda: waiting_inits(world) == 1, "the second init waits")
    (directory / "init.applied.go").touch()
    for process in (paused, waiting):
        assert (process.communicate(timeout=patience(120))[1], process.returncode) == ("", 0)
    assert orders(world) == {"fifo"}


def waiting_inits(world: World) -> int:
    waits = """
        select count(*) from pg_stat_activity
        where datname = current_database() and application_name = 'relaybox init' and wait_event_type = 'Lock'
    """
    return sum(world.value(store, waits) for store in STORES)


def test_two_first_inits_come_one_after_the_other_too(empty: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No store has a table to lock yet: the second one waits all the same, and its rules hold in all stores."""
    first, second = file_with(empty, "total"), file_with(empty, "fifo")
    directory = inject(empty, monkeypatch, "init.applied:2=pause")
    paused = start("--config", first, "init")
    wait_until((directory / "hits.jsonl").exists, "the first init is in its second store")
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    waiting = start("--config", second, "init")
    wait_until(lambda: waiting_inits(empty) == 1, "the second init waits")
    (directory / "init.applied.go").touch()
    for process in (paused, waiting):
        assert (process.communicate(timeout=patience(120))[1], process.returncode) == ("", 0)
    assert orders(empty) == {"fifo"}
    leftover = "select count(*) from pg_namespace where nspname like 'relaybox_first_init%%'"
    assert [empty.value(store, leftover) for store in STORES] == [0, 0, 0]


def test_an_init_that_waited_in_vain_names_who_holds_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session's name, process, login and how to end it."""
    monkeypatch.setattr(all_stores, "OTHER_INIT_SECONDS", 1)
    with world.session("hub") as holder, holder.cursor() as cursor:
        cursor.execute("set application_name = 'an init that hangs'")
        cursor.execute("select from relaybox.migration where number = 1 for update")
        pid = holder.info.backend_pid
        refused = invoke("init")
        assert refused.exit_code == 4
        assert f"another init has held it for 1 s: an init that hangs (pid {pid}, login " in refused.stderr
        assert f"select pg_terminate_backend({pid})" in refused.stderr
    assert invoke("init").exit_code == 0


def test_a_store_that_goes_away_in_the_middle_is_done_by_the_next_init(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are done; meanwhile the stream is held where the rules have not changed."""
    directory = inject(world, monkeypatch, "init.applied:1=pause")
    paused = start("--config", file_with(world, "fifo"), "init")
    wait_until((directory / "hits.jsonl").exists, "init is in its first store")
    monkeypatch.delenv("RELAYBOX_FAILPOINTS")
    port = read_service("hub")["port"]
    break_service("hub", port="1")
    (directory / "init.applied.go").touch()
    _, said = paused.communicate(timeout=patience(120))
    assert (paused.returncode, said.count("error: store hub: no connection")) == (4, 1)
    break_service("hub", port=port)
    assert world.value("hub", "select rules_pending from relaybox_internal.stream")
    assert orders(world) == {"none", "fifo"}
    assert init(file_with(world, "fifo")) == 0
    assert orders(world) == {"fifo"}
    world.send("a")
    world.transfer_all()
    assert world.payloads("flights/2") == ["a"]


def test_a_part_of_a_stream_s_stores_does_not_change_its_rules(world: World) -> None:
    """`relaybox init hub` with another order, also of an init that was interrupted; without a change of rules it does the hub."""
    refused = invoke("--config", file_with(world, "fifo"), "init", "hub")
    assert (refused.exit_code, orders(world)) == (2, {"none"})
    assert "stream flights changes its rules in its stores analytics, hub; analytics is left out" in refused.stderr
    assert invoke("init", "hub").exit_code == 0
    world.query("hub", "select relaybox_internal.hold_stream('flights/1')")
    assert invoke("init", "hub").exit_code == 2
    assert invoke("init").exit_code == 0


def test_two_names_of_one_database_are_refused_before_anything_is_made(
    databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "relaybox.yaml"
    with Path(os.environ["PGSERVICEFILE"]).open("a") as services:
        services.writelines(["[twin]\n", *(f"{key}={value}\n" for key, value in read_service("hub").items())])
    path.write_text(
        yaml.safe_dump(
            {
                "stores": {"airline": {}, "hub": {}, "twin": {}},
                "routes": {"flights": {"topics": ["flights"], "path": ["airline", "hub", "twin"]}},
            }
        )
    )
    refused = invoke("--config", str(path), "init")
    assert refused.exit_code == 2
    assert "hub and twin are one database" in refused.stderr
    assert World(path).value("hub", "select to_regnamespace('relaybox') is null")


def test_what_is_in_the_way_in_one_store_leaves_the_others_as_they_were(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither is one store renewed and the next one not."""
    directory = tmp_path / "sql"
    shutil.copytree(migrations.sql_directory(), directory)
    monkeypatch.setattr(migrations, "sql_directory", lambda: directory)
    inbox = directory / "views" / "inbox.sql"
    inbox.write_text(inbox.read_text().replace("i.hop, l.log_position,", "l.log_position, i.hop,"))
    world.query("analytics", "create view public.arrived as select hop from relaybox.inbox")
    before = [fingerprint(world, store) for store in STORES]
    refused = invoke("init")
    assert (refused.exit_code, refused.stdout) == (5, "no store was changed\n")
    assert "On it depend: view public.arrived" in refused.stderr
    assert [fingerprint(world, store) for store in STORES] == before
    world.query("analytics", "drop view public.arrived")
    assert invoke("init").exit_code == 0
    assert all(now != then for now, then in zip([fingerprint(world, store) for store in STORES], before, strict=True))


def fingerprint(world: World, store: str) -> str:
    """Of all functions and views of a store."""
    query = """
        select md5(string_agg(what, ' ' order by what)) from (
            select p.oid || ' ' || p.xmin as what from pg_proc p
                where p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
            union all
            select c.oid || ' ' || w.xmin from pg_class c join pg_rewrite w on w.ev_class = c.oid
            where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
        ) found
    """
    return str(world.value(store, query))


def inject(world: World, monkeypatch: pytest.MonkeyPatch, what: str) -> Path:
    directory = world.path.parent / "failpoints"
    directory.mkdir()
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(directory))
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", what)
    return directory


def test_a_prepared_transaction_that_holds_init_up_is_named(world: World) -> None:
    """It belongs to no session: what ends it is `rollback prepared`."""
    with world.session("hub") as holder, holder.cursor() as cursor:
        cursor.execute("select count(*) from relaybox_internal.subscription; prepare transaction 'left by a producer'")
    try:
        store = world.routes.store("hub")
        with closing(open_store(store, application_name="relaybox init")) as session:
            told = str(schema_is_held(session, 0))
        assert "prepared transaction 'left by a producer' (login " in told
        assert "rollback prepared 'left by a producer'" in told
    finally:
        with world.session("hub", autocommit=True) as session, session.cursor() as cursor:
            cursor.execute("rollback prepared 'left by a producer'")
