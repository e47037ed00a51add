"""`relaybox where`: the whole way of one message, and how far it has come."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from relaybox.errors import UnknownMessage
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.monitoring.message_search import find_messages, require_messages
from tests.support.breaking import copy_first_slices, transfer_until
from tests.support.cli import invoke
from tests.support.senders import declare, send_caused, send_numbered
from tests.support.services import add_route
from tests.support.world import World, insert

HOP_KEYS = {
    "hop", "source", "destination", "stage", "batch", "slice", "log_position", "planned_at", "moved_by", "application", "copied_at",
    "published_at",    "received_at", "received_by", "processed_at", "processed_by", "settled_at", "settled_by", "found_instead", "delivered",
}  # fmt: skip
SENT_KEYS = {"store", "seq", "transaction", "topic", "sender", "epoch", "index", "sent_at", "committed_at"}


def ids(world: World) -> list[str]:
    return [str(row[0]) for row in world.query("airline", "select message_id from relaybox.outbox order by seq")]


def trace(message_id: str, *options: str) -> dict[str, Any]:
    found = invoke("where", message_id, "--json", *options)
    assert found.exit_code == 0, found.stderr
    (only,) = found.document["traces"]
    return dict(only)


def stages(message_id: str) -> list[str]:
    return [hop["stage"] for hop in trace(message_id)["hops"]]


def test_the_time_of_a_delivery_stays_when_more_is_delivered(world: World) -> None:
    """Stream positions that follow each other are one run of the ledger, which has the time of its newest stream position."""
    world.send("a")
    world.transfer()
    world.send("b")
    first = ids(world)[0]
    before = trace(first)["hops"][0]["delivered"]
    world.transfer()
    assert trace(first)["hops"][0]["delivered"] == before
    assert trace(ids(world)[1])["hops"][0]["delivered"]["decided_at"] > before["decided_at"]


def test_a_settled_message_shows_its_whole_way_with_times(world: World) -> None:
    world.send("a", "b", "c")
    world.transfer_all()
    world.settle_all()
    message_id = ids(world)[1]
    found = invoke("where", message_id, "--json").document
    assert (set(found), found["message_id"]) == ({"message_id", "traces", "errors"}, message_id)
    way = found["traces"][0]
    assert (set(way), set(way["sent"])) == ({"route", "sent", "derived_from", "hops"}, SENT_KEYS)
    assert all(set(hop) == HOP_KEYS for hop in way["hops"])
    assert [(hop["stage"], hop["batch"], hop["slice"], hop["log_position"]) for hop in way["hops"]] == [("settled", 1, 1, 2)] * 2
    first, second = way["hops"]
    assert (
        way["sent"]["sent_at"]
        <= way["sent"]["committed_at"]
        <= first["planned_at"]
        <= first["copied_at"]
        <= first["published_at"]
    )
    assert (
        first["published_at"] <= first["received_at"] <= second["planned_at"] <= second["published_at"] <= second["received_at"]
    )
    assert second["received_at"] <= second["settled_at"] <= first["settled_at"]
    assert first["received_by"] == second["settled_by"] == "test"
    shown = invoke("where", message_id).stdout
    assert "flights/2: arrived at position 2" in shown
    assert shown.index("flights/2: settled, recorded by test") < shown.index(
        "flights/1: settled, recorded by test"
    )  # it comes back


def test_every_message_is_found_where_its_hop_put_it(world: World) -> None:
    """Positions are recomputed from the ledgers: late commits, rollbacks, other topics, capped batches, many slices."""
    world.change_route(limits={"batch_rows": 12, "slice_rows": 8})
    with world.session() as late:
        insert(late, "late 1")
        world.send("x", topic="other")
        world.send_many(30)
        with world.session() as undone:
            insert(undone, "undone")
            undone.rollback()
        insert(late, "late 2")
        world.transfer_all()
        late.commit()
    world.transfer_all()
    logs = {
        hop: dict(
            world.query(world.destination(hop), "select message_id::text, log_position from relaybox.inbox where hop = %s", hop)
        )
        for hop in ("flights/1", "flights/2")
    }
    assert [len(log) for log in logs.values()] == [32, 32]
    for message_id in logs["flights/1"]:
        found = {hop["hop"]: (hop["log_position"], hop["found_instead"]) for hop in trace(message_id)["hops"]}
        assert found == {hop: (log[message_id], None) for hop, log in logs.items()}


def test_the_stage_of_a_message_moves_step_by_step(world: World) -> None:
    world.change_route(limits={"batch_rows": 100, "slice_rows": 100})
    world.send("a")
    (message_id,) = ids(world)
    assert stages(message_id) == ["not_planned"] * 2
    copy_first_slices(world.first_hop, 0)
    assert stages(message_id) == ["planned", "not_planned"]
    transfer_until(world.first_hop, lambda progress: progress.copied > 0)
    assert stages(message_id) == ["copied", "not_planned"]
    transfer_until(world.first_hop, lambda progress: progress.published)
    assert stages(message_id) == ["arrived", "not_planned"]
    world.transfer_all()
    assert stages(message_id) == ["received", "received"]
    world.settle_all()
    assert stages(message_id) == ["settled", "settled"]


def test_a_message_that_is_not_where_the_ledgers_put_it_is_told_so(world: World) -> None:
    world.send("a", "b")
    world.transfer()
    stranger = uuid4()
    world.query("hub", "update relaybox_internal.log set message_id = %s where log_position = 2", str(stranger))
    hop = trace(ids(world)[1])["hops"][0]
    assert (hop["stage"], UUID(hop["found_instead"])) == ("missing", stranger)
    assert "Run: relaybox verify flights" in invoke("where", ids(world)[1]).stdout


def test_a_message_of_a_topic_that_the_route_does_not_carry_is_unrouted(world: World) -> None:
    world.send("a", topic="other")
    world.send("b")
    world.transfer()
    assert stages(ids(world)[0]) == ["unrouted", "not_planned"]


def test_a_message_sent_before_its_topic_joined_the_route_moves_with_it(world: World) -> None:
    world.send("a", topic="other")
    world.send("b")
    world.transfer()
    world.change_route(topics=["flights", "other"])
    world.send("c", topic="other")
    assert stages(ids(world)[0])[0] == "not_planned"
    world.transfer()
    assert [stages(message_id)[0] for message_id in ids(world)] == ["received", "received", "received"]
    world.change_route(topics=["flights"])
    world.send("d", topic="other")
    assert stages(ids(world)[3])[0] == "unrouted"


def test_without_a_route_every_route_that_carries_the_topic_is_followed(world: World) -> None:
    add_route(world.path, "copies", topics=["flights"], path=["airline", "analytics"])
    world.register()
    world.send("a")
    (message_id,) = ids(world)
    traces = invoke("where", message_id, "--json").document["traces"]
    assert {one["route"]: len(one["hops"]) for one in traces} == {"flights": 2, "copies": 1}
    assert trace(message_id, "--route", "copies")["route"] == "copies"


def test_an_id_that_a_producer_gave_to_two_messages_shows_both(world: World) -> None:
    message_id = str(uuid4())
    for payload in ("first", "second"):
        world.query(
            "airline",
            "insert into relaybox.outbox (message_id, topic, sender, payload) values (%s, 'flights', 'UA', %s)",
            *(message_id, payload),
        )
    world.transfer()
    traces = invoke("where", message_id, "--json").document["traces"]
    assert [one["hops"][0]["log_position"] for one in traces] == [1, 2]


@pytest.mark.parametrize("sent", ["never", "rolled back", "not committed"])
def test_a_message_that_is_not_visible_is_unknown(world: World, sent: str) -> None:
    """An open transaction's message is not sent yet: the error says how to look for it."""
    message_id = str(uuid4())
    with world.session() as producer, producer.cursor() as cursor:
        if sent != "never":
            cursor.execute(
                "insert into relaybox.outbox (message_id, topic, sender, payload) values (%s, 'flights', 'UA', 'x')",
                (message_id,),
            )
        if sent == "rolled back":
            producer.rollback()
        unknown = invoke("where", message_id, "--json")
    assert (unknown.exit_code, unknown.document["error"]["kind"]) == (5, "UnknownMessage")
    assert f"message {message_id}: no committed message has this id in the outbox of airline" in unknown.stderr
    assert "visible once its transaction has committed" in unknown.stderr


