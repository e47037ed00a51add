"""Who sends: senders that number their messages themselves, their epochs, and what logs say of those that do not."""

from __future__ import annotations

from tests.world import World

READ = "select position, epoch, index, clock, payload from relaybox.read_log(%s)"


def test_a_message_without_an_index_is_numbered_by_its_position_in_epoch_0(world: World) -> None:
    """In the first log and in all further ones; what producers numbered travels as they wrote it."""
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, payload, index, epoch, clock) values "
        "('flights', 'UA', 'plain', null, default, null), ('flights', 'pump', 'own', 7, 3, null), "
        "('flights', 'UA', 'no index, an epoch', null, 5, null), "
        """('flights', 'pump', 'own, caused', 8, default, '{"UA": 1, "hub": [2, 9]}')""",
    )
    world.transfer_all()
    rows = [
        (1, 0, 1, None, "plain"),
        (2, 3, 7, None, "own"),
        (3, 0, 3, None, "no index, an epoch"),
        (4, 1, 8, {"UA": 1, "hub": [2, 9]}, "own, caused"),
    ]
    assert world.query("hub", READ, "flights/1") == world.query("analytics", READ, "flights/2") == rows
    assert world.query("hub", "select position, epoch, index, clock, payload from relaybox.inbox order by position") == rows


def test_sparse_slices_number_in_epoch_0_too(world: World) -> None:
    """A slice whose range has rows of another topic between its own is read by another function."""
    for n in range(3):
        world.send(f"m{n}")
        world.send("of another topic", topic="other")
    world.transfer()
    assert world.query("hub", READ, "flights/1") == [(n + 1, 0, n + 1, None, f"m{n}") for n in range(3)]
