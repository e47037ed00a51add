"""Consumers of several libraries that wait for messages, some of which expire, while their sessions, poolers, processes and subscription
go: a life whose steps a seed chooses, or a test.

The effects are rows that handlers write. Of what the subscription did, only its dead letters are read.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

from relaybox.local.clusters import write_service_file
from relaybox.local.pgbouncer import PgBouncer
from tests.faults.consumer_worker import ENDED, UNREACHABLE, Job, Worker
from tests.support.patience import patience
from tests.support.services import read_service
from tests.support.world import World, wait_until

STORE, POOLED = "hub", "hub_pooled"
SENDERS = ("UA", "BA", "LH")
LEASE_SECONDS = 1
SOON_SECONDS = 0.7
WORKERS_AT_MOST = 3
LATE_SECONDS = 10.0
"""A message that was fetched before it expired is handled at most so long after on a quiet machine: its lease, and some work."""

ENDINGS = (0, ENDED, UNREACHABLE, -signal.SIGTERM)
"""How a worker may end at SIGTERM, which may come before it has begun."""

NAMES = ("psycopg", "psycopg2, libpq service", "Django", "asyncpg", "psycopg in an event loop", "SQLAlchemy with asyncpg")

MAKE_EFFECT = """
create table public.effect (
    n bigint generated always as identity, subscription_id integer not null, stream_position bigint not null, worker text,
    at timestamptz not null default clock_timestamp()
)
"""
SUBSCRIBE = (
    "select relaybox.subscribe('billing', 'flights', 'earliest', {lanes}, crash_limit => 1000000, lease_seconds => {lease})"
)
SEND = """
insert into relaybox.outbox (topic, sender, payload, headers)
values ('flights', %s, 'm', case when %s::float8 is not null
    then jsonb_build_object('relaybox-expires-at', extract(epoch from clock_timestamp()) + %s::float8) end)
