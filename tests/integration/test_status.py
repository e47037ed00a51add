"""`relaybox status`: every hop as its two stores' ledgers tell it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.breaking import copy_first_slices, transfer_until
from tests.support.cli import invoke
from tests.support.senders import declare, send_numbered
from tests.support.services import add_route, break_service
from tests.support.world import World, insert, routes_file

HOP_KEYS = {
    "hop", "route", "source", "destination", "reads", "topics", "sent", "received", "lag_messages", "lag_seconds", "driven",
    "last_batch", "open_batch", "processed_through", "settled_through", "reliability", "uniqueness", "mode", "stream", "account",
    "errors",
}  # fmt: skip


STREAM_KEYS = {
    "stream", "delivery_order", "last_stream_position", "decided_rows", "undecided_rows", "duplicate_count", "set_aside_count", "held_count",
    "stalled", "uniqueness",
}  # fmt: skip


def hops(exit_code: int = 0) -> list[dict[str, Any]]:
    status = invoke("status", "--json")
    assert status.exit_code == exit_code, status.stderr
    return list(status.document["hops"])


def numbers(hop: dict[str, Any]) -> tuple[int, int, int, int]:
    return hop["sent"], hop["received"], hop["lag_messages"], hop["settled_through"]


def test_the_json_document_has_stable_keys(world: World) -> None:
    world.send("a")
    world.transfer_all()
    document = invoke("status", "--json").document
    assert set(document) == {
        "measured_at", "hops", "routes", "unrouted", "orphaned_hops", "provider_durability", "failing_endpoints",
        "adopted_tables", "reader_problems", "errors",
    }  # fmt: skip
    assert all(set(hop) == HOP_KEYS for hop in document["hops"])
    assert set(document["hops"][0]["last_batch"]) == {
        *("batch", "row_count", "planned_at", "published_at", "moved_by", "application"),
    }
    assert set(document["routes"][0]) == {"route", "sent", "received", "reliability", "uniqueness", "mode"}


def test_a_new_route_has_sent_nothing_and_lost_nothing(world: World) -> None:
    for hop in hops():
        assert numbers(hop) == (0, 0, 0, 0)
        assert (hop["lag_seconds"], hop["last_batch"], hop["open_batch"], hop["mode"]) == (None, None, None, None)
    shown = invoke("status").stdout
    assert shown.count("nothing yet") == 3  # both hops and the route
    assert "exactly once" not in shown


def test_committed_messages_are_lag_until_they_are_published(world: World) -> None:
    world.send("a", "b", "c")
    first, second = hops()
    assert numbers(first) == (3, 0, 3, 0)
    assert first["lag_seconds"] > 0
    assert numbers(second) == (0, 0, 0, 0)

    world.transfer()
    first, second = hops()
    assert numbers(first) == (3, 3, 0, 0)
    assert first["lag_seconds"] is None
    assert numbers(second) == (3, 0, 3, 0)
    assert second["lag_seconds"] > 0


def test_messages_in_flight_are_lag_and_no_loss(world: World) -> None:
    world.send("a")
    world.transfer_all()
    world.send("b", "c")
    first, _ = hops()
    assert (first["lag_messages"], first["reliability"], first["mode"]) == (2, 1.0, "exactly once")


def test_an_open_transaction_is_not_sent_yet(world: World) -> None:
    with world.session() as producer:
        insert(producer, "open")
        world.send("committed")
        assert numbers(hops()[0]) == (1, 0, 1, 0)
        producer.commit()
    assert numbers(hops()[0]) == (2, 0, 2, 0)


def test_a_settled_route_is_settled_at_every_hop(world: World) -> None:
    world.send("a", "b")
    world.transfer_all()
    world.settle_all()
    document = invoke("status", "--json").document
    assert [numbers(hop) for hop in document["hops"]] == [(2, 2, 0, 2), (2, 2, 0, 2)]
    assert document["routes"] == [
        {"route": "flights", "sent": 2, "received": 2, "reliability": 1.0, "uniqueness": 1.0, "mode": "exactly once"}
    ]


def test_one_route_or_one_hop_is_shown_alone(world: World) -> None:
    """Warnings are of all stores nevertheless: what is silent is not seen."""
    world.send("a")
    assert [hop["hop"] for hop in invoke("status", "flights", "--json").document["hops"]] == ["flights/1", "flights/2"]
    one = invoke("status", "flights/2", "--json").document
    assert ([hop["hop"] for hop in one["hops"]], one["routes"]) == (["flights/2"], [])
    assert "flights/1" not in invoke("status", "flights/2").stdout
    world.send("lost", topic="flight")
    warned = invoke("status", "flights/2")
    assert warned.exit_code == 2
    assert "1 message of topic flight, which no hop reads" in warned.stderr
    assert "Did you mean flights/2" in " ".join(invoke("status", "flights/3").stderr.split())
    assert 'there is no route "flight". Did you mean flights?' in invoke("status", "flight").stderr


def test_lag_counts_the_rest_of_a_capped_pair(world: World) -> None:
    """A batch takes the first 10 of 25 messages; 5 more are sent before the rest is planned."""
    world.change_route(limits={"batch_rows": 10, "slice_rows": 10})
    world.send_many(25)
    transfer_until(world.first_hop, lambda progress: progress.batch == 1 and progress.published)
    world.send_many(5)
    first, second = hops()
    assert numbers(first) == (30, 10, 20, 0)
    assert numbers(second) == (10, 0, 10, 0)


def test_an_open_batch_names_the_slices_that_a_resume_copies(world: World) -> None:
    world.change_route(limits={"batch_rows": 100, "slice_rows": 16})
    world.send_many(40)
    copy_first_slices(world.first_hop, 1)
    first, _ = hops()
    open_batch = first["open_batch"]
    assert (open_batch["batch"], open_batch["row_count"]) == (1, 40)
    assert open_batch["missing_slices"] == list(range(2, open_batch["slice_count"] + 1))
    assert first["lag_messages"] == 40
    assert "batch 1 is open" in invoke("status").stdout

    world.transfer()
    assert hops()[0]["open_batch"] is None


def test_the_newest_attempt_at_the_newest_batch_is_named(world: World) -> None:
    """The driver that took the batch over is shown."""
    world.send("a")
    copy_first_slices(world.first_hop, 0)
    for attempt, name in ((8, "eighth"), (7, "seventh")):
        world.query("airline", "select relaybox_internal.record_attempt('flights/1', 1, %s, %s, null)", attempt, name)
    world.query("airline", "select relaybox_internal.record_attempt('flights/1', 9, 9, 'of another batch', null)")
    assert world.value("airline", "select moved_by from relaybox_internal.sending_states('{flights/1}')") == "eighth"


def test_a_running_transfer_is_shown(world: World) -> None:
    with world.session() as driver, driver.cursor() as cursor:
        cursor.execute("set application_name = 'relaybox flights/1 driver'")
        assert [hop["driven"] for hop in hops()] == [True, False]


@pytest.mark.parametrize("command", [["status"], ["verify", "flights"]], ids=" ".join)
def test_numbers_are_whole_in_eighty_columns(world: World, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    world.send_many(3)
    world.transfer_all()
    world.query("airline", "update relaybox_internal.hop_out set log_position = 7654321")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, to Rich
    monkeypatch.setenv("COLUMNS", "80")
    lines = re.sub(r"\x1b\[[0-9;]*m", "", invoke(*command).stdout).splitlines()
    (row,) = (line for line in lines if line.startswith("flights/1") and "exactly once" in line)
    assert re.search(r" 7,654,3\d\d[ ,]", row)
    assert max(map(len, lines)) <= 80


def test_a_store_that_lost_history_shows_what_it_lost(world: World) -> None:
    """R counts what the source has confirmed: the destination went back to its first batch."""
    world.send("a", "b", "c")
    world.transfer()
    world.send("d")
    world.transfer()
    world.query("hub", "delete from relaybox_internal.arrival where batch = 2")
    world.query("hub", "update relaybox_internal.hop_in set published_batch = 1, published_position = 3")
    first, _ = hops(exit_code=5)
    assert (first["reliability"], first["mode"]) == (0.75, "at most once")
    assert "hub lost history" in first["errors"][0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("update relaybox_internal.hop_out set timeline = timeline + 1", "airline was restored, promoted or replaced"),
        ("update relaybox_internal.hop_out set lower = '9000000000:9000000000:'", "airline was restored, promoted or replaced"),
        ("update relaybox_internal.batch set plan_id = gen_random_uuid() where batch = 2", "has published batch 2 with plan"),
        (
            (
                "delete from relaybox_internal.confirmation where through_batch = 2; delete from relaybox_internal.batch where batch = 2; "
                "update relaybox_internal.hop_out set batch = 1, log_position = 3"
            ),
            "the ledger of airline ends at batch 1, hub has published batch 2: airline lost history",
        ),
    ],
    ids=["fingerprint", "transaction numbers", "another plan", "ledger went back"],
)
def test_a_source_that_lost_history_is_named(world: World, change: str, says: str) -> None:
    """Exit code 5, the store and both sides in words, no delivery mode that nobody can know, and the metric of the alarm."""
    world.send("a", "b", "c")
    world.transfer_all()
    world.send("d")
    world.transfer_all()
    world.query("airline", change)
    first, second = hops(exit_code=5)
    assert says in " ".join(first["errors"])
    assert (first["mode"], second["mode"], second["errors"]) == (None, "exactly once", [])
    assert 'relaybox_hop_error{error="HistoryLost",hop="flights/1",route="flights"} 1' in invoke("metrics").stdout


def test_a_source_in_an_older_generation_than_its_destination_is_named(world: World) -> None:
    """It was restored to before its reanchoring: batches agree, generations do not."""
    world.send("a")
    world.transfer()
    world.query("hub", "update relaybox_internal.hop_in set generation = 2")
    assert "airline is in generation 1 of it, hub in generation 2" in hops(exit_code=5)[0]["errors"][0]


def test_a_route_multiplies_what_its_hops_lose_and_double(world: World) -> None:
    """Three of four received, then two of the three twice: the whole route is unreliable."""
    world.send("a", "b", "c")
    world.transfer_all()
    world.send("d")
    world.transfer()
    world.query("hub", "delete from relaybox_internal.arrival where batch = 2")
    world.query("hub", "update relaybox_internal.hop_in set published_batch = 1, published_position = 3")
    world.query(
        "analytics",
        "insert into relaybox_internal.arrival select log_id, 0, gen_random_uuid(), 1, 2, 2, 1, 0, 0, now() from relaybox_internal.hop_in",
    )
    status = invoke("status", "--json")
    assert [hop["mode"] for hop in status.document["hops"]] == ["at most once", "at least once"]
    route = status.document["routes"][0]
    assert (route["reliability"], route["uniqueness"], route["mode"]) == (0.75, 0.6, "unreliable")


def test_an_unreachable_store_hides_no_other_hop(world: World) -> None:
    world.send("a")
    world.transfer()
    break_service("analytics", port="1")
    first, second = hops(exit_code=4)
    assert numbers(first) == (1, 1, 0, 0)
    assert first["errors"] == []
    assert (second["sent"], second["received"], second["lag_messages"], second["mode"]) == (1, 0, None, None)
    assert "store analytics: no connection" in second["errors"][0]
    shown = invoke("status")
    assert "flights/1" in shown.stdout
    assert "see the error below" in shown.stdout
    assert shown.stderr.count("store analytics: no connection") == 1


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "table"])
def test_a_topic_that_no_hop_reads_is_a_warning_with_the_nearest_one(world: World, as_json: bool) -> None:
    world.send("a")
    world.send("lost", "too", topic="flight")
    status = invoke("status", *(["--json"] if as_json else []))
    assert status.exit_code == 2
    assert "2 messages of topic flight, which no hop reads" in status.stderr
    assert "Did you mean topic flights?" in status.stderr
    if as_json:
        (unrouted,) = status.document["unrouted"]
        assert (unrouted["store"], unrouted["topic"], unrouted["message_count"], unrouted["nearest"]) == (
            "airline",
            "flight",
            2,
            "flights",
        )


def test_a_topic_that_the_file_routes_and_the_store_does_not_know_asks_for_init(world: World) -> None:
    """The file was changed and init was not run: the topic itself is no spelling to correct."""
    world.send("a", topic="refunds")
    routes_file(world.path.parent, route={"topics": ["flights", "refunds"]})
    status = invoke("status")
    assert status.exit_code == 2
    assert "relaybox.yaml routes it, the store does not know that yet. Run: relaybox init" in " ".join(status.stderr.split())


def test_a_topic_of_a_route_that_begins_elsewhere_is_not_said_to_be_in_no_route(world: World) -> None:
    """It is the store that is wrong, or the route's beginning."""
    add_route(world.path, "other", topics=["refunds"], path=["hub", "analytics"])
    assert invoke("init").exit_code == 0
    world.send("a", topic="refunds")
    said = " ".join(invoke("status").stderr.split())
    assert "1 message of topic refunds, which no hop reads" in said
    assert (
        "Topic refunds is in a route, and only what is sent at the store where a route begins is moved: other begins at hub."
        in said
    )
    assert "add topic refunds to a route that begins at airline and run: relaybox init" in said


