"""Applications at work while things break: producers, consumers, subscribers and a watcher of confirmations, each with its own history.

They know the contract and nothing of the protocol: insert into the outbox, read_log(), fetch and ack, the confirmation ledger.
They live through outages: a call without an answer is noted as such, and the next session is opened as soon as it can be.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg2

from tests.faults.adopted import OUTBOX, Target
from tests.faults.history import Acknowledgements, ClientLog
from tests.support.patience import patience

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection

    from relaybox.routes import Hop

SENDERS = ("UA", "BA", "LH")
FILLERS = ("", "x" * 300, 'tab\t line\n quote" back\\slash \\N \\.', "Zürich 東京 \U0001f6eb", "\x01\x7f", "{{ 7*7 }} %s '); --")
READ_AT_MOST = 500
ACKNOWLEDGE_AT_MOST = 20
PAUSE_SECONDS = 0.03
POLLS_PER_REREAD = 40
CERTAINLY_ROLLED_BACK = ("23", "40")
"""Classes of SQLSTATE that a COMMIT answers with when the transaction is surely gone: constraint, rollback."""


@dataclass(frozen=True)
class Manners:
    """How producers behave. The chances are per transaction; the rest of them simply commit.

    Attributes:
        messages_at_most: messages of one transaction, 1 to this many, inserted by several statements.
        pause_seconds: rest between two transactions of one producer.
        rereads: consumers read from the start now and then; if not, once, at the end.
    """

    messages_at_most: int = 6
    pause_seconds: float = 0.0
    rereads: bool = True
    rolled_back: float = 0.1
    savepoint: float = 0.1
    held_open: float = 0.1
    two_phase: float = 0.0


class Client(threading.Thread):
    """A thread with a history and a session that it opens anew after every outage, until it is stopped."""

    def __init__(self, directory: Path, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.log = ClientLog(directory, name)
        self.failed: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # a client that died would make every history a good one: join() tells
            self.failed = error
            raise
        finally:
            self.log.close()

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def rest(self, seconds: float = PAUSE_SECONDS) -> None:
        self._stopping.wait(seconds)


def connect(service: str, application_name: str) -> Connection:
    """A session in which every statement commits by itself unless `begin` was said, and no wait is long.

    It may write and use views: where an administrator forbids that to applications, they can't.
    """
    connection = psycopg2.connect(
        service=service,
        application_name=application_name,
        connect_timeout=2,
        tcp_user_timeout=5_000,
        client_encoding="UTF8",
        options="-c statement_timeout=10s -c lock_timeout=10s -c default_transaction_read_only=off "
        "-c restrict_nonsystem_relation_kind=",
    )
    connection.autocommit = True
    return connection


@contextmanager
def reconnecting(connection: Connection) -> Iterator[None]:
    """Closes a session at any error of the store and goes on."""
    try:
        yield
    except psycopg2.Error:
        connection.close()


@dataclass
class _Open:
    """A transaction under way: its session, and after how many further ones it is to be committed."""

    connection: Connection
    number: int
    due: int
    prepared_as: str | None = None


class Producer(Client):
    """Sends transactions under one sender's name: as many as it was asked for, then waits for more."""

    def __init__(
        self, directory: Path, sender: str, *, store: str, service: str, topic: str,
        manners: Manners, acknowledgements: Acknowledgements, seed: str, target: Target = OUTBOX,
    ) -> None:  # fmt: skip
        super().__init__(directory, sender)
        self._store, self._service, self._topic, self._manners = store, service, topic, manners
        self._target, self._tables = target, itertools.cycle(target.tables)
        self._acknowledgements = acknowledgements
        self._random = random.Random(seed)
        self._transactions, self._messages = itertools.count(1), itertools.count(1)
        self._run_name = self._random.randbytes(4).hex()
        self._session: Connection | None = None
        self._held: list[_Open] = []
        self._wanted = 0
        self._wanted_lock = threading.Lock()
        self.acknowledged_count = 0
        """Commits that were answered."""

    def ask(self, transactions: int) -> None:
        """Asks for this number of further transactions. Returns at once."""
        with self._wanted_lock:
            self._wanted += transactions

    @property
    def is_idle(self) -> bool:
        """Everything asked for was tried, and nothing is held open."""
        return self._wanted == 0

    def work(self) -> None:
        while not self.is_stopping:
            if self._wanted:
                self._send_one()
                with self._wanted_lock:
                    last = self._wanted == 1
                if last:
                    self._end_held(everything=True)
                with self._wanted_lock:
                    self._wanted -= 1
                self.rest(self._manners.pause_seconds)
            else:
                self.rest()
        self._end_held(everything=True)
        self._commit_left_prepared()
        if self._session is not None:
            self._session.close()

    def _send_one(self) -> None:
        self._end_held()
        connection = self._take_session()
        manner = self._choose_manner()
        if connection is None or not self._begin(connection, "begin; savepoint before" if manner == "savepoint" else "begin"):
            return
        number = next(self._transactions)
        try:
            self._insert(connection, number, with_savepoint=manner == "savepoint")
            if manner == "rolled_back":
                connection.cursor().execute("rollback")
        except psycopg2.Error as error:
            self.log.write("fail", "commit", transaction=number, error=_said(error))
            connection.close()
            return
        if manner == "rolled_back":
            self.log.write("fail", "commit", transaction=number, error="rolled back on purpose")
        elif manner == "held_open":
            self._session = None
            self._held.append(_Open(connection, number, due=self._random.randint(1, 6)))
        elif manner == "two_phase":
            self._prepare(connection, number)
        else:
            self._commit(connection, number, "commit")

    def _begin(self, connection: Connection, statements: str) -> bool:
        """False when the session broke before anything was inserted: nothing was tried yet, so there is nothing to note."""
        with reconnecting(connection):
            connection.cursor().execute(statements)
        return not connection.closed

    def _choose_manner(self) -> str:
        point = self._random.random()
        for manner in ("rolled_back", "savepoint", "held_open", "two_phase"):
            point -= getattr(self._manners, manner)
            if point < 0:
                return manner
        return "plain"

    def _take_session(self) -> Connection | None:
        """The session, opened anew if it broke; None when the client is stopped before the store answers."""
        while self._session is None or self._session.closed:
            if self.is_stopping:
                return None
            try:
                self._session = connect(self._service, f"producer {self.name}")
            except psycopg2.Error:
                self.rest()
        return self._session

    def _insert(self, connection: Connection, number: int, *, with_savepoint: bool) -> None:
        parts = self._split(self._random.randint(1, self._manners.messages_at_most))
        cursor = connection.cursor()
        for part, count in enumerate(parts):
            undone = with_savepoint and part == 0
            self._insert_together(cursor, number, count, undone=undone)
            if undone:
                cursor.execute("rollback to savepoint before")
        if with_savepoint:
            self._insert_together(cursor, number, 1, undone=False)

    def _split(self, count: int) -> list[int]:
        """How many messages each statement of the transaction inserts."""
        first = self._random.randint(1, count)
        return [first, count - first] if count > first else [first]

    def _insert_together(self, cursor: Any, transaction: int, count: int, *, undone: bool) -> None:
        after = self._acknowledgements.count
        numbers = [next(self._messages) for _ in range(count)]
        payloads = [f"{self.name} {number} after {after} {self._random.choice(FILLERS)}" for number in numbers]
        self.log.write(
            "invoke", "insert", transaction=transaction, store=self._store, topic=self._topic,
            payloads=payloads, after=after, undone=undone, order_group=self._target.order_group,
        )  # fmt: skip
        rows = ", ".join(["(%s, %s, %s, %s, %s)"] * count)
        values = [
            (self._topic, self.name, payload, f"key {number % 5}" if number % 3 else None, f'{{"n": {number}, "ü": null}}')
            for number, payload in zip(numbers, payloads, strict=True)
        ]
        cursor.execute(
            f"insert into {next(self._tables)} ({', '.join(self._target.columns)}) values {rows}",
            [v for row in values for v in row],
        )
        if self._target.then:
            cursor.execute(self._target.then, (self.name,))

    def _commit(self, connection: Connection, number: int, statement: str, parameters: tuple[str, ...] = ()) -> None:
        """Sends the COMMIT and notes what is known of it then."""
        self.log.write("invoke", "commit", transaction=number)
        connection.notices.clear()
        cursor = connection.cursor()
        try:
            cursor.execute(statement, parameters)
        except psycopg2.Error as error:
            fate = "fail" if (error.pgcode or "")[:2] in CERTAINLY_ROLLED_BACK else "info"
            self.log.write(fate, "commit", transaction=number, error=_said(error))
            connection.close()
            return
        if warnings := [notice for notice in connection.notices if notice.startswith("WARNING")]:
            # a cancelled wait for a standby: committed here, nobody knows what a failover leaves of it
            self.log.write("info", "commit", transaction=number, error=warnings[0].strip())
            return
        if (cursor.statusmessage or "").startswith("ROLLBACK"):
            self.log.write("fail", "commit", transaction=number, error="COMMIT answered ROLLBACK")
            return
        self.log.write("ok", "commit", transaction=number, acknowledged=self._acknowledgements.give())
        self.acknowledged_count += 1

    def _prepare(self, connection: Connection, number: int) -> None:
        name = f"workload {self._run_name} {self.name} {number}"
        self.log.write("invoke", "commit", transaction=number)  # from here on another session may commit it
        try:
            connection.cursor().execute("prepare transaction %s", (name,))
        except psycopg2.Error as error:
            self.log.write("info", "commit", transaction=number, error=_said(error))
            connection.close()
            return
        self._held.append(_Open(connection, number, due=self._random.randint(1, 6), prepared_as=name))

    def _end_held(self, *, everything: bool = False) -> None:
        """Commits the open and prepared transactions whose time has come."""
        for one in list(self._held):
            one.due -= 1
            if one.due > 0 and not everything:
                continue
            self._held.remove(one)
            if one.prepared_as is None:
                self._commit(one.connection, one.number, "commit")
                one.connection.close()
            else:
                self._commit_prepared(one)

    def _commit_prepared(self, one: _Open) -> None:
        connection = self._take_session()
        if connection is None or one.prepared_as is None:
            return
        self._commit(connection, one.number, "commit prepared %s", (one.prepared_as,))

    def _commit_left_prepared(self) -> None:
        """Transactions whose PREPARE or COMMIT PREPARED had no answer must not stay open for ever."""
        if not self._manners.two_phase:
            return
        with suppress(psycopg2.Error):
            connection = connect(self._service, f"producer {self.name}")
            cursor = connection.cursor()
            cursor.execute("select gid from pg_prepared_xacts where gid like %s", (f"workload {self._run_name} {self.name} %",))
            for (name,) in cursor.fetchall():
                cursor.execute("commit prepared %s", (name,))
            connection.close()


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())


