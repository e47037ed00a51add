"""What clocks cost: an insert has a bound on their entries, and a decision looks at each entry a fixed number of times."""

from __future__ import annotations

import json
import os
import time

import psycopg2.errors
import pytest

from tests.delivery.brute import Declaration, Row
from tests.delivery.histories import LOGS, History
from tests.delivery.stored import StoredStream
from tests.support.world import World

pytestmark = pytest.mark.thorough

SIZE = 500 if int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) >= 200 else 40

READ = """
select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_xact_all_tables where relid = 'pg_temp.unmet_cause'::regclass
"""


def chain(size: int) -> History:
    """Each sender's second message names the first ones of all, and the second one of the sender before it; the last one comes first."""
    log = LOGS[0]
    senders = [f"s{number}" for number in range(size)]
    rows = [Row(log, log_position, sender, 1, 1, 1, sender, (sender,)) for log_position, sender in enumerate(senders, start=1)]
    for number, sender in reversed(list(enumerate(senders))):
        clock = {other: 2 if before == number - 1 else 1 for before, other in enumerate(senders) if before != number}
        rows.append(Row(log, len(rows) + 1, sender, 1, 2, 1, f"{sender} 2", (f"{sender} 2",), clock))
    origin = log.removesuffix("/1")
    declared = tuple(Declaration(origin, sender, 1, "gapless") for sender in senders)
    return History("causal", 0, {log: origin}, declared, {log: rows})


def rows_read(world: World, size: int) -> int:
    """Of the causes of one decision on a chain of `size` senders."""
    history = chain(size)
    with world.session("hub") as connection, connection.cursor() as cursor:
        stored = StoredStream(connection)
        stored.begin(history)
        stored.carry(history.declarations)
        stored.publish(LOGS[0], 2 * size, knows_kind=True)
        began = time.monotonic()
        assert stored.decide(LOGS[0])
        print(f"{size * (size - 1):,} entries of clocks in one cut: {time.monotonic() - began:.1f} s")
        cursor.execute(READ)
        (read,) = cursor.fetchone() or (0,)
        stored.commit()
        assert [log_position for _, log_position in stored.outcome().delivered] == [
            *range(1, size + 1),
            *range(2 * size, size, -1),
        ]
    return int(read)


def test_a_chain_of_causes_is_followed_once_however_long_it_is(world: World) -> None:
    """Twice the senders are four times the entries of clocks, and four times the work: rounds over all of them would be eight times."""
    small, large = rows_read(world, SIZE), rows_read(world, 2 * SIZE)
    assert small >= SIZE * (SIZE - 1), "each entry is looked at"
    assert large <= 5 * small, f"{small} rows for {SIZE} senders, {large} for {2 * SIZE}"


def test_a_clock_of_more_than_a_thousand_senders_is_refused_when_it_is_sent(world: World) -> None:
    send = "insert into relaybox.outbox (topic, sender, index, payload, clock) values ('flights', 'a', 1, 'm', %s)"
    entries = {f"s{number}": [1, 1] for number in range(1001)}
    with pytest.raises(psycopg2.errors.CheckViolation, match="clock_names_at_most_1000_senders"):
        world.query("airline", send, json.dumps(entries))
    del entries["s0"]
    world.query("airline", send, json.dumps(entries))
    with pytest.raises(psycopg2.errors.CheckViolation, match="clock_is_an_object"):
        world.query("airline", send, "3")
