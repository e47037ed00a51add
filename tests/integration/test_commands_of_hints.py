"""Commands that an error tells an administrator to run: a name that a caller or a producer chose is one word of a shell, and no more."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from relaybox.monitoring.store_findings import find_dead_letters
from relaybox.streams.holdback import read_store_holdback
from relaybox.subscriptions.subscriptions import list_subscriptions
from tests.support.cli import invoke
from tests.support.senders import declare, send_caused
from tests.support.streams import STORE, deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

HOSTILE = [
    "x; touch ran #",
    "$(touch ran)",
    "`touch ran`",
    "x' ; touch ran; '",
    'x" && touch ran "',
    "x\ntouch ran",
    "--config=x",
    "*",
    "|&<>~ä",
]
"""At most 63 bytes each: names of roles too."""

FUNCTIONS = Path(__file__).parents[2] / "sql" / "functions"


def words_of(told: str, begin: str, end: str = "") -> list[str]:
    """What a shell makes of the command in a text that begins so: its words, from a shell in which each other command is an error."""
    found = re.search(f"{re.escape(begin)}.*{re.escape(end)}", told, re.DOTALL)
    assert found is not None, told
    command = found[0].removesuffix(end) if end else found[0]
    shell = subprocess.run(
        ["sh", "-c", f"PATH=/nowhere; relaybox() {{ printf '%s\\0' \"$@\"; }}\n{command}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shell.returncode, shell.stderr) == (0, ""), command
    return shell.stdout.split("\0")[:-1]


@contextmanager
def role(world: World, store: str, name: str, group: str) -> Iterator[Any]:
    """A session of a login of this name, in this group."""
    with world.session(store, autocommit=True) as owner, owner.cursor() as cursor:
        cursor.execute(sql.SQL("create role {} login password 'secret' in role {}").format(*map(sql.Identifier, (name, group))))
        connection = psycopg2.connect(service=store, user=name, password="secret")
        connection.autocommit = True
        try:
            with connection.cursor() as session:
                yield session
        finally:
            connection.close()
            cursor.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(name)))


def hint(cursor: Any, code: str, statement: str, *arguments: object) -> str:
    with pytest.raises(psycopg2.Error) as refused:
        cursor.execute(statement, arguments)
    assert refused.value.pgcode == code
    return str(refused.value.diag.message_hint)


def given(name: str, *before: str) -> list[str]:
    """The words of a command that takes this name."""
    return ["--", *before] if name.startswith("-") else list(before)


@pytest.mark.parametrize("name", HOSTILE)
def test_hints_of_consumers(world: World, name: str) -> None:
    """RB040 of a subscription and of a dead letter, RB041 of a topic: subscription, role and topic are one word each."""
    deliver(world, 2)
    deliver(world, 1, topic=name)
    world.query(STORE, "select relaybox_internal.register_topics('flights', %s)", [name])
    world.query(STORE, "update relaybox_internal.store set bind_subscriptions = true")
    with role(world, STORE, name, "relaybox_consumer") as cursor:
        for call in ("select * from relaybox.fetch(%s)", "select relaybox.unsubscribe(%s, 'why')"):
            told = hint(cursor, "RB040", call, name)
            assert words_of(told, "relaybox subscriptions bind") == ["subscriptions", "bind", *given(name, STORE), name, name]
        told = hint(cursor, "RB040", "select relaybox.drop_dead_letter(1, 'why')")
        assert words_of(told, "relaybox subscriptions bind") == [
            "subscriptions",
            "bind",
            *given(name, STORE),
            "SUBSCRIPTION",
            name,
        ]
        with world.session(STORE, autocommit=True) as owner, owner.cursor() as granting:
            granting.execute(sql.SQL("grant relaybox_operator to {}").format(sql.Identifier(name)))
        for call in ("select relaybox.drop_dead_letter(1, 'why')", "select relaybox.unsubscribe('x', 'why')"):
            told = hint(cursor, "RB040", call)
            words = ["operators", "bind", *given(name, STORE), "STREAM", name]
            assert words_of(told, "relaybox operators bind") == words
        world.query(STORE, "update relaybox_internal.store set bind_subscriptions = false")
        world.query(STORE, "select relaybox_internal.bind_topics(true)")
        told = hint(cursor, "RB041", "select * from relaybox.read_stream('flights', 2, 10)")
        *words, first, second, last = words_of(told, "relaybox topics grant")
        assert (words, {first, second}, last) == (["topics", "grant", *given(name, STORE)], {name, "flights"}, name)


@pytest.mark.parametrize("name", HOSTILE)
def test_hints_of_senders(world: World, name: str) -> None:
    """RB023: a sender that no role may send as, before its name is looked at; RB037: a sender that another store took."""
    world.query("airline", "select relaybox_internal.bind_senders(true)")
    world.query("airline", "alter table relaybox.outbox drop constraint message_is_accepted")
    with role(world, "airline", name, "relaybox_producer") as cursor:
        told = hint(cursor, "RB023", "select relaybox.next_index(%s)", name)
        assert words_of(told, "relaybox senders bind") == ["senders", "bind", *given(name, "STORE"), name, name]


@pytest.mark.parametrize("name", HOSTILE)
def test_the_hint_of_a_dead_letter_of_a_stream(world: World, name: str) -> None:
    """RB037, for a message of a sender that an older or other store let in."""
    world.change_route(order="fifo")
    world.query("airline", "alter table relaybox.outbox drop constraint message_is_accepted")
    world.query("airline", "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', %s, 1, 'x')", name)
    world.transfer()
    for reason, command in (
        ("sender_not_declared", ["declare", *given(name, "airline"), name, "gapless"]),
        ("sender_not_gapless", ["new-epoch", "--kind", "gapless", *given(name, "airline"), name]),
    ):
        world.query("hub", "update relaybox_internal.dead_letter set reason = %s", reason)
        with world.session("hub", autocommit=True) as session, session.cursor() as cursor:
            told = hint(cursor, "RB037", "select relaybox_internal.refuse_dead_letter_of_stream(1)")
        assert words_of(told, f"relaybox senders {command[0]}", "), then send") == ["senders", *command]


def test_the_commands_for_senders_that_are_not_gapless_can_be_run(world: World) -> None:
    """In a causal route an undeclared sender is to be declared, and a sparse one to begin a gapless epoch."""
    world.change_route(order="causal")
    world.query("airline", "select relaybox.declare_sender('probe', 'sparse')")
    world.query("airline", "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'x')")
    world.query("airline", "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'probe', 1, 'x')")
    world.transfer()
    asked = "select relaybox_internal.refuse_dead_letter_of_stream(dead_letter_id) from relaybox.dead_letters where sender = %s"
    for sender, command in (("UA", "declare"), ("probe", "new-epoch")):
        with world.session("hub", autocommit=True) as session, session.cursor() as cursor:
            told = hint(cursor, "RB037", asked, sender)
        words = words_of(told, f"relaybox senders {command}", "), then send")
        assert invoke(*words).exit_code == 0, words


def test_the_commands_of_a_sender_that_begins_with_a_hyphen(world: World) -> None:
    """Such a sender is a plain one for the outbox: the command that `holdback` prints can be run."""
    world.change_route(order="causal")
    declare(world, "-x", "a")
    send_caused(world, "a", 1, {"-x": 1})
    send_caused(world, "-x", 2, {})
    world.transfer()
    (found,) = read_store_holdback(world.routes, world.routes.store("hub"))
    commands = {command for sender in found.senders for command in sender.repairs}
    assert commands == {'relaybox skip flights --reason "..." -- -x'}
    assert "index 1 of -x, epoch 1, skipped" in invoke(*shlex.split(commands.pop())[1:]).stdout


@pytest.mark.parametrize("name", HOSTILE)
def test_commands_that_python_prints(world: World, name: str) -> None:
    """A subscription of a store whose table takes any name, and the name that a command was given."""
    deliver(world, 1)
    world.query(STORE, "alter table relaybox_internal.subscription drop constraint subscription_is_a_plain_name")
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    world.query(STORE, "select relaybox.nack('billing', stream_position, 'no') from relaybox.fetch('billing', 1)")
    world.query(STORE, "update relaybox_internal.subscription set subscription = %s", name)
    (finding,) = find_dead_letters(list_subscriptions(world.routes.store(STORE)))
    assert words_of(finding.next_step, "relaybox dead-letters") == ["dead-letters", "redrive", name, "--reason", "..."]
    if not name.startswith("-"):
        told = invoke("replay", name, "--cancel", "--store", STORE).stderr.strip()
        assert words_of(told, "relaybox replay") == ["replay", name, "--cancel", "--reason", "..."]


PLAIN = {
    "hops/hop_in_use.sql", "hops/refuse_other_source.sql", "hops/confirm_received.sql", "hops/begin_generation.sql", "hops/publish_batch.sql",
    "stores/ensure_outbox_segments.sql", "stores/ensure_log_segments.sql", "stores/outbox_anchor.sql", "stores/refuse_changed_xid.sql", "stores/refuse_changed_view.sql", "stores/refuse_stray_rows.sql", "retention/begin_detach.sql", "retention/refuse_detached.sql", "retention/segment_needed_by.sql",
    "subscriptions/find_log.sql", "subscriptions/refuse_missing_messages.sql", "derivations/begin_derivation_trial.sql", "derivations/lock_derivation_trial.sql", "derivations/promote_derivation_trial.sql",
    "derivations/refuse_changed_trial.sql", "derivations/refuse_second_trial.sql", "streams/last_index_of_gap.sql",
}  # fmt: skip
"""Hints with names of relaybox.yaml alone, which are plain: stores, routes and hops."""


def test_each_command_in_a_hint_quotes_its_names() -> None:
    """A new hint with a value in a command calls shell_words(), or its file is listed as one that has names of relaybox.yaml alone."""
    unquoted = {
        str(path.relative_to(FUNCTIONS))
        for path in FUNCTIONS.rglob("*.sql")
        for text in [path.read_text()]
        if re.search(r"relaybox [a-z]+[a-z -]*(%s|' *\|\|)", text) and "shell_words(" not in text
    }
    assert unquoted == PLAIN