class Reader(Client):
    """Reads what a hop brings, in one session after the other."""

    def __init__(self, directory: Path, name: str, hop: Hop) -> None:
        super().__init__(directory, name)
        self.hop = hop

    def work(self) -> None:
        while not self.is_stopping:
            try:
                connection = connect(self.hop.destination.service, self.name)
            except psycopg2.Error:
                self.rest()
                continue
            with reconnecting(connection):
                self.read(connection)
            connection.close()

    def read(self, connection: Connection) -> None:
        """Until it is told to stop, or the session breaks."""
        raise NotImplementedError


class Consumer(Reader):
    """Reads a hop's log from the position it has reached, and from the start now and then."""

    def __init__(self, directory: Path, name: str, hop: Hop, *, rereads: bool) -> None:
        super().__init__(directory, name, hop)
        self._rereads = rereads
        self.log_position = 0
        """The last position it has seen."""

    def read(self, connection: Connection) -> None:
        for poll in itertools.count():
            self.log_position = self._read(connection, self.log_position) or self.log_position
            if self._rereads and poll % POLLS_PER_REREAD == POLLS_PER_REREAD - 1:
                self._read_again(connection)
            if self.is_stopping:
                self._read_again(connection)
                return
            self.rest()

    def _read_again(self, connection: Connection) -> None:
        """Reads through everything that it has seen, and what came since."""
        reached: int | None = 0
        while reached is not None:
            reached = self._read(connection, reached, note_nothing=reached < self.log_position)

    def _read(self, connection: Connection, after: int, *, note_nothing: bool = False) -> int | None:
        """The last position of one answered read; None when it gave nothing."""
        cursor = connection.cursor()
        cursor.execute(
            "select log_position, message_id::text, payload from relaybox.read_log(%s, %s, %s)",
            (self.hop.name, after, READ_AT_MOST),
        )
        messages = cursor.fetchall()
        if messages or note_nothing:
            self.log.write("ok", "read", hop=self.hop.name, after=after, at_most=READ_AT_MOST, messages=messages)
        return messages[-1][0] if messages else None