"""
MESSAGES = """
select stream_position, (headers ->> 'relaybox-expires-at')::float8, extract(epoch from sent_at)::float8
from relaybox.read_stream('flights', 0, 1000000)
"""
EFFECTS = "select subscription_id, stream_position, extract(epoch from at)::float8 from public.effect order by n"
LETTERS = """
select d.subscription_id, d.stream_position, d.reason, d.state, extract(epoch from d.last_at)::float8
from relaybox_internal.dead_letter d where d.subscription_id is not null
"""
DONE = """
select s.subscription_id, min(c.done_stream_position), bool_or(c.leased_until > clock_timestamp())
from relaybox_internal.subscription s join relaybox_internal.lane_cursors c using (subscription_id)
where s.subscription = 'billing' and s.ended_at is null
group by s.subscription_id
"""


@dataclass
class ConsumerLife:
    """The stores, the workers, and what an operator has done to dead letters of the subscription.

    Attributes:
        world: of the test.
        pooler: before the store of the consumers.
        directory: for the workers' service file.
        chance: chooses.
        steps: what was done, for the message of a failure.
    """

    world: World
    pooler: PgBouncer
    directory: Path
    chance: random.Random
    workers: list[Worker] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    frozen: list[Worker] = field(default_factory=list)
    _count: int = 0

    def begin(self) -> None:
        self.world.query(STORE, MAKE_EFFECT)
        self._subscribe()
        services = {STORE: read_service(STORE), POOLED: {**read_service(STORE), "port": str(self.pooler.port)}}
        write_service_file(self.services, services)

    @property
    def services(self) -> Path:
        return self.directory / "consumers.conf"

    # producers and the driver

    def send(self) -> None:
        """Some messages: of no expiry, expired already, or soon."""
        with self.world.session() as session, session.cursor() as cursor:
            for _ in range(self.chance.randint(1, 12)):
                expiry = self.chance.choice([None, None, None, -60.0, SOON_SECONDS, 86400.0])
                cursor.execute(SEND, (self.chance.choice(SENDERS), expiry, expiry))
            session.commit()

    def transfer(self) -> None:
        self.world.transfer()

    # workers

    def start_worker(self) -> None:
        self._reap()
        if len(self.workers) < WORKERS_AT_MOST:
            self._count += 1
            pooled = self.chance.random() < 0.3
            job = Job(
                self.services,
                self.chance.choice(NAMES),
                store=POOLED if pooled else STORE,
                pooled=pooled,
                name=f"w{self._count}",
                max_count=self.chance.choice([1, 3, 100]),
            )
            self.workers.append(Worker(job))

    def stop_worker(self) -> None:
        if worker := self._pop():
            worker.end()
            assert worker.exit_code in ENDINGS, f"worker {worker.name} ({worker.library}): exit {worker.exit_code}"

    def kill_worker(self) -> None:
        if worker := self._pop():
            worker.end(signal.SIGKILL)

    def freeze_worker(self) -> None:
        """It goes on, or is ended, when others have had its lane for long."""
        if self.workers and not self.frozen:
            self.frozen.append(self.chance.choice(self.workers))
            self.frozen[0].send_signal(signal.SIGSTOP)

    def wake_worker(self) -> None:
        if self.frozen:
            self.frozen.pop().send_signal(signal.SIGCONT)

    def _pop(self) -> Worker | None:
        worker = self.workers.pop(self.chance.randrange(len(self.workers))) if self.workers else None
        if worker in self.frozen:
            self.frozen.clear()
        return worker

    def _reap(self) -> None:
        """Those that have ended by themselves, as they may: the subscription was ended, or the store was away for long."""
        for worker in [one for one in self.workers if not one.is_alive]:
            self.workers.remove(worker)
            assert worker.exit_code in (ENDED, UNREACHABLE), f"worker {worker.name} ({worker.library}) ended: {worker.exit_code}"

    # what is done to them

    def terminate_sessions(self) -> None:
        """Of all consumers."""
        self.world.query(
            STORE,
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend'",
        )

    def restart_pooler(self) -> None:
        self.pooler.restart()

    def begin_anew(self) -> None:
        """The subscription is dropped, and made again at once, later, or with other lanes. A new one wakes nobody: the next batch does."""
        self.world.query(STORE, "select relaybox.unsubscribe('billing', 'a test')")
        if self.chance.random() < 0.5:
            self.transfer()
        self._subscribe()
        self.send()
        self.transfer()

    def redrive(self) -> None:
        """All dead letters, or one."""
        letters = self.world.query(
            STORE, "select dead_letter_id from relaybox.dead_letters where subscription = 'billing' and state = 'open'"
        )
        if letters:
            one = self.chance.choice(letters)[0] if self.chance.random() < 0.5 else None
            self._unless_gone("select relaybox.redrive('billing', 'wanted', %s)", one)

    def drop_letter(self) -> None:
        letters = self.world.query(
            STORE, "select dead_letter_id from relaybox.dead_letters where subscription = 'billing' and state = 'open'"
        )
        if letters:
            self._unless_gone("select relaybox.drop_dead_letter(%s, 'too late')", self.chance.choice(letters)[0])

    def _unless_gone(self, statement: str, argument: object) -> None:
        try:
            self.world.query(STORE, statement, argument)
        except psycopg2.Error as error:
            if error.pgcode != "RB037":  # not open any more
                raise

    def crash_by_hand(self) -> None:
        """Somebody fetches and dies: another worker gets the messages when the lease ends, if they have not expired by then."""
        self.world.query(STORE, "select count(*) from relaybox.fetch('billing', 5, worker => 'crashed')")

    def fetch_by_hand(self) -> None:
        """What a fetch returns has not expired when it begins, but for what is redriven."""
        with self.world.session(STORE) as session, session.cursor() as cursor:
            cursor.execute("select extract(epoch from clock_timestamp())::float8")
            (began,) = cursor.fetchone()
            cursor.execute(
                "select f.stream_position, (f.headers ->> 'relaybox-expires-at')::float8 from relaybox.fetch('billing', 5) f"
            )
            rows = cursor.fetchall()
            cursor.execute(
                "select stream_position from relaybox.dead_letters where subscription = 'billing' and state = 'redriving'"
            )
            redriving = {position for (position,) in cursor.fetchall()}
            session.rollback()
        late = [position for position, expires_at in rows if expires_at is not None and expires_at <= began]
        assert not set(late) - redriving, f"fetched after they had expired: {sorted(set(late) - redriving)}"

    # what must hold

    def settle(self) -> None:
        """All that was sent is moved, and all of it is handled or a dead letter soon after."""
        self.wake_worker()
        self.transfer()
        self._reap()
        if not self.workers:
            self.start_worker()
        last = self.world.value(STORE, "select last_stream_position from relaybox_internal.stream where stream = 'flights'")

        def is_done() -> bool:
            self._reap()
            if not self.workers:
                self.start_worker()
            ((_, done, is_leased),) = self.world.query(STORE, DONE)
            redriving = self.world.value(STORE, "select count(*) from relaybox_internal.dead_letter where state = 'redriving'")
            return done == last and not is_leased and redriving == 0

        wait_until(is_done, f"everything is handled after {', '.join(self.steps[-12:])}", deadline_seconds=20)
        found = list(self.breaches())
        assert not found, found

    def breaches(self) -> Iterator[str]:
        """Of the present subscription, once everything is done, and of those that were ended."""
        ((present, _, _),) = self.world.query(STORE, DONE)
        messages = {position: (expires_at, sent_at) for position, expires_at, sent_at in self.world.query(STORE, MESSAGES)}
        effects = self.world.query(STORE, EFFECTS)
        letters = self.world.query(STORE, LETTERS)
        handled = Counter((subscription, position) for subscription, position, _ in effects)
        yield from (f"{where} was handled {count} times" for where, count in handled.items() if count > 1)
        told = Counter((subscription, position) for subscription, position, *_ in letters)
        yield from (f"{where} is a dead letter {count} times" for where, count in told.items() if count > 1)
        states = {(subscription, position): state for subscription, position, _, state, _ in letters}
        for subscription, position, reason, _, at in letters:
            expires_at, _ = messages[position]
            if reason != "expired" or expires_at is None or at < expires_at:
                yield f"{(subscription, position)} is a dead letter ({reason}) at {at}; it expires at {expires_at}"
        for subscription, position, at in effects:
            expires_at, sent_at = messages[position]
            state = states.get((subscription, position))
            if state is not None and state != "redriven":
                yield f"{(subscription, position)} was handled, and its dead letter is {state}"
            if state is None and expires_at is not None and (expires_at < sent_at or at > expires_at + patience(LATE_SECONDS)):
                yield f"{(subscription, position)} was handled at {at}, and had expired at {expires_at}"
        for position in messages:
            state = states.get((present, position))
            if handled[present, position] != (state in (None, "redriven")):
                yield f"position {position} was handled {handled[present, position]} times, and its dead letter is {state}"

    def finish(self) -> None:
        """Ends the workers; one of them must be there until everything is done."""
        self.send()
        self.settle()
        for worker in self.workers:
            worker.end()
        assert [one.library for one in self.workers if one.exit_code not in ENDINGS] == []

    def close(self) -> None:
        for worker in self.workers:
            worker.end(signal.SIGKILL)

    def _subscribe(self) -> None:
        self.world.query(STORE, SUBSCRIBE.format(lanes=self.chance.choice([1, 1, 2]), lease=LEASE_SECONDS))

    def live(self, steps: int) -> None:
        """So many steps, each chosen."""
        for _ in range(steps):
            name = self.chance.choice(STEPS)
            self.steps.append(name)
            print(name, end=" ", flush=True)
            getattr(self, name)()


STEPS = (
    *("send", "send", "transfer", "transfer", "start_worker", "start_worker", "stop_worker", "kill_worker", "freeze_worker"),
    *("wake_worker", "terminate_sessions", "restart_pooler", "begin_anew", "redrive", "drop_letter", "crash_by_hand"),
    *("fetch_by_hand", "settle"),
)


@contextmanager
def consumer_life(world: World, pooler: PgBouncer, directory: Path, seed: int) -> Iterator[ConsumerLife]:
    """A life that ends with everything handled."""
    life = ConsumerLife(world, pooler, directory, random.Random(seed))
    life.begin()
    try:
        yield life
        life.finish()
    finally:
        life.close()
