"""Load that breaks movers elsewhere: a transaction left open, hundreds of writers, a giant backlog, many hops into one store."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.routes import load_routes
from relaybox.stores.init.one_store import initialise_store
from tests.support.patience import patience
from tests.support.world import World, insert

pytestmark = pytest.mark.thorough

OPEN_WRITERS = 500
BACKLOG_ROWS = int(os.environ.get("RELAYBOX_TEST_BACKLOG_ROWS", "200000"))
"""Of the giant backlog; `make test-faults` asks for more."""

COUNTED_BLOCKS = """
explain (analyze, buffers, format json)
select * from relaybox_internal.outbox_buckets(
    (select lower from relaybox_internal.hop_out where hop = 'flights/1'), pg_current_snapshot(), '{flights}', 64, 0
)
"""

PEAK_MEMORY = """
import resource, sys
from relaybox.routes import load_routes
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
hop = load_routes(None).hop("flights/1")
print(transfer_hop(hop, ThreadRunner(2), recorded_by="test").row_count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def blocks_read_to_count_a_batch(world: World) -> int:
    with world.session() as connection, connection.cursor() as cursor:
        cursor.execute("set enable_seqscan = off")
        cursor.execute(COUNTED_BLOCKS)
        plan = cursor.fetchone()[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_a_transaction_left_open_does_not_make_later_batches_dearer(world: World) -> None:
    """A reader that starts at the oldest open transaction reads everything since, again and again; the split does not."""
    with world.session() as held:
        insert(held, "held")
        blocks = []
        for n in range(40):
            world.send_many(500, prefix=f"b{n}-")
            blocks.append(blocks_read_to_count_a_batch(world))
            world.transfer()
        held.commit()
    world.transfer()
    assert len(world.payloads()) == 40 * 500 + 1
    early, late = max(blocks[1:6]), max(blocks[-5:])
    assert late <= early * 1.5, f"blocks per batch of 500 messages grew: {blocks}"


@pytest.mark.timeout(300)
def test_hundreds_of_open_writers_are_in_one_snapshot_and_lose_nothing(world: World) -> None:
    """500 transactions are open while a batch is planned; each is read once, after its commit."""
    with world.session(autocommit=True) as connection, connection.cursor() as cursor:
        for n in range(OPEN_WRITERS):
            cursor.execute("begin")
            insert(connection, f"open {n}")
            cursor.execute(f"prepare transaction 'writer {n}'")
    world.send("between")
    world.transfer()
    assert world.payloads() == ["between"]
    assert (
        len(world.value("airline", "select upper::text from relaybox_internal.batch where batch = 1").split(",")) >= OPEN_WRITERS
    )
    for n in range(OPEN_WRITERS):
        world.query("airline", f"commit prepared 'writer {n}'")
    world.transfer()
    assert sorted(world.payloads()) == sorted(["between", *(f"open {n}" for n in range(OPEN_WRITERS))])


def moved_rows_and_peak() -> tuple[int, int]:
    """What a driver with two threads moves, and its largest resident memory in kB."""
    answer = subprocess.run(
        [sys.executable, "-c", PEAK_MEMORY], capture_output=True, text=True, check=True, timeout=patience(800)
    )
    rows, kilobytes = answer.stdout.split()[-2:]
    return int(rows), int(kilobytes)


@pytest.mark.timeout(900)
def test_a_giant_backlog_takes_no_more_memory_than_a_small_one(world: World) -> None:
    """One transaction, one range, cut into capped batches: the driver holds counts, never rows."""
    world.change_route(limits={"batch_rows": 50_000, "slice_rows": 10_000})
    world.send_many(BACKLOG_ROWS // 20)
    small = moved_rows_and_peak()
    world.send_many(BACKLOG_ROWS, prefix="giant")
    giant = moved_rows_and_peak()
    assert (small[0], giant[0]) == (BACKLOG_ROWS // 20, BACKLOG_ROWS)
    assert giant[1] < small[1] + 8_000, f"peak memory in kB: {small[1]} for {small[0]} messages, {giant[1]} for {giant[0]}"


@pytest.mark.timeout(300)
def test_many_batches_with_rows_of_16_mib_take_no_more_memory_than_one(world: World) -> None:
    """What a thread took for such a row is given back: each thread of malloc would keep its own."""
    world.change_route(limits={"batch_rows": 1000, "slice_rows": 500})

    def send(batch_count: int) -> None:
        """Each slice has a long row, so both threads carry one."""
        for _ in range(batch_count):
            world.query(
                "airline",
                "insert into relaybox.outbox (topic, sender, payload) "
                "select 'flights', 'UA', repeat('x', case n %% 500 when 0 then 1 << 24 else 1 end) from generate_series(1, 1000) n",
            )

    send(1)
    one = moved_rows_and_peak()
    send(16)
    many = moved_rows_and_peak()
    assert (one[0], many[0]) == (1000, 16_000)
    assert many[1] < one[1] + 8_000, f"peak memory in kB: {one[1]} for one batch, {many[1]} for 16"


def test_sixteen_hops_into_one_store_do_not_deadlock(world: World, tmp_path: Path) -> None:
    """Publishing locks only the row of its own hop: no deadlock."""
    routes_of = {f"route{n}": {"topics": [f"topic{n}"], "path": ["airline", "hub"], "policy": "received"} for n in range(16)}
    path = tmp_path / "sixteen.yaml"
    path.write_text(yaml.safe_dump({"stores": {"airline": {}, "hub": {}}, "routes": routes_of}))
    routes = load_routes(path)
    for store in routes.stores.values():
        initialise_store(store, routes, segment_rows=10_000)
    for n in range(16):
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload) select %s, 'UA', 'm' || n from generate_series(1, 200) n",
            f"topic{n}",
        )
    deadlocks = "select sum(deadlocks) from pg_stat_database"
    before = world.value("hub", deadlocks)
    with ThreadPoolExecutor(16) as pool:
        moved = list(pool.map(lambda hop: transfer_hop(hop, ThreadRunner(1), recorded_by="test").row_count, routes.hops))
    assert moved == [200] * 16
    assert world.value("hub", deadlocks) == before
    assert world.query("hub", "select count(*), count(distinct log_id) from relaybox_internal.log") == [(3200, 16)]
