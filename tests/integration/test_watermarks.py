"""Confirmations at the ends of batches, one position before and one after; ledgers at the edge of what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.breaking import copy_first_slices
from tests.support.world import World

ENDS = (2, 5, 9)
"""Last positions of the three batches that arrived."""


@pytest.fixture
def three(world: World) -> World:
    """Batches of 2, 3 and 4 messages arrived, one of 1 is planned; nothing is settled."""
    for last, first in zip(ENDS, (0, *ENDS), strict=False):
        world.send(*(f"m{n}" for n in range(first, last)))
        world.transfer()
    world.send("planned")
    copy_first_slices(world.first_hop, 0)
    return world


@contextmanager
def undone(world: World, store: str) -> Iterator[Any]:
    """A cursor whose transaction is rolled back."""
    with world.session(store) as session, session.cursor() as cursor:
        yield cursor
        session.rollback()


def ends_through(log_position: int) -> int:
    return max((end for end in ENDS if end <= log_position), default=0)


def test_g7_a_watermark_is_the_last_whole_batch_that_arrived(three: World) -> None:
    """Wherever the position offered lies, and never beyond what arrived, nor below what was said before."""
    newest = "select coalesce((select c.through_position from relaybox_internal.newest_confirmation('flights/1', %s) c), 0)"
    for log_position in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 1000):
        for state in ("processed", "settled"):
            with undone(three, "airline") as cursor:
                cursor.execute(f"select relaybox_internal.confirm_{state}('flights/1', %s, now(), 'test')", (log_position,))
                cursor.execute(newest, (state,))
                assert cursor.fetchone() == (ends_through(log_position),), (state, log_position)
                cursor.execute(f"select relaybox_internal.confirm_{state}('flights/1', 2, now(), 'test')")
                cursor.execute(newest, (state,))
                assert cursor.fetchone() == (max(2, ends_through(log_position)),), (state, log_position)
        with undone(three, "airline") as cursor:
            cursor.execute("update relaybox_internal.hop_out set policy = 'processed', processed_by = '{reader}'")
            cursor.execute("select relaybox_internal.confirm_processed('flights/1', 5, now(), 'test')")
            cursor.execute("select relaybox_internal.confirm_settled('flights/1', %s, now(), 'test')", (log_position,))
            assert cursor.fetchone() == (min(5, ends_through(log_position)),), log_position


def test_g7_confirmations_are_found_by_their_state_and_position(three: World) -> None:
    """The first that reached a position; those beyond the positions that the neighbour has, each state by its own."""
    known = [("received", end, str(end)) for end in ENDS] + [("processed", 2, "p2"), ("processed", 5, "p5"), ("settled", 2, "s2")]
    with undone(three, "airline") as cursor:
        cursor.execute("delete from relaybox_internal.confirmation")
        for state, end, name in known:
            cursor.execute(
                "insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by)"
                " values ('flights/1', %s, %s, %s, now(), %s)",
                (state, end, ENDS.index(end) + 1, name),
            )
        for log_position in range(1, 11):
            for state in ("received", "processed", "settled"):
                cursor.execute(
                    "select recorded_by from relaybox_internal.confirmation_of('flights/1', %s, %s)", (state, log_position)
                )
                first = [(name,) for kind, end, name in known if kind == state and end >= log_position][:1]
                assert cursor.fetchall() == first, (state, log_position)
        for after in ((0, 0, 0), (2, 0, 0), (0, 2, 0), (0, 0, 2), (5, 4, 1), (9, 5, 2), (1, 1, 1)):
            cursor.execute(
                "select state, through_position from relaybox_internal.confirmations_after('flights/1', %s, %s, %s)", after
            )
            beyond = dict(zip(("received", "processed", "settled"), after, strict=True))
            assert cursor.fetchall() == sorted((state, end) for state, end, _ in known if end > beyond[state]), after


COPIED = """
insert into relaybox_internal.confirmation (hop, state, through_position, through_batch, happened_at, recorded_by) values
    ('flights/2', 'received', 1, 1, now(), 'test'), ('flights/2', 'settled', 2, 1, now(), 'test'),
    ('flights/2', 'received', 8, 2, now(), 'test'),
    ('others/2', 'received', 1, 1, now(), 'test'), ('others/2', 'received', 8, 2, now(), 'test')