class Subscriber(Reader):
    """Acknowledges what comes for a subscription, without waiting for the flush of its COMMIT: all of it, or only as far as it may.

    The stream has the messages of one log, repeats none and holds none back: its stream positions are the log's positions.
    """

    def __init__(self, directory: Path, subscription: str, hop: Hop, *, through: float) -> None:
        super().__init__(directory, f"subscriber-{subscription}", hop)
        self._subscription = subscription
        self.through = through
        """As far as it may acknowledge; another thread may move it on."""
        self.acknowledged_through = 0
        """The last stream position that it has sent an acknowledgement of: no more can be processed."""
        self._answered_through = 0

    def read(self, connection: Connection) -> None:
        connection.cursor().execute("set synchronous_commit = off")
        while not self.is_stopping:
            self._acknowledge(connection)
            self.rest()

    def _acknowledge(self, connection: Connection) -> None:
        """The next messages, in one transaction; a store that lost an acknowledgement gives them again."""
        count = min(ACKNOWLEDGE_AT_MOST, self.through - self._answered_through)
        if count <= 0:
            return
        cursor = connection.cursor()
        cursor.execute("begin")
        cursor.execute("select max(stream_position) from relaybox.fetch(%s, %s, worker => 'w')", (self._subscription, int(count)))
        (stream_position,) = cursor.fetchall()[0]
        if stream_position is not None:
            self.acknowledged_through = max(self.acknowledged_through, stream_position)
            cursor.execute("select relaybox.ack(%s, %s)", (self._subscription, stream_position))
        cursor.execute("commit")
        self._answered_through = stream_position or self._answered_through


