"""What a store does for a hop, and says of it, is the same whether it is alone there or beside others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.retention.segments import retain_store
from tests.support.breaking import transfer_until
from tests.support.world import STORES, World, insert

ROUTES = {
    "flights": {"topics": ["flights"], "order": "fifo"},
    "ahead": {"topics": ["ahead"], "order": "fifo"},
    "zbehind": {"topics": ["behind"], "policy": "processed", "processed_by": ["reader"]},
}
LIMITS = {"batch_rows": 4, "slice_rows": 2}

OF_SENDING = """
    hop_has_work({hop}); sending_states(array[{hop}]); outbox_waiting(array(select h from relaybox_internal.hop_out h where h.hop = {hop} and h.reads_log is null)); log_read_through({hop}); log_unread({hop}); hop_topics({hop});
    confirmations_after({hop}, 0, 0, 0); newest_confirmation({hop}, 'received'); newest_confirmation({hop}, 'settled');
    confirmation_of({hop}, 'received', 1); settled_reading({hop}); ledger_continuity({hop}, 1); unrouted_backlog({hop});
    account_for_outbox(array[{hop}], 0, 1000000); read_seqs(array[{hop}], 0, 1000000, 1000000); backlog_seqs(array[{hop}], 0, 1000000);
    accounted_seqs(array[{hop}], 0, 1000000); source_contradictions({hop}); trace_reading({hop}, 1); trace_reading({hop}, 5);
    hop_is_driven({hop}); topics_wanted({hop})
"""
OF_ARRIVING = """
    receiving_states(array[{hop}], '{{2}}'); log_holders(1); log_kept_from(1); stream_states(array[{hop}]); stream_has_work(1); resolved_position(1);
    destination_contradictions({hop}); list_stream_positions(1); trace_delivery({hop}, 1); trace_delivery({hop}, 4);
    trace_arrival({hop}, 1, 1, 1); held_senders('flights'); sender_gap('flights', 'pump'); check_decisions('flights');
    check_stream('flights'); stream_digests('flights', 1, 1000000); repeated_messages(1, 1000000);
    count_fates('flights', 1, 1000000, '{{}}'); last_stream_position_through(1, 1, 3); first_position_after(1, 1, 2); log_position_at(1, 2); message_at(1, 2); stream_positions_between(1, 'earliest', 'latest'); read_stream('flights', 0, 100);
    stream_range('flights', 'earliest', 'latest'); stream_range_with_files('flights', 'earliest', 'latest');
    read_detached('flights', 0, 100); detached_files('flights', '/files'); read_log({hop}, 0, 100); hops_fingerprint(1); unmet_causes(1, 1, 2); is_skipped(1, 1, 2); durable_arrival(1)
"""
ASKED = {
    "airline": OF_SENDING.format(hop="'flights/1'"),
    "hub": OF_SENDING.format(hop="'flights/2'") + ";" + OF_ARRIVING.format(hop="'flights/1'"),
    "analytics": OF_ARRIVING.format(hop="'flights/2'"),
}
DIFFER = (
    "_at",
    "_id",
    "xid",
    "xmax",
    "identifier",
    "timeline",
    "since",
    "seconds",
    "hash",
    "digest",
    "happened",
    "published_plan_id",
    "copied_plan_ids",
    "next_plan_id",
)
"""Ends of the names of what no two runs have in common: times, random and transaction numbers, and hashes of these."""


def write_routes(world: World, *names: str) -> None:
    routes = {
        name: {"path": list(STORES), "limits": LIMITS, "retention": {"replay_window_seconds": 0}, **ROUTES[name]}
        for name in names
    }
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.register()


def move(world: World, route: str, *, settle: bool = True) -> None:
    name = "test" if route == "flights" else "a neighbour"
    for hop in world.routes.route(route).hops:
        transfer_hop(hop, ThreadRunner(1), recorded_by=name)
    if settle:
        for hop in reversed(world.routes.route(route).hops):
            world.query(hop.source.name, "select relaybox_internal.confirm_settled(%s, 1000000, now(), %s)", hop.name, name)


def send_numbered(world: World, sender: str, topic: str, *indexes: int) -> None:
    insert = "insert into relaybox.outbox (topic, sender, epoch, index, payload) values (%s, %s, 1, %s, %s)"
    for index in indexes:
        world.query("airline", insert, topic, sender, index, f"{sender} {index}")


def live_next_door(world: World) -> None:
    """One neighbour is further in everything, with a batch in the middle and messages held back; the other has moved nothing."""
    write_routes(world, "flights", "ahead", "zbehind")
    world.query("airline", "select relaybox.declare_sender('pump-ahead', 'gapless')")
    for n in range(4):
        send_numbered(world, "pump-ahead", "ahead", *range(3 * n + 1, 3 * n + 4))
        move(world, "ahead")
    send_numbered(world, "pump-ahead", "ahead", 15, 16, 16)
    move(world, "ahead", settle=False)
    world.query(
        "airline", "insert into relaybox.outbox (topic, sender, payload) select 'ahead', 'UA', n from generate_series(1, 9) n"
    )
    transfer_until(world.routes.hop("ahead/1"), lambda progress: progress.copied > 0)
    world.send("b1", "b2", topic="behind")


@contextmanager
def apart(world: World) -> Iterator[None]:
    """The neighbours' ledgers are the same afterwards, and their messages are there."""
    before = of_neighbours(world)
    yield
    assert of_neighbours(world) == before


OTHERS = {
    **dict.fromkeys(
        ("hop_out", "hop_in", "batch", "attempt", "confirmation", "backlog"), "split_part(t.hop, '/', 1) <> 'flights'"
    ),
    **dict.fromkeys(("arrival", "receipt", "stream_log", "held", "log", "decision"), "t.log_id <> 1"),
    **dict.fromkeys(("stream", "sender_state", "delivery"), "t.stream_id <> 1"),
}
"""Ledgers, and which of their rows are the neighbours'."""


