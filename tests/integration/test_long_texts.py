"""What a consumer or an operator says in words is bounded: a long text slows down nobody who lists it, and is never cut in silence."""

from __future__ import annotations

import psycopg2
import pytest

from relaybox.subscriptions.dead_letters import list_dead_letters
from tests.support.streams import STORE, deliver, nack
from tests.support.world import World

LONG = "repeat('x', 10000000)"
MEGABYTE = 1024 * 1024


@pytest.fixture
def refusing(world: World) -> World:
    """Three messages, and the subscription `billing`, which refuses each once."""
    deliver(world, 3)
    world.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    return world


def test_a_long_reason_of_a_refusal_is_cut_with_a_mark_and_never_fails(refusing: World) -> None:
    """A handler gives its traceback: the beginning and the end stay, and how much is gone is said. One of 4000 characters stays whole."""
    said = "'Traceback:' || repeat('ä', 10000000) || 'KeyError: 17'"
    refusing.query(STORE, f"select relaybox.nack('billing', stream_position, {said}) from relaybox.fetch('billing', 1)")
    refusing.query(STORE, "select relaybox.nack('billing', stream_position, repeat('ä', 4000)) from relaybox.fetch('billing', 1)")
    cut, whole = (
        detail for (detail,) in refusing.query(STORE, "select detail from relaybox.dead_letters order by dead_letter_id")
    )
    assert cut.startswith("Traceback:ää")
    assert cut.endswith("ääKeyError: 17")
    assert " ... [9996122 characters cut] ... " in cut
    assert len(cut) <= 4000
    assert cut.count("ä") + 9996122 == 10_000_000
    assert whole == "ä" * 4000


def test_a_refused_attempt_keeps_the_cut_reason(refusing: World) -> None:
    """Also before the message is a dead letter, and for a reason of blanks there is none."""
    refusing.query(STORE, "update relaybox_internal.subscription set nack_limit = 5")
    refusing.query(STORE, f"select relaybox.nack('billing', stream_position, {LONG}) from relaybox.fetch('billing', 1)")
    assert refusing.value(STORE, "select length(reason) from relaybox_internal.failed_attempt") <= 4000
    with pytest.raises(psycopg2.Error, match="with a reason") as refused:
        refusing.query(STORE, "select relaybox.nack('billing', stream_position, ' ') from relaybox.fetch('billing', 1)")
    assert refused.value.pgcode == "RB036"


REFUSED = {
    f"relaybox.replay('billing', 'earliest', {LONG})": "the reason has 10000000 characters, at most 4000 are kept",
    "relaybox.replay('billing', rpad('2026-07-01', 10000000), 'why')": "the start has 10000000 characters",
    "relaybox.replay('billing', '1', 'why', rpad('2026-07-01', 10000000), second_cursor => true)": "the end has 10000000 characters",
    f"relaybox_internal.ask_replay('billing', 'billing.replay', '1', '3', {LONG}, 'me')": "the reason has 10000000 characters",
    f"relaybox_internal.ask_replay('billing', 'billing.replay', '1', '3', 'why', {LONG})": "the name of who asks has 10000000 characters",
    f"relaybox.cancel_replay('billing', {LONG})": "the reason has 10000000 characters",
    f"relaybox.redrive('billing', {LONG})": "the reason has 10000000 characters",
    f"relaybox.drop_dead_letter(1, {LONG})": "the reason has 10000000 characters",
    f"relaybox.unsubscribe('billing', {LONG})": "the reason has 10000000 characters",
    f"relaybox_internal.skip_gap('flights', 's1', 1, {LONG}, 'me')": "the reason has 10000000 characters",
    f"relaybox_internal.skip_gap('flights', 's1', 1, 'why', {LONG})": "the name of who skips has 10000000 characters",
    f"relaybox.fetch('billing', 1, worker => {LONG})": "the name of the worker has 10000000 characters, at most 300 are kept",
    "relaybox.fetch('billing', 1, worker => '')": "the name of the worker is empty",
    f"relaybox.subscribe('billing', {LONG})": "there is no stream and no topic xxx",
    f"relaybox.subscribe('other', 'flights', {LONG})": "the start has 10000000 characters",
    f"relaybox.subscribe({LONG}, 'flights')": "must be 1 to 60",
    f"relaybox.fetch({LONG})": "there is no subscription xxx",
    f"relaybox.read_stream({LONG})": "there is no stream xxx",
    f"relaybox.read_log({LONG})": "hop xxx",
}


def test_any_other_long_text_is_refused_with_a_short_error(refusing: World) -> None:
    """Who gives it can give a shorter one. Nothing of it is kept, and the server's log does not get it back."""
    for call, said in REFUSED.items():
        with pytest.raises(psycopg2.Error) as refused:
            refusing.query(STORE, f"select * from {call}")
        assert refused.value.pgcode in {"RB036", "RB031", "RB032", "RB004"}, call
        assert said in str(refused.value), call
        assert len(str(refused.value)) < 1000, call


def test_listing_dead_letters_reads_the_beginning_of_payloads(refusing: World) -> None:
    """Of text and of bytes; the size is that of the whole. A single dead letter is shown whole."""
    refusing.query(STORE, f"update relaybox_internal.log set payload = repeat('p', {8 * MEGABYTE}) where log_position = 1")
    refusing.query(
        STORE,
        f"update relaybox_internal.log set payload = null, payload_bytes = decode(repeat('00', {8 * MEGABYTE}), 'hex') where log_position = 2",
    )
    for stream_position in (1, 2, 3):
        refusing.query(STORE, "select from relaybox.fetch('billing', 1, worker => 'a')")
        assert nack(refusing, stream_position) is True
    store = refusing.routes.store(STORE)
    first, second, third = list_dead_letters(store, payload_characters=300)
    assert first.payload == "p" * 300
    assert second.payload is not None
    assert (len(second.payload), set(second.payload)) == (300, {"A", "\n"})
    assert third.payload == "m3"
    assert [dead_letter.payload_size_bytes for dead_letter in (first, second, third)] == [8 * MEGABYTE, 8 * MEGABYTE, 2]
    assert [dead_letter.payload for dead_letter in list_dead_letters(store, payload_characters=0)] == ["", "", ""]
    (whole,) = list_dead_letters(store, dead_letter_id=first.dead_letter_id)
    assert whole.payload == "p" * 8 * MEGABYTE
