"""Adopted tables beside logical replication: a connector reads on undisturbed, and a table that a subscription fills is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from relaybox.stores.init.one_store import initialise_store
from tests.support.adoption import INSERT, adopt, make_table, numbers, sent, unadopt, write
from tests.support.memory import fast_temporary_directory
from tests.support.postgres_versions import NEWEST, server_binaries
from tests.support.stores import SETTINGS, start_cluster
from tests.support.world import World, routes_file


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With `wal_level = logical`, which connectors need and Relaybox does not."""
    with fast_temporary_directory("replication") as directory:
        settings = {**SETTINGS, "wal_level": "logical"}
        made = create_cluster("airline", directory / "airline", settings=settings, binaries=server_binaries(NEWEST))
        start_cluster(made)
        try:
            yield made
        finally:
            made.remove()


@pytest.fixture
def world(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The store airline alone, and services of two more databases of its server."""
    names = {"airline": "store", "publisher": "publisher", "administration": "postgres"}
    write_service_file(tmp_path / "services.conf", {service: cluster.parameters(name) for service, name in names.items()})
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    made = World(routes_file(tmp_path))
    for name in ("store", "publisher"):
        made.query("administration", f"create database {name}")
    initialise_store(made.routes.stores["airline"], made.routes)
    yield made
    for name in ("store", "publisher"):
        made.query("administration", f"drop database {name} with (force)")


def test_a_connector_reads_every_row_before_while_and_after_the_table_is_adopted(world: World) -> None:
    """Two slots, one as Debezium reads it (pgoutput, a publication of the table): neither misses a row, and the outbox has those between."""
    make_table(world, "create publication debezium for table app.outboxevent")
    world.query("airline", "select pg_create_logical_replication_slot('debezium', 'pgoutput')")
    world.query("airline", "select pg_create_logical_replication_slot('looking', 'test_decoding')")
    try:
        write(world, "1")
        adopt(world, with_backlog=True)
        write(world, "2")
        with world.session() as connection, connection.cursor() as cursor:  # as Debezium's guide has it: deleted at once
            cursor.execute(INSERT, ("3", "3"))
            cursor.execute("delete from app.outboxevent where aggregateid = '3'")
            connection.commit()
        unadopt(world)
        write(world, "4")
        seen = world.query("airline", "select data from pg_logical_slot_get_changes('looking', null, null)")
        inserted = [
            found[1]
            for (text,) in seen
            if (found := re.match(r"table app\.outboxevent: INSERT: .*aggregateid\[[^]]+\]:'(\d+)'", text)) is not None
        ]
        assert inserted == ["1", "2", "3", "4"]
        messages = world.query(
            "airline",
            "select get_byte(data, 0) from pg_logical_slot_get_binary_changes('debezium', null, null, "
            "'proto_version', '1', 'publication_names', 'debezium')",
        )
        assert [kind for (kind,) in messages].count(ord("I")) == 4
        assert numbers(sent(world)) == [1, 2, 3]
    finally:
        world.query("airline", "select pg_drop_replication_slot(slot_name) from pg_replication_slots")


def test_a_table_that_a_subscription_fills_is_refused(world: World, cluster: Cluster) -> None:
    """Its rows fire no trigger of a statement. The error says where to adopt it."""
    make_table(world)
    world.query("publisher", "create schema app; create table app.outboxevent (id uuid primary key, payload jsonb)")
    world.query("publisher", "create publication copies for table app.outboxevent")
    world.query("publisher", "select pg_create_logical_replication_slot('copies', 'pgoutput')")
    parameters = cluster.parameters("publisher")
    address = " ".join(f"{key}={parameters[key]}" for key in ("host", "port", "dbname", "user", "password"))
    world.query(
        "airline",
        f"create subscription copies connection '{address}' publication copies "
        "with (create_slot = false, slot_name = 'copies', copy_data = false, enabled = false)",
    )
    try:
        with pytest.raises(
            errors.AdoptionRefused, match=r"a subscription of logical replication writes into app\.outboxevent.*the publisher"
        ):
            adopt(world)
    finally:
        world.query("airline", "alter subscription copies set (slot_name = none)")
        world.query("airline", "drop subscription copies")
        world.query("publisher", "select pg_drop_replication_slot('copies')")


def test_a_publication_of_all_tables_is_a_note(world: World) -> None:
    """Its readers get the rows of the outbox too."""
    make_table(world, "create publication everything for all tables")
    assert [one.problem for one in adopt(world).examination.obstacles] == [
        "the publication everything publishes all tables: readers of it get the rows of relaybox.outbox too"
    ]
