"""Headers and clocks as producers wrote them: no message ends a fetch, and no number is changed on the way to a consumer."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import psycopg2
import pytest
from sqlalchemy import create_engine

from relaybox.consumer import Consumer, Message
from relaybox.documents.dead_letters import DeadLettersDocument
from relaybox.documents.document import json_text
from relaybox.exact_json import read_json, write_json
from relaybox.outbox import CausalSender, put
from relaybox.subscriptions.dead_letters import list_dead_letters
from tests.support.cli import invoke
from tests.support.world import World

UNLIMITED = """
alter table relaybox.outbox drop constraint if exists message_is_accepted
"""
"""What an outbox of an earlier version took, and that of a store elsewhere still may."""

DEEP = 1500
HOSTILE = {
    "a number of 5001 digits": '{"n": 1e5000}',
    "a fraction that no float holds": '{"n": 0.12345678901234567890123}',
    "a fraction below all floats": '{"n": 1e-400}',
    "a large number with a fraction": '{"n": 1e400, "m": 123456789012345678901234567890.5}',
    "deep lists": f'{{"n": {"[" * DEEP}1e5000{"]" * DEEP}}}',
    "deep objects": '{"n": ' * DEEP + '"\\"}]\\u00e4"' + "}" * DEEP,
}


def send(world: World, headers: str | None = None, clock: str | None = None, payload: str = "x") -> None:
    world.query(
        "airline",
        "insert into relaybox.outbox (topic, sender, payload, headers, clock) values ('flights', 'UA', %s, %s, %s)",
        *(payload, headers, clock),
    )


@pytest.fixture
def hostile(world: World) -> World:
    """At the hub: a message with each of the hostile objects in headers and clock, one without, and the subscription `billing`."""
    world.query("airline", UNLIMITED)
    for name, text in HOSTILE.items():
        send(world, text, text, name)
    send(world, payload="after all of them")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    return world


def is_same(world: World, text: str, of: str) -> bool:
    """Whether Postgres finds a text to be the same JSON."""
    return bool(world.value("hub", "select %s::jsonb = %s::jsonb", text, of))


PAYLOADS = [*HOSTILE, "after all of them"]


@pytest.mark.parametrize(
    "store", [lambda: "hub", lambda: create_engine("postgresql+psycopg2://", connect_args={"service": "hub"})]
)
def test_no_message_ends_a_fetch_of_the_consumer(hostile: World, store: Callable[[], Any]) -> None:
    """Each of them arrives with all that its producer wrote, by a service name and by an engine of the application."""
    with Consumer(store(), "billing", max_count=2, until_empty=True) as consumer:
        got = {message.payload: message for message in consumer}
    assert list(got) == PAYLOADS
    assert got["a number of 5001 digits"].headers == {"n": Decimal("1e5000")}
    assert got["a fraction that no float holds"].headers == {"n": Decimal("0.12345678901234567890123")}
    assert got["a fraction below all floats"].clock == {"n": Decimal("1e-400")}
    innermost: Any = (got["deep lists"].headers or {})["n"]
    while isinstance(innermost, list):
        (innermost,) = innermost
    assert innermost == Decimal("1e5000")
    assert got["after all of them"].headers is None


def test_a_handler_that_fails_on_a_message_refuses_this_one_alone(hostile: World) -> None:
    """What Python can't do with a deep object is an error of the handler, and of one message."""

    def handle(_: object, message: Message) -> None:
        repr(message.headers)

    with Consumer("hub", "billing", until_empty=True) as consumer:
        consumer.run(handle)
    assert {letter.payload for letter in list_dead_letters(hostile.routes.store("hub"))} <= {
        "deep lists",
        "deep objects",
        "a number of 5001 digits",
    }
    assert hostile.value("hub", "select sum(stream_positions_behind) from relaybox.lag('billing')") == 0


def test_consume_prints_every_number_as_it_was_sent(hostile: World) -> None:
    printed = invoke("consume", "billing")
    assert printed.exit_code == 0, printed.stderr
    lines = [read_json(line) for line in printed.stdout.splitlines()]
    assert [line["payload"] for line in lines] == PAYLOADS
    for text, line in zip(HOSTILE.values(), printed.stdout.splitlines(), strict=False):
        headers = line[line.index('"headers": ') + 11 : line.index(', "clock": ')]
        clock = line[line.index('"clock": ') + 9 : line.index(', "sent_at": ')]
        assert is_same(hostile, headers, text)
        assert is_same(hostile, clock, text)


