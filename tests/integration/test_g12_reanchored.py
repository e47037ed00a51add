"""G12 where transaction numbers change: topics and routes that change around a reanchor, and outboxes that came from another cluster."""

from __future__ import annotations

import pytest
import yaml

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.retention.segments import retain_store
from relaybox.verification.route_verification import verify_route
from tests.support.backups import Backups, another_cluster
from tests.support.world import STORES, World

pytestmark = pytest.mark.thorough

SHIFT = 1_000_000
"""So many transactions more than this cluster will use for long had the one that the outbox came from."""


def reanchor(world: World, hop: str = "flights/1") -> None:
    reanchor_hop(world.routes.hop(hop), world.routes, recorded_by="test", reason="a test", dry_run=False)


def reload_outbox(world: World) -> None:
    """The airline was dumped and loaded into a younger cluster: its rows and ledgers carry numbers that this one has not reached."""
    world.query("airline", "update relaybox.outbox set xid = ((xid::text)::bigint + %s)::text::xid8", SHIFT)
    for table, column in (("batch", "upper"), ("batch", "lower"), ("hop_out", "lower")):
        world.query(
            "airline",
            f"""
            update relaybox_internal.{table} set {column} = format('%%s:%%s:', pg_snapshot_xmin({column})::text::bigint + %s,
                pg_snapshot_xmax({column})::text::bigint + %s)::pg_snapshot
            where pg_snapshot_xmin({column}) > '1'::xid8
            """,
            *(SHIFT, SHIFT),
        )
    world.query("airline", "update relaybox_internal.store set timeline = timeline + 1")
    another_cluster(world)


def write_routes(world: World, **topics: list[str]) -> None:
    """One route per topic list, all over the three stores; init."""
    routes = {
        name: {"topics": list(of), "path": list(STORES), "retention": {"replay_window_seconds": 0}} for name, of in topics.items()
    }
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    world.initialise()


def test_g12_a_topic_taken_out_after_a_reanchor_keeps_what_is_undelivered(world: World) -> None:
    """Item 3: the undelivered messages of b are a piece of the backlog; taking b out parks them, and a goes on."""
    world.cut_small_segments()
    write_routes(world, flights=["flights", "b"])
    world.send("a1")
    world.transfer()
    world.send(*(f"b{n}" for n in range(75)), topic="b")
    another_cluster(world)
    reanchor(world)
    write_routes(world, flights=["flights"])
    world.send("a2")
    world.transfer_all()
    world.settle_all()
    retain_store(world.routes.store("airline"), recorded_by="test")
    assert world.payloads() == ["a1", "a2"]
    write_routes(world, flights=["flights", "b"])
    world.transfer_all()
    assert world.payloads() == ["a1", "a2", *(f"b{n}" for n in range(75))]
    assert verify_route(world.route).outcome == "delivered"


def test_g12_a_route_added_after_a_reload_moves_what_is_kept(world: World) -> None:
    """Item 8: rows that carry another cluster's numbers are read by seq, first, and none is overtaken; retention goes on."""
    world.cut_small_segments()
    write_routes(world, flights=["flights"])
    world.send("a1")
    world.transfer()
    world.send(*(f"b{n}" for n in range(100)), topic="b")
    reload_outbox(world)
    reanchor(world)
    write_routes(world, flights=["flights"], others=["b"])
    world.send("b-new", topic="b")
    for hop in world.routes.hops:
        world.transfer(hop)
    assert world.payloads("others/1") == [*(f"b{n}" for n in range(100)), "b-new"]
    world.send_many(20)
    for hop in world.routes.hops:
        world.transfer(hop)
    for route in world.routes.routes.values():
        for hop in reversed(route.hops):
            settle_hop(route, hop, recorded_by="test")
    retain_store(world.routes.store("airline"), recorded_by="test")
    assert world.value("airline", "select min(seq) from relaybox.outbox") > 100
    assert verify_route(world.routes.route("others")).outcome == "delivered"


