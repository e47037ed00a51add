"""`relaybox trials` on the command line: compared, promoted and dropped; tests/spark/test_trials_command.py runs one with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cli import Run, invoke
from tests.support.derivations import HERE, ROUTE, STORE, DerivedWorld
from tests.support.services import break_service, read_service
from tests.support.streams import deliver
from tests.support.trials import TWO, Row, derive_all, late, trial, trials, tried, try_all, versions, with_next
from tests.support.world import World

ODD = "\x1b[2Jbetter m3"


@pytest.fixture
def delays(world: World) -> DerivedWorld:
    """Version 1 has a candidate, version 2, and has derived from six messages."""
    delays = with_next(world)
    deliver(world, 6)
    derive_all(delays)
    return delays


def better(position: int) -> list[Row]:
    """Of three messages it makes something else: of 3 another payload, of 4 none, of 5 one more."""
    match position:
        case 3:
            return [{"key": "k0", "payload": ODD}]
        case 4:
            return []
        case 5:
            return [*late(5), {"key": "k5", "payload": "more m5"}]
        case _:
            return late(position)


def text_of(run: Run) -> str:
    return " ".join(run.stdout.split())


def failure(run: Run) -> dict[str, Any]:
    """The error that a command with --json wrote; it has a next step."""
    error: dict[str, Any] = run.document["error"]
    assert error["exit_code"] == run.exit_code
    assert error["next_step"]
    return error


def test_compare_counts_by_topic_and_shows_each_difference(delays: DerivedWorld) -> None:
    """What a payload has of control characters does not reach the terminal."""
    try_all(delays, better)
    shown = invoke("trials", "compare", ROUTE)
    assert shown.exit_code == 0, shown.stderr
    text = text_of(shown)
    assert f"trial 1: version 2 ({HERE}:twos) against version 1, stream positions 1 to 6" in text
    assert "3 keys with differences" in text
    assert "\x1b" not in shown.stdout
    assert "\\x1b" in shown.stdout
    found = invoke("trials", "compare", ROUTE, "--json").document
    assert (found["trial"]["trial_id"], found["trial"]["done_stream_position"], found["is_equal"]) == (1, 6, False)
    assert found["topics"] == [{"topic": ROUTE, "equal": 4, "changed": 1, "only_old": 1, "only_new": 1}]
    assert [(one["difference"], one["stream_position"], one["old_payload"], one["new_payload"]) for one in found["samples"]] == [
        ("changed", 3, "late m3", ODD),
        ("only_new", 5, None, "more m5"),
        ("only_old", 4, "late m4", None),
    ]
    without = invoke("trials", "compare", ROUTE, "--samples", "0", "--json").document
    assert without == {**found, "samples": []}
    assert invoke("trials", "compare", ROUTE, "--samples", "-1").exit_code == 2


def test_compare_says_how_far_a_trial_is_that_is_not_done(delays: DerivedWorld) -> None:
    with trial(delays) as opened:
        attempt = opened.begin_attempt(4, "test")
        assert attempt is not None
        opened.fail(attempt, "a mistake", dead_letter=False)
        attempt = opened.begin_attempt(1, "test")
        assert attempt is not None
        opened.fail(attempt, "a mistake", dead_letter=True)
    text = text_of(invoke("trials", "compare", ROUTE))
    assert "stream positions 1 to 6, of which it has derived up to 1 so far" in text
    assert "The function fails for 1 message, which it left out." in text


def test_promote_shows_the_comparison_and_asks(delays: DerivedWorld) -> None:
    """Whoever says no, or is no terminal, promotes nothing."""
    try_all(delays, better)
    for answer in ("n\n", ""):
        refused = invoke("trials", "promote", ROUTE, "--reason", "better", answer=answer)
        assert refused.exit_code == 1
        assert "End version 1 and promote version 2?" in refused.stdout
        assert "3 keys with differences" in text_of(refused)
        assert (versions(delays), trials(delays)) == ([1], [(2, "open", None)])
    done = invoke("trials", "promote", ROUTE, "--reason", "better", answer="y\n")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.endswith("delays: version 2 derives from stream position 7 on\n")
    assert (versions(delays), trials(delays), tried(delays)) == ([1, 2], [(2, "promoted", "better")], [])


def test_promote_without_a_question_is_for_scripts_and_may_be_repeated(delays: DerivedWorld) -> None:
    try_all(delays, start="4", through="5")
    asked = invoke("trials", "promote", ROUTE, "--reason", "better", "--json")
    assert (asked.exit_code, failure(asked)["next_step"]) == (2, "Add --yes.")
    assert versions(delays) == [1]
    promote = ("trials", "promote", ROUTE, "--reason", "better", "--republish", "--yes", "--json")
    expected = {"route": ROUTE, "trial_id": 1, "version": 2, "state": "promoted", "first_stream_position": 4}
    for _ in range(2):
        assert invoke(*promote).document == expected
    assert versions(delays) == [1, 2]


def test_a_next_version_that_was_not_tried_is_not_promoted(delays: DerivedWorld) -> None:
    """The newest trial of the route promoted version 2. The file goes on to version 3, of the same function."""
    try_all(delays)
    assert invoke("trials", "promote", ROUTE, "--reason", "better", "--yes").exit_code == 0
    delays.configure(**TWO, next={**TWO, "version": 3})
    refused = invoke("trials", "promote", ROUTE, "--reason", "better still", "--yes", "--json")
    error = failure(refused)
    assert (refused.exit_code, error["kind"]) == (5, "RequestRefused")
    assert error["message"] == "version 3 of the derivation of route delays was never tried in store hub."
    assert error["next_step"] == "Try it: relaybox trials run delays"
    assert versions(delays) == [1, 2]


def test_a_changed_or_unfinished_trial_is_not_promoted_and_the_error_names_the_command(delays: DerivedWorld) -> None:
    with trial(delays) as opened:
        assert opened.begin_attempt(4, "test") is not None
    unfinished = invoke("trials", "promote", ROUTE, "--reason", "better", "--yes", "--json")
    assert (unfinished.exit_code, failure(unfinished)["kind"]) == (5, "RequestRefused")
    assert "has derived from stream positions 1 to 0 only, of 1 to 6" in failure(unfinished)["message"]
    assert "Run relaybox trials run delays, compare again" in failure(unfinished)["next_step"]
    try_all(delays)
    delays.configure(**{"with": f"{HERE}:copies", "next": {**TWO, "with": f"{HERE}:odd_ones"}})
    changed = invoke("trials", "promote", ROUTE, "--reason", "better", "--yes", "--json")
    assert (changed.exit_code, failure(changed)["kind"]) == (5, "DerivationChanged")
    assert "relaybox trials drop delays --reason WHY" in failure(changed)["next_step"]
    delays.configure(**{"with": f"{HERE}:copies", "next": {**TWO, "with": "no_such_module:late"}})
    missing = invoke("trials", "promote", ROUTE, "--reason", "better", "--yes", "--json")
    assert missing.exit_code == 2
    assert (
        "routes.delays.derive.next.with: no_such_module:late: the import of no_such_module failed" in failure(missing)["message"]
    )
    assert (versions(delays), trials(delays)) == ([1], [(2, "open", None)])


def test_drop_ends_a_trial_also_when_the_file_has_no_next_any_more(delays: DerivedWorld) -> None:
    try_all(delays)
    delays.configure(**{"with": f"{HERE}:copies"})
    assert invoke("trials", "compare", ROUTE).exit_code == 0
    dropped = invoke("trials", "drop", ROUTE, "--reason", "worse", "--json")
    assert dropped.document == {
        "route": ROUTE, "trial_id": 1, "version": 2, "state": "dropped", "first_stream_position": None,
    }  # fmt: skip
    assert (versions(delays), trials(delays), tried(delays)) == ([1], [(2, "dropped", "worse")], [])
    delays.configure(**{"with": f"{HERE}:copies", "next": TWO})
    try_all(delays)
    assert invoke("trials", "drop", ROUTE, "--reason", "worse").stdout == "delays: trial 2 of version 2 is dropped\n"
    promoted = invoke("trials", "promote", ROUTE, "--reason", "better", "--yes", "--json")
    assert (promoted.exit_code, failure(promoted)["kind"]) == (5, "RequestRefused")
    assert "trial 2 of version 2 of route delays was dropped at" in failure(promoted)["message"]


@pytest.mark.parametrize("command", [("compare",), ("drop", "--reason", "worse"), ("promote", "--reason", "better", "--yes")])
def test_without_a_trial_each_command_says_how_to_begin_one(delays: DerivedWorld, command: tuple[str, ...]) -> None:
    refused = invoke("trials", command[0], ROUTE, *command[1:], "--json")
    error = failure(refused)
    assert (refused.exit_code, error["kind"]) == (5, "RequestRefused")
    never = "version 2 of the derivation of route delays was never tried in store hub."
    assert error["message"] == (never if command[0] == "promote" else "route delays has no open trial in store hub.")
    assert error["next_step"].endswith(": relaybox trials run delays")


@pytest.mark.parametrize("command", ["drop", "promote"])
def test_an_end_needs_a_reason(delays: DerivedWorld, command: str) -> None:
    try_all(delays)
    more = ["--yes"] if command == "promote" else []
    without = invoke("trials", command, ROUTE, *more, "--json")
    assert (without.exit_code, failure(without)["message"]) == (2, "Missing option '--reason'.")
    blank = invoke("trials", command, ROUTE, "--reason", "  ", *more, "--json")
    assert (blank.exit_code, failure(blank)["kind"]) == (5, "RequestRefused")
    assert "reason" in failure(blank)["message"]
    assert trials(delays) == [(2, "open", None)]


@pytest.mark.parametrize("command", [("run",), ("promote", "--reason", "better", "--yes")])
def test_a_route_without_a_next_version_has_nothing_to_try(delays: DerivedWorld, command: tuple[str, ...]) -> None:
    """It is said before Spark starts."""
    delays.configure(**{"with": f"{HERE}:copies"})
    for route, says in (
        (ROUTE, "route delays has no key derive.next"),
        ("flights", "route flights has no section derive"),
        ("no_such_route", "no_such_route"),
    ):
        refused = invoke("trials", command[0], route, *command[1:], "--json")
        assert (refused.exit_code, failure(refused)["kind"]) == (2, "ConfigurationError")
        assert says in failure(refused)["message"]


def test_a_comparison_says_what_retention_has_taken_from_it(delays: DerivedWorld) -> None:
    try_all(delays)
    delays.world.query(STORE, "delete from relaybox.outbox where seq <= 4")
    text = text_of(invoke("trials", "compare", ROUTE))
    assert "Compared from 5 on: the outbox does not keep all of version 1 before that." in text
    assert invoke("trials", "compare", ROUTE, "--json").document["compared_from"] == 5


@pytest.fixture
def reader(delays: DerivedWorld) -> Iterator[str]:
    """A trial is open. The login of the service file is a reader's."""
    try_all(delays)
    delays.world.query(STORE, "create role trial_reader login password 'secret' in role relaybox_reader")
    before = read_service(STORE)
    break_service(STORE, user="trial_reader", password="secret")
    yield "trial_reader"
    break_service(STORE, **before)
    delays.world.query(STORE, "drop role trial_reader")


def test_a_reader_compares_and_ends_nothing(delays: DerivedWorld, reader: str) -> None:
    """It may read the messages anyway."""
    assert invoke("trials", "compare", ROUTE).exit_code == 0, reader
    for command in ("drop", "promote"):
        more = ["--yes"] if command == "promote" else []
        refused = invoke("trials", command, ROUTE, "--reason", "better", *more, "--json")
        assert refused.exit_code == 5
        assert "permission denied" in failure(refused)["message"]
