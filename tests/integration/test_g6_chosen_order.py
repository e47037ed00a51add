"""G6: a stream has the order that its route promises, whatever the order of arrival; and every message, once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from tests.support.cli import invoke
from tests.support.senders import declare, reasons, send_numbered, stream
from tests.support.world import World


@pytest.fixture
def fifo(world: World) -> World:
    world.change_route(order="fifo")
    declare(world, "a", "b")
    return world


def test_g6_messages_without_an_index_are_delivered_as_they_came(world: World) -> None:
    world.send("one", "two")
    world.transfer()
    world.send("three")
    world.transfer()
    assert stream(world) == ["one", "two", "three"]
    assert world.query(
        "hub", "select first_stream_position, last_stream_position, log_positions from relaybox_internal.delivery"
    ) == [(1, 3, None)]


def test_g6_fifo_holds_back_what_came_early_and_releases_it_in_order(fifo: World) -> None:
    send_numbered(fifo, "a", 2, 3)
    send_numbered(fifo, "b", 1)
    fifo.transfer_all()
    assert stream(fifo) == ["b1"]
    send_numbered(fifo, "a", 1, 5)
    fifo.transfer_all()
    assert stream(fifo) == stream(fifo, "analytics") == ["b1", "a1", "a2", "a3"]
    send_numbered(fifo, "a", 4)
    fifo.transfer_all()
    assert stream(fifo) == stream(fifo, "analytics") == ["b1", "a1", "a2", "a3", "a4", "a5"]


def test_g6_with_order_none_the_same_messages_are_delivered_as_they_came(world: World) -> None:
    declare(world, "a", "b")
    send_numbered(world, "a", 2, 3)
    send_numbered(world, "b", 1)
    send_numbered(world, "a", 1)
    world.transfer()
    assert stream(world) == ["a2", "a3", "b1", "a1"]


@pytest.mark.parametrize("order", ["none", "fifo", "total"])
def test_g6_a_duplicate_is_dropped_in_its_batch_and_in_any_later_one(world: World, order: str) -> None:
    world.change_route(order=order)
    declare(world, "a")
    send_numbered(world, "a", 1, 2, 2)
    world.transfer()
    send_numbered(world, "a", 1, 3, 2)
    world.transfer()
    assert stream(world) == ["a1", "a2", "a3"]
    assert world.query("hub", "select duplicate_count, duplicates from relaybox_internal.decision order by batch") == [
        (1, [3]),
        (2, [4, 6]),
    ]


@pytest.mark.parametrize("order", ["none", "fifo"])
def test_g6_the_same_index_with_other_content_is_set_aside(world: World, order: str) -> None:
    world.change_route(order=order)
    declare(world, "a")
    send_numbered(world, "a", 1, 2)
    send_numbered(world, "a", 2, payload="forged")
    world.transfer()
    send_numbered(world, "a", 1, payload="forged later")
    send_numbered(world, "a", 3)
    world.transfer()
    assert stream(world) == ["a1", "a2", "a3"]
    assert reasons(world) == [(3, "other_content"), (4, "other_content")]


def test_g6_the_same_index_with_other_content_is_found_however_far_back_it_came(fifo: World) -> None:
    """What is near is looked at first, the whole log only for the rest."""
    send_numbered(fifo, "a", 1, 2)
    fifo.send_many(20_000)
    fifo.transfer()
    send_numbered(fifo, "a", 2, payload="forged")
    send_numbered(fifo, "a", 3)
    fifo.transfer()
    assert reasons(fifo) == [(20_003, "other_content")]


def test_g6_nothing_that_was_sent_before_its_sender_was_declared_is_delivered_in_whichever_batch(world: World) -> None:
    """Not in the sender's first batch, which makes it known, and in none after it."""
    world.change_route(order="fifo", limits={"batch_rows": 1, "slice_rows": 1})
    send_numbered(world, "a", 1, 1, 2)
    declare(world, "a")
    world.transfer()
    assert reasons(world) == [(log_position, "sender_not_declared") for log_position in (1, 2, 3)]


