"""Slots while messages flow, on a real scheduler: `make test-slots`. Not of the default suite.

Four drivers and their senders fill two cores, so on a loaded machine the test tells how loaded it is.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.airflow.slot_system import (
    HOPS,
    SLOTS,
    START_SECONDS,
    STORE,
    measured,
    start_seconds,
    system,
    tasks_in,
    topic,
)
from tests.airflow.system import ARRIVE_SECONDS, System
from tests.support.patience import patience
from tests.support.world import World, wait_until

__all__ = ["system"]


@contextmanager
def flowing(world: World, topics: list[str]) -> Iterator[None]:
    """A message of each topic every half second: no hop of them is ever idle."""
    ended = threading.Event()

    def produce() -> None:
        with world.session(autocommit=True) as session, session.cursor() as cursor:
            while not ended.wait(0.5):
                cursor.execute(
                    "insert into relaybox.outbox (topic, sender, payload) select t, 'flow', 'f' from unnest(%s) t", (topics,)
                )

    thread = threading.Thread(target=produce, name="flow")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_hops_whose_messages_flow_give_a_slot_to_one_that_waits(system: System) -> None:
    """Every slot has a driver that is never idle. The driver that leaves comes back when it has its turn: nothing is lost."""
    busy = [topic(number) for number in range(1, SLOTS + 1)]
    with flowing(system.world, busy):
        wait_until(
            lambda: {task["dag_id"] for task in tasks_in(system, "running")} == {f"relaybox_transfer__{name}_1" for name in busy},
            "every slot has a driver",
            deadline_seconds=ARRIVE_SECONDS,
            poll_seconds=0.2,
        )
        seconds = [start_seconds(system, of) for of in ("flights", topic(HOPS))]
    assert measured(*seconds) <= patience(START_SECONDS)
    for name in busy:
        sent = system.world.value("airline", "select count(*) from relaybox.outbox where topic = %s", name)
        arrived = "select published_position from relaybox_internal.hop_in where hop = %s"
        wait_until(
            lambda: system.world.value(STORE, arrived, f"{name}/1") == sent,  # noqa: B023
            f"all of {name} arrived",
            deadline_seconds=ARRIVE_SECONDS,
        )
