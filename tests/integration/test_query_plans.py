"""Each query of the protocol has its index, and keeps it when nobody ran ANALYZE."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from relaybox.stores.sessions.connections import connect
from tests.support.world import World


@pytest.fixture
def busy(world: World) -> World:
    """20,000 messages moved, 100 fresh ones, statistics as autovacuum leaves them."""
    world.send_many(20_000)
    world.transfer_all()
    world.query("airline", "analyze relaybox.outbox")
    world.query("hub", "analyze relaybox_internal.log")
    world.send_many(100)
    return world


def plan_nodes(world: World, store: str, query: str, *arguments: object, seqscan: bool = False) -> list[dict[str, Any]]:
    """The nodes of a query's plan, as the movers' sessions are set, flat."""
    connection = connect(world.routes.stores[store].service, application_name="plan test")
    with connection.cursor() as cursor:
        if seqscan:
            cursor.execute("set enable_seqscan = on")
        cursor.execute(f"explain (format json) {query}", arguments)
        plan = cursor.fetchone()[0]
    connection.close()
    return list(_flatten((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))


def _flatten(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _flatten(child)


def scans(nodes: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(node["Node Type"], node.get("Index Name", "")) for node in nodes if "Scan" in node["Node Type"]}


def head(world: World) -> tuple[str, str]:
    return world.query(
        "airline", "select lower::text, pg_current_snapshot()::text from relaybox_internal.hop_out where hop = 'flights/1'"
    )[0]


def test_the_count_of_a_pair_reads_the_xid_index(busy: World) -> None:
    """unsealed_buckets is inlined and touches only the pair's transactions."""
    nodes = plan_nodes(
        busy, "airline", "select * from relaybox_internal.unsealed_buckets(%s, %s, '{flights}', 64, 0, 0, 1)", *head(busy)
    )
    indexes = {index for _, index in scans(nodes) if index}
    assert indexes
    assert all(index.endswith("_xid_idx") for index in indexes)
    assert not any(node["Node Type"] == "Seq Scan" for node in nodes)


COUNT = "select * from relaybox_internal.unsealed_buckets(%s, %s, '{flights}', 64, 0, 0, 1)"


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_a_small_pair_is_counted_along_the_index_whatever_statistics_say(world: World, *, is_analyzed: bool) -> None:
    """Although the driver lets the planner choose: of 20,000 messages in full segments it reads the newest 100 only."""
    world.send_many(20_000)
    world.transfer_all()
    if is_analyzed:
        world.query("airline", "analyze relaybox.outbox")
    world.send_many(100)
    nodes = plan_nodes(world, "airline", COUNT, *head(world), seqscan=True)
    full = {"outbox_s000000", "outbox_s000001"}
    assert {node["Node Type"] for node in nodes if node.get("Relation Name") in full} <= {"Index Scan", "Bitmap Heap Scan"}


def test_a_pair_of_most_of_a_segment_is_counted_by_a_scan_of_it(world: World) -> None:
    """A backlog: each page is read once, and no index."""
    world.send_many(20_000)
    world.query("airline", "analyze relaybox.outbox")
    lower, upper = head(world)
    nodes = plan_nodes(world, "airline", COUNT, lower, upper, seqscan=True)
    assert "outbox_s000001" in {node.get("Relation Name") for node in nodes if node["Node Type"] == "Seq Scan"}


def test_a_slice_of_an_outbox_is_read_along_its_primary_key_from_one_segment(busy: World) -> None:
    """read_outbox_slice is inlined, pruned to the slice's segment, and sorted by the index alone."""
    nodes = plan_nodes(
        busy,
        "airline",
        "select * from relaybox_internal.read_outbox_slice(%s, %s, '{flights}', 20001, 20100, 20001)",
        *head(busy),
    )
    assert {scan for scan in scans(nodes) if scan[1]} == {("Index Scan", "outbox_s000002_pkey")}
    assert not any(node["Node Type"] == "Seq Scan" for node in nodes)
    assert not any(node["Node Type"] == "Sort" or node.get("Function Name") == "read_outbox_slice" for node in nodes)


def test_stray_rows_are_counted_along_the_primary_key(busy: World) -> None:
    """hops_that_planned is inlined: a subplan over the hops for each row before the segments, of which there are none."""
    nodes = plan_nodes(
        busy,
        "airline",
        "select count(*) from relaybox_internal.sent_rows o "
        "where o.seq < 20001 and not exists (select from relaybox_internal.hops_that_planned(o.xid))",
    )
    assert any(node.get("Relation Name") == "hop_out" for node in nodes)
    assert not any("Function Name" in node for node in nodes)
    of_rows = {scan for scan in scans(nodes) if scan[1].startswith("outbox")}
    assert of_rows
    assert all(index.endswith("_pkey") for _, index in of_rows)