def test_g6_a_copy_of_what_was_set_aside_before_its_turn_is_a_duplicate(world: World) -> None:
    """Nobody gave its index up. Another content under it is no duplicate."""
    world.change_route(order="causal")
    declare(world, "a")
    for payload in ("a3", "a3", "forged"):
        send_numbered(world, "a", 3, payload=payload, clock='{"a": 7}')
        world.transfer()
    assert reasons(world) == [(1, "clock_invalid"), (3, "other_content")]
    assert world.query("hub", "select log_position from relaybox_internal.decision, unnest(duplicates) as log_position") == [(2,)]


def test_g6_a_clock_waits_however_far_ahead_what_it_names_is(world: World) -> None:
    """How far another sender is may be said by a log that is late. An epoch that is over is waited for no longer."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_numbered(world, "b", 1)
    send_numbered(world, "a", 1, clock='{"b": 2000000}')
    world.transfer()
    assert (reasons(world), stream(world)) == ([], ["b1"])
    world.query("airline", "select relaybox.new_epoch('b')")
    send_numbered(world, "b", 1, epoch=2, payload="b2.1")
    send_numbered(world, "a", 2, clock='{"b": 2000000}')
    world.transfer()
    assert (reasons(world), stream(world)) == ([], ["b1", "b2.1", "a1", "a2"])


def test_g6_a_clock_that_names_a_later_message_of_its_batch_waits_for_it(world: World) -> None:
    """Each sender's own messages are in order, so that nothing but the clock shows it."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_numbered(world, "a", 1, clock='{"b": 1}')
    send_numbered(world, "a", 2)
    send_numbered(world, "b", 1)
    world.transfer()
    assert stream(world) == ["b1", "a1", "a2"]
    send_numbered(world, "b", 2, clock='{"a": 2}')
    send_numbered(world, "a", 3, clock='{"b": [1, 2]}')
    world.transfer()
    assert stream(world) == ["b1", "a1", "a2", "b2", "a3"]


def test_g6_a_batch_in_causal_order_releases_what_was_held_for_it(world: World) -> None:
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_numbered(world, "a", 1, clock='{"b": 1}')
    world.transfer()
    assert stream(world) == []
    send_numbered(world, "b", 1, 2)
    world.transfer()
    assert stream(world) == ["b1", "a1", "b2"]


def test_g6_a_stalled_sender_stalls_no_other_one(fifo: World) -> None:
    fifo.change_route(order="fifo", limits={"holdback_rows": 3})
    send_numbered(fifo, "a", *range(2, 8))
    fifo.transfer()
    send_numbered(fifo, "a", *range(8, 12))
    send_numbered(fifo, "b", 1, 2)
    fifo.transfer()
    assert stream(fifo) == ["b1", "b2"]
    assert fifo.query("hub", "select count(*) from relaybox_internal.held") == [(6,)], (
        "what came after it stalled waits in the log"
    )
    send_numbered(fifo, "a", 1)
    fifo.transfer()
    assert stream(fifo) == ["b1", "b2", *(f"a{index}" for index in range(1, 12))]
    assert fifo.query("hub", "select held_count, stalled_after from relaybox_internal.sender_state where sender = 'a'") == [
        (0, None)
    ]


def test_g6_a_stalled_sender_goes_on_when_another_one_lets_go_a_part_of_what_it_holds(world: World) -> None:
    """Causal: what fills its gap waits in the log, and nothing more of it comes."""
    world.change_route(order="causal", limits={"holdback_rows": 1})
    declare(world, "a")
    declare(world, "b")
    send_numbered(world, "a", 1, 3, clock='{"b": 1}')
    world.transfer()
    send_numbered(world, "b", 1)
    send_numbered(world, "a", 2)
    for _ in range(2):
        world.transfer()
    assert stream(world) == ["b1", "a1", "a2", "a3"]


def test_g6_a_higher_epoch_starts_anew_and_fences_the_lower_one(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 3)
    fifo.transfer()
    fifo.query("airline", "select relaybox.new_epoch('a')")
    send_numbered(fifo, "a", 1, epoch=2, payload="a1 anew")
    send_numbered(fifo, "a", 2, 4)
    fifo.transfer()
    assert stream(fifo) == ["a1", "a3", "a1 anew"], "the gap can't be filled any more, so what waited for it goes first"
    assert reasons(fifo) == [(4, "epoch_fenced"), (5, "epoch_fenced")]


