"""Random indexes of one sender end in an exact set, within the memory that docs/ordering.md states."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relaybox.stores.init.one_store import initialise_store
from tests.support.world import World, routes_file

BYTES_PER_FRAGMENT = {"close": 40, "scattered": 130}
"""At most, in relaybox_internal.seen with its index and the room that a vacuum keeps for later; docs/ordering.md states it.

close: drawn from twice as many, hundreds of fragments to a row; scattered: from 20,000 times as many, about one to a row.
"""

IN_FULL = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) >= 200
SIZES = [
    pytest.param("close", 5, 10_000, id="50 thousand, close"),
    pytest.param("scattered", 5, 10_000, id="50 thousand, scattered"),
    *([pytest.param("close", 10, 1_000_000, id="10 million, close")] if IN_FULL else []),
    *([pytest.param("scattered", 10, 100_000, id="1 million, scattered")] if IN_FULL else []),
]

LOG = "(select log_id from relaybox_internal.hop_in where hop = 'flights/1')"
FILL = f"""
insert into relaybox_internal.log (log_id, log_position, message_id, sent_at, topic, sender, epoch, index, payload)
select {LOG}, p, gen_random_uuid(), now(), 'flights', 'probe', 1, i, 'm' || i
from (select p, 1 + floor(random() * %s)::bigint as i from generate_series(%s::bigint, %s::bigint) p offset 0) n
"""
AGAIN = f"""
insert into relaybox_internal.log (log_id, log_position, message_id, sent_at, topic, sender, epoch, index, payload)
select {LOG}, p, gen_random_uuid(), now(), 'flights', 'probe', 1, 2 * ((p - 1) %% %s) + 1, 'm' from generate_series(%s::bigint, %s::bigint) p
"""
PUBLISH = f"""
insert into relaybox_internal.arrival (
    log_id, batch, plan_id, first_position, last_position, row_count, slice_count, source_system_identifier, source_timeline, has_own_indexes
)
values ({LOG}, %(batch)s, gen_random_uuid(), %(first)s, %(last)s, %(last)s - %(first)s + 1, 1, 1, 1, true);
update relaybox_internal.hop_in set published_batch = %(batch)s, published_position = %(last)s where hop = 'flights/1';
"""
DECLARE = "insert into relaybox_internal.sender (origin, sender, epoch, kind, declared_at) values ('airline', 'probe', 1, 'sparse', '2000-01-01')"

# beyond the watermark every fragment, before it everything
SET = """
create temporary table set_of_probe as
select int8range(1, s.watermark + 1) as indexes from relaybox_internal.sender_state s
union all
select r * int8range(s.watermark + 1, null) from relaybox_internal.sender_state s
    join relaybox_internal.seen n using (sender_id), unnest(n.indexes) r
"""
SENT = f"select count(distinct index) from relaybox_internal.log where log_id = {LOG}"
DIFFERENCE = f"""
select count(*)
from (select distinct index from relaybox_internal.log where log_id = {LOG}) l
full join (select generate_series(lower(indexes), upper(indexes) - 1) as index from set_of_probe) n using (index)
where l.index is null or n.index is null
"""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("spread", "batches", "rows"), SIZES)
def test_random_indexes_end_in_an_exact_set_of_a_stated_size(
    databases: Mapping[str, Mapping[str, str]], tmp_path: Path, spread: str, batches: int, rows: int
) -> None:
    """Close: about every fifth is a repeat, and the set falls into as many fragments as it can. Scattered: each needs a row."""
    span = (2 if spread == "close" else 20_000) * batches * rows
    world = World(routes_file(tmp_path, route={"path": ["airline", "hub"], "limits": {"fragments": 100_000_000}}))
    initialise_store(world.routes.store("hub"), world.routes, segment_rows=2 * rows)
    world.query("hub", DECLARE)
    with world.session("hub") as session, session.cursor() as cursor:
        cursor.execute("select setseed(0.4)")
        for batch in range(1, batches + 1):
            append(cursor, batch, rows, span=span)
            session.commit()
            cursor.execute(f"select relaybox_internal.deliver_next({LOG})")
            session.commit()
            world.query("hub", "vacuum relaybox_internal.seen")
        cursor.execute("set work_mem = '256MB'")
        cursor.execute(SET)
        sent = first_value(cursor, SENT)
        assert first_value(cursor, DIFFERENCE) == 0
        assert first_value(cursor, "select last_stream_position from relaybox_internal.stream") == sent
        assert first_value(cursor, "select sum(duplicate_count)::bigint from relaybox_internal.decision") == batches * rows - sent
        fragments = first_value(cursor, "select fragment_count from relaybox_internal.sender_state")
        stored = first_value(cursor, "select pg_total_relation_size('relaybox_internal.seen')")
    assert fragments > 0.4 * sent
    assert stored <= fragments * BYTES_PER_FRAGMENT[spread], f"{stored} bytes for {fragments} fragments of {sent} indexes"
    print(f"{spread}: {stored / fragments:.0f} bytes per fragment, {fragments} fragments")


def append(cursor: Any, batch: int, rows: int, *, span: int) -> None:
    """Publishes one more batch of random indexes, as a hop would have brought it."""
    first, last = (batch - 1) * rows + 1, batch * rows
    cursor.execute(f"select relaybox_internal.ensure_log_segments({LOG}, %s)", (last,))
    cursor.execute(FILL, (span, first, last))
    cursor.execute(PUBLISH, {"batch": batch, "first": first, "last": last})


def first_value(cursor: Any, query: str) -> Any:
    cursor.execute(query)
    return cursor.fetchone()[0]


def test_the_copies_of_a_batch_are_compared_without_a_look_at_all_of_them_for_each(
    databases: Mapping[str, Mapping[str, str]], tmp_path: Path
) -> None:
    """Temporary tables have no statistics: a plan that takes them for small is quadratic, and shows with statistics of the log only."""
    world = World(routes_file(tmp_path, route={"path": ["airline", "hub"]}))
    initialise_store(world.routes.store("hub"), world.routes)
    world.query("hub", DECLARE)
    copies = 2_000
    with world.session("hub") as session, session.cursor() as cursor:
        for batch in (1, 2):
            first, last = (batch - 1) * copies + 1, batch * copies
            cursor.execute(f"select relaybox_internal.ensure_log_segments({LOG}, %s)", (last,))
            cursor.execute(AGAIN, (copies, first, last))
            cursor.execute(PUBLISH, {"batch": batch, "first": first, "last": last})
            session.commit()
            cursor.execute("analyze relaybox_internal.log, relaybox_internal.seen")
            session.commit()
            cursor.execute(f"select (relaybox_internal.deliver_next({LOG})).duplicate_count")
            duplicates = cursor.fetchone()[0]
            cursor.execute(
                "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_xact_all_tables "
                "where relid = 'pg_temp.repeated_index'::regclass"
            )
            read = cursor.fetchone()[0]
            session.commit()
    assert duplicates == copies
    assert copies < read < 10 * copies
