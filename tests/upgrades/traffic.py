"""What goes on at a store while it is upgraded: each kind of caller in a thread of its own, in sessions that stay open."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from relaybox import errors
from relaybox.consumer import Consumer
from tests.support.patience import patience
from tests.support.world import World, wait_until

STORE = "hub"
SUBSCRIPTIONS = ("plain", "prepared", "in_plpgsql", "library")
CALLER = """
create schema if not exists app;
create table if not exists app.worked (stream_position bigint primary key, payload text);
create function app.work() returns integer language plpgsql as $$
declare
    message record;
    acked_stream_position bigint;
    worked integer := 0;
begin
    for message in select * from relaybox.fetch('in_plpgsql', 10, worker => 'in_plpgsql') loop
        insert into app.worked values (message.stream_position, message.payload);
        acked_stream_position := message.stream_position;
        worked := worked + 1;
    end loop;
    if worked > 0 then
        perform relaybox.ack('in_plpgsql', acked_stream_position);
    end if;
    return worked;
end $$;
"""


@dataclass
class Traffic:
    """Callers at work, and how many rounds each has done."""

    world: World
    rounds: Counter[str] = field(default_factory=Counter)
    ended: threading.Event = field(default_factory=threading.Event)
    running: list[Future[None]] = field(default_factory=list)

    def go_on(self, rounds: int = 2) -> None:
        """Waits until each caller has done this many rounds more, or one has failed; raises what that one raised."""
        before = dict(self.rounds)
        wait_until(
            lambda: (
                any(one.done() for one in self.running)
                or all(self.rounds[caller] >= before.get(caller, 0) + rounds for caller in CALLERS)
            ),
            f"every caller goes on from {before}",
            progress=lambda: dict(self.rounds),
        )
        for one in self.running:
            if one.done():
                one.result()


@contextmanager
def traffic(world: World) -> Iterator[Traffic]:
    """All callers at work within the block; an error of any of them is raised at its end."""
    world.query(STORE, CALLER)
    for subscription in SUBSCRIPTIONS:
        world.query(STORE, "select relaybox.subscribe(%s, 'flights')", subscription)
    made = Traffic(world)
    with ThreadPoolExecutor(len(CALLERS)) as pool:
        made.running = [pool.submit(_repeat, made, name, caller) for name, caller in CALLERS.items()]
        try:
            made.go_on()
            yield made
        finally:
            made.ended.set()
        for one in made.running:
            one.result(timeout=patience(60))


def _repeat(made: Traffic, name: str, caller: Callable[[Traffic], Iterator[None]]) -> None:
    for _ in caller(made):
        made.rounds[name] += 1
        if made.ended.is_set():
            return


def _send(made: Traffic) -> Iterator[None]:
    with made.world.session("airline") as connection, connection.cursor() as cursor:
        for number in itertools.count():
            cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', %s)", (f"m{number}",))
            connection.commit()
            made.ended.wait(0.01)
            yield


def _drive(made: Traffic) -> Iterator[None]:
    """Runs one after the other, each with new sessions: each asks which version the stores have. Like Airflow, it starts another attempt."""
    while True:
        try:
            made.world.transfer(linger_seconds=0.05, linger_at_most_seconds=0.3)
            made.world.settle_all()
        except errors.StoreBusy:  # on a busy machine init may hold its locks for longer than a driver waits
            continue
        yield


def _consume(made: Traffic) -> Iterator[None]:
    """Fetch in one transaction, ack in the next one; then both in one."""
    with made.world.session(STORE) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute("select stream_position, token from relaybox.fetch('plain', 5, worker => 'plain')")
            fetched = cursor.fetchall()
            connection.commit()
            if fetched:
                cursor.execute("select relaybox.ack('plain', %s, %s)", fetched[-1])
                cursor.execute("select * from relaybox.fetch('plain', 5, worker => 'plain')")
                last = _last(cursor.fetchall())
                if last is not None:
                    cursor.execute("select relaybox.ack('plain', %s)", (last,))
            connection.commit()
            yield


def _last(rows: Sequence[tuple[Any, ...]]) -> int | None:
    return int(rows[-1][0]) if rows else None


def _consume_prepared(made: Traffic) -> Iterator[None]:
    with made.world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("prepare next_messages as select * from relaybox.fetch('prepared', 5, $1, $2, worker => 'prepared')")
        cursor.execute("prepare arrived as select max(log_position), count(*) from relaybox.inbox where log_position > $1")
        connection.commit()
        acked: tuple[Any, ...] = (None, None)
        while True:
            cursor.execute("execute next_messages (%s, %s)", acked)
            rows = cursor.fetchall()
            cursor.execute("execute arrived (0)")
            connection.commit()
            acked = (rows[-1][0], rows[-1][2]) if rows else (None, None)
            yield


def _consume_in_plpgsql(made: Traffic) -> Iterator[None]:
    with made.world.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute("select app.work()")
            yield


def _consume_with_library(made: Traffic) -> Iterator[None]:
    """Without a retry: an error is an error."""
    while True:
        with Consumer(STORE, "library", max_count=5, until_empty=True, retries=0) as consumer:
            for _ in consumer:
                yield
        yield


def _read(made: Traffic) -> Iterator[None]:
    with made.world.session(STORE, autocommit=True) as connection, connection.cursor() as cursor:
        while True:
            cursor.execute("select count(*) from relaybox.inbox")
            cursor.execute("select * from relaybox.subscriptions")
            cursor.execute("select count(*) from relaybox.read_log('flights/1', 0, 100)")
            yield


CALLERS: dict[str, Callable[[Traffic], Iterator[None]]] = {
    "send": _send,
    "drive": _drive,
    "consume": _consume,
    "consume prepared": _consume_prepared,
    "consume in plpgsql": _consume_in_plpgsql,
    "consume with library": _consume_with_library,
    "read": _read,
}
