"""A route whose relaybox.yaml changes, whose stores are restored, and whose rows are dropped: as a Hypothesis state machine.

Who judges is the producers' own log (conservation.py). Retention runs with a replay window of 0 and segments of four rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg2
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.proofs.verification import verify_route
from relaybox.retention.segments import retain_store
from relaybox.routes import Hop, Routes
from tests.breaking import Stopped
from tests.faults.changes import BOTH, CHANGES, REFUSED, STORES, RouteFile, initialise, initialise_and_die, tables_of
from tests.faults.conservation import Conservation, Remembered, Sent
from tests.faults.hop_machine import DyingAfter
from tests.faults.restores import Copy, Databases, repair_route, restore, take_copy
from tests.world import World, insert

LOGS = (("flights/1", "hub"), ("flights/2", "analytics"))
SEGMENT_ROWS = 4
RESTORES_AT_MOST = 2
INIT_STATEMENTS = 60
"""About as many as `relaybox init` sends to three stores that have the newest functions."""

some = st.integers(1, 6)
any_one = st.integers(0, 1000)
hops = st.sampled_from([0, 1])


@dataclass(frozen=True)
class Backup:
    """A copy of all stores, and what the producers and consumers knew when it was taken."""

    copy: Copy
    remembered: dict[str, Remembered]


class ChangeMachine(RuleBasedStateMachine):
    """Two deployments, each with a relaybox.yaml; producers of two topics; an operator."""

    make_world: ClassVar[Callable[[], AbstractContextManager[tuple[World, Databases]]]]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.moments, self.numbers, self.copies = itertools.count(1), itertools.count(1), itertools.count(1)
        self.open: tuple[Any, list[tuple[str, str, int]]] | None = None
        self.backup: Backup | None = None
        self.account = Conservation("airline", LOGS)
        self.files = [RouteFile(), RouteFile()]
        self.transfer_at_most_seconds = 0.0
        """Under a load that never ends, a transfer ends by the clock."""

    @initialize(batch_rows=st.sampled_from([1, 2, 3, 5]), both=st.booleans())
    def build(self, batch_rows: int, both: bool) -> None:
        self.world, self.databases = self.stack.enter_context(type(self).make_world())
        self.stack.callback(self._end_open)
        file = RouteFile(
            topics=BOTH if both else ("flights",), limits={"batch_rows": batch_rows, "slice_rows": max(1, batch_rows // 5)}
        )
        self.files = [file, file]
        self._init(0)

    # producers

    @rule(count=some, topics=st.sampled_from([("flights",), ("weather",), BOTH]), commits=st.booleans())
    def send(self, count: int, topics: tuple[str, ...], commits: bool) -> None:
        """One transaction; with both topics they alternate."""
        with self.world.session() as session:
            rows = self._insert(session, count, topics)
            if commits:
                session.commit()
                self._committed(rows)

    @precondition(lambda self: self.open is None)
    @rule(count=some)
    def hold_open(self, count: int) -> None:
        connection = psycopg2.connect(service="airline")
        self.open = (connection, self._insert(connection, count, BOTH))

    @precondition(lambda self: self.open is not None)
    @rule()
    def end_open(self) -> None:
        connection, rows = self.open
        connection.commit()
        connection.close()
        self.open = None
        self._committed(rows)

    # drivers and retention

    @rule(number=hops, which=hops)
    def transfer(self, number: int, which: int) -> None:
        if hop := self.hop_of(number, which):
            at_most = self.transfer_at_most_seconds
            transfer_hop(
                hop, ThreadRunner(1), recorded_by="test", linger_seconds=min(0.1, at_most), linger_at_most_seconds=at_most
            )

    @rule(number=hops, which=hops, slices=st.integers(0, 2))
    def transfer_and_die(self, number: int, which: int, slices: int) -> None:
        if hop := self.hop_of(number, which):
            with suppress(Stopped):
                transfer_hop(hop, DyingAfter(slices), recorded_by="test")

    @rule(which=hops)
    def settle(self, which: int) -> None:
        routes = self._routes(which)
        for route in routes.routes.values():
            for hop in reversed(route.hops):
                settle_hop(route, hop, recorded_by="test")

    @rule(which=hops)
    def retention(self, which: int) -> None:
        self._retain(self._routes(which))

    # who changes the file

    @rule(name=st.sampled_from(sorted(CHANGES)), which=hops)
    def change(self, name: str, which: int) -> None:
        """One of the two deployments gets another file and runs init; the other goes on with its own."""
        self.files[which] = CHANGES[name](self.files[which])
        self._init(which)

    @rule(name=st.sampled_from(sorted(CHANGES)), after=st.integers(0, INIT_STATEMENTS))
    def change_and_die(self, name: str, after: int) -> None:
        """Init is killed anywhere; it can always be run again, with the new file or with the old one."""
        self.files[0] = CHANGES[name](self.files[0])
        self.files[0].write(self.world.path)
        initialise_and_die(self.world.path, after)

    @rule(which=hops)
    def init_again(self, which: int) -> None:
        """Also what a deployment does whose file is older than what the stores have."""
        self._init(which)

    @rule()
    def rename_a_store(self) -> None:
        """A database is the store that it was named as: refused, and nothing is changed."""
        before = tables_of(["hub"])
        refused = initialise(REFUSED["store_renamed"](self.files[0]).write(self.world.path))
        assert any(isinstance(error, errors.ConfigurationError) for error in refused), refused
        assert tables_of(["hub"]) == before

    @rule()
    def retire_weather(self) -> None:
        """What was kept of a topic that the hop no longer has is given up on record; what comes of it later is not."""
        (topics,) = self.world.query("airline", "select topics from relaybox.hop_out where hop = 'flights/1'")[0]
        if "weather" not in topics:
            self._end_open()
            self.world.query("airline", "select relaybox.retire_topics('flights/1', '{weather}', 'nobody wants it', 'test')")
            self.account.give_up("flights/1", "weather")

    # restores

    @precondition(lambda self: self.backup is None or self.account.restored)
    @rule()
    def back_up(self) -> None:
        self._end_open()
        name = f"copy_{next(self.copies)}"
        copy = take_copy(self.databases, name)
        self.stack.callback(_discard, copy)
        self.account.look()
        self.backup = Backup(copy, self.account.remember(STORES))

    @precondition(lambda self: self.backup is not None and self.account.restored < RESTORES_AT_MOST)
    @rule(
        stores=st.sampled_from([("airline",), ("hub",), ("analytics",), ("airline", "hub"), ("hub", "analytics"), STORES]),
        count=st.integers(0, 6),
    )
    def restore(self, stores: tuple[str, ...], count: int) -> None:
        """One, two or all stores of the route; messages are sent before anybody repairs anything."""
        self._end_open()
        self.account.look()
        copies = {store: self.backup.remembered[store] for store in stores}
        if self.account.would_be_lost(copies):
            return
        restore(self.backup.copy, self.databases, stores)
        self.account.restore(copies)
        if count:
            self.send(count, BOTH, True)
        self._whole_route()
        routes = self._routes(0)
        repair_route(routes.route("flights"), routes)

    # what always holds

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "world"):
            self._require(self.account.look())

    def teardown(self) -> None:
        with self.stack:
            if hasattr(self, "world"):
                self._finish()

    def _finish(self) -> None:
        """All topics are routed over the whole path; then everything that was committed and kept is in both logs."""
        self._end_open()
        self._whole_route()
        routes = self._routes(0)
        for _ in range(2):
            for hop in routes.route("flights").hops:
                transfer_hop(hop, ThreadRunner(1), recorded_by="test")
            self.settle(0)
            self._require(self.account.look())
        self._require(list(self.account.undelivered()))
        verification = verify_route(routes.route("flights"))
        assert verification.verdict == "delivered", verification
        self._retain(routes)
        self._require(self.account.look())

    def _require(self, found: list[str]) -> None:
        """Pytest says what was found in test modules only."""
        assert not found, found

    def _whole_route(self) -> None:
        file = self.files[0]
        self.files = [RouteFile(topics=BOTH, policy=file.policy, limits=file.limits)] * 2
        self._init(0)

    def _init(self, which: int) -> None:
        self._require([str(error) for error in initialise(self.files[which].write(self.world.path))])

    def _routes(self, which: int) -> Routes:
        return self.files[which].write(self.world.path)

    def hop_of(self, number: int, which: int) -> Hop | None:
        """A hop of one of the two files, if it has it."""
        found = [hop for hop in self._routes(which).hops if hop.name == LOGS[number][0]]
        return found[0] if found else None

    def _retain(self, routes: Routes) -> None:
        self._require(self.account.look())  # consumers have read what is dropped now
        for store in routes.stores.values():
            retain_store(store, recorded_by="test", patience_seconds=0.0)

    def _insert(self, session: Any, count: int, topics: tuple[str, ...]) -> list[tuple[str, str, int]]:
        rows = []
        for number in range(count):
            topic = topics[number % len(topics)]
            payload = f"{topic[0]}{next(self.numbers)}"
            insert(session, payload, topic=topic)
            rows.append((payload, topic, next(self.moments)))
        return rows

    def _committed(self, rows: list[tuple[str, str, int]]) -> None:
        moment = next(self.moments)
        for payload, topic, inserted in rows:
            self.account.committed(Sent(payload, topic, inserted, moment))

    def _end_open(self) -> None:
        if self.open is not None:
            self.end_open()


def _discard(copy: Copy) -> None:
    from tests.disposal import discard

    discard(copy.databases.values())
