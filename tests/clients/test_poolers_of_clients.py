"""Every library works through a PgBouncer that lends a session of the server for one transaction, and is told what it lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from relaybox import aio, errors
from relaybox.consumer import Message
from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from tests.support.libraries import LIBRARIES, Library, connect_asyncpg, each
from tests.support.services import break_service
from tests.support.streams import STORE, deliver
from tests.support.world import World


@pytest.fixture
def pooled(world: World, clusters: Mapping[str, Cluster]) -> Iterator[World]:
    """Six messages behind a pooler with two sessions of the server, which every transaction may get."""
    world.query(STORE, "create table public.effect (stream_position bigint primary key)")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    deliver(world, 6)
    pooler = PgBouncer(clusters[STORE], "transaction", pool_size=2)
    pooler.start()
    break_service(STORE, port=str(pooler.port))
    yield world
    break_service(STORE, port=str(clusters[STORE].port))
    pooler.remove()


@each(LIBRARIES)
def test_g10_a_consumer_and_a_producer_work_through_a_pooler(pooled: World, library: Library) -> None:
    """Two consumers in turn, and a put in between: no statement relies on the session that prepared it."""

    async def handle(connection: Any, message: Message) -> None:
        await library.execute(connection, f"insert into public.effect values ({message.stream_position})")

    library.run(library.consume(STORE, handle, pooled=True, max_count=2, commit_every=2))
    assert [row[0] for row in pooled.query(STORE, "select stream_position from public.effect order by 1")] == [1, 2, 3, 4, 5, 6]
    assert pooled.value(STORE, "select done_stream_position from relaybox.subscriptions") == 6


def test_prepared_statements_behind_a_pooler_are_told_how_to_switch_them_off(pooled: World) -> None:
    """asyncpg prepares each statement by name unless it is told not to; two consumers meet each other's names."""

    async def scenario() -> None:
        async def handle(connection: Any, message: Message) -> None:
            await connection.fetch("select 1")

        workers = [
            aio.Consumer(partial(connect_asyncpg, STORE), "billing", until_empty=True, max_count=1, retries=0) for _ in range(3)
        ]
        await asyncio.gather(*(worker.run(handle) for worker in workers))

    with pytest.raises(errors.ConfigurationError, match=r"\((26000|42P05)\).*statement_cache_size=0"):
        asyncio.run(scenario())
