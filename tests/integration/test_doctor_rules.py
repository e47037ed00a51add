"""`relaybox doctor` by the store's record, by the rights of its login, and of what stops a server: each case made on a real one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.stores.init.one_store import initialise_store
from tests.support.administration import administer
from tests.support.cli import invoke
from tests.support.memory import fast_temporary_directory
from tests.support.services import break_service
from tests.support.stores import make_cluster, start_cluster
from tests.support.world import World, routes_file, wait_until

pytestmark = pytest.mark.thorough


def found(store: str = "hub") -> dict[str, list[tuple[str, str, str]]]:
    """By check what is not ok: severity, what, next step."""
    (report,) = json.loads(invoke("doctor", store, "--json").stdout)["stores"]
    results: dict[str, list[tuple[str, str, str]]] = {}
    for one in report["results"]:
        if one["severity"] != "ok":
            results.setdefault(one["check"], []).append((one["severity"], one["what"], one["next_step"]))
    return results


@pytest.fixture
def without_fsync(world: World) -> Iterator[World]:
    world.query("hub", "alter system set fsync = off")
    world.query("hub", "select pg_reload_conf()")
    wait_until(lambda: world.value("hub", "select current_setting('fsync')") == "off", "the setting is in force")
    yield world
    world.query("hub", "alter system reset fsync")
    world.query("hub", "select pg_reload_conf()")
    wait_until(lambda: world.value("hub", "select current_setting('fsync')") == "on", "the setting is in force")


def write_store(world: World, **keys: object) -> None:
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["hub"] = keys
    world.path.write_text(yaml.safe_dump(document))


def test_g7_durability_is_judged_by_the_record_not_by_the_file(without_fsync: World) -> None:
    """Hops follow the record: an edited file alone neither lets a hop go on nor stops one, and doctor says so."""
    world = without_fsync
    world.send("a")
    write_store(world, durability="provider", durability_reason="six copies")
    results = found()
    assert results["durability"][0][0] == "error"
    ((severity, what, next_step),) = results["switches"]
    assert severity == "warning"
    assert "relaybox.yaml says durability: provider, and the store has durability: server on record" in what
    assert "relaybox init hub" in next_step
    with pytest.raises(errors.StoreUnusable, match="fsync is off"):
        world.transfer()
    assert invoke("init", "hub").exit_code == 0
    results = found()
    assert results["durability"] == [("notice", "fsync is off, and durability of the store is provider: six copies.", "")]
    assert "switches" not in results
    write_store(world)
    results = found()
    assert [severity for severity, _, _ in results["durability"]] == ["notice"]
    assert "relaybox.yaml says durability: server, and the store has durability: provider on record" in results["switches"][0][1]
    assert world.transfer().row_count == 1
    write_store(world, durability="provider", durability_reason="seven copies")
    ((severity, what, _),) = found()["switches"]
    assert (severity, "'six copies' on record, and 'seven copies' in relaybox.yaml" in what) == ("notice", True)


SWITCHES = ("bind_senders", "bind_subscriptions", "bind_topics", "require_approval")


@pytest.mark.parametrize("key", SWITCHES)
def test_a_switch_is_judged_by_the_record_and_a_file_without_the_key_says_nothing(world: World, key: str) -> None:
    """What the file says otherwise, in both directions, is named with the command; init makes them the same."""
    for asked, recorded in ((True, "false"), (False, "true")):
        write_store(world, **{key: asked})
        ((severity, what, next_step),) = found()["switches"]
        said = f"relaybox.yaml says {key}: {str(asked).lower()}, and the store has {key}: {recorded} on record"
        assert (severity, said in what) == ("warning", True), what
        assert "run: relaybox init hub" in next_step
        assert f"write {key}: {recorded} into the file" in next_step
        assert invoke("init", "hub").exit_code == 0
        assert "switches" not in found()
        if asked:
            write_store(world)
            assert "switches" not in found()
            assert f"Switched on in the store: {key}" in invoke("doctor", "hub", "--all").stdout


RIGHTS = ("viewer", "reader", "producer", "consumer")


@pytest.mark.parametrize("right", RIGHTS)
def test_a_login_that_moves_nothing_gets_no_error_for_the_rights_that_it_lacks(
    world: World, clusters: Mapping[str, Cluster], right: str
) -> None:
    """Also where the functions of the WAL were taken from the public; what is hidden from it is `not known`, as a notice."""
    database = world.value("hub", "select current_database()")
    revoke = "revoke execute on function pg_control_system() from public"
    with closing(psycopg2.connect(**clusters["hub"].parameters(database))) as owner, owner.cursor() as cursor:
        owner.autocommit = True
        cursor.execute(f"create role watcher login password 'secret' in role relaybox_{right}")
        cursor.execute(revoke)
        try:
            break_service("hub", user="watcher", password="secret")
            results = found()
            code = invoke("doctor", "hub").exit_code
        finally:
            cursor.execute("grant execute on function pg_control_system() to public")
            cursor.execute("drop role watcher")
    assert (code, {severity for each in results.values() for severity, _, _ in each}) == (0, {"notice"}), results
    assert "Login watcher moves no messages" in results["owner"][0][1]
    assert "is not known to it" in results["wal"][0][1]
    hidden = (
        {
            "schema",
            "store_name",
            "switches",
            "hops",
            "adopted_tables",
            "subscriptions",
            "sinks",
            "dead_letters",
            "endpoints",
            "schema_checks",
            "overflow",
        }
        if right in ("producer", "consumer")
        else set()
    )
    assert {check for check, each in results.items() if "Not known to login watcher" in each[0][1]} == hidden


def test_a_login_without_any_right_is_an_error(world: World, clusters: Mapping[str, Cluster]) -> None:
    """It may be the login of the tasks, which was forgotten."""
    administer(clusters["hub"], "create role stranger login password 'secret'")
    try:
        break_service("hub", user="stranger", password="secret")
        results = found()
    finally:
        administer(clusters["hub"], "drop role stranger")
    assert {check for check, ((severity, *_), *_) in results.items() if severity == "error"} == {
        "owner", "schema", "functions", "objects", "tables", "rights", "store_name", "switches", "hops", "adopted_tables",
        "subscriptions", "sinks", "dead_letters", "endpoints", "schema_checks", "overflow",
    }  # fmt: skip
    ((_, _, next_step),) = results["schema"]
    assert next_step == (
        "As a superuser, or a role with the admin option on relaybox_driver: grant relaybox_driver to stranger; if tasks use it. "
        "As a superuser, or a role with the admin option on relaybox_viewer: grant relaybox_viewer to stranger; "
        "if the page or the triggerer does."
    )


REFUSING = """
create function public.refuse() returns event_trigger language plpgsql as $$
begin raise exception 'no tables here'; end $$
"""


def test_an_event_trigger_that_refuses_stops_a_hop_until_it_is_disabled(world: World) -> None:
    """What doctor warns of, and what it says to do."""
    world.cut_small_segments()
    world.send_many(30)
    world.query("hub", REFUSING)
    world.query("hub", "create event trigger refuses on ddl_command_start execute function public.refuse()")
    ((severity, what, next_step),) = found()["event_triggers"]
    assert (severity, "If it raises an error, hops or retention stop" in what) == ("warning", True)
    with pytest.raises(errors.RelayboxError, match="no tables here"):
        world.transfer()
    assert "alter event trigger refuses disable" in next_step
    world.query("hub", "alter event trigger refuses disable")
    assert "event_triggers" not in found()
    assert world.transfer().row_count == 30


def test_an_event_trigger_on_dropped_tables_stops_retention_until_it_is_disabled(world: World) -> None:
    world.cut_small_segments()
    world.change_route(policy="received", retention={"replay_window_seconds": 0})
    world.send_many(30)
    world.transfer()
    world.settle_all()
    world.query("airline", REFUSING)
    world.query("airline", "create event trigger refuses on sql_drop when tag in ('DROP TABLE') execute function public.refuse()")
    assert [severity for severity, _, _ in found("airline")["event_triggers"]] == ["warning"]
    stopped = invoke("retention", "airline")
    assert (stopped.exit_code, "no tables here" in stopped.stderr) == (5, True)
    world.query("airline", "alter event trigger refuses disable")
    assert "3 segments dropped" in invoke("retention", "airline").stdout


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Cluster]]:
    """The store hub on a cluster of its own."""
    with fast_temporary_directory("small") as directory:
        cluster = make_cluster("hub", directory)
        try:
            start_cluster(cluster)
            path = tmp_path / "services.conf"
            write_service_file(path, {"hub": cluster.parameters("postgres")})
            monkeypatch.setenv("PGSERVICEFILE", str(path))
            world = World(routes_file(tmp_path, route={"path": ["hub", "hub"]}))
            monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
            initialise_store(world.routes.store("hub"), world.routes)
            yield world, cluster
        finally:
            cluster.remove()


def test_too_little_room_for_locks_is_named_and_the_statement_makes_it(small: tuple[World, Cluster]) -> None:
    """Where doctor warns, a query of all messages is refused beside a session that holds many locks."""
    world, cluster = small
    world.query("hub", "select relaybox_internal.ensure_outbox_segments(100)")
    assert "locks" not in found()
    for setting in ("max_locks_per_transaction = 10", "max_connections = 12", "max_prepared_transactions = 0"):
        world.query("hub", f"alter system set {setting}")
    restart(cluster)
    with pytest.raises(psycopg2.errors.OutOfMemory, match="out of shared memory"):
        query_beside_locks(world)
    ((severity, _, next_step),) = found()["locks"]
    assert severity == "warning"
    world.query("hub", next_step[next_step.index("alter system") : next_step.index("; then restart")])
    restart(cluster)
    assert "locks" not in found()
    query_beside_locks(world)


def query_beside_locks(world: World) -> None:
    """Another session holds up to 1000 locks."""
    with world.session("hub") as other, world.session("hub") as session, other.cursor() as held, session.cursor() as cursor:
        held.execute("select pg_advisory_xact_lock(n) from generate_series(1, 1000) n")
        cursor.execute("select count(*) from relaybox.outbox")


def restart(cluster: Cluster) -> None:
    cluster.stop()
    cluster.start()