def test_a_message_is_found_by_its_sender_and_position(world: World) -> None:
    """A sender that gives no index has the position in the first log as one."""
    world.send("a", "b", "c")
    world.transfer()
    (expected,) = world.query("hub", "select message_id from relaybox_internal.log where log_position = 2")
    assert [str(found) for found in find_messages([world.route], "UA", 2)] == [str(expected[0])]
    assert find_messages([world.route], "DL", 2) == ()
    with pytest.raises(UnknownMessage, match="no message of sender UA with index 9"):
        require_messages([world.route], "UA", 9)


def test_a_waiting_message_is_found_by_its_own_index(world: World) -> None:
    """Before any hop has moved it."""
    query = "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'meter', 7, 'x') returning message_id"
    message_id = world.value("airline", query)
    assert [str(found) for found in find_messages([world.route], "meter", 7)] == [str(message_id)]


def fates(world: World, store: str = "hub") -> list[tuple[Any, ...]]:
    """What a store decided of each message, in the order of the log."""
    decided = []
    for message_id in ids(world):
        (hop,) = (hop for hop in trace(message_id)["hops"] if hop["destination"] == store)
        one = hop["delivered"]
        decided.append(
            (one["delivery_state"], one["stream_position"] or one["duplicate_of"] or one["reason"] or one["waits_for"])
        )
    return decided


