"""Messages of an outbox that no hop moves: which there are, and from which seq on, row by row."""

from __future__ import annotations

import pytest

from tests.support.breaking import copy_first_slices
from tests.support.world import World

UNMOVED = "select relaybox_internal.unmoved_seq(%s, %s)"


@pytest.fixture
def sent(world: World) -> World:
    """Seqs 1 to 3 and 5 are moved; 4 and 6 have a topic that no hop has, 7 another such; 8 waits."""
    world.send("1", "2", "3")
    world.send("4", topic="nobody")
    world.send("5")
    world.transfer()
    world.send("6", topic="nobody")
    world.send("7", topic="logs-only")
    world.send("8")
    return world


def unrouted(world: World, newest: int) -> list[tuple[str, int, int]]:
    """Topic, number of messages, seq of the first."""
    return world.query(
        "airline",
        """
        select u.topic, u.message_count, min(o.seq) from relaybox_internal.unrouted_topics(%s) u
        join relaybox.outbox o on o.topic = u.topic and o.sent_at = u.first_sent_at group by 1, 2 order by 1
        """,
        newest,
    )


def test_the_first_row_that_nobody_moved_is_found_in_exactly_the_range_that_is_asked_for(sent: World) -> None:
    """After the first seq, through the last."""
    ranges = {(0, 8): 4, (3, 4): 4, (4, 8): 6, (4, 5): None, (5, 6): 6, (0, 3): None, (6, 7): 7, (7, 8): 8}
    assert {asked: sent.value("airline", UNMOVED, *asked) for asked in ranges} == ranges


def test_a_row_whose_topic_was_taken_away_is_moved_by_nobody_until_it_is_given_up(sent: World) -> None:
    """Unrouted, it keeps its segment and is told of; retired it is done with. What had arrived before stays moved."""
    sent.query("airline", "select relaybox_internal.change_topics('flights/1', '{logs-only}')")
    assert sent.value("airline", UNMOVED, 7, 8) == 8
    assert unrouted(sent, 100) == [("flights", 1, 8), ("nobody", 2, 4)]
    sent.query("airline", "select relaybox_internal.retire_topics('flights/1', '{flights}', 'why', 'test')")
    assert sent.value("airline", UNMOVED, 7, 8) is None
    assert unrouted(sent, 100) == [("nobody", 2, 4)]


def test_a_report_counts_the_newest_rows_that_it_was_asked_for(sent: World) -> None:
    """Of a topic that a hop has nothing is told, although it waits."""
    assert unrouted(sent, 100) == [("logs-only", 1, 7), ("nobody", 2, 4)]
    assert unrouted(sent, 4) == [("logs-only", 1, 7), ("nobody", 1, 6)]
    assert unrouted(sent, 2) == [("logs-only", 1, 7)]
    assert unrouted(sent, 1) == []


def test_what_was_planned_is_moved_although_it_has_not_arrived(sent: World) -> None:
    """Its topic went meanwhile: the batch is finished, so nobody is told of it."""
    copy_first_slices(sent.first_hop, 0)
    sent.query("airline", "select relaybox_internal.change_topics('flights/1', '{other}')")
    assert (sent.value("airline", UNMOVED, 7, 8), [topic for topic, _, _ in unrouted(sent, 100)]) == (
        None,
        ["logs-only", "nobody"],
    )


def test_a_retired_hop_has_no_topics(sent: World) -> None:
    """What is sent after it was retired is moved by nobody."""
    sent.query("airline", "select relaybox_internal.record_hops_of_file('{}', 'test')")
    sent.query("airline", "select relaybox_internal.retire_hop('flights/1', 'why', 'test')")
    sent.send("9")
    assert ("flights", 1, 9) in unrouted(sent, 100)


def test_a_hop_that_reads_a_log_moves_no_row_of_the_outbox_beside_it(sent: World) -> None:
    """Positions 1 to 4 of the hub's log are read by its second hop; seqs 1 to 4 of its outbox are others."""
    sent.transfer(sent.second_hop)
    sent.query("hub", "insert into relaybox.outbox (topic, sender, payload) values ('nobody', 'UA', 'x'), ('nobody', 'UA', 'y')")
    assert sent.value("hub", UNMOVED, 0, 2) == 1
    assert sent.value("hub", "select message_count from relaybox_internal.unrouted_topics(100)") == 2


def test_what_no_ledger_accounts_for_is_told_for_exactly_the_range_that_is_asked_for(sent: World) -> None:
    """The plan of seqs 1, 2, 3 and 5 is gone; 8 waits, and the others are not the hop's."""
    unaccounted = "select seq, entry_count from relaybox_internal.unaccounted_messages('flights/1', %s, %s)"
    assert sent.query("airline", unaccounted, 0, 8) == []
    sent.query("airline", "delete from relaybox_internal.batch")
    found = {(0, 8): [1, 2, 3, 5], (1, 3): [2, 3], (2, 2): [], (3, 5): [5], (4, 5): [5], (5, 8): []}
    for (after, through), seqs in found.items():
        assert sent.query("airline", unaccounted, after, through) == [(seq, 0) for seq in seqs], (after, through)
