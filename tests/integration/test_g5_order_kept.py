"""G5: if m1's transaction had committed before m2 was inserted into the same outbox, m1's position is lower."""

from __future__ import annotations

import threading

import pytest

from tests.support.world import World, insert


@pytest.mark.parametrize("batch_rows", [16, 10_000])
def test_g5_an_effect_never_precedes_its_cause(world: World, batch_rows: int) -> None:
    """Pairs over two sessions: the cause commits, then the effect is inserted. With slow writers open beside them."""
    world.change_route(limits={"batch_rows": batch_rows, "slice_rows": 8})
    pair_count, chain_count = 40, 4

    def chain(number: int) -> None:
        with world.session() as causes, world.session() as effects:
            for n in range(pair_count):
                insert(causes, f"{number} {n} cause")
                causes.commit()
                insert(effects, f"{number} {n} effect")
                effects.commit()

    chains = [threading.Thread(target=chain, args=(number,)) for number in range(chain_count)]
    with world.session() as slow:
        insert(slow, "slow")
        for thread in chains:
            thread.start()
        while any(thread.is_alive() for thread in chains):
            world.transfer()
        slow.commit()
    world.transfer_all()
    for hop in ("flights/1", "flights/2"):
        stream_position = {payload: log_position for log_position, payload in enumerate(world.payloads(hop))}
        assert len(stream_position) == pair_count * chain_count * 2 + 1
        inverted = [
            (number, n)
            for number in range(chain_count)
            for n in range(pair_count)
            if stream_position[f"{number} {n} cause"] > stream_position[f"{number} {n} effect"]
            or (n > 0 and stream_position[f"{number} {n - 1} effect"] > stream_position[f"{number} {n} cause"])
        ]
        assert inverted == []


def test_g5_a_low_xid_that_inserts_late_does_not_overtake_what_it_has_read(world: World) -> None:
    """An old transaction that inserts after a newer one committed comes after it, also when the batch is cut between them."""
    world.change_route(limits={"batch_rows": 1, "slice_rows": 1})
    with world.session() as old, old.cursor() as cursor:
        cursor.execute("select pg_current_xact_id()")
        world.send("read by the old one")
        cursor.execute("select count(*) from relaybox.outbox")
        assert cursor.fetchone() == (1,)
        insert(old, "answer")
        old.commit()
    world.transfer()
    assert world.payloads() == ["read by the old one", "answer"]


def test_g5_messages_of_one_transaction_keep_their_order(world: World) -> None:
    """Insertion order inside a transaction is position order, over slices and batches."""
    world.change_route(limits={"batch_rows": 50, "slice_rows": 7})
    world.send_many(333)
    world.transfer_all()
    assert world.payloads("flights/2") == [f"m{n}" for n in range(1, 334)]


def test_g5_the_sequence_of_the_outbox_caches_nothing(world: World) -> None:
    """CACHE 1 on the sequence, without which a third of the pairs was inverted."""
    assert world.value("airline", "select seqcache from pg_sequence where seqrelid = 'relaybox.outbox_seq'::regclass") == 1


def test_g5_the_second_hop_keeps_the_positions_of_the_first(world: World) -> None:
    """A hop that reads a log keeps its order, position by position, however the batches differ."""
    world.change_route(limits={"batch_rows": 64, "slice_rows": 10})
    for n in range(6):
        world.send_many(50, prefix=f"{n}-")
        world.transfer(world.first_hop)
        if n % 2:
            world.transfer(world.second_hop)
    assert world.query(
        "analytics", "select log_position, message_id, index from relaybox.inbox order by log_position"
    ) == world.query("hub", "select log_position, message_id, index from relaybox.inbox order by log_position")
