"""A real run over three clusters, with the WAL positions of every step and of every acknowledged message written down."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from relaybox.local.clusters import create_cluster, write_service_file
from tests.faults.wal_copies import WAL_SETTINGS, Base, ask, take_base
from tests.support.world import STORES, World, insert, routes_file

DATABASE = "store"
SENDERS = ("UA", "AA", "DL")
TRANSACTIONS_PER_ROUND = 12
PAUSE_SECONDS = 0.1
"""A producer pauses up to so long between two transactions, so that a round's messages come while its driver works."""

LIMITS = {"batch_rows": 30, "slice_rows": 8}

UNFLUSHED = {"wal_writer_delay": "10s", "wal_writer_flush_after": "64MB"}
"""An asynchronous commit is not on disk until the commit of another session flushes it."""

_WAL_NOW = "select (pg_current_wal_flush_lsn() - '0/0')::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint"


@dataclass(frozen=True)
class Wal:
    """How far a store's WAL was at one moment: on disk, and written at all. A power loss keeps something between the two."""

    flushed: int
    inserted: int


@dataclass(frozen=True)
class Moment:
    """The driver had just done `step`, and stood still: what all stores' WAL and the producers knew.

    Attributes:
        step: planned, copied, published, confirmed or settled, with the hop.
        wal: per store.
        acknowledged: the number of entries of the recording's acknowledgements before it.
    """

    step: str
    wal: Mapping[str, Wal]
    acknowledged: int


@dataclass
class Recording:
    """What a run left: the bases to recover from, its moments in order, and the durable commits in the order of their answers."""

    bases: Mapping[str, Base]
    moments: list[Moment] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)


@contextmanager
def record_run(directory: Path, *, seed: int, rounds: int) -> Iterator[Recording]:
    """Runs producers and drivers, stops the three clusters in peace, and keeps them until the block ends.

    In each round three producers commit, half of the time with synchronous_commit off, while one driver after the other
    moves both hops and settles them.

    Args:
        directory: an empty directory that the servers' account can enter; PGSERVICEFILE must name `directory`/services.conf.
        seed: decides what the producers do.
        rounds: each has 36 transactions of 1 to 4 messages, and a batch or more of each hop.
    """
    with ExitStack() as stack:
        clusters = {store: create_cluster(store, directory / store, settings={**WAL_SETTINGS, **UNFLUSHED}) for store in STORES}
        for cluster in clusters.values():
            stack.callback(cluster.remove)
            cluster.start()
            ask(cluster, f"create database {DATABASE}")
        write_service_file(
            directory / "services.conf", {store: cluster.parameters(DATABASE) for store, cluster in clusters.items()}
        )
        world = World(routes_file(directory, route={"limits": LIMITS}))
        world.initialise()
        world.send("before-1", sender="before")
        world.transfer_all()
        recording = Recording({store: take_base(cluster, directory / f"{store}-base") for store, cluster in clusters.items()})
        with _Run(recording, world, random.Random(seed)) as run:
            for number in range(rounds):
                run.round(number)
        for cluster in clusters.values():
            cluster.stop()
        yield recording


class _Run(ExitStack):
    """The producers, the driver and the observer of a run."""

    def __init__(self, recording: Recording, world: World, chance: random.Random) -> None:
        super().__init__()
        self._recording = recording
        self._world = world
        self._chance = chance
        self._observers = {store: self.enter_context(closing(_autocommit(store))) for store in STORES}

    def round(self, number: int) -> None:
        with ThreadPoolExecutor(len(SENDERS)) as pool:
            producers = [pool.submit(self._produce, sender, number, self._chance.randrange(2**32)) for sender in SENDERS]
            for hop in self._world.route.hops:
                self._world.transfer(hop, progress=lambda progress: self._observe(_step(progress)))
                self._observe(f"{hop.name} confirmed")
            self._world.settle_all()
            self._observe("settled")
            for producer in producers:
                producer.result()

    def _produce(self, sender: str, round_: int, seed: int) -> None:
        chance = random.Random(seed)
        with self._world.session() as connection:
            for transaction in range(TRANSACTIONS_PER_ROUND):
                time.sleep(chance.uniform(0, PAUSE_SECONDS))  # an application's own pace; nobody waits for it
                durable = chance.random() < 0.5
                first = (round_ * TRANSACTIONS_PER_ROUND + transaction) * 4
                payloads = [f"{sender}-{first + n}" for n in range(1, chance.randint(1, 4) + 1)]
                with connection.cursor() as cursor:
                    cursor.execute("set local synchronous_commit = %s", ("on" if durable else "off",))
                insert(connection, *payloads, sender=sender)
                connection.commit()
                if durable:
                    self._recording.acknowledged.extend(payloads)

    def _observe(self, step: str) -> None:
        acknowledged = len(self._recording.acknowledged)  # first: what is counted here is on disk by the time of the next line
        wal = {store: self._wal(observer) for store, observer in self._observers.items()}
        self._recording.moments.append(Moment(step, wal, acknowledged))

    def _wal(self, observer: Any) -> Wal:
        with observer.cursor() as cursor:
            cursor.execute(_WAL_NOW)
            return Wal(*cursor.fetchone())


def _autocommit(store: str) -> Any:
    connection = psycopg2.connect(service=store)
    connection.autocommit = True
    return connection


def _step(progress: Any) -> str:
    done = "published" if progress.published else "copied" if progress.copied else "planned"
    return f"{progress.hop} {done}"