def test_a_topic_that_another_hop_moves_asks_for_init_of_the_hop_too(world: World) -> None:
    """Neither status nor a transfer ends well while the file gives a hop a topic that its store does not move for it."""
    other = {"topics": ["refunds"], "path": ["airline", "hub"]}
    add_route(world.path, "other", **other)
    assert invoke("init").exit_code == 0
    world.send("a", topic="refunds")
    world.send("b")
    add_route(routes_file(world.path.parent, route={"topics": ["flights", "refunds"]}), "other", **other)
    says = "hop flights/1: relaybox.yaml gives it topic refunds, which store airline does not move yet"
    for command in (["status"], ["transfer", "flights/1"]):
        told = invoke(*command)
        assert (told.exit_code, says in " ".join(told.stderr.split())) == (2, True)
    moved = invoke("transfer", "flights/1", "--json")
    assert (moved.exit_code, says in moved.document["waiting_for_init"]) == (2, True)
    assert world.payloads() == ["b"]
    assert invoke("init").exit_code == 0
    moved = invoke("transfer", "flights/1", "--json")
    assert (moved.exit_code, moved.document["waiting_for_init"], world.payloads()) == (0, None, ["b", "a"])


def test_an_unrouted_topic_loses_nothing(world: World) -> None:
    """As the warning says: a new route for it starts with the oldest message kept."""
    world.send("a", topic="flight")
    world.send("b")
    world.transfer()
    add_route(world.path, "strays", topics=["flight"], path=["airline", "hub"])
    assert invoke("init").exit_code == 0
    assert invoke("transfer", "strays/1").exit_code == 0
    assert world.payloads("strays/1") == ["a"]
    assert invoke("status").exit_code == 0


