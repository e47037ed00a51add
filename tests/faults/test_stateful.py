"""Hypothesis decides what happens next: RELAYBOX_TEST_EXAMPLES lives of two hops, of 30 steps each."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.hop_machine import HopMachine
from tests.faults.lives import in_lives, lives_of
from tests.support.world import World

pytestmark = pytest.mark.thorough

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "25"))
STEPS = 30


@pytest.mark.timeout(60 + 20 * EXAMPLES)
def test_whatever_happens_in_whatever_order(make_world: Callable[[], AbstractContextManager[World]]) -> None:
    """Logs stay dense, ordered and unchanged, confirmations true, plans fixed; at the end everything committed has arrived."""
    lives = lives_of(STEPS, examples=EXAMPLES, examples_by_default=25)
    run_state_machine_as_test(in_lives(HopMachine, make_world), settings=lives)
