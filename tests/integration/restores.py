"""A route over several stores, any of which is put back to an earlier time: what a backup, a snapshot of a machine or a failover does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.monitoring.status import read_status
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.retention.segments import retain_store
from relaybox.routes import Hop, Route, Routes, load_routes
from relaybox.stores.init.one_store import initialise_store
from relaybox.verification.route_verification import verify_route
from tests.support.administration import administer, copy_database

PATH = ("origin", "first", "second", "last")


@dataclass
class Chain:
    """The route `r`, a database per store; `committed` is the producers' own log: payloads in the order of their commits."""

    clusters: Sequence[Cluster]
    directory: Path
    name: str
    path: tuple[str, ...] = PATH
    committed: list[str] = field(default_factory=list)
    copies: list[tuple[Cluster, str]] = field(default_factory=list)

    def make(self, template: Chain | None, **route: object) -> None:
        """Databases, the service file, the file of routes, and the stores: copies of a template's, or initialised."""
        for store in self.path:
            copied = copy_database(self.database(store), "template1" if template is None else template.database(store))
            administer(self.cluster(store), copied)
        parameters = {store: self.cluster(store).parameters(self.database(store)) for store in self.path}
        write_service_file(self.directory / "services.conf", parameters)
        self.write_routes(**route)
        if template is None:
            self.initialise()

    def write_routes(self, **route: object) -> None:
        one = {"topics": ["t"], "path": list(self.path), "limits": {"batch_rows": 10, "slice_rows": 4}, **route}
        document = {"stores": {store: {} for store in self.path}, "routes": {"r": one}}
        (self.directory / "relaybox.yaml").write_text(yaml.safe_dump(document))

    def initialise(self) -> None:
        for store in self.routes.stores.values():
            initialise_store(store, self.routes, segment_rows=1_000)

    @property
    def routes(self) -> Routes:
        return load_routes(self.directory / "relaybox.yaml")

    @property
    def route(self) -> Route:
        return self.routes.route("r")

    def cluster(self, store: str) -> Cluster:
        return self.clusters[self.path.index(store) % len(self.clusters)]

    def database(self, store: str) -> str:
        return f"{self.name}_{store}"

    def databases(self) -> list[tuple[Cluster, str]]:
        return [*((self.cluster(store), self.database(store)) for store in self.path), *self.copies]

    def query(self, store: str, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(service=store)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, arguments or None)
                return list(cursor.fetchall()) if cursor.description else []

    def send(self, count: int, *, topic: str = "t") -> None:
        """Each message in a transaction of its own; every payload is new for ever."""
        for _ in range(count):
            payload = f"m{len(self.committed) + 1}"
            self.query(self.path[0], "insert into relaybox.outbox (topic, sender, payload) values (%s, 'UA', %s)", topic, payload)
            self.committed.append(payload)

    def transfer(self, *hops: int) -> None:
        for number in hops or range(1, len(self.path)):
            transfer_hop(self.route.hops[number - 1], ThreadRunner(2), recorded_by="test")

    def settle(self) -> None:
        for hop in reversed(self.route.hops):
            settle_hop(self.route, hop, recorded_by="test")

    def retain(self) -> None:
        for store in self.route.path:
            retain_store(store, recorded_by="test")

    def back_up(self, *stores: str) -> Mapping[str, str]:
        """These stores as they are now."""
        arrival_seq = {}
        for store in stores:
            copy = f"{self.database(store)}_copy_{len(self.copies)}"
            administer(self.cluster(store), copy_database(copy, self.database(store)))
            self.copies.append((self.cluster(store), copy))
            arrival_seq[store] = copy
        return arrival_seq

    def restore(self, store: str, copy: str, *, promoted: bool = False) -> None:
        """The store is again what it was; `promoted`: on a new timeline, as after a recovery to a point in time."""
        database = self.database(store)
        administer(self.cluster(store), f"drop database {database} with (force)", copy_database(database, copy))
        if promoted:
            self.query(store, "update relaybox_internal.hop_out set timeline = timeline + 1")

    def existing(self) -> set[str]:
        """What any store has in its outbox or in a log."""
        found = {payload for (payload,) in self.query(self.path[0], "select payload from relaybox.outbox where topic = 't'")}
        for hop in self.route.hops:
            found |= set(self.log(hop))
        return found

    def outbox(self) -> list[str]:
        return [p for (p,) in self.query(self.path[0], "select payload from relaybox.outbox where topic = 't' order by seq")]

    def log(self, hop: Hop) -> list[str]:
        statement = (
            "select l.payload from relaybox_internal.hop_in i join relaybox_internal.log l using (log_id)"
            " where i.hop = %s and l.log_position <= i.published_position order by l.log_position"
        )
        return [payload for (payload,) in self.query(hop.destination.name, statement, hop.name)]

    def repair(self) -> list[str]:
        """What the runbooks say: from the origin on, each hop that has stopped is reanchored. Returns those."""
        reanchored = []
        for hop in self.route.hops:
            try:
                transfer_hop(hop, ThreadRunner(2), recorded_by="test")
            except (errors.HistoryLost, errors.ContentDiffers):
                reanchor_hop(hop, self.routes, recorded_by="test", reason="restored", dry_run=False)
                transfer_hop(hop, ThreadRunner(2), recorded_by="test")
                reanchored.append(hop.name)
        return reanchored

    def wrong(self, existing: set[str]) -> Iterator[str]:
        """Everything that a chain of stores must not do, judged by the producers' log and by the stores themselves."""
        last = self.log(self.route.hops[-1])
        counts = Counter(last)
        yield from (f"{payload} is not in the last store" for payload in sorted(existing) if counts[payload] == 0)
        yield from (f"{payload} is {count} times in the last store" for payload, count in counts.items() if count > 1)
        yield from (f"{payload} was never committed" for payload in counts if payload not in self.committed)
        sent = set(self.outbox())
        order = [payload for payload in last if payload in sent]
        if order != [payload for payload in self.outbox() if payload in counts]:
            yield f"out of order: {order}"
        here = sent
        for hop in self.route.hops:
            log = self.log(hop)
            ghosts = dict(
                self.query(
                    hop.source.name, "select log_position, message_id from relaybox_internal.ghost where hop = %s", hop.name
                )
            )
            unlisted = [p for n, p in enumerate(log, start=1) if p not in here and n not in ghosts]
            listed = [p for n, p in enumerate(log, start=1) if p in here and n in ghosts]
            if unlisted or listed:
                yield f"{hop.name}: ghosts that are not listed {unlisted}, listed that are none {listed}"
            here = set(log)
        verification = verify_route(self.route)
        if verification.outcome != "delivered":
            legs = (*verification.hops, verification.end_to_end)
            yield f"verify: {verification.outcome}: {[(leg.name, leg.defects, leg.contradictions, leg.in_flight) for leg in legs]}"
            yield f"streams: {verification.streams}"
        for status in read_status(self.routes).hops:
            if status.errors or status.lag_messages:
                yield f"status: {status.hop.name}: lag {status.lag_messages}, {status.errors}"
            if status.settled_through != status.received:
                yield f"{status.hop.name} is settled through {status.settled_through} of {status.received}"
        for hop in self.route.hops:
            (stream,) = self.query(hop.destination.name, "select count(*) from relaybox.read_stream('r', 0, 100000)")
            if stream[0] != len(self.log(hop)):
                yield f"stream at {hop.destination.name}: {stream[0]} of {len(self.log(hop))} are delivered"