def test_dead_letters_show_every_number_as_it_was_sent(hostile: World) -> None:
    """On a terminal, as JSON, one and all."""

    def fail(_: object, message: Message) -> None:
        raise LookupError(message.payload)

    with Consumer("hub", "billing", until_empty=True) as consumer:
        consumer.run(fail)
    listed = invoke("dead-letters", "list", "--json")
    assert listed.exit_code == 0, listed.stderr
    letters = read_json(listed.stdout)["dead_letters"]
    assert [letter["payload"] for letter in letters] == PAYLOADS
    for text, letter in zip(HOSTILE.values(), letters, strict=False):
        number = str(letter["dead_letter_id"])
        for shown in (invoke("dead-letters", "show", "hub", number), invoke("dead-letters", "show", "hub", number, "--json")):
            assert shown.exit_code == 0, shown.stderr
            (line,) = [line for line in shown.stdout.splitlines() if line.lstrip(' "').startswith("headers")]
            assert is_same(hostile, line[line.index("{") :], text)
    assert invoke("dead-letters", "list").exit_code == 0
    page = read_json(json_text(DeadLettersDocument.of(list_dead_letters(hostile.routes.store("hub")), {})))
    assert [write_json(letter["headers"]) for letter in page["dead_letters"]] == [
        write_json(letter["headers"]) for letter in letters
    ]


def test_where_and_status_read_messages_with_such_headers(hostile: World) -> None:
    message_id = hostile.value("hub", "select message_id from relaybox_internal.log where payload = 'deep lists'")
    for command in (["where", str(message_id)], ["status"], ["subscriptions"], ["verify", "flights"], ["holdback"]):
        shown = invoke(*command)
        assert "Traceback" not in shown.stderr
        assert shown.exit_code in (0, 3), (command, shown.stderr)


def test_a_message_is_sent_on_with_the_numbers_that_it_came_with(world: World) -> None:
    """Also where they are Decimals: the helper of producers takes what the consumer gives."""
    text = '{"a": 0.12345678901234567890123, "b": [1.50, 1e-300, 7, true, null], "c": {"d": "ä"}}'
    send(world, text)
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights')")
    with Consumer("hub", "billing", until_empty=True) as consumer:
        (message,) = list(consumer)
    assert message.headers is not None
    assert isinstance(message.headers["b"][0], float)
    with world.session() as connection, connection.cursor() as cursor:
        put(cursor, "flights", "BA", {"price": Decimal("0.10000000000000000000001")}, headers=message.headers)
        connection.commit()
    assert world.value("airline", "select headers::text = %s::jsonb::text from relaybox.outbox where sender = 'UA'", text)
    assert world.value("airline", "select headers = %s::jsonb from relaybox.outbox where sender = 'BA'", text)
    assert (
        world.value("airline", "select payload from relaybox.outbox where sender = 'BA'")
        == '{"price": 0.10000000000000000000001}'
    )


REFUSED = {
    "headers_nest_at_most_64_levels": [f'{{"n": {"[" * 64}{"]" * 64}}}', '{"n": ' * 65 + "1" + "}" * 65],
    "numbers_in_headers_below_1e308": ['{"n": 1e308}', '{"n": [{"m": "x"}, {"m": -1e308}]}', '{"n": 1e5000}'],
}
TAKEN = [
    f'{{"n": {"[" * 63}{"]" * 63}}}',
    '{"n": ' * 64 + "1" + "}" * 64,
    '{"n": 9.99e307, "m": [-9.99e307, 1e-498, 0.12345678901234567890123]}',
    json.dumps({"n": "[" * 500, "a long number in a text": "1" * 2000 + '", 1' + "0" * 2000}),
]


@pytest.mark.parametrize("column", ["headers", "clock"])
def test_the_outbox_refuses_what_other_languages_can_not_read(world: World, column: str) -> None:
    """Deep values and long numbers, by the name of the constraint; brackets and digits in a text are neither."""
    for constraint, texts in REFUSED.items():
        name = (
            constraint if column == "headers" else constraint.replace("headers_nest", "clock_nests").replace("headers", "clock")
        )
        for text in texts:
            with pytest.raises(psycopg2.errors.CheckViolation) as refused:
                send(world, **{column: text})
            assert refused.value.diag.constraint_name == name
    for text in TAKEN:
        send(world, **{column: text})
    assert world.value("airline", "select count(*) from relaybox.outbox") == len(TAKEN)


def test_a_causal_sender_takes_each_clock_that_the_stream_takes(world: World) -> None:
    """The stream compares a sender's own entry as a number: 5.0 is 5. What it sets aside is an error that names the entry."""
    assert world.value("hub", """select relaybox_internal.clock_is_valid('{"A": 5.0}', 'A', 1, 5)""")
    sender = CausalSender("B")
    sender.delivered({"sender": "A", "epoch": 1, "index": 5, "clock": {"A": 5.0, "C": [Decimal("1.0"), 7]}})
    assert sender.clock == {"A": [1, 5], "C": [1, 7]}
    for entry in (1.5, "5", [1], [1, 2, 3], None, {}, True, Decimal("1e5000").copy_negate(), float("inf")):
        with pytest.raises(ValueError, match=r"clock of sender A at index 6: the entry of sender D is"):
            sender.delivered({"sender": "A", "epoch": 1, "index": 6, "clock": {"D": entry}})
    assert sender.clock == {"A": [1, 5], "C": [1, 7]}
