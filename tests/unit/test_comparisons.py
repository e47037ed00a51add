"""What a verification compares: each hop with its own slices, and the whole way as far as the last store got."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from relaybox.hops.batches import Slice
from relaybox.hops.ledgers import Destination, HopRegistration, LedgerArrival, LedgerBatch, LedgerConfirmation, Source
from relaybox.routes import Route
from relaybox.verification.comparisons import Ledgers, Leg, Piece, hop_leg, whole_leg
from relaybox.verification.reading import SliceRead, StoreRead
from tests.support.world import World, routes_file

PLAN_1, PLAN_2 = UUID(int=1), UUID(int=2)
OUTBOX_BATCHES = (
    LedgerBatch(1, PLAN_1, ("flights",), "1:1:", "9:9:", 0, 30, 1, 5, (Slice(1, 10, 20, 1, 3), Slice(2, 21, 30, 4, 2))),
    LedgerBatch(2, PLAN_2, ("flights",), "9:9:", "12:12:", 0, 40, 6, 9, (Slice(1, 31, 40, 6, 4),)),
)
LOG_BATCHES = (LedgerBatch(1, PLAN_1, None, None, None, 0, 4, 1, 4, (Slice(1, 1, 4, 1, 4),)),)


@pytest.fixture
def route(tmp_path: Path) -> Route:
    return World(routes_file(tmp_path)).route


@pytest.fixture
def ledgers(route: Route) -> list[Ledgers]:
    """Hop 1 planned nine messages and published five of them; hop 2 has four of these. Three more wait in the outbox."""
    first = Ledgers(
        route.hops[0],
        Source(HopRegistration("hub", "cascade", ("flights",), ()), None, 9, OUTBOX_BATCHES, 3),
        Destination(7, "airline", ("flights",), 5, (LedgerArrival(1, PLAN_1, 1, 5, 2, 2, 5),), 8),
    )
    second = Ledgers(
        route.hops[1],
        Source(HopRegistration("analytics", "cascade", (), ()), 7, 4, LOG_BATCHES, 1),
        Destination(8, "hub", ("flights",), 4, (LedgerArrival(1, PLAN_1, 1, 4, 1, 1, 4),), 4),
    )
    return [first, second]


def outbox(first_read: int, last_read: int, first_position: int, through_position: int) -> SliceRead:
    return SliceRead(None, "1:1:", "9:9:", ("flights",), first_read, last_read, first_position, through_position)


def test_a_hop_is_compared_slice_by_slice_as_far_as_it_is_published(route: Route, ledgers: list[Ledgers]) -> None:
    """Batch 2 has not arrived: its messages, and those that wait, are in flight."""
    assert hop_leg(ledgers[0]) == Leg(
        name="flights/1",
        source=route.path[0],
        destination=route.path[1],
        log_id=7,
        through_position=5,
        planned_position=9,
        highest_position=8,
        in_flight=7,
        pieces=(
            Piece(1, 1, 3, outbox(10, 20, 1, 3), SliceRead(7, None, None, None, 1, 3, 1, 3)),
            Piece(1, 2, 2, outbox(21, 30, 4, 5), SliceRead(7, None, None, None, 4, 5, 4, 5)),
        ),
        contradictions=(),
    )


def test_a_hop_that_reads_a_log_is_compared_with_that_log(ledgers: list[Ledgers]) -> None:
    """Positions of the upstream log on one side, its own on the other."""
    (piece,) = hop_leg(ledgers[1]).pieces
    assert piece == Piece(1, 1, 4, SliceRead(7, None, None, None, 1, 4, 1, 4), SliceRead(8, None, None, None, 1, 4, 1, 4))
    assert hop_leg(ledgers[1]).in_flight == 1


def test_the_whole_way_is_compared_past_the_stores_between(route: Route, ledgers: list[Ledgers]) -> None:
    """The origin's slices are looked for in the last log, as far as that is published: four messages, of two slices."""
    assert whole_leg(route, ledgers) == Leg(
        name="flights",
        source=route.path[0],
        destination=route.path[2],
        log_id=8,
        through_position=4,
        planned_position=4,
        highest_position=4,
        in_flight=8,
        pieces=(
            Piece(1, 1, 3, outbox(10, 20, 1, 3), SliceRead(8, None, None, None, 1, 3, 1, 3)),
            Piece(1, 2, 1, outbox(21, 30, 4, 4), SliceRead(8, None, None, None, 4, 4, 4, 4)),
        ),
        contradictions=(),
    )