def test_a_status_reads_no_outbox_from_its_beginning(world: World) -> None:
    """Lag is counted by index from the hop's newest snapshot on, however long the outbox is and whatever its statistics say."""
    world.send_many(2000)
    world.transfer()
    world.send_many(3)
    with world.session() as session, session.cursor() as cursor:
        cursor.execute("set random_page_cost = 1000000")  # a planner that believes in sequential scans
        cursor.execute("select waiting_count from relaybox_internal.sending_states('{flights/1}')")
        assert cursor.fetchone()[0] == 3
        cursor.execute(
            "select coalesce(sum(seq_scan), 0), coalesce(sum(seq_tup_read + idx_tup_fetch), 0) "
            "from pg_stat_xact_user_tables where schemaname in ('relaybox', 'relaybox_internal') and relname like 'outbox_s%%'"
        )
        scans, rows_read = cursor.fetchone()
    assert scans == 0
    assert rows_read < 10


def test_a_batch_that_arrived_and_is_not_confirmed_yet_is_no_duplicate(world: World) -> None:
    """R and UR are measured over what is confirmed: the destination may be ahead of it by one batch."""
    world.send("a")
    world.transfer()
    world.send("b")
    transfer_until(world.first_hop, lambda progress: progress.published)
    first, _ = hops()
    assert numbers(first) == (2, 2, 0, 0)
    assert (first["reliability"], first["uniqueness"], first["mode"]) == (1.0, 1.0, "exactly once")


