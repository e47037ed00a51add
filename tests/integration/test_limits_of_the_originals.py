"""What the originals admit to forget or to mix up, row A2 of docs/requirements.md, does not happen here."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from relaybox.stores.init.one_store import initialise_store
from tests.support.world import STORES, World, routes_file

pytestmark = pytest.mark.thorough

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0"))
SPARSE_ROUNDS, SPARSE_ROWS = (10, 1_000_000) if EXAMPLES >= 2000 else (5, 10_000)
"""Of the test of one large set: batches, and random indexes in each."""


def declare(world: World, *senders: str, kind: str = "sparse") -> None:
    for sender in senders:
        world.query("airline", "select relaybox.declare_sender(%s, %s)", sender, kind)


def send_indexes(world: World, sender: str, indexes: Sequence[int], *, epoch: int = 1) -> None:
    """One transaction; the payload says the index."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, epoch, index, payload) "
        "select 'flights', %s, %s, i, 'm' || i from unnest(%s::bigint[]) i",
        *(sender, epoch, list(indexes)),
    )


def delivered(world: World, sender: str, store: str = "hub") -> list[int]:
    """Indexes in the order of delivery."""
    return [
        row[0]
        for row in world.query(store, "select index from relaybox.read_stream('flights', 0, 1000000) where sender = %s", sender)
    ]


def decisions(world: World, store: str = "hub") -> list[tuple[int, int, int]]:
    """Rows, duplicates and rows set aside, by batch."""
    return world.query(store, "select row_count, duplicate_count, set_aside_count from relaybox_internal.decision order by batch")


def test_the_first_of_5000_ids_is_still_known(world: World) -> None:
    """A2.19, A2.20: the original keeps 1,000 ids and overwrites the oldest one, whose duplicate then passes."""
    declare(world, "probe")
    indexes = [index * 7 for index in range(1, 5001)]
    random.Random(4).shuffle(indexes)
    send_indexes(world, "probe", indexes)
    world.transfer()
    send_indexes(world, "probe", indexes[:1])
    world.transfer()
    assert delivered(world, "probe") == indexes
    assert decisions(world) == [(5000, 0, 0), (1, 1, 0)]
    assert world.value("hub", "select count(*) from relaybox_internal.seen n, unnest(n.indexes)") == 5000, (
        "nobody overwrote an id"
    )


@pytest.mark.parametrize("kind", ["sparse", "gapless"])
def test_a_sender_that_was_idle_for_a_year_is_not_forgotten(world: World, kind: str) -> None:
    """A2.22: the original forgets a sender that was idle for 30 minutes."""
    declare(world, "probe", kind=kind)
    send_indexes(world, "probe", [1, 2, 3] if kind == "gapless" else [5, 9, 2])
    world.transfer_all()
    for store in STORES:
        age(world, store)
    declare(world, "other")
    send_indexes(world, "other", [1])
    world.transfer_all()
    send_indexes(world, "probe", [2])
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert delivered(world, "probe", store) == ([1, 2, 3] if kind == "gapless" else [5, 9, 2])
        assert decisions(world, store) == [(3, 0, 0), (1, 0, 0), (1, 1, 0)]


def age(world: World, store: str) -> None:
    """Everything that was written in a store was written a year earlier."""
    columns = world.query(
        store,
        """
        select c.table_schema, c.table_name, c.column_name from information_schema.columns c
        join information_schema.tables t using (table_schema, table_name)
        where c.table_schema in ('relaybox', 'relaybox_internal') and c.data_type = 'timestamp with time zone' and t.table_type = 'BASE
        TABLE'
        """,
    )
    with world.session(store) as session, session.cursor() as cursor:
        cursor.execute("set session_replication_role = replica")  # no trigger minds
        for schema, table, column in columns:
            cursor.execute(f'update {schema}."{table}" set "{column}" = "{column}" - interval \'1 year\'')
        session.commit()


@pytest.fixture
def killable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, Cluster]]:
    """The route airline -> hub in one cluster of its own, which the test may kill."""
    cluster = create_cluster("killable", tmp_path / "killable")
    try:
        cluster.start()
        parameters = {store: cluster.parameters(store) for store in STORES}
        services = tmp_path / "services.conf"
        write_service_file(services, parameters | {"postgres": cluster.parameters("postgres")})
        monkeypatch.setenv("PGSERVICEFILE", str(services))
        path = routes_file(tmp_path, route={"path": ["airline", "hub"]})
        monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
        world = World(path)
        for store in STORES:
            world.query("postgres", f"create database {store}")
        for store in ("airline", "hub"):
            initialise_store(world.routes.store(store), world.routes)
        yield world, cluster
    finally:
        cluster.remove()


def test_a_killed_server_remembers_what_it_had_seen(killable: tuple[World, Cluster]) -> None:
    """A2.2, A2.25: the state is in the decision's own transaction, so a crash takes both or neither."""
    world, cluster = killable
    declare(world, "probe")
    declare(world, "pump", kind="gapless")
    send_indexes(world, "probe", [100, 7, 55])
    send_indexes(world, "pump", [1, 2])
    world.transfer()
    cluster.kill()
    cluster.start()
    send_indexes(world, "probe", [7, 8])
    send_indexes(world, "pump", [2, 3])
    world.transfer()
    assert delivered(world, "probe") == [100, 7, 55, 8]
    assert delivered(world, "pump") == [1, 2, 3]
    assert decisions(world) == [(5, 0, 0), (4, 2, 0)]


