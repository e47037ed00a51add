"""The failure rate of a route, from what its ledgers say about attempts."""

from __future__ import annotations

import pytest

from relaybox.errors import ConfigurationError
from relaybox.hops.runners import BatchTooLarge, ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.monitoring.failure_rates import measure_failures
from relaybox.monitoring.retry_plan import MeasuredFailures
from tests.support.cli import invoke
from tests.support.world import World


def fail(world: World) -> None:
    """One attempt at a batch that fails."""
    with pytest.raises(BatchTooLarge):
        transfer_hop(world.first_hop, ThreadRunner(below_rows=1), recorded_by="test")


def test_each_attempt_that_left_its_batch_is_a_failure(world: World) -> None:
    """Three failed, then one resumed the batch; the second hop needed one attempt. What is still being tried does not count."""
    world.send("one")
    for _ in range(3):
        fail(world)
    assert measure_failures(world.route) == MeasuredFailures(attempts=2, failures=2)
    world.transfer_all()
    assert measure_failures(world.route) == MeasuredFailures(attempts=5, failures=3)
    world.send("two")
    world.transfer_all()
    assert measure_failures(world.route) == MeasuredFailures(attempts=7, failures=3)


def test_the_command_plans_from_what_was_measured(world: World) -> None:
    world.send("one")
    fail(world)
    world.transfer_all()
    document = invoke("plan-retries", "flights", "--target", "0.95", "--json").document
    assert document["measured"] == {"attempts": 3, "failures": 1}
    assert document["attempts"] == 3
    shown = invoke("plan-retries", "flights", "--target", "0.95").stdout
    assert "route flights: 1 of 3 attempts at batches failed." in shown
    assert "relaybox.yaml has attempts: 5. Its reliability is 0.995884773662551." in shown


def test_nothing_attempted_is_nothing_known(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"no batch was attempted yet.*Give one with --failure-rate"):
        measure_failures(world.route)
