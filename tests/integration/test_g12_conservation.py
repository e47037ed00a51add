"""G12: committed = delivered + planned + waiting + unrouted + retired, whatever relaybox.yaml becomes in between."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import pytest
import yaml

from relaybox.hops.planning import AttemptOwner, DestinationState, plan_batch
from relaybox.hops.transfer import Progress
from relaybox.retention.segments import retain_store
from relaybox.stores.opening import open_store
from tests.support.cli import invoke
from tests.support.world import STORES, World, insert

pytestmark = pytest.mark.thorough

NOTHING_ARRIVED = DestinationState(
    log_id=1, generation=1, batch=0, log_position=0, plan_id=None, copied_plan_ids=(), store_id=str(uuid4()), source_id=None
)
SMALL_BATCHES = {"batch_rows": 100, "slice_rows": 50}


@pytest.fixture
def two_topics(world: World) -> World:
    """The route carries a and b in batches of 100, and the outbox keeps nothing that nobody needs."""
    world.cut_small_segments()
    carry(world, "a", "b")
    return world


def carry(world: World, *topics: str) -> None:
    """Rewrites relaybox.yaml with these topics, and runs init."""
    world.change_route(topics=list(topics), limits=SMALL_BATCHES, retention={"replay_window_seconds": 0})


def send_alternating(world: World, count: int) -> None:
    """One transaction: a1 b2 a3 b4 ..."""
    with world.session() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                """
                insert into relaybox.outbox (topic, sender, payload)
                select case when n %% 2 = 1 then 'a' else 'b' end, 'UA', case when n %% 2 = 1 then 'a' else 'b' end || n
                from generate_series(1, %s) n
                """,
                (count,),
            )
        connection.commit()


def plan_one_batch(world: World) -> None:
    """A driver that dies as soon as its batch is planned."""
    source = open_store(world.routes.store("airline"), application_name="test")
    assert plan_batch(source, world.first_hop, NOTHING_ARRIVED, driver=AttemptOwner("test")) is not None
    source.close()


def move_and_retain(world: World) -> None:
    world.transfer_all()
    world.settle_all()
    retain_store(world.routes.store("airline"), recorded_by="test")


def in_outbox(world: World, topic: str) -> set[str]:
    return {payload for (payload,) in world.query("airline", "select payload from relaybox.outbox where topic = %s", topic)}


def test_g12_a_topic_taken_out_in_the_middle_of_a_capped_pair_is_kept(two_topics: World) -> None:
    """Item 1: what was not planned of it stays in the outbox as unrouted, and comes when the topic comes back."""
    send_alternating(two_topics, 4000)
    committed = {f"b{n}" for n in range(2, 4001, 2)}
    plan_one_batch(two_topics)
    carry(two_topics, "a")
    move_and_retain(two_topics)
    delivered = set(two_topics.payloads()) & committed
    assert delivered
    assert two_topics.value("airline", "select count(*) from relaybox.outbox") < 4000
    assert committed - delivered
    assert in_outbox(two_topics, "b") >= committed - delivered
    carry(two_topics, "a", "b")
    move_and_retain(two_topics)
    assert Counter(two_topics.payloads()) == Counter(f"{'ab'[(n + 1) % 2]}{n}" for n in range(1, 4001))


def test_g12_a_pair_whose_rest_holds_none_of_the_topics_left_is_done_with(two_topics: World) -> None:
    """Item 2: 50 a and 20,000 b in one capped pair; without b the hop goes on with new messages of a."""
    with two_topics.session() as connection:
        insert(connection, *(f"a{n}" for n in range(50)), topic="a")
        insert(connection, *(f"b{n}" for n in range(2000)), topic="b")
        connection.commit()
    plan_one_batch(two_topics)
    carry(two_topics, "a")
    two_topics.send("late", topic="a")
    two_topics.transfer()
    assert "late" in two_topics.payloads()
    assert not two_topics.value("airline", "select relaybox_internal.hop_has_work('flights/1')")


def test_g12_a_running_driver_counts_anew_when_topics_change_between_its_batches(two_topics: World) -> None:
    """What its last batch left counted is of other topics; batches planned from it would hold too many rows, or too few."""
    send_alternating(two_topics, 400)
    changes = iter([["a"], ["a", "b"]])

    def change_topics(progress: Progress) -> None:
        if progress.published and (topics := next(changes, None)):
            carry(two_topics, *topics)

    two_topics.transfer(progress=change_topics)
    assert Counter(two_topics.payloads()) == Counter(f"{'ab'[(n + 1) % 2]}{n}" for n in range(1, 401))
    topics = two_topics.query("airline", "select topics from relaybox_internal.batch order by batch")
    assert topics[:2] == [(["a", "b"],), (["a"],)]


def test_g12_messages_kept_without_a_route_move_when_their_topic_is_added(two_topics: World) -> None:
    """Item 4: a topic that no hop had, added to a route that moves others: first what is kept of it, then what is new."""
    two_topics.send(*(f"c{n}" for n in range(500)), topic="c")
    two_topics.send("a1", topic="a")
    move_and_retain(two_topics)
    assert len(in_outbox(two_topics, "c")) == 500
    carry(two_topics, "a", "b", "c")
    two_topics.send("c-new", topic="c")
    retain_store(two_topics.routes.store("airline"), recorded_by="test")
    assert len(in_outbox(two_topics, "c")) == 501
    move_and_retain(two_topics)
    assert two_topics.payloads() == ["a1", *(f"c{n}" for n in range(500)), "c-new"]


@pytest.mark.parametrize("changes", [["a"], ["b"], ["c"], ["a", "c"], ["b", "c"], ["a", "b", "c"]], ids="".join)
@pytest.mark.parametrize("planned", [False, True], ids=["none-planned", "one-planned"])
def test_g12_any_change_and_back_moves_each_message_once(two_topics: World, changes: list[str], planned: bool) -> None:
    """Topics taken out, added and swapped, with messages before, between and after, and retention in between."""
    send_alternating(two_topics, 300)
    two_topics.send(*(f"c{n}" for n in range(20)), topic="c")
    if planned:
        plan_one_batch(two_topics)
    carry(two_topics, *changes)
    send_alternating(two_topics, 40)
    move_and_retain(two_topics)
    carry(two_topics, "a", "b", "c")
    two_topics.send("c-last", topic="c")
    move_and_retain(two_topics)
    letters = [f"{'ab'[(n + 1) % 2]}{n}" for n in [*range(1, 301), *range(1, 41)]]
    assert Counter(two_topics.payloads("flights/2")) == Counter([*letters, *(f"c{n}" for n in range(20)), "c-last"])
    assert two_topics.log_positions() == list(range(1, 362))


def test_g12_status_accounts_for_every_message(two_topics: World) -> None:
    """committed = delivered + planned + waiting + unrouted + retired, per topic; a topic that was taken out is named."""
    send_alternating(two_topics, 300)
    two_topics.transfer()
    send_alternating(two_topics, 20)
    carry(two_topics, "a")
    send_alternating(two_topics, 10)
    accounts = {account["topic"]: account for account in invoke("status", "--json").document["hops"][0]["account"]}
    nothing = {f"{state}_count": 0 for state in ("delivered", "planned", "waiting", "unrouted", "retired", "missing", "doubled")}
    assert accounts["a"] == {**nothing, "topic": "a", "committed_count": 165, "delivered_count": 150, "waiting_count": 15}
    assert accounts["b"] == {**nothing, "topic": "b", "committed_count": 165, "delivered_count": 150, "unrouted_count": 15}
    assert "topic b: 15 messages are unrouted" in " ".join(invoke("status").stdout.split())


def test_g12_status_and_retention_refuse_what_no_ledger_accounts_for(two_topics: World) -> None:
    """A frontier that was moved by hand over waiting messages: status fails with the numbers, and no segment is dropped."""
    two_topics.send("a1", topic="a")
    move_and_retain(two_topics)
    send_alternating(two_topics, 40)
    two_topics.query("airline", "update relaybox_internal.hop_out set lower = pg_current_snapshot() where hop = 'flights/1'")
    send_alternating(two_topics, 40)
    two_topics.transfer_all()
    two_topics.settle_all()
    status = invoke("status")
    assert status.exit_code == 5
    assert "of 40 committed messages of topic b at airline, 20 are in no batch and in no backlog" in " ".join(
        status.stderr.split()
    )
    retained = retain_store(two_topics.routes.store("airline"), recorded_by="test").tables[0]
    assert "are in no batch" in (retained.holder or "")
    assert two_topics.value("airline", "select count(*) from relaybox.outbox where topic = 'b'") == 40


def test_g12_a_topic_is_given_up_on_record_only(two_topics: World) -> None:
    """`retire --topic` tells, then gives up with a reason; what commits later is kept again, and comes back with the topic."""
    send_alternating(two_topics, 40)
    carry(two_topics, "a")
    move_and_retain(two_topics)
    assert len(in_outbox(two_topics, "b")) == 20
    assert invoke("retire", "flights", "--topic", "a", "--reason", "no").exit_code == 2
    told = invoke("retire", "flights", "--topic", "b", "--json").document
    assert [(one["message_count"], one["retired"]) for one in told["topics"]] == [(20, False)]
    assert invoke("retire", "flights", "--topic", "b", "--reason", "ticket 1").exit_code == 0
    send_alternating(two_topics, 20)
    two_topics.transfer_all()
    move_and_retain(two_topics)
    recorded = two_topics.query(
        "airline", "select distinct retired_reason from relaybox_internal.backlog where state = 'retired'"
    )
    assert recorded == [("ticket 1",)]
    assert two_topics.value("airline", "select min(seq) from relaybox.outbox where topic = 'b'") == 40
    carry(two_topics, "a", "b")
    two_topics.transfer()
    assert [payload for payload in two_topics.payloads() if payload.startswith("b")] == [f"b{n}" for n in range(2, 21, 2)]


def test_g12_what_was_given_up_never_moves_when_its_topic_comes_back(two_topics: World) -> None:
    """Given up is what had committed by then, however old the hop's frontier is; an open transaction's messages are kept."""
    two_topics.send("a1", topic="a")
    two_topics.transfer()
    carry(two_topics, "a")
    two_topics.send("a2", topic="a")
    two_topics.send("given up", topic="b")
    with two_topics.session() as late:
        insert(late, "was open", topic="b")
        assert invoke("retire", "flights", "--topic", "b", "--reason", "ticket 2").exit_code == 0
        two_topics.send("later", topic="b")
        late.commit()
    carry(two_topics, "a", "b")
    two_topics.transfer_all()
    assert sorted(two_topics.payloads()) == ["a1", "a2", "later", "was open"]
    (account,) = (one for one in invoke("status", "--json").document["hops"][0]["account"] if one["topic"] == "b")
    assert (account["delivered_count"], account["retired_count"], account["doubled_count"]) == (2, 1, 0)


def test_g12_a_misspelt_topic_is_given_up_through_any_route_of_its_store(two_topics: World) -> None:
    """No hop ever had it: `retire` lists it, gives it up on record, and retention goes on; a later message is kept again."""
    two_topics.send(*(f"x{n}" for n in range(30)), topic="aa")
    two_topics.send("a1", topic="a")
    assert "keeps 30 messages of topic aa" in " ".join(invoke("retire").stdout.split())
    assert invoke("status").exit_code == 2
    assert invoke("retire", "flights", "--topic", "aa", "--reason", "a misspelt topic").exit_code == 0
    assert invoke("status").exit_code == 0
    two_topics.send("late", topic="aa")
    move_and_retain(two_topics)
    assert two_topics.value("airline", "select min(seq) from relaybox.outbox") > 20
    assert invoke("status").exit_code == 2
    carry(two_topics, "a", "aa")
    two_topics.transfer()
    assert two_topics.payloads() == ["a1", "late"]


def test_g12_status_warns_of_a_removed_route_that_keeps_messages(two_topics: World) -> None:
    """Nothing exits 0 while messages wait that it will never move."""
    two_topics.send("a1", topic="a")
    route = {"topics": ["other"], "path": list(STORES)}
    two_topics.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": {"others": route}}))
    two_topics.initialise()
    status = invoke("status", "--json")
    assert status.exit_code == 2
    assert [(hop["hop"], hop["waiting_count"]) for hop in status.document["orphaned_hops"]] == [("flights/1", 1)]
    assert "To give them up: relaybox retire flights/1" in " ".join(status.stderr.split())
    assert invoke("retire", "flights", "--reason", "gone").exit_code == 0
    assert invoke("status").exit_code == 0
