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
def pooled(request: pytest.FixtureRequest, world: World, clusters: Mapping[str, Cluster]) -> Iterator[World]:
    """Six messages behind a pooler with one session of the server, or as many as the test asks for."""
    world.query(STORE, "create table public.effect (stream_position bigint primary key)")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    deliver(world, 6)
    pooler = PgBouncer(clusters[STORE], "transaction", pool_size=getattr(request, "param", 1))
    pooler.start()
    break_service(STORE, port=str(pooler.port))
    yield world
    break_service(STORE, port=str(clusters[STORE].port))
    pooler.remove()


@each(LIBRARIES)
def test_g10_consumers_work_through_a_pooler(pooled: World, library: Library) -> None:
    """Two consumers in turn get the same session of the server: the second meets no statement that the first prepared."""

    async def handle(connection: Any, message: Message) -> None:
        await library.execute(connection, f"insert into public.effect values ({message.stream_position})")

    for _ in range(2):
        library.run(library.consume(STORE, handle, pooled=True, max_count=2, commit_every=2))
        deliver(pooled, 6)
    assert pooled.query(STORE, "select count(*), max(stream_position) from public.effect") == [(12, 12)]
    assert pooled.value(STORE, "select done_stream_position from relaybox.subscriptions") == 12


@pytest.mark.parametrize("pooled", [2], indirect=True)
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
