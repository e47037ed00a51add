"""A hop's whole life as a Hypothesis state machine, on real stores: anyone may do anything, again, late, in any order.

The model knows which messages were committed and when; the stores are read after every step and must agree with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from relaybox import errors
from relaybox.hops.batches import Slice
from relaybox.hops.confirmations import confirm_arrived, confirm_received, settle_hop
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice, slice_job
from relaybox.hops.planning import AttemptOwner, Planned, plan_batch
from relaybox.hops.publishing import PublishedBatch, ask_destination, make_log_segments, publish_batch
from relaybox.hops.transfer import transfer_hop
from relaybox.routes import Hop
from relaybox.stores.init.one_store import initialise_store
from relaybox.verification.route_verification import verify_route
from tests.faults.lives import Life, any_one, hops
from tests.support.breaking import FirstSlices, Stopped
from tests.support.world import insert, routes_file

TOPICS = ("flights", "weather")
OPEN_TRANSACTIONS = 3
WIDE_GAP = 50_000

some = st.integers(1, 4)


@dataclass(eq=False)
class Transaction:
    """What a producer did: messages with the moment of their insert, and the moment of the commit."""

    topic: str
    inserted: dict[str, int] = field(default_factory=dict)
    committed: int | None = None


@dataclass
class Job:
    """A driver's batch: what it knows when it copies and publishes, however long ago it planned."""

    hop: Hop
    planned: Planned
    order: SliceJob

    @property
    def key(self) -> tuple[str, int]:
        return (self.hop.name, self.planned.batch.batch)


@dataclass
class Reader:
    """A consumer that reads on from where it stopped."""

    hop: str
    seen: list[str] = field(default_factory=list)


class DyingAfter(FirstSlices):
    """Copies this number of slices, from the first or from the last on. Then the driver dies, also if all were copied."""

    def __init__(self, count: int, *, from_the_last: bool = False) -> None:
        super().__init__(count)
        self._from_the_last = from_the_last

    def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        yield from super().copy_slices(order, slices[::-1] if self._from_the_last else slices)
        raise Stopped