def test_slices_beyond_the_last_store_are_left_out_of_the_whole_way(route: Route, ledgers: list[Ledgers]) -> None:
    """The last store has three messages: the second slice, which begins at the fourth, is not compared."""
    behind = replace(ledgers[1], destination=replace(ledgers[1].destination, published_position=3))
    (piece,) = whole_leg(route, [ledgers[0], behind]).pieces
    assert (piece.slice, piece.row_count) == (1, 3)


def test_nothing_is_less_than_nothing_in_flight(route: Route, ledgers: list[Ledgers]) -> None:
    """A source that lost its ledger planned less than has arrived; that is a contradiction and no message in flight."""
    lost = replace(ledgers[0], source=replace(ledgers[0].source, planned_position=0, planned=(), waiting_count=0))
    assert hop_leg(lost).in_flight == whole_leg(route, [lost, ledgers[1]]).in_flight == 0
    (contradiction,) = hop_leg(lost).contradictions
    assert contradiction == (
        "batch 1 is published but not in the ledger of the source: the source lost history. "
        "See what is missing with: relaybox reanchor flights/1"
    )
    waiting = replace(ledgers[0], source=replace(ledgers[0].source, planned_position=5, waiting_count=0))
    assert hop_leg(waiting).in_flight == 0


def test_what_was_confirmed_and_is_not_there_is_compared_and_not_in_flight(ledgers: list[Ledgers]) -> None:
    """Batch 2 was confirmed as received, and the destination ends at batch 1: its four messages are due, and named as missing."""
    told = replace(ledgers[0], confirmed={"flights/1": LedgerConfirmation(2, 9)})
    leg = hop_leg(told)
    assert ([piece.batch for piece in leg.pieces], leg.in_flight, leg.through_position) == ([1, 1, 2], 3, 9)
    (told,) = leg.contradictions
    assert told.endswith("as airline has confirmed; hub ends at batch 1, position 5: 4 messages are confirmed and not there")


def test_a_loss_on_record_is_in_flight_until_it_is_sent_again(ledgers: list[Ledgers]) -> None:
    """`relaybox reanchor --reason` said so: batch 2 is sent again."""
    told = replace(ledgers[0], confirmed={"flights/1": LedgerConfirmation(2, 9, resend_through=2)})
    assert (hop_leg(told).in_flight, hop_leg(told).contradictions) == (7, ())


def test_the_origin_knows_no_more_of_a_later_hop_than_has_arrived(route: Route, ledgers: list[Ledgers]) -> None:
    """End to end: what the origin was told of the last hop is due at the last store."""
    first = replace(ledgers[0], confirmed={"flights/2": LedgerConfirmation(2, 5)})
    planned = (*LOG_BATCHES, LedgerBatch(2, PLAN_2, None, None, None, 4, 5, 5, 5, (Slice(1, 5, 5, 5, 1),)))
    second = replace(ledgers[1], source=replace(ledgers[1].source, planned_position=5, planned=planned))
    leg = whole_leg(route, [first, replace(second, confirmed={"flights/2": LedgerConfirmation(1, 4)})])
    assert (leg.through_position, leg.in_flight, sum(piece.row_count for piece in leg.pieces)) == (5, 7, 5)
    copied, gone = leg.contradictions
    assert copied == (
        "hop flights/2 is received through position 5, as airline knows from hub, where it is received through position 4"
    )
    assert gone.endswith("as airline has confirmed; analytics ends at batch 1, position 4: 1 message is confirmed and not there")