def test_g6_a_skipped_gap_releases_what_waited_and_is_on_record(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 4, 5)
    fifo.transfer()
    assert stream(fifo) == ["a1"]
    assert fifo.query("hub", "select * from relaybox_internal.skip_gap('flights', 'a', null, 'lost by hand', 'me')") == [
        (1, 2, 3, 2)
    ]
    assert stream(fifo) == ["a1", "a4", "a5"]
    send_numbered(fifo, "a", 2, 6)
    fifo.transfer()
    assert stream(fifo) == ["a1", "a4", "a5", "a6"]
    assert reasons(fifo) == [(4, "index_skipped")]
    assert fifo.query("hub", "select sender, first_index, last_index, reason, skipped_by from relaybox_internal.skip") == [
        ("a", 2, 3, "lost by hand", "me")
    ]


BAD = {
    "an index of a sender that is not declared": ("stranger", 1, 1, "sender_not_declared"),
    "a jump of a billion": ("a", 1, 1_000_000_000, "index_too_far"),
    "an epoch that was not begun": ("a", 2, 1, "epoch_not_begun"),
    "no index of a gapless sender": ("a", 1, None, "index_missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_g6_bad_numbers_are_set_aside_with_the_reason_and_the_others_flow(fifo: World, case: str) -> None:
    sender, epoch, index, reason = BAD[case]
    send_numbered(fifo, "b", 1)
    fifo.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, epoch, index, payload) values ('flights', %s, %s, %s, 'bad')",
        *(sender, epoch, index),
    )
    send_numbered(fifo, "b", 2)
    send_numbered(fifo, "a", 1)
    fifo.transfer()
    assert stream(fifo) == ["b1", "b2", "a1"]
    assert reasons(fifo) == [(2, reason)]


def test_g6_repeated_message_ids_are_dropped_within_the_window(world: World) -> None:
    world.change_route(message_id_window=3)
    ids = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(4)]
    for n in (0, 1, 0, 2, 3, 1):
        world.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, message_id, payload) values ('flights', 'x', %s, %s)",
            *(ids[n], f"m{n}"),
        )
    world.transfer()
    assert stream(world) == ["m0", "m1", "m2", "m3", "m1"], "the last one is farther from its like than the window"


