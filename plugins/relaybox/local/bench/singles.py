"""A part of `relaybox bench consume`: one message at a time, beside a table queue, pgmq and PgQ, which their packages bring.

Each message is given, and done, in transactions of its own: none is lost if the reader dies. fetch acknowledges the message before
in the same round trip. pgmq reads, then deletes. PgQ is made for batches: it gets one tick for each message, and finishes one batch
for each. Its ticks are made before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Any

import psycopg2
from psycopg2.extensions import cursor as Cursor
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.local.bench.report import show_seconds
from relaybox.local.bench.rivals import PGMQ, PGQ
from relaybox.local.bench.rounds import WARM_UP, shown_turns, take_turns
from relaybox.local.bench.stores import DESTINATION, BenchStores
from relaybox.local.processes import process_cpu_seconds

_MESSAGES = "select log_position, message_id, sender, key, payload from relaybox_internal.log where log_id = %(log_id)s and log_position <= %(count)s"  # noqa: E501
_FETCH = "select * from relaybox.fetch('bench', 1, %s, %s, null, 'bench')"
_PLAIN = "select m.* from relaybox_internal.log m where m.log_id = %s and m.log_position = %s"
_QUEUE = """
delete from public.single where log_position in (
    select log_position from public.single order by log_position for update skip locked limit 1
) returning *
"""


@dataclass(frozen=True)
class Single:
    """One contestant has read its messages one by one; cpu_seconds are those of its session's server process."""

    contestant: str
    round: int
    seconds: float
    cpu_seconds: float
    row_count: int


def _read_plain(cursor: Cursor, log_id: int, count: int) -> int:
    return sum(_rows(cursor, _PLAIN, log_id, number) for number in range(1, count + 1))


def _read_fetch(cursor: Cursor, _log_id: int, count: int) -> int:
    acked: tuple[Any, Any] = (None, None)
    for _ in range(count):
        cursor.execute(_FETCH, acked)
        ((stream_position, _lane, token, *_),) = cursor.fetchall()
        acked = (stream_position, token)
    cursor.execute("select relaybox.ack('bench', %s, %s)", acked)
    return count


def _read_queue(cursor: Cursor, _log_id: int, count: int) -> int:
    return sum(_rows(cursor, _QUEUE) for _ in range(count))


def _read_pgmq(cursor: Cursor, _log_id: int, count: int) -> int:
    for _ in range(count):
        cursor.execute("select * from pgmq.read('single', 30, 1)")
        ((message_id, *_),) = cursor.fetchall()
        cursor.execute("select pgmq.delete('single', %s::bigint)", (message_id,))
    return count


def _read_pgq(cursor: Cursor, _log_id: int, count: int) -> int:
    read = 0
    while read < count:
        cursor.execute("select pgq.next_batch('single', 'bench')")
        ((batch,),) = cursor.fetchall()
        if batch is None:
            break
        read += _rows(cursor, "select * from pgq.get_batch_events(%s)", batch)
        cursor.execute("select pgq.finish_batch(%s)", (batch,))
    return read


def _rows(cursor: Cursor, statement: str, *arguments: Any) -> int:
    cursor.execute(statement, arguments)
    return len(cursor.fetchall())


_SUBSCRIBE = "select relaybox.unsubscribe('bench'), relaybox.subscribe('bench', (select stream from relaybox_internal.stream))"
_FILL_QUEUE = f"drop table if exists public.single; create table public.single as {_MESSAGES} order by 1; alter table public.single add primary key (log_position)"  # noqa: E501
_FILL_PGMQ = f"""
select pgmq.drop_queue('single') where to_regclass('pgmq.q_single') is not null;
select pgmq.create('single');
select pgmq.send('single', m.payload::jsonb) from ({_MESSAGES} order by 1) m
"""  # noqa: S608  # the text is above
_FILL_PGQ = f"""
do $$
begin
    if exists (select from pgq.get_queue_info('single')) then
        perform pgq.unregister_consumer('single', 'bench');
        perform pgq.drop_queue('single');
    end if;
    perform pgq.create_queue('single'), pgq.register_consumer('single', 'bench');
end
$$;
create or replace procedure public.fill_pgq(log_id_ integer, count_ bigint) language plpgsql as $$
declare
    message record;
begin
    for message in select m.* from ({_MESSAGES.replace("%(log_id)s", "log_id_").replace("%(count)s", "count_")} order by 1) m loop
        perform pgq.insert_event('single', 'order', message.payload);
        commit;
        perform pgq.force_tick('single');
        perform pgq.ticker('single');
        commit;
    end loop;
end
$$;
call public.fill_pgq(%(log_id)s, %(count)s)
"""  # noqa: S608  # the text is above