def test_g12_a_route_on_a_reloaded_outbox_waits_for_its_hops_to_be_reanchored(world: World) -> None:
    """Before the numbers are told apart a new hop would read nothing: init says what comes first."""
    world.send("a1")
    reload_outbox(world)
    with pytest.raises(errors.HistoryLost, match="was written by cluster") as refused:
        write_routes(world, flights=["flights"], others=["b"])
    assert "relaybox reanchor flights/1" in refused.value.next_step


def test_g12_the_first_route_on_a_reloaded_outbox_anchors_it(world: World) -> None:
    """No hop reads the outbox yet: what it holds is moved whatever its transaction numbers are."""
    world.query("airline", "delete from relaybox_internal.hop_out")
    world.send("b1", "b2", topic="b")
    reload_outbox(world)
    write_routes(world, others=["b"])
    world.send("b3", topic="b")
    world.transfer(world.routes.hop("others/1"))
    assert world.payloads("others/1") == ["b1", "b2", "b3"]


def test_g12_a_topic_that_the_restored_ledger_never_had_is_not_sent_twice(world: World, backups: Backups) -> None:
    """The source went back to before `init` added b; what the destination has of b is known to be delivered."""
    world.send("a1")
    world.send("b1", topic="b")
    world.transfer()
    before = backups.take("airline")
    world.change_route(topics=["flights", "b"])
    world.transfer()
    assert world.payloads() == ["a1", "b1"]
    backups.restore("airline", before)
    world.change_route(topics=["flights"])
    world.send("b2", topic="b")
    reanchor(world)
    world.change_route(topics=["flights", "b"])
    world.transfer_all()
    assert world.payloads() == ["a1", "b1", "b2"]


def test_an_attested_store_takes_new_routes(world: World) -> None:
    """After a promotion without loss the numbers go on: a new route reads them as ever."""
    world.send("a1")
    world.send("b1", topic="b")
    world.transfer()
    world.query("airline", "update relaybox_internal.store set timeline = timeline + 1")
    another_cluster(world)
    attest_store(world.route.path[0], world.routes, recorded_by="test", reason="promoted")
    write_routes(world, flights=["flights"], others=["b"])
    world.transfer(world.routes.hop("others/1"))
    assert world.payloads("others/1") == ["b1"]


@pytest.mark.parametrize("hop", ["flights/1", "flights/2"])
def test_g8_what_is_sent_again_is_kept_until_it_has_arrived(world: World, backups: Backups, hop: str) -> None:
    """The destination lost settled batches; retention runs between reanchor and the transfer that sends them again."""
    world.cut_small_segments()
    world.change_route(limits={"batch_rows": 20, "slice_rows": 10}, retention={"replay_window_seconds": 0})
    source, destination = world.routes.hop(hop).source, world.routes.hop(hop).destination
    before = backups.take(destination.name)
    world.send_many(60)
    world.transfer_all()
    log = world.payloads(hop)
    world.settle_all()
    backups.restore(destination.name, before)
    world.change_route(limits={"batch_rows": 20, "slice_rows": 10}, retention={"replay_window_seconds": 0})
    reanchor(world, hop)
    retain_store(source, recorded_by="test")
    world.transfer(world.routes.hop(hop))
    assert world.payloads(hop) == log
    retain_store(source, recorded_by="test")
    table = "relaybox.outbox" if hop == "flights/1" else "relaybox_internal.log"
    assert world.value(source.name, f"select count(*) from {table}") < 60


def test_a_message_that_got_another_position_after_a_restore_is_no_defect(world: World, backups: Backups) -> None:
    """Outbox and first log went back together: the last store has the message with its old position as index, once."""
    path = ["airline", "airline", "hub"]
    one_by_one = {"batch_rows": 1, "slice_rows": 1}

    def carry(*topics: str) -> None:
        document = {
            "stores": {store: {} for store in STORES},
            "routes": {"local": {"topics": list(topics), "path": path, "limits": one_by_one}},
        }
        world.path.write_text(yaml.safe_dump(document))
        world.initialise()

    def move() -> None:
        for hop in world.routes.hops:
            world.transfer(hop)

    carry("flights")
    world.send("m1")
    world.send("m2", topic="b")
    before = backups.take("airline")
    world.send("lost")
    move()
    carry("flights", "b")
    move()
    assert world.payloads("local/2") == ["m1", "lost", "m2"]
    backups.restore("airline", before)
    carry("flights", "b")
    reanchor(world, "local/1")
    world.transfer(world.routes.hop("local/1"))
    reanchor(world, "local/2")
    world.send("new")
    move()
    assert world.payloads("local/1") == ["m1", "m2", "new"]
    assert world.payloads("local/2") == ["m1", "lost", "m2", "new"]
    verification = verify_route(world.routes.route("local"))
    assert (verification.outcome, verification.end_to_end.defects) == ("delivered", ())


