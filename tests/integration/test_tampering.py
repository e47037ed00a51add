"""Every kind of change by hand in a store is made, and docs/tampering.md says what detects it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.recovery.reanchoring import reanchor_hop
from tests.integration.tampering import HOP, SECTIONS, STATUS, TRANSFER, VERIFY, Tampering, tables
from tests.support.breaking import transfer_until
from tests.support.cli import Run, invoke
from tests.support.senders import declare, send_numbered
from tests.support.world import World, routes_file

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).parents[2] / "docs" / "tampering.md"
MARK = "<!-- The rest is made by tests/integration/test_tampering.py. -->"
WORLDS = {"kept": 0, "cleaned": 0, "reanchored": 0, "backlog": 2}
"""Each with what `relaybox status` ends with before anything is changed: 2 for a topic without a route."""

KINDS = [tampering for section in SECTIONS.values() for tampering in section]
ASK_ALL = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "0")) >= 200
"""`make test-faults` asks all three about every kind. Otherwise those are asked that the page names, or all three if it names none."""


def fill(world: World, name: str) -> None:
    """34 messages delivered in four batches, seven on the way to the last store, five waiting; one held, one set aside; a consumer."""
    world.cut_small_segments()
    world.change_route(**{**route_of(name), "topics": ["flights", "hotels"]})
    declare(world, "N")
    world.query("analytics", "select relaybox.subscribe('billing', 'flights')")
    send_numbered(world, "N", 1, 2, 3)
    world.send_many(14)
    world.send("hotel 1", "hotel 2", "hotel 3", topic="hotels")
    world.transfer_all()
    send_numbered(world, "N", 3, payload="forged")
    send_numbered(world, "N", 6, 4)
    world.send_many(11, prefix="n")
    world.transfer_all()
    consume(world)
    world.settle_all()
    if name == "cleaned":
        consume(world, everything=True)
        assert invoke("retention").exit_code == 0
        world.send_many(9, prefix="o")
        world.transfer_all()
        world.settle_all()
    world.send_many(7, prefix="p")
    world.transfer()
    if name == "reanchored":
        lose_newest_batch(world)
    world.send(*(f"waits-{n}" for n in range(1, 5)))
    world.send("waits-5", topic="hotels")
    if name == "backlog":
        leave_backlog(world)


def lose_newest_batch(world: World) -> None:
    """The first store goes back to before its newest batch, of whose seven messages it has six; the hop goes on."""
    for statement in (
        "delete from relaybox_internal.confirmation where hop = 'flights/1' and through_batch = 5",
        "delete from relaybox_internal.batch where hop = 'flights/1' and batch = 5",
        "update relaybox_internal.hop_out set batch = 4, log_position = 34, timeline = timeline + 1 where hop = 'flights/1'",
        "update relaybox_internal.hop_out set lower = (select upper from relaybox_internal.batch where hop = 'flights/1' and batch = 4)",
        "delete from relaybox.outbox where payload = 'p7'",
    ):
        world.query("airline", statement)
    found = reanchor_hop(world.first_hop, world.routes, recorded_by="test", reason="a test", dry_run=False)
    assert (found.adopted_count, len(found.ghosts)) == (7, 1)


def leave_backlog(world: World) -> None:
    """One batch of thirty messages is delivered; then the topic hotels is taken from the route, and goes on being sent."""
    world.send_many(25, prefix="q")
    transfer_until(world.first_hop, lambda progress: progress.batch == 6 and progress.published)
    world.settle_all()
    world.change_route(**{**route_of("kept"), "topics": ["flights"]})
    world.send("hotel 4", "hotel 5", "hotel 6", topic="hotels")


def route_of(name: str) -> dict[str, object]:
    topics = ["flights"] if name == "backlog" else ["flights", "hotels"]
    route = {"topics": topics, "order": "fifo", "limits": {"batch_rows": 10, "slice_rows": 5}}
    return {**route, **({"retention": {"replay_window_seconds": 0}} if name == "cleaned" else {})}


def consume(world: World, *, everything: bool = False) -> None:
    """Fetches by five and acknowledges: all there is, or ten."""
    with world.session("analytics", autocommit=True) as consumer, consumer.cursor() as cursor:
        done, turns = (None, None), 0
        while everything or turns < 3:
            cursor.execute("select stream_position, token from relaybox.fetch('billing', 5, %s, %s)", done)
            stream_positions = cursor.fetchall()
            if not stream_positions:
                return
            done, turns = stream_positions[-1], turns + 1


@pytest.fixture(scope="module")
def filled(make_template: Callable[[Callable[[World], None]], str]) -> Mapping[str, str]:
    return {name: make_template(partial(fill, name=name)) for name in WORLDS}


@pytest.fixture
def copy_of(
    filled: Mapping[str, str], make_world: Callable[..., AbstractContextManager[World]]
) -> Callable[[str], AbstractContextManager[World]]:
    """A copy of one of the worlds, with its relaybox.yaml."""

    @contextmanager
    def copy(name: str) -> Iterator[World]:
        with make_world(filled[name]) as world:
            routes_file(world.path.parent, route=route_of(name))
            yield world

    return copy


def said_by_verify(run: Run) -> str:
    """Everything that is wrong, as one text."""
    legs = [*run.document["hops"], run.document["end_to_end"]]
    told = [text for leg in legs for text in leg["contradictions"]]
    told += [f"{defect['kind']} at {defect['log_position']}" for leg in legs for defect in leg["defects"]]
    told += [f"{kind}: {text}" for one in run.document["streams"] for kind, texts in one["examples"].items() for text in texts]
    return "\n".join(told)


def try_hop(world: World) -> str:
    """A new message, and a transfer and a confirmation of every hop: the error that stopped it, or nothing."""
    try:
        world.send("after")
        world.transfer_all()
        world.settle_all()
    except errors.RelayboxError as error:
        return str(error)
    return ""


def ask(who: str, world: World, *, status_before: int) -> str:
    """The report of one of the three; empty if it detects nothing."""
    if who == HOP:
        return try_hop(world)
    if who == STATUS:
        status = invoke("status")
        return (status.stderr or "another exit code") if status.exit_code != status_before else ""
    verification = invoke("verify", "flights", "--json")
    return (said_by_verify(verification) or "another exit code") if verification.exit_code == 1 else ""


@pytest.mark.parametrize("world_name", WORLDS)
def test_nothing_is_reported_before_a_change(copy_of: Callable[[str], AbstractContextManager[World]], world_name: str) -> None:
    with copy_of(world_name) as world:
        verification = invoke("verify", "flights", "--json")
        assert (verification.exit_code, said_by_verify(verification)) == (3, "")
        assert invoke("status").exit_code == WORLDS[world_name]
        assert try_hop(world) == ""


@pytest.mark.parametrize("tampering", KINDS, ids=lambda tampering: f"{tampering.what} at {tampering.store}".replace(" ", "_"))
def test_each_change_by_hand_is_detected_as_the_page_says(
    copy_of: Callable[[str], AbstractContextManager[World]], tampering: Tampering
) -> None:
    with copy_of(tampering.world) as world:
        for statement in tampering.statements:
            if statement == TRANSFER:
                world.transfer_all()
            else:
                world.query(tampering.store, statement)
        asked = {VERIFY, STATUS, HOP} if ASK_ALL else tampering.detected_by or {VERIFY, STATUS, HOP}
        in_turn = [who for who in (VERIFY, STATUS, HOP) if who in asked]  # the hop changes what the others see
        told = {who: ask(who, world, status_before=WORLDS[tampering.world]) for who in in_turn}
        detected = {who for who, what in told.items() if what}
        assert detected == tampering.detected_by, told
        assert tampering.says in (told[VERIFY] if VERIFY in detected else "".join(told.values())), told


def test_g12_is_broken_in_more_than_twenty_ways_and_each_is_told_with_both_sides() -> None:
    """The kinds above whose expected report is an account that does not add up."""
    assert sum("in none of these" in kind.says or "in two" in kind.says for kind in KINDS) >= 20


def test_the_page_says_what_detects_each_change() -> None:
    """UPDATE_DOCS=1 writes the tables of docs/tampering.md anew."""
    text = PAGE.read_text(encoding="utf-8")
    written = text[: text.index(MARK) + len(MARK)] + "\n\n" + tables()
    if os.environ.get("UPDATE_DOCS") == "1":
        PAGE.write_text(written, encoding="utf-8")
        return
    assert text == written, "UPDATE_DOCS=1 pytest tests/integration/test_tampering.py -k page_says writes it"
