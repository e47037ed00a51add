"""Texts of applications reach the operator's terminal without control characters: they can't clear, hide or forge lines."""

from __future__ import annotations

import json

import pytest

from relaybox.cli.printable import printable, printable_line
from relaybox.cli.terminal import tables
from tests.support.cli import invoke
from tests.support.senders import declare, send_numbered
from tests.support.world import World, routes_file

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


HOSTILE = "[/x] [red]a:car:\x1b[2J"
SHOWN = "[/x] [red]a:car:\\x1b[2J"
"""No markup of Rich, no picture, no escape sequence: what was written, and the control character as an escape."""

HOSTILE_NAMES = {
    "airline": (
        "insert into relaybox.sender_role (sender, role_name, bound_by) values (':car:', %(name)s, %(name)s)",
        "update relaybox_internal.sender set declared_by = %(name)s",
        "update relaybox_internal.confirmation set recorded_by = %(name)s",
        "update relaybox_internal.attempt set recorded_by = %(name)s, application = %(name)s",
        "update relaybox_internal.store set durability = 'provider', durability_reason = %(name)s, durability_said_by = %(name)s",
    ),
    "hub": (
        "insert into relaybox_internal.subscription_role (subscription, role_name, bound_by) values ('billing', %(name)s, %(name)s)",
        "insert into relaybox_internal.topic_role (topic, role_name, granted_by) values ('flights', %(name)s, %(name)s)",
        "select relaybox.nack('billing', stream_position, %(name)s, token) from relaybox.fetch('billing', 1, worker => 'w')",
        "select relaybox.subscribe('audit', 'flights')",
        "select from relaybox.fetch('audit', 1, worker => %(name)s)",
        "create function relaybox_internal.nothing() returns trigger language plpgsql as $$ begin return new; end $$",
        'create policy "[/x] [red]a:car:\x1b[2J" on relaybox_internal.hop_in using (true)',
        "select relaybox_internal.record_hops_of_file('{}', 'test')",
        "select relaybox_internal.retire_hop('flights/2', %(name)s, %(name)s)",
    ),
}

PRINTING = (
    ("senders",),
    ("status",),
    ("where", "{message_id}"),
    ("subscriptions", "bindings"),
    ("topics",),
    ("dead-letters", "list"),
    ("dead-letters", "show", "hub", "1"),
    ("doctor", "hub"),
    ("consume", "audit", "--store", "hub"),
    ("retire",),
)


def test_names_of_a_store_are_printed_as_they_are(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every command that prints one: with markup of Rich in it, a name is no style, hides nothing, and ends no command."""
    declare(world, ":car:")
    send_numbered(world, ":car:", 1, 2)
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    world.transfer_all()
    for store, statements in HOSTILE_NAMES.items():
        for statement in statements:
            world.query(store, statement.replace("%(name)s", "%s"), *[HOSTILE] * statement.count("%(name)s"))
    message_id = world.value("airline", "select message_id from relaybox.outbox limit 1")
    routes_file(world.path.parent, route={"path": ["airline", "hub"]})
    monkeypatch.setattr(tables, "PIPED_WIDTH", 1000)  # no cell is wrapped
    for command in PRINTING:
        run = invoke(*(word.format(message_id=message_id) for word in command))
        told = run.stdout + run.stderr
        assert "\x1b" not in told, command
        assert SHOWN in told, (command, told)


def test_an_argument_with_markup_is_told_as_it_is(world: World) -> None:
    for command in (("status", HOSTILE), ("doctor", HOSTILE), ("--debug", "transfer", HOSTILE)):
        told = invoke(*command).stderr
        assert "\x1b[2J" not in told, command
        assert "[/x]" in told, (command, told)