ACKNOWLEDGED = """
    select coalesce(min(coalesce(done.stream_position, 0)), 0)
    from relaybox_internal.subscription s
    cross join lateral (select max(c.done_stream_position) as stream_position from relaybox_internal.cursor c
        where c.subscription_id = s.subscription_id) done
    where s.subscription = any(%s)
    """
"""Through which stream position all of these subscriptions, of one lane each, have acknowledged."""

_CONFIRMED = """
    select coalesce(max(through_position) filter (where state = 'received'), 0),
        coalesce(max(through_position) filter (where state = 'settled'), 0)
    from relaybox_internal.confirmation where hop = %s
    """
_PUBLISHED = (
    "select coalesce(max(last_position), 0) from relaybox_internal.arrival a join relaybox_internal.hop_in i using (log_id) "
    "where i.hop = %s"
)
_SETTLED_READING = """
    select coalesce(max(b.reads_through), 0)
    from relaybox_internal.batch b join relaybox_internal.confirmation c on c.hop = b.hop and c.through_batch = b.batch
        and c.state = 'settled'
    where b.hop = %s
    """


class Watcher(Client):
    """Reads what is confirmed at each source, and only then what its destination holds: never the other way round."""

    def __init__(self, directory: Path, hops: Sequence[Hop], subscribers: Sequence[Subscriber]) -> None:
        super().__init__(directory, "watcher")
        self._hops = hops
        self._subscribers = subscribers
        self._sessions: dict[str, Connection] = {}
        self._noted: dict[str, tuple[int, ...]] = {}
        self.look_count = 0
        """How often it has seen all hops."""

    def work(self) -> None:
        while not self.is_stopping:
            self._watch_all()
            self.rest()
        self._watch_all()
        for session in self._sessions.values():
            session.close()

    def _watch_all(self) -> None:
        seen = 0
        for hop in self._hops:
            with suppress(psycopg2.Error):  # a store is down: nothing was seen, and the next round looks again
                self._watch(hop)
                seen += 1
        self.look_count += seen == len(self._hops)

    def _watch(self, hop: Hop) -> None:
        received, settled = self._row(hop.source.service, _CONFIRMED, hop.name)
        (published,) = self._row(hop.destination.service, _PUBLISHED, hop.name)
        settled_there = published
        if hop.processed_by:
            (acknowledged,) = self._row(hop.destination.service, ACKNOWLEDGED, list(hop.processed_by))
            settled_there = min([acknowledged, *(one.acknowledged_through for one in self._subscribers if one.hop == hop)])
        elif hop.policy != "received" and hop.downstream is not None:
            (settled_there,) = self._row(hop.destination.service, _SETTLED_READING, hop.downstream)
        seen = (received, settled, published, settled_there)
        if self._noted.get(hop.name) != seen:
            self._noted[hop.name] = seen
            self.log.write(
                "ok", "watch", hop=hop.name,
                received=received, settled=settled, published=published, settled_there=settled_there,
            )  # fmt: skip

    def _row(self, service: str, query: str, argument: str | list[str]) -> tuple[int, ...]:
        session = self._sessions.get(service)
        if session is None or session.closed:
            session = self._sessions[service] = connect(service, self.name)
        try:
            cursor = session.cursor()
            cursor.execute(query, (argument,))
            return cursor.fetchall()[0]
        except psycopg2.Error:
            session.close()
            raise