def test_g12_a_dump_that_comes_back_to_its_own_cluster_is_a_reload_for_every_hop(world: World) -> None:
    """Away and back (failback): identifier and timeline are the ledger's again, but what was written elsewhere has low numbers."""
    write_routes(world, flights=["flights"], others=["b"])
    world.send("a1")
    world.send("b1", topic="b")
    for hop in world.routes.hops:
        world.transfer(hop)
    world.send("a2, elsewhere")
    world.send("b2, elsewhere", topic="b")
    world.query("airline", "update relaybox.outbox set xid = '3' where payload like '%%elsewhere'")
    world.query("airline", "update relaybox_internal.numbering set xid = '4'")
    for hop in ("flights/1", "others/1"):
        with pytest.raises(errors.HistoryLost, match="loaded from a dump"):
            world.transfer(world.routes.hop(hop))
        reanchor(world, hop)
        world.transfer(world.routes.hop(hop))
    assert world.payloads("flights/1") == ["a1", "a2, elsewhere"]
    assert world.payloads("others/1") == ["b1", "b2, elsewhere"]


def test_g12_what_commits_after_a_reload_is_not_given_up(world: World) -> None:
    """A topic was retired before the dump: messages that carry the new cluster's low numbers are later, and kept."""
    world.cut_small_segments()
    write_routes(world, flights=["flights", "b"])
    write_routes(world, flights=["flights"])
    world.send("given up", topic="b")
    world.query("airline", "select relaybox_internal.retire_topics('flights/1', '{b}', 'a test', 'test')")
    reload_outbox(world)
    world.query(
        "airline",
        "update relaybox_internal.backlog set upper = format('%%s:%%s:', pg_snapshot_xmin(upper)::text::bigint + %s,"
        " pg_snapshot_xmax(upper)::text::bigint + %s)::pg_snapshot where state = 'retired'",
        *(SHIFT, SHIFT),
    )
    world.send("kept", topic="b")
    reanchor(world)
    write_routes(world, flights=["flights", "b"])
    world.transfer()
    assert world.payloads() == ["kept"]


@pytest.mark.parametrize("removed_at", ["hub", "both"])
@pytest.mark.parametrize("same_plan", [True, False])
def test_g11_a_batch_that_retention_removed_is_the_same_only_with_the_same_plan(
    world: World, same_plan: bool, removed_at: str
) -> None:
    """Number and last position agree where two stores went different ways after a restore: the plan tells."""
    for name in ("a", "b", "c"):
        world.send(name)
        world.transfer()
    world.query(
        "hub",
        "update relaybox_internal.hop_in set compacted_batch = 2, compacted_position = 2, first_kept_position = 3, compacted_plan_id = "
        + ("(select plan_id from relaybox_internal.arrival where batch = 2)" if same_plan else "gen_random_uuid()"),
    )
    world.query("hub", "delete from relaybox_internal.arrival where batch <= 2")
    if removed_at == "both":
        world.query(
            "airline",
            "update relaybox_internal.hop_out set compacted_batch = 2, compacted_position = 2, compacted_plan_id = b.plan_id "
            "from relaybox_internal.batch b where b.batch = 2",
        )
        world.query("airline", "delete from relaybox_internal.batch where batch <= 2")
    world.query("airline", "update relaybox_internal.batch set plan_id = gen_random_uuid() where batch = 3")
    another_cluster(world)
    if same_plan:
        assert reanchor_hop(world.first_hop, world.routes, recorded_by="test", reason="a test", dry_run=False).common_batch == 2
    else:
        with pytest.raises(errors.HistoryLost, match="retention has dropped what is between"):
            reanchor(world)
