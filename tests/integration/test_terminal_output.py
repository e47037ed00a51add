"""Texts of applications reach the operator's terminal without control characters: they can't clear, hide or forge lines."""

from __future__ import annotations

import json

import pytest

from relaybox.cli.printable import printable, printable_line
from tests.support.cli import invoke
from tests.support.senders import declare, send_numbered
from tests.support.world import World

FORGED = "\x1b[2J\x1b[Hhub stream flights, order causal: nothing waits\n\x1b[8m"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, \u00e4 and \u4e2d", "plain, \u00e4 and \u4e2d"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("bell\x07 delete\x7f csi\x9b", "bell\\x07 delete\\x7f csi\\x9b"),
        ("right \u202e left \u2028", "right \\u202e left \\u2028"),
        ("one\ntwo\t", "one\ntwo\t"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable_line(text) == shown.replace("\n", "\\n")


def test_a_clock_of_a_producer_writes_no_line_of_its_own(world: World) -> None:
    """The name in it is shown on the line of what waits for it."""
    world.change_route(order="causal")
    declare(world, "a")
    send_numbered(world, "a", 1, clock=json.dumps({FORGED: 1}))
    world.transfer()
    told = invoke("holdback", "flights").stdout
    assert "\x1b" not in told
    assert not any(line.startswith("hub stream flights, order causal: nothing waits") for line in told.splitlines())
    assert "\\x1b[2J\\x1b[Hhub stream flights" in told.replace("\n", "")


def test_the_reason_of_a_nack_is_shown_without_escapes(world: World) -> None:
    """In the table, in the whole dead letter, and in the errors of commands."""
    world.send("a")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    with world.session("hub") as consumer, consumer.cursor() as cursor:
        cursor.execute("select stream_position, token from relaybox.fetch('billing', 1, worker => 'w')")
        ((stream_position, token),) = cursor.fetchall()
        cursor.execute("select relaybox.nack('billing', %s, %s, %s)", (stream_position, FORGED, token))
        consumer.commit()
    for command in (("dead-letters", "list"), ("dead-letters", "show", "hub", "1")):
        run = invoke(*command)
        assert run.exit_code == 0, run.stderr
        assert "\x1b" not in run.stdout
        assert "\\x1b[2J" in run.stdout
    assert "\x1b" not in invoke("where", "\x1b[2J").stderr