def test_a_slice_of_a_log_is_read_along_its_primary_key_from_one_segment(busy: World) -> None:
    """read_log_slice is inlined and pruned to one segment."""
    nodes = plan_nodes(busy, "hub", "select * from relaybox_internal.read_log_slice(1, 15001, 15100, 15001)")
    assert scans(nodes) == {("Index Scan", "log_1_s000001_pkey")}


def test_a_run_of_stream_positions_is_one_range_scan_and_a_list_one_lookup_each(busy: World) -> None:
    """read_position_range and read_position_list are inlined; read_delivery_run opens the segments of one of the two."""
    run = plan_nodes(busy, "hub", "select * from relaybox_internal.read_position_range(1, 15001, 15001, 15100)")
    assert scans(run) == {("Index Scan", "log_1_s000001_pkey")}
    assert not any(node["Node Type"] == "Sort" for node in run)
    listed = plan_nodes(busy, "hub", "select * from relaybox_internal.read_position_list(1, 1, '{7,5,6}')")
    assert {kind for kind, _ in scans(listed)} == {"Index Scan", "Function Scan", "Subquery Scan"}
    assert {node.get("Function Name") for node in listed} == {None, "unnest"}
    either = plan_nodes(busy, "hub", "select * from relaybox_internal.read_delivery_run(1, 15001, 15001, 15100, null)")
    assert {scan for scan in scans(either) if scan[1]} == {("Index Scan", "log_1_s000001_pkey")}
    either = plan_nodes(busy, "hub", "select * from relaybox_internal.read_delivery_run(1, 1, null, null, '{7,5,6}')")
    assert {node.get("Function Name") for node in either} == {None, "unnest"}


@pytest.mark.parametrize("bound", [False, True])
def test_the_inbox_is_read_along_its_primary_key_also_where_topics_are_granted(busy: World, *, bound: bool) -> None:
    """The topics of the role are looked up once for a statement: by a condition that is no join, and changes no way to the rows."""
    busy.query("hub", "select relaybox_internal.bind_topics(%s)", bound)
    nodes = plan_nodes(
        busy,
        "hub",
        "select * from relaybox.inbox where hop = 'flights/1' and log_position > 15000 and log_position <= 15100 order by log_position",
    )
    assert ("Index Scan", "log_1_s000001_pkey") in scans(nodes)
    assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"].startswith("log") for node in nodes)
    grants = [node for node in nodes if node.get("Relation Name") == "topic_role"]
    assert len(grants) == 2


def test_the_runs_between_two_stream_positions_are_found_by_an_index(busy: World) -> None:
    """list_delivery_runs is inlined, and looks at no run beyond the last stream position that is asked for."""
    nodes = plan_nodes(
        busy, "hub", "select r.first_stream_position, r.log_positions from relaybox_internal.list_delivery_runs(1, 100, 200) r"
    )
    assert {index for _, index in scans(nodes) if index} == {"delivery_pkey"}
    assert not any(node["Node Type"] == "Sort" for node in nodes)


def test_the_rest_of_a_capped_pair_is_walked_and_stops(busy: World) -> None:
    """backlog_buckets goes along the primary key under a limit: a giant backlog is never counted twice."""
    nodes = plan_nodes(
        busy,
        "airline",
        "select * from relaybox_internal.backlog_buckets('1:1:', %s, '{flights}', '{[101,20001)}', 64, 1001)",
        head(busy)[1],
    )
    assert any(node["Node Type"] == "Limit" for node in nodes)
    assert {kind for kind, _ in scans(nodes)} <= {"Index Scan", "Subquery Scan", "Function Scan"}
    assert not any(node["Node Type"] in ("Sort", "Seq Scan") and node.get("Relation Name") for node in nodes)


def test_the_poll_for_new_messages_reads_the_xid_index(busy: World) -> None:
    """hop_has_work costs an index probe, not a scan of the outbox."""
    buffers = plan_buffers(busy, "select relaybox_internal.hop_has_work('flights/1')")
    assert buffers < 200, f"a poll touched {buffers} pages"


def test_where_finds_a_message_by_its_index(busy: World) -> None:
    """outbox.message_id has an index in every segment."""
    nodes = plan_nodes(
        busy, "airline", "select seq from relaybox.outbox where message_id = '00000000-0000-0000-0000-000000000000'"
    )
    assert scans(nodes)
    assert all("message_id" in index for _, index in scans(nodes))