def test_a_destination_made_anew_from_a_copy_remembers_too(killable: tuple[World, Cluster]) -> None:
    """A2.2, A2.9: what was seen is rows of the store and goes where they go, to another database as well."""
    world, _ = killable
    declare(world, "probe")
    send_indexes(world, "probe", [100, 7, 55])
    world.transfer()
    world.query("postgres", "alter database hub rename to hub_before")
    world.query("postgres", "create database hub template hub_before")
    world.query("postgres", "drop database hub_before")
    send_indexes(world, "probe", [55, 56])
    world.transfer()
    assert delivered(world, "probe") == [100, 7, 55, 56]
    assert decisions(world) == [(3, 0, 0), (2, 1, 0)]


def test_a_destination_rebuilt_from_nothing_decides_the_same_again(world: World) -> None:
    """A2.25: the decision is a function of the log, so a store that lost all its decisions makes them again."""
    declare(world, "probe")
    for indexes in ([100, 7, 55], [7, 56], [55, 57, 100]):
        send_indexes(world, "probe", indexes)
        world.transfer()
    before = (delivered(world, "probe"), decisions(world))
    forget = """
        truncate relaybox_internal.delivery, relaybox_internal.decision, relaybox_internal.seen, relaybox_internal.index_range,
        relaybox_internal.held, relaybox_internal.dead_letter,
            relaybox_internal.sender_state cascade;
        update relaybox_internal.stream set arrival_seq = 0, last_stream_position = 0;
        update relaybox_internal.stream_log set decided_batch = 0, decided_position = 0;
    """
    world.query("hub", forget)
    assert delivered(world, "probe") == []
    world.transfer()
    assert (delivered(world, "probe"), decisions(world)) == before == ([100, 7, 55, 56, 57], [(3, 0, 0), (2, 1, 0), (3, 2, 0)])


def test_a_set_that_is_full_stalls_its_sender_and_forgets_nothing(world: World) -> None:
    """A2.20: at the cap the original overwrites; here the sender waits, the others flow, and a higher limit lets it go on."""
    world.change_route(limits={"fragments": 100})
    declare(world, "scattered", "probe")
    first, further = [index * 2 for index in range(1, 121)], [index * 2 for index in range(121, 241)]
    send_indexes(world, "scattered", first)
    world.transfer()
    assert delivered(world, "scattered") == first, "a batch is decided whole, and the cap looked at then"
    send_indexes(world, "scattered", [2, *further, 4])
    send_indexes(world, "probe", [1, 5])
    world.transfer()
    assert (delivered(world, "scattered"), delivered(world, "probe")) == (first, [1, 5])
    stalled = "select sender, stalled_reason from relaybox_internal.sender_state where stalled_after is not null"
    assert world.query("hub", stalled) == [("scattered", "set_full")]
    assert decisions(world) == [(120, 0, 0), (124, 0, 0)], "what waits in the log is neither delivered nor called a duplicate"

    world.change_route(limits={"fragments": 119})
    world.transfer()
    assert delivered(world, "scattered") == first, "raised, and still full"
    world.change_route(limits={"fragments": 1000})
    world.transfer()
    assert delivered(world, "scattered") == first + further
    assert world.query("hub", stalled) == []
    assert sum(duplicates for _, duplicates, _ in decisions(world)) == 2


def test_no_window_overwrites_the_oldest_fragment(world: World) -> None:
    """A2.20: of a set far beyond its cap every index is still known."""
    world.change_route(limits={"fragments": 100})
    declare(world, "scattered")
    indexes = [index * 3 for index in range(1, 2001)]
    send_indexes(world, "scattered", indexes)
    world.transfer()
    world.change_route(limits={"fragments": 10_000})
    send_indexes(world, "scattered", indexes)
    world.transfer()
    assert delivered(world, "scattered") == indexes
    assert decisions(world) == [(2000, 0, 0), (2000, 2000, 0)]


def test_a_new_epoch_lets_a_full_sender_go_on_without_a_duplicate(world: World) -> None:
    """A2.20: what had waited is decided before the old epoch's set is dropped."""
    world.change_route(limits={"fragments": 100})
    declare(world, "scattered")
    first, further = [index * 2 for index in range(1, 121)], [301, 303]
    send_indexes(world, "scattered", first)
    world.transfer()
    send_indexes(world, "scattered", [2, *further, 4])
    world.transfer()
    assert delivered(world, "scattered") == first
    world.query("airline", "select relaybox.new_epoch('scattered', 'sparse')")
    for index in (1, 2):
        send_indexes(world, "scattered", [index], epoch=2)
        world.transfer()
    assert delivered(world, "scattered") == [*first, *further, 1, 2]
    assert sum(duplicates for _, duplicates, _ in decisions(world)) == 2