def test_what_was_dropped_somewhere_is_not_compared_but_counted(ledgers: list[Ledgers]) -> None:
    """The outbox begins at seq 21: the first slice, three messages, can't be read again. Or the log does, at position 4."""
    dropped = replace(ledgers[0], source=replace(ledgers[0].source, first_kept_read=21))
    forgotten = replace(ledgers[0], destination=replace(ledgers[0].destination, first_kept_position=4))
    for one in (dropped, forgotten):
        leg = hop_leg(one)
        assert ([piece.slice for piece in leg.pieces], leg.no_longer_kept) == ([2], 3)
    both = replace(dropped, destination=replace(ledgers[0].destination, first_kept_position=6))
    assert (hop_leg(both).pieces, hop_leg(both).no_longer_kept) == ((), 5)


def test_a_whole_way_counts_what_the_origin_or_the_last_store_has_dropped(route: Route, ledgers: list[Ledgers]) -> None:
    """Of four messages that came through, three are gone, in the outbox or at the end."""
    dropped = replace(ledgers[0], source=replace(ledgers[0].source, first_kept_read=21))
    forgotten = replace(ledgers[1], destination=replace(ledgers[1].destination, first_kept_position=4))
    for pair in ([dropped, ledgers[1]], [ledgers[0], forgotten]):
        leg = whole_leg(route, pair)
        assert ([piece.slice for piece in leg.pieces], leg.no_longer_kept) == ([2], 3)


def test_adopted_batches_are_neither_compared_nor_gone(ledgers: list[Ledgers]) -> None:
    """Batch 1 was found delivered: its messages are compared one by one elsewhere. Batch 2 has arrived, four messages."""
    adopted = replace(OUTBOX_BATCHES[0], adopted=True)
    published = (LedgerArrival(1, PLAN_1, 1, 5, 2, 2, 5), LedgerArrival(2, PLAN_2, 6, 9, 1, 1, 4))
    one = replace(
        ledgers[0],
        source=replace(ledgers[0].source, planned=(adopted, OUTBOX_BATCHES[1]), first_kept_read=21),
        destination=replace(ledgers[0].destination, published_position=9, published=published),
    )
    leg = hop_leg(one)
    assert ([piece.batch for piece in leg.pieces], leg.no_longer_kept) == ([2], 0)
    gone = hop_leg(replace(one, source=replace(one.source, first_kept_read=41)))
    assert (gone.pieces, gone.no_longer_kept) == ((), 4)


def test_nothing_is_gone_where_nothing_was_dropped(ledgers: list[Ledgers]) -> None:
    """Three positions were confirmed that no batch has: they are missing. Dropped below the same number in both stores, messages are gone."""
    told = replace(ledgers[0], confirmed={"flights/1": LedgerConfirmation(3, 12)})
    assert (hop_leg(told).through_position, hop_leg(told).no_longer_kept) == (12, 0)
    alike = replace(
        told,
        source=replace(told.source, first_kept_read=4),
        destination=replace(told.destination, first_kept_position=4),
    )
    assert hop_leg(alike).no_longer_kept == 6


def test_a_batch_of_one_message_at_the_very_end_is_compared(ledgers: list[Ledgers]) -> None:
    """Its first position is its last one, and the last that is published."""
    last = LedgerBatch(2, PLAN_2, ("flights",), "9:9:", "12:12:", 0, 31, 6, 6, (Slice(1, 31, 31, 6, 1),))
    published = (LedgerArrival(1, PLAN_1, 1, 5, 2, 2, 5), LedgerArrival(2, PLAN_2, 6, 6, 1, 1, 1))
    one = replace(
        ledgers[0],
        source=replace(ledgers[0].source, planned_position=6, planned=(OUTBOX_BATCHES[0], last)),
        destination=replace(ledgers[0].destination, published_position=6, published=published),
    )
    assert [piece.row_count for piece in hop_leg(one).pieces] == [3, 2, 1]


