"""20,000 lanes of other consumers in a store: who fetches pays for his own lanes, who looks pays for each lane once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from relaybox.subscriptions.subscriptions import LISTING
from tests.support.streams import STORE, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

OTHERS = 313
LANES = 64
NEAR = 40
"""Pages by which two readings of one statement may differ: catalog lookups. An index that is a level deeper costs a page for each lookup."""

CONSUMING = {
    "fetch": "select * from relaybox.fetch('billing', 10, worker => 'a')",
    "ack": "select relaybox.ack('billing', 10, 'TOKEN')",
    "fetch and ack in one transaction": "select relaybox.ack('billing', max(stream_position)) from relaybox.fetch('billing', 10, worker => 'a')",
    "nack": "select relaybox.nack('billing', 10, 'not now', 'TOKEN')",
    "release": "select relaybox.release('billing', 'TOKEN')",
    "lag": "select * from relaybox.lag('billing')",
    "fetch of 64 lanes": "select * from relaybox.fetch('wide', 10, worker => 'b')",
    "own row": "select * from relaybox.subscriptions where subscription = 'billing'",
    "processed": "select * from relaybox_internal.processed_reading('flights/1', '{billing}')",
}
LOOKING = {
    "subscriptions": "select * from relaybox.subscriptions",
    "relaybox subscriptions, the page": LISTING,
    "metrics": "select * from relaybox_internal.store_metrics()",
    "retention": "select * from relaybox_internal.holders(1)",
    "dropping a segment": "select relaybox_internal.fence_lanes(1, 0)",
}


@pytest.fixture(scope="module")
def quiet(make_template: Callable[[Callable[[World], None]], str]) -> str:
    """2,000 messages, `billing` with one lane and `wide` with 64."""

    def fill(world: World) -> None:
        deliver(world, 2_000)
        world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
        world.query(STORE, "select relaybox.subscribe('wide', 'flights', lanes => %s)", LANES)
        world.query(STORE, "select from relaybox.fetch('billing', 10, worker => 'a')")

    return make_template(fill)


@pytest.fixture
def store(quiet: str, make_world: Callable[..., AbstractContextManager[World]]) -> Iterator[World]:
    with make_world(quiet) as world:
        yield world


def crowd(world: World) -> None:
    world.query(
        STORE,
        "select relaybox.subscribe('other-' || n, 'flights', lanes => %s) from generate_series(1, %s) n",
        LANES,
        OTHERS,
    )


def pages(cursor: Any, query: str) -> int:
    """Pages that a statement touches the second time in its session; it changes nothing."""
    cursor.execute("savepoint before")
    cursor.execute(query)
    cursor.execute("rollback to before")
    cursor.execute(f"explain (analyze, buffers, format json) {query}")
    plan = cursor.fetchone()[0]
    cursor.execute("rollback to before")
    node = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def all_pages(world: World, queries: dict[str, str]) -> dict[str, int]:
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("set statement_timeout = '60s'")
        cursor.execute("select token from relaybox_internal.cursor where worker = 'a'")
        token = cursor.fetchone()[0]
        return {name: pages(cursor, query.replace("TOKEN", token)) for name, query in queries.items()}


def test_a_consumer_pays_for_its_own_lanes_only(store: World) -> None:
    """Whether anybody ran ANALYZE or not."""
    alone = all_pages(store, CONSUMING)
    crowd(store)
    for statistics in ("none", "fresh"):
        if statistics == "fresh":
            store.query(STORE, "analyze")
        beside = all_pages(store, CONSUMING)
        more = {name: (alone[name], beside[name]) for name in CONSUMING if beside[name] > 1.3 * alone[name] + NEAR}
        assert more == {}, f"pages alone and beside {OTHERS * LANES} lanes of others, statistics: {statistics}"


def test_who_looks_at_a_store_looks_each_lane_up_once(store: World) -> None:
    """The page, `relaybox subscriptions`, metrics and retention: a few pages per lane, never lanes times subscriptions."""
    crowd(store)
    for statistics in ("none", "fresh"):
        if statistics == "fresh":
            store.query(STORE, "analyze")
        touched = all_pages(store, LOOKING)
        per_lane = {name: count / (OTHERS * LANES) for name, count in touched.items()}
        assert {name: count for name, count in per_lane.items() if count > 6} == {}, f"pages per lane, statistics: {statistics}"
