"""A trial with real Spark: what the next version makes of the past is compared with what was sent, and nothing of it is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from relaybox.errors import ConfigurationError, DerivationFailed
from relaybox.spark.derivations.deriving import Derived, derive
from relaybox.spark.derivations.trials import Trial
from relaybox.spark.derivations.trying import try_next
from relaybox.spark.tasks import ContextSession
from tests.spark.command import relaybox
from tests.spark.frames import serve
from tests.support.derivations import HERE, ROUTE, DerivedWorld
from tests.support.streams import deliver
from tests.support.trials import attempts, compare, counts, derive_all, drop, promote, trials, tried, versions
from tests.support.world import World

ROOT = Path(__file__).parents[2]
COPIES = {"with": f"{HERE}:copies"}


@pytest.fixture
def delays(frames: SparkSession, world: World) -> DerivedWorld:
    serve(frames)
    return DerivedWorld(world)


def copied(delays: DerivedWorld, count: int, function: str, **derive: object) -> None:
    """Version 1, which copies, has derived from this many messages; the next one is another function."""
    delays.configure(**COPIES, **derive, next={"with": f"{HERE}:{function}", "version": 2})
    delays.world.register()
    deliver(delays.world, count)
    derive_all(delays, make=lambda position: [{"key": f"k{position % 7}", "payload": f"late m{position}"}])


def run(frames: SparkSession, delays: DerivedWorld) -> tuple[Trial, Derived]:
    return try_next(delays.route, ContextSession(frames.sparkContext), recorded_by="test")


def test_a_trial_shows_what_another_function_changes_and_its_promotion_makes_it_so(
    frames: SparkSession, delays: DerivedWorld
) -> None:
    copied(delays, 10, "later", batch_rows=4)
    sent = delays.sent()
    trial, done = run(frames, delays)
    assert (trial.trial_id, trial.is_done, done) == (1, True, Derived(ROUTE, 2, attempts=3, messages=10, derived=9))
    assert run(frames, delays)[1] == Derived(ROUTE, 2)
    assert delays.sent() == sent
    found = compare(delays)
    assert counts(found) == {"equal": 8, "changed": 1, "only_old": 1, "only_new": 0}
    assert [(one.difference, one.stream_position, one.old_payload, one.new_payload) for one in found.samples] == [
        ("changed", 2, "late m2", "later m2"),
        ("only_old", 4, "late m4", None),
    ]
    promote(delays, republish=True)
    done = derive(delays.route, delays.derivation, ContextSession(frames.sparkContext), recorded_by="test")
    assert (done, versions(delays)) == (Derived(ROUTE, 2, attempts=3, messages=10, derived=9), [1, 2])
    assert delays.sent()[len(sent) :] == ["late m1", "later m2", "late m3", *(f"late m{number}" for number in range(5, 11))]


def test_a_query_that_changes_nothing_is_equal(frames: SparkSession, delays: DerivedWorld) -> None:
    """Also in other batches than those that version 1 had."""
    copied(delays, 10, "later")
    query = "select stream_position, key, concat('late ', payload) as payload from flights"
    delays.configure(**COPIES, batch_rows=3, next={"sql": query, "version": 2})
    run(frames, delays)
    assert compare(delays).is_equal


def test_an_aggregate_has_no_single_cause_and_is_compared_by_topic_and_key(frames: SparkSession, delays: DerivedWorld) -> None:
    copied(delays, 6, "counts")
    run(frames, delays)
    assert counts(compare(delays)) == {"equal": 0, "changed": 0, "only_old": 6, "only_new": 3}
    assert all(one.stream_position is None for one in compare(delays).samples if one.difference == "only_new")


def test_a_function_that_fails_stops_the_trial_and_the_next_run_goes_on_there(frames: SparkSession, delays: DerivedWorld) -> None:
    """The present version goes on."""
    copied(delays, 12, "no_tens", batch_rows=8)
    for _ in range(2):
        with pytest.raises(DerivationFailed, match=r"stream positions 9 to 12: \S+:no_tens failed: .*bad row m10.*") as failed:
            run(frames, delays)
        assert str(failed.value.next_step).startswith("Run relaybox trials drop delays --reason WHY, fix the function")
    assert [state for state, *_ in attempts(delays)] == ["done", "failed", "failed"]
    assert len(tried(delays)) == 8
    deliver(delays.world, 2)
    derive_all(delays)
    assert len(delays.sent()) == 14
    assert trials(delays) == [(2, "open", None)]


def test_a_message_for_which_the_function_fails_is_left_out_and_counted(frames: SparkSession, delays: DerivedWorld) -> None:
    copied(delays, 12, "no_tens", row_errors="dead_letter")
    _, done = run(frames, delays)
    assert done.dead_letters == 1
    assert compare(delays).set_aside == 1
    assert delays.world.query("hub", "select from relaybox_internal.dead_letter") == []


def test_a_function_that_fails_for_each_message_names_the_way_out(frames: SparkSession, delays: DerivedWorld) -> None:
    copied(delays, 6, "never", row_errors="dead_letter", dead_letter_limit=3)
    with pytest.raises(DerivationFailed, match=r"fails for 3 messages, one after the other") as failed:
        run(frames, delays)
    assert str(failed.value.next_step).startswith("Run relaybox trials drop delays --reason WHY, fix the function")


def test_a_module_that_is_not_there_begins_no_trial(frames: SparkSession, delays: DerivedWorld) -> None:
    copied(delays, 1, "later")
    delays.configure(**COPIES, next={"with": "no_such_module:later", "version": 2})
    with pytest.raises(ConfigurationError, match=r"routes\.delays\.derive\.next\.with: no_such_module:later: the import"):
        run(frames, delays)
    assert trials(delays) == []


def test_the_command_runs_a_trial(delays: DerivedWorld) -> None:
    """On a Spark of its own."""
    copied(delays, 10, "later")
    shown = relaybox(delays.world, ROOT, "trials", "run", ROUTE, "--from", "2", "--through", "9")
    assert shown.returncode == 0, shown.stderr
    assert " ".join(shown.stdout.split()) == (
        "delays: trial 1 of version 2, stream positions 2 to 9: 7 messages derived from 8 messages in 1 attempt. Nothing was sent. "
        "Next: relaybox trials compare delays"
    )
    assert counts(compare(delays)) == {"equal": 6, "changed": 1, "only_old": 1, "only_new": 0}


@pytest.mark.thorough
def test_the_command_answers_in_json(delays: DerivedWorld) -> None:
    """Errors too, with the next step."""
    copied(delays, 4, "later")
    found = json.loads(relaybox(delays.world, ROOT, "trials", "run", ROUTE, "--from", "2", "--json").stdout)
    assert (found["trial_id"], found["version"], found["old_version"], found["source_name"]) == (1, 2, 1, f"{HERE}:later")
    assert (found["first_stream_position"], found["last_stream_position"], found["done_stream_position"]) == (2, 4, 4)
    drop(delays)
    delays.configure(**COPIES, next={"with": f"{HERE}:raises", "version": 2})
    failed = relaybox(delays.world, ROOT, "trials", "run", ROUTE, "--json")
    error = json.loads(failed.stdout)["error"]
    assert (failed.returncode, error["kind"]) == (5, "DerivationFailed")
    assert f"stream positions 1 to 4: {HERE}:raises failed: ValueError: no such airline" in error["message"]
    assert error["next_step"].startswith("Run relaybox trials drop delays --reason WHY, fix the function")
