"""Tables that are adopted, changed, let go and adopted again, while files change and stores are restored: each row that is a message
arrives once, in its order, and no other one does (G1, G3, G5, G12)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
from hypothesis import Phase
from hypothesis.stateful import run_state_machine_as_test

from relaybox.adoption import adopting
from tests.faults.adoption_machine import AdoptionMachine
from tests.faults.change_cells import life_of
from tests.faults.change_machine import ChangeMachine
from tests.faults.changes import BOTH
from tests.faults.lives import in_lives, lives_of
from tests.faults.restores import MakeWorld, repair_route, restore

pytestmark = pytest.mark.thorough

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "4"))
STEPS = 25


@contextmanager
def life(make_small: MakeWorld, *, batch_rows: int = 3) -> Iterator[AdoptionMachine]:
    """One life whose steps a test chooses; at its end everything must have arrived."""
    with make_small() as made, life_of(AdoptionMachine, *made, batch_rows=batch_rows, both=True) as machine:
        yield machine


@pytest.mark.parametrize("which", ["plain", "parted"])
@pytest.mark.parametrize("after", [20, 30, 35])
@pytest.mark.parametrize("ends", [False, True], ids=["adopt", "unadopt"])
def test_g12_a_backlog_whose_command_is_killed_while_stores_move_and_drop(
    make_small: MakeWorld, which: str, after: int, ends: bool
) -> None:
    """What is moved goes its way and may be dropped; the rest follows, behind it, or when the adoption ends."""
    with life(make_small) as machine:
        machine.insert(which, 5, BOTH)
        machine.insert(which, 5, BOTH)
        machine.adopt(which, True, False, after=after)
        machine.insert(which, 3, BOTH)
        for hop in (0, 1):
            machine.transfer(hop, 0)
        machine.settle(0)
        machine.retention(0)
        machine.rename_payload(which)
        if ends:
            machine.unadopt(which)
        else:
            machine.adopt(which, True, False)
        machine.insert(which, 2, BOTH)


def test_g11_a_store_that_goes_back_to_a_waiting_backlog_sends_it_again_with_its_ids(make_small: MakeWorld) -> None:
    """docs/adopt.md says so. What is not counted twice is an id."""
    with make_small() as (world, databases):
        machine = in_lives(AdoptionMachine, lambda: nullcontext((world, databases)))()
        machine.build(batch_rows=3, both=True)
        machine.insert("plain", 4, ("flights",))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adopting, "_move_backlog", lambda *_: 0)
            machine.adopt("plain", True, False)
        ChangeMachine.back_up(machine)
        machine.adopt("plain", True, False)
        machine.transfer(0, 0)
        restore(machine.backup.copy, databases, ("airline",))
        routes = machine.world.routes
        repair_route(routes.route("flights"), routes)
        machine.adopt("plain", True, False)
        machine.transfer(0, 0)
        ids = [
            message_id for (message_id,) in world.query("hub", "select message_id from relaybox.inbox where hop = 'flights/1'")
        ]
        assert (len(ids), len(set(ids))) == (8, 4)
        machine.stack.close()


def test_g12_whatever_becomes_of_adopted_tables(make_small: MakeWorld) -> None:
    """In whatever order, with whatever else changes."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    lives = lives_of(STEPS, examples=EXAMPLES, examples_by_default=4, phases=phases)
    run_state_machine_as_test(in_lives(AdoptionMachine, make_small), settings=lives)
