"""Tables that a crash of the server would empty: a hop confirms nothing that is in one, and doctor names each with its statement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg2
import pytest

from relaybox import errors, failpoints
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.sessions import connections
from tests.support.cli import invoke
from tests.support.memory import fast_temporary_directory
from tests.support.stores import make_cluster, start_cluster
from tests.support.world import World, routes_file

UNLOGGED = "a crash of the server would empty tables of Relaybox"
CONFIRMED = "select count(*)::integer from relaybox_internal.confirmation where state = 'received'"
KINDS = """
select c.relname::text, c.relkind::text from pg_class c
where c.relnamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and c.relkind in ('r', 'S')
    and (not c.relispartition or c.relname = 'outbox_overflow')
order by 1
"""


def refused(world: World, table: str) -> str:
    """What a transfer says that stops because of this table."""
    with pytest.raises(errors.StoreUnusable, match=UNLOGGED) as stopped:
        world.transfer()
    assert f"alter table {table} set logged" in stopped.value.next_step
    return str(stopped.value)


def test_g7_what_arrives_in_an_unlogged_segment_is_not_confirmed(world: World) -> None:
    """Before it is copied, so that nothing has to be copied twice; the statement of the error lets the hop go on."""
    segment = "relaybox_internal.log_1_s000000"
    world.send("a")
    world.query("hub", f"alter table {segment} set unlogged")
    assert segment in refused(world, segment)
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 0
    assert world.value("airline", CONFIRMED) == 0
    world.query("hub", f"alter table {segment} set logged")
    assert world.transfer().row_count == 1
    assert (world.payloads(), world.value("airline", CONFIRMED)) == (["a"], 1)


def test_an_unlogged_partition_outside_the_schema_is_named_and_refused(world: World) -> None:
    """Whatever its schema and name are: of the outbox doctor names it, of a log the hop refuses to publish into it. Children of it too."""
    world.query("airline", "create table public.far (like relaybox.outbox including defaults including constraints)")
    world.query("airline", "alter table public.far set unlogged")
    world.query("airline", "alter table relaybox.outbox attach partition public.far for values from (900000) to (910000)")
    world.query("airline", "create unlogged table public.more () inherits (relaybox_internal.batch)")
    told = [one for one in invoke("doctor", "--json", "airline").document["stores"][0]["results"] if one["check"] == "unlogged"]
    assert [(one["severity"], one["next_step"]) for one in told] == [
        ("error", "As the owner of the schema: alter table public.far set logged; alter table public.more set logged;")
    ]
    world.send("a")
    world.query(
        "hub", "alter table relaybox_internal.log_1_s000000 set schema public; alter table public.log_1_s000000 set unlogged"
    )
    with pytest.raises(errors.StoreUnusable, match=r"partition public.log_1_s000000 of log_1 is not in schema") as stopped:
        world.transfer()
    assert stopped.value.next_step == "It brings it back: relaybox init hub"
    with pytest.raises(psycopg2.Error, match=f"{UNLOGGED}, because they are unlogged: (public[.])?log_1_s000000"):
        world.query("hub", "select relaybox_internal.refuse_unlogged(1, 1, 1)")
    world.query("hub", "alter table public.log_1_s000000 set logged")
    assert invoke("init", "hub").exit_code == 0
    world.transfer()
    assert world.payloads() == ["a"]


PUBLISHED = {
    "between the copy and the publication": "publish.begin",
    "between the publication and the confirmation": "publish.committed",
}


@pytest.mark.parametrize("moment", PUBLISHED.values(), ids=PUBLISHED)
def test_g7_a_segment_that_becomes_unlogged_meanwhile_is_not_confirmed(
    world: World, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor by the next driver, which finds the batch published."""
    segment = "relaybox_internal.log_1_s000000"
    world.send("a")

    def alter(name: str, _: object) -> None:
        if name == moment:
            world.query("hub", f"alter table {segment} set unlogged")
            raise InterruptedError

    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(failpoints, "reach", alter)
        patch.setattr(connections, "reach", alter)
        world.transfer()
    refused(world, segment)
    assert world.value("airline", CONFIRMED) == 0
    world.query("hub", f"alter table {segment} set logged")
    world.transfer()
    assert (world.payloads(), world.value("airline", CONFIRMED)) == (["a"], 1)


def test_the_list_of_the_function_has_every_table_and_sequence_but_segments(world: World) -> None:
    """The other segments are asked by their positions."""
    body = world.value("hub", "select prosrc from pg_proc where proname = 'refuse_unlogged'")
    listed = re.findall(r"'(\w+)'", body[body.index("array[") : body.index("];")])
    assert listed == [name for name, _ in world.query("hub", KINDS)]