@dataclass
class Workload:
    """All clients of one route. Nothing here waits for a store, except stop(), which waits for the clients.

    Of the subscriptions that a hop's policy names, the first acknowledges whatever comes, the others only what they are asked to.

    Attributes:
        directory: where the histories go; one workload per directory.
        hops: the route's hops in order; producers write to the first one's source.
        topic: of the messages.
        seed: the same seed gives each producer the same transactions; the schedule is the machine's.
        targets: where a sender inserts, if not into the outbox.
    """

    directory: Path
    hops: Sequence[Hop]
    topic: str = "flights"
    seed: int = 1
    senders: Sequence[str] = SENDERS
    manners: Manners = field(default_factory=Manners)
    consumers_per_hop: int = 1
    targets: Mapping[str, Target] = field(default_factory=dict)

    def __post_init__(self) -> None:
        acknowledgements, origin = Acknowledgements(), self.hops[0].source
        self._acknowledgements, self._rows = acknowledgements, itertools.count(1)
        self.producers = [
            Producer(
                self.directory, sender, store=origin.name, service=origin.service, topic=self.topic,
                manners=self.manners, acknowledgements=acknowledgements, seed=f"{self.seed} {sender}",
                target=self.targets.get(sender, OUTBOX),
            )
            for sender in self.senders
        ]  # fmt: skip
        self.consumers = [
            Consumer(self.directory, f"consumer-{hop.name.replace('/', '-')}-{number}", hop, rereads=self.manners.rereads)
            for hop in self.hops
            for number in range(1, self.consumers_per_hop + 1)
        ]
        self.subscribers = [
            Subscriber(self.directory, name, hop, through=math.inf if number == 0 else 0)
            for hop in self.hops
            for number, name in enumerate(hop.processed_by)
        ]
        self._watcher = Watcher(self.directory, self.hops, self.subscribers)

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def send(self, transactions: int, *, but: str = "") -> None:
        """Lets every sender, but one, do this number of further transactions."""
        for producer in self.producers:
            if producer.name != but:
                producer.ask(transactions)

    def note_rows(self, service: str, payloads: Sequence[str], statement: str) -> None:
        """Inserts rows with a statement of its own, one after another, in one transaction that must succeed; G5 does not hold for them."""
        number = next(self._rows)
        log = ClientLog(self.directory, "rows")
        log.write(
            "invoke", "insert", transaction=number, store=service, topic=self.topic,
            payloads=list(payloads), after=0, undone=False, order_group=f"rows {number}",
        )  # fmt: skip
        connection = connect(service, "producer rows")
        cursor = connection.cursor()
        cursor.execute("begin")
        for payload in payloads:
            cursor.execute(statement, (payload,))
        cursor.execute("commit")
        connection.close()
        log.write("ok", "commit", transaction=number, acknowledged=self._acknowledgements.give())
        log.close()

    @property
    def is_idle(self) -> bool:
        """Every transaction asked for was tried and ended."""
        return all(producer.is_idle for producer in self.producers)

    @property
    def acknowledged_count(self) -> int:
        """Transactions whose COMMIT was answered."""
        return sum(producer.acknowledged_count for producer in self.producers)

    def seen_through(self, hop: str) -> int:
        """The lowest position that a consumer of the hop has reached."""
        return min(consumer.log_position for consumer in self.consumers if consumer.hop.name == hop)

    def acknowledge(self, through: int) -> None:
        """Has every subscriber acknowledge through this stream position, if the store still knows that it has to. Returns at once."""
        for subscriber in self.subscribers:
            subscriber.through = max(subscriber.through, through)

    @property
    def look_count(self) -> int:
        """How often the watcher has seen all hops."""
        return self._watcher.look_count

    def stop_producers(self) -> None:
        """Ends the producers: open transactions are committed first. Consumers and watcher go on. May be repeated."""
        self._end(self.producers)

    def stop(self) -> None:
        """Ends all clients; consumers read everything once more. The histories are complete then. May be repeated.

        Raises:
            RuntimeError: a client died or does not end.
        """
        self._end(self.producers)
        self._end([*self.consumers, *self.subscribers, self._watcher])

    @property
    def _clients(self) -> list[Client]:
        return [*self.producers, *self.consumers, *self.subscribers, self._watcher]

    def _end(self, clients: Sequence[Client]) -> None:
        for client in clients:
            client.stop()
        for client in clients:
            client.join(timeout=patience(60))
            if client.is_alive() or client.failed is not None:
                raise RuntimeError(f"client {client.name} {'does not end' if client.is_alive() else 'died'}") from client.failed

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