"""
"""Confirmations of hops further down, as they travel back."""


def test_ledgers_end_where_what_is_kept_begins(three: World) -> None:
    """A batch stays while a message of it is kept, while it is not settled, and while it is the newest; at the source and here."""
    ledger = "select array_agg(batch order by batch) from relaybox_internal.{}"
    for settled in (0, *ENDS):
        for kept_from in (1, 2, 3, 5, 6, 9, 10, 20):
            with undone(three, "airline") as cursor:
                cursor.execute("select relaybox_internal.confirm_settled('flights/1', %s, now(), 'test')", (settled,))
                cursor.execute("update relaybox_internal.store set first_kept_seq = %s", (kept_from,))
                cursor.execute("select relaybox_internal.compact_hop_ledgers('flights/1')")
                gone = [n for n, end in enumerate(ENDS, start=1) if end < settled and end < kept_from]
                assert cursor.fetchone() == (len(gone),), (settled, kept_from)
                cursor.execute(ledger.format("batch"))
                assert cursor.fetchone() == ([n for n in (1, 2, 3, 4) if n not in gone],), (settled, kept_from)
                cursor.execute(
                    "select from relaybox_internal.confirmation where hop = 'flights/1' and through_batch <= %s", (len(gone),)
                )
                assert cursor.fetchall() == []
                cursor.execute("select compacted_batch, compacted_position from relaybox_internal.hop_out")
                assert cursor.fetchone() == (len(gone), ends_through(ENDS[len(gone) - 1]) if gone else 0)
    with undone(three, "airline") as cursor:
        cursor.execute(COPIED)
        cursor.execute(
            "update relaybox_internal.store set first_kept_seq = 20; update relaybox_internal.hop_out set retired_at = now(), retired_by = 'test', retired_reason = 'why'"
        )
        cursor.execute("select relaybox_internal.compact_hop_ledgers('flights/1')")
        assert cursor.fetchone() == (3,), "of a retired hop the newest batch stays"
        cursor.execute(
            "select hop, state, through_position from relaybox_internal.confirmation where hop <> 'flights/1' order by 1, 2, 3"
        )
        copied = [
            ("flights/2", "received", 8),
            ("flights/2", "settled", 2),
            ("others/2", "received", 1),
            ("others/2", "received", 8),
        ]
        assert cursor.fetchall() == copied, "the newest of each state stays, and all of another route"
    for kept_from in (1, 2, 3, 5, 6, 9, 10, 20):
        with undone(three, "hub") as cursor:
            cursor.execute("update relaybox_internal.hop_in set first_kept_position = %s", (kept_from,))
            cursor.execute("select relaybox_internal.compact_log_ledgers(1)")
            gone = [n for n, end in enumerate(ENDS[:-1], start=1) if end < kept_from]
            assert cursor.fetchone() == (len(gone),), kept_from
            for table in ("arrival", "receipt", "decision"):
                cursor.execute(ledger.format(table))
                assert cursor.fetchone() == ([n for n in (1, 2, 3) if n not in gone],), (table, kept_from)
            cursor.execute("select compacted_batch, compacted_position from relaybox_internal.hop_in")
            assert cursor.fetchone() == (len(gone), ENDS[len(gone) - 1] if gone else 0)


def test_g8_what_is_sent_again_is_kept_from_its_first_message(world: World) -> None:
    """A destination that lost its tail has settled those batches, and needs them once more: neither one more nor one fewer."""
    for last, first in zip(ENDS, (0, *ENDS), strict=False):
        world.send(*(f"m{n}" for n in range(first, last)))
        world.transfer_all()
    for store, hop in (("airline", "flights/1"), ("hub", "flights/2")):
        world.query(store, "select relaybox_internal.confirm_settled(%s, 9, now(), 'test')", hop)
    holders = {
        "airline": "select needs_from from relaybox_internal.outbox_holders() where kind = 'hop'",
        "hub": "select needs_from from relaybox_internal.log_holders(1) where kind = 'hop'",
    }
    for store, query in holders.items():
        for after, through, needs in ((0, 0, []), (0, 3, [(1,)]), (1, 3, [(3,)]), (2, 3, [(6,)])):
            world.query(store, "update relaybox_internal.hop_out set resend_after = %s, resend_through = %s", after, through)
            assert world.query(store, query) == needs, (store, after, through)


def test_g4_a_new_generation_removes_what_was_staged_and_nothing_else(three: World) -> None:
    """The last published message stays, with its receipt; the next position is free."""
    with undone(three, "hub") as cursor:
        cursor.execute(
            "insert into relaybox_internal.log (log_id, log_position, index, epoch, message_id, sent_at, topic, sender, payload)"
            " values (1, 10, 10, 0, gen_random_uuid(), now(), 'flights', 'UA', 'staged')"
        )
        cursor.execute(
            "insert into relaybox_internal.receipt (log_id, batch, slice, plan_id, row_count, attempt) values (1, 4, 1, gen_random_uuid(), 1, 1)"
        )
        cursor.execute("select relaybox_internal.begin_generation(1, 2)")
        cursor.execute("select array_agg(log_position order by log_position) from relaybox_internal.log")
        assert cursor.fetchone() == (list(range(1, 10)),)
        cursor.execute("select array_agg(batch order by batch) from relaybox_internal.receipt")
        assert cursor.fetchone() == ([1, 2, 3],)
