"""A route whose relaybox.yaml changes, whose stores are restored, and whose rows are dropped: as a Hypothesis state machine.

The producers' own log is the reference (conservation.py). Retention runs with a replay window of 0 and segments of four rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg2
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.retention.segments import retain_store
from relaybox.routes import Hop, Routes
from relaybox.verification.route_verification import verify_route
from tests.faults.changes import BOTH, CHANGES, REFUSED, RouteFile, initialise, initialise_and_die, initialise_each, tables_of
from tests.faults.conservation import Breach, Conservation, Remembered, Sent
from tests.faults.hop_machine import DyingAfter
from tests.faults.lives import Life, hops
from tests.faults.restores import RESTORES, Copy, is_comparable, repair_route, restore, take_copy
from tests.faults.settings import SIMPLE, Setting, reset_all, set_for_database, set_for_role
from tests.faults.stores import UNDISTURBED
from tests.support.breaking import Stopped
from tests.support.disposal import discard
from tests.support.world import STORES, insert

LOGS = (("flights/1", "hub"), ("flights/2", "analytics"))
SEGMENT_ROWS = 4
RESTORES_AT_MOST = 2
INIT_STATEMENTS = 140
"""About as many as `relaybox init` sends to three stores that have the newest functions."""

some = st.integers(1, 6)


@dataclass(frozen=True)
class Backup:
    """A copy of all stores, and what the producers and consumers knew when it was taken."""

    copy: Copy
    remembered: dict[str, Remembered]


class ChangeMachine(Life):
    """Two deployments, each with a relaybox.yaml; producers of two topics; an operator; an administrator of the stores."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = itertools.count(1)
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
        connection = psycopg2.connect(service="airline", options=UNDISTURBED)
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

    @rule(number=hops, which=hops, slices=st.integers(0, 2), from_the_last=st.booleans())
    def transfer_and_die(self, number: int, which: int, slices: int, from_the_last: bool = False) -> None:
        if hop := self.hop_of(number, which):
            with suppress(Stopped):
                transfer_hop(hop, DyingAfter(slices, from_the_last=from_the_last), recorded_by="test")

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

    @rule(dies_after=st.none() | st.integers(0, INIT_STATEMENTS))
    def change_order(self, dies_after: int | None) -> None:
        """Refused in every store once a stream has decided anything, and nothing is changed.

        Before that it can be finished or taken back wherever it was killed, and no two stores decide in two orders.
        """
        file = self.files[0]
        if not file.is_there or file.path != STORES:
            return
        other, before, had_decided = REFUSED["order_changed"](file), tables_of(STORES), bool(self._orders())
        if dies_after is not None:
            other.write(self.world.path)
            initialise_and_die(self.world.path, dies_after)
        elif had_decided:
            refused = initialise(other.write(self.world.path))
            assert {type(error) for error in refused} == {errors.HopChanged}, refused
        if had_decided:
            assert tables_of(STORES) == before
            return
        for hop in (0, 1):
            with suppress(errors.InitUnfinished):
                self.transfer(hop, 0)
        is_finished = not initialise(other.write(self.world.path)) and self._orders()
        self.files = [replace(one, order=other.order if is_finished else one.order) for one in self.files]
        refused = initialise(self.files[0].write(self.world.path))
        assert not refused, refused
        assert len(orders := self._orders()) <= 1, orders

    @rule()
    def retire_weather(self) -> None:
        """What was kept of a topic that the hop no longer has is given up on record; what comes of it later is not."""
        (topics,) = self.world.query("airline", "select topics from relaybox_internal.hop_out where hop = 'flights/1'")[0]
        if "weather" not in topics:
            self._end_open()
            self.world.query(
                "airline", "select relaybox_internal.retire_topics('flights/1', '{weather}', 'nobody wants it', 'test')"
            )
            self.account.give_up("flights/1", "weather")

    # who sets something in a store: for the sessions from now on, until it is reset or the store restored

    @rule(
        setting=st.none() | st.sampled_from(SIMPLE),
        store=st.sampled_from(STORES),
        put=st.sampled_from([set_for_role, set_for_database]),
    )
    def set_in_a_store(self, setting: Setting | None, store: str, put: Callable[..., None] = set_for_role) -> None:
        """None: all is reset."""
        if setting is None:
            reset_all(*self.databases[store])
        else:
            put(*self.databases[store], [setting])

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
        stores=st.sampled_from(RESTORES),
        count=st.integers(0, 6),
        topics=st.sampled_from([BOTH, ("flights",), ("weather",)]),
        same_timeline=st.booleans(),
    )
    def restore(self, stores: tuple[str, ...], count: int, topics: tuple[str, ...] = BOTH, same_timeline: bool = False) -> None:
        """One, two or all stores of the route; messages are sent and the topics changed before anybody repairs anything."""
        self._end_open()
        self.account.look()
        copies = {store: self.backup.remembered[store] for store in stores}
        hops = RouteFile().write(self.world.path).route("flights").hops
        if self.account.would_be_lost(copies) or not is_comparable(self.backup.copy, self.databases, stores, hops):
            return
        restore(self.backup.copy, self.databases, stores, same_timeline=same_timeline)
        self.account.restore(copies)
        if count:
            self.send(count, BOTH, True)
        self._whole_route(topics)
        routes = self._routes(0)
        repair_route(routes.route("flights"), routes)

    # what always holds

    @invariant()
    def nothing_is_lost(self) -> None:
        if self.world is not None:
            self.require_nothing_lost()

    def finish(self) -> None:
        """All topics are routed over the whole path; then everything that was committed and kept is in both logs."""
        self._end_open()
        self._whole_route()
        routes = self._routes(0)
        for _ in range(2):
            for hop in routes.route("flights").hops:
                transfer_hop(hop, ThreadRunner(1), recorded_by="test")
            self.settle(0)
            self.require_nothing_lost()
        _require_none(list(self.account.undelivered()))
        verification = verify_route(routes.route("flights"))
        assert verification.outcome == "delivered", verification
        self._retain(routes)
        self.require_nothing_lost()

    def require_nothing_lost(self) -> None:
        _require_none(self.account.look())

    def _whole_route(self, topics: tuple[str, ...] = BOTH) -> None:
        file = self.files[0]
        self.files = [RouteFile(topics=topics, policy=file.policy, order=file.order, limits=file.limits)] * 2
        self._init(0)

    def _orders(self) -> set[str]:
        """Those in which the stores of the path have decided about messages of the stream."""
        orders = "select delivery_order from relaybox_internal.stream where stream = 'flights' and arrival_seq > 0"
        return {order for store in self.files[0].path[1:] for (order,) in self.world.query(store, orders)}

    def _init(self, which: int) -> None:
        initialise_each(self.files[which].write(self.world.path))

    def _routes(self, which: int) -> Routes:
        return self.files[which].write(self.world.path)

    def hop_of(self, number: int, which: int) -> Hop | None:
        """A hop of one of the two files, if it has it."""
        found = [hop for hop in self._routes(which).hops if hop.name == LOGS[number][0]]
        return found[0] if found else None

    def _retain(self, routes: Routes) -> None:
        self.require_nothing_lost()  # consumers have read what is dropped now
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


def _require_none(found: list[str]) -> None:
    if found:
        raise Breach(found)


def _discard(copy: Copy) -> None:
    discard(copy.databases.values())
