"""A part of `relaybox bench consume`: the consumer of each library of Postgres, beside the same SQL in a loop of its own.

The handler does nothing. Once 100 messages are one transaction, once each is. Commits are not flushed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median

import psycopg2
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.local.bench.libraries import LIBRARIES, consume, installed_libraries, lacking_libraries
from relaybox.local.bench.report import show_seconds
from relaybox.local.bench.rounds import WARM_UP, shown_turns, take_turns
from relaybox.local.bench.stores import DESTINATION, BenchStores

PLAIN = "plain SQL, psycopg2"
PER_TRANSACTION = (100, 1)
"""Messages in a transaction."""

_FETCHED = 100
_SUBSCRIBE = "select relaybox.unsubscribe('bench'), relaybox.subscribe('bench', (select stream from relaybox_internal.stream))"
_FETCH = "select * from relaybox.fetch('bench', %s, %s, %s, null, 'bench')"
_ACK = "select relaybox.ack('bench', %s, %s)"


@dataclass(frozen=True)
class Loop:
    """One contestant has consumed its messages; cpu_seconds are those of this process, without the server's."""

    contestant: str
    per_transaction: int
    round: int
    seconds: float
    cpu_seconds: float
    row_count: int


def measure_loops(stores: BenchStores, count: int, rounds: int, console: Console) -> list[Loop]:
    """Measures plain SQL and all libraries that are installed, in turn; says which are not.

    Args:
        stores: with the messages in the log of the only stream.
        count: messages that are there. Of those with a transaction each a tenth is measured.
        rounds: how often; each begins with another contestant.
        console: for what is left out, and the progress.

    Raises:
        ContentDiffers: a contestant consumed fewer messages.
    """
    for sentence in lacking_libraries():
        console.print(sentence, markup=False)
    names = [PLAIN, *installed_libraries()]
    stores.query(DESTINATION, "alter database postgres set synchronous_commit = off")
    try:
        return list(_take_turns(stores, names, count, rounds, console))
    finally:
        stores.query(DESTINATION, "alter database postgres reset synchronous_commit")


def _take_turns(stores: BenchStores, names: Sequence[str], count: int, rounds: int, console: Console) -> Iterator[Loop]:
    order = ((round_, (name, size)) for round_, name in take_turns(names, rounds) for size in PER_TRANSACTION)
    with shown_turns(order, console, title=lambda _: "the consumer of each library") as turns:
        for round_, (name, per_transaction) in turns:
            least = count if per_transaction > 1 else max(1, count // 10)
            loop = _measure(stores, name, per_transaction, least, round_)
            if round_ != WARM_UP:
                yield loop


def _measure(stores: BenchStores, name: str, per_transaction: int, count: int, round_: int) -> Loop:
    stores.query(DESTINATION, _SUBSCRIBE)
    stores.settle()
    begun, before = time.perf_counter(), time.process_time()
    row_count = _consume_plainly(per_transaction, count) if name == PLAIN else _consume_by(name, per_transaction, count)
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - before
    if row_count < count:
        raise errors.ContentDiffers(f"{name}: consumed {row_count} messages, there are {count}.")
    return Loop(name, per_transaction, round_, seconds, cpu_seconds, row_count)


def _consume_plainly(per_transaction: int, count: int) -> int:
    """Fetches 100; acknowledges all with the next fetch, or each in a transaction of its own."""
    row_count, acked = 0, (None, None)
    with closing(psycopg2.connect(service=DESTINATION)) as connection, connection.cursor() as cursor:
        while row_count < count:
            cursor.execute(_FETCH, (_FETCHED, *acked))
            rows = cursor.fetchall()
            connection.commit()
            if not rows:
                break
            row_count += len(rows)
            acked = (rows[-1][0], rows[-1][2])
            for stream_position, _lane, token, *_ in rows if per_transaction == 1 else ():
                cursor.execute(_ACK, (stream_position, token))
                connection.commit()
                acked = (None, None)
    return row_count


def _consume_by(library: str, per_transaction: int, count: int) -> int:
    handled = 0
    stops: list[Callable[[], object]] = []

    def handle(_message: object) -> None:
        nonlocal handled
        handled += 1
        if handled == count:
            stops[0]()

    worker = consume(
        library,
        DESTINATION,
        "bench",
        handle,
        begun=stops.append,
        max_count=_FETCHED,
        commit_every=per_transaction,
        until_empty=True,
    )
    return int(worker.acknowledged_count)


def loops_of(loops: Sequence[Loop], contestant: str, per_transaction: int) -> list[Loop]:
    """Those of one contestant, by round."""
    chosen = [one for one in loops if (one.contestant, one.per_transaction) == (contestant, per_transaction)]
    return sorted(chosen, key=lambda one: one.round)


def loop_ratios(loops: Sequence[Loop], contestant: str, per_transaction: int) -> list[float]:
    """Seconds a message over those of plain SQL, by round."""
    pairs = zip(loops_of(loops, contestant, per_transaction), loops_of(loops, PLAIN, per_transaction), strict=True)
    return [(one.seconds / one.row_count) / (plain.seconds / plain.row_count) for one, plain in pairs]


def ratios_as_json(loops: Sequence[Loop]) -> Mapping[str, list[float]]:
    """All ratios, by contestant and messages in a transaction."""
    names = dict.fromkeys(one.contestant for one in loops)
    return {f"{name}, {size}": loop_ratios(loops, name, size) for name in names for size in PER_TRANSACTION if name != PLAIN}


def print_loops(loops: Sequence[Loop], console: Console) -> None:
    """A table for each number of messages in a transaction."""
    for size in PER_TRANSACTION:
        table = Table(
            "who consumes", "seconds: median\n(min to max)", "microseconds\na message", "CPU of the program,\nmicroseconds a message",
            "microseconds\n/ those of plain SQL",
            title=f"the consumer of each library, {amount(size, 'message')} in a transaction",
            caption="Lower is better. The handler does nothing.",
        )  # fmt: skip
        for name in (PLAIN, *LIBRARIES):
            if mine := loops_of(loops, name, size):
                table.add_row(
                    name,
                    show_seconds([one.seconds for one in mine]),
                    f"{median(one.seconds / one.row_count for one in mine) * 1e6:.0f}",
                    f"{median(one.cpu_seconds / one.row_count for one in mine) * 1e6:.0f}",
                    f"{median(loop_ratios(loops, name, size)):.2f}",
                )
        console.print(table)
