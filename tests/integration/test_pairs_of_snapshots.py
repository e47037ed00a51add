"""G2: what became visible between two snapshots is counted and read once, row by row, whatever was open at either of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from tests.support.world import World

TRANSACTIONS = 40
ROWS = """
insert into relaybox.outbox (topic, sender, payload, epoch, index)
select (array['a', 'b', 'c'])[1 + mod(n, 3)], 'UA', n::text, 7, case when mod(n, 5) = 0 then 1000 + n end
from generate_series(1, %s) n
"""


@dataclass(frozen=True)
class Snapshot:
    """What had ended when it was taken: everything below xmax that was not open."""

    xmax: int
    open: frozenset[int]

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.open

    def __str__(self) -> str:
        return f"{min(self.open, default=self.xmax)}:{self.xmax}:{','.join(map(str, sorted(self.open)))}"


def some_pair(chance: random.Random, first: int) -> tuple[Snapshot, Snapshot]:
    """A snapshot and a later one of the same transactions, or the same one twice."""
    xmax = first + chance.randint(0, TRANSACTIONS)
    lower = Snapshot(xmax, frozenset(some(chance, range(first, xmax))))
    later = xmax + chance.randint(0, first + TRANSACTIONS - xmax)
    return lower, Snapshot(later, frozenset(some(chance, [*lower.open, *range(xmax, later)])))


def some(chance: random.Random, of: Iterable[int]) -> list[int]:
    share = chance.choice((0.0, 0.2, 0.6))
    return [one for one in of if chance.random() < share]


def buckets(seqs: Iterable[int], width: int) -> list[tuple[int, int, int]]:
    grouped = [list(group) for _, group in groupby(seqs, lambda seq: seq // width)]
    return [(group[0], group[-1], len(group)) for group in grouped]


def test_g2_a_pair_of_snapshots_is_counted_and_read_as_a_look_at_every_row_says(world: World) -> None:
    """New rows, a slice of them, and pieces of a backlog: each row between the two, of the topics, in the range; no other."""
    chance = random.Random(1)
    world.query("airline", ROWS, TRANSACTIONS * 3)
    first = int(world.value("airline", "select pg_snapshot_xmin(pg_current_snapshot())::text")) - TRANSACTIONS
    world.query("airline", "update relaybox.outbox set xid = (%s + mod(seq * 7, %s))::text::xid8", first, TRANSACTIONS)
    rows = world.query("airline", "select seq, xid::text::bigint, topic, epoch, index, payload from relaybox.outbox order by seq")
    with world.session() as session, session.cursor() as cursor:
        for _ in range(60):
            lower, upper = some_pair(chance, first)
            topics = chance.sample("abcd", chance.randint(1, 3))
            between = {
                seq: (epoch, index, payload)
                for seq, xid, topic, epoch, index, payload in rows
                if upper.sees(xid) and not lower.sees(xid) and topic in topics
            }
            ask_all(cursor, chance, (str(lower), str(upper), topics), between)


def ask_all(cursor: Any, chance: random.Random, pair: tuple[str, str, list[str]], between: dict[int, tuple[Any, ...]]) -> None:
    width, after = chance.choice((1, 8, 1000)), chance.choice((0, 1, 40))
    cursor.execute("select * from relaybox_internal.outbox_buckets(%s, %s, %s, %s, %s)", (*pair, width, after))
    assert cursor.fetchall() == buckets((seq for seq in between if seq > after), width), (pair, width, after)
    begin, end = sorted(chance.choices(range(1, TRANSACTIONS * 3 + 1), k=2))
    cursor.execute(
        'select "log_position", index, epoch, payload from relaybox_internal.read_outbox_slice(%s, %s, %s, %s, %s, 101)',
        (*pair, begin, end),
    )
    read = [row for seq, row in between.items() if begin <= seq <= end]
    expected = [
        (log_position, index or log_position, epoch if index else 0, payload)
        for log_position, (epoch, index, payload) in enumerate(read, start=101)
    ]
    assert sorted(cursor.fetchall()) == expected, (pair, begin, end)
    runs, most = [(begin, end), (end + 2, end + 20)], chance.choice((1, 5, 1000))
    cursor.execute(
        "select * from relaybox_internal.backlog_buckets(%s, %s, %s, %s, %s, %s)",
        (*pair, "{" + ",".join(f"[{low},{high}]" for low, high in runs) + "}", width, most),
    )
    waiting = islice(((seq, run) for run, (low, high) in enumerate(runs, start=1) for seq in between if low <= seq <= high), most)
    counted = [
        (*bucket, run)
        for run, group in groupby(waiting, lambda one: one[1])
        for bucket in buckets((seq for seq, _ in group), width)
    ]
    assert cursor.fetchall() == counted, (pair, runs, width, most)