def test_g6_what_a_killed_driver_published_is_delivered_before_it_is_confirmed(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After its confirmation no driver would come for a batch: the driver that confirms it delivers it first."""
    world.send("one")
    with monkeypatch.context() as patch, pytest.raises(errors.StoreBusy):
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
        patch.setenv("RELAYBOX_FAILPOINTS", "deliver.begin=raise 40001")
        world.transfer()
    assert stream(world) == []
    settle_hop(world.route, world.first_hop, recorded_by="test")
    assert stream(world) == ["one"]


def test_g6_a_dead_letter_of_the_stream_is_repaired_at_the_store_of_its_sender(fifo: World) -> None:
    """What a stream decided never changes: redrive refuses and names the next step, which works."""
    fifo.query("hub", "select relaybox.subscribe('billing', 'flights')")
    send_numbered(fifo, "c", 1)
    fifo.transfer_all()
    assert reasons(fifo) == [(1, "sender_not_declared")]
    refused = invoke("dead-letters", "redrive", "billing", "--dead-letter-id", "1", "--reason", "declared now")
    assert refused.exit_code == 5
    assert "set aside by stream flights (sender_not_declared), not by a consumer" in refused.stderr
    assert "At airline: declare it (relaybox senders declare airline c gapless)" in refused.stderr
    assert "relaybox dead-letters drop hub 1 --reason" in refused.stderr
    assert invoke("senders", "declare", "airline", "c", "gapless").exit_code == 0
    send_numbered(fifo, "c", 1)
    fifo.transfer_all()
    assert stream(fifo) == stream(fifo, "analytics") == ["c1"]
    assert invoke("dead-letters", "drop", "hub", "1", "--reason", "declared, sent again").exit_code == 0


def test_g6_a_clock_of_the_store_that_steps_back_sets_nothing_aside(world: World) -> None:
    """A sender that is named and not declared yet is waited for, whatever times say."""
    world.change_route(order="causal")
    declare(world, "a")
    send_numbered(world, "a", 1, clock='{"b": 1}', payload="answer")
    world.transfer()
    world.query("hub", "update relaybox_internal.held set held_at = '2000-01-01'")
    world.query("hub", "select relaybox_internal.deliver_next(1)")
    assert reasons(world) == []
    declare(world, "b")
    world.transfer()
    assert reasons(world) == []
    send_numbered(world, "b", 1)
    world.transfer()
    assert stream(world) == ["b1", "answer"]


@pytest.mark.parametrize(
    ("sent", "set_aside", "delivered"),
    [
        ([("a", 1, {"b": 1}), ("b", 1, {"a": 1}), ("c", 1, {})], [1, 2], ["c1"]),
        ([("a", 1, {"c": 1, "d": 5}), ("b", 1, {"a": 1}), ("c", 1, {"b": 1}), ("d", 1, {}), ("c", 2, {"d": 1})], [], ["d1"]),
        ([("a", 1, {"c": 1}), ("b", 1, {"a": 1}), ("c", 1, {"b": 1}), ("d", 1, {"b": 1})], [1, 2, 3], ["d1"]),
        ([("a", 1, {"b": 2}), ("b", 1, {"a": 1}), ("b", 2, {}), ("c", 1, {"b": 2})], [1, 2], ["b2", "c1"]),
    ],
    ids=["two", "three that wait for a fourth", "three", "by way of the sender's own order"],
)
@pytest.mark.parametrize("ends", [(), (1,), (1, 2, 3)], ids=["one batch", "two batches", "a batch each"])
def test_g6_what_waits_for_itself_is_set_aside_and_the_others_flow(
    world: World, sent: list[tuple[str, int, dict[str, int]]], set_aside: list[int], delivered: list[str], ends: tuple[int, ...]
) -> None:
    """Clocks that name each other: nobody could have received these. However the batches are cut, both stores say the same."""
    world.change_route(order="causal")
    declare(world, *"abcd")
    for number, (sender, index, clock) in enumerate(sent, start=1):
        send_numbered(world, sender, index, clock=json.dumps(clock))
        if number in ends:
            world.transfer_all()
    world.transfer_all()
    for store in ("hub", "analytics"):
        assert reasons(world, store) == [(log_position, "clock_waits_for_itself") for log_position in set_aside]
        assert stream(world, store) == delivered


def test_g6_a_message_given_up_with_its_epoch_is_in_no_cycle(world: World) -> None:
    """a1 waits for b1, which waits for a1, and for c1 that never comes: the end of a's epoch lets a1 go, and so b1."""
    world.change_route(order="causal")
    declare(world, *"abc")
    send_numbered(world, "a", 1, clock='{"b": 1, "c": 1}')
    send_numbered(world, "b", 1, clock='{"a": 1}')
    world.transfer()
    assert stream(world) == []
    world.query("airline", "select relaybox.new_epoch('a')")
    send_numbered(world, "a", 1, epoch=2, payload="a2.1")
    world.transfer()
    assert reasons(world) == []
    assert stream(world) == ["a1", "b1", "a2.1"]


def test_g6_a_copy_of_what_was_set_aside_before_its_turn_fills_no_gap(world: World) -> None:
    """3 has no clock to believe and comes twice, then 4: 1 is delivered, and 2 is still waited for, by all who had heard of it."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_numbered(world, "a", 1)
    send_numbered(world, "a", 3, clock='{"b": 0}')
    send_numbered(world, "b", 1, clock='{"a": 2}')
    world.transfer()
    send_numbered(world, "a", 3, clock='{"b": 0}')
    send_numbered(world, "a", 4, clock='{"b": 0}')
    world.transfer()
    assert stream(world) == ["a1"]
    send_numbered(world, "a", 2)
    world.transfer()
    assert stream(world) == ["a1", "a2", "b1"]
    assert reasons(world) == [(2, "clock_invalid"), (5, "clock_invalid")]


def test_g6_who_waits_for_what_was_set_aside_before_its_turn_goes_on_with_the_one_before_it(world: World) -> None:
    """In the same decision, not in the next."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_numbered(world, "a", 2, clock='{"b": 0}')
    send_numbered(world, "b", 1, clock='{"a": 2}')
    world.transfer()
    assert stream(world) == []
    send_numbered(world, "a", 1)
    world.transfer()
    assert stream(world) == ["a1", "b1"]


def test_g6_the_end_of_an_epoch_lets_go_what_came_of_it_before_those_who_waited_for_more(world: World) -> None:
    """b1 waits for a2, which never comes; when a's epoch ends, a1 goes first, though it was received last and has the larger clock."""
    world.change_route(order="causal")
    declare(world, *"abc")
    send_numbered(world, "b", 1, clock='{"a": 2}')
    send_numbered(world, "a", 1, clock='{"c": 3}')
    world.transfer()
    assert stream(world) == []
    world.query("airline", "select relaybox.new_epoch('a')")
    send_numbered(world, "a", 1, epoch=2, payload="a2.1")
    world.transfer()
    assert stream(world)[:2] == ["a1", "b1"]


def test_g6_the_end_of_an_epoch_that_sent_nothing_lets_go_who_waited_for_it(world: World) -> None:
    """In the decision that ends it: nothing else may come."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    send_numbered(world, "b", 1, clock='{"a": 1}')
    world.transfer()
    assert stream(world) == []
    world.query("airline", "select relaybox.new_epoch('a')")
    send_numbered(world, "a", 1, epoch=2, payload="a2.1")
    world.transfer()
    assert stream(world) == ["a2.1", "b1"]


@pytest.mark.parametrize("cut", [False, True], ids=["one batch", "a batch each"])
def test_g6_what_was_set_aside_moves_nobody_in_the_order_of_the_others(world: World, cut: bool) -> None:
    """a1 is lost; the end of a's epoch lets go a2 to a4, and b1 and b3, between which b2 has no clock to believe."""
    world.change_route(order="causal")
    declare(world, "a", "b")
    for sender, index, clock in [("b", 1, {"a": 2}), ("b", 2, {"a": 0}), ("a", 2, {}), ("a", 3, {}), ("b", 3, {}), ("a", 4, {})]:
        send_numbered(world, sender, index, clock=json.dumps(clock))
        if cut:
            world.transfer()
    world.query("airline", "select relaybox.new_epoch('a')")
    send_numbered(world, "a", 1, epoch=2, payload="a2.1")
    world.transfer()
    assert reasons(world) == [(2, "clock_invalid")]
    assert stream(world) == ["a2", "b1", "a3", "b3", "a4", "a2.1"]


def test_g6_a_clock_that_cannot_be_read_is_never_met(world: World) -> None:
    """Text is no number, in an entry of another sender and in the sender's own."""
    met = ['{"a": 1}', '{"a": [1, 1]}', '{"a": 1, "own": 1}', '{"a": 1, "own": [1, 1]}', "{}"]
    entries = [
        '"1"',
        '"[1, 1]"',
        '"[1,1]"',
        "0",
        "-1",
        "1.5",
        "1e30",
        "true",
        "null",
        '""',
        "[1]",
        "[1, 1, 1]",
        '["1", 1]',
        "{}",
        "2",
        "[2, 1]",
    ]
    unmet = [f'{{"{sender}": {entry}}}' for sender in ("a", "own") for entry in entries]
    world.change_route(order="causal")
    senders = [f"s{number}" for number in range(len(met + unmet))]
    declare(world, "a", *senders)
    send_numbered(world, "a", 1)
    for sender, clock in zip(senders, met + unmet, strict=True):
        send_numbered(world, sender, 1, clock=clock.replace("own", sender))
    world.transfer()
    found = world.query(
        "hub",
        "select m.clock::text, relaybox_internal.clocks_are_met(s.stream_id, m.log_id, m.log_position, m.log_position) "
        "from relaybox_internal.log m, relaybox_internal.stream s where m.sender <> 'a' order by m.log_position",
    )
    assert [is_met for _, is_met in found] == [True] * len(met) + [False] * len(unmet), found
    waiting = 2  # for a's second message, and for a's second epoch
    assert [reason for _, reason in reasons(world)] == ["clock_invalid"] * (len(unmet) - waiting)
