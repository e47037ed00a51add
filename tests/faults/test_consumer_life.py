"""Consumers that wait, of several libraries, while all that they depend on goes and comes: each message is handled once, or has expired
and is a dead letter once; and none waits for longer than its consumer is told to (G10)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from tests.faults.consumer_life import STORE, consumer_life
from tests.support.world import World

LIVES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "4"))


@pytest.fixture
def pooler(clusters: Mapping[str, Cluster]) -> Iterator[PgBouncer]:
    made = PgBouncer(clusters[STORE], "transaction", pool_size=3)
    made.start()
    yield made
    made.remove()


@pytest.mark.timeout(120)
def test_g10_a_short_life_of_consumers_that_wait(world: World, pooler: PgBouncer, tmp_path: Path) -> None:
    """Each step that there is, once, in an order that is always the same: only what is chosen in a step has a seed."""
    with consumer_life(world, pooler, tmp_path, seed=7) as life:
        for _ in range(2):
            life.start_worker()
        life.send()
        life.transfer()
        life.terminate_sessions()
        life.settle()
        life.crash_by_hand()
        life.redrive()
        life.kill_worker()
        life.begin_anew()
        life.start_worker()
        life.restart_pooler()
        life.settle()


@pytest.mark.thorough
@pytest.mark.timeout(180)
@pytest.mark.parametrize("number", range(LIVES))
def test_g10_whatever_becomes_of_consumers_that_wait(world: World, pooler: PgBouncer, tmp_path: Path, number: int) -> None:
    """RELAYBOX_SEED repeats a life; RELAYBOX_TEST_EXAMPLES of them, of 40 steps."""
    seed = int(os.environ.get("RELAYBOX_SEED", random.randrange(10**6)))
    print(f"RELAYBOX_SEED={seed}")
    with consumer_life(world, pooler, tmp_path, seed) as life:
        life.live(40)