@dataclass(frozen=True)
class _Contestant:
    title: str
    fill: str | None
    read: Callable[[Cursor, int, int], int]
    make: Callable[[], str | None] | None = None


PLAIN, FETCH = "plain-1", "fetch-1"
CONTESTANTS: Mapping[str, _Contestant] = {
    PLAIN: _Contestant("plain select by key", None, _read_plain),
    FETCH: _Contestant("fetch and ack", _SUBSCRIBE, _read_fetch),
    "queue-1": _Contestant("table queue", _FILL_QUEUE, _read_queue),
    "pgmq-1": _Contestant("pgmq: read, delete", _FILL_PGMQ, _read_pgmq, PGMQ.read),
    "pgq-1": _Contestant("PgQ (without C): a batch for each", _FILL_PGQ, _read_pgq, PGQ.read),
}


def measure_singles(stores: BenchStores, log_id: int, count: int, rounds: int, console: Console) -> list[Single]:
    """Measures all that are there, in turn; says who is not.

    Raises:
        ContentDiffers: a contestant read another number of messages.
    """
    names = [name for name in CONTESTANTS if _make(stores, name, console)]
    measured = []
    with shown_turns(take_turns(names, rounds), console, title=lambda _: "one message at a time") as turns:
        for round_, name in turns:
            single = _measure(stores, name, log_id, count, round_)
            if round_ != WARM_UP:
                measured.append(single)
    return measured


def _make(stores: BenchStores, name: str, console: Console) -> bool:
    contestant = CONTESTANTS[name]
    if contestant.make is None:
        return True
    made = contestant.make()
    if made is None:
        console.print(f"[bold]{contestant.title} is left out: its SQL is not here. Run: make rivals[/bold]")
        return False
    stores.query(DESTINATION, made)
    return True


def _measure(stores: BenchStores, name: str, log_id: int, count: int, round_: int) -> Single:
    contestant = CONTESTANTS[name]
    with closing(psycopg2.connect(service=DESTINATION)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("set synchronous_commit = off")
        for statement in _statements(contestant.fill):
            cursor.execute(statement, {"log_id": log_id, "count": count})
        stores.settle()
        pid = connection.info.backend_pid
        before, begun = process_cpu_seconds(pid), time.perf_counter()
        row_count = contestant.read(cursor, log_id, count)
        seconds, cpu_seconds = time.perf_counter() - begun, process_cpu_seconds(pid) - before
    if row_count != count:
        raise errors.ContentDiffers(f"{contestant.title}, one at a time, read {row_count} messages, there are {count}.")
    return Single(name, round_, seconds, cpu_seconds, row_count)


def _statements(fill: str | None) -> list[str]:
    """A CALL that commits can't be in one round trip with others."""
    if fill is None:
        return []
    first, call, last = fill.partition("\ncall ")
    return [first, call + last] if call else [first]


def ratios(singles: list[Single], name: str, baseline: str, figure: str = "seconds") -> list[float]:
    """A figure over the baseline's, by round."""
    values = {(one.contestant, one.round): getattr(one, figure) for one in singles}
    return [values[name, round_] / values[baseline, round_] for contestant, round_ in sorted(values) if contestant == name]


def print_singles(singles: list[Single], console: Console) -> None:
    """One row for each contestant."""
    count = singles[0].row_count
    table = Table(
        "one message at a time",
        "seconds: median\n(min to max)",
        "microseconds\na message",
        "CPU of its session,\nmicroseconds a message",
        "seconds\n/ those of fetch",
        title=amount(count, "message"),
        caption="Good: pgmq and PgQ take at least 3 times as long as fetch and ack.",
    )
    for name, contestant in CONTESTANTS.items():
        if mine := [one for one in singles if one.contestant == name]:
            seconds = [one.seconds for one in mine]
            table.add_row(
                contestant.title,
                show_seconds(seconds),
                f"{median(seconds) / count * 1e6:.0f}",
                f"{median(one.cpu_seconds for one in mine) / count * 1e6:.0f}",
                f"{median(ratios(singles, name, FETCH)):.2f}",
            )
    console.print(table)