def test_the_delivery_state_of_each_message_is_told(world: World) -> None:
    world.change_route(order="fifo", limits={"holdback_rows": 2})
    declare(world, "a")
    send_numbered(world, "a", 1, 1, 3, 4)
    send_numbered(world, "c", 7)
    world.transfer_all()
    send_numbered(world, "a", 5)
    world.transfer_all()
    missing = [{"sender": "a", "epoch": 1, "first_index": 2, "last_index": 2}]
    assert (
        fates(world)
        == fates(world, "analytics")
        == [
            ("delivered", 1),
            ("duplicate", 1),
            ("held", missing),
            ("held", missing),
            ("set_aside", "sender_not_declared"),
            ("stalled", "holdback_full"),
        ]
    )
    shown = [invoke("where", message_id).stdout for message_id in ids(world)]
    assert "delivered at stream position 1 of stream flights" in shown[0]
    assert "dropped: a duplicate of position 1" in shown[1]
    assert "held: waits for index 2 of a" in shown[2]
    assert "set aside: sender_not_declared" in shown[4]
    assert "waits in the log: its sender has stalled, holdback_full" in shown[5]
    send_numbered(world, "a", 2)
    world.transfer_all()
    assert [delivery_state for delivery_state, _ in fates(world)] == [
        "delivered",
        "duplicate",
        "delivered",
        "delivered",
        "set_aside",
        *["delivered"] * 2,
    ]
    assert [stream_position for delivery_state, stream_position in fates(world) if delivery_state == "delivered"] == [
        1,
        3,
        4,
        5,
        2,
    ]


def test_a_message_that_waits_for_its_cause_says_so(world: World) -> None:
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_caused(world, "a", 1, {"b": 1})
    world.transfer_all()
    assert fates(world) == [("held", [{"sender": "b", "epoch": 1, "first_index": 1, "last_index": 1}])]


def test_a_message_without_any_delivery_state_is_reported_as_lost(world: World) -> None:
    world.send("a", "b")
    world.transfer_all()
    world.query("hub", "update relaybox_internal.delivery set last_stream_position = 1")
    assert [delivery_state for delivery_state, _ in fates(world)] == ["delivered", "lost"]
    world.query("hub", "update relaybox_internal.stream_log set decided_position = 1")
    assert [delivery_state for delivery_state, _ in fates(world)] == ["delivered", "undecided"]


def test_the_newest_attempt_and_its_spark_application_are_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who copied the message in the end, with the address of Spark's page where the deployment has one."""
    world.send("a")
    copy_first_slices(world.first_hop, 0)
    with monkeypatch.context() as patch:
        patch.setattr(ThreadRunner, "application", "local-4711")
        transfer_hop(world.first_hop, ThreadRunner(), recorded_by="a dag a run")
    hop = trace(ids(world)[0])["hops"][0]
    assert (hop["moved_by"], hop["application"]) == ("a dag a run", "local-4711")
    assert world.query("airline", "select attempt, recorded_by, application from relaybox_internal.attempt order by attempt") == [
        (1, "test", None),
        (2, "a dag a run", "local-4711"),
    ]
    last = invoke("status", "--json").document["hops"][0]["last_batch"]
    assert (last["moved_by"], last["application"]) == ("a dag a run", "local-4711")
    said = "copied by a dag a run, Spark application local-4711"
    assert said in " ".join(invoke("where", ids(world)[0]).stdout.split())
    assert f"batch 1 is {said}" in " ".join(invoke("status").stdout.split())
    monkeypatch.setenv("RELAYBOX_SPARK_UI", "http://history:18080")
    assert f"{said} (http://history:18080/history/local-4711/)" in " ".join(invoke("status").stdout.split())