class HopMachine(Life):
    """Two hops; producers, drivers and confirmers that all do as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: list[Transaction] = []
        self.open: list[tuple[Any, Transaction]] = []
        self.prepared: list[tuple[str, Transaction]] = []
        self.weather_since: int | None = None
        self.jobs: list[Job] = []
        self.copied: dict[tuple[str, int], set[int]] = {}
        self.arrivals: list[tuple[Hop, PublishedBatch]] = []
        self.logs: dict[str, list[str]] = {}
        self.watermarks: dict[tuple[str, str, str], int] = {}
        self.plans: dict[tuple[str, str, int], str] = {}

    @initialize(batch_rows=st.sampled_from([1, 2, 3, 5, 100]), slice_rows=st.integers(1, 3))
    def build(self, batch_rows: int, slice_rows: int) -> None:
        self.world = self.stack.enter_context(type(self).make_world())
        self.limits = {"batch_rows": batch_rows, "slice_rows": min(slice_rows, batch_rows)}
        routes_file(self.world.path.parent, route={"limits": self.limits})
        self.route = self.world.route
        sessions = {store: self.stack.enter_context(self.world.store_session(store)) for store in self.world.routes.stores}
        self.sessions = sessions
        self.observers = {store: self.stack.enter_context(self.world.session(store, autocommit=True)) for store in sessions}
        self.producer = self.stack.enter_context(self.world.session())
        self.readers = {hop.name: Reader(hop.name) for hop in self.route.hops}

    # producers

    @rule(count=some, topic=st.sampled_from(TOPICS), commits=st.booleans())
    def send(self, count: int, topic: str, commits: bool) -> None:
        transaction = Transaction(topic)
        self._insert(self.producer, transaction, count)
        self._end(self.producer, transaction, commits)

    @rule(before=some, undone=some, after=some)
    def send_around_a_savepoint(self, before: int, undone: int, after: int) -> None:
        transaction = Transaction("flights")
        self._insert(self.producer, transaction, before)
        with self.producer.cursor() as cursor:
            cursor.execute("savepoint s")
            self._insert(self.producer, Transaction("flights"), undone)
            cursor.execute("rollback to savepoint s")
        self._insert(self.producer, transaction, after)
        self._end(self.producer, transaction, commits=True)

    @precondition(lambda self: len(self.open) < OPEN_TRANSACTIONS)
    @rule(count=st.integers(0, 3))
    def hold_open(self, count: int) -> None:
        session = self.stack.enter_context(self.world.session())
        with session.cursor() as cursor:
            cursor.execute("select pg_current_xact_id()")
        transaction = Transaction("flights")
        self._insert(session, transaction, count)
        self.open.append((session, transaction))

    @precondition(lambda self: self.open)
    @rule(which=any_one, count=some)
    def send_in_an_open_one(self, which: int, count: int) -> None:
        session, transaction = self.open[which % len(self.open)]
        self._insert(session, transaction, count)

    @precondition(lambda self: self.open)
    @rule(which=any_one, commits=st.booleans())
    def end_an_open_one(self, which: int, commits: bool) -> None:
        session, transaction = self.open.pop(which % len(self.open))
        self._end(session, transaction, commits)

    @precondition(lambda self: len(self.prepared) < OPEN_TRANSACTIONS)
    @rule(count=some)
    def prepare(self, count: int) -> None:
        name, transaction = uuid4().hex, Transaction("flights")
        self._insert(self.producer, transaction, count)
        with self.producer.cursor() as cursor:
            cursor.execute("prepare transaction %s", (name,))
        self.producer.commit()
        self.prepared.append((name, transaction))

    @precondition(lambda self: self.prepared)
    @rule(which=any_one, commits=st.booleans())
    def end_a_prepared_one(self, which: int, commits: bool) -> None:
        name, transaction = self.prepared.pop(which % len(self.prepared))
        self.world.query("airline", f"{'commit' if commits else 'rollback'} prepared %s", name)
        self._ended(transaction, commits)

    @rule()
    def leave_a_wide_gap(self) -> None:
        self.world.query("airline", "select setval('relaybox.outbox_seq', nextval('relaybox.outbox_seq') + %s)", WIDE_GAP)

    @rule(weather=st.booleans())
    def change_topics(self, weather: bool) -> None:
        topics = list(TOPICS) if weather else ["flights"]
        routes_file(self.world.path.parent, route={"limits": self.limits, "topics": topics})
        routes = self.world.routes
        for store in routes.used_stores:
            initialise_store(store, routes)
        self.route = self.world.route
        if not weather:
            self.weather_since = None
        elif self.weather_since is None:
            self.weather_since = next(self.moments)

    # drivers

    @rule(number=hops)
    def plan(self, number: int) -> None:
        """Alone, so the same batch is found again until it has arrived; a late one is refused until it is confirmed."""
        hop, source, destination = self._hop(number)
        arrived = ask_destination(destination, hop)
        try:
            planned = plan_batch(source, hop, arrived, driver=AttemptOwner("test"))
        except errors.PlanRefused:
            assert arrived.batch > self._watermark(hop.source.name, hop.name, "received", "through_batch")
            return
        if planned is None:
            return
        batch = planned.batch
        assert all(job.planned.batch == batch for job in self.jobs if job.key == (hop.name, batch.batch))
        make_log_segments(destination, hop, log_id=arrived.log_id, through_position=batch.last_position)
        reads_log = self.world.value(hop.source.name, "select reads_log from relaybox_internal.hop_out where hop = %s", hop.name)
        ids = self.world.store_ids(hop)
        order = slice_job(hop, batch, stores=ids, attempt=planned.attempt, log_id=arrived.log_id, reads_log=reads_log)
        self.jobs.append(Job(hop, planned, order))

    @precondition(lambda self: self.jobs)
    @rule(which=any_one, slice_=any_one)
    def copy(self, which: int, slice_: int) -> None:
        """Any slice of any batch ever planned: copied once by the newest attempt, found ever after by all."""
        job = self.jobs[-1 - which % len(self.jobs)]
        self._copy(job, job.planned.batch.slices[slice_ % len(job.planned.batch.slices)])

    @precondition(lambda self: self.jobs)
    @rule(which=any_one)
    def copy_all(self, which: int) -> None:
        job = self.jobs[-1 - which % len(self.jobs)]
        for chosen in job.planned.batch.slices:
            self._copy(job, chosen)

    def _copy(self, job: Job, chosen: Slice) -> None:
        done = self.copied.setdefault(job.key, set())
        try:
            report = copy_slice(job.order, chosen)
        except errors.SliceSuperseded:
            query = "select attempt from relaybox_internal.hop_out where hop = %s"
            assert self.world.value(job.hop.source.name, query, job.hop.name) > job.order.attempt
            assert chosen.slice not in done
            return
        assert report.found in ("copied", "published") or chosen.slice not in done
        done.add(chosen.slice)

    @precondition(lambda self: self.jobs)
    @rule(which=any_one)
    def publish(self, which: int) -> None:
        """Any batch ever planned: published if it is whole, the first arrival if it was published before."""
        job = self.jobs[-1 - which % len(self.jobs)]
        destination, batch = self.sessions[job.hop.destination.name], job.planned.batch
        try:
            arrival = publish_batch(destination, job.hop, batch, log_id=job.order.log_id)
        except errors.SliceMissing:
            destination.rollback()
            assert len(self.copied.get(job.key, ())) < len(batch.slices)
            return
        first = [known for hop, known in self.arrivals if (hop.name, known.batch) == job.key]
        assert all(known == arrival for known in first)
        self.arrivals.append((job.hop, arrival))

    @precondition(lambda self: self.arrivals)
    @rule(which=any_one)
    def publish_another_plan_under_the_same_number(self, which: int) -> None:
        hop, arrival = self.arrivals[which % len(self.arrivals)]
        job = next(job for job in self.jobs if job.key == (hop.name, arrival.batch))
        destination = self.sessions[hop.destination.name]
        with pytest.raises(errors.ContentDiffers):
            publish_batch(destination, hop, replace(job.planned.batch, plan_id=uuid4()), log_id=job.order.log_id)
        destination.rollback()

    @rule(number=hops)
    def confirm(self, number: int) -> None:
        hop, source, destination = self._hop(number)
        confirm_arrived(source, destination, hop, recorded_by="test")

    @precondition(lambda self: self.arrivals)
    @rule(which=any_one)
    def confirm_an_old_one(self, which: int) -> None:
        hop, arrival = self.arrivals[which % len(self.arrivals)]
        arrived_in = self.world.store_ids(hop).destination
        confirm_received(self.sessions[hop.source.name], hop, arrival, destination_id=arrived_in, recorded_by="test")

    @rule(number=hops)
    def settle(self, number: int) -> None:
        settle_hop(self.route, self.route.hops[number], recorded_by="test")

    @rule(number=hops)
    def transfer(self, number: int) -> None:
        transfer_hop(self.route.hops[number], FirstSlices(1000), recorded_by="test")

    @rule(number=hops, slices=st.integers(0, 3))
    def transfer_and_die(self, number: int, slices: int) -> None:
        with suppress(Stopped):
            transfer_hop(self.route.hops[number], DyingAfter(slices), recorded_by="test")

    # consumers

    @rule(number=hops, count=some)
    def read(self, number: int, count: int) -> None:
        hop = self.route.hops[number]
        reader = self.readers[hop.name]
        query = "select payload from relaybox.read_log(%s, %s, %s)"
        reader.seen += [row[0] for row in self._observe(hop.destination.name, query, hop.name, len(reader.seen), count)]

    # what always holds

    @invariant()
    def stores_agree_with_the_model(self) -> None:
        self._logs_are_dense_ordered_and_only_grow()
        self._confirmations_are_true_and_never_fall()
        self._plans_never_change_and_follow_each_other()

    def _logs_are_dense_ordered_and_only_grow(self) -> None:
        for hop in self.route.hops:
            query = "select log_position, payload from relaybox.inbox where hop = %s order by log_position"
            rows = self._observe(hop.destination.name, query, hop.name)
            log = [payload for _, payload in rows]
            assert [log_position for log_position, _ in rows] == list(range(1, len(rows) + 1)), "G4"
            before = self.logs.get(hop.name, [])
            assert log[: len(before)] == before, "a published prefix changed"
            assert len(set(log)) == len(log), "G3"
            self.logs[hop.name] = log
            seen = self.readers[hop.name].seen
            assert seen == log[: len(seen)], "a reader saw something else than the log"
        first, second = (self.logs[hop.name] for hop in self.route.hops)
        assert second == first[: len(second)], "the second hop left the order of the first"
        self._check_order(first)

    def _confirmations_are_true_and_never_fall(self) -> None:
        for hop in self.route.hops:
            received, settled = (self._watermark(hop.source.name, hop.name, state) for state in ("received", "settled"))
            assert settled <= received <= len(self.logs[hop.name]), "G7"
        origin, middle = (hop.source.name for hop in self.route.hops)
        last = self.route.hops[1].name
        assert self._watermark(origin, self.route.hops[0].name, "settled") <= self._watermark(middle, last, "settled"), (
            "G7 cascade"
        )
        for state in ("received", "settled"):
            assert self._watermark(origin, last, state) <= self._watermark(middle, last, state), (
                "the origin knows more than the hub"
            )

    def _plans_never_change_and_follow_each_other(self) -> None:
        for hop in self.route.hops:
            query = "select batch, first_position, last_position, b::text from relaybox_internal.batch b where hop = %s order by batch"
            last = 0
            for number, (batch, first_position, last_position, text) in enumerate(
                self._observe(hop.source.name, query, hop.name), start=1
            ):
                assert (batch, first_position) == (number, last + 1)
                assert self.plans.setdefault((hop.source.name, hop.name, batch), text) == text, "a plan changed"
                last = last_position

    def finish(self) -> None:
        """Everything is ended, moved and confirmed; then all that was committed is in both logs."""
        while self.open:
            self.end_an_open_one(0, commits=True)
        while self.prepared:
            self.end_a_prepared_one(0, commits=True)
        for number in (0, 1):
            self.transfer(number)
        for number in (1, 0):
            self.settle(number)
        self.stores_agree_with_the_model()
        log = set(self.logs[self.route.hops[1].name])
        lost = [payload for transaction in self._due() for payload in transaction.inserted if payload not in log]
        assert lost == [], "G2"
        assert self._watermark("airline", self.route.hops[0].name, "settled") == len(log)
        assert verify_route(self.route).outcome == "delivered"

    def _due(self) -> Iterator[Transaction]:
        """Committed, and of a topic that the route has had ever since."""
        for transaction in self.transactions:
            since = 0 if transaction.topic == "flights" else self.weather_since
            if since is not None and transaction.committed is not None and transaction.committed > since:
                yield transaction

    def _check_order(self, log: Sequence[str]) -> None:
        """G1 and G5: only committed messages, in a transaction's order, and none before what was committed before its insert."""
        committed = {
            payload: (transaction, moment, transaction.committed)
            for transaction in self.transactions
            if transaction.committed is not None
            for payload, moment in transaction.inserted.items()
        }
        assert committed.keys() >= set(log), "G1"
        earliest_commit_after = float("inf")
        last_of: dict[Transaction, int] = {}
        for payload in reversed(log):
            transaction, inserted, commit = committed[payload]
            assert inserted < earliest_commit_after, "G5"
            assert inserted < last_of.get(transaction, inserted + 1), "a transaction's messages changed stream positions"
            last_of[transaction] = inserted
            earliest_commit_after = min(earliest_commit_after, commit)

    def _insert(self, session: Any, transaction: Transaction, count: int) -> None:
        for _ in range(count):
            payload = f"m{next(self.numbers)}"
            insert(session, payload, topic=transaction.topic)
            transaction.inserted[payload] = next(self.moments)

    def _end(self, session: Any, transaction: Transaction, commits: bool) -> None:
        session.commit() if commits else session.rollback()
        self._ended(transaction, commits)

    def _ended(self, transaction: Transaction, commits: bool) -> None:
        if commits:
            transaction.committed = next(self.moments)
            self.transactions.append(transaction)

    def _hop(self, number: int) -> tuple[Hop, Any, Any]:
        hop = self.route.hops[number]
        return hop, self.sessions[hop.source.name], self.sessions[hop.destination.name]

    def _observe(self, store: str, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        with self.observers[store].cursor() as cursor:
            cursor.execute(query, arguments)
            return list(cursor.fetchall())

    def _watermark(self, store: str, hop: str, state: str, column: str = "through_position") -> int:
        """The newest confirmation; it never falls."""
        query = f"select coalesce(max({column}), 0) from relaybox_internal.confirmation where hop = %s and state = %s"
        found = int(self._observe(store, query, hop, state)[0][0])
        if column == "through_position":
            assert found >= self.watermarks.get((store, hop, state), 0), "a confirmation was taken back"
            self.watermarks[store, hop, state] = found
        return found
