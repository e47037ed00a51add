"""Files that change, stores that are restored, rows that are dropped, in whatever order: nothing that was committed is lost (G12)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from relaybox.recovery.reanchoring import reanchor_hop
from tests.faults.change_cells import ChangeCell, change_cells, machine_in, restore_cells, run_change_cell
from tests.faults.change_machine import INIT_STATEMENTS, ChangeMachine
from tests.faults.changes import BOTH, CHANGES
from tests.faults.lives import in_lives, lives_of
from tests.faults.restores import RESTORES, MakeWorld, restore

pytestmark = pytest.mark.thorough

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "4"))
STEPS = 25


@contextmanager
def life(make_small: MakeWorld, *, batch_rows: int, both: bool) -> Iterator[ChangeMachine]:
    """One life whose steps a test chooses; at its end everything must have arrived."""
    with make_small() as (world, databases), machine_in(world, databases, batch_rows=batch_rows, both=both) as machine:
        yield machine


def one_each() -> Iterator[ChangeCell]:
    """A cell of each change, further on each time."""
    for number, what in enumerate(sorted(CHANGES.keys() - {"route_brought_back"})):
        cells = [cell for cell in change_cells() if cell.what == what]
        yield cells[number * len(cells) // len(CHANGES)]


IN_THE_SUITE = list(one_each())[::2]
"""Every second change once, at failpoints all over the transfer, its opposite often before it; all of them: `make test-faults`."""


@pytest.mark.parametrize("cell", IN_THE_SUITE, ids=str)
def test_g12_a_file_that_changes_at(cell: ChangeCell, make_small: MakeWorld, tmp_path: Path) -> None:
    """The driver that is there finishes or is followed; nothing that was committed is lost."""
    with make_small() as (world, databases):
        run_change_cell(cell, world, databases, tmp_path)


def test_g12_changes_and_restores_have_their_turns() -> None:
    """However failpoints come and go."""
    assert {cell.what for cell in change_cells()} == CHANGES.keys() - {"route_brought_back"}
    assert {cell.stores for cell in restore_cells()} == set(RESTORES)
    assert {cell.failpoint for cell in change_cells()} == {cell.failpoint for cell in restore_cells()}


def test_g12_the_rest_of_a_capped_batch_outlives_the_removal_of_its_topic(make_small: MakeWorld) -> None:
    """A driver died, the topic went, retention came: what was not planned is kept."""
    with life(make_small, batch_rows=2, both=True) as machine:
        machine.send(40, BOTH, True)
        machine.transfer_and_die(number=0, which=0, slices=0)
        machine.change("topic_removed", 0)
        machine.change("topic_removed", 1)
        machine.transfer(0, 0)
        machine.transfer(1, 0)
        machine.settle(0)
        machine.retention(0)


def test_g12_a_hop_goes_on_when_nothing_is_left_of_a_capped_batch(make_small: MakeWorld) -> None:
    """The rest of the pair holds no message of the topics of today: new ones move all the same."""
    with life(make_small, batch_rows=1, both=True) as machine:
        machine.send(1, ("flights",), True)
        machine.hold_open(0)
        machine.send(20, ("weather",), True)
        machine.transfer_and_die(number=0, which=0, slices=0)
        machine.change("topic_removed", 0)
        machine.transfer(0, 0)
        machine.send(3, ("flights",), True)
        machine.transfer(0, 0)
        machine.account.look()
        assert len(machine.account.logs["flights/1"]) == 4


def test_g12_a_topic_goes_and_comes_back(make_small: MakeWorld) -> None:
    """What was sent before it went, while it was away, and while nothing had moved since: each once, in its order."""
    with life(make_small, batch_rows=5, both=True) as machine:
        machine.send(4, BOTH, True)
        machine.transfer(0, 0)
        machine.send(2, ("weather",), True)
        machine.change("topic_removed", 0)
        machine.send(2, ("weather",), True)
        machine.send(1, ("flights",), True)
        machine.transfer(0, 0)
        machine.send(2, ("weather",), True)
        machine.change("topic_added", 0)
        machine.send(2, ("weather",), True)
        machine.transfer(0, 0)


def test_g12_a_reanchored_hop_whose_undelivered_topic_is_removed_reads_on(make_small: MakeWorld) -> None:
    """Undelivered rows of a removed topic are no way to lose what comes after them."""
    with life(make_small, batch_rows=5, both=True) as machine:
        machine.send(4, ("flights",), True)
        machine.transfer(0, 0)
        machine.back_up()
        machine.send(2, ("flights",), True)
        machine.transfer(0, 0)
        restore(machine.backup.copy, machine.databases, ("airline",))
        machine.account.restore({"airline": machine.backup.remembered["airline"]})
        machine.send(6, ("weather",), True)
        hop = machine.hop_of(0, 0)
        reanchor_hop(hop, machine.world.routes, recorded_by="test", reason="restored", dry_run=False)
        machine.change("topic_removed", 0)
        machine.transfer(0, 0)
        machine.send(3, ("flights",), True)
        machine.transfer(0, 0)
        machine.send(5, ("flights",), True)
        machine.transfer(0, 0)
        machine.account.look()
        assert len(machine.account.logs["flights/1"]) == 14


def test_g12_a_topic_that_is_added_is_moved_before_it_may_be_dropped(make_small: MakeWorld) -> None:
    """What was kept for a topic that no route had is no message that was delivered."""
    with life(make_small, batch_rows=5, both=False) as machine:
        machine.send(20, ("weather",), True)
        machine.send(4, ("flights",), True)
        machine.transfer(0, 0)
        machine.transfer(1, 0)
        machine.change("topic_added", 0)
        machine.send(8, BOTH, True)
        machine.transfer(0, 0)
        machine.transfer(1, 0)
        machine.settle(0)
        machine.retention(0)


def test_g12_what_was_given_up_is_not_moved_when_its_topic_comes_back(make_small: MakeWorld) -> None:
    """Given up behind the frontier of the hop, which had looked at other topics last."""
    with life(make_small, batch_rows=5, both=True) as machine:
        machine.send(4, BOTH, True)
        machine.transfer(0, 0)
        machine.change("topic_removed", 0)
        machine.send(3, ("weather",), True)
        machine.retire_weather()
        machine.change("topic_added", 0)
        machine.send(2, ("weather",), True)
        machine.transfer(0, 0)
        assert machine.account.look() == []
        assert sorted(machine.account.logs["flights/1"].values()) == ["f1", "f3", "w2", "w4", "w8", "w9"]


def test_g12_new_messages_pass_through_a_store_that_was_restored_with_its_source(make_small: MakeWorld) -> None:
    """Two stores go back together; what is sent then takes the positions of what was lost, and is no less a message."""
    with life(make_small, batch_rows=5, both=False) as machine:
        machine.send(6, ("flights",), True)
        machine.transfer(0, 0)
        machine.transfer(1, 0)
        machine.settle(0)
        machine.back_up()
        machine.send(9, ("flights",), True)
        machine.transfer(0, 0)
        machine.transfer(1, 0)
        machine.settle(0)
        machine.restore(("airline", "hub"), 12)


def test_g12_a_refused_change_of_order_changes_nothing(make_small: MakeWorld) -> None:
    """Before anything was delivered a half-done change is finished or taken back; afterwards no store has any of it."""
    with life(make_small, batch_rows=5, both=True) as machine:
        machine.change_order(INIT_STATEMENTS // 2)
        machine.send(6, BOTH, True)
        machine.transfer(0, 0)
        machine.change_order(None)  # the last store would still take it
        machine.send(2, BOTH, True)


@pytest.mark.parametrize(("stores", "topics"), [(("airline",), ("flights",)), (("hub",), ("weather",))])
def test_g12_topics_that_change_with_a_restore(make_small: MakeWorld, stores: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """What was delivered, planned and kept of the topic that goes, before and after the copy, comes once when it is back."""
    with life(make_small, batch_rows=3, both=True) as machine:
        machine.send(6, BOTH, True)
        machine.transfer(0, 0)
        machine.back_up()
        machine.transfer_and_die(number=1, which=0, slices=1)
        machine.send(8, BOTH, True)
        machine.transfer_and_die(number=0, which=0, slices=1)
        machine.transfer(1, 0)
        machine.restore(stores, 4, topics)
        machine.send(3, BOTH, True)
        machine.transfer(0, 0)


@pytest.mark.parametrize("same_timeline", [False, True], ids=["another cluster", "a snapshot"])
def test_g12_a_store_goes_back_while_a_batch_is_copied_from_its_end(make_small: MakeWorld, same_timeline: bool) -> None:
    """What the lost plan left beyond the next batch's slices stops the hop until it is reanchored, and nothing stays of it."""
    with life(make_small, batch_rows=5, both=True) as machine:
        machine.send(3, BOTH, True)
        machine.transfer(0, 0)
        machine.back_up()
        machine.send(5, BOTH, True)
        machine.transfer_and_die(number=0, which=0, slices=2, from_the_last=True)
        machine.restore(("airline",), 1, BOTH, same_timeline)
        machine.send(5, BOTH, True)
        machine.transfer(0, 0)


@pytest.mark.timeout(60 + 60 * EXAMPLES)
def test_g12_whatever_changes_in_whatever_order(make_small: MakeWorld) -> None:
    """Committed is kept, or has arrived; in the end everything that is kept has arrived, in its topic's order, once."""

    phases = [Phase.explicit, Phase.reuse, Phase.generate]  # a life takes seconds: it is told as it was
    lives = lives_of(STEPS, examples=EXAMPLES, examples_by_default=4, phases=phases)
    run_state_machine_as_test(in_lives(ChangeMachine, make_small), settings=lives)
