"""Queries of derivations and of trials read big tables by an index; a comparison takes time in proportion to its messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from relaybox.monitoring import derivations
from tests.support.derivations import ROUTE, STORE, DerivedWorld
from tests.support.streams import STREAM, deliver
from tests.support.trials import compare, counts, derive_all, drop, late, try_all, with_next
from tests.support.world import World

BIG = ("outbox", "log_1", "derivation_attempt", "derivation_trial_message", "derivation_trial_attempt")
"""Tables that grow with messages or attempts."""


MANY = """
insert into relaybox.outbox (topic, sender, headers, payload, xid)
select topic, sender, headers, payload, (n * 12 + seq)::text::xid8 from relaybox.outbox cross join generate_series(1, 1700) n;
insert into relaybox_internal.log (log_id, epoch, log_position, index, message_id, sent_at, topic, sender, key, payload)
select log_id, epoch, n, n, gen_random_uuid(), sent_at, topic, sender, key, payload
from relaybox_internal.log cross join generate_series(13, 20012) n where log_position = 1;
insert into relaybox_internal.derivation_attempt (
    derivation_id, attempt, token, stream_positions, message_count, begun_by, state, ended_at, derived_count, first_seq, last_seq
)
select derivation_id, n, token, int8multirange(int8range(n, n + 1)), 1, begun_by, state, ended_at, 1, n, n
from relaybox_internal.derivation_attempt cross join generate_series(13, 20012) n where attempt = 1;
insert into relaybox_internal.derivation_trial (
    derivation_id, version, source_name, source_digest, first_stream_position, last_stream_position, done_stream_position, begun_by,
    state, ended_at, ended_by
)
select derivation_id, version, source_name, source_digest, 1, 12, 12, begun_by, 'dropped', clock_timestamp(), begun_by
from relaybox_internal.derivation_trial;
insert into relaybox_internal.derivation_trial_message (trial_id, message_id, topic, sender, key, headers, payload)
select t.trial_id, gen_random_uuid(), topic, sender, key, headers, payload
from relaybox_internal.derivation_trial_message cross join generate_series(1, 850) cross join (values (1), (2)) t (trial_id);
insert into relaybox_internal.derivation_trial_attempt (
    trial_id, attempt, token, first_stream_position, last_stream_position, begun_by, state, ended_at, derived_count
)
select trial_id, n, 'x', 1, 1, 'test', 'done', clock_timestamp(), 1
from generate_series(1000, 5000) n cross join (values (1), (2)) t (trial_id);
analyze
"""


@pytest.fixture
def delays(world: World) -> DerivedWorld:
    """12 messages, each derived in an attempt of its own."""
    delays = with_next(world)
    deliver(world, 12)
    derive_all(delays, max_count=1)
    return delays


@pytest.fixture
def big(delays: DerivedWorld) -> DerivedWorld:
    """20,000 attempts more, of which each has sent a message; and a trial of 20,000 messages beside another one."""
    try_all(delays, max_count=12)
    delays.world.query(STORE, "select relaybox_internal.ensure_log_segments(1, 30000)")
    delays.world.query(STORE, MANY)
    return delays


def plan(world: World, query: str, *, nestloop: str = "on") -> list[dict[str, Any]]:
    """The nodes of a query's plan, flat."""
    with world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute("select set_config('enable_nestloop', %s, true)", (nestloop,))
        cursor.execute(f"explain (format json) {query}")
        (shown,) = cursor.fetchone()
    return list(_flat((json.loads(shown) if isinstance(shown, str) else shown)[0]["Plan"]))