def test_a_slice_that_has_not_arrived_is_not_compared_though_its_batch_is_due(ledgers: list[Ledgers]) -> None:
    """Three positions are published: the second slice begins behind them."""
    one = replace(ledgers[0], destination=replace(ledgers[0].destination, published_position=3))
    assert [piece.slice for piece in hop_leg(one).pieces] == [1]


def test_nothing_is_due_of_what_is_sent_again_to_an_empty_log(ledgers: list[Ledgers]) -> None:
    """All was confirmed, all was lost on record: no position must be there, not even the first."""
    one = replace(ledgers[0], destination=replace(ledgers[0].destination, published_position=0))
    assert one.due_position(LedgerConfirmation(2, 9, resend_through=2)) == 0
    assert replace(one, source=replace(one.source, resend_through=2)).due_position(LedgerConfirmation(2, 9)) == 0


def test_only_a_first_hop_reads_an_outbox(ledgers: list[Ledgers]) -> None:
    assert [hop_leg(one).reads_outbox for one in ledgers] == [True, False]


def test_a_way_past_a_restored_store_is_compared_where_its_messages_stand_now(route: Route, ledgers: list[Ledgers]) -> None:
    """The second hop adopted the first four messages, ten positions further on: each piece is read there, and known as adopted."""
    adopted = LedgerBatch(1, PLAN_1, None, None, None, 0, 4, 11, 14, (Slice(1, 1, 4, 11, 4),), adopted=True)
    second = replace(
        ledgers[1],
        source=replace(ledgers[1].source, planned=(adopted,), planned_position=14),
        destination=replace(
            ledgers[1].destination,
            published_position=14,
            published=(LedgerArrival(1, PLAN_1, 11, 14, 1, 1, 4),),
            first_kept_position=11,
        ),
    )
    leg = whole_leg(route, [ledgers[0], second])
    assert [piece.destination for piece in leg.pieces] == [
        SliceRead.of_log(8, 1, 3, shift=10),
        SliceRead.of_log(8, 4, 4, shift=10),
    ]
    assert [leg.is_adopted(log_position) for log_position in (None, 0, 1, 4, 5)] == [False, False, True, True, False]
    assert leg.pair(leg.pieces[0]) == (
        StoreRead(route.path[0], leg.pieces[0].source),
        StoreRead(route.path[2], leg.pieces[0].destination),
    )


def test_a_store_is_not_asked_what_it_knows_of_its_own_hop(route: Route, ledgers: list[Ledgers]) -> None:
    """What the last hop's source has confirmed and is gone is the hop's own contradiction; the whole way does not tell it again."""
    told = replace(ledgers[1], confirmed={"flights/2": LedgerConfirmation(2, 9)})
    assert whole_leg(route, [ledgers[0], told]).contradictions == ()


def test_a_loss_on_record_at_a_later_store_is_no_contradiction_at_the_origin(route: Route, ledgers: list[Ledgers]) -> None:
    """The origin was told of batch 2; the hop sends it again, as its own source knows."""
    first = replace(ledgers[0], confirmed={"flights/2": LedgerConfirmation(2, 5)})
    second = replace(ledgers[1], confirmed={"flights/2": LedgerConfirmation(2, 5, resend_through=2)})
    assert whole_leg(route, [first, second]).contradictions == ()


def test_a_way_of_three_hops_ends_at_the_last_one(route: Route, ledgers: list[Ledgers]) -> None:
    """Its third hop has brought two of the four messages."""
    hop = replace(route.hops[1], number=3, source=route.path[2], destination=route.path[0])
    third = Ledgers(
        hop,
        Source(
            HopRegistration("airline", "cascade", (), ()), 8, 2, (replace(LOG_BATCHES[0], slices=(Slice(1, 1, 2, 1, 2),)),), 0
        ),
        Destination(9, "analytics", ("flights",), 2, (LedgerArrival(1, PLAN_1, 1, 2, 1, 1, 2),), 2),
    )
    leg = whole_leg(route, [*ledgers, third])
    assert (leg.log_id, leg.through_position, [piece.row_count for piece in leg.pieces]) == (9, 2, [2])