def test_every_unlogged_table_is_refused_with_its_statement(world: World) -> None:
    """But those that logged tables refer to: Postgres refuses to make them unlogged."""
    altered = 0
    for name, kind in world.query("airline", KINDS):
        with world.session("airline") as session, session.cursor() as cursor:
            cursor.execute("select oid::regclass::text from pg_class where relname = %s and relkind in ('r', 'S')", (name,))
            what = f"{'sequence' if kind == 'S' else 'table'} {cursor.fetchone()[0]}"
            try:
                cursor.execute(f"alter {what} set unlogged")
            except psycopg2.errors.InvalidTableDefinition:
                continue
            with pytest.raises(psycopg2.Error, match=UNLOGGED) as stopped:
                cursor.execute("select relaybox_internal.refuse_unlogged()")
            assert stopped.value.pgcode == "RB003"
            assert f"alter {what} set logged" in str(stopped.value)
            altered += 1
    assert altered > 40


@pytest.mark.parametrize("table", ["relaybox_internal.batch", "relaybox.sender_role", "relaybox_internal.outbox_overflow"])
def test_no_batch_is_planned_where_a_ledger_of_the_source_is_unlogged(world: World, table: str) -> None:
    world.send("a")
    world.query("airline", f"alter table {table} set unlogged")
    refused(world, table)
    world.query("airline", f"alter table {table} set logged")
    assert world.transfer().row_count == 1


def test_an_event_trigger_that_makes_segments_unlogged_is_found_when_they_are_made(world: World) -> None:
    """No producer writes into one."""
    world.cut_small_segments()
    world.send_many(20)
    world.query("airline", EVENT_FUNCTION)
    world.query(
        "airline", "create event trigger fast on ddl_command_end when tag in ('CREATE TABLE') execute function public.fast()"
    )
    with pytest.raises(errors.StoreUnusable, match="made new segments of the outbox unlogged") as stopped:
        world.transfer()
    assert "relaybox doctor airline" in stopped.value.next_step
    assert "As a superuser: alter event trigger fast disable;" in invoke("doctor", "airline", "--json").stdout
    world.query("airline", "alter event trigger fast disable")
    assert world.transfer().row_count == 20


EVENT_FUNCTION = """
create function public.fast() returns event_trigger language plpgsql as $$
declare made record;
begin
    for made in select * from pg_event_trigger_ddl_commands() where command_tag = 'CREATE TABLE' loop
        execute format('alter table %%s set unlogged', made.object_identity);
    end loop;
end $$
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Mapping[str, Cluster]]]:
    """The route airline -> hub on two clusters that no other test uses."""
    with fast_temporary_directory("unlogged") as directory, ExitStack() as stack:
        clusters = {store: make_cluster(store, directory) for store in ("airline", "hub")}
        for cluster in clusters.values():
            stack.callback(cluster.remove)
            start_cluster(cluster)
        path = tmp_path / "services.conf"
        write_service_file(path, {store: cluster.parameters("postgres") for store, cluster in clusters.items()})
        monkeypatch.setenv("PGSERVICEFILE", str(path))
        world = World(routes_file(tmp_path, route={"path": ["airline", "hub"]}))
        monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
        for store in ("airline", "hub"):
            initialise_store(world.routes.store(store), world.routes)
        yield world, clusters


@pytest.mark.parametrize("corrected", [True, False], ids=["corrected in time", "not corrected"])
def test_g7_a_real_crash_loses_no_confirmed_message_that_was_published_after_the_alter(
    own: tuple[World, Mapping[str, Cluster]], corrected: bool
) -> None:
    """What was in the segment before is what doctor warns of: it is lost in the crash, and verify finds it."""
    world, clusters = own
    segment = "relaybox_internal.log_1_s000000"
    world.send("before")
    world.transfer()
    world.query("hub", f"alter table {segment} set unlogged")
    world.send("after")
    refused(world, segment)
    (result,) = [one for one in doctor("hub") if one["check"] == "unlogged"]
    assert (result["severity"], f"alter table {segment} set logged" in result["next_step"]) == ("error", True)
    if corrected:
        world.query("hub", f"alter table {segment} set logged")
        world.transfer()
    clusters["hub"].kill()
    clusters["hub"].start()
    if not corrected:
        assert world.value("hub", "select count(*) from relaybox_internal.log") == 0
        assert world.value("airline", CONFIRMED) == 1
        world.query("hub", f"alter table {segment} set logged")
        world.transfer()
        with pytest.raises(psycopg2.Error, match="1 messages are missing in the store"):
            world.payloads()
    left = [payload for (payload,) in world.query("hub", "select payload from relaybox_internal.log order by log_position")]
    assert left == (["before", "after"] if corrected else ["after"])
    assert invoke("verify", "flights").exit_code == (0 if corrected else 1)


def doctor(store: str) -> list[dict[str, str]]:
    (found,) = json.loads(invoke("doctor", store, "--json").stdout)["stores"]
    return list(found["results"])