def of_neighbours(world: World) -> dict[str, Any]:
    rows = "select coalesce(jsonb_agg(to_jsonb(t) order by to_jsonb(t)::text), '[]') from relaybox_internal.{} t where {}"
    return {
        f"{store} {table}": world.value(store, rows.format(table, others)) for store in STORES for table, others in OTHERS.items()
    }


def ask(world: World) -> dict[str, Any]:
    """Each question to each store, without what differs from run to run."""
    answers = {}
    for store, questions in ASKED.items():
        with world.session(store, autocommit=True) as session, session.cursor() as cursor:
            cursor.execute("set search_path = relaybox, relaybox_internal")
            for question in filter(None, (one.strip() for one in questions.split(";"))):
                cursor.execute(f"select to_jsonb(r) from {question} r")
                answers[f"{store}: {question}"] = [without_differing(row) for (row,) in cursor.fetchall()]
    return answers


def without_differing(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_differing(one) for key, one in value.items() if not key.endswith(DIFFER)}
    return [without_differing(one) for one in value] if isinstance(value, list) else value


def live(world: World) -> Iterator[dict[str, Any]]:
    """What is asked after each step of a hop's life."""
    world.query("airline", "select relaybox.declare_sender('pump', 'gapless')")
    send_numbered(world, "pump", "flights", 1, 2, 4, 4)
    world.send("f1", "f2")
    yield ask(world)
    transfer_until(world.first_hop, lambda progress: progress.copied > 0)
    yield ask(world)
    move(world, "flights")
    yield ask(world)
    with world.session() as late:
        insert(late, "late")
        send_numbered(world, "pump", "flights", 3, 5, 7)
        move(world, "flights")
        yield ask(world)
        late.commit()
    world.query("hub", "select relaybox_internal.skip_gap('flights', 'pump', 6, 'lost', 'test')")
    world.query("airline", "select relaybox_internal.change_topics('flights/1', '{other}')")
    yield ask(world)
    world.query("airline", "select relaybox_internal.retire_topics('flights/1', '{flights}', 'why', 'test')")
    world.send("after", topic="other")
    move(world, "flights")
    for store in world.routes.stores.values():
        retain_store(store, recorded_by="test")
    yield ask(world)


def test_no_answer_about_a_hop_depends_on_its_neighbours(make_world: Any) -> None:
    """The same life, alone and beside two others: each answer is the same, and nothing of the others changes."""
    with make_world() as world:
        live_next_door(world)
        next_seq = world.value("airline", "select last_value from relaybox.outbox_seq")
        with apart(world):
            beside = list(live(world))
    with make_world() as world:
        write_routes(world, "flights")
        world.query("airline", "select setval('relaybox.outbox_seq', %s)", next_seq)
        for step, (alone, among) in enumerate(zip(live(world), beside, strict=True)):
            for question, answer in alone.items():
                assert json.dumps(among[question]) == json.dumps(answer), f"step {step}: {question}"


def test_a_piece_of_a_hop_s_backlog_is_ended_for_this_hop_only(world: World) -> None:
    """Two hops may have pieces of one number: a store that was put back may number from the beginning again."""
    write_routes(world, "flights", "ahead")
    world.query(
        "airline",
        "insert into relaybox_internal.backlog (hop, backlog_id, topics, lower, upper, seqs) overriding system value "
        "select h.hop, 1, h.topics, h.lower, pg_current_snapshot(), '{[1,2)}' from relaybox_internal.hop_out h",
    )
    world.query("airline", "select relaybox_internal.end_backlog_piece('flights/1', 1)")
    assert world.query("airline", "select hop from relaybox_internal.backlog") == [("ahead/1",)]


def test_slices_that_were_copied_of_another_hop_are_none_of_this_one(world: World) -> None:
    """Both stand before their first batch."""
    write_routes(world, "flights", "ahead")
    world.query(
        "hub",
        "insert into relaybox_internal.receipt (log_id, batch, slice, plan_id, row_count, attempt) "
        "select i.log_id, 1, 1, gen_random_uuid(), 5, 1 from relaybox_internal.hop_in i where i.hop = 'ahead/1'",
    )
    copied = "select copied_slices, cardinality(copied_plan_ids) from relaybox_internal.receiving_states(array[%s], '{0}')"
    assert {hop: world.query("hub", copied, hop) for hop in ("flights/1", "ahead/1")} == {
        "flights/1": [([], 0)],
        "ahead/1": [([1], 1)],
    }


def test_a_message_is_traced_in_the_hop_that_is_asked_for(world: World) -> None:
    """Although another one, which lies before it in the table, or behind it, does not move the topic."""
    write_routes(world, "flights", "ahead")
    world.send("a")
    traced = "select state from relaybox_internal.trace_reading(%s, 1)"
    assert {hop: world.value("airline", traced, hop) for hop in ("flights/1", "ahead/1")} == {
        "flights/1": "waiting",
        "ahead/1": "unrouted",
    }


def test_what_a_hop_adopts_is_read_from_its_own_log(world: World) -> None:
    """Another log has the same positions."""
    write_routes(world, "flights", "ahead")
    world.send("a", "b")
    world.transfer()
    rows = "select count(*) from relaybox_internal.hop_in i, relaybox_internal.adopted_rows(i.log_id, 1, 9) where i.hop = %s"
    assert {hop: world.value("hub", rows, hop) for hop in ("flights/1", "ahead/1")} == {"flights/1": 2, "ahead/1": 0}
