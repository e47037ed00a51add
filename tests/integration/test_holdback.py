"""`relaybox holdback` and `relaybox skip`: who waits for what, and going on without it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from relaybox.streams.holdback import MOST_REPAIRS, Gap, read_store_holdback
from tests.support.cli import invoke
from tests.support.senders import declare, reasons, send_caused, send_numbered, skip, stream
from tests.support.services import break_service, read_service
from tests.support.world import World

pytestmark = pytest.mark.thorough

SENDER_KEYS = {
    "sender", "epoch", "origin", "delivered_through", "missing", "held_count", "first_held_index", "held_since", "stalled_after",
    "stalled_reason", "waiting_count", "causes", "repairs",
}  # fmt: skip


@pytest.fixture
def fifo(world: World) -> World:
    world.change_route(order="fifo")
    declare(world, "a", "b")
    return world


@pytest.fixture
def causal(world: World) -> World:
    world.change_route(order="causal")
    declare(world, "a", "b")
    return world


def held(store: str) -> list[dict[str, Any]]:
    answer = invoke("holdback", "flights", "--json")
    assert answer.exit_code == 0, answer.stderr
    (one,) = (one for one in answer.document["stores"] if one["store"] == store)
    return list(one["senders"])


def skipped(world: World, store: str = "hub") -> list[tuple[Any, ...]]:
    return world.query(
        store, "select sender, epoch, first_index, last_index, reason from relaybox_internal.skip order by skip_id"
    )


def test_nothing_waits_in_a_route_without_disorder(world: World) -> None:
    world.send("one")
    world.transfer_all()
    assert [store["senders"] for store in invoke("holdback", "--json").document["stores"]] == [[], []]
    assert invoke("holdback").stdout.splitlines() == [
        "hub stream flights, order none: no message is held",
        "analytics stream flights, order none: no message is held",
    ]


def test_a_gap_is_named_with_who_waits_since_when_and_the_command_that_gives_it_up(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 4, 5, 9)
    send_numbered(fifo, "b", 1)
    fifo.transfer()
    (waits,) = held("hub")
    assert set(waits) == SENDER_KEYS
    assert (waits["sender"], waits["epoch"], waits["origin"], waits["delivered_through"]) == ("a", 1, "airline", 1)
    assert (waits["missing"], waits["held_count"], waits["first_held_index"]) == (
        [{"first_index": 2, "last_index": 3}, {"first_index": 6, "last_index": 8}],
        3,
        4,
    )
    assert waits["held_since"] == fifo.value("hub", "select min(held_at) from relaybox_internal.held").isoformat()
    assert waits["repairs"] == ['relaybox skip flights a --reason "..."']
    assert held("analytics") == []
    shown = invoke("holdback", "flights").stdout
    assert "a: index 2 to 3, 6 to 8 is missing" in shown
    assert 'relaybox skip flights a --reason "..."' in shown


def test_a_stalled_sender_is_named_with_its_reason_and_what_waits_in_the_log(fifo: World) -> None:
    fifo.change_route(order="fifo", limits={"holdback_rows": 3})
    send_numbered(fifo, "a", 2, 3, 4)
    fifo.transfer()
    send_numbered(fifo, "a", 6, 5)
    fifo.transfer()
    (waits,) = held("hub")
    assert (waits["stalled_reason"], waits["stalled_after"], waits["waiting_count"], waits["held_count"]) == (
        "holdback_full",
        3,
        2,
        3,
    )
    assert waits["missing"] == [{"first_index": 1, "last_index": 1}]
    assert "stalled: holdback_full; 2 messages after log position 3 wait in the log" in invoke("holdback").stdout


def test_the_printed_command_gives_the_gap_up_at_every_store_once(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 4)
    fifo.transfer_all()
    command = held("hub")[0]["repairs"][0].replace("...", "pump replaced")
    first = invoke(*shlex.split(command)[1:])
    assert first.stdout.splitlines() == [
        "hub: indexes 2 to 3 of a, epoch 1, skipped; 1 message released",
        "analytics: indexes 2 to 3 of a, epoch 1, skipped; 1 message released",
    ]
    assert stream(fifo) == stream(fifo, "analytics") == ["a1", "a4"]
    assert skipped(fifo) == skipped(fifo, "analytics") == [("a", 1, 2, 3, "pump replaced")]
    assert "with relaybox" in fifo.value("hub", "select skipped_by from relaybox_internal.skip")
    again = invoke(*shlex.split(command)[1:])
    assert again.exit_code == 0
    assert again.stdout.splitlines() == [
        f"{store}: nothing skipped; no such gap: delivered through index 4, none held" for store in ("hub", "analytics")
    ]
    assert skipped(fifo) == [("a", 1, 2, 3, "pump replaced")]


def test_a_gap_that_an_earlier_store_fills_is_on_its_way_and_can_not_be_skipped(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 3)
    fifo.transfer_all()
    send_numbered(fifo, "a", 2)
    fifo.transfer()
    for arguments in (["a"], ["a", "--store", "analytics"], ["a", "--through", "2", "--store", "analytics"]):
        assert "analytics: nothing skipped; no such gap: index 2, which hub has, is on its way" in skip(*arguments).stdout
    fifo.transfer_all()
    assert stream(fifo) == stream(fifo, "analytics") == ["a1", "a2", "a3"]


def test_a_store_that_lags_gives_up_no_more_than_the_one_before_it(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 9)
    fifo.transfer_all()
    send_numbered(fifo, "a", 5)
    fifo.transfer()
    assert "indexes 2 to 4" in skip("a").stdout
    assert skipped(fifo) == skipped(fifo, "analytics") == [("a", 1, 2, 4, "lost by hand")]
    fifo.transfer_all()
    skip("a")
    fifo.transfer_all()
    assert stream(fifo) == stream(fifo, "analytics") == ["a1", "a5", "a9"]


def test_a_store_further_down_gives_the_gap_up_before_anything_waits_for_it(fifo: World) -> None:
    send_numbered(fifo, "a", 1)
    fifo.transfer_all()
    send_numbered(fifo, "a", 3)
    fifo.transfer()
    assert "analytics: index 2 of a, epoch 1, skipped; 0 messages released" in skip("a").stdout
    fifo.transfer_all()
    assert stream(fifo) == stream(fifo, "analytics") == ["a1", "a3"]


def test_a_skip_through_an_index_stops_there_and_may_not_reach_over_what_is_held(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 5)
    fifo.transfer_all()
    assert "5 is no gap" not in skip("a", "--through", "3", "--store", "hub").stdout
    assert (stream(fifo), skipped(fifo)) == (["a1"], [("a", 1, 2, 3, "lost by hand")])
    refused = skip("a", "--through", "5", exit_code=5)
    assert "4 to 5 is no gap; delivered through index 3, the first held one is 5" in refused.stderr
    send_numbered(fifo, "a", 2, 4)
    fifo.transfer_all()
    assert stream(fifo) == ["a1", "a4", "a5"]
    assert stream(fifo, "analytics") == ["a1", "a2"], "nobody gave up 2 there; 3 is still missing"
    assert reasons(fifo) == [(3, "index_skipped")]


def test_what_can_not_be_skipped_is_refused_with_the_reason(fifo: World) -> None:
    send_numbered(fifo, "a", 1)
    fifo.transfer_all()
    assert "no message with an index has arrived from sender nobody" in skip("nobody", exit_code=5).stderr
    through = skip("nobody", "--through", "3", "--json", exit_code=5)
    assert through.document["error"]["kind"] == "NoSuchGap", "the stores after the first were asked too"
    assert "no message with an index has arrived from sender nobody" in through.stderr
    assert "skip needs a reason" in skip("a", reason=" ", exit_code=2).stderr
    for index in (2**63 - 1, 10**22):
        beyond = skip("a", "--through", str(index), "--json", exit_code=2)
        assert (
            f"index {index} is too large: the last possible index is 9223372036854775806" in beyond.document["error"]["message"]
        )
    assert (
        "store airline does not deliver route flights. Stores that do: hub, analytics"
        in skip("a", "--store", "airline", exit_code=2).stderr
    )


def test_a_message_that_waits_for_its_cause_names_it_and_a_skip_of_the_cause_releases_it(causal: World) -> None:
    send_caused(causal, "a", 1, {"b": 2})
    send_numbered(causal, "b", 1)
    causal.transfer()
    (waits,) = held("hub")
    (cause,) = waits["causes"]
    assert waits["missing"] == []
    assert (cause["sender"], cause["first_index"], cause["last_index"], cause["delivered_through"]) == ("b", 2, 2, 1)
    assert waits["repairs"] == ['relaybox skip flights b --through 2 --reason "..."']
    assert "a waits for b through index 2, epoch 1; delivered through 1" in invoke("holdback").stdout
    assert "index 2 of b, epoch 1, skipped; 1 message released" in skip("b", "--through", "2").stdout
    assert stream(causal) == ["b1", "a1"]


def test_a_cause_of_a_sender_of_which_nothing_came_can_be_given_up(causal: World) -> None:
    send_caused(causal, "a", 1, {"b": 1})
    causal.transfer_all()
    assert held("analytics")[0]["repairs"] == ['relaybox skip flights b --through 1 --reason "..."']
    skip("b", "--through", "1")
    assert stream(causal) == stream(causal, "analytics") == ["a1"]


def test_a_store_that_does_not_answer_hides_no_other(fifo: World) -> None:
    send_numbered(fifo, "a", 2)
    fifo.transfer()
    break_service("analytics", port="1")
    answer = invoke("holdback", "--json")
    assert answer.exit_code == 4
    first, second = answer.document["stores"]
    assert (first["senders"][0]["sender"], second["senders"]) == ("a", [])
    assert "analytics" in second["error"]


def test_a_skip_says_what_it_gave_up_before_a_store_failed(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 4)
    fifo.transfer_all()
    port = read_service("analytics")["port"]
    break_service("analytics", port="1")
    told = skip("a", "--json", exit_code=4)
    gap = {"first_index": 2, "last_index": 3}
    assert told.document["stores"] == [{"store": "hub", "epoch": 1, "gap": gap, "released": 1, "why_not": ""}]
    (error,) = told.document["errors"].items()
    assert error[0] == "analytics"
    assert f"error: {error[1]}" in told.stderr
    shown = skip("a", exit_code=4)
    assert shown.stdout.splitlines() == ["hub: nothing skipped; no such gap: delivered through index 4, none held"]
    break_service("analytics", port=port)
    assert "indexes 2 to 3 of a, epoch 1, skipped" in skip("a").stdout
    assert skipped(fifo) == skipped(fifo, "analytics") == [("a", 1, 2, 3, "lost by hand")]


def test_a_skip_whose_first_store_fails_did_nothing(fifo: World) -> None:
    send_numbered(fifo, "a", 1, 4)
    fifo.transfer_all()
    break_service("hub", port="1")
    assert skip("a", "--json", exit_code=4).document["error"]["kind"] == "StoreUnreachable"
    assert skipped(fifo, "analytics") == [], "what the store before it has, is not known"


def test_a_message_that_waits_for_its_cause_is_set_aside_only_with_the_option_held(causal: World) -> None:
    """Its gap may be filled while an operator gives it up: arrived messages are not given up with it."""
    send_numbered(causal, "a", 2, clock='{"nobody": 1}')
    causal.transfer_all()
    assert held("hub")[0]["repairs"] == ['relaybox skip flights a --reason "..."'], "first its own gap"
    send_numbered(causal, "a", 1, clock='{"b": 1}')
    causal.transfer_all()
    refused = skip("a", "--through", "1", exit_code=5)
    assert "1 to 1 is no gap; delivered through index 0, the first held one is 1" in refused.stderr
    assert held("hub")[0]["repairs"] == ['relaybox skip flights b --through 1 --reason "..."'], "b may send it yet"
    assert "--held needs the index of the held message of sender a" in skip("a", "--held", exit_code=2).stderr
    assert "2 is no gap" in skip("a", "--through", "2", "--held", exit_code=5).stderr, "1 comes first"
    send_numbered(causal, "b", 1)
    causal.transfer()
    assert held("hub")[0]["repairs"] == ['relaybox skip flights a --through 2 --held --reason "..."']
    assert skip("a", "--through", "2", "--held").stdout.splitlines() == [
        "hub: index 2 of a, epoch 1, skipped; 0 messages released",
        "analytics: nothing skipped; no such gap: index 1, which hub has, is on its way",
    ]
    causal.transfer_all()
    skip("a", "--through", "2", "--held")
    send_numbered(causal, "a", 3)
    causal.transfer_all()
    assert stream(causal) == stream(causal, "analytics") == ["b1", "a1", "a3"]
    assert reasons(causal) == reasons(causal, "analytics") == [(1, "index_skipped")]


def test_a_cause_that_is_farther_ahead_than_an_index_may_be_is_not_to_be_given_up(causal: World) -> None:
    """It would take the next million messages of a sender with it."""
    send_caused(causal, "a", 1, {"b": 2_000_000})
    causal.transfer()
    assert held("hub")[0]["repairs"] == ['relaybox skip flights a --through 1 --held --reason "..."']


def test_a_sender_that_waits_for_held_messages_names_the_command_of_what_is_missing(causal: World) -> None:
    """c waits for b, b for a, a for d, which has not come. Each names d, and the command of each can be run."""
    declare(causal, "c", "d")
    send_caused(causal, "a", 1, {"d": 3})
    send_caused(causal, "a", 2, {})
    send_caused(causal, "b", 1, {"a": 2})
    send_caused(causal, "c", 1, {"b": 1})
    causal.transfer()
    waits = {sender["sender"]: sender["repairs"] for sender in held("hub")}
    assert waits == {key: ['relaybox skip flights d --through 3 --reason "..."'] for key in "abc"}
    refused = skip("a", "--through", "2", exit_code=5)
    assert "is no gap" in refused.stderr
    shown = invoke("holdback").stdout
    assert (
        "b waits for a through index 2, epoch 1; delivered through 0; 1 message waits for it; messages of a are held too" in shown
    )
    assert "d through index 3, epoch 1; delivered through 0; 1 message waits for it\n" in shown
    assert invoke(*shlex.split(waits["c"][0])[1:]).exit_code == 0
    assert stream(causal) == ["a1", "a2", "b1", "c1"]


def test_a_gap_behind_a_held_message_is_skipped_only_when_it_is_next(causal: World) -> None:
    """a1 is here and waits for b; a2 is missing, a3 is here. First b, then the gap: at each time the printed commands can be run."""
    send_caused(causal, "a", 1, {"b": 1})
    send_caused(causal, "a", 3, {})
    causal.transfer()
    (first,) = held("hub")
    assert first["missing"] == [{"first_index": 2, "last_index": 2}]
    assert first["repairs"] == ['relaybox skip flights b --through 1 --reason "..."']
    assert own_gaps(causal) == [None]
    skip("b", "--through", "1")
    assert own_gaps(causal) == [Gap(2, 2)]
    (second,) = held("hub")
    assert second["repairs"] == ['relaybox skip flights a --reason "..."']
    skip("a")
    assert stream(causal) == ["a1", "a3"]


def own_gaps(world: World) -> list[Gap | None]:
    """Those that the page offers to skip."""
    (found,) = read_store_holdback(world.routes, world.routes.store("hub"))
    return [sender.own_gap for sender in found.senders]


def test_a_sender_names_no_more_than_so_many_commands(causal: World) -> None:
    """When these are done, it names the others."""
    names = [f"x{number}" for number in range(1, MOST_REPAIRS + 3)]
    declare(causal, *names)
    send_caused(causal, "a", 1, dict.fromkeys(names, 1))
    causal.transfer()
    commands = held("hub")[0]["repairs"]
    assert len(commands) == MOST_REPAIRS
    for command in commands:
        assert invoke(*shlex.split(command)[1:]).exit_code == 0
    assert len(held("hub")[0]["repairs"]) == 2
