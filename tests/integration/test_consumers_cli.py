"""subscriptions, consume, replay and dead-letters on the command line; messages come over a real hop."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import Run, invoke
from tests.support.services import break_service
from tests.support.world import World


@pytest.fixture
def billed(world: World) -> World:
    """Ten messages moved to the hub, and the subscription `billing` there."""
    world.send_many(10)
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    return world


def lines(run: Run) -> list[dict[str, object]]:
    assert run.exit_code == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_consume_prints_each_message_once_as_a_json_line(billed: World) -> None:
    """It finds the store by the subscription, stops after --count, and goes on where it was."""
    first = lines(invoke("consume", "billing", "--count", "4"))
    assert [row["payload"] for row in first] == ["m1", "m2", "m3", "m4"]
    assert set(first[0]) >= {
        "stream_position",
        "lane",
        "message_id",
        "topic",
        "sender",
        "index",
        "key",
        "payload",
        "sent_at",
        "replayed",
    }
    assert [row["stream_position"] for row in lines(invoke("consume", "billing"))] == [5, 6, 7, 8, 9, 10]
    assert invoke("consume", "billing").stdout == ""


def test_consume_says_which_lanes_are_leased_to_whom_until_when(billed: World) -> None:
    """Beside another worker it prints nothing, and says why on stderr."""
    billed.query("hub", "select from relaybox.fetch('billing', 3, worker => 'w-1')")
    until = billed.value("hub", "select leased_until from relaybox.lag('billing')")
    beside = invoke("consume", "billing")
    assert (beside.exit_code, beside.stdout) == (3, "")
    assert f"subscription billing: lane 1 is leased to worker w-1 until {until}" in beside.stderr
    assert "(stream positions behind: 10)" in beside.stderr
    assert "0 messages were printed; 1 lane has more." in beside.stderr
    billed.query(
        "hub",
        "select relaybox.ack('billing', 3, token => (select min(token) from relaybox.fetch('billing', 3, worker => 'w-1')))",
    )
    assert len(lines(invoke("consume", "billing"))) == 7
    assert invoke("consume", "billing").stderr == ""


def test_consume_can_subscribe_first(billed: World) -> None:
    """To a stream or a topic, from anywhere; asking for the same again is told."""
    arguments = ("consume", "look", "--store", "hub", "--subscribe", "flights", "--from", "9")
    assert [row["payload"] for row in lines(invoke(*arguments))] == ["m9", "m10"]
    again = invoke(*arguments)
    assert again.exit_code == 5
    assert "store hub has the subscription look already; nothing was changed" in again.stderr
    assert "Leave --subscribe out: relaybox consume look --store hub." in again.stderr
    lane = invoke("consume", "other", "--store", "hub", "--subscribe", "flights", "--lane", "5")
    assert lane.exit_code == 2
    assert "--lane 5: a subscription that --subscribe makes has one lane; nothing was made" in lane.stderr
    assert billed.value("hub", "select count(*) from relaybox.subscriptions where subscription = 'other'") == 0


def test_subscriptions_lists_how_far_each_is(billed: World) -> None:
    invoke("consume", "billing", "--count", "4")
    (one,) = invoke("subscriptions", "--json").document["subscriptions"]
    assert (
        one["store"],
        one["subscription"],
        one["stream"],
        one["done_stream_position"],
        one["last_stream_position"],
        one["stream_positions_behind"],
    ) == (
        *("hub", "billing", "flights"),
        *(4, 10, 6),
    )
    shown = invoke("subscriptions").stdout
    assert "billing" in shown
    assert "live" in shown
    assert invoke("subscriptions", "analytics").stdout == "No subscriptions.\n"


@pytest.mark.parametrize("command", ["subscriptions", "topics", "operators", "senders", "dead-letters"])
def test_a_store_that_could_not_be_read_is_not_said_to_have_nothing(billed: World, command: str) -> None:
    """The list says which stores it does not know, and ends with the code of their error."""
    assert billed
    break_service("analytics", password="wrong")
    one = invoke(command, "analytics")
    assert (one.stdout, one.exit_code) == ("Could not be read: analytics.\n", 5)
    assert "analytics" in one.stderr
    for store in ("airline", "hub"):
        break_service(store, password="wrong")
    every = invoke(command)
    assert (every.stdout, every.exit_code) == ("Could not be read: airline, analytics, hub.\n", 5)
    retire = invoke("retire")
    assert (retire.stdout, retire.exit_code) == ("Could not be read: airline, analytics, hub.\n", 5)
    consume = invoke("consume", "billing")
    assert "If another store has subscription billing, name it: --store." in consume.stderr


def test_replay_counts_first_and_moves_when_it_is_told_why(billed: World) -> None:
    invoke("consume", "billing")
    counted = invoke("replay", "billing", "--from", "3", "--json").document
    assert (counted["first_stream_position"], counted["last_stream_position"], counted["message_count"], counted["dry_run"]) == (
        3,
        10,
        8,
        True,
    )
    assert "Nothing was changed" in invoke("replay", "billing", "--from", "3").stdout
    assert invoke("consume", "billing").stdout == ""
    assert invoke("replay", "billing", "--from", "3", "--reason", "again").exit_code == 0
    assert "replaying" in invoke("subscriptions").stdout
    assert [(row["stream_position"], row["replayed"]) for row in lines(invoke("consume", "billing", "--count", "2"))] == [
        (3, True),
        (4, True),
    ]
    assert invoke("replay", "billing", "--cancel", "--reason", "enough").exit_code == 0
    assert invoke("consume", "billing").stdout == ""


def test_an_empty_replay_is_said_to_be_empty_and_changes_nothing(billed: World) -> None:
    """In the same words whether it is asked for or only counted."""
    invoke("consume", "billing", "--count", "4")
    for asked in (
        ("--from", "7"),
        ("--from", "7", "--reason", "again"),
        ("--from", "latest", "--second-cursor", "--reason", "x"),
    ):
        empty = invoke("replay", "billing", *asked)
        assert empty.exit_code == 0
        assert "billing: 0 messages from stream position " in empty.stdout
        assert "Nothing was changed." in empty.stdout
    begun = invoke("replay", "billing", "--from", "7", "--reason", "again", "--json").document
    assert (begun["replayed_as"], begun["message_count"]) == (None, 0)
    assert [one["subscription"] for one in invoke("subscriptions", "--json").document["subscriptions"]] == ["billing"]


def test_replay_with_a_cursor_of_its_own(billed: World) -> None:
    begun = invoke(
        "replay",
        "billing",
        "--from",
        "2",
        "--through",
        "5",
        "--second-cursor",
        "--rows-per-second",
        "100",
        "--reason",
        "look",
        "--json",
    ).document
    assert begun["replayed_as"] == "billing.replay-1"
    assert "replay of billing" in invoke("subscriptions").stdout


def test_dead_letters_are_listed_shown_redriven_and_dropped(billed: World) -> None:
    for stream_position in (3, 5):
        billed.query(
            "hub",
            "select relaybox.nack('billing', %s, 'no customer', min(token)) from relaybox.fetch('billing')",
            stream_position,
        )
    first, second = invoke("dead-letters", "list", "--json").document["dead_letters"]
    assert invoke("dead-letters", "--json").document["dead_letters"] == [first, second]
    assert invoke("dead-letters", "hub", "--json").document["dead_letters"] == [first, second]
    assert [(one["stream_position"], one["reason"], one["detail"], one["payload"]) for one in (first, second)] == [
        (3, "refused", "no customer", "m3"),
        (5, "refused", "no customer", "m5"),
    ]
    assert "refused: no customer" in invoke("dead-letters", "list").stdout
    assert "m3" in invoke("dead-letters", "show", "hub", str(first["dead_letter_id"])).stdout
    dropped = invoke("dead-letters", "drop", "hub", str(first["dead_letter_id"]), "--reason", "test data")
    assert dropped.exit_code == 0
    redriven = invoke("dead-letters", "redrive", "billing", "--reason", "customer made", "--json").document
    assert redriven["redriven"] == 1
    assert [row["stream_position"] for row in lines(invoke("consume", "billing"))] == [1, 2, 4, 6, 7, 8, 9, 10, 5]
    assert invoke("dead-letters", "list").stdout == "No dead letters.\n"
    assert len(invoke("dead-letters", "list", "--all", "--json").document["dead_letters"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("consume", "bililng"), 5, "There are: hub: billing."),
        (("replay", "billing"), 2, "replay needs --from, or --cancel"),
        (("replay", "billing", "--cancel"), 2, 'Run: relaybox replay billing --cancel --reason "..."'),
        (("replay", "billing", "--cancel", "--reason", "x"), 5, "subscription billing replays nothing"),
        (("replay", "billing", "--from", "2999-01-01", "--reason", "x"), 5, "2999-01-01 is in the future"),
        (("replay", "billing", "--from", "yesterdya"), 5, "is no start"),
        (("consume", "new", "--subscribe", "flights"), 2, "--subscribe needs --store"),
        (("dead-letters", "show", "hub", "99"), 5, "store hub has no dead letter 99"),
        (("dead-letters", "drop", "hub", "99", "--reason", "x"), 5, "there is no dead letter 99"),
    ],
)
def test_what_goes_wrong_is_told_with_the_next_step(billed: World, arguments: tuple[str, ...], code: int, said: str) -> None:
    ended = invoke(*arguments)
    assert ended.exit_code == code
    assert said in ended.stderr


def test_consuming_from_a_store_without_the_schema_is_told_what_to_run(billed: World) -> None:
    """Not in Postgres' words alone."""
    billed.query("analytics", "drop schema relaybox, relaybox_internal cascade")
    refused = invoke("consume", "look", "--store", "analytics")
    assert refused.exit_code == 5
    assert refused.stderr.rstrip().endswith("Run: relaybox init")


@pytest.mark.parametrize(
    ("command", "kind", "exit_code"),
    [
        (("where", "01a1fc57-61bd-7659-92d2-53639fb0a769"), "UnknownMessage", 5),
        (("verify", "no-such-route"), "ConfigurationError", 2),
        (("replay", "no-such-subscription", "--from", "1"), "NotSubscribed", 5),
        (("dead-letters", "show", "hub", "4711"), "DeadLetterNotOpen", 5),
    ],
)
def test_an_error_of_a_command_with_json_is_json_on_stdout(
    billed: World, command: tuple[str, ...], kind: str, exit_code: int
) -> None:
    """Which error, what it says, what to do; in words on stderr too. Without --json stdout stays empty."""
    told = invoke(*command, "--json")
    error = told.document["error"]
    assert (told.exit_code, error["exit_code"], error["kind"], error["retry_may_help"]) == (exit_code, exit_code, kind, False)
    assert f"error: {error['message']}" in told.stderr
    assert error["next_step"] in told.stderr
    assert invoke(*command).stdout == ""