def test_a_stream_shows_what_was_delivered_dropped_held_and_set_aside(world: World) -> None:
    world.change_route(order="fifo", limits={"holdback_rows": 2})
    declare(world, "a", "b")
    send_numbered(world, "a", 1, 1, 3, 4)
    send_numbered(world, "c", 7)
    world.transfer_all()
    for hop in hops():
        stream = hop["stream"]
        assert set(stream) == STREAM_KEYS
        assert (stream["stream"], stream["delivery_order"]) == ("flights", "fifo")
        assert (stream["last_stream_position"], stream["decided_rows"], stream["undecided_rows"]) == (1, 5, 0)
        assert (stream["duplicate_count"], stream["held_count"], stream["set_aside_count"]) == (1, 2, 1)
        assert stream["uniqueness"] == 0.8
        assert stream["stalled"] == [{"sender": "a", "epoch": 1, "reason": "holdback_full"}]
    shown = invoke("status").stdout
    assert re.search(r"^flights/2 +fifo +1 +1 +2 +1 +0\.8", shown, flags=re.MULTILINE)
    assert "flights/1: sender a stalled: holdback_full. See: relaybox holdback flights" in shown


def test_published_batches_that_no_store_decided_on_are_shown(world: World) -> None:
    world.send("a", "b")
    transfer_until(world.first_hop, lambda progress: progress.published)
    world.query("hub", "truncate relaybox_internal.delivery, relaybox_internal.decision")
    world.query("hub", "update relaybox_internal.stream_log set decided_batch = 0, decided_position = 0")
    assert hops()[0]["stream"]["undecided_rows"] == 2
    assert "flights/1: 2 published messages are not classified yet" in invoke("status").stdout