def _flat(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _flat(child)


def body(world: World, name: str, **arguments: object) -> tuple[str, str]:
    """The query of a function with its arguments in it; and what the function says of nested loops."""
    source, settings = world.query(STORE, "select prosrc, proconfig from pg_proc where proname = %s", name)[0]
    for argument, value in arguments.items():
        source = re.sub(rf"\b{argument}\b", str(value), re.sub(r"--.*", "", source))
    nestloop = dict(one.split("=", 1) for one in settings or ()).get("enable_nestloop", "on")
    return source, nestloop


def indexes(world: World, query: str, **settings: str) -> set[str]:
    """The indexes by which big tables are read; fails if one is read as a whole. Segments without a row are read so, in no time."""
    nodes = plan(world, query, **settings)
    read = [node for node in nodes if node.get("Relation Name", "").startswith(BIG)]
    assert [node for node in read if node["Node Type"] == "Seq Scan" and node["Plan Rows"] > 1] == []
    names = {node["Index Name"] for node in nodes if "Index Name" in node}
    return without_segments(names)


def without_segments(names: Iterable[str]) -> set[str]:
    """Indexes of big tables; those of a segment have the name of the whole table's."""
    return {re.sub(r"_(s\d+|overflow)_", "_", name) for name in names if name.startswith(BIG)}


SCANS = """
select relname, relkind = 'i', pg_stat_get_xact_numscans(oid), pg_stat_get_xact_tuples_returned(oid)
from pg_class where relkind in ('i', 'r')
"""
"""Scans of this transaction, and the rows that they read."""


def used_indexes(world: World, query: str) -> set[str]:
    """The indexes of big tables that a query uses, with the functions that it calls; fails if it reads such a table as a whole."""
    with world.session(STORE) as session, session.cursor() as cursor:
        cursor.execute(query)
        cursor.execute(SCANS)
        used = [scanned for scanned in cursor.fetchall() if scanned[2]]
    whole = {name: rows for name, is_index, _, rows in used if not is_index and rows and name.startswith(BIG)}
    assert whole == {}, "rows of tables that were read without an index"
    return without_segments(name for name, is_index, *_ in used if is_index)


def test_each_query_of_derivations_reads_big_tables_by_an_index(big: DerivedWorld) -> None:
    world = big.world
    of_seq = "select from relaybox_internal.trace_cause(7)"
    assert used_indexes(world, of_seq) == {"outbox_pkey", "log_1_pkey", "derivation_attempt_of_seq"}
    of_position = f"select from relaybox_internal.trace_derived('{STREAM}', 7)"
    assert used_indexes(world, of_position) == {"outbox_pkey", "derivation_attempt_of_position"}
    newest = derivations._NEWEST.replace("%s::text[]", f"array['{ROUTE}']")  # noqa: SLF001
    of_attempts, of_trial, trial_messages = "derivation_attempt a", "derivation_trial_attempt a", "derivation_trial_message m"
    for query, index in (
        (newest, "derivation_attempt_pkey"),
        (f"select max(a.attempt) from relaybox_internal.{of_attempts} where a.derivation_id = 1", "derivation_attempt_pkey"),
        (
            f"select from relaybox_internal.{of_attempts} where a.derivation_id = 1 and a.state = 'open'",
            "derivation_attempt_open",
        ),
        (f"select max(a.attempt) from relaybox_internal.{of_trial} where a.trial_id = 1", "derivation_trial_attempt_pkey"),
        (f"select from relaybox_internal.{of_trial} where a.trial_id = 1 and a.state = 'open'", "derivation_trial_attempt_open"),
        (f"delete from relaybox_internal.{trial_messages} where m.trial_id = 4", "derivation_trial_message_pkey"),
    ):
        assert indexes(world, query) == {index}, query


def test_the_messages_that_a_version_sent_for_a_range_are_read_by_an_index(big: DerivedWorld) -> None:
    """Of a trial of a short range, beside 20,000 attempts and messages of others."""
    world = big.world
    query, nestloop = body(world, "sent_in_range_of_trial", trial_id_=1, compared_from=10)
    assert indexes(world, query, nestloop=nestloop) == {"outbox_pkey", "outbox_xid_idx", "derivation_attempt_of_position"}
    first, _ = body(world, "trial_compared_from", trial_id_=1)
    assert indexes(world, first) == {"outbox_pkey", "derivation_attempt_of_seq"}


def test_a_comparison_looks_at_no_pairs_of_messages_also_if_few_rows_are_expected(delays: DerivedWorld) -> None:
    """Autovacuum looked at the trial before this one, and at attempts of one message. Then 3,000 messages came, in one attempt."""
    world = delays.world
    try_all(delays, max_count=12)
    world.query(STORE, "analyze")
    drop(delays)
    deliver(world, 3000)
    derive_all(delays, max_count=3000)
    try_all(delays, lambda position: late(position) if position % 3 else [{"payload": "better"}], max_count=3012)
    query, nestloop = body(world, "compare_derivation_trial", trial_id_=2, compared_from=1)
    loops = [node for node in plan(world, query, nestloop=nestloop) if node["Node Type"] == "Nested Loop"]
    assert [node for node in loops if any("CTE Scan" in str(child) for child in node["Plans"])] == []
    found = compare(delays)
    assert counts(found) == {"equal": 2008, "changed": 0, "only_old": 1004, "only_new": 1004}