def plan_buffers(world: World, query: str) -> int:
    connection = connect("airline", application_name="plan test")
    with connection.cursor() as cursor:
        cursor.execute(query)  # catalog caches filled
        cursor.execute(f"explain (analyze, buffers, format json) {query}")
        plan = cursor.fetchone()[0]
    connection.close()
    node = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


def test_senders_are_counted_in_the_order_of_positions_whatever_the_planner_prefers(world: World) -> None:
    """Indexes are gathered as they come; a plan that sorted rows by sender would mix them, as sorts are not stable."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, index, payload) "
        "select 'flights', 'sender-' || n %% 3, (n - 1) / 3 + 1, n::text from generate_series(1, %s) n",
        3000,
    )
    world.transfer()
    with world.session("hub") as session, session.cursor() as cursor:
        for setting in ("enable_hashagg = off", "enable_indexscan = off", "enable_sort = on"):
            cursor.execute(f"set {setting}")
        cursor.execute("select sender, row_count, ascending from relaybox_internal.count_senders(1, 1, 3000) order by sender")
        assert cursor.fetchall() == [(f"sender-{n}", 1000, True) for n in range(3)]


BATCHES = 100_000
"""A hop's ledger after a billion messages in batches of ten thousand."""


@pytest.fixture
def old_ledger(world: World) -> World:
    """A hop with a long ledger; the oldest batches have a topic that it does not move any more."""
    world.send("first")
    world.transfer()
    world.query("airline", "alter table relaybox_internal.batch set (autovacuum_enabled = off)")
    columns = [
        name
        for (name,) in world.query(
            "airline",
            "select attname from pg_attribute where attrelid = 'relaybox_internal.batch'::regclass and attnum > 0 and not attisdropped",
        )
    ]
    changed = {
        "batch": "b.batch + n",
        "plan_id": "gen_random_uuid()",
        "topics": "case when n <= 100 then '{bookings,flights}' else b.topics end",
        "reads_after": "b.reads_after + n",
        "reads_through": "b.reads_through + n",
        "first_position": "b.first_position + n",
        "last_position": "b.last_position + n",
    }
    world.query(
        "airline",
        f"insert into relaybox_internal.batch ({', '.join(columns)}) "
        f"select {', '.join(changed.get(name, f'b.{name}') for name in columns)} from relaybox_internal.batch b, generate_series(1, %s) n",
        BATCHES,
    )
    world.query("airline", "vacuum analyze relaybox_internal.batch")
    return world


def test_the_topics_that_a_hop_had_are_found_without_reading_its_ledger(old_ledger: World) -> None:
    """Each status asks for them, of each hop: some pages per topic, however many batches there are."""
    assert old_ledger.value("airline", "select relaybox_internal.hop_topics('flights/1')") == ["bookings", "flights"]
    buffers = plan_buffers(old_ledger, "select relaybox_internal.hop_topics('flights/1')")
    assert buffers < 200, f"hop_topics touched {buffers} pages"


def test_a_batch_of_a_backlog_is_one_range_of_its_key(world: World) -> None:
    """Of 200,000 messages of two adoptions, whatever the statistics say. Neither a sort nor a scan of all."""
    row = "select {}, relaybox.new_message_id(), 'flights', 'UA', '1' from generate_series(1, 100000)"
    for adoption in (1, 2):
        world.query(
            "airline",
            "insert into relaybox_internal.adopted_row (adoption_id, message_id, topic, sender, payload) " + row.format(adoption),
        )
    last = "select w.row_number from relaybox_internal.adopted_row w where w.adoption_id = 2 order by w.row_number limit 10000"
    taken = "delete from relaybox_internal.adopted_row w where w.adoption_id = 2 and w.row_number <= 110000 returning w.*"
    settings = world.value("airline", "select proconfig from pg_proc where proname = 'move_adopted_rows'") or []
    for is_analyzed in (False, True):
        if is_analyzed:
            world.query("airline", "analyze relaybox_internal.adopted_row")
        for query in (last, taken):
            with world.session() as connection, connection.cursor() as cursor:
                for setting in settings:
                    cursor.execute("set {} = {}".format(*setting.split("=")))
                cursor.execute(f"explain (format json) {query}")
                nodes = list(_flatten(cursor.fetchone()[0][0]["Plan"]))
            assert {kind for kind, _ in scans(nodes)} <= {"Index Scan", "Index Only Scan"}, nodes
            assert not any(node["Node Type"] == "Sort" for node in nodes)
